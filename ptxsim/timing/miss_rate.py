"""L2 miss rates of a launch, concurrent readers, and write-back traffic."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..core.launch import Launch
from .device import DeviceConstants
from .grid import Placement
from .memory_system import Cache, displaced, evicted, missing, replaced, written_back
from .scout import SAME_BYTES, Survey


@dataclass(frozen=True, slots=True)
class MissRates:
    """L2 miss rates of reads by allocation, and the written-back share of stores.

    `readers` is, by allocation, how many CTAs concurrently read the same bytes. `kept` is the share of TMA's gain that
    those at most two apart in grid order have by it. `displaced` is the bytes of other data written back per byte that
    enters L2.
    """

    reads: dict[int, float]
    readers: dict[int, float]
    kept: dict[int, float]
    write_back: float
    displaced: float


def miss_rates(
    launch: Launch,
    survey: Survey,
    placement: Placement,
    cache: Cache,
    earlier: Sequence[tuple[Launch, Survey]],
    f: DeviceConstants,
) -> MissRates:
    """Compare a grid's reads and writes with L2's capacity; `earlier`: the call's previous launches."""
    unique = distinct_bytes(launch, survey)
    read = survey.read
    readers = {
        key: concurrent_readers(survey, placement, key, size / unique[key]) for key, size in read.items() if unique[key]
    }
    kept = {key: 1.0 if apart == 1 else f.tma_shared_kept_two for key, apart in survey.apart.items()}
    footprint = sum(unique.values())
    if cache == "cold":
        resident = left_in_l2(earlier, f)
        fetched = {key: max(size - resident.get(key, 0.0), 0.0) for key, size in unique.items()}
        reads = {key: missing(size, fetched[key]) for key, size in read.items()}
        return MissRates(reads, readers, kept, written_back(footprint, f.l2_bytes), displaced(footprint, f))
    gone = evicted(footprint, f)
    reads = {key: missing(size, unique[key]) * gone for key, size in read.items()}
    return MissRates(reads, readers, kept, gone, 0.0)


def concurrent_readers(survey: Survey, placement: Placement, allocation: int, readers: float) -> float:
    """Return how many CTAs read the same bytes concurrently, of `readers` in the grid.

    If neighbours in grid order share bytes, all readers are neighbours and run concurrently. Else they are spread
    evenly over the grid.
    """
    if survey.distinct.get(allocation, 1.0) < SAME_BYTES:
        return min(readers, float(placement.groups * placement.slots_per_group))
    return readers / max(placement.waves, 1.0)


def distinct_bytes(launch: Launch, survey: Survey) -> dict[int, float]:
    """Return, by allocation, the distinct bytes that a grid reads or writes."""
    sizes = {a.address: float(a.size) for a in launch.memory.allocations}
    unique = {}
    for key in survey.read | survey.written:
        read = survey.read.get(key, 0.0) * survey.distinct.get(key, 1.0)
        unique[key] = min(max(read, survey.written.get(key, 0.0)), sizes.get(key, math.inf))
    return unique


def left_in_l2(earlier: Sequence[tuple[Launch, Survey]], f: DeviceConstants) -> dict[int, float]:
    """Return, by allocation, the bytes that earlier launches of the call left in L2."""
    resident: dict[int, float] = {}
    since = 0.0  # bytes that have entered L2 since
    for launch, survey in reversed(earlier):
        touched = distinct_bytes(launch, survey)
        since += sum(touched.values())
        stays = 1.0 - replaced(since / f.l2_bytes)
        for key, size in touched.items():
            resident[key] = max(resident.get(key, 0.0), size * stays)
    return resident
