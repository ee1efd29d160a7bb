"""Stores by the warps of one cluster to an allocation, and unordered accesses among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ..memory.global_memory import Allocation

LARGEST = 16  # bytes of a unit


class Store(NamedTuple):
    """A store: actor, epoch, instruction."""

    actor: int
    epoch: int
    at: int


class Doubt(NamedTuple):
    """Units that an unordered store writes after another's: a race if it changes one.

    Without `before`, their previous content, two warps store at once: a race if their values differ.
    """

    units: np.ndarray
    before: np.ndarray | None
    warp: int
    other: Store


class Stored:
    """The last store to each unit (at most 16 bytes) of an allocation."""

    def __init__(self, allocation: Allocation, size: int) -> None:
        self.allocation = allocation
        self.unit = min(size, LARGEST)
        self.last = np.zeros(allocation.extent // self.unit, np.int32)  # store numbers; 0: none
        self.stores: list[Store] = [Store(0, 0, -1)]
        self.doubts: list[Doubt] = []

    def units(self, offsets: np.ndarray, size: int) -> np.ndarray:
        """Return the units at byte offsets: (lanes,) or (lanes, units per access)."""
        if size < self.unit:
            self.last, self.unit = np.repeat(self.last, self.unit // size), size
        first = (offsets >> np.uint64(self.unit.bit_length() - 1)).astype(np.int64)
        return first if size == self.unit else first[:, None] + np.arange(size // self.unit)

    def unordered(self, last: np.ndarray, actor: int, known: np.ndarray) -> list[int]:
        """Return the numbers in `last` of other actors' stores that a clock does not cover."""
        uncovered = []
        for number in np.unique(last).tolist():
            store = self.stores[number]
            if number and store.actor != actor and known[store.actor] < store.epoch:
                uncovered.append(number)
        return uncovered

    def content(self, units: np.ndarray) -> np.ndarray:
        """Return the bytes of units: (units, bytes per unit)."""
        return self.allocation.words[1][units[..., None] * self.unit + np.arange(self.unit)]

    def settle(self, agree: bool) -> list[Doubt]:
        """Return the doubts that are races, after a store; `agree`: every lane finds its value.

        The unit size is that of the store, since a doubt is settled before the next access.
        """
        doubts, self.doubts = self.doubts, []
        return [d for d in doubts if (not agree if d.before is None else (self.content(d.units) != d.before).any())]

    def location(self, unit: int) -> str:
        return f"byte {max(unit * self.unit - self.allocation.slack, 0)} of {self.allocation.name}"
