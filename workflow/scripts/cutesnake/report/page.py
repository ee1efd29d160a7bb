"""The page itself: everything gathered into one HTML file that needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from cutesnake import record
from cutesnake.compare.insight import number
from cutesnake.evidence.gather import Evidence
from cutesnake.palette import DARK, LIGHT
from cutesnake.places import TEMPLATES
from cutesnake.report import cards, comparison, ran, times
from cutesnake.report.words import big, plural, slug, where

Record = dict[str, Any]


@dataclass(frozen=True)
class Contents:
    """What the page shows. `comparisons` and `evidences` are in the same order, one per operator."""

    plan: Record
    evidences: list[Evidence]
    comparisons: list[Record]
    pictures: list[Record]
    picture_folder: Path
    config: str  # as used, YAML
    upstream: Record = field(default_factory=dict)  # kernels/upstream.yaml
    references: dict[str, list[Record]] = field(default_factory=dict)  # operator -> its reference_times.yaml
    commit: str | None = None


def write_report(contents: Contents, output: Path | str) -> None:
    """Render and write the page; OSError if a picture's file is missing or the page cannot be written."""
    record.write_text(output, render(contents, Path(output).parent.as_posix()))


def render(contents: Contents, base: str = "results") -> str:
    """The page as text. `base` is the folder it will lie in, in the form in which records are named."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "plural": plural, "big": big, "slug": slug}
    return environment.get_template("page.html.j2").render(
        style=Markup((TEMPLATES / "style.css").read_text()),
        script=Markup((TEMPLATES / "table.js").read_text()),
        light=_variables(LIGHT),
        dark=_variables(DARK),
        machine=ran.machine(contents.plan),
        summary=ran.summary(contents.plan, contents.evidences, contents.comparisons),
        tiles=ran.totals(contents.comparisons, contents.evidences),
        operators=[
            _operator(evidence, compared, contents, base)
            for evidence, compared in zip(contents.evidences, contents.comparisons, strict=True)
        ],
        pictures=[_picture(p, contents.picture_folder) for p in contents.pictures if p["file"]],
        undrawn=_undrawn(contents.pictures),
        rules=contents.comparisons[0]["rules"] if contents.comparisons else [],
        recorded=_recorded(contents.comparisons),
        provenance=_provenance(contents),
    )


def _variables(colours: dict[str, str]) -> Markup:
    return Markup("".join(f"--{name}:{value};" for name, value in colours.items()))


def _operator(evidence: Evidence, compared: Record, contents: Contents, base: str) -> Record:
    return {
        "name": evidence.operator,
        "coverage": ran.coverage(compared),
        "tables": comparison.tables(compared),
        "cards": cards.cards(evidence, contents.upstream, base),
        "times": times.times(evidence, contents.references.get(evidence.operator, [])),
        "roofline": evidence.roofline,
    }


def _picture(picture: Record, folder: Path) -> Record:
    """The picture's SVG without its own colours: the page has them, and its print style must reach into it."""
    text = (folder / picture["file"]).read_text()
    text = re.sub(r"<style>.*?</style>", "", text, count=1, flags=re.DOTALL)
    source = where(picture["device"]) if picture["device"] else None
    return {**picture, "svg": Markup(text), "where": source}


def _undrawn(pictures: list[Record]) -> list[tuple[str, list[str]]]:
    """Reason -> titles of the pictures that there is nothing to show for."""
    found: dict[str, list[str]] = {}
    for picture in pictures:
        if not picture["file"]:
            found.setdefault(picture["reason"], []).append(picture["title"])
    return list(found.items())


def _recorded(comparisons: Iterable[Record]) -> list[str]:
    labels = (where(row["device"]) for c in comparisons for row in c["rows"] if row["device"]["kind"] == "recorded")
    return list(dict.fromkeys(labels))


def _provenance(contents: Contents) -> Record:
    versions: dict[str, set[str]] = {}
    for evidence in contents.evidences:
        for entry in evidence.builds.values():
            for name, version in entry["compilers"].items():
                versions.setdefault(name, set()).add(version)
    packages = {name: version for name, version in contents.plan["packages"].items() if version}
    seeds = {
        check["seed"]
        for evidence in contents.evidences
        for entry in evidence.measured.values()
        if entry["stage"] == "correctness"
        for check in (entry["metrics"] or {}).get("checks", [])
    }
    return {
        "compilers": [(name, ", ".join(sorted(found))) for name, found in sorted(versions.items())],
        "packages": sorted((name, v) for name, v in packages.items() if name not in versions),
        "missing": sorted(name for name, version in contents.plan["packages"].items() if not version),
        "commit": contents.commit,
        "seeds": ", ".join(map(str, sorted(seeds))),
        "probed": contents.plan["provenance"]["created"],
        "config": contents.config,
    }
