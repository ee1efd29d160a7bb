"""Duration by size: a line per kernel, with the spread of its samples."""

from __future__ import annotations

import pandas
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, LogLocator, NullFormatter

from cutesnake.analysis.evidence.gather import Evidence, Source
from cutesnake.report.palette import Look
from cutesnake.report.plot.data import differing, kernel_looks, name_of, short_name_of, sizes, times
from cutesnake.report.plot.style import DSL_NAMES, DSL_STYLES, Drawing, NothingToShow, lay_out, short_sizes, styled


def draw_times(evidence: Evidence, source: Source, target: str) -> Drawing:
    """Draw a panel per dtype and value of the second size.

    x is the operator's axis. A line joins workloads that differ in x only.
    """
    table = times(evidence, source, target)
    varying = sizes(evidence)
    if not varying:
        raise NothingToShow("all workloads have one size; see the comparison table")
    x, *rest = varying
    keys = ["dtype", *rest[:1]]
    others = [key for key in differing(evidence) if key not in (x, *keys)]  # constant along a line
    looks = kernel_looks(evidence)
    panels = [(values, group) for values, group in table.groupby(keys, sort=True) if group[x].nunique() > 1]
    if not panels:
        raise NothingToShow(f"no kernel was timed at more than one {short_name_of(evidence, x)}")
    ticks = short_sizes(sorted({int(value) for _, group in panels for value in group[x]}))
    name = name_of(evidence, x) + (", 1k = 1024" if "k" in "".join(ticks.values()) else "")
    with styled():
        figure, axes = lay_out(len(panels), (3.6, 2.5), (1.2, 0.9), name, "µs")
        for axis, (values, group) in zip(axes, panels, strict=True):
            for (kernel, *_), line in group.groupby(["kernel", *others], sort=False):
                _line(axis, line.sort_values(x), x, looks[kernel])
            axis.set_title(
                ", ".join([values[0], *(f"{short_name_of(evidence, rest[0])} {value}" for value in values[1:])])
            )
            axis.grid(True)
        _scale(axes[0], ticks)
        figure.legend(handles=_handles(table, looks), loc="outside lower left", ncols=3)
    ranges = ", ".join(
        f"{kernel} {group['cold_us'].min():.3g} to {group['cold_us'].max():.4g} µs"
        for kernel, group in table.groupby("kernel")
    )
    return Drawing(
        figure,
        f"Duration against {short_name_of(evidence, x)} on {source.device}: {ranges}.",
        "Median duration of the whole operator with a flushed L2 cache. Bars: spread of the samples. Lower is better. "
        "Lines: cuTile solid, CuTe DSL dashed, PyTorch dotted." + _joined(evidence, others),
    )


def _joined(evidence: Evidence, others: list[str]) -> str:
    """Name the parameters that are constant along a line, if any."""
    names = ", ".join(short_name_of(evidence, key) for key in others)
    return f" Along a line, these are constant: {names}." if others else ""


def _line(axis: Axes, line: pandas.DataFrame, x: str, look: Look) -> None:
    axis.errorbar(
        line[x],
        line["cold_us"],
        yerr=line["cold_us"] * line["spread_percent"] / 100,
        color=look.colour,
        linestyle=DSL_STYLES[line["dsl"].iloc[0]],
        linewidth=1.6,
        marker=look.marker,
        markersize=5,
        markeredgewidth=0,
        elinewidth=1,
        capsize=2.5,
    )


def _scale(axis: Axes, ticks: dict[int, str]) -> None:
    """Set logarithmic axes for all panels, with a tick per timed size on x."""
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.xaxis.set_major_locator(FixedLocator(list(ticks)))
    axis.xaxis.set_major_formatter(FixedFormatter(list(ticks.values())))
    low, high = axis.get_ylim()
    if high / low < 100:
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    for side in (axis.xaxis, axis.yaxis):
        side.set_minor_formatter(NullFormatter())


def _handles(table: pandas.DataFrame, looks: dict[str, Look]) -> list[pyplot.Line2D]:
    dsls = dict(zip(table["kernel"], table["dsl"], strict=True))
    return [
        pyplot.Line2D(
            *([], []),
            marker=look.marker,
            color=look.colour,
            linestyle=DSL_STYLES[dsls[kernel]],
            label=f"{kernel} ({DSL_NAMES[dsls[kernel]]})",
        )
        for kernel, look in looks.items()
        if kernel in dsls
    ]
