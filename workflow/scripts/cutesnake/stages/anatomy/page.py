"""Write a page per kernel: roles, pipelines, budget, patterns, and code by line."""

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from cutesnake.analysis.compare.insight import number
from cutesnake.analysis.knowledge.devlog import log_of
from cutesnake.analysis.knowledge.entries import FOLDER, read_entries
from cutesnake.analysis.knowledge.verdicts import verdicts
from cutesnake.model import record
from cutesnake.model.records.anatomy import Anatomy
from cutesnake.report import html
from cutesnake.report.formatting import DSL_NAMES, plural
from cutesnake.report.learn.questions import QUESTIONS, answers
from cutesnake.runtime import shareable
from cutesnake.stages.anatomy import graph, shapes
from cutesnake.stages.anatomy.listing import Line, listing
from cutesnake.stages.anatomy.numbers import numbers, spans
from cutesnake.stages.anatomy.product_text import MOVED

Record = dict[str, Any]
VERDICTS = ("contradicts", "refines", "confirms")
SHORT = 48  # characters of a symbol that a heading shows


def write_pages(
    records: Iterable[Anatomy], results: Path | None, output: Path | str, up: Sequence[tuple[str, str]] = ()
) -> None:
    """Write a page for every kernel of an operator's records into `output`.

    results: the folder that holds compile/; without it, pages lack code. up: (name, link) of pages to lead back to.
    """
    output = Path(output)
    builds: dict[str, list[Record]] = {}
    output.mkdir(parents=True, exist_ok=True)
    for one in records:
        builds.setdefault(one.kernel, []).append(record.plain(one))
    for kernel, mine in builds.items():
        page = render(mine, results, up, [(name, f"{name}.html") for name in builds], _knowledge_from(output))
        html.write(page, output / f"{kernel}.html")


def render(
    builds: Sequence[Record],
    results: Path | None,
    up: Sequence[tuple[str, str]] = (),
    siblings: Sequence[tuple[str, str]] = (),
    knowledge: str | None = None,
) -> str:
    """Return a kernel's page, code once per target; `knowledge` links to entries' folder."""
    first = {build["target"]: build["variant"]["id"] for build in reversed(builds)}
    shown = [_build(b, results, first[b["target"]] == b["variant"]["id"]) for b in builds]
    return html.template(
        "anatomy.html.j2", {"number": number, "plural": plural, "spans": spans, "source": short_source}
    ).render(
        **html.look(),
        operator=builds[0]["operator"],
        kernel=builds[0]["kernel"],
        dsl=DSL_NAMES[builds[0]["dsl"]],
        up=up,
        siblings=siblings,
        builds=shown,
        checklist=_checklist(shown),
        verdicts=_verdicts(builds),
        knowledge=knowledge,
        log=log_of(builds[0]["operator"], builds[0]["kernel"]),
        answers=answers(next((b for b in shown if b["open"]), shown[0]), list(QUESTIONS)),
    )


def _knowledge_from(folder: Path) -> str | None:
    """Return a folder's link to the knowledge entries, or None outside the project."""
    link = Path(os.path.relpath(FOLDER, folder))
    return link.as_posix() if set(link.parts) <= {"..", *FOLDER.parts[-2:]} else None


def _verdicts(builds: Sequence[Record]) -> list[Record]:
    """Return entries of docs/knowledge that apply, each once with its gravest verdict."""
    entries = read_entries()
    result: dict[str, Record] = {}
    for build in builds:
        for one in verdicts(build, entries):
            known = result.get(one.entry.name)
            if known is None or VERDICTS.index(one.word) < VERDICTS.index(known["word"]):
                place = f"{build['target']} {build['variant']['id']}"
                result[one.entry.name] = {"word": one.word, "entry": one.entry, "why": one.why, "build": place}
    return sorted(result.values(), key=lambda one: (VERDICTS.index(one["word"]), one["entry"].name))


def short_source(place: str) -> str:
    """file.py:12, without the folders of the file."""
    return place.rpartition("/")[2]


def _build(build: Record, results: Path | None, whole: bool) -> Record:
    names = ("compile", build["operator"], build["kernel"], build["target"], build["variant"]["id"])
    folder = results.joinpath(*names) if results else None
    functions = [_function(f, folder, whole and place == 0) for place, f in enumerate(build["functions"])]
    watched = build["watched"]
    message = ", ".join(f"{key} {value}" for key, value in watched["parameters"].items()) if watched else None
    return {**build, "functions": functions, "ran": message, "open": whole}


def _function(function: Record, folder: Path | None, whole: bool) -> Record:
    place = folder if whole and folder and folder.is_dir() else None
    plot, bar = graph.draw(function), graph.budget(function["shared"])
    colour = graph.colours(function["roles"] or [])
    result, why = listing(place, function["symbol"]) if place else ({}, None)
    shown = shapes.layout_plots(function, place) if place else []
    sass = sum(len(line.sass) for lines in result.values() for line in lines)
    return {
        **function,
        "moved": MOVED,
        "layouts": [{"svg": Markup(one.svg), "caption": one.caption} for one in shown],
        "lowering": shapes.lowering(function, place, sass) if place else [],
        "short": function["symbol"][:SHORT] + ("…" if len(function["symbol"]) > SHORT else ""),
        "picture": Markup(plot) if plot else None,
        "bar": Markup(bar) if bar else None,
        "colour": colour,
        "files": [_file(file, lines, function, colour) for file, lines in result.items()],
        "no_sass": why,
    }


def _file(file: str, lines: Sequence[Line], function: Record, colour: Mapping[str, str]) -> Record:
    """Return a source file with the colours of the roles that ran each line."""
    file = shareable.neutral(file)
    roles = function["roles"] or []
    ran = {role["name"]: numbers(role["ran"].get(file, "")) for role in roles}
    rows: list[Record] = []
    for line in lines:
        place = f"{file}:{line.number}"
        mine = [name for name, places in ran.items() if line.number in places]
        rows.append(
            {
                "line": line,
                "roles": mine,
                "colours": [colour[name] for name in mine],
                "words": _line_texts(function, place),
            }
        )
    return {"name": short_source(file) or "no source line", "path": file, "rows": rows}


def _line_texts(function: Record, place: str) -> list[str]:
    """Describe the products and copies of a source line."""
    out = [product["words"] for product in function["products"] or [] if place in product["lines"]]
    for descriptor in function["descriptors"] or []:
        for use in descriptor["uses"]:
            if place in use["lines"]:
                box = " x ".join(map(str, descriptor["box"]))
                out.append(f"TMA {use['way']} of a box of {box} {descriptor['element']} of {descriptor['tensor']}")
    return list(dict.fromkeys(out))


def _checklist(builds: Sequence[Record]) -> list[Record]:
    """Return the ten patterns of the main function of each build shown whole."""
    shown = [build for build in builds if build["open"] and build["functions"]]
    if not shown:
        return []
    rows = []
    for name in shown[0]["functions"][0]["patterns"]:
        cells = [build["functions"][0]["patterns"][name] for build in shown]
        rows.append({"name": name, "cells": list(zip(shown, cells, strict=True))})
    return rows
