"""Registers, shared memory and spills of every build, with hardware limits."""

import pandas
import seaborn
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cutesnake.analysis.compare.insight import REGISTER_CEILING
from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.report.palette import LIGHT, role_of_dsl
from cutesnake.report.plot.data import functions, merged
from cutesnake.report.plot.style import DSL_NAMES, HATCHES, INK, SOFT, WIDTH, Drawing, styled

SHARED_LIMIT_KB = {
    "sm_90a": 227,
    "sm_100a": 227,
    "sm_103a": 227,
    "sm_110a": 227,
    "sm_120a": 99,
    "sm_121a": 99,
}  # CUDA guide, per block
PLACES = {dsl: place for place, dsl in enumerate(DSL_NAMES)}  # hatch index, the same in every plot
PANELS = (  # column, name, unit
    ("registers_per_thread", "Registers/thread", ""),
    ("shared_kb", "SMEM/block", "KB"),
    ("spill_bytes", "Spills/thread", "bytes"),
)


def draw_resources(evidence: Evidence) -> Drawing:
    """Draw three bar panels of main device functions, a bar per group of equal builds."""
    table = functions(evidence)
    table["shared_kb"] = (table["static_shared_bytes"] + table["dynamic_shared_bytes"]) / 1024
    table = merged(table, [column for column, _, _ in PANELS])
    dsls = [dsl for dsl in DSL_NAMES if dsl in set(table["dsl"])]
    limits = {SHARED_LIMIT_KB[target] for target in table["target"] if target in SHARED_LIMIT_KB}
    with styled():
        figure, axes = pyplot.subplots(1, 3, figsize=(WIDTH, 0.9 + 0.3 * len(table)), sharey=True, layout="constrained")
        for axis, panel, marks in zip(axes, PANELS, ({REGISTER_CEILING}, limits, set()), strict=True):
            _panel(axis, table, panel, dsls, marks)
        _legend(figure, dsls)
    alt = "Bars per build. " + " ".join(_describe(row) for row in table.to_dict("records"))
    caption = "Static values of each build's main device function. Dotted: hardware limit per thread or block."
    return Drawing(figure, alt, caption)


def _panel(axis: Axes, table: pandas.DataFrame, panel: tuple[str, str, str], dsls: list[str], limits: set[int]) -> None:
    column, name, unit = panel
    seaborn.barplot(
        data=table,
        y="build",
        x=column,
        hue="dsl",
        hue_order=dsls,
        palette=[LIGHT[role_of_dsl(dsl)] for dsl in dsls],
        dodge=False,
        ax=axis,
        legend=False,
        saturation=1,
        width=0.62,
    )
    for bars, dsl in zip(axis.containers, dsls, strict=True):
        for bar in bars:
            bar.set(hatch=HATCHES[PLACES[dsl]], edgecolor="none")
    for limit in limits:
        axis.axvline(limit, color=INK, linewidth=0.9, linestyle=":")
    for index, value in enumerate(table[column]):
        end = 0 if pandas.isna(value) else value
        end = next((limit for limit in limits if 0.85 * limit < end < limit), end)  # keep the text off the dotted line
        text = "not known" if pandas.isna(value) else f"{value:.0f}"
        axis.annotate(text, (end, index), (4, 0), textcoords="offset points", va="center", fontsize=8.5)
    top = table[column].max()
    axis.set(
        xlim=(0, (top if top and top > 0 else 1) * 1.2), ylabel="", xlabel="", title=f"{name}, {unit}" if unit else name
    )
    axis.tick_params(axis="y", length=0, labelcolor=INK)
    axis.xaxis.set_visible(False)
    axis.spines["bottom"].set_visible(False)


def _legend(figure: Figure, dsls: list[str]) -> None:
    handles = [
        pyplot.Rectangle(
            (0, 0),
            1,
            1,
            facecolor=LIGHT[role_of_dsl(dsl)],
            hatch=HATCHES[i],
            edgecolor=SOFT,
            linewidth=0,
            label=DSL_NAMES[dsl],
        )
        for dsl, i in PLACES.items()
        if dsl in dsls
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=len(handles))


def _describe(row: dict) -> str:
    parts = []
    for column, name, unit in PANELS:
        value = row[column]
        parts.append(f"{name.lower()} " + ("not known" if pandas.isna(value) else f"{value:.0f} {unit}".strip()))
    return f"{row['build']}: {', '.join(parts)}."
