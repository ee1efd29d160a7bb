"""Heat map with printed values and a colour bar: workloads down, columns across."""

from dataclasses import dataclass
from typing import Literal

import pandas
import seaborn
from matplotlib import pyplot
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure
from seaborn.utils import relative_luminance

from cutesnake.report.plot.style import INK, tip

LABEL = 30  # characters of a workload in one line; with two columns this fits a phone
HALF = 0.179  # luminance on which black and white text have equal contrast (WCAG 2.2)


@dataclass(frozen=True)
class Scale:
    """Colours of a heat map: `levels` are the limits of its steps."""

    cmap: str
    levels: list[float]
    ticks: list[float]
    name: str


def heat_map(texts: pandas.DataFrame, values: pandas.DataFrame, scale: Scale, tips: pandas.DataFrame) -> Figure:
    """Draw `texts` on cells coloured by `values`, with `tips` on hover; NaN cells stay empty."""
    rows, columns = values.shape
    names = [_lines(str(name)) for name in values.index]
    width, lines = max(len(line) for name in names for line in name) * 0.075, max(map(len, names))
    size = (width + max(1.05 * columns, 1.3), 2.1 + (0.24, 0.3, 0.43)[min(lines, 3) - 1] * rows)
    figure, axis = pyplot.subplots(figsize=size, layout="constrained")
    low, high = values.min(axis=None) < scale.levels[0], values.max(axis=None) > scale.levels[-1]
    extend: Literal["neither", "min", "max", "both"]
    extend = ("both" if high else "min") if low else ("max" if high else "neither")
    steps = len(scale.levels) - 1 + low + high
    seaborn.heatmap(
        values,
        annot=texts.where(values.notna(), ""),
        fmt="",
        linewidths=1.2,
        linecolor="none",
        ax=axis,
        cmap=pyplot.get_cmap(scale.cmap, steps),
        norm=BoundaryNorm(scale.levels, steps, extend=extend),
        cbar=False,
        xticklabels=False,  # else seaborn draws to detect overlaps
        yticklabels=False,
    )
    (mesh,) = axis.collections
    for text, colour in zip(axis.texts, mesh.get_facecolors()[values.notna().to_numpy().ravel()], strict=True):
        text.set_color("white" if relative_luminance(colour) < HALF else "black")
    tip(mesh, *tips.where(values.notna(), "not measured").to_numpy().ravel())
    axis.xaxis.tick_top()
    axis.tick_params(length=0, labelcolor=INK)
    axis.set_xticks([x + 0.5 for x in range(columns)], [str(name).replace(" ", "\n") for name in values.columns])
    axis.set_yticks([y + 0.5 for y in range(rows)], ["\n".join(name) for name in names], linespacing=1.05, va="center")
    axis.set(xlabel="", ylabel="")
    bar = figure.colorbar(mesh, ax=axis, location="bottom", fraction=0.3 / size[1], aspect=24, pad=0.02, shrink=0.95)
    bar.set_ticks(scale.ticks, labels=[f"{tick:g}" for tick in scale.ticks])
    bar.ax.minorticks_off()
    bar.outline.set_visible(False)
    bar.set_label(scale.name, fontsize=8.5)
    return figure


def _lines(name: str) -> list[str]:
    """Split a workload's name into lines between its sizes."""
    lines: list[str] = []
    for size in name.split(", "):
        if lines and len(lines[-1]) + len(size) < LABEL:
            lines[-1] += f" {size},"
        else:
            lines.append(f"{size},")
    lines[-1] = lines[-1].removesuffix(",")
    return lines
