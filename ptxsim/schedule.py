"""Schedules: who goes next, and when asynchronous work completes.

`eager` completes asynchronous work at once, `late` only when no thread can go on; `tma_late` and `mma_late` mix the
two; `random` draws, from its seed, a habit per kind of work and every single choice. Tensor-core work stays in
order within its pipe; copies do not.
"""

from __future__ import annotations

import random

NAMES = ("random", "eager", "late", "tma_late", "mma_late")
DEFAULT = (("eager", 0), ("late", 0), ("tma_late", 0), ("mma_late", 0), ("random", 0), ("random", 1), ("random", 2))


class Schedule:
    """A named schedule with its seed. Raises ValueError for an unknown name."""

    def __init__(self, name: str = "random", seed: int = 0) -> None:
        if name not in NAMES:
            raise ValueError(f"unknown schedule {name!r}: one of {', '.join(NAMES)}")
        self.name, self.seed = name, seed
        self.rng = random.Random(f"{name}-{seed}")
        habit = {"eager": 1.0, "late": 0.0}
        if name == "random":
            self.habits = {k: self.rng.choice((0.02, 0.1, 0.3, 0.6)) for k in ("copy", "mma", "store", "ld")}
        else:
            tma = habit.get(name, 0.0 if name == "tma_late" else 1.0)
            mma = habit.get(name, 0.0 if name == "mma_late" else 1.0)
            self.habits = {"copy": tma, "store": tma, "mma": mma, "ld": mma}

    def quantum(self) -> int:
        """Blocks a fragment may run before another gets its turn."""
        return self.rng.choice((4, 16, 64, 256)) if self.name == "random" else 512

    def choose(self, fragments: int, queues: list[str]) -> int:
        """Index into fragments followed by queues; both may be empty, not at once."""
        if not queues:
            return self.rng.randrange(fragments) if self.name == "random" and fragments > 1 else 0
        if self.name != "random":
            for n, kind in enumerate(queues):
                if self.habits[kind] == 1.0:
                    return fragments + n
            return 0 if fragments else fragments
        ready = [n for n, kind in enumerate(queues) if not fragments or self.rng.random() < self.habits[kind]]
        if ready:
            return fragments + self.rng.choice(ready)
        return self.rng.randrange(fragments) if fragments > 1 else 0
