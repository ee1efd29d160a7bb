"""Write a page per kernel: roles, pipelines, budget, patterns, and code by line."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from cutesnake.analysis.compare.insight import number
from cutesnake.analysis.knowledge.devlog import log_of
from cutesnake.analysis.knowledge.entries import FOLDER, read_entries
from cutesnake.analysis.knowledge.verdicts import Verdict, verdicts
from cutesnake.model.case_id import CaseId
from cutesnake.model.records.anatomy import Anatomy, AnatomyFunction, Pattern
from cutesnake.report import html
from cutesnake.report.formatting import DSL_NAMES, plural
from cutesnake.report.layouts import LayoutPlot
from cutesnake.report.learn.questions import QUESTIONS, answers
from cutesnake.runtime import shareable
from cutesnake.stages.anatomy import graph, shapes
from cutesnake.stages.anatomy.listing import Line, listing
from cutesnake.stages.anatomy.numbers import numbers, spans
from cutesnake.stages.anatomy.product_text import MOVED

VERDICTS = ("contradicts", "refines", "confirms")
SHORT = 48  # characters of a symbol that a heading shows


class Row(NamedTuple):
    """A source line with the roles that ran it, and what it does."""

    line: Line
    roles: list[str]
    texts: list[str]


@dataclass(frozen=True)
class ShownFunction:
    """A device function with what its page draws and lists."""

    of: AnatomyFunction
    plot: Markup | None
    bar: Markup | None
    colour: dict[str, str]
    layouts: list[LayoutPlot]
    lowering: list[dict[str, Any]]
    files: list[tuple[str, list[Row]]]
    no_sass: str | None

    @property
    def short(self) -> str:
        """Return the symbol as a heading shows it."""
        return self.of.symbol[:SHORT] + ("…" if len(self.of.symbol) > SHORT else "")


@dataclass(frozen=True)
class ShownBuild:
    """A build as its page shows it: `open` with its code, the others folded."""

    of: Anatomy
    functions: list[ShownFunction]
    ran: str | None
    open: bool


def write_pages(
    records: Iterable[Anatomy], results: Path | None, output: Path | str, up: Sequence[tuple[str, str]] = ()
) -> None:
    """Write a page for every kernel of an operator's records into `output`.

    results: the folder that holds compile/; without it, pages lack code. up: (name, link) of pages to lead back to.
    """
    output = Path(output)
    builds: dict[str, list[Anatomy]] = {}
    output.mkdir(parents=True, exist_ok=True)
    for one in records:
        builds.setdefault(one.kernel, []).append(one)
    for kernel, mine in builds.items():
        page = render(mine, results, up, [(name, f"{name}.html") for name in builds], _knowledge_from(output))
        html.write(page, output / f"{kernel}.html")


def render(
    builds: Sequence[Anatomy],
    results: Path | None,
    up: Sequence[tuple[str, str]] = (),
    siblings: Sequence[tuple[str, str]] = (),
    knowledge: str | None = None,
) -> str:
    """Return a kernel's page, code once per target; `knowledge` links to entries' folder."""
    first = {build.target: build.variant.id for build in reversed(builds)}
    shown = [_build(b, results, first[b.target] == b.variant.id) for b in builds]
    return html.template(
        "anatomy.html.j2", {"number": number, "plural": plural, "spans": spans, "source": short_source}
    ).render(
        **html.look(),
        moved=MOVED,
        operator=builds[0].operator,
        kernel=builds[0].kernel,
        dsl=DSL_NAMES[builds[0].dsl],
        up=up,
        siblings=siblings,
        builds=shown,
        checklist=_checklist(shown),
        verdicts=_verdicts(builds),
        knowledge=knowledge,
        log=log_of(builds[0].operator, builds[0].kernel),
        answers=answers(next((b for b in shown if b.open), shown[0]).of, list(QUESTIONS)),
    )


def _knowledge_from(folder: Path) -> str | None:
    """Return a folder's link to the knowledge entries, or None outside the project."""
    link = Path(os.path.relpath(FOLDER, folder))
    return link.as_posix() if set(link.parts) <= {"..", *FOLDER.parts[-2:]} else None


def _verdicts(builds: Sequence[Anatomy]) -> list[tuple[Verdict, str]]:
    """Return entries of docs/knowledge that apply, each once with its gravest verdict and that build."""
    entries = read_entries()
    result: dict[str, tuple[Verdict, str]] = {}
    for build in builds:
        for one in verdicts(build, entries):
            known = result.get(one.entry.name)
            if known is None or VERDICTS.index(one.word) < VERDICTS.index(known[0].word):
                result[one.entry.name] = one, f"{build.target} {build.variant.id}"
    return sorted(result.values(), key=lambda one: (VERDICTS.index(one[0].word), one[0].entry.name))


def short_source(place: str) -> str:
    """file.py:12, without the folders of the file."""
    return place.rpartition("/")[2]


def _build(build: Anatomy, results: Path | None, whole: bool) -> ShownBuild:
    case = CaseId(build.operator, build.kernel, build.target, build.variant.id)
    folder = results / "compile" / case.key if results else None
    functions = [_function(f, folder, whole and place == 0) for place, f in enumerate(build.functions)]
    watched = build.watched
    message = ", ".join(f"{key} {value}" for key, value in watched.parameters.items()) if watched else None
    return ShownBuild(build, functions, message, whole)


def _function(function: AnatomyFunction, folder: Path | None, whole: bool) -> ShownFunction:
    place = folder if whole and folder and folder.is_dir() else None
    plot, bar = graph.draw(function), graph.budget(function.shared)
    result, why = listing(place, function.symbol) if place else ({}, None)
    sass = sum(len(line.sass) for lines in result.values() for line in lines)
    return ShownFunction(
        of=function,
        plot=Markup(plot) if plot else None,
        bar=Markup(bar) if bar else None,
        colour=graph.colours(function.roles or []),
        layouts=shapes.layout_plots(function, place) if place else [],
        lowering=shapes.lowering(function, place, sass) if place else [],
        files=[_file(file, lines, function) for file, lines in result.items()],
        no_sass=why,
    )


def _file(file: str, lines: Sequence[Line], function: AnatomyFunction) -> tuple[str, list[Row]]:
    """Return a source file, line by line."""
    file = shareable.neutral(file)
    ran = {role.name: numbers(role.ran.get(file, "")) for role in function.roles or []}
    rows = []
    for line in lines:
        mine = [name for name, places in ran.items() if line.number in places]
        rows.append(Row(line, mine, _line_texts(function, f"{file}:{line.number}")))
    return file, rows


def _line_texts(function: AnatomyFunction, place: str) -> list[str]:
    """Describe the products and copies of a source line."""
    out = [product.text for product in function.products or [] if place in product.lines]
    for descriptor in function.descriptors or []:
        for use in descriptor.uses:
            if place in use.lines:
                box = " x ".join(map(str, descriptor.box))
                out.append(f"TMA {use.way} of a box of {box} {descriptor.element} of {descriptor.tensor}")
    return list(dict.fromkeys(out))


def _checklist(builds: Sequence[ShownBuild]) -> list[tuple[str, list[tuple[Anatomy, Pattern]]]]:
    """Return the ten patterns of the main function of each build shown whole."""
    shown = [build.of for build in builds if build.open and build.functions]
    names = shown[0].functions[0].patterns if shown else ()
    return [(name, [(build, build.functions[0].patterns[name]) for build in shown]) for name in names]
