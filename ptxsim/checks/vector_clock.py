"""Vector clocks: what somebody knows to have happened, actor by actor."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.work import Token

CAPACITY = 1024  # actors


class Warp(NamedTuple):
    """A warp as an actor: the rank of its CTA, its number there."""

    rank: int
    warp: int


class Clock:
    """Per actor the last epoch that is covered: of anything, and of what the async proxy can see."""

    __slots__ = ("known", "proxied")

    def __init__(self) -> None:
        self.known, self.proxied = np.zeros(CAPACITY, np.int64), np.zeros(CAPACITY, np.int64)

    def learn(self, other: Clock | Token) -> None:
        np.maximum(self.known, other.known, out=self.known)
        np.maximum(self.proxied, other.proxied, out=self.proxied)

    def cover(self, actor: int, epoch: int) -> None:
        """Everything an actor did up to an epoch."""
        self.known[actor] = max(self.known[actor], epoch)


class Phases:
    """The clocks of an mbarrier: of the phases that have completed, and of the one that is filling."""

    def __init__(self) -> None:
        self.completed, self.filling = Clock(), Clock()
