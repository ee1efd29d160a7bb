"""The layouts of one function as pictures, and its way from the DSL's IR to machine code in numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cutesnake.report.layouts import LayoutPlot, draw, parse
from cutesnake.report.layouts.hardware import SWIZZLES, box_in_shared_memory, wgmma_accumulator

MOST = 2  # pictures of a kind on a page
_TILED_COPY = re.compile(
    r'^!(\S+) = !cute\.tiled_copy<.*?layout_copy_tv = <"([^"]*)">, tiler_mn = <"\[([^"]*)\]">', re.MULTILINE
)
_OPERATION = re.compile(r"^\s*(?:%[\w:, %]+ = )?\"?(\w+)\.(\w+)", re.MULTILINE)


def pictures(function: Mapping[str, Any], folder: Path) -> list[LayoutPlot]:
    """Thread-value layouts of the copies that the IR names, swizzled TMA boxes, accumulators of wgmma."""
    ir = folder / "kernel.mlir"
    found = _copies(ir.read_text(), function["symbol"]) if ir.is_file() else []
    boxes = [d for d in function["descriptors"] or [] if SWIZZLES.get(d["swizzle"])]
    for d in {(tuple(d["box"]), d["element"]): d for d in boxes}.values():
        if len(found) >= 2 * MOST:
            break
        found.append(_box(d))
    widths = {p["shape"][1] for p in function["products"] or [] if p["instruction"].startswith("wgmma")}
    for n in sorted(widths)[:1]:
        picture = draw(wgmma_accumulator(n), tiler=(64, n))
        found.append(LayoutPlot(picture.svg, f"Accumulator of wgmma with N = {n}. {picture.caption}"))
    return found


def _copies(ir: str, symbol: str) -> list[LayoutPlot]:
    start = ir.find(f"cuda.kernel @{symbol}(")
    end = ir.find("cuda.kernel @", start + 1)
    text = ir[start : end if end > 0 else len(ir)]
    found: dict[str, LayoutPlot] = {}
    for name, layout, tiler in _TILED_COPY.findall(ir):
        if not re.search(rf"!{re.escape(name)}\b", text) or layout in found or len(found) == MOST:
            continue
        try:
            sides = tuple(parse(part).size for part in tiler.split(";"))
            picture = draw(layout, tiler=sides)
        except ValueError:  # not static, or over more than two sides
            continue
        found[layout] = LayoutPlot(picture.svg, f"A tiled copy of the kernel. {picture.caption}")
    return list(found.values())


def _box(descriptor: Mapping[str, Any]) -> LayoutPlot:
    rows = descriptor["box"][1] if len(descriptor["box"]) > 1 else 1
    inner = descriptor["box_bytes"]
    for extent in descriptor["box"][1:]:
        inner //= extent
    swizzle = SWIZZLES[descriptor["swizzle"]]
    picture = draw(box_in_shared_memory(min(rows, 8), inner), swizzle=swizzle, element_bytes=1)
    what = f"Eight rows of a box of {descriptor['tensor']} in shared memory, {descriptor['swizzle']} swizzle"
    return LayoutPlot(picture.svg, f"{what}: a row is {inner} bytes, a column a chunk of 16. {picture.caption}")


def lowering(function: Mapping[str, Any], folder: Path, sass: int) -> list[dict[str, Any]]:
    """Stage of the build -> how many operations, and of which kinds most."""
    out = []
    ir = folder / "kernel.mlir"
    if ir.is_file():
        text = ir.read_text()
        start = text.find(f"cuda.kernel @{function['symbol']}(")
        end = text.find("cuda.kernel @", start + 1)
        dialects = Counter(dialect for dialect, _ in _OPERATION.findall(text[start : end if end > 0 else len(text)]))
        out.append({"stage": "IR as the DSL traced it (kernel.mlir)", "kinds": dialects.most_common(6)})
    out.append({"stage": "PTX", "kinds": Counter(function["counts"]).most_common(6)})
    if sass:
        out.append({"stage": "SASS", "kinds": [("instructions", sass)]})
    return out
