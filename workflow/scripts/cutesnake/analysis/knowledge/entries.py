"""Knowledge entries: Markdown with claims in YAML, and their index."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutesnake.model.inputs import InputError, check_input
from cutesnake.model.paths import ROOT
from cutesnake.planning import strict_yaml

FOLDER = ROOT / "docs" / "knowledge"
INDEX = "README.md"
# Folders in index order, with their headings.
KINDS = {
    "optimizations": "Patterns of algorithm or hardware, in any language",
    "anti-patterns": "Failures, in any language",
    "languages/cute-dsl/optimizations": "Patterns in CuTe DSL",
    "languages/cute-dsl/anti-patterns": "Pitfalls in CuTe DSL",
    "languages/cutile/optimizations": "Patterns in cuTile",
    "languages/cutile/anti-patterns": "Pitfalls in cuTile",
}
HEADINGS = (
    "When to apply",
    "Mechanism",
    "Affected metrics",
    "Implementation",
    "Source",
    "Performance evidence",
    "Generalization",
    "Pitfalls",
    "Interactions",
)
OF_FAILURES = {"When to apply": "Where it occurs", "Performance evidence": "Evidence"}  # headings there


_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


class EntryError(ValueError):
    """One-line error: an entry without claims, with a wrong schema or a missing section."""


@dataclass(frozen=True)
class Entry:
    """An entry: `name` is its path without suffix, `evidence` its claims, `rule` its condition."""

    name: str
    title: str
    evidence: list[dict[str, Any]]
    rule: Mapping[str, Any] | None
    text: str

    @property
    def kind(self) -> str:
        """Folder of the entry."""
        return self.name.rpartition("/")[0]


def read_entries(folder: Path = FOLDER) -> list[Entry]:
    """Return all entries in index order; raise EntryError."""
    if not folder.is_dir():  # a copy of the project without documents
        return []
    paths = [path for path in sorted(folder.rglob("*.md")) if path.name != INDEX]
    order = list(KINDS)
    entries = [_read(path, path.relative_to(folder).with_suffix("").as_posix()) for path in paths]
    return sorted(entries, key=lambda entry: (order.index(entry.kind), entry.name))


def _read(path: Path, name: str) -> Entry:
    where, text = f"docs/knowledge/{name}", path.read_text(encoding="utf-8")
    if name.rpartition("/")[0] not in KINDS:
        raise EntryError(f"{where}.md: not in a folder of {', '.join(KINDS)}")
    try:
        data = strict_yaml.read(path.with_suffix(".yaml"), f"{where}.yaml")
        check_input("knowledge", data, f"{where}.yaml")
    except (strict_yaml.YamlError, InputError) as error:
        raise EntryError(str(error)) from error
    if not text.startswith("# "):
        raise EntryError(f"{where}.md: the first line is not a heading")
    expected = tuple(OF_FAILURES.get(x, x) if "anti-patterns" in name else x for x in HEADINGS)
    if tuple(_HEADING.findall(text)) != expected:
        raise EntryError(f"{where}.md: the sections are not: {', '.join(expected)}")
    return Entry(name, text.partition("\n")[0][2:], data["evidence"], data.get("rule"), text)


def index(entries: list[Entry]) -> str:
    """Return the text of docs/knowledge/README.md."""
    lines = [
        "# Knowledge base",
        "",
        "Patterns and pitfalls for authors of kernels, one per page. Each claim has a value and its source. The HTML",
        "[report](../tour.md) says whether a kernel confirms, refines or contradicts entries marked *.",
        "",
        "Run an example on a CPU, in this project's simulator [ptxsim](../ptxsim/index.md):",
        "",
        "```",
        "PTXSIM=1 .venv/bin/pytest -p ptxsim.pytest_plugin docs/knowledge/optimizations/early_launch.py",
        "```",
        "",
        "## Terms",
        "",
        "- *A ÷ B* divides times: at 1.2, B is 1.2 times as fast. `b8_s2000` is batch 8 with 2,000 keys per request.",
        "- *test* is the limit beyond which a test fails.",
        "- A *small kernel* is the bug of a published kernel, in a few lines of PTX. Diffs go from the bug to the fix.",
        "- An *anatomy* is an analysis of compiled code and of one simulated run.",
        "- `cute_sm90`, `cute_sm100` and `cutile` are this project's [MLA decode kernels](../kernels/index.md).",
        "  FlashMLA is DeepSeek's. `cluster1`, `single`, `cluster2` and `halves` are",
        "  [variants of cute_sm90](../kernels/cute_sm90.md#variants-and-scheduling).",
        "- `ampere/…`, `hopper/…` and `blackwell/…` are files of NVIDIA's",
        "  [CuTe DSL examples](https://github.com/NVIDIA/cutlass/tree/main/examples/python/CuTeDSL), CUTLASS 4.5.",
        "- [TileGym](https://github.com/NVIDIA/TileGym) is NVIDIA's collection of cuTile kernels.",
        "",
    ]
    for kind, heading in KINDS.items():
        mine = [entry for entry in entries if entry.kind == kind]
        if mine:
            lines += [f"## {heading}", ""]
            lines += [f"- [{entry.title}]({entry.name}.md){' *' if entry.rule else ''}" for entry in mine]
            lines.append("")
    return "\n".join(lines)


def source(claim: Mapping[str, Any]) -> str:
    """Return where a claim's value comes from, in Markdown."""
    if claim["kind"] in ("anatomy", "simulated"):
        what = "anatomy" if claim["kind"] == "anatomy" else "simulation"
        return f"{what} of `{claim['build']}`"
    if claim["kind"] in ("ratio", "value", "count"):
        return f"`recorded/{claim['set']}`"
    if claim["kind"] == "cited":
        return f"`{claim['file']}`, {claim['first']}"
    return f"`{claim['file']}`" + (", compiled" if claim["kind"] == "compiled" else "")
