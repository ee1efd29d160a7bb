"""Keep the kernel's source text named by a build's line table."""

import json
import re
from pathlib import Path

from cutesnake.model.catalog import roots

SOURCES = "sources.json"  # in the folder of a build: file -> text
NAMED = re.compile(r'//## File "(kernels/[^"]+)"')


def keep_sources(build: Path) -> None:
    """Save the sources that a build's SASS names: moved lines rebuild nothing."""
    named = {name for sass in build.glob("*.sass") for name in NAMED.findall(sass.read_text(encoding="utf-8"))}
    texts = {}
    for name in sorted(named):
        path = next((path for root in roots() if (path := root / name.removeprefix("kernels/")).is_file()), None)
        if path:
            texts[name] = path.read_text(encoding="utf-8", errors="replace")
    if texts:
        (build / SOURCES).write_text(json.dumps(texts, indent=1), encoding="utf-8")
