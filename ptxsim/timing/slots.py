"""A pipe that takes one thing at a time, in whatever order those that want it come to the clock."""

from __future__ import annotations


class Slots:
    """A pipe that takes one instruction every so many cycles; later requests may fill the gaps earlier ones left."""

    __slots__ = ("cycles", "taken")

    def __init__(self, cycles: float) -> None:
        self.cycles = max(cycles, 0.25)
        self.taken: set[int] = set()

    def take(self, at: float) -> float:
        """The first time from `at` on at which the pipe takes an instruction."""
        slot = int(at / self.cycles)
        taken = self.taken
        if slot not in taken:
            taken.add(slot)
            return at
        slot += 1
        while slot in taken:
            slot += 1
        taken.add(slot)
        return slot * self.cycles
