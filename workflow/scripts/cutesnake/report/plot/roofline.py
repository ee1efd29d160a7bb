"""Roofline plot: workloads under each device roof, with measured and predicted points."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy
import pandas
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.model import record
from cutesnake.report.palette import Look
from cutesnake.report.plot.data import kernel_looks, labels, short_name_of, sizes, times
from cutesnake.report.plot.style import INK, LINE, SOFT, Drawing, NothingToShow, lay_out, short_sizes, styled, tip

STYLES = ("-", "--", ":", "-.")
APART = 5  # points
NAMES_HIGH, NAMES_WIDE = 32, 0.25  # name of a band: height in points, share of panel width
FILLS = {"measured": "full", "predicted": "none"}


def draw_roofline(evidence: Evidence) -> Drawing:
    """Draw a panel per device: roofs per dtype, workloads as ticks, times as points."""
    targets = list(dict.fromkeys(target for _, target in evidence.decisions))
    table = pandas.DataFrame([record.plain(row) for row in evidence.roofline])
    if table.empty or (table := table[table["target"].isin(targets) & table["floor_us"].notna()]).empty:
        raise NothingToShow("the roofline has no device of this experiment's targets")
    if (table := table[table["flops"] > 0]).empty:
        raise NothingToShow("the operator has no FLOPs: memory traffic alone bounds it on every device")
    devices = list(dict.fromkeys(table["device"]))
    points = _points(evidence, targets)
    looks = kernel_looks(evidence)
    with styled():
        figure, axes = lay_out(
            len(devices), (5.2, 3.8), (0.6, 0.7), "FLOP per byte of minimum traffic (log scale)", "TFLOP/s (log scale)"
        )
        levels = 1
        for axis, device in zip(axes, devices, strict=True):
            mine = table[table["device"] == device]
            _panel(axis, mine, device, _span(table))
            levels = max(levels, _name_workloads(axis, mine, evidence))
            if not points.empty:
                _measured(axis, points[points["device"] == device], looks, labels(evidence, brief=True))
            axis.tick_params(labelbottom=True)
        lowest = min([axes[0].get_ylim()[0], *([] if points.empty else points["y"])])
        axes[0].set_ylim(bottom=lowest / 4**levels)  # space for the names of the bands
        _legend(figure, points, looks)
    alt = f"Roofline of {evidence.operator}. " + " ".join(_describe(table[table["device"] == d], d) for d in devices)
    if not points.empty:
        counts = ", ".join(f"{(points['how'] == how).sum()} {how}" for how in FILLS)
        alt += f" Points: {counts}, of {', '.join(dict.fromkeys(points['kernel']))}."
    caption = (
        "Lines: peak performance of each device; nearer to its line is better. Ticks: workloads at their minimum FLOPs "
        "and bytes (computed). Shaded bands name the workloads."
    )
    caption += (
        " Filled points: measured times. Hollow points: times predicted by ptxsim's clock. Kernels are offset "
        "slightly along x."
        if not points.empty
        else " No time was measured or predicted for this plot."
    )
    return Drawing(figure, alt, caption)


def _points(evidence: Evidence, targets: list[str]) -> pandas.DataFrame:
    points = []
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
                    point = {"device": floor.device, "kernel": row["kernel"], "x": row["intensity"], "y": rate}
                    points.append({**point, "how": "measured", "workload": row["workload"], "us": row["cold_us"]})
    return pandas.DataFrame([*points, *_predicted_points(evidence)])


def _predicted_points(evidence: Evidence) -> Iterator[dict[str, Any]]:
    for entry in evidence.predicted.values():
        case, metrics = entry.case, entry.metrics
        if entry.status != "ok" or metrics is None:
            continue
        floor = evidence.floor(case.workload, case.target, metrics.device)
        if floor and floor.floor_us is not None:
            rate = floor.flops / metrics.cold_us / 1e6
            point = {"device": floor.device, "kernel": case.kernel, "x": floor.intensity, "y": rate}
            yield {**point, "how": "predicted", "workload": case.workload, "us": metrics.cold_us}


def _roofs(rows: pandas.DataFrame) -> list[tuple[str, float, float]]:
    """Return (dtypes, peak in TFLOP/s, bandwidth in TB/s) per distinct peak."""
    roofs = []
    for (peak, rate), group in rows.groupby(["peak_tflops", "memory_gb_per_s"]):
        roofs.append(("/".join(dict.fromkeys(group["dtype"])), peak, rate / 1e3))
    return roofs


def _span(rows: pandas.DataFrame) -> tuple[float, float]:
    """Return the range of intensities that all panels share."""
    low = min(rows["intensity"].min(), rows["ridge"].min())
    return low / 2, max(rows["intensity"].max(), rows["ridge"].max()) * 1.6


def _panel(axis: Axes, rows: pandas.DataFrame, device: str, span: tuple[float, float]) -> None:
    axis.set(xscale="log", yscale="log", title=device, xlim=span)
    for (dtypes, peak, rate), style in zip(_roofs(rows), itertools.cycle(STYLES), strict=False):
        x = numpy.clip([span[0], peak / rate, span[1]], *span)
        axis.plot(x, numpy.minimum(peak, x * rate), style, color=SOFT, linewidth=1.4)
        axis.annotate(
            f"{dtypes} {peak:,.0f}", (span[1], peak), (0, 4), textcoords="offset points", ha="right", fontsize=8.5
        )
    _bandwidth(axis, span[0], max(_roofs(rows), key=lambda roof: roof[1] / roof[2]))
    y = numpy.minimum(rows["peak_tflops"], rows["intensity"] * rows["memory_gb_per_s"] / 1e3)
    ticks_at = pandas.DataFrame({"x": rows["intensity"], "y": y}).drop_duplicates()
    axis.plot(ticks_at["x"], ticks_at["y"], linestyle="none", marker="|", markersize=9, color=INK, markeredgewidth=1)
    axis.grid(True, which="major", axis="both")
    if span[1] / span[0] < 100:
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    for ticks in (axis.xaxis, axis.yaxis):
        ticks.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        ticks.set_minor_locator(LogLocator(subs=(2, 5)))  # eight a decade would be a sixth of the file
        ticks.set_minor_formatter(NullFormatter())


def _name_workloads(axis: Axes, rows: pandas.DataFrame, evidence: Evidence) -> int:
    """Draw a named band per range of intensities at the foot of the panel.

    A band covers all dtypes with that range. Returns how many names are stacked.
    """
    bands: dict[tuple[float, float], list[str]] = {}
    for dtype, group in rows.groupby("dtype", sort=False):
        bands.setdefault((group["intensity"].min(), group["intensity"].max()), []).append(dtype)
    width = NAMES_WIDE * numpy.log(numpy.divide(*axis.get_xlim()[::-1]))
    middles: list[float] = []
    levels = 1
    for (low, high), dtypes in bands.items():
        middles.append(float(numpy.log(low * high)) / 2)
        above = sum(abs(middle - middles[-1]) < width for middle in middles[:-1])  # names already placed there
        levels = max(levels, above + 1)
        axis.axvspan(low / 1.01, high * 1.01, color=LINE, alpha=0.45, linewidth=0, zorder=0)
        ends = [rows[rows["dtype"].eq(dtypes[0]) & rows["intensity"].eq(end)]["workload"] for end in (low, high)]
        axis.annotate(
            "/".join(dtypes) + "\n" + _sizes(evidence, *ends),
            (numpy.sqrt(low * high), 0),
            (0, 4 + above * NAMES_HIGH),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            ha="center",
            fontsize=8,
            color=SOFT,
        )
    return levels


def _sizes(evidence: Evidence, first: pandas.Series, last: pandas.Series) -> str:
    """Describe what differs between the ends of a band, or count its workloads."""
    for key in sizes(evidence):
        left, right = ({evidence.workloads[name][key] for name in end} for end in (first, last))
        if len(left) == len(right) == 1 and left != right:
            ends = short_sizes([*left, *right]).values()
            return f"{short_name_of(evidence, key)}\n{' to '.join(ends)}"
    return f"{len(first)} workload{'s' * (len(first) != 1)}"


def _bandwidth(axis: Axes, start: float, roof: tuple[str, float, float]) -> None:
    """Label the slope, in the middle of its longest visible part."""
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


def _measured(axis: Axes, points: pandas.DataFrame, looks: dict[str, Look], names: dict[str, str]) -> None:
    """Draw measured points filled, predicted ones hollow, kernels a few points apart."""
    kernels = [kernel for kernel in looks if kernel in set(points["kernel"])]
    for number, kernel in enumerate(kernels):
        apart = ScaledTranslation(APART * (number - (len(kernels) - 1) / 2) / 72, 0, axis.figure.dpi_scale_trans)
        for how, fill in FILLS.items():
            mine = points[(points["kernel"] == kernel) & (points["how"] == how)]
            if mine.empty:
                continue
            (marks,) = axis.plot(
                mine["x"],
                mine["y"],
                transform=axis.transData + apart,
                linestyle="none",
                marker=looks[kernel].marker,
                markersize=5,
                color=looks[kernel].colour,
                fillstyle=fill,
                markeredgewidth=1.1,
            )
            tip(
                marks,
                *(
                    f"{kernel}, {names.get(row.workload, row.workload)}: {row.us:.4g} µs, {row.y:.4g} TFLOP/s"
                    for row in mine.itertuples()
                ),
            )


def _legend(figure: Figure, points: pandas.DataFrame, looks: dict[str, Look]) -> None:
    handles = [
        pyplot.Line2D([], [], linestyle="none", marker="|", markersize=9, color=INK, label="workload (computed)")
    ]
    drawn = set() if points.empty else set(zip(points["kernel"], points["how"], strict=True))
    style = {"linestyle": "none", "markeredgewidth": 1.2}
    handles += [
        pyplot.Line2D([], [], marker=one.marker, color=one.colour, fillstyle=fill, label=f"{kernel} ({how})", **style)
        for kernel, one in looks.items()
        for how, fill in FILLS.items()
        if (kernel, how) in drawn
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=3)


def _describe(rows: pandas.DataFrame, device: str) -> str:
    bound = rows["bound"].value_counts().to_dict()
    bounds = ", ".join(f"{count} {name}-bound" for name, count in sorted(bound.items()))
    low, high = rows["intensity"].min(), rows["intensity"].max()
    return f"On {device} {bounds}; intensities {low:.3g} to {high:.3g} FLOP per byte."
