"""The race check's view of global memory: which warp may touch what, on the trail that a launch leaves (trail.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..work import Origin
from .clocks import Clocks
from .trail import Copy, Part, Trail, rows_of

if TYPE_CHECKING:
    from ..cluster import Cluster
    from ..memory import Access, Allocation
    from ..warp import Fragment


class GlobalClocks(Clocks):
    """Clocks that also follow global memory."""

    def __init__(self, cluster: Cluster, trail: Trail) -> None:
        super().__init__(cluster)
        self.trail = trail
        trail.begin_cluster()
        self.before = self.actor(("launch before",), "the launch before")

    def dependency_waited(self, f: Fragment) -> None:
        for warp in self._warps(f):
            self.warps[warp].cover(self.before, 1)

    def global_access(self, f: Fragment, allocation: Allocation, offsets: np.ndarray, access: Access) -> None:
        trail = self.trail
        if access.ordered:
            words = [(allocation.address, int(x)) for x in np.unique(offsets)]
            trail.meet(words, write=access.write, read=access.atomic or not access.write)
        waited = trail.before is None or all(self.warps[warp].known[self.before] for warp in self._warps(f))
        trail.touch(f, allocation, rows_of(offsets, access.size), None, access, waited)

    def global_copied(
        self, allocation: Allocation, origin: Origin, part: Part, write: bool, combines: bool = False
    ) -> None:
        waited = self.trail.before is None or bool(origin.token.known[self.before])
        access = Copy(origin.at, write, combines)
        self.trail.touch(origin.fragment, allocation, part, part, access, waited)
