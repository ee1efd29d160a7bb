"""Plots of tensor memory and of swizzled shared memory, with each part at its place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cutesnake.report.layouts.algebra import Swizzle
from cutesnake.report.layouts.hardware import (
    COLUMNS,
    LANES,
    accumulator_columns,
    scale_factor_place,
    tensor_memory_place,
)
from cutesnake.report.layouts.plots import LayoutPlot, colour, svg_of

CHUNK = 16  # bytes that a swizzle moves together
ROWS = 8  # of an atom
LANE, COLUMN = 1.6, 0.55  # pixels
LEFT, TOP, GAP = 84, 40, 26


def draw_tensor_memory(m: int, n: int, ctas: int, accumulators: int = 1) -> LayoutPlot:
    """Plot m x n accumulators of tcgen05.mma in tensor memory, of `ctas` CTAs."""
    side, taken = COLUMNS * COLUMN, accumulator_columns(m, n, ctas)
    starts = [LEFT + cta * (side + GAP) for cta in range(ctas)]
    parts = [_cells(x, cta) for cta, x in enumerate(starts)]
    for number in range(accumulators):
        for cta, lane, lanes, column, columns, rows, part in _blocks(m, n, ctas):
            x, y = starts[cta] + (column + number * taken) * COLUMN, TOP + lane * LANE
            parts.append(_rectangle(x, y, columns * COLUMN, lanes * LANE, colour(lane // 32 + 4 * number)))
            lines = [f"rows {rows.start}-{rows.stop - 1}"]
            lines += [f"N {part.start}-{part.stop - 1}"] if len(part) < n else []
            for place, line in enumerate(lines):
                middle = y + lanes * LANE / 2 + 4 + 14 * place - 7 * (len(lines) - 1)
                parts.append(f'<text x="{x + columns * COLUMN / 2:.0f}" y="{middle:.0f}">{line}</text>')
    for warp in range(4):
        y = TOP + (warp * 32 + 18) * LANE
        parts.append(f'<text x="{LEFT - 4}" y="{y:.0f}" class="e">lanes {warp * 32}-{warp * 32 + 31}</text>')
    one = "An accumulator" if accumulators == 1 else f"{accumulators} accumulators"
    title = f"{one} of {m} x {n} by {'a pair of CTAs' if ctas == 2 else 'one CTA'} in tensor memory"
    what = f"{taken} of {COLUMNS} columns in each CTA{' and accumulator' if accumulators > 1 else ''}"
    return LayoutPlot(svg_of(parts, LEFT + ctas * (side + GAP), TOP + LANES * LANE + 4, title), f"{title}: {what}.")


def _cells(x: float, cta: int) -> str:
    """Draw the tensor memory of a CTA, with the quarters of its four warps."""
    side = COLUMNS * COLUMN
    heads = [f'<text x="{x + side / 2:.0f}" y="14" class="h">CTA {cta}, columns</text>']
    heads += [f'<text x="{x + at * COLUMN:.0f}" y="32" class="h">{at}</text>' for at in range(0, COLUMNS + 1, 128)]
    lines = [f'<path d="M{x} {TOP + warp * 32 * LANE:.1f}h{side:.1f}" stroke="#808890"/>' for warp in range(1, 4)]
    return "".join([*heads, _rectangle(x, TOP, side, LANES * LANE, "none"), *lines])


def _blocks(m: int, n: int, ctas: int) -> Iterable[tuple[int, int, int, int, int, range, range]]:
    """Yield blocks of an accumulator: CTA, lane, lanes, column, columns, rows, columns of N."""
    step = min(m // ctas, 32) if m != 64 else 16
    halves = 2 if m // ctas == 64 and ctas == 2 else 1
    for row in range(0, m, step):
        for part in range(halves):
            first = part * n // halves
            cta, lane, column = tensor_memory_place(m, n, ctas, row, first)
            yield cta, lane, step, column, n // halves, range(row, row + step), range(first, first + n // halves)


def draw_atom(swizzle: Swizzle | None, row_bytes: int) -> LayoutPlot:
    """Plot a swizzled atom of shared memory: eight rows, each chunk at its place."""
    chunks, width, height = row_bytes // CHUNK, 46, 22
    parts = [f'<text x="{LEFT + width * n + 22}" y="14" class="h">{n * CHUNK}</text>' for n in range(chunks)]
    for row in range(ROWS):
        parts.append(f'<text x="{LEFT - 6}" y="{35 + height * row}" class="e">{row * row_bytes}</text>')
        for chunk in range(chunks):
            at = row * row_bytes + chunk * CHUNK
            line, place = divmod((swizzle(at) if swizzle else at) // CHUNK, chunks)
            x, y = LEFT + width * place, 20 + height * line
            parts.append(_rectangle(x, y, width - 1, height - 1, colour(chunk)))
            parts.append(f'<text x="{x + width // 2}" y="{y + 15}">{row}.{chunk}</text>')
    title = f"Atom of a {row_bytes}-byte swizzle in shared memory"
    what = "a cell is 16 bytes, r.c is chunk c of row r; left and top: bytes from the atom's start"
    return LayoutPlot(svg_of(parts, LEFT + width * chunks + 2, 22 + height * ROWS, title), f"{title}: {what}.")


def draw_scale_factors(used: int) -> LayoutPlot:
    """Plot 128 rows by four groups along K of scale factors, `used` together."""
    width, height, shown = 46, 22, 8
    parts = [
        f'<text x="{LEFT + width * (4 * n + 2)}" y="14" class="h">{text} {n}</text>'
        for n, text in enumerate(("word or column", "word", "word", "word"))
    ]
    parts += [f'<text x="{LEFT - 6}" y="{35 + height * n}" class="e">line, lane {n}</text>' for n in range(shown)]
    for row in range(128):
        for group in range(4):
            line, place = divmod(scale_factor_place(row, group), CHUNK)
            if line < shown:
                x, y = LEFT + width * place, 20 + height * line
                parts.append(_rectangle(x, y, width - 1, height - 1, colour(group // used + 8 * (row // 32 % 2))))
                parts.append(f'<text x="{x + width // 2}" y="{y + 15}">{row}.{group}</text>')
    title = "Atom of scale factors, 128 rows by 4 groups along K (the first of 32 lines)"
    what = (
        "r.g is the factor of row r and group g, a byte each. A line of 16 bytes of shared memory becomes a lane of "
        f"tensor memory, a word a column; all four quarters get a copy. A product reads {used} of the 4 bytes of a word"
    )
    return LayoutPlot(svg_of(parts, LEFT + width * CHUNK + 2, 22 + height * shown, title), f"{title}: {what}.")


def draw_overlap(spans: Sequence[Sequence[tuple[str, int, int, int]]], rows: Sequence[str]) -> LayoutPlot:
    """Return a plot of who works when.

    spans: per row (text, first, end, shade) in units of time. rows: their names.
    """
    unit, height = 15, 24
    last = max(end for row in spans for _, _, end, _ in row)
    parts = []
    for place, (name, row) in enumerate(zip(rows, spans, strict=True)):
        y = 4 + height * place
        parts.append(f'<text x="148" y="{y + 15}" class="e">{name}</text>')
        for text, first, end, shade in row:
            parts.append(_rectangle(154 + first * unit, y, (end - first) * unit - 1, height - 4, colour(shade)))
            parts.append(f'<text x="{154 + (first + end) * unit / 2:.0f}" y="{y + 15}">{text}</text>')
    title = "Main loop and epilogue with one accumulator and with two"
    return LayoutPlot(svg_of(parts, 158 + last * unit, height * len(rows) + 4, title), f"{title}.")


def _rectangle(x: float, y: float, width: float, height: float, fill: str) -> str:
    edge = ' stroke="#808890"' if fill == "none" else ' stroke="#ffffff"'
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"{edge}/>'
