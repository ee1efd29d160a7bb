"""Style of all plots: switchable light and dark colours, and reproducible SVG."""

import hashlib
import html
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib

matplotlib.use("svg")
import seaborn
from matplotlib import pyplot
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import PlaceHolderLayoutEngine

from cutesnake.model.dsls import DSLS
from cutesnake.report.palette import DARK, LIGHT

SERIES = tuple(LIGHT[f"c{i}"] for i in range(1, 9))
HATCHES = ("", "///", "\\\\\\", "xxx", "---", "|||", "+++", "/-/-")  # strokes only, since dots make large files
INK, SOFT, LINE = LIGHT["ink"], LIGHT["soft"], LIGHT["line"]
DSL_NAMES = {name: dsl.label for name, dsl in DSLS.items()}
TIMES = "\N{MULTIPLICATION SIGN}"
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


TIP, SEPARATOR = "tip:", "\N{SYMBOL FOR RECORD SEPARATOR}"


class NothingToShow(Exception):
    """Raised by a plot function without data; the message says why."""


@dataclass(frozen=True)
class Drawing:
    """A figure with its alternative text and caption."""

    figure: Figure
    alt: str
    caption: str


def tip(artist: Artist, *titles: str) -> None:
    """Set the text that a browser shows on hover, one per mark of the artist."""
    artist.set_gid(TIP + SEPARATOR.join(titles))


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
    text = _own_ids(_with_titles(text), name)
    text = re.sub(r"font-family: [^;\"]*;? ?", "", text)
    text = re.sub(r"font: ([\d. a-z]*px) '[^\"]*?'(?=[;\"])", r"font-size: \1", text)
    text = _without_groups(_rounded(re.sub(r"\n\s*", "\n", text)))
    text = _short_paths(_joined_rectangles(text))
    for role, colour in LIGHT.items():
        text = re.sub(colour, f"var(--{role}, {colour})", text, flags=re.IGNORECASE)
    _, head, body = re.split(r"<svg([^>]*)>", text, maxsplit=1)
    about = f"<title>{html.escape(title)}</title><desc>{html.escape(drawing.alt)}</desc>"
    css = _css(body)
    body, classes = _classes(body, _prefix(name))
    body = _shared_classes(body)
    return f'<svg class="plot" role="img"{head}>{about}{css}{classes}{body}'


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
    text = text.replace('xlink:href="', 'href="')
    used = dict.fromkeys(re.findall(r'(?:href="#|url\(#)([^")]+)', text))
    new = {old: f"{_prefix(name)}-{number}" for number, old in enumerate(used)}
    text = re.sub(r' id="([^"]*)"', lambda m: f' id="{new[m[1]]}"' if m[1] in new else "", text)
    return re.sub(r'(href="#|url\(#)([^")]+)', lambda m: m[1] + new[m[2]], text)


def _prefix(name: str) -> str:
    """Return the start of a plot's ids and classes."""
    return "p" + hashlib.sha256(name.encode()).hexdigest()[:6]


def _with_titles(text: str) -> str:
    """Give each mark of a `tip` its title, which browsers show."""

    def titled(group: re.Match[str]) -> str:
        titles = group[1].removeprefix(TIP).split(SEPARATOR)
        kind = "use" if "<use" in group[2] else "path"
        marks = re.findall(rf"<{kind} [^>]*/>", group[2])
        if len(marks) != len(titles):
            raise ValueError(f"{len(titles)} titles for {len(marks)} marks, from {titles[0]!r}")
        left = iter(titles)
        inside = re.sub(
            rf"<({kind} [^>]*)/>", lambda mark: f"<{mark[1]}><title>{next(left)}</title></{kind}>", group[2]
        )
        return f"<g>{inside}</g>"

    return re.sub(rf'<g id="({TIP}[^"]*)">(.*?)</g>', titled, text, flags=re.DOTALL)


def _rounded(text: str) -> str:
    """Round coordinates to 0.1 pt, an eighth of a pixel."""

    def short(number: re.Match[str]) -> str:
        return f"{round(float(number[0]), 1) + 0.0:g}"

    def attribute(match: re.Match[str]) -> str:
        return match[1] + re.sub(r"-?\d+\.\d+", short, match[2]) + '"'

    text = re.sub(r'( (?:d|x|y|width|height|viewBox|transform)=")([^"]*)"', attribute, text)
    return re.sub(r' transform="rotate\(-?0 [^"]*"', "", text)


def _short_paths(text: str) -> str:
    """Write vertical and horizontal lines briefly, and remove spaces and paths that draw nothing."""

    def short(path: re.Match[str]) -> str:
        out = []
        x = y = start_x = start_y = 0.0
        for kind, numbers in re.findall(r"([MLz])([^MLz]*)", path[1]):
            if kind == "z":
                out.append("z")
                x, y = start_x, start_y
                continue
            to_x, to_y = map(float, numbers.split())
            if kind == "M":
                out.append(f"M{to_x:g} {to_y:g}")
                start_x, start_y = to_x, to_y
            elif to_x == x:
                out.append(f"V{to_y:g}")
            elif to_y == y:
                out.append(f"H{to_x:g}")
            else:
                out.append(f"L{to_x:g} {to_y:g}")
            x, y = to_x, to_y
        return f' d="{"".join(out)}"'

    text = re.sub(r'<path d="[^"]*" style="fill: none"/>\n?', "", text)
    text = re.sub(r' d="([MLz\d\s.-]*)"', short, text)
    return re.sub(r' d="[^"]*"', lambda path: " " + re.sub(r"\s*([A-Za-z])\s*", r"\1", path[0]), text)


def _shared_classes(text: str) -> str:
    """Move a class from all marks of a clipped group to the group."""

    def shared(group: re.Match[str]) -> str:
        classes = set(re.findall(r' class="[^"]*"', group[2]))
        if len(classes) != 1 or group[2].count(one := classes.pop()) != group[2].count("<use"):
            return group[0]
        return f"<g{group[1]}{one}>{group[2].replace(one, '')}</g>"

    return re.sub(r'<g( clip-path="[^"]*")>((?:(?!<g|</g>).)*)</g>', shared, text, flags=re.DOTALL)


def _classes(text: str, prefix: str) -> tuple[str, str]:
    """Move styles of several elements into a style sheet; return both."""
    styles = Counter(re.findall(r' style="([^"]*)"', text))
    names = {style: f"{prefix}{number:x}" for number, style in enumerate(s for s, n in styles.items() if n > 1)}
    text = re.sub(r' style="([^"]*)"', lambda m: f' class="{names[m[1]]}"' if m[1] in names else m[0], text)
    rules = "".join(f".{name}{{{style}}}" for style, name in names.items())
    return text, f"<style>.plot text{{pointer-events:none}}{rules}</style>"


def _without_groups(text: str) -> str:
    """Remove empty groups, and the tags of groups without attributes."""
    out: list[str] = []
    kept: list[bool] = []
    for token in re.split(r"(<g\b[^>]*>\n?|</g>\n?)", re.sub(r"<(?:g|defs)/>\n?|<defs>\s*</defs>\n?", "", text)):
        if token.startswith("</g>"):
            if kept.pop():
                out.append(token)
        elif token.startswith("<g"):
            kept.append(not token.startswith("<g>"))
            if kept[-1]:
                out.append(token)
        else:
            out.append(token)
    return "".join(out)


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
