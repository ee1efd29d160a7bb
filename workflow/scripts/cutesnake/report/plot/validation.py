"""Predicted vs measured times, on GPUs with measurements."""

import statistics
from collections.abc import Sequence

import yaml
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from cutesnake.model.paths import ROOT
from cutesnake.report.plot.style import INK, LINE, SERIES, SOFT, Drawing, NothingToShow, lay_out, styled, tip
from cutesnake.stages.predict.validated import Part, ValidatedRow

PANELS = {"warm": "Warm L2", "cold": "Single calls, L2 flushed (cold)"}
FILLS: dict[Part, str] = {"development": "full", "held_out": "bottom", "blind": "none"}
NAMES: dict[Part, str] = {"development": "development", "held_out": "first held out", "blind": "opened last"}
FAMILIES: dict[str, list[str]] = yaml.safe_load((ROOT / "kernels/families.yaml").read_text())
OTHERS = "other (copies, sums, norms, scans)"
LOOKS = dict(zip((*FAMILIES, OTHERS), zip("os^DvP", SERIES, strict=False), strict=True))  # marker, colour
OFF = 0.3  # error of the dashed lines, relative to the measured time


def draw_validation(predictions: Sequence[ValidatedRow]) -> Drawing:
    """Draw a panel per kind of sample, a marker per operator family.

    Filled: families used while the model was developed. Half filled: held out until the first validation. Hollow:
    opened once, at the end.
    """
    if not predictions:
        raise NothingToShow("no prediction was compared with a measurement")
    kinds = [kind for kind in PANELS if any(row.kind == kind for row in predictions)]
    with styled():
        figure, axes = lay_out(
            len(kinds), (5.2, 4.4), (0.6, 0.9), "measured time (µs, log scale)", "predicted time (µs, log scale)"
        )
        for axis, kind in zip(axes, kinds, strict=True):
            _panel(axis, [row for row in predictions if row.kind == kind])
            axis.set_title(PANELS[kind])
        handles = [
            pyplot.Line2D([], [], color=INK, linewidth=1.0, label="as measured"),
            pyplot.Line2D(
                [],
                [],
                color=SOFT,
                linewidth=0.8,
                linestyle="--",
                label=f"predicted {100 * OFF:.0f} % too slow or too fast",
            ),
        ]
        style = {"linestyle": "none", "markeredgewidth": 1.1, "markerfacecoloralt": "none"}
        drawn = {family(row.operator) for row in predictions}
        handles += [
            pyplot.Line2D([], [], marker=marker, color=colour, label=name, **style)
            for name, (marker, colour) in LOOKS.items()
            if name in drawn
        ]
        handles += [
            pyplot.Line2D([], [], marker="o", color=SOFT, fillstyle=fill, label=NAMES[part], **style)
            for part, fill in FILLS.items()
            if any(row.part == part for row in predictions)
        ]
        figure.legend(handles=handles, loc="outside lower left", ncols=3)
    gpus = " and ".join(dict.fromkeys(row.device.upper() for row in predictions))
    parts = {part: [row for row in predictions if row.part == part] for part in FILLS}
    errors = "; ".join(f"{NAMES[part]}: {_errors(rows)}" for part, rows in parts.items() if rows)
    return Drawing(
        figure,
        f"Predicted vs measured, {len(predictions)} calls on {gpus}. {errors}.",
        f"Errors of this page's prediction model on GPUs with measurements ({gpus}). Filled points: families used "
        "during development. Half filled: held out until the first validation. Hollow: opened once, at the end. "
        f"{errors[0].upper()}{errors[1:]}. Errors here are at the clock of each measurement, those in verdicts and "
        "bands at the highest clock. On hover: predicted vs measured time.",
    )


def family(operator: str) -> str:
    """Return the family that an operator is drawn as."""
    return next((name for name, operators in FAMILIES.items() if operator in operators), OTHERS)


def _tip(row: ValidatedRow) -> str:
    return f"{row.operator} {row.kernel}, {row.device.upper()}: {row.predicted_us:.4g} vs {row.measured_us:.4g} µs"


def _panel(axis: Axes, rows: Sequence[ValidatedRow]) -> None:
    times = [time for row in rows for time in (row.measured_us, row.predicted_us)]
    low, high = min(times) / 1.4, max(times) * 1.4
    axis.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high), aspect="equal")
    axis.plot((low, high), (low, high), color=INK, linewidth=1.0)
    for factor in (1 + OFF, 1 - OFF):
        axis.plot((low, high), (low * factor, high * factor), color=SOFT, linewidth=0.8, linestyle="--")
    for name, (marker, colour) in LOOKS.items():
        for part, fill in FILLS.items():
            mine = [row for row in rows if family(row.operator) == name and row.part == part]
            if not mine:
                continue
            (marks,) = axis.plot(
                [row.measured_us for row in mine],
                [row.predicted_us for row in mine],
                linestyle="none",
                marker=marker,
                markersize=5.5,
                color=colour,
                fillstyle=fill,
                markerfacecoloralt="none",
                markeredgewidth=1.0,
            )
            tip(marks, *map(_tip, mine))
    axis.grid(True, which="major", axis="both", color=LINE)
    for ticks in (axis.xaxis, axis.yaxis):
        ticks.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        ticks.set_minor_locator(LogLocator(subs=(2, 5)))
        ticks.set_minor_formatter(NullFormatter())


def _errors(rows: Sequence[ValidatedRow]) -> str:
    sizes = sorted(abs(row.error_percent) for row in rows)
    ninth = statistics.quantiles(sizes, n=10, method="inclusive")[-1] if len(sizes) > 1 else sizes[0]
    return f"median error {statistics.median(sizes):.1f} %, 90th percentile {ninth:.1f} % of {len(sizes)}"
