"""Duration by size: one line per kernel, with the spread of its samples."""

from __future__ import annotations

import seaborn
from matplotlib import pyplot
from matplotlib.ticker import FuncFormatter, NullFormatter

from cutesnake.evidence import Evidence, Source
from cutesnake.plot.data import sizes, times
from cutesnake.plot.style import MARKERS, SERIES, Drawing, NothingToShow, series_of, styled


def draw_times(evidence: Evidence, source: Source, target: str) -> Drawing:
    """One panel per dtype and value of the second size; x is the size with most values (kv length)."""
    table = times(evidence, source, target)
    varying = sizes(evidence)
    if not varying:
        raise NothingToShow("all workloads have one size: the comparison table says it all")
    x, *rest = varying
    keys = [*rest[:1], "dtype"]
    order = series_of(kernel for kernel, _ in evidence.decisions)
    panels = [(values, group) for values, group in table.groupby(keys, sort=True) if group[x].nunique() > 1]
    if not panels:
        raise NothingToShow(f"no kernel was timed at more than one {x.replace('_', ' ')}")
    with styled():
        columns = min(table["dtype"].nunique(), len(panels))
        rows = -(-len(panels) // columns)
        figure, axes = pyplot.subplots(
            rows, columns, figsize=(3.2 * columns, 2.5 * rows + 0.7), sharey=True, squeeze=False, layout="constrained"
        )
        for axis in axes.flat[len(panels) :]:
            axis.set_visible(False)
        for axis, (values, group) in zip(axes.flat, panels, strict=False):
            title = ", ".join(f"{key.replace('_', ' ')} {v}" for key, v in zip(keys, values, strict=True))
            _panel(axis, group, x, order)
            axis.set(title=title.replace("dtype ", ""), ylabel="µs", xlabel=x.replace("_", " "))
        present = [kernel for kernel in order if kernel in set(table["kernel"])]
        handles = [pyplot.Line2D([], [], marker=MARKERS[order[k]], color=SERIES[order[k]], label=k) for k in present]
        figure.legend(handles=handles, loc="outside lower left", ncols=4)
    said = ", ".join(
        f"{kernel} {group['cold_us'].min():.3g} to {group['cold_us'].max():.3g} µs"
        for kernel, group in table.groupby("kernel")
    )
    return Drawing(
        figure,
        f"Duration against {x.replace('_', ' ')} on {source.device}: {said}.",
        "Median duration of the whole operator with a flushed L2 cache; bars: spread of the samples. Lower is better.",
    )


def _panel(axis, group, x: str, order: dict[str, int]) -> None:
    kernels = [kernel for kernel in order if kernel in set(group["kernel"])]
    seaborn.lineplot(
        data=group,
        x=x,
        y="cold_us",
        hue="kernel",
        hue_order=kernels,
        palette={k: SERIES[order[k]] for k in kernels},
        style="kernel",
        style_order=kernels,
        markers={k: MARKERS[order[k]] for k in kernels},
        dashes=False,
        errorbar=None,
        legend=False,
        ax=axis,
        markeredgewidth=0,
        markersize=5.5,
    )
    for kernel, line in group.groupby("kernel"):
        spread = line["cold_us"] * line["spread_percent"] / 100
        axis.errorbar(
            line[x], line["cold_us"], yerr=spread, fmt="none", ecolor=SERIES[order[kernel]], capsize=2.5, linewidth=1
        )
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    ticks = sorted(set(group[x]))
    axis.set_xticks(ticks)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.grid(True, axis="y")
