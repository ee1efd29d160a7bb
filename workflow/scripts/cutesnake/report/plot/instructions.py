"""Instruction mix of each build's main device function, by class."""

from typing import Any

import pandas
from matplotlib import pyplot
from matplotlib.axes import Axes

from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.report.plot.data import functions, merged
from cutesnake.report.plot.style import HATCHES, INK, SERIES, SOFT, WIDTH, Drawing, NothingToShow, styled, tip

# Class of the inspect record -> label. Arithmetic and control ("other") would dominate the bars and is text instead.
CLASSES = {
    "tensor_core": "tensor core",
    "tma_load": "TMA load",
    "tma_multicast": "TMA multicast",
    "tma_store": "TMA store",
    "tma_reduce": "TMA reduce",
    "tensor_memory": "tensor memory",
    "barrier": "barrier",
    "special_function": "special function",
    "global_memory": "global memory",
    "shared_memory": "shared memory",
    "local_memory": "local memory",
}
PLACES = {name: place for place, name in enumerate(CLASSES.values())}  # a class has the same look in every plot


def draw_instructions(evidence: Evidence) -> Drawing:
    """Draw a stacked bar per group of equal builds: share by class without arithmetic."""
    table = functions(evidence)
    table = table[table["instructions"].notna()]
    if table.empty:
        raise NothingToShow("no build's instructions could be counted")
    table = merged(table, ["instructions"])
    names = table["build"].tolist()
    counts = pandas.DataFrame(
        [{name: mix.get(key) or 0 for key, name in CLASSES.items()} for mix in table["instructions"]], index=names
    )
    other = pandas.Series([mix.get("other") or 0 for mix in table["instructions"]], index=names)
    counts = counts.loc[:, counts.sum() > 0]
    with styled():
        figure, axis = pyplot.subplots(figsize=(WIDTH, 1.3 + 0.34 * len(counts)), layout="constrained")
        _bars(axis, counts)
        for row, name in enumerate(names):
            text = f"of {int(counts.loc[name].sum()):,}; {int(other[name]):,} other"
            place = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
            axis.annotate(text, (100, row), fontsize=8.5, color=SOFT, **place)
        axis.set_ylim(len(counts) - 0.5, -0.5)
        axis.set(xlim=(0, 100), xlabel="share of the instructions of these classes (%)")
        axis.tick_params(axis="y", length=0, labelcolor=INK)
        axis.spines["left"].set_visible(False)
        figure.legend(loc="outside lower left", ncols=4)
    row_texts = (
        f"{name}: " + ", ".join(f"{kind} {int(count)}" for kind, count in row.items() if count)
        for name, row in counts.iterrows()
    )
    caption = (
        "Instructions in the code of each build's main device function. Each instruction counts once, regardless of "
        "loops. Static values."
    )
    return Drawing(figure, "Stacked bars per build. " + ". ".join(row_texts) + ".", caption)


def _bars(axis: Axes, counts: pandas.DataFrame) -> None:
    """Draw a stacked bar per row of counts; repeated colours get another hatch."""
    share = 100 * counts.div(counts.sum(axis=1).clip(lower=1), axis=0)
    left = pandas.Series(0.0, index=share.index)
    for column in share:
        place = PLACES[column]
        hatch = HATCHES[(place + place // len(SERIES)) % len(HATCHES)]
        look: dict[str, Any] = {"color": SERIES[place % len(SERIES)], "hatch": hatch, "height": 0.62, "linewidth": 0}
        bars = axis.barh(share.index, share[column], left=left, label=column, **look)
        for name, bar in zip(share.index, bars, strict=True):
            if counts.loc[name, column]:
                bar.set_clip_on(False)
                tip(bar, f"{column}: {counts.loc[name, column]:,.0f}, {share.loc[name, column]:.1f} %")
            else:
                bar.remove()
        left += share[column]
