"""Share of the roofline: lower bound from the device's peaks ÷ measured time."""

from __future__ import annotations

import pandas

from cutesnake.analysis.evidence.gather import Evidence, Source
from cutesnake.report.plot.data import labels, times, unsaid
from cutesnake.report.plot.heat import Scale, heat_map
from cutesnake.report.plot.style import Drawing, NothingToShow, styled

SCALE = Scale("cividis", [step / 10 for step in range(11)], [0, 0.25, 0.5, 0.75, 1], "floor ÷ time (linear scale)")


def draw_share(evidence: Evidence, source: Source, target: str) -> Drawing:
    """Draw a heat map: workloads down, kernels and dtypes across."""
    table = times(evidence, source, target).dropna(subset=["floor_us"])
    if table.empty:
        raise NothingToShow(f"config/devices.yaml has no peak of {source.device} for these dtypes")
    table["share"] = table["floor_us"] / table["cold_us"]
    names = labels(evidence, brief=True)
    table["size"] = table["workload"].map(names)
    table["column"] = table["kernel"] + " " + table["dtype"]
    table["text"] = [f"{share:.2f}" for share in table["share"]]
    table["tip"] = [
        f"{row['kernel']}, {row['size']}: {row['floor_us']:.4g} of {row['cold_us']:.4g} µs"
        for row in table.to_dict("records")
    ]
    order = [size for size in dict.fromkeys(names.values()) if size in set(table["size"])]
    grid, texts, tips = (
        pandas.pivot_table(table, index="size", columns="column", values=column, aggfunc="first").reindex(order)
        for column in ("share", "text", "tip")
    )
    with styled():
        figure = heat_map(texts, grid, SCALE, tips)
    best = table.loc[table["share"].idxmax()]
    return Drawing(
        figure,
        f"Share of the roofline on {source.device}, from {table['share'].min():.2f} to {best['share']:.2f}; "
        f"the best is {best['kernel']} at {best['workload']}.",
        "Lower bound from the device's peaks at nominal boost clock ÷ measured cold time. Higher is better; 1.00 is "
        f"the bound at that clock. Empty cells were not measured.{unsaid(evidence)}",
    )
