"""Layout plots as SVG: offsets, threads and values, tiles of a division, shared-memory banks."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cutesnake.report.layouts.algebra import IntTuple, Layout, Swizzle, parse, zipped_divide

CELL_W, CELL_H, MARGIN = 44, 22, 34
BANKS, BANK_BYTES = 32, 4  # shared memory (CUDA programming guide)
MOST_ROWS, MOST_COLUMNS = 16, 32  # shown at most; the caption says what is left out


@dataclass(frozen=True)
class LayoutPlot:
    """An SVG and its caption, which a notebook displays."""

    svg: str
    caption: str

    def _repr_html_(self) -> str:
        return f"<figure>{self.svg}<figcaption>{html.escape(self.caption)}</figcaption></figure>"


@dataclass(frozen=True)
class Cell:
    """Text of a cell and the number that selects its colour."""

    text: str
    shade: int


def draw(
    layout: Layout | str,
    *,
    tiler: IntTuple | None = None,
    divide: Sequence[Layout | int] | None = None,
    swizzle: Swizzle | None = None,
    element_bytes: int | None = None,
) -> LayoutPlot:
    """Return a plot of a layout.

    Default: a table of offsets, one row per index of the first mode. `tiler`: the layout maps threads and values over a
    tile of that shape; each element shows its thread and value. `divide`: colours are the tiles of a zipped division.
    `element_bytes`: colours are shared-memory banks, after `swizzle` if it is set. Raises ValueError for a text that is
    no static layout, or a tiler that the layout does not fill.
    """
    static = parse(layout) if isinstance(layout, str) else layout
    if not isinstance(static, Layout):
        raise ValueError(f"{layout!r} is no static layout; expected a layout or its text, such as (4,8):(8,1)")
    if tiler is not None:
        return _threads_and_values(static, tiler)
    if divide is not None:
        return _division(static, divide)
    if element_bytes is not None:
        return _banks(static, swizzle, element_bytes)
    rows, columns = _sides(static)
    title = f"{static}: rows are the first mode, columns the second; cells hold offsets"
    return _grid(rows, columns, lambda i, j: Cell(str(static(i, j) if columns > 1 else static(i)), j), title)


def _sides(layout: Layout) -> tuple[int, int]:
    modes = layout.modes
    if len(modes) > 2:
        raise ValueError(f"{layout} has {len(modes)} modes: a plot has two axes; group modes in brackets")
    return modes[0].size, modes[1].size if len(modes) == 2 else 1


def _threads_and_values(layout: Layout, tiler: IntTuple) -> LayoutPlot:
    rows, columns = _extent(tiler)
    thread, value = layout.modes
    firsts, steps = [thread(t) for t in range(thread.size)], [value(v) for v in range(value.size)]
    if (largest := max(firsts) + max(steps)) >= rows * columns:
        raise ValueError(f"{layout} reaches element {largest} of a tile of {rows} x {columns}")
    shown = {i + rows * j for i in range(min(rows, MOST_ROWS)) for j in range(min(columns, MOST_COLUMNS))}
    who: dict[int, tuple[int, int]] = {}
    for t, first in enumerate(firsts):
        for v, step in enumerate(steps):
            if first + step in shown:
                who.setdefault(first + step, (t, v))

    def cell(i: int, j: int) -> Cell:
        owner = who.get(i + rows * j)
        return Cell(f"T{owner[0]} V{owner[1]}", owner[0]) if owner else Cell("", -1)

    title = f"{layout} over a tile of {rows} x {columns}: T is the thread, V the index of its value"
    return _grid(rows, columns, cell, title)


def _extent(tiler: IntTuple) -> tuple[int, int]:
    if isinstance(tiler, int):
        return tiler, 1
    sizes = [part if isinstance(part, int) else math.prod(_flat(part)) for part in tiler]
    return sizes[0], math.prod(sizes[1:])


def _flat(value: IntTuple) -> list[int]:
    return [value] if isinstance(value, int) else [leaf for part in value for leaf in _flat(part)]


def _division(layout: Layout, divide: Sequence[Layout | int]) -> LayoutPlot:
    divided = zipped_divide(layout, divide)
    inside, tiles = divided.modes
    where = {divided(place, tile): tile for tile in range(tiles.size) for place in range(inside.size)}
    rows, columns = _sides(layout)

    def cell(i: int, j: int) -> Cell:
        offset = layout(i, j)
        return Cell(str(offset), where[offset])

    title = f"{layout} divided into {tiles.size} tiles of {inside.size}: {divided}; each colour is a tile"
    return _grid(rows, columns, cell, title)


def _banks(layout: Layout, swizzle: Swizzle | None, element_bytes: int) -> LayoutPlot:
    rows, columns = _sides(layout)

    def cell(i: int, j: int) -> Cell:
        offset = layout(i, j) if columns > 1 else layout(i)
        byte = (swizzle(offset) if swizzle else offset) * element_bytes
        return Cell(str(byte // BANK_BYTES % BANKS), byte // BANK_BYTES % BANKS)

    after = f" after {swizzle}" if swizzle else ""
    title = f"{layout}{after}, elements of {element_bytes} bytes: cells hold the bank of their first byte"
    return _grid(rows, columns, cell, title)


def _grid(rows: int, columns: int, cell: Callable[[int, int], Cell], title: str) -> LayoutPlot:
    shown_rows, shown_columns = min(rows, MOST_ROWS), min(columns, MOST_COLUMNS)
    cells = [[cell(i, j) for j in range(shown_columns)] for i in range(shown_rows)]
    width, height = MARGIN + CELL_W * shown_columns + 2, MARGIN - 12 + CELL_H * shown_rows + 2
    out: list[str] = []
    areas: dict[int, list[str]] = {}
    for j in range(shown_columns):
        out.append(f'<text x="{MARGIN + CELL_W * j + CELL_W // 2}" y="14" class="h">{j}</text>')
    for i, row in enumerate(cells):
        y = MARGIN - 12 + CELL_H * i
        out.append(f'<text x="{MARGIN // 2}" y="{y + 15}" class="h">{i}</text>')
        for j, one in enumerate(row):
            x = MARGIN + CELL_W * j
            areas.setdefault(one.shade, []).append(f"M{x} {y}h{CELL_W - 1}v{CELL_H - 1}h{1 - CELL_W}z")
            out.append(f'<text x="{x + CELL_W // 2}" y="{y + 15}">{html.escape(one.text)}</text>')
    fills = "".join(f'<path d="{"".join(paths)}" fill="{colour(shade)}"/>' for shade, paths in areas.items())
    cut = "" if (rows, columns) == (shown_rows, shown_columns) else f" (first part of {rows} x {columns})"
    return LayoutPlot(svg_of([fills, *out], width, height, title), f"{title}{cut}.")


def svg_of(parts: Sequence[str], width: float, height: float, title: str) -> str:
    """Return an SVG of parts; texts of class h label axes, e right-aligned."""
    style = (
        ".layout text{font:11px system-ui,sans-serif;text-anchor:middle;fill:#14171b}"
        ".layout .h,.layout .e{fill:#808890}.layout .e{text-anchor:end}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="layout" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img" aria-label="{html.escape(title)}"><style>{style}</style>'
        f"{''.join(parts)}</svg>"
    )


def colour(number: int) -> str:
    """Return a colour; neighbouring numbers differ in hue, all are light enough for dark text."""
    if number < 0:
        return "#ffffff"
    return f"hsl({number * 137 % 360} 62% {78 - number // 8 % 3 * 7}%)"
