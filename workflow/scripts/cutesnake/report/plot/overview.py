"""Overview plot: speedup of CuTe over cuTile per operator and GPU, cold and warm."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from cutesnake.model import provenance, record
from cutesnake.model.records.common import Provenance
from cutesnake.model.records.compare import Compare, Speed, Speedup
from cutesnake.model.records.plot import Plot, PlotEntry
from cutesnake.report.plot.style import (
    INK,
    LINE,
    SERIES,
    SOFT,
    TIMES,
    WIDTH,
    Drawing,
    NothingToShow,
    styled,
    tip,
    to_svg,
)
from cutesnake.runtime.job import Files, listed

if TYPE_CHECKING:
    from cutesnake.analysis.compare.recorded import Recorded

NAME, TITLE = "overview", "CuTe DSL vs cuTile, best kernel of each"
NARROW, NARROW_WIDTH = "overview_narrow", 3.9  # inches: 374 px on the page
STYLES = {"warm": (SERIES[0], "o", 0.14), "cold": (SERIES[1], "s", -0.14)}  # colour, marker, place in the row
LABELS = {"warm": "warm: repeated calls", "cold": "cold: single call after an L2 flush"}
COARSE = (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50)
FINE = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.8, 2, 2.5, 3, 4, 5, 6, 8, 10)


class Row(NamedTuple):
    """An operator, target and GPU, with its speedups."""

    name: str
    warm: Speed
    cold: Speed


def overview_files(comparisons: Files, folder: str) -> None:
    """Read the comparisons from their paths and write the overview."""
    write_overview((record.read("compare", path) for path in listed(comparisons)), folder)


def write_overview(comparisons: Iterable[Compare], folder: Path | str) -> Plot:
    """Draw the overview, wide and narrow, into `folder`, then write its record."""
    compared = list(comparisons)
    plots = [_plot(compared, Path(folder), narrow) for narrow in (False, True)]
    entry = Plot("ok", None, Provenance(), None, plots)
    files = [Path(folder, plot.file) for plot in plots if plot.file]
    record.write("plot", Path(folder) / "pictures.json", entry, files=provenance.digests(files, folder))
    return entry


def _plot(comparisons: list[Compare], folder: Path, narrow: bool) -> PlotEntry:
    name = NARROW if narrow else NAME
    try:
        drawing = draw_overview(comparisons, narrow)
    except NothingToShow as why:
        return PlotEntry(name, TITLE, None, None, None, None, str(why))
    record.write_text(folder / f"{name}.svg", to_svg(drawing, name, TITLE))
    return PlotEntry(name, TITLE, None, f"{name}.svg", drawing.alt, drawing.caption, None)


def draw_overview(comparisons: Sequence[Compare | Recorded], narrow: bool = False) -> Drawing:
    """Draw mean and range per operator, target and GPU; narrow for a phone."""
    rows = [
        Row(_name(comparison, entry), entry.warm, entry.cold)
        for comparison in comparisons
        for entry in comparison.speedups
        if entry.warm and entry.cold
    ]
    if not rows:
        raise NothingToShow("no workload was timed in both DSLs, on this machine or in a recorded set")
    size = (NARROW_WIDTH, 1.5 + 0.5 * len(rows)) if narrow else (WIDTH * 0.86, 1.25 + 0.42 * len(rows))
    with styled():
        figure, axis = pyplot.subplots(figsize=size, layout="constrained")
        _rows(axis, rows, narrow)
        handles = [
            pyplot.Line2D([], [], color=colour, marker=marker, label=LABELS[key])
            for key, (colour, marker, _) in STYLES.items()
        ]
        figure.legend(handles=handles, loc="outside lower left", ncols=1 if narrow else 2)
    row_texts = (
        f"{row.name}: warm {row.warm.mean:.2f} ({row.warm.least:.2f} to {row.warm.most:.2f}), "
        f"cold {row.cold.mean:.2f} ({row.cold.least:.2f} to {row.cold.most:.2f})"
        for row in rows
    )
    return Drawing(
        figure,
        "Speed of CuTe over cuTile. " + "; ".join(row_texts) + ".",
        "Points: geometric mean over workloads of cuTile time ÷ CuTe DSL time, fastest kernel of each. Lines: minimum "
        "to maximum. Right of 1, CuTe DSL is faster.",
    )


def _name(comparison: Compare | Recorded, entry: Speedup) -> str:
    gpu = (entry.device.device or "").removeprefix("NVIDIA ")
    place = " (this machine)" if entry.device.kind == "live" else ""
    return f"{comparison.operator}\n{gpu}, {entry.target}{place}"


def _rows(axis: Axes, rows: list[Row], narrow: bool) -> None:
    for place, row in enumerate(rows):
        name = row.name.replace("\n", " on ")
        _point(axis, place, name, row.warm, "warm")
        _point(axis, place, name, row.cold, "cold")
        if narrow:
            axis.text(0, place - 0.32, name, transform=axis.get_yaxis_transform(), va="bottom", fontsize=8)
    if narrow:  # keep the line off the names
        ends = [[place + end for place in range(len(rows))] for end in (-0.3, 0.3)]
        axis.vlines([1] * len(rows), *ends, color=INK, linewidth=1)
    else:
        axis.axvline(1, color=INK, linewidth=1)
    axis.set_yticks([] if narrow else range(len(rows)), [] if narrow else [row.name for row in rows])
    axis.set_ylim(len(rows) - 0.5, -0.75)
    _scale(axis, rows, narrow)


def _point(axis: Axes, place: int, name: str, speed: Speed, key: str) -> None:
    """Draw mean and range, with the mean as text at the end away from 1."""
    colour, marker, offset = STYLES[key]
    y = place - offset
    left = speed.most < 1
    axis.plot([speed.least, speed.most], [y, y], color=colour, linewidth=1.6, solid_capstyle="butt")
    (mark,) = axis.plot([speed.mean], [y], marker=marker, markersize=6.5, color=colour, linestyle="none")
    tip(mark, f"{name}, {key}: {speed.mean:.2f}, from {speed.least:.2f} to {speed.most:.2f}")
    axis.annotate(
        f"{speed.mean:.2f}",
        (speed.least if left else speed.most, y),
        (-5 if left else 5, 0),
        textcoords="offset points",
        ha="right" if left else "left",
        va="center",
        fontsize=8.5,
        color=colour,
    )


def _scale(axis: Axes, rows: list[Row], narrow: bool) -> None:
    speeds = [end for row in rows for speed in (row.warm, row.cold) for end in (speed.least, speed.most)]
    low, high = min(*speeds, 0.9) / 1.18, max(*speeds, 1.1) * 1.18
    ticks = FINE if high / low < 6 and not narrow else COARSE
    axis.set_xscale("log")
    axis.set_xlim(low, high)
    axis.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if low < tick < high]))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}{TIMES}"))
    axis.xaxis.set_minor_locator(NullLocator())
    parts = ("cuTile time ÷ CuTe DSL time (log scale)", "← cuTile faster · CuTe DSL faster →")
    axis.set_xlabel("\n".join(parts))
    if not narrow:
        axis.grid(True, axis="x", color=LINE)
    axis.tick_params(axis="y", length=0, labelcolor=INK)
    axis.tick_params(axis="x", labelcolor=SOFT)
    axis.spines.left.set_visible(False)
