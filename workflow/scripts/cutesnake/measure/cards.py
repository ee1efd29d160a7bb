"""Which of several cards alike measures a case: the first that no other job of this machine has.

As many jobs as Snakemake's resource `gpu` allows are under way at once. Each takes a card for as long as it lives and
names it in CUDA_VISIBLE_DEVICES by its UUID, so that it has a worker and a lock of its own.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator

from cutesnake.measure.gpu_lock import open_lock
from cutesnake.plan.machine import Device, Machine, uuid_of

VISIBLE = "CUDA_VISIBLE_DEVICES"
WAIT_SECONDS = 0.05


@contextlib.contextmanager
def one_card(machine: Machine) -> Iterator[None]:
    """Have this process, and what it starts, see one card of `machine.alike()`; a lone one is seen anyway.

    Waits until one is free. Raises MachineError for a card that the driver does not answer for.
    """
    cards = machine.alike()
    if len(cards) < 2:
        yield
        return
    card, handle = _take(cards)
    before = os.environ.get(VISIBLE)
    try:
        os.environ[VISIBLE] = uuid_of(card)
        yield
    finally:
        os.close(handle)
        if before is None:
            os.environ.pop(VISIBLE, None)
        else:
            os.environ[VISIBLE] = before


def _take(cards: tuple[Device, ...]) -> tuple[Device, int]:
    """A card and the lock that stands for having it, which goes with the process; not the lock of measuring on it."""
    while True:
        for card in cards:
            handle = open_lock(f"taken-{card.uuid_hash}")
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return card, handle
            except BlockingIOError:
                os.close(handle)
        time.sleep(WAIT_SECONDS)
