"""Check "small-grid": run a persistent kernel again with several work items a CTA.

Rings of stages then wrap, and buffers of one item are reused by the next, in workloads with few items. A launch that
prefers larger clusters runs again in those, too.
"""

import math
from collections.abc import Callable
from dataclasses import replace

from ..frontend.program import program_of
from .finding import Finding
from .launch import Dim3, Launch
from .machine import Machine
from .snapshot import Snapshot

SMALL_GRID = "small-grid"
SCHEDULE = "random"  # the only schedule with a second run
LARGEST = 1 << 28  # bytes of buffers beyond which no copy is kept


class SmallGrid:
    """A second run in a smaller grid or preferred clusters; outputs are discarded."""

    def __init__(
        self,
        launch: Launch,
        machine_of: Callable[[Launch], Machine],
        faulty: Callable[[list[Finding]], bool],
        findings: list[Finding],
    ) -> None:
        """Copy the memory.

        Findings are added to `findings`. After a `faulty` run there is no second one.
        """
        self.launch, self.machine_of, self.faulty, self.findings = launch, machine_of, faulty, findings
        self.again = replace(launch, grid=smaller_grid(launch))
        if not any(map(int.__mod__, self.again.grid, launch.preferred_cluster)):
            self.again = replace(self.again, cluster=launch.preferred_cluster)
        other = (self.again.grid, self.again.cluster) != (launch.grid, launch.cluster)
        small = sum(a.size for a in launch.memory.allocations) <= LARGEST
        self.before = Snapshot([launch]) if small and other else None

    def run(self, own: Machine) -> None:
        """Run again, and add the coverage to that of the launch's `own` run."""
        if self.before is None or self.faulty(own.findings):
            return
        after = Snapshot([self.launch])
        self.before.restore()
        machine = self.machine_of(self.again)
        machine.run()
        after.restore()
        own.coverage.merge(machine.coverage)
        note = "; in a second run"
        if self.again.grid != self.launch.grid:
            note += f" in a grid of {self.again.grid}, not {self.launch.grid}, so that each CTA has more work items"
        if self.again.cluster != self.launch.cluster:
            note += f" in the preferred clusters of {self.again.cluster}, not {self.launch.cluster}"
        self.findings += [replace(finding, message=finding.message + note) for finding in machine.findings]


def smaller_grid(launch: Launch) -> Dim3:
    """Return the grid with one cluster along each axis that strides work items.

    A grid is a multiple of the preferred cluster; in a smaller one, a stride in such clusters would be 0.
    """
    cluster = tuple(map(math.lcm, launch.cluster, launch.preferred_cluster))
    if launch.grid == cluster:
        return launch.grid
    axes = program_of(launch.module, launch.kernel).strided_axes
    x, y, z = (cluster[n] if n in axes else launch.grid[n] for n in range(3))
    return x, y, z
