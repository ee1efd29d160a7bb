"""Knowledge entries: Markdown files with YAML front matter, and their index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cutesnake.model.inputs import InputError, check_input
from cutesnake.model.paths import ROOT
from cutesnake.planning import strict_yaml

FOLDER = ROOT / "docs" / "knowledge"
INDEX = "README.md"
# Folders in the order of the index, and what they hold.
KINDS = {
    "optimizations": "Patterns of algorithm or hardware, in any language",
    "anti-patterns": "Failures, in any language",
    "languages/cute-dsl/optimizations": "Patterns in CuTe DSL",
    "languages/cute-dsl/anti-patterns": "Pitfalls in CuTe DSL",
    "languages/cutile/optimizations": "Patterns in cuTile",
    "languages/cutile/anti-patterns": "Pitfalls in cuTile",
}
HEADINGS = ("Context", "Mechanism", "Evidence", "When it helps, and when not", "Found in")


class EntryError(ValueError):
    """One-line error: an entry without YAML, with a wrong schema or a missing section."""


@dataclass(frozen=True)
class Entry:
    """An entry: `name` is its path without suffix, `evidence` its claims, `rule` its condition."""

    name: str
    title: str
    evidence: list[dict[str, Any]]
    rule: Mapping[str, Any] | None
    kernels: list[str]
    text: str

    @property
    def kind(self) -> str:
        """Folder of the entry."""
        return self.name.rpartition("/")[0]


def read_entries(folder: Path = FOLDER) -> list[Entry]:
    """Return all entries in index order; raise EntryError."""
    if not folder.is_dir():  # a copy of the project without its documents
        return []
    paths = [path for path in sorted(folder.rglob("*.md")) if path.name != INDEX]
    order = list(KINDS)
    found = [_read(path, path.relative_to(folder).with_suffix("").as_posix()) for path in paths]
    return sorted(found, key=lambda entry: (order.index(entry.kind), entry.name))


def _read(path: Path, name: str) -> Entry:
    start, head, text = [*path.read_text().split("---\n", 2), "", ""][:3]
    if start or not text:
        raise EntryError(f"docs/knowledge/{name}.md: it must begin with YAML between two lines of ---")
    try:
        data = strict_yaml.load(head)
        check_input("knowledge", data, f"docs/knowledge/{name}.md")
    except (yaml.YAMLError, InputError) as error:
        raise EntryError(str(error)) from error
    missing = [heading for heading in HEADINGS if f"## {heading}\n" not in text]
    if missing or name.rpartition("/")[0] not in KINDS:
        what = f"no section «{missing[0]}»" if missing else f"not in a folder of {', '.join(KINDS)}"
        raise EntryError(f"docs/knowledge/{name}.md: {what}")
    return Entry(name, data["title"], data["evidence"], data.get("rule"), data["kernels"], text)


def index(entries: list[Entry]) -> str:
    """Return the text of docs/knowledge/README.md."""
    lines = [
        "# What this project has found out",
        "",
        "One short file per pattern or pitfall. Each claim names the record that it rests on, and a test",
        "fails when that record no longer says so (`tests/test_knowledge.py`). Where an entry has a rule, the",
        "page of every kernel says whether it confirms, refines or contradicts it. This page is made by",
        "`python -m cutesnake.analysis.knowledge.write_index` (with `workflow/scripts` on the path).",
        "",
    ]
    for kind, words in KINDS.items():
        mine = [entry for entry in entries if entry.kind == kind]
        if mine:
            lines += [f"## {words}", "", "| entry | rests on | rule |", "|---|---|---|"]
            lines += [f"| [{e.title}]({e.name}.md) | {_sources(e)} | {'yes' if e.rule else 'no'} |" for e in mine]
            lines.append("")
    return "\n".join(lines)


def _sources(entry: Entry) -> str:
    return ", ".join(dict.fromkeys(_source(claim) for claim in entry.evidence))


def _source(claim: Mapping[str, Any]) -> str:
    if claim["kind"] == "anatomy":
        return f"anatomy of `{claim['build'].split('/')[0]}/{claim['build'].split('/')[1]}`"
    if claim["kind"] == "simulated":
        return f"simulated check of `{claim['build'].split('/')[0]}/{claim['build'].split('/')[1]}`"
    if claim["kind"] in ("ratio", "value", "count"):
        return f"`recorded/{claim['set']}`"
    if claim["kind"] == "compiled":
        return f"`{claim['file']}`, compiled"
    return f"`{claim['file']}`"
