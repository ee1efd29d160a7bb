"""A pipe with one instruction per slot, reserved in any order of time."""


class Slots:
    """A pipe that accepts one instruction per `cycles`; later requests may fill earlier gaps."""

    __slots__ = ("cycles", "following")

    def __init__(self, cycles: float) -> None:
        self.cycles = max(cycles, 0.25)
        self.following: dict[int, int] = {}  # taken slot → a later slot with none free before it

    def take(self, at: float) -> float:
        """Reserve and return the first free time from `at` on."""
        slot = int(at / self.cycles)
        following = self.following
        if slot not in following:
            following[slot] = slot + 1
            return at
        free = following[slot]
        while free in following:
            free = following[free]
        following[free] = free + 1
        while slot != free:  # path compression
            following[slot], slot = free + 1, following[slot]
        return free * self.cycles
