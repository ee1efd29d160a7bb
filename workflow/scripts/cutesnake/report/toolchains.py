"""Pages of toolchains: a matrix of all operators, and one per operator."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from cutesnake.analysis.change.static_values import static_values
from cutesnake.analysis.toolchains import FIGURES, Row, by_operator, figures, first_line, matrix, rows
from cutesnake.model import record
from cutesnake.model.records.toolchain import Environment, Toolchain, ToolchainBuild, Toolchains
from cutesnake.report import html

COUNTS = "instructions, "  # static values that count a class of instructions


def write_files(
    records: Sequence[str],
    environments: Sequence[str],
    toolchains: Sequence[str],
    limits: Mapping[str, Any],
    front: str,
    output: str,
    page: str,
    pages: Sequence[str],
) -> None:
    """Compare toolchain records; write the record `output`, the page `page`, and `pages`, named by operator."""
    known = [record.read("toolchain", path) for path in records]
    installed = [record.read("environment", path) for path in environments]
    compared = matrix(known, toolchains, limits)
    record.write("toolchains", output, compared)
    html.write(render(compared, known, installed, f"../{front}"), Path(page))
    for one in map(Path, pages):
        html.write(render(compared, known, installed, f"../../{front}", one.stem), one)


def render(
    compared: Toolchains,
    known: Sequence[Toolchain],
    installed: Sequence[Environment],
    front: str,
    operator: str | None = None,
) -> str:
    """Return the page of all operators, or one's longer; `front`: the front page."""
    if operator:
        known = [one for one in known if one.operator == operator]
        changes = [one for one in compared.changes if one.build.startswith(f"{operator}/")]
        compared = replace(compared, changes=changes)
    by_key = rows(known, compared.toolchains)
    operators: dict[str, list[dict[str, Any]]] = {}
    for (name, kernel, target, variant), row in by_key.items():
        build = {"kernel": kernel, "target": target, "variant": variant}
        operators.setdefault(name, []).append({**build, "cells": _cells(row)})
    cells = [cell for kernels in operators.values() for row in kernels for cell in row["cells"]]
    return html.template("toolchains.html.j2").render(
        **html.look(),
        front=front,
        operator=operator,
        compared=compared,
        operators=operators,
        summary=by_operator(compared, by_key),
        figures=list(FIGURES),
        classes=list(dict.fromkeys(name for cell in cells for name, _, _ in cell["counts"])),
        timed=any(cell["times"] for cell in cells),
        installed=installed,
    )


def _cells(row: Row) -> list[dict[str, Any]]:
    result, before = [], None
    for toolchain, build in row.items():
        result.append({"toolchain": toolchain, **_cell(build, before)})
        before = build if build.status == "ok" else before
    return result


def _cell(build: ToolchainBuild, before: ToolchainBuild | None) -> dict[str, Any]:
    now, old = figures(build), figures(before) if before else {}
    counts, others = _counts(build), _counts(before) if before else {}
    return {
        "reason": first_line(build.reason, 300),
        "values": [(now[name], name in old and old[name] != now[name]) for name in FIGURES],
        "counts": [(name, count, name in others and others[name] != count) for name, count in counts.items()],
        "spills": build.spills,
        "predicted": next(iter(build.predictions), None),
        "times": build.times,
        "check": next(iter(build.checks), None),
        "compilers": ", ".join(f"{name} {version}" for name, version in sorted(build.compilers.items())),
    }


def _counts(build: ToolchainBuild) -> dict[str, int]:
    """Return instructions of all functions of a build, by class."""
    result: dict[str, int] = {}
    for function in build.functions:
        for name, count in static_values(function).items():
            if name.startswith(COUNTS) and count is not None:
                key = name.removeprefix(COUNTS)
                result[key] = result.get(key, 0) + count
    return result
