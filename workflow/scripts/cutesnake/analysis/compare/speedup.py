"""Who is faster by how much, per target and card: the best CuTe kernel, the best cuTile kernel, and the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import geometric_mean

from cutesnake.analysis.compare.insight import NOISE_PERCENT
from cutesnake.analysis.evidence.gather import Record
from cutesnake.model.dsls import COMPARED

FIGURES = {"cold": "cold_us", "warm": "hot_us"}  # a lone call with a flushed L2; calls back to back
Kernels = dict[str, Record]  # kernel -> its times on one workload


def speedups(tables: Iterable[Record]) -> list[Record]:
    """An entry per table of times, with the speed of CuTe over cuTile and that of both over every other kernel.

    A speed is None where no workload has both. `equal` counts workloads whose times lie within the noise: nearer than
    NOISE_PERCENT, or than the sum of the spreads of the cold samples.
    """
    return [_speedups(table) for table in tables]


def _speedups(table: Record) -> Record:
    dsls = table["kernels"]
    rows = {row["workload"]: row["kernels"] for row in table["rows"]}

    def of(*names: str) -> Callable[[Kernels], Kernels]:
        return lambda row: {kernel: time for kernel, time in row.items() if dsls[kernel] in names}

    def only(name: str) -> Callable[[Kernels], Kernels]:
        return lambda row: {kernel: time for kernel, time in row.items() if kernel == name}

    others = [kernel for kernel, dsl in dsls.items() if dsl not in COMPARED]
    return {
        **{"target": table["target"], "device": table["device"]},
        **{name: _speed(rows, of("cute"), of("cutile"), key) for name, key in FIGURES.items()},
        "others": [
            {
                **{"kernel": kernel, "dsl": dsls[kernel]},
                **{name: _speed(rows, of(*COMPARED), only(kernel), key) for name, key in FIGURES.items()},
            }
            for kernel in others
        ],
    }


def _speed(
    rows: dict[str, Kernels], mine: Callable[[Kernels], Kernels], theirs: Callable[[Kernels], Kernels], key: str
) -> Record | None:
    """Their time over mine, of the fastest kernel on each side, over the workloads that both have."""
    pairs = {
        workload: (fastest(mine(row), key), fastest(theirs(row), key))
        for workload, row in rows.items()
        if mine(row) and theirs(row)
    }
    ratios = {workload: rows[workload][b][key] / rows[workload][a][key] for workload, (a, b) in pairs.items()}
    if not ratios:
        return None
    verdicts = [_verdict(ratio, rows[workload], pairs[workload]) for workload, ratio in ratios.items()]
    least, most = (choose(ratios, key=ratios.__getitem__) for choose in (min, max))
    return {
        "mean": geometric_mean(ratios.values()),
        **{"least": ratios[least], "least_at": least, "most": ratios[most], "most_at": most},
        **{name: verdicts.count(name) for name in ("faster", "equal", "slower")},
    }


def fastest(row: Kernels, key: str) -> str:
    """The kernel of a row with the shortest time."""
    return min(row, key=lambda kernel: row[kernel][key])


def noise(*times: Record) -> float:
    """Percent by which times must differ to count as different."""
    return max(NOISE_PERCENT, sum(time["spread_percent"] or 0.0 for time in times))


def _verdict(ratio: float, row: Kernels, pair: tuple[str, str]) -> str:
    apart = 100 * (max(ratio, 1 / ratio) - 1)
    if apart <= noise(*(row[kernel] for kernel in pair)):
        return "equal"
    return "faster" if ratio > 1 else "slower"
