"""Speedups per target and GPU: best CuTe vs best cuTile kernel, and vs others."""

from collections.abc import Callable, Iterable, Mapping
from statistics import geometric_mean
from typing import Literal

from cutesnake.analysis.compare.noise import Time, apart, noise_of_ratio
from cutesnake.model.dsls import COMPARED
from cutesnake.model.records.compare import KernelTime, OtherSpeed, Speed, Speedup, TimesTable

CacheState = Literal["cold", "warm"]
CACHE_STATES: tuple[CacheState, ...] = ("cold", "warm")  # single calls, L2 flushed; back-to-back calls
Kernels = Mapping[str, KernelTime]  # kernel -> its times on one workload


def speedups(tables: Iterable[TimesTable]) -> list[Speedup]:
    """Return CuTe over cuTile, and the better of both over every other kernel, per table.

    A speed is None where no workload has both times. `equal` counts workloads within the noise of their ratio.
    """
    return [_speedups(table) for table in tables]


def _speedups(table: TimesTable) -> Speedup:
    dsls = table.kernels
    rows = {row.workload: row.kernels for row in table.rows}

    def of(*names: str) -> Callable[[Kernels], Kernels]:
        return lambda row: {kernel: time for kernel, time in row.items() if dsls[kernel] in names}

    def only(name: str) -> Callable[[Kernels], Kernels]:
        return lambda row: {kernel: time for kernel, time in row.items() if kernel == name}

    cute, cutile = of("cute"), of("cutile")
    others = [
        OtherSpeed(kernel, dsl, *(_speed(rows, of(*COMPARED), only(kernel), cache) for cache in CACHE_STATES))
        for kernel, dsl in dsls.items()
        if dsl not in COMPARED
    ]
    cold, warm = (_speed(rows, cute, cutile, cache) for cache in CACHE_STATES)
    return Speedup(table.target, table.device, cold, warm, others)


def _speed(
    rows: Mapping[str, Kernels],
    mine: Callable[[Kernels], Kernels],
    theirs: Callable[[Kernels], Kernels],
    cache: CacheState,
) -> Speed | None:
    """Return their time ÷ mine, fastest kernel of each side, over common workloads."""
    pairs = {
        workload: (fastest(mine(row), cache), fastest(theirs(row), cache))
        for workload, row in rows.items()
        if mine(row) and theirs(row)
    }
    ratios = {
        workload: time_of(rows[workload][theirs_is], cache) / time_of(rows[workload][mine_is], cache)
        for workload, (mine_is, theirs_is) in pairs.items()
    }
    if not ratios:
        return None
    verdicts = [_verdict(ratio, rows[workload], pairs[workload], cache) for workload, ratio in ratios.items()]
    least, most = (choose(ratios, key=ratios.__getitem__) for choose in (min, max))
    counts = (verdicts.count(name) for name in ("faster", "equal", "slower"))
    return Speed(geometric_mean(ratios.values()), ratios[least], least, ratios[most], most, *counts)


def time_of(time: KernelTime, cache: CacheState) -> float:
    """Return the cold or warm time of a kernel in µs."""
    return time.cold_us if cache == "cold" else time.hot_us


def fastest(row: Kernels, cache: CacheState) -> str:
    """Return the kernel of a row with the shortest time."""
    return min(row, key=lambda kernel: time_of(row[kernel], cache))


def noise(cache: CacheState, first: KernelTime, second: KernelTime) -> float:
    """Return the percentage by which two kernels' times must differ to count as different."""
    return noise_of_ratio(_time(cache, first), _time(cache, second))


def _time(cache: CacheState, time: KernelTime) -> Time:
    if cache == "warm":
        return Time("", time.hot_variant, time.hot_us, time.hot_noise_percent)
    return Time("", time.cold_variant, time.cold_us, time.spread_percent, empty_launch_us=time.empty_launch_us)


def _verdict(ratio: float, row: Kernels, pair: tuple[str, str], cache: CacheState) -> str:
    if apart(ratio) <= noise(cache, *(row[kernel] for kernel in pair)):
        return "equal"
    return "faster" if ratio > 1 else "slower"
