"""Page of toolchains: a matrix per operator, and what changed between neighbours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cutesnake.analysis.toolchains import FIGURES, Row, figures, first_line, matrix, rows
from cutesnake.model import record
from cutesnake.model.records.toolchain import Environment, Toolchain, ToolchainBuild, Toolchains
from cutesnake.report import html


def write_files(
    records: Sequence[str],
    environments: Sequence[str],
    toolchains: Sequence[str],
    limits: Mapping[str, Any],
    front: str,
    output: str,
    page: str,
) -> None:
    """Compare toolchain records; write the record `output` and the page `page`."""
    known = [record.read("toolchain", path) for path in records]
    installed = [record.read("environment", path) for path in environments]
    compared = matrix(known, toolchains, limits)
    record.write("toolchains", output, compared)
    html.write(render(compared, known, installed, front), Path(page))


def render(compared: Toolchains, known: Sequence[Toolchain], installed: Sequence[Environment], front: str) -> str:
    """Return the page; `front` is the front page, one folder up."""
    operators: dict[str, list[dict[str, Any]]] = {}
    for (operator, kernel, target, variant), row in rows(known, compared.toolchains).items():
        name = {"kernel": kernel, "target": target, "variant": variant}
        operators.setdefault(operator, []).append({**name, "cells": _cells(row)})
    return html.template("toolchains.html.j2").render(
        **html.look(), front=front, compared=compared, operators=operators, figures=list(FIGURES), installed=installed
    )


def _cells(row: Row) -> list[dict[str, Any]]:
    result, before = [], None
    for toolchain, build in row.items():
        result.append({"toolchain": toolchain, **_cell(build, before)})
        before = build if build.status == "ok" else before
    return result


def _cell(build: ToolchainBuild, before: ToolchainBuild | None) -> dict[str, Any]:
    now, old = figures(build), figures(before) if before else {}
    return {
        "reason": first_line(build.reason, 300),
        "values": [(now[name], name in old and old[name] != now[name]) for name in FIGURES],
        "predicted": next(iter(build.predictions), None),
        "check": next(iter(build.checks), None),
        "compilers": ", ".join(f"{name} {version}" for name, version in sorted(build.compilers.items())),
    }
