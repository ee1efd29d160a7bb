"""List source, PTX and SASS by source line, read when the page is made."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cutesnake.model.catalog import roots
from cutesnake.runtime import shareable
from cutesnake.stages.compile.sources import SOURCES
from ptxsim import Module

UNPLACED = ":0"
AROUND = 2  # lines of source shown before and after one that has code
_SECTION = re.compile(r"\.section\s+\.text\.(\S+?),")
_PLACE = re.compile(r'//## File "([^"]*)", line (\d+)')
_CODE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;?\s*$")


@dataclass
class Line:
    """A line of a source file with the code that came from it."""

    number: int
    text: str
    ptx: list[tuple[int, str]] = field(default_factory=list)  # (line of the PTX, instruction)
    sass: list[tuple[str, str]] = field(default_factory=list)  # (address, instruction)


def listing(folder: Path, symbol: str) -> tuple[dict[str, list[Line]], str | None]:
    """Return the lines with code per file, and why SASS is missing, or None.

    Files in the order in which the code first names them; "" stands for code that the line table gives no source.
    """
    ptx = _ptx(folder, symbol)
    sass, why = _sass(folder, symbol)
    places: dict[str, dict[int, Line]] = {}
    for source, entries in ptx.items():
        file, number = _split(source)
        places.setdefault(file, {}).setdefault(number, Line(number, "")).ptx = entries
    for source, code in sass.items():
        file, number = _split(source)
        places.setdefault(file, {}).setdefault(number, Line(number, "")).sass = code
    texts = sources_of(folder)
    return {file: _with_text(texts.get(file), file, lines) for file, lines in places.items()}, why


def _split(source: str) -> tuple[str, int]:
    file, _, number = source.rpartition(":")
    return (file, int(number)) if file else ("", 0)


def _ptx(folder: Path, symbol: str) -> dict[str, list[tuple[int, str]]]:
    result: dict[str, list[tuple[int, str]]] = {}
    for path in sorted(folder.glob("*.ptx")):
        kernel = Module.from_file(path).kernels.get(symbol)
        for ins in kernel.instructions if kernel else ():
            text = " ".join(ins.text.split()).replace(symbol, "kernel")
            guard = f"@{'!' * ins.guard.negated}{ins.guard.name} " if ins.guard is not None else ""
            result.setdefault(ins.source or UNPLACED, []).append((ins.line, (guard + text)[:220]))
    return result


def _sass(folder: Path, symbol: str) -> tuple[dict[str, list[tuple[str, str]]], str | None]:
    """Source line -> instructions, as the compile stage had nvdisasm print them, with line information."""
    result: dict[str, list[tuple[str, str]]] = {}
    files = sorted(folder.glob("*.sass"))
    for file in files:
        for source, address, text in instructions(file.read_text(encoding="utf-8"), symbol):
            result.setdefault(source, []).append((address, text))
    return result, None if files else "there is no SASS in this build"


def instructions(text: str, symbol: str | None = None) -> Iterator[tuple[str, str, str]]:
    """Yield source line, address and text of SASS instructions.

    symbol: the only function wanted. The source line is UNPLACED where the line table names none.
    """
    inside, source = False, UNPLACED
    for line in text.splitlines():
        if section := _SECTION.search(line):
            inside, source = symbol in (None, section[1]), UNPLACED
        elif inside and (place := _PLACE.search(line)):
            source = f"{place[1]}:{place[2]}"
        elif inside and (code := _CODE.match(line)):
            yield source, code[1], code[2]


def sources_of(folder: Path) -> dict[str, list[str]]:
    """Return the lines of the kernel's files as they were at the build."""
    kept = folder / SOURCES
    if not kept.is_file():
        return {}
    return {file: text.splitlines() for file, text in json.loads(kept.read_text(encoding="utf-8")).items()}


def _with_text(text: list[str] | None, file: str, lines: Mapping[int, Line]) -> list[Line]:
    text = source_text(file) if text is None else text
    if text is None:
        return [lines[number] for number in sorted(lines)]
    shown = {near for number in lines for near in range(number - AROUND, number + AROUND + 1)}
    out = []
    for number in sorted(shown | set(lines)):
        if number in lines or 1 <= number <= len(text):
            line = lines.get(number) or Line(number, "")
            line.text = shareable.PATH.sub("<path>", text[number - 1]) if 1 <= number <= len(text) else ""
            out.append(line)
    return out


def source_text(file: str) -> list[str] | None:
    """Return the lines of a source file as builds name it, None if missing."""
    places = [Path(file)]
    if file.startswith("kernels/"):
        places += [root / file.removeprefix("kernels/") for root in roots()]
    for path in places:
        if file and path.is_file():
            return path.read_text(encoding="utf-8", errors="replace").splitlines()
    return None
