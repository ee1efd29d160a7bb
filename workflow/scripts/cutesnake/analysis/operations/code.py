"""Opcodes of a build: PTX with source lines, and SASS."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

_LOCATION = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_FILE = re.compile(r'\s*\.file\s+(\d+)\s+"([^"]+)"')
_PTX = re.compile(r"\s*(?:@!?%\w+\s+)?([a-z][\w.:]*[\w])(?:\s|;)")
_SASS = re.compile(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)")


@dataclass(frozen=True)
class Use:
    """A PTX opcode, its count, and the first source line that it comes from."""

    opcode: str
    count: int
    source: str | None


def ptx_uses(text: str) -> list[Use]:
    """Return the opcodes of a PTX file by first appearance; sources as `file:line`."""
    files = dict(_FILE.findall(text))
    counts: Counter[str] = Counter()
    sources: dict[str, str] = {}
    place: tuple[str, str] | None = None
    for line in text.splitlines():
        if match := _LOCATION.match(line):
            place = match[1], match[2]
        elif match := _PTX.match(line):
            counts[match[1]] += 1
            if place and place[0] in files and match[1] not in sources:
                sources[match[1]] = f"{_short(files[place[0]])}:{place[1]}"
    return [Use(opcode, count, sources.get(opcode)) for opcode, count in counts.items()]


def _short(path: str) -> str:
    """Shorten a path to start at `kernels/`, or to its last two parts."""
    parts = Path(path).parts
    return "/".join(parts[parts.index("kernels") :] if "kernels" in parts else parts[-2:])


def sass_opcodes(text: str) -> Counter[str]:
    """Count the opcodes of SASS in nvdisasm's format."""
    return Counter(match[1] for line in text.splitlines() if (match := _SASS.match(line)))
