"""When a job of this run may measure, and which of several cards alike it takes: the first that no other job has.

At most as many jobs as the run has cards measure at once. Each has its card for as long as it measures and names it in
CUDA_VISIBLE_DEVICES by its UUID. Where there are processors to spare, Snakemake starts more jobs than that; what they
start waits here, with everything imported: starting a job takes a good part of what measuring a case does.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cutesnake.planning.machine import Machine, uuid_of
from cutesnake.runtime.locks import first_free, open_gpu_lock, open_lock

VISIBLE = "CUDA_VISIBLE_DEVICES"
AT_ONCE = "CUTESNAKE_CARDS"  # how many jobs of this run measure at once; without it nobody waits for the others
SLOTS = Path(".snakemake/cutesnake-cards")  # their locks; jobs of a run are started in its folder, which has one run
WAIT_SECONDS = 0.01


def started_ahead(cards: int, processors: int) -> int:
    """How many jobs may wait for one of `cards`: one each, if that leaves a processor for what needs no card."""
    return max(0, min(cards, processors - cards - 1))


@contextlib.contextmanager
def one_card(machine: Machine) -> Iterator[Machine]:
    """Have this process, and what it starts, see one card of `machine.alike()`; a lone one is seen anyway.

    Yields the machine as it is seen then. Waits until fewer jobs of this run measure than it has cards, and until a
    card is free. Who has one already need not wait again. Raises GpuError for a card that the driver does not
    answer for.
    """
    with contextlib.ExitStack() as stack:
        if at_once := int(os.environ.get(AT_ONCE) or 0):
            _, handle = first_free([functools.partial(_open_slot, number) for number in range(at_once)], WAIT_SECONDS)
            stack.callback(os.close, handle)
            stack.enter_context(_environment(AT_ONCE, None))
        if len(cards := machine.alike()) > 1:
            locks = [functools.partial(open_gpu_lock, f"taken-{card.uuid_hash}") for card in cards]
            chosen, handle = first_free(locks, WAIT_SECONDS)
            stack.callback(os.close, handle)
            stack.enter_context(_environment(VISIBLE, uuid_of(cards[chosen])))
            machine = replace(machine, selected=cards[chosen].index, cards=(cards[chosen].index,))
        yield machine


def _open_slot(number: int) -> int:
    SLOTS.mkdir(parents=True, exist_ok=True)
    return open_lock(SLOTS / f"{number}.lock", 0o666)


@contextlib.contextmanager
def _environment(name: str, value: str | None) -> Iterator[None]:
    """A variable for as long as this lasts; None for not set."""
    before = os.environ.pop(name, None)
    try:
        if value is not None:
            os.environ[name] = value
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before
