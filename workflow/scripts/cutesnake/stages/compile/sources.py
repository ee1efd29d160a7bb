"""The text of the kernel's files that a build's line table names, kept with the build."""

from __future__ import annotations

import json
import re
from pathlib import Path

from cutesnake.model.catalog import roots

SOURCES = "sources.json"  # in the folder of a build: file -> text
NAMED = re.compile(r'//## File "(kernels/[^"]+)"')


def keep_sources(build: Path) -> None:
    """Leave the texts in the folder of a build, where its SASS names any: comments that move lines build nothing."""
    named = {name for sass in build.glob("*.sass") for name in NAMED.findall(sass.read_text(encoding="utf-8"))}
    texts = {}
    for name in sorted(named):
        path = next((path for root in roots() if (path := root / name.removeprefix("kernels/")).is_file()), None)
        if path:
            texts[name] = path.read_text(encoding="utf-8", errors="replace")
    if texts:
        (build / SOURCES).write_text(json.dumps(texts, indent=1), encoding="utf-8")
