"""A report page: gather all views of an operator and render one HTML file."""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_letters
from typing import Any

from markupsafe import Markup
from msgspec.structs import asdict

from cutesnake.analysis.compare.insight import number
from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.analysis.summary import OperatorSummary
from cutesnake.model.paths import TEMPLATES
from cutesnake.model.records.arch import Arch
from cutesnake.model.records.change import Change
from cutesnake.model.records.compare import Compare, CompareRow
from cutesnake.model.records.correctness import Correctness
from cutesnake.model.records.plot import PlotEntry
from cutesnake.model.records.roofline import RooflineRow
from cutesnake.model.records.verdict import Verdicts
from cutesnake.report import (
    changes,
    comparison,
    coverage,
    findings,
    html,
    kernel_panels,
    matrix,
    operators_table,
    predicted,
    times,
    verdict,
)
from cutesnake.report.formatting import Notes, big, plural, sets, short, slug, where
from cutesnake.stages.predict.validated import VALIDATION

View = dict[str, Any]  # data of a template
SHORT_IDS = [first + second for first in "pqrs" for second in "ghijklmnopqrstuvwxyz"]  # a hexadecimal number follows


@dataclass(frozen=True)
class Contents:
    """Data of a page: one operator, and on the front page the findings of all."""

    arch: Arch
    evidence: Evidence
    comparison: Compare
    plots: list[PlotEntry]
    plot_folder: Path
    config: str  # YAML, as used
    sweep: str  # YAML of the operator, as used
    front: str  # name of the front page's file
    upstream: Mapping[str, Any] = field(default_factory=dict)  # kernels/upstream.yaml
    references: list[dict[str, Any]] = field(default_factory=list)  # the operator's reference_times.yaml
    commit: str | None = None
    anatomy: Path | None = None  # folder with a page of anatomy per kernel
    changes: list[Change] = field(default_factory=list)  # change records of `shown`, with a baseline only
    is_front: bool = False
    summary: Mapping[str, OperatorSummary] = field(default_factory=dict)  # front page only
    verdicts: Verdicts | None = None

    @property
    def shown(self) -> list[Compare]:
        """Comparisons that the page summarizes."""
        return [self.comparison]


def write_report(contents: Contents, output: Path | str, pages: Iterable[Path] = ()) -> None:
    """Render and write the page.

    Raises OSError for a missing plot or an unwritable page, and ShareError, before writing, if the page names this
    machine or user. `pages` were written by the same job.
    """
    page = render(contents, Path(output).parent.as_posix())
    html.write(page, output, pages)


def render(contents: Contents, base: str = "results") -> str:
    """Return the page; `base` is its folder, relative as in record paths."""
    notes = Notes()
    current = contents.comparison.operator
    pages = _pages(contents)
    drawn = [plot for plot in contents.plots if plot.file]
    plots = [plot_view(plot, plot.file or "", contents.plot_folder, at) for at, plot in enumerate(drawn)]
    decided = verdict.view(contents.verdicts, contents.comparison.coverage, base) if contents.verdicts else None
    validation = next((plot for plot in plots if plot["name"] == VALIDATION), None)
    return html.template("page.html.j2", {"number": number, "plural": plural, "big": big, "slug": slug}).render(
        **html.look(),
        script=Markup((TEMPLATES / "table.js").read_text()),
        is_front=contents.is_front,
        rows=operators_table.others(contents.summary, contents.arch.operators, current) if contents.is_front else None,
        current=current,
        pages=pages,
        verdict=decided,
        subtitle=_subtitle(contents),
        absent=predicted.absent(contents.evidence, contents.verdicts),
        findings=findings.findings(contents.arch, contents.shown),
        unsupported=findings.unsupported_inputs(contents.shown),
        changed=changes.changed(contents.changes, current, pages, base),
        machine=coverage.machine(contents.arch),
        summary=coverage.summary(contents.arch, contents.shown),
        tiles=coverage.totals(contents.shown),
        matrices=[matrix.matrix(c, notes, pages[c.operator] * (c.operator != current)) for c in contents.shown],
        operator=_operator(contents, base, notes),
        plots=[plot for plot in plots if plot is not validation],
        validation=validation,
        not_drawn=_not_drawn(contents.plots),
        rules=contents.comparison.rules,
        recorded=sets(table.device for compared in contents.shown for table in compared.tables),
        provenance=_provenance(contents),
        notes=notes.texts,
    )


def _pages(contents: Contents) -> dict[str, str]:
    """Return operator -> link to its page from this page."""
    first, *others = contents.arch.operators
    up, down = ("", "report/") if contents.is_front else ("../", "")
    return {first: f"{up}{contents.front}", **{name: f"{down}{name}.html" for name in others}}


def _subtitle(contents: Contents) -> list[str]:
    """Return what is compared and how, and how many results were correct per GPU."""
    compared = contents.comparison
    parts = ["Warm: repeated calls. Cold: L2 flushed, as in real use."]
    counts: dict[str, list[int]] = {}
    for gpu in (gpu for row in compared.coverage for gpu in row.gpus.get("correctness", [])):
        passed, every = counts.setdefault(short(gpu.device), [0, 0])
        counts[short(gpu.device)] = [passed + gpu.ok, every + gpu.ok + gpu.failed]
    if counts:
        texts = [f"{number(passed)} of {number(every)} on {gpu.split()[0]}" for gpu, (passed, every) in counts.items()]
        parts.append(f"Correct cases: {', '.join(texts)}.")
    if example := _example(compared.rows):
        parts.append(f"{example['name']}: {', '.join(example['meaning'])}.")
    return parts


def _operator(contents: Contents, base: str, notes: Notes) -> View:
    compared = contents.comparison
    shown = {row.workload for row in compared.rows}
    return {
        "name": compared.operator,
        "few": len(shown) if len(shown) < compared.workloads else None,
        "table": os.path.relpath(f"results/compare/{compared.operator}.csv", base),
        "times": times.times(compared, contents.references),
        "predicted": predicted.predicted(contents.evidence, notes),
        "tables": comparison.tables(compared, notes, *([verdict.rows(contents.verdicts)] if contents.verdicts else [])),
        "panels": kernel_panels.panels(contents.evidence, contents.upstream, base, notes, contents.anatomy),
        "roofline": _roofline([row for row in contents.evidence.roofline if row.workload in shown]),
    }


def _example(rows: list[CompareRow]) -> View | None:
    """Return a workload's name and what its numbers are, unless the name spells it out."""
    if not rows:
        return None
    first, parts = rows[0].parameters, rows[0].workload.split("_")
    numbers = {part.lstrip(ascii_letters) for part in parts if not part.isalpha()}
    values = {key: value for key, value in first.items() if str(value) in numbers}
    spelt = all(f"{key}{value}" in parts for key, value in values.items())
    return None if spelt else {"name": rows[0].workload, "meaning": [f"{k} {v}" for k, v in values.items()]}


def _roofline(rows: list[RooflineRow]) -> View:
    """Return a row per workload with its lower bound on each device."""
    devices = dict.fromkeys((row.device, row.target) for row in rows)
    workloads: dict[str, dict[tuple[str, str], RooflineRow]] = {}
    for row in rows:
        workloads.setdefault(row.workload, {})[row.device, row.target] = row
    views = []
    for workload, bounds in workloads.items():
        first = next(iter(bounds.values()))
        cells = [
            {"us": one.floor_us if one else None, "bound": one.bound if one else None, "reason": one and one.reason}
            for one in (bounds.get(device) for device in devices)
        ]
        size = {"workload": workload, "flops": first.flops, "bytes": first.bytes, "intensity": first.intensity}
        views.append({**size, "cells": cells})
    reasons = dict.fromkeys(row.reason for row in rows if row.floor_us is None and row.reason)
    named = [{"name": name, "target": target} for name, target in devices]
    return {"devices": named, "rows": views, "reasons": list(reasons)}


def plot_view(plot: PlotEntry, file: str, folder: Path, place: int = len(SHORT_IDS)) -> View:
    """Return a plot's view, coloured by the page; `place` gives short ids."""
    text = (folder / file).read_text()
    if place < len(SHORT_IDS) and (known := re.search(r'(?:id|class)="(p[0-9a-f]{6})', text)):
        text = text.replace(known[1], SHORT_IDS[place])
    text = re.sub(r"<style>.*?</style>", "", text, count=1, flags=re.DOTALL)
    text = re.sub(r"var\((--[\w-]+), #[0-9a-f]{6}\)", r"var(\1)", text)
    text = re.sub(r' clip-path="[^"]*"( [^>]*><title>)', r"\1", text)  # cells and bars lie within the axes
    source = where(plot.device) if plot.device else None
    return {**asdict(plot), "svg": Markup(text), "where": source}


def _not_drawn(plots: list[PlotEntry]) -> list[tuple[str, list[str]]]:
    """Return (reason, titles) of the plots without data."""
    titles: dict[str, list[str]] = {}
    for plot in plots:
        if not plot.file:
            titles.setdefault(plot.reason or "", []).append(plot.title)
    return list(titles.items())


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
        "compilers": [(name, ", ".join(sorted(several))) for name, several in sorted(versions.items())],
        "packages": sorted((name, v) for name, v in packages.items() if name not in versions),
        "missing": sorted(name for name, version in contents.arch.packages.items() if not version),
        "commit": contents.commit,
        "seeds": ", ".join(map(str, sorted(seeds))),
        "probed": contents.arch.provenance.created,
        "target": f"results/{contents.front}"
        if contents.is_front
        else f"results/report/{contents.evidence.operator}.html",
        "config": contents.config,
        "sweep": contents.sweep,
    }
