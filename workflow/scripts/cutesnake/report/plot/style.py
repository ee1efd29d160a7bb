"""Style of all plots: switchable light and dark colours, and reproducible SVG."""

from __future__ import annotations

import hashlib
import html
import io
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib

matplotlib.use("svg")
import seaborn
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import PlaceHolderLayoutEngine

from cutesnake.model.dsls import DSLS
from cutesnake.report.palette import DARK, LIGHT

SERIES = tuple(LIGHT[f"c{i}"] for i in range(1, 9))
HATCHES = ("", "///", "\\\\\\", "xxx", "---", "|||", "+++", "/-/-")  # strokes only, since dots make large files
INK, SOFT, LINE = LIGHT["ink"], LIGHT["soft"], LIGHT["line"]
DSL_NAMES = {name: dsl.label for name, dsl in DSLS.items()}
DSL_STYLES = {
    "cutile": "-",
    "cute": (0, (5, 1.5)),
    "torch": (0, (1, 1.5)),
    "cuda": (0, (5, 1.5, 1, 1.5)),
    "cute_jit": (0, (3, 1.5, 1, 1.5, 1, 1.5)),
}
WIDTH = 11.0  # inches, the maximum width of a plot: 1056 px on the page

_RC = {
    "svg.fonttype": "none",
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.edgecolor": LINE,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.8,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "text.color": INK,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "hatch.linewidth": 0.5,
    "hatch.color": INK,
    "font.family": "DejaVu Sans",
}


class NothingToShow(Exception):
    """Raised by a plot function without data; the message says why."""


@dataclass(frozen=True)
class Drawing:
    """A figure with its alternative text and caption."""

    figure: Figure
    alt: str
    caption: str


@contextmanager
def styled() -> Iterator[None]:
    """Apply the project's plot style within the block."""
    with pyplot.rc_context():
        seaborn.set_theme(style="ticks", rc=_RC)
        yield


def short_sizes(values: Iterable[int]) -> dict[int, str]:
    """Format sizes briefly: `4k` for 4096, if all are multiples of 1024."""
    sizes = list(values)
    binary = all(value >= 1024 and value % 1024 == 0 for value in sizes)
    return {value: f"{value // 1024}k" if binary else f"{value:,}" for value in sizes}


def lay_out(
    panels: int, panel: tuple[float, float], margin: tuple[float, float], x: str, y: str
) -> tuple[Figure, list[Axes]]:
    """Return a figure of `panels` axes that share their scales, at most three a row.

    panel: width and height of a panel in inches. margin: additional width and height in inches. The lowest panel of
    each column gets the label `x`, the first of each row `y`.
    """
    rows = -(-panels // 3)
    columns = -(-panels // rows)
    size = (min(WIDTH, margin[0] + panel[0] * columns), margin[1] + panel[1] * rows)
    figure, grid = pyplot.subplots(
        rows, columns, figsize=size, sharex=True, sharey=True, squeeze=False, layout="constrained"
    )
    used = list(grid.flat[:panels])
    for axis in grid.flat[panels:]:
        axis.set_visible(False)
    for axis in used[-columns:]:
        axis.set_xlabel(x)
        axis.tick_params(labelbottom=True)
    for axis in grid[:, 0]:
        axis.set_ylabel(y)
    return figure, used


def to_svg(drawing: Drawing, name: str, title: str) -> str:
    """Return the figure as reproducible SVG; ids derive from `name`, unique on a page."""
    stream = io.StringIO()
    with pyplot.rc_context({"svg.hashsalt": name, "svg.fonttype": "none"}), _laid_out_only(drawing.figure):
        drawing.figure.savefig(
            stream,
            format="svg",
            transparent=True,
            bbox_inches="tight",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
    pyplot.close(drawing.figure)
    text = stream.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r"<style type=\"text/css\">.*?</style>", "", text, count=1, flags=re.DOTALL)
    text = _own_ids(text, name)
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
    text = re.sub(r"font: ([\d. a-z]*px) '[^\"]*?'(?=[;\"])", r"font-size: \1", text)
    text = re.sub(r"(\.\d\d)\d+", r"\1", text)  # 0.01 pt is below any screen resolution
    text = _joined_rectangles(_without_empty_groups(re.sub(r"\n\s*", "\n", text)))
    for role, colour in LIGHT.items():
        text = re.sub(colour, f"var(--{role}, {colour})", text, flags=re.IGNORECASE)
    _, head, body = re.split(r"<svg([^>]*)>", text, maxsplit=1)
    about = f"<title>{html.escape(title)}</title><desc>{html.escape(drawing.alt)}</desc>"
    return f'<svg class="plot" role="img"{head}>{about}{_css(body)}{body}'


@contextmanager
def _laid_out_only(figure: Figure) -> Iterator[None]:
    """Skip matplotlib's first drawing of a figure, which only serves its layout."""
    draw = figure.draw

    def lay_out_or_draw(renderer: Any) -> None:
        engine = figure.get_layout_engine()
        if engine is None or isinstance(engine, PlaceHolderLayoutEngine):  # set after layout
            draw(renderer)
        else:
            engine.execute(figure)

    figure.draw = lay_out_or_draw  # type: ignore[method-assign]
    try:
        yield
    finally:
        del figure.draw


def _own_ids(text: str, name: str) -> str:
    """Keep only ids that are referenced, shortened and unique to the plot."""
    prefix = "p" + hashlib.sha256(name.encode()).hexdigest()[:6]
    used = dict.fromkeys(re.findall(r'(?:xlink:href="#|url\(#)([^")]+)', text))
    new = {old: f"{prefix}-{number}" for number, old in enumerate(used)}
    text = re.sub(r' id="([^"]*)"', lambda m: f' id="{new[m[1]]}"' if m[1] in new else "", text)
    return re.sub(r'(xlink:href="#|url\(#)([^")]+)', lambda m: m[1] + new[m[2]], text)


def _without_empty_groups(text: str) -> str:
    """Remove groups without attributes around a single element."""
    while True:
        text, count = re.subn(r"<g>\n(<[^>]*/>)\n</g>", r"\1", text)
        if not count:
            return text


_NUMBER = r"(-?[\d.]+)"
_RECTANGLE = re.compile(
    rf'<path d="M {_NUMBER} {_NUMBER} ?\nL \1 {_NUMBER} ?\nL {_NUMBER} \3 ?\nL \4 \2 ?\nz\n" ([^>]*)/>\n?'
    rf'|<path d="M {_NUMBER} {_NUMBER} ?\nL {_NUMBER} \7 ?\nL \8 {_NUMBER} ?\nL \6 \9 ?\nz\n" ([^>]*)/>\n?'
)


def _joined_rectangles(text: str) -> str:
    """Join consecutive rectangles of equal style into one path."""
    out: list[str] = []
    end, last = 0, None
    for match in _RECTANGLE.finditer(text):
        x, y, y2, x2, look = match.groups()[:5]
        if look is None:
            x, y, x2, y2, look = match.groups()[5:]
        drawn = f"M{x} {y}V{y2}H{x2}V{y}z"
        if match.start() == end and look == last and "opacity" not in look:
            out[-1] = out[-1].replace('" ', f'{drawn}" ', 1)
        else:
            out += [text[end : match.start()], f'<path d="{drawn}" {look}/>\n']
        end, last = match.end(), look
    return "".join([*out, text[end:]])


def _css(text: str) -> str:
    """Return the light and dark colours that a plot uses."""
    used = [role for role in LIGHT if f"var(--{role}," in text]
    light, dark = (";".join(f"--{role}:{colours[role]}" for role in used) for colours in (LIGHT, DARK))
    return (
        f"<style>.plot{{{light};font-family:system-ui,sans-serif;stroke-linejoin:round}}"
        f"@media (prefers-color-scheme:dark){{.plot{{{dark}}}}}</style>"
    )
