"""What stands in the code of a build: opcodes of its PTX with the source lines they come from, opcodes of its SASS."""

from __future__ import annotations

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
    """An opcode as PTX writes it, how often it stands there, and the first source line that it comes from, if known."""

    opcode: str
    count: int
    source: str | None


def ptx_uses(text: str) -> list[Use]:
    """Opcodes of a PTX file in the order in which they first appear; source lines as `file:line`."""
    files = dict(_FILE.findall(text))
    counts: Counter[str] = Counter()
    sources: dict[str, str] = {}
    place: tuple[str, str] | None = None
    for line in text.splitlines():
        if found := _LOCATION.match(line):
            place = found[1], found[2]
        elif found := _PTX.match(line):
            counts[found[1]] += 1
            if place and place[0] in files and found[1] not in sources:
                sources[found[1]] = f"{_short(files[place[0]])}:{place[1]}"
    return [Use(opcode, count, sources.get(opcode)) for opcode, count in counts.items()]


def _short(path: str) -> str:
    """From the project's folder `kernels/` on; of other files the last two parts."""
    parts = Path(path).parts
    return "/".join(parts[parts.index("kernels") :] if "kernels" in parts else parts[-2:])


def sass_opcodes(text: str) -> Counter[str]:
    """Opcodes of machine code as `nvdisasm` writes them, and how often each stands there."""
    return Counter(found[1] for line in text.splitlines() if (found := _SASS.match(line)))
