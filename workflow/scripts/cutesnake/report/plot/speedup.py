"""Speedup: cuTile time ÷ CuTe DSL time, the fastest kernel of each."""

import numpy
import pandas

from cutesnake.analysis.evidence.gather import Evidence, Source
from cutesnake.report.plot.data import labels, times, unsaid
from cutesnake.report.plot.heat import Scale, heat_map
from cutesnake.report.plot.style import Drawing, NothingToShow, styled

STEPS = 5  # of colour on each side of 1
COMMON = 0.9  # share of the ratios within the colour scale; outliers do not stretch it
NARROWEST, WIDEST = 1.25, 4.0  # limits of the colour scale's upper end
EQUAL = 0.03  # ratios nearer to 1 have no arrow


def draw_speedup(evidence: Evidence, source: Source, target: str) -> Drawing:
    """Draw fastest cuTile vs fastest CuTe DSL kernel: workloads down, dtypes across."""
    pairs = best_of_each(times(evidence, source, target))
    if pairs.empty:
        raise NothingToShow(f"no workload was timed in both DSLs on {source.device}")
    names = labels(evidence, brief=True)
    pairs["size"] = pairs["workload"].map(names)
    end = colour_limit(pairs["speedup"])
    pairs["text"] = [cell_text(value, end) for value in pairs["speedup"]]
    pairs["tip"] = [
        f"{row.size_}, {row.dtype}: {row.speedup:.2f} = {row.kernel_cutile} {row.cold_us_cutile:.4g} µs ÷ "
        f"{row.kernel_cute} {row.cold_us_cute:.4g} µs"
        for row in pairs.rename(columns={"size": "size_"}).itertuples()
    ]
    order = [size for size in dict.fromkeys(names.values()) if size in set(pairs["size"])]
    grid, texts, tips = (
        pairs.pivot_table(index="size", columns="dtype", values=column, aggfunc="first").reindex(order)
        for column in ("speedup", "text", "tip")
    )
    levels = [float(level) for level in numpy.geomspace(1 / end, end, 2 * STEPS + 1)]
    ticks = [float(f"{levels[place]:.2g}") for place in (0, STEPS, 2 * STEPS)]
    name = "cuTile time ÷ CuTe DSL time (log scale)\n← cuTile faster · CuTe DSL faster →"
    with styled():
        figure = heat_map(texts, grid, Scale("BrBG_r", levels, ticks, name), tips)
    mean = float(numpy.exp(numpy.log(pairs["speedup"]).mean()))
    left_out = int(((pairs["speedup"] > end) | (pairs["speedup"] < 1 / end)).sum())
    off = f" {left_out} off the colour scale: ⇐ or ⇒." if left_out else ""
    return Drawing(
        figure,
        f"Speedup of CuTe DSL over cuTile on {source.device}, fastest kernel of each: geometric mean {mean:.2f}, "
        f"from {pairs['speedup'].min():.2f} to {pairs['speedup'].max():.2f}.",
        "Cold time of the fastest cuTile kernel ÷ that of the fastest CuTe DSL kernel. → above 1 (brown): CuTe DSL is "
        f"faster. ← below 1 (teal): cuTile is faster. No arrow: within {100 * EQUAL:.0f} %.{off}"
        f"{unsaid(evidence)}",
    )


def best_of_each(table: pandas.DataFrame) -> pandas.DataFrame:
    """Join each workload's fastest cuTile row with its fastest CuTe DSL row, with their `speedup`."""
    fastest = table.sort_values("cold_us", kind="stable").drop_duplicates(["workload", "dsl"])
    left, right = (fastest[fastest["dsl"] == dsl] for dsl in ("cutile", "cute"))
    pairs = left.merge(right, on=["workload", "dtype"], suffixes=("_cutile", "_cute"))
    return pairs.assign(speedup=pairs["cold_us_cutile"] / pairs["cold_us_cute"])


def colour_limit(ratios: pandas.Series) -> float:
    """Return the upper end of the colour scale; the lower is its inverse."""
    common = float(numpy.exp(numpy.log(ratios).abs().quantile(COMMON)))
    return min(max(common, NARROWEST), WIDEST)


def cell_text(ratio: float, end: float) -> str:
    """Format a ratio with an arrow toward the faster DSL's end of the colour scale."""
    if ratio < 1 - EQUAL:
        return f"{'⇐' if ratio < 1 / end else '←'} {ratio:.2f}"
    if ratio > 1 + EQUAL:
        return f"{ratio:.2f} {'⇒' if ratio > end else '→'}"
    return f"{ratio:.2f}"
