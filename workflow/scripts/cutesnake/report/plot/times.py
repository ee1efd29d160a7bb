"""Duration relative to the fastest kernel: a row per workload, a mark per kernel."""

import math

import pandas
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from cutesnake.analysis.evidence.gather import Evidence, Source
from cutesnake.report.palette import Look
from cutesnake.report.plot.data import kernel_looks, labels, times, unsaid
from cutesnake.report.plot.style import DSL_NAMES, INK, LINE, SOFT, TIMES, Drawing, styled, tip

ROW = 0.3  # inches
DODGE = 0.62  # of a row, over which kernels spread
FARTHEST = 4.0  # times the fastest kernel of the workload; slower kernels lie at the edge of the plot
EDGE = 4.6  # where slower kernels lie
TICKS = (1, 1.2, 1.5, 2, 2.5, 3, 4)


def draw_times(evidence: Evidence, source: Source, target: str) -> Drawing:
    """Draw a panel per dtype: workloads down, time ÷ fastest time across."""
    table = times(evidence, source, target)
    names = labels(evidence, brief=True)
    looks = {kernel: look for kernel, look in kernel_looks(evidence).items() if kernel in set(table["kernel"])}
    table["fastest_us"] = table.groupby("workload")["cold_us"].transform("min")
    table["ratio"] = table["cold_us"] / table["fastest_us"]
    panels = [(str(dtype), group) for dtype, group in table.groupby("dtype", sort=True)]
    rows = [group["workload"].nunique() for _, group in panels]
    with styled():
        figure, axes = pyplot.subplots(
            len(panels),
            figsize=(8.6, 0.5 + 0.2 * math.ceil(len(looks) / 3) + sum(ROW * count + 0.8 for count in rows)),
            squeeze=False,
            layout="constrained",
            height_ratios=[ROW * count + 0.2 for count in rows],
        )
        for axis, (dtype, group) in zip(axes.flat, panels, strict=True):
            _panel(axis, group, [name for name in names if name in set(group["workload"])], names, looks)
            axis.set_title(dtype)
        figure.legend(handles=_handles(table, looks), loc="outside lower left", ncols=3)
    ranges = ", ".join(
        f"{kernel} {group['cold_us'].min():.3g} to {group['cold_us'].max():.4g} µs"
        for kernel, group in table.groupby("kernel")
    )
    return Drawing(
        figure,
        f"Duration per workload on {source.device}: {ranges}.",
        "Median cold time of the whole operator ÷ that of the workload's fastest kernel. Left is better. Lines: spread "
        "of the samples. Right: the fastest time and its ratio to the lower bound (floor) at nominal clocks."
        f"{_past(table)}{unsaid(evidence)}",
    )


def _panel(
    axis: Axes, table: pandas.DataFrame, order: list[str], names: dict[str, str], looks: dict[str, Look]
) -> None:
    kernels = [kernel for kernel in looks if kernel in set(table["kernel"])]
    for row, workload in enumerate(order):
        mine = table[table["workload"] == workload].set_index("kernel")
        if row % 2 == 0:
            axis.axhspan(row - 0.5, row + 0.5, color=LINE, alpha=0.3, linewidth=0, zorder=0)
        for place, kernel in enumerate(kernels):
            if kernel in mine.index:
                y = row + DODGE * ((place + 0.5) / len(kernels) - 0.5)
                _mark(axis, y, mine.loc[kernel], looks[kernel], f"{kernel}, {names[workload]}")
        fastest = mine.loc[mine["cold_us"].idxmin()]
        axis.annotate(
            f"{fastest['cold_us']:.4g} µs{_of_floor(fastest)}",
            (1, row),
            (4, 0),
            xycoords=("axes fraction", "data"),
            textcoords="offset points",
            va="center",
            fontsize=8.5,
            color=SOFT,
        )
    axis.axvline(1, color=INK, linewidth=1, zorder=1)
    axis.set_yticks(range(len(order)), [names[workload] for workload in order])
    axis.set_ylim(len(order) - 0.5, -0.5)
    axis.set_xscale("log")
    axis.set_xlim(0.94, EDGE * 1.06)
    axis.xaxis.set_major_locator(FixedLocator(TICKS))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{TIMES}"))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xlabel("time ÷ time of the fastest kernel (log scale)")
    axis.grid(True, axis="x")
    axis.tick_params(axis="y", length=0, labelcolor=INK)
    axis.spines.left.set_visible(False)


def _of_floor(row: pandas.Series) -> str:
    """Format a time's ratio to the floor, if that is known."""
    return f", {row['cold_us'] / row['floor_us']:.3g}{TIMES} floor" if pandas.notna(row["floor_us"]) else ""


def _mark(axis: Axes, y: float, row: pandas.Series, look: Look, name: str) -> None:
    """Draw one kernel's time with its spread, hollow beyond the scale."""
    ratio, spread = float(row["ratio"]), float(row["spread_percent"])
    past = ratio > FARTHEST
    if not past:
        ends = [ratio * (1 - spread / 100), ratio * (1 + spread / 100)]
        axis.plot(ends, [y, y], color=look.colour, linewidth=1, clip_on=False)
    (mark,) = axis.plot(
        [EDGE if past else ratio],
        [y],
        linestyle="none",
        marker=look.marker,
        markersize=6,
        markeredgewidth=1.1 if past else 0,
        fillstyle="none" if past else "full",
        color=look.colour,
        clip_on=False,
    )
    tip(mark, f"{name}: {row['cold_us']:.4g} µs ± {spread:.1f} %{_of_floor(row)}")


def _past(table: pandas.DataFrame) -> str:
    """Say what a hollow mark means, if a kernel is that slow."""
    slow = (table["ratio"] > FARTHEST).any()
    return f" Hollow marks at the right edge: over {FARTHEST:g}{TIMES} the fastest, off the scale." if slow else ""


def _handles(table: pandas.DataFrame, looks: dict[str, Look]) -> list[Line2D]:
    dsls = dict(zip(table["kernel"], table["dsl"], strict=True))
    style = {"linestyle": "none", "markeredgewidth": 0}
    return [
        pyplot.Line2D(
            [], [], marker=look.marker, color=look.colour, label=f"{kernel} ({DSL_NAMES[dsls[kernel]]})", **style
        )
        for kernel, look in looks.items()
    ]
