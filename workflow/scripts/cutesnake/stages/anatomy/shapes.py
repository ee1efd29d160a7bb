"""Draw the layouts of a function, and count its steps from IR to machine code."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

from cutesnake.model.records.anatomy import AnatomyFunction, Descriptor
from cutesnake.report.layouts import LayoutPlot, draw, parse
from cutesnake.report.layouts.hardware import SWIZZLES, wgmma_accumulator
from cutesnake.report.layouts.memories import draw_atom, draw_scale_factors, draw_tensor_memory

MOST = 2  # plots of a kind on a page
_TILED_COPY = re.compile(
    r'^!(\S+) = !cute\.tiled_copy<.*?layout_copy_tv = <"([^"]*)">, tiler_mn = <"\[([^"]*)\]">', re.MULTILINE
)
_OPERATION = re.compile(r"^\s*(?:%[\w:, %]+ = )?\"?(\w+)\.(\w+)", re.MULTILINE)


def layout_plots(function: AnatomyFunction, folder: Path) -> list[LayoutPlot]:
    """Return plots of the layouts of a function."""
    ir = folder / "kernel.mlir"
    result = _copies(ir.read_text(), function.symbol) if ir.is_file() else []
    boxes = [d for d in function.descriptors or [] if SWIZZLES.get(d.swizzle)]
    for d in {(tuple(d.box), d.element): d for d in boxes}.values():
        if len(result) >= 2 * MOST:
            break
        result.append(_atom(d))
    widths = {p.shape[1] for p in function.products or [] if p.instruction.startswith("wgmma")}
    for n in sorted(widths)[:1]:
        plot = draw(wgmma_accumulator(n), tiler=(64, n))
        result.append(LayoutPlot(plot.svg, f"Accumulator of wgmma with N = {n}. {plot.caption}"))
    result += [draw_tensor_memory(*shape) for shape in function.accumulators[:MOST]]
    scaled = {p.scale_factors for p in function.products or [] if p.scale_factors}
    return result + [draw_scale_factors(used) for used in sorted(scaled)[:1]]


def _copies(ir: str, symbol: str) -> list[LayoutPlot]:
    start = ir.find(f"cuda.kernel @{symbol}(")
    end = ir.find("cuda.kernel @", start + 1)
    text = ir[start : end if end > 0 else len(ir)]
    result: dict[str, LayoutPlot] = {}
    for name, layout, tiler in _TILED_COPY.findall(ir):
        if not re.search(rf"!{re.escape(name)}\b", text) or layout in result or len(result) == MOST:
            continue
        try:
            sides = tuple(parse(part).size for part in tiler.split(";"))
            plot = draw(layout, tiler=sides)
        except ValueError:  # not static, or over more than two sides
            continue
        result[layout] = LayoutPlot(plot.svg, f"A tiled copy of the kernel. {plot.caption}")
    return list(result.values())


def _atom(descriptor: Descriptor) -> LayoutPlot:
    rows = descriptor.box[1] if len(descriptor.box) > 1 else 1
    inner = descriptor.box_bytes
    for extent in descriptor.box[1:]:
        inner //= extent
    plot = draw_atom(SWIZZLES[descriptor.swizzle], inner)
    return LayoutPlot(plot.svg, f"Shared memory of {descriptor.tensor}, {rows} rows a box. {plot.caption}")


def lowering(function: AnatomyFunction, folder: Path, sass: int) -> list[dict[str, Any]]:
    """Stage of the build -> how many operations, and of which kinds most."""
    out = []
    ir = folder / "kernel.mlir"
    if ir.is_file():
        text = ir.read_text()
        start = text.find(f"cuda.kernel @{function.symbol}(")
        end = text.find("cuda.kernel @", start + 1)
        dialects = Counter(dialect for dialect, _ in _OPERATION.findall(text[start : end if end > 0 else len(text)]))
        out.append({"stage": "IR as the DSL traced it (kernel.mlir)", "kinds": dialects.most_common(6)})
    out.append({"stage": "PTX", "kinds": Counter(function.counts).most_common(6)})
    if sass:
        out.append({"stage": "SASS", "kinds": [("instructions", sass)]})
    return out
