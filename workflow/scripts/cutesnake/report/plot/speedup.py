"""Speedup: cuTile time ÷ CuTe time, for each pair of kernels."""

from __future__ import annotations

import numpy
import pandas

from cutesnake.analysis.evidence.gather import Evidence, Source
from cutesnake.report.plot.data import labels, times, unsaid
from cutesnake.report.plot.heat import heat_map
from cutesnake.report.plot.style import Drawing, NothingToShow, styled


def draw_speedup(evidence: Evidence, source: Source, target: str) -> Drawing:
    """Draw a heat map of speedups: workloads down, pairs and dtypes across."""
    table = times(evidence, source, target)
    left, right = (table[table["dsl"] == dsl] for dsl in ("cutile", "cute"))
    pairs = left.merge(right, on=["workload", "dtype"], suffixes=("_cutile", "_cute"))
    if pairs.empty:
        raise NothingToShow(f"no workload was timed in both DSLs on {source.device}")
    pairs["speedup"] = pairs["cold_us_cutile"] / pairs["cold_us_cute"]
    names = labels(evidence, brief=True)
    pairs["size"] = pairs["workload"].map(names)
    pairs["column"] = pairs["kernel_cute"] + " over " + pairs["kernel_cutile"] + " " + pairs["dtype"]
    grid = pandas.pivot_table(pairs, index="size", columns="column", values="speedup")
    grid = grid.reindex([size for size in dict.fromkeys(names.values()) if size in grid.index])
    with styled():
        figure = heat_map(grid, numpy.log2(grid), cmap="PuOr", center=0, vmin=-2, vmax=2)
    mean = float(numpy.exp(numpy.log(pairs["speedup"]).mean()))
    return Drawing(
        figure,
        f"Speedup of CuTe over cuTile on {source.device}: geometric mean {mean:.2f}, "
        f"from {pairs['speedup'].min():.2f} to {pairs['speedup'].max():.2f}.",
        "cuTile time ÷ CuTe time: above 1.00 (purple) CuTe is faster, below 1.00 (orange) cuTile is. Empty cells were "
        f"not measured in both.{unsaid(evidence)}",
    )
