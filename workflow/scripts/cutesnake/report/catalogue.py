"""Page of all operators, and placeholders for pages that are not built yet."""

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

from cutesnake.analysis.compare.insight import number
from cutesnake.analysis.summary import OperatorSummary
from cutesnake.model import provenance, record
from cutesnake.model.paths import TEMPLATES
from cutesnake.model.records.compare import Compare
from cutesnake.report import changes, coverage, findings, html, matrix, page
from cutesnake.report.formatting import Notes, plural
from cutesnake.report.operators_table import table
from cutesnake.runtime.job import Files, listed


def catalogue_files(files: Mapping[str, Files], front: str, output: str) -> None:
    """Write the page of all operators; RecordError, ShareError or OSError if impossible."""
    arch = record.read("arch", listed(files["arch"])[0])
    compared = [record.read("compare", path) for path in listed(files["comparisons"])]
    changed = [record.read("change", path) for path in listed(files["changes"])]
    html.write(render(arch, compared, changed, Path(listed(files["overview"])[0]), front), output)


def render(arch: Any, compared: list[Compare], changed: list[Any], overview: Path, front: str) -> str:
    """Return the page of all operators."""
    notes = Notes()
    links = {one.operator: front if place == 0 else f"report/{one.operator}.html" for place, one in enumerate(compared)}
    drawn = [one for one in record.read("plot", overview / "pictures.json").plots if one.file]
    shown = [page.plot_view(one, str(one.file), overview) for one in drawn]
    return html.template("catalogue.html.j2", {"plural": plural, "number": number}).render(
        **html.look(),
        script=Markup((TEMPLATES / "table.js").read_text()),
        front=front,
        current="",
        pages=links,
        rows=table([OperatorSummary(one.operator, one.verdicts) for one in compared], links),
        findings=findings.findings(arch, compared),
        unsupported=findings.unsupported_inputs(compared),
        changed=changes.changed(changed, "", links, "results"),
        main={**shown[0], "narrow": shown[-1]["svg"]} if shown else None,
        machine=coverage.machine(arch),
        summary=coverage.summary(arch, compared),
        tiles=coverage.totals(compared),
        matrices=[matrix.matrix(one, notes, links[one.operator]) for one in compared],
        notes=notes.texts,
    )


def write_placeholders(pages: Mapping[str, str], folder: Path) -> None:
    """Write a placeholder for each page that is missing, damaged or a placeholder.

    pages: path below `folder` -> target that makes it.
    """
    for name, target in pages.items():
        with contextlib.suppress(OSError, ValueError):
            provenance.read_page(folder / name)
            if not provenance.is_placeholder(folder / name):
                continue
        with provenance.making({"code": {}, "params": {}, "versions": {}}):  # of no input: only signed
            text = html.template("placeholder.html.j2").render(**html.look(), name=name, target=target)
            html.write(text, folder / name)
