"""When a job of this run may measure, and which of several cards alike it takes: the first that no other job has.

At most as many jobs as the run has cards measure at once. Each has its card for as long as it measures and names it in
CUDA_VISIBLE_DEVICES by its UUID. Where there are processors to spare, Snakemake starts more jobs than that; what they
start waits here, with everything imported: starting a job takes a good part of what measuring a case does.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from cutesnake.planning.machine import Machine, uuid_of
from cutesnake.runtime.gpu_lock import open_lock

VISIBLE = "CUDA_VISIBLE_DEVICES"
AT_ONCE = "CUTESNAKE_CARDS"  # how many jobs of this run measure at once; without it nobody waits for the others
TURNS = Path(".snakemake/cutesnake-cards")  # their locks; jobs of a run are started in its folder, which has one run
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
            _, handle = _first_free([functools.partial(_open_turn, number) for number in range(at_once)])
            stack.callback(os.close, handle)
            stack.enter_context(_environment(AT_ONCE, None))
        if len(cards := machine.alike()) > 1:
            chosen, handle = _first_free([functools.partial(open_lock, f"taken-{c.uuid_hash}") for c in cards])
            stack.callback(os.close, handle)
            stack.enter_context(_environment(VISIBLE, uuid_of(cards[chosen])))
            machine = replace(machine, selected=cards[chosen].index, cards=(cards[chosen].index,))
        yield machine


def _open_turn(number: int) -> int:
    TURNS.mkdir(parents=True, exist_ok=True)
    return os.open(TURNS / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _first_free(locks: Sequence[Callable[[], int]]) -> tuple[int, int]:
    """The place of the first lock that nobody has, as soon as there is one, and its descriptor, which holds it.

    Each function opens one. They are not the lock of measuring on a card, which the measuring process takes itself.
    """
    while True:
        for place, opened in enumerate(locks):
            handle = opened()
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return place, handle
            except BlockingIOError:
                os.close(handle)
        time.sleep(WAIT_SECONDS)


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
