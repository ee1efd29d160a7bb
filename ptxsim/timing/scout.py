"""Survey of a grid's work per cluster, without clock and data.

A scouted cluster runs with its warps in step and without copies and products. It counts warp instructions and the
global memory accessed. A few clusters suffice: where work depends on one or two grid axes, clusters along these axes
are scouted and the others interpolated.
"""

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ..core.cluster import Cluster, Stuck
from ..core.launch import Dim3, Launch
from ..core.machine import Machine
from ..core.observer import Observer
from ..core.registers import RegisterFile
from ..core.schedule import Schedule
from ..core.warp import Fragment
from ..core.work import Pipe, Task
from ..memory.global_memory import Access, Allocation
from .engines import Copied, copied, skip

LIMIT = 500_000  # step limit of a scouted cluster
EQUAL_WORK = 0.02  # relative difference of work up to which clusters count as equal
SAME_BYTES = 0.75  # most distinct share of two clusters' reads at which they count as shared
_ALONG = 16  # clusters scouted along an axis of the grid
_TABLE = 128  # clusters scouted along two axes at once
_PROBES = 8  # clusters that test whether work follows the axes
_FOLLOWS = 0.05  # mean error, relative to the largest work, up to which it does
_GOLDEN = (math.sqrt(5) - 1) / 2  # its multiples modulo 1 are evenly spread
_MAX_ODD, _MAX_RATIO = (0.1, 3.0)  # most edge clusters (share), and their most work (relative to the median)
_GRAIN = 7  # address bits within an L2 line
_SECTOR = 5  # address bits within a sector


@dataclass(frozen=True, slots=True)
class Scouted:
    """One cluster's warp instructions, bytes by allocation, L2 lines read, and PTX lines run."""

    work: float
    read: dict[int, float]
    written: dict[int, float]
    chunks: frozenset[tuple[int, int]]
    lines: frozenset[int]


class Witness(Observer):
    """Records global memory of ordinary loads, and saves what ordinary stores overwrite.

    A sector that a cluster loads again counts once: its SM or L2 has it.
    """

    def __init__(self) -> None:
        self.read: dict[int, float] = {}
        self.written: dict[int, float] = {}
        self.chunks: set[tuple[int, int]] = set()
        self.sectors: set[tuple[int, int]] = set()
        self.saved: list[tuple[Allocation, np.ndarray, np.ndarray]] = []
        self.divisions: dict[int, list[int]] = {}  # instruction → [warps on the slow path, warps]

    def note(self, allocation: Allocation, copy: Copied) -> None:
        """Record a copy's read or write of an allocation."""
        moved = self.written if copy.writes else self.read
        moved[allocation.address] = moved.get(allocation.address, 0.0) + copy.size
        if not copy.writes:
            self.chunks.add((allocation.address, (copy.address - allocation.address) >> _GRAIN))

    def global_access(self, f: Fragment, allocation: Allocation, offsets: np.ndarray, access: Access) -> None:
        at = offsets.astype(np.int64)
        if access.write:
            cells = at[:, None] + np.arange(access.size)
            self.saved.append((allocation, cells, allocation.words[1][cells]))
            self.written[allocation.address] = self.written.get(allocation.address, 0.0) + cells.size
        else:
            for chunk in set((at >> _GRAIN).tolist()):
                self.chunks.add((allocation.address, chunk))
            requested = {(allocation.address, sector) for sector in set((at >> _SECTOR).tolist())} - self.sectors
            self.sectors |= requested
            size = min(len(requested) << _SECTOR, allocation.size)
            self.read[allocation.address] = self.read.get(allocation.address, 0.0) + size


class Scout(Cluster):
    """A cluster that skips copies and products, but records the memory that copies access."""

    witness: Witness

    def post(self, pipe: Pipe, task: Task) -> None:
        result = copied(task)
        allocation = None if result is None else self.machine.memory.find(result.address)
        if result is not None and allocation is not None:
            self.witness.note(allocation, result)
        super().post(pipe, task)

    def complete(self, pipe: Pipe) -> None:
        task = self.pipes.take(pipe)
        self.progress += 1
        self.steps = 0
        if not skip(task):
            task.run()


def scout(launch: Launch, indices: list[Dim3]) -> Scouted | None:
    """Return the work of one cluster; None if it cannot end by itself."""
    machine = Machine(launch, Schedule("eager"), step_limit=LIMIT)
    witness = run_alone(Scout, machine, indices)
    if witness is None:
        return None
    machine.counts.finish(machine.program.blocks, machine.visits, machine.memory)
    program, blocks = machine.program, machine.program.blocks
    ran = frozenset(ins.line for n in machine.visits for ins in program.instructions[blocks[n].first : blocks[n].last])
    chunks = frozenset(witness.chunks)
    return Scouted(float(machine.counts.warp_instructions), witness.read, witness.written, chunks, ran)


def run_alone(kind: type[Scout], machine: Machine, indices: list[Dim3]) -> Witness | None:
    """Run one cluster without lasting stores; return its record, None if stuck."""
    launch, (cx, cy, cz) = machine.launch, machine.launch.cluster
    pool = [RegisterFile(launch.kernel.registers, 32 * launch.warps) for _ in range(cx * cy * cz)]
    cluster = kind(machine, indices, pool)
    cluster.observer = cluster.witness = witness = Witness()
    for cta in cluster.ctas:
        cta.shared.fill(0)
    try:
        cluster.run()
    except Stuck:
        return None
    finally:
        for allocation, cells, before in reversed(witness.saved):
            allocation.words[1][cells] = before
    return witness


@dataclass(frozen=True, slots=True)
class Survey:
    """Work of every cluster, and bytes read and written by allocation over the grid.

    `distinct` is, by allocation, the share of what neighbouring clusters read that is distinct.
    `but_for_edges` says that nearly all scouted clusters have equal work, and none of the others much more.
    `slow_divisions` is, by PTX line, the share of a warp's divisions on the slow path (divisions.py).
    `lines` are the PTX lines that scouted clusters ran. `apart` is, by allocation, how far apart in grid order
    clusters read the same bytes, 1 or 2; others are further apart, if any do.
    """

    work: tuple[float, ...]
    read: dict[int, float]
    written: dict[int, float]
    distinct: dict[int, float]
    but_for_edges: bool = False
    slow_divisions: dict[int, float] = field(default_factory=dict)
    lines: frozenset[int] = frozenset()
    apart: dict[int, int] = field(default_factory=dict)

    @property
    def equal(self) -> bool:
        return max(self.work) - min(self.work) <= EQUAL_WORK * max(self.work)


class Surveyor:
    """Scouts clusters of a launch, each at most once."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.clusters = list(launch.clusters())
        self.numbers = {indices[0]: number for number, indices in enumerate(self.clusters)}  # by their first CTA
        self.seen: dict[int, Scouted] = {}

    def scout_clusters(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if number not in self.seen and (result := scout(self.launch, self.clusters[number])) is not None:
                self.seen[number] = result

    def survey(self) -> Survey | None:
        """Survey a few clusters, more if uneven; None if all are stuck."""
        n = len(self.clusters)
        self.scout_clusters(sorted({0, min(1, n - 1), min(2, n - 1), n // 2, n - 1}))
        if not self.seen:
            return None
        works = [x.work for x in self.seen.values()]
        equal = max(works) - min(works) <= EQUAL_WORK * max(works)
        work = (max(works),) * n if equal else self._by_axis()
        distinct = self._distinct(1)
        apart = {
            key: by
            for by, shares in ((2, self._distinct(2)), (1, distinct))
            for key in shares
            if shares[key] < SAME_BYTES
        }
        scale = sum(work) / sum(x.work for x in self.seen.values())
        read, written = (
            _total([getattr(x, attribute) for x in self.seen.values()], scale) for attribute in ("read", "written")
        )
        lines = frozenset[int]().union(*(x.lines for x in self.seen.values()))
        return Survey(work, read, written, distinct, self._but_for_edges(), lines=lines, apart=apart)

    def _distinct(self, apart: int) -> dict[int, float]:
        """Return, by allocation, distinct over all lines that clusters so far apart read."""
        requested, different = Counter[int](), Counter[int]()
        pairs = ((x.chunks, self.seen[k + apart].chunks) for k, x in self.seen.items() if k + apart in self.seen)
        for first, second in pairs:
            requested.update(allocation for chunks in (first, second) for allocation, _ in chunks)
            different.update(allocation for allocation, _ in first | second)
        return {allocation: different[allocation] / count for allocation, count in requested.items()}

    def _but_for_edges(self) -> bool:
        works = [x.work for x in self.seen.values()]
        usual = float(np.median(works))
        odd = sum(abs(work - usual) > EQUAL_WORK * usual for work in works)
        return odd <= _MAX_ODD * len(works) and max(works) <= _MAX_RATIO * usual

    def _by_axis(self) -> tuple[float, ...]:
        """Return the work of all clusters, interpolated along the best one or two grid axes."""
        n = len(self.clusters)
        probes = sorted({int(n * (k * _GOLDEN % 1)) for k in range(1, _PROBES + 1)})
        self.scout_clusters(probes)
        self.scout_clusters(min(k + 1, n - 1) for k in probes)  # neighbours, to see what they share
        axes = [axis for axis in range(3) if len(self._sampled(axis, _ALONG)) > 1]
        for axis in axes:
            self.scout_clusters(self._numbers({axis: self._sampled(axis, _ALONG)}))
        best, least = min((self._with_error(self._along_axis(axis)) for axis in axes), key=lambda result: result[1])
        for pair in itertools.combinations(axes, 2):
            if self._error(best, probes) <= _FOLLOWS * max(x.work for x in self.seen.values()):
                break
            work, error = self._with_error(self._along_two(*pair))
            if error < least:
                best, least = work, error
        return best

    def _with_error(self, work: tuple[float, ...]) -> tuple[tuple[float, ...], float]:
        return work, self._error(work, self.seen)

    def _error(self, work: tuple[float, ...], numbers: Iterable[int]) -> float:
        """Return the mean absolute difference between estimated and scouted work."""
        result = [abs(work[number] - self.seen[number].work) for number in numbers if number in self.seen]
        return float(np.mean(result)) if result else math.inf

    def _sampled(self, axis: int, most: int) -> list[int]:
        """Return about `most` values along an axis, including the first and the last."""
        values = sorted({indices[0][axis] for indices in self.clusters})
        return sorted({*values[:: -(-len(values) // most)], values[-1]})

    def _numbers(self, values: dict[int, list[int]]) -> list[int]:
        """Return the clusters with these values along some axes, and the first along the others."""
        ranges = [values.get(axis, [0]) for axis in range(3)]
        return [self.numbers[index] for index in itertools.product(*ranges) if index in self.numbers]

    def _along_axis(self, axis: int) -> tuple[float, ...]:
        points: dict[int, list[float]] = {}
        for number, result in self.seen.items():
            points.setdefault(self.clusters[number][0][axis], []).append(result.work)
        known = sorted(points)
        means = [float(np.mean(points[value])) for value in known]
        return tuple(np.interp([indices[0][axis] for indices in self.clusters], known, means).tolist())

    def _along_two(self, first: int, second: int) -> tuple[float, ...]:
        """Interpolate work bilinearly in a table of clusters scouted along two axes."""
        rows_at = self._sampled(first, _ALONG)
        columns_at = self._sampled(second, max(_TABLE // len(rows_at), 2))
        self.scout_clusters(self._numbers({first: rows_at, second: columns_at}))
        positions = [indices[0][second] for indices in self.clusters]
        known: list[int] = []
        rows: list[np.ndarray] = []
        for value in rows_at:
            seen = [n for n in self._numbers({first: [value], second: columns_at}) if n in self.seen]
            if seen:
                known.append(value)
                rows.append(
                    np.interp(positions, [self.clusters[n][0][second] for n in seen], [self._work(n) for n in seen])
                )
        table, every = np.stack(rows), np.arange(len(positions))
        at = np.interp([indices[0][first] for indices in self.clusters], known, range(len(known)))
        low = np.floor(at).astype(int)
        high = np.minimum(low + 1, len(known) - 1)
        work = table[low, every] + (at - low) * (table[high, every] - table[low, every])
        return tuple(work.tolist())

    def _work(self, number: int) -> float:
        return self.seen[number].work


def _total(parts: list[dict[int, float]], scale: float) -> dict[int, float]:
    keys = {key for part in parts for key in part}
    return {key: scale * sum(part.get(key, 0.0) for part in parts) for key in keys}
