"""Share of the roofline: lower bound from the device's peaks ÷ measured time."""

from __future__ import annotations

import pandas

from cutesnake.analysis.evidence.gather import Evidence, Source
from cutesnake.report.plot.data import labels, times, unsaid
from cutesnake.report.plot.heat import heat_map
from cutesnake.report.plot.style import Drawing, NothingToShow, styled


def draw_share(evidence: Evidence, source: Source, target: str) -> Drawing:
    """Draw a heat map: workloads down, kernels and dtypes across."""
    table = times(evidence, source, target).dropna(subset=["floor_us"])
    if table.empty:
        raise NothingToShow(f"config/devices.yaml has no peak of {source.device} for these dtypes")
    table["share"] = table["floor_us"] / table["cold_us"]
    names = labels(evidence, brief=True)
    table["size"] = table["workload"].map(names)
    table["column"] = table["kernel"] + " " + table["dtype"]
    grid = pandas.pivot_table(table, index="size", columns="column", values="share")
    grid = grid.reindex([size for size in dict.fromkeys(names.values()) if size in grid.index])
    with styled():
        figure = heat_map(grid, grid, cmap="cividis", vmin=0, vmax=1)
    best = table.loc[table["share"].idxmax()]
    return Drawing(
        figure,
        f"Share of the roofline on {source.device}, from {table['share'].min():.2f} to {best['share']:.2f}; "
        f"the best is {best['kernel']} at {best['workload']}.",
        "Lower bound from the device's peaks at nominal boost clock ÷ measured time; 1.00 is optimal at that clock. "
        f"Empty cells were not measured.{unsaid(evidence)}",
    )
