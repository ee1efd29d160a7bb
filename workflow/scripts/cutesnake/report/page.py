"""The page itself: everything gathered into one HTML file that needs nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup
from msgspec.structs import asdict

from cutesnake.analysis.compare.insight import number
from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.analysis.summary import OperatorSummary
from cutesnake.model.paths import TEMPLATES
from cutesnake.model.records.arch import Arch
from cutesnake.model.records.change import Change
from cutesnake.model.records.compare import Compare
from cutesnake.model.records.correctness import Correctness
from cutesnake.model.records.plot import Picture
from cutesnake.report import (
    changes as changed,
)
from cutesnake.report import (
    comparison,
    html,
    matrix,
    operators_table,
    predicted,
    times,
)
from cutesnake.report import (
    coverage as ran,
)
from cutesnake.report import (
    findings as found,
)
from cutesnake.report import (
    kernel_panels as cards,
)
from cutesnake.report.formatting import Notes, big, plural, sets, slug, where
from cutesnake.stages.predict.validated import VALIDATION

View = dict[str, Any]  # what a template shows


@dataclass(frozen=True)
class Contents:
    """What a page shows: one operator in full, and on the front page what was found in all."""

    arch: Arch
    evidence: Evidence
    comparison: Compare
    pictures: list[Picture]
    picture_folder: Path
    config: str  # as used, YAML
    sweep: str  # the operator's, as used, YAML
    front: str  # name of the front page's file
    upstream: Mapping[str, Any] = field(default_factory=dict)  # kernels/upstream.yaml
    references: list[dict[str, Any]] = field(default_factory=list)  # the operator's reference_times.yaml
    commit: str | None = None
    anatomy: Path | None = None  # the folder with a page of anatomy per kernel
    changes: list[Change] = field(default_factory=list)  # change records of `shown`, where there is a baseline
    is_front: bool = False
    summary: Mapping[str, OperatorSummary] = field(default_factory=dict)  # only on the front page

    @property
    def shown(self) -> list[Compare]:
        """Comparisons that the page speaks of."""
        return [self.comparison]


def write_report(contents: Contents, output: Path | str, pages: Iterable[Path] = ()) -> None:
    """Render and write the page; OSError if a picture's file is missing or the page cannot be written.

    ShareError, and no page, if it names this machine, its user or a folder of theirs. `pages` were written with it.
    """
    page = render(contents, Path(output).parent.as_posix())
    html.write(page, output, pages)


def render(contents: Contents, base: str = "results") -> str:
    """The page as text. `base` is the folder it will lie in, in the form in which records are named."""
    notes = Notes()
    here = contents.comparison.operator
    pages = _pages(contents)
    main, pictures = _pictures(contents)
    validation = next((picture for picture in pictures if picture["name"] == VALIDATION), None)
    return html.template("page.html.j2", {"number": number, "plural": plural, "big": big, "slug": slug}).render(
        **html.look(),
        script=Markup((TEMPLATES / "table.js").read_text()),
        is_front=contents.is_front,
        rows=operators_table.others(contents.summary, contents.arch.operators, here) if contents.is_front else [],
        here=here,
        pages=pages,
        found=found.found(contents.arch, contents.shown),
        beyond=found.beyond(contents.shown),
        changed=changed.changed(contents.changes, here, pages, base),
        main=main,
        machine=ran.machine(contents.arch),
        summary=ran.summary(contents.arch, contents.shown),
        tiles=ran.totals(contents.shown),
        matrices=[matrix.matrix(c, notes, pages[c.operator] * (c.operator != here)) for c in contents.shown],
        operator=_operator(contents, base, notes),
        pictures=[picture for picture in pictures if picture is not validation],
        validation=validation,
        undrawn=_undrawn(contents.pictures),
        rules=contents.comparison.rules,
        recorded=sets(table.device for compared in contents.shown for table in compared.tables),
        provenance=_provenance(contents),
        notes=notes.texts,
    )


def _pages(contents: Contents) -> dict[str, str]:
    """Operator -> link to its page from this one, the first operator's being the front page."""
    first, *others = contents.arch.operators
    up, down = ("", "report/") if contents.is_front else ("../", "")
    return {first: f"{up}{contents.front}", **{name: f"{down}{name}.html" for name in others}}


def _pictures(contents: Contents) -> tuple[View | None, list[View]]:
    """The operator's first picture, and the others in order."""
    own = [picture(p, p.file, contents.picture_folder) for p in contents.pictures if p.file]
    return (own[0], own[1:]) if own else (None, [])


def _operator(contents: Contents, base: str, notes: Notes) -> View:
    compared = contents.comparison
    shown = {row.workload for row in compared.rows}
    return {
        "name": compared.operator,
        "few": len(shown) if len(shown) < compared.workloads else None,
        "table": os.path.relpath(f"results/compare/{compared.operator}.csv", base),
        "times": times.times(compared, contents.references, notes),
        "predicted": predicted.predicted(contents.evidence, notes),
        "tables": comparison.tables(compared, notes),
        "cards": cards.cards(contents.evidence, contents.upstream, base, notes, contents.anatomy),
        "roofline": [row for row in contents.evidence.roofline if row.workload in shown],
    }


def picture(picture: Picture, file: str, folder: Path) -> View:
    """The picture's SVG without colours of its own: the page has them, and its print style must reach into it."""
    text = (folder / file).read_text()
    text = re.sub(r"<style>.*?</style>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r"var\((--[\w-]+), #[0-9a-f]{6}\)", r"var(\1)", text)
    source = where(picture.device) if picture.device else None
    return {**asdict(picture), "svg": Markup(text), "where": source}


def _undrawn(pictures: list[Picture]) -> list[tuple[str, list[str]]]:
    """Reason -> titles of the pictures that there is nothing to show for."""
    found: dict[str, list[str]] = {}
    for picture in pictures:
        if not picture.file:
            found.setdefault(picture.reason or "", []).append(picture.title)
    return list(found.items())


def _provenance(contents: Contents) -> View:
    versions: dict[str, set[str]] = {}
    for entry in contents.evidence.builds.values():
        for name, version in entry.compilers.items():
            versions.setdefault(name, set()).add(version)
    packages = {name: version for name, version in contents.arch.packages.items() if version}
    seeds = {
        check.seed
        for entry in contents.evidence.measured.values()
        if isinstance(entry, Correctness) and entry.metrics
        for check in entry.metrics.checks
    }
    return {
        "compilers": [(name, ", ".join(sorted(found))) for name, found in sorted(versions.items())],
        "packages": sorted((name, v) for name, v in packages.items() if name not in versions),
        "missing": sorted(name for name, version in contents.arch.packages.items() if not version),
        "commit": contents.commit,
        "seeds": ", ".join(map(str, sorted(seeds))),
        "probed": contents.arch.provenance.created,
        "config": contents.config,
        "sweep": contents.sweep,
    }
