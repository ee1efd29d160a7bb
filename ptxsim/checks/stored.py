"""What the warps of one cluster have stored to an allocation, and which of their accesses nothing orders."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from ..memory.global_memory import Allocation

LARGEST = 16  # bytes of a unit


class Store(NamedTuple):
    """A store: by which actor, at which of its epochs, at which instruction."""

    actor: int
    epoch: int
    at: int


class Doubt(NamedTuple):
    """Units that a store writes though nothing orders it after another's: a race if it changes one of them.

    Without `before`, which is what they held, two warps store there at once: a race if they do not agree.
    """

    units: np.ndarray
    before: np.ndarray | None
    warp: int
    other: Store


class Stored:
    """The last store to each unit of an allocation: as many bytes as its accesses have, sixteen at most."""

    def __init__(self, allocation: Allocation, size: int) -> None:
        self.allocation = allocation
        self.unit = min(size, LARGEST)
        self.last = np.zeros(allocation.extent // self.unit, np.int32)  # numbers of stores; 0: nobody's
        self.stores: list[Store] = [Store(0, 0, -1)]
        self.doubts: list[Doubt] = []

    def units(self, offsets: np.ndarray, size: int) -> np.ndarray:
        """(lanes,) or (lanes, units of each access) at byte offsets."""
        if size < self.unit:
            self.last, self.unit = np.repeat(self.last, self.unit // size), size
        first = (offsets >> np.uint64(self.unit.bit_length() - 1)).astype(np.int64)
        return first if size == self.unit else first[:, None] + np.arange(size // self.unit)

    def unordered(self, last: np.ndarray, actor: int, known: np.ndarray) -> list[int]:
        """The numbers among `last` of stores by others that a clock does not cover."""
        found = []
        for number in np.unique(last).tolist():
            store = self.stores[number]
            if number and store.actor != actor and known[store.actor] < store.epoch:
                found.append(number)
        return found

    def content(self, units: np.ndarray) -> np.ndarray:
        """The bytes of some units, (units, bytes of each)."""
        return self.allocation.words[1][units[..., None] * self.unit + np.arange(self.unit)]

    def settle(self, agree: bool) -> list[Doubt]:
        """A store has been made, and `agree` says that every lane finds what it has stored: the doubts that are races.

        Units are those of the store, since nothing else comes between a doubt and its end.
        """
        doubts, self.doubts = self.doubts, []
        return [d for d in doubts if (not agree if d.before is None else (self.content(d.units) != d.before).any())]

    def place(self, unit: int) -> str:
        return f"byte {max(unit * self.unit - self.allocation.slack, 0)} of {self.allocation.name}"
