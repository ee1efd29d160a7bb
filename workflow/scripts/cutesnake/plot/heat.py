"""Heat map with the number in every field: workloads down, kernels or pairs across."""

from __future__ import annotations

from typing import Any

import pandas
import seaborn
from matplotlib import pyplot
from matplotlib.figure import Figure

from cutesnake.plot.style import INK


def heat_map(values: pandas.DataFrame, colours: pandas.DataFrame, **options: Any) -> Figure:
    """`values` are printed, `colours` shade the fields; NaN fields stay empty and are said to be in the caption."""
    rows, columns = values.shape
    width = max(map(len, values.index.astype(str))) * 0.075
    figure, axis = pyplot.subplots(figsize=(width + max(1.05 * columns, 2.0), 1.3 + 0.27 * rows), layout="constrained")
    seaborn.heatmap(colours, annot=values, fmt=".2f", cbar=False, linewidths=1.2, linecolor="none", ax=axis, **options)
    axis.xaxis.tick_top()
    axis.tick_params(length=0, labelcolor=INK)
    axis.set_xticklabels([str(name).replace(" ", "\n") for name in values.columns], rotation=0)
    axis.set_yticklabels(axis.get_yticklabels(), rotation=0)
    axis.set(xlabel="", ylabel="")
    return figure
