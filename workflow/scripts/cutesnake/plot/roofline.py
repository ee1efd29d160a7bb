"""Roofline: where each workload stands under each device's roof, with measured points where there are any."""

from __future__ import annotations

import itertools

import numpy
import pandas
import seaborn
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from cutesnake.evidence import Evidence
from cutesnake.plot.data import times
from cutesnake.plot.style import INK, MARKERS, SERIES, SOFT, Drawing, NothingToShow, series_of, styled

STYLES = ("-", "--", ":", "-.")


def draw_roofline(evidence: Evidence) -> Drawing:
    """One panel per device of the targets: roofs per dtype, workloads as ticks on them, measured times as points."""
    targets = list(dict.fromkeys(target for _, target in evidence.decisions))
    table = pandas.DataFrame(evidence.roofline)
    if table.empty or (table := table[table["target"].isin(targets) & table["floor_us"].notna()]).empty:
        raise NothingToShow("the roofline has no device of this experiment's targets")
    devices = list(dict.fromkeys(table["device"]))
    points = _points(evidence, targets)
    order = series_of(kernel for kernel, _ in evidence.decisions)
    with styled():
        figure, axes = pyplot.subplots(
            1, len(devices), figsize=(4.3 * len(devices), 3.9), sharey=True, squeeze=False, layout="constrained"
        )
        for axis, device in zip(axes[0], devices, strict=True):
            _panel(axis, table[table["device"] == device], device)
            if not points.empty:
                _measured(axis, points[points["device"] == device], order)
        axes[0][0].set_ylabel("TFLOP/s")
        _legend(figure, points, order)
    alt = f"Roofline of {evidence.operator}. " + " ".join(_tell(table[table["device"] == d], d) for d in devices)
    if not points.empty:
        alt += f" {len(points)} measured points of {', '.join(dict.fromkeys(points['kernel']))}."
    caption = (
        "Lines: what each device's peaks allow. Marks on them: the workloads, at the FLOPs and bytes that they cannot "
        "avoid (computed, not measured)."
    )
    caption += " Points below: measured times." if not points.empty else " No time was measured for this picture."
    return Drawing(figure, alt, caption)


def _points(evidence: Evidence, targets: list[str]) -> pandas.DataFrame:
    found = []
    for target in targets:
        for source in evidence.sources(target):
            try:
                table = times(evidence, source, target) if source.kind != "none" else pandas.DataFrame()
            except NothingToShow:
                continue
            for row in table.to_dict("records"):
                floor = evidence.floor(row["workload"], target, source.device)
                if floor:
                    rate = row["flops"] / row["cold_us"] / 1e6
                    found.append({"device": floor["device"], "kernel": row["kernel"], "x": row["intensity"], "y": rate})
    return pandas.DataFrame(found)


def _roofs(rows: pandas.DataFrame) -> list[tuple[str, float, float]]:
    """(dtypes, peak in TFLOP/s, bandwidth in TB/s), one per distinct peak."""
    found = []
    for (peak, rate), group in rows.groupby(["peak_tflops", "memory_gb_per_s"]):
        found.append(("/".join(dict.fromkeys(group["dtype"])), peak, rate / 1e3))
    return found


def _panel(axis: Axes, rows: pandas.DataFrame, device: str) -> None:
    low, high = rows["intensity"].min(), rows["ridge"].max()
    x = numpy.geomspace(max(min(low, high) / 4, 1e-2), max(rows["intensity"].max(), high) * 4, 200)
    axis.set(xscale="log", yscale="log", title=device, xlabel="FLOP per byte")
    for (dtypes, peak, rate), style in zip(_roofs(rows), itertools.cycle(STYLES), strict=False):
        axis.plot(x, numpy.minimum(peak, x * rate), style, color=SOFT, linewidth=1.4)
        axis.annotate(
            f"{dtypes} {peak:,.0f}", (x[-1], peak), (0, 4), textcoords="offset points", ha="right", fontsize=8.5
        )
    _bandwidth(axis, x[0], max(_roofs(rows), key=lambda roof: roof[1] / roof[2]))
    y = numpy.minimum(rows["peak_tflops"], rows["intensity"] * rows["memory_gb_per_s"] / 1e3)
    axis.plot(rows["intensity"], y, linestyle="none", marker="|", markersize=11, color=INK, markeredgewidth=1.1)
    axis.grid(True, which="major", axis="both")
    for ticks in (axis.xaxis, axis.yaxis):
        ticks.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        ticks.set_minor_formatter(NullFormatter())


def _bandwidth(axis: Axes, start: float, roof: tuple[str, float, float]) -> None:
    """Name the slope, in the middle of its longest visible part."""
    _, peak, rate = roof
    middle = numpy.sqrt(start * peak / rate)
    axis.annotate(
        f"{rate:.3g} TB/s",
        (middle, middle * rate),
        (-5, 5),
        textcoords="offset points",
        ha="right",
        fontsize=8.5,
        color=SOFT,
    )


def _measured(axis: Axes, points: pandas.DataFrame, order: dict[str, int]) -> None:
    if points.empty:
        return
    kernels = [kernel for kernel in order if kernel in set(points["kernel"])]
    seaborn.scatterplot(
        data=points,
        x="x",
        y="y",
        hue="kernel",
        style="kernel",
        hue_order=kernels,
        style_order=kernels,
        palette={k: SERIES[order[k]] for k in kernels},
        markers={k: MARKERS[order[k]] for k in kernels},
        ax=axis,
        legend=False,
        s=34,
        linewidth=0,
    )
    axis.set(xlabel="FLOP per byte")


def _legend(figure: Figure, points: pandas.DataFrame, order: dict[str, int]) -> None:
    handles = [
        pyplot.Line2D([], [], linestyle="none", marker="|", markersize=11, color=INK, label="workload (computed)")
    ]
    measured = set() if points.empty else set(points["kernel"])
    handles += [
        pyplot.Line2D([], [], linestyle="none", marker=MARKERS[i], color=SERIES[i], label=f"{kernel} (measured)")
        for kernel, i in order.items()
        if kernel in measured
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=3)


def _tell(rows: pandas.DataFrame, device: str) -> str:
    bound = rows["bound"].value_counts().to_dict()
    said = ", ".join(f"{count} {name}-bound" for name, count in sorted(bound.items()))
    low, high = rows["intensity"].min(), rows["intensity"].max()
    return f"On {device} {said}; intensities {low:.3g} to {high:.3g} FLOP per byte."
