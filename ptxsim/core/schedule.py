"""Schedules: which thread runs next, and when asynchronous work completes.

`eager` completes asynchronous work at once, `late` only when no thread can run; `tma_late` and `mma_late` mix these.
`random` draws a completion rate per kind of work and every single choice from its seed. `warps` is like random, but no
two warps run in step and some are a thousand times slower than others. Tensor-core work stays in order within its
pipe; copies do not. `hold:…` names what is delayed while all else completes at once (see adversarial.py).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .adversarial import PREFIX, Delay
from .work import Heads, Kind, Task

if TYPE_CHECKING:
    from .warp import Fragment

NAMES = ("random", "eager", "late", "tma_late", "mma_late", "warps")
_DRAWN = (("random", 0), ("random", 1), ("random", 2), ("warps", 0))
DEFAULT = (("eager", 0), ("late", 0), ("tma_late", 0), ("mma_late", 0), *_DRAWN)

# Deterministic schedules: whether each kind of work completes at once.
_FIXED: dict[str, dict[Kind, bool]] = {
    "eager": {"copy": True, "store": True, "mma": True},
    "late": {"copy": False, "store": False, "mma": False},
    "tma_late": {"copy": False, "store": False, "mma": True},
    "mma_late": {"copy": True, "store": True, "mma": False},
}
_BACKWARDS = ("late", "tma_late")  # and seeds that are odd
_HABITS = (0.02, 0.1, 0.3, 0.6)  # completion probabilities per kind of work
_QUANTA = (4, 16, 64, 256)
_SPEEDS = (1.0, 1.0, 0.03, 0.001)  # relative speeds of warps in `warps`
MANY = 64  # queued tasks beyond which one draw decides for all
_SPEED_SLICES = 400  # slices between changes of warp speed


class Schedule:
    """A named schedule with a seed. Raises ValueError for an unknown name.

    `apart` says that warps are not run in step; `delay` is what an adversarial schedule delays.
    `backwards` runs the last clusters first in kernels that poll global memory.
    """

    def __init__(self, name: str = "random", seed: int = 0) -> None:
        self.delay = Delay(name) if name.startswith(PREFIX) else None
        if self.delay is None and name not in NAMES:
            raise ValueError(f"unknown schedule {name!r}: one of {', '.join(NAMES)}")
        self.name, self.seed = name, seed
        self.apart = name == "warps"
        self.backwards = name in _BACKWARDS or (name in ("random", "warps") and seed % 2 == 1)
        self.at_once = _FIXED.get("eager" if self.delay else name)  # None: random
        self.launches = 0  # that it has ordered or will order
        self.rng = random.Random(f"{name}-{seed}")
        self.speeds: dict[tuple[int, int], float] = {}  # of warps, by rank and first thread
        self.slices = 0
        self.habits: dict[Kind, float] = {}
        if self.at_once is None:
            self.habits = {"copy": 0.0, "mma": 0.0, "store": 0.0}
            for kind in self.habits:
                self.habits[kind] = self.rng.choice(_HABITS)
            self.rng.choice(_HABITS)  # unused draw, kept so that seeds keep their meaning

    def begin(self, launch: int, cluster: int) -> None:
        """Start a cluster, whose choices depend on no other cluster.

        The first cluster continues with the draws of the seed.
        """
        if self.at_once is None and (launch or cluster):
            self.rng = random.Random(f"{self.name}-{self.seed}-{launch}-{cluster}")
            self.speeds, self.slices = {}, 0

    def quantum(self) -> int:
        """Return the number of blocks in the next time slice."""
        return self.rng.choice(_QUANTA) if self.at_once is None else 512

    def choose(self, fragments: Sequence[Fragment], tasks: Sequence[Task]) -> int:
        """Return an index into fragments, then tasks (each pipe's first), not both empty."""
        n = len(fragments)
        if not tasks:
            return self._fragment(fragments)
        if self.at_once is not None:
            # Thousands of st.async may be queued; scan them only if one could complete.
            some = not isinstance(tasks, Heads) or any(
                self.at_once[kind] for kind, count in tasks.kinds.items() if count
            )
            for k, task in enumerate(tasks if some else ()):
                if self.at_once[task.kind] and (self.delay is None or not self.delay.applies_to_task(task)):
                    return n + k
            return 0 if fragments else n
        if len(tasks) > MANY:
            return self._choose_of_many(fragments, tasks)
        ready = [k for k, task in enumerate(tasks) if not n or self.rng.random() < self.habits[task.kind]]
        return n + self.rng.choice(ready) if ready else self._fragment(fragments)

    def _choose_of_many(self, fragments: Sequence[Fragment], tasks: Sequence[Task]) -> int:
        """Choose among thousands of st.async tasks with one random draw, as if of one kind."""
        n, count = len(fragments), len(tasks)
        k = self.rng.randrange(count)
        if not n or self.rng.random() > (1 - self.habits[tasks[k].kind]) ** count:
            return n + k
        return self._fragment(fragments)

    def _fragment(self, fragments: Sequence[Fragment]) -> int:
        """Return the index of the next fragment."""
        if len(fragments) == 1 or self.at_once is not None:
            return 0
        if not self.apart:
            return self.rng.randrange(len(fragments))
        self.slices += 1
        if self.slices % _SPEED_SLICES == 1:
            self.speeds = {}
        weights = []
        for f in fragments:
            key = (f.cta.rank, f.lo)
            if key not in self.speeds:
                self.speeds[key] = self.rng.choice(_SPEEDS)
            weights.append(self.speeds[key])
        return self.rng.choices(range(len(fragments)), weights)[0]
