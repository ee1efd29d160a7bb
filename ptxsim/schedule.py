"""Schedules: who goes next, and when asynchronous work completes.

`eager` completes asynchronous work at once, `late` only when no thread can go on; `tma_late` and `mma_late` mix the
two; `random` draws, from its seed, a habit per kind of work and every single choice; `warps` is like random, but no
two warps run in step and some are a thousand times slower than others. Tensor-core work stays in order within its
pipe; copies do not.
"""

from __future__ import annotations

import random

NAMES = ("random", "eager", "late", "tma_late", "mma_late", "warps")
DEFAULT = (("eager", 0), ("late", 0), ("tma_late", 0), ("mma_late", 0), ("random", 0), ("random", 1), ("random", 2))


class Schedule:
    """A named schedule with its seed. Raises ValueError for an unknown name."""

    def __init__(self, name: str = "random", seed: int = 0) -> None:
        if name not in NAMES:
            raise ValueError(f"unknown schedule {name!r}: one of {', '.join(NAMES)}")
        self.name, self.seed = name, seed
        self.rng = random.Random(f"{name}-{seed}")
        habit = {"eager": 1.0, "late": 0.0}
        self.apart = name == "warps"
        self.random = name in ("random", "warps")
        self.weights: dict[tuple[int, int], float] = {}
        self.turns = 0
        if self.random:
            self.habits = {k: self.rng.choice((0.02, 0.1, 0.3, 0.6)) for k in ("copy", "mma", "store", "ld")}
        else:
            tma = habit.get(name, 0.0 if name == "tma_late" else 1.0)
            mma = habit.get(name, 0.0 if name == "mma_late" else 1.0)
            self.habits = {"copy": tma, "store": tma, "mma": mma, "ld": mma}

    def quantum(self) -> int:
        """Blocks a fragment may run before another gets its turn."""
        return self.rng.choice((4, 16, 64, 256)) if self.random else 512

    def _fragment(self, fragments: list) -> int:
        """Index of the fragment that goes next."""
        if len(fragments) == 1 or not self.random:
            return 0
        if not self.apart:
            return self.rng.randrange(len(fragments))
        self.turns += 1
        if self.turns % 400 == 1:
            self.weights = {}
        weights = []
        for f in fragments:
            key = (f.cta.rank, f.lo)
            if key not in self.weights:
                self.weights[key] = self.rng.choice((1.0, 1.0, 0.03, 0.001))
            weights.append(self.weights[key])
        return self.rng.choices(range(len(fragments)), weights)[0]

    def choose(self, fragments: list, queues: list[str]) -> int:
        """Index into fragments followed by queues (the kind of each queue's first task); not both are empty."""
        if not queues:
            return self._fragment(fragments)
        n = len(fragments)
        if not self.random:
            for k, kind in enumerate(queues):
                if self.habits[kind] == 1.0:
                    return n + k
            return 0 if fragments else n
        ready = [k for k, kind in enumerate(queues) if not fragments or self.rng.random() < self.habits[kind]]
        return n + self.rng.choice(ready) if ready else self._fragment(fragments)
