"""Heat map with printed values: workloads down, kernels or pairs across."""

from __future__ import annotations

from typing import Any

import pandas
import seaborn
from matplotlib import pyplot
from matplotlib.figure import Figure

from cutesnake.report.plot.style import INK

LABEL = 30  # characters of a workload in one line; with two columns this fits a phone


def heat_map(values: pandas.DataFrame, colours: pandas.DataFrame, **options: Any) -> Figure:
    """Draw `values` as text on cells shaded by `colours`; NaN cells stay empty."""
    rows, columns = values.shape
    names = [_lines(str(name)) for name in values.index]
    width, lines = max(len(line) for name in names for line in name) * 0.075, max(map(len, names))
    size = (width + max(1.05 * columns, 1.3), 1.3 + (0.27, 0.33, 0.45)[min(lines, 3) - 1] * rows)
    figure, axis = pyplot.subplots(figsize=size, layout="constrained")
    options |= {"cbar": False, "xticklabels": False, "yticklabels": False}  # else seaborn draws to detect overlaps
    seaborn.heatmap(colours, annot=values, fmt=".2f", linewidths=1.2, linecolor="none", ax=axis, **options)
    axis.xaxis.tick_top()
    axis.tick_params(length=0, labelcolor=INK)
    axis.set_xticks([x + 0.5 for x in range(columns)], [str(name).replace(" ", "\n") for name in values.columns])
    axis.set_yticks([y + 0.5 for y in range(rows)], ["\n".join(name) for name in names], linespacing=1.05, va="center")
    axis.set(xlabel="", ylabel="")
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
