"""Which files of ptxsim import each other in a circle, imports for types alone counted."""

from __future__ import annotations

import ast
from pathlib import Path

import ptxsim

PACKAGE = Path(ptxsim.__file__).parent
# The parts of a running cluster know each other: a fragment its CTA and what it waits for, those their fragments.
CLUSTER = {"barriers", "cta", "observer", "protocols", "special_registers", "warp", "work"}


def imports(path: Path) -> set[Path]:
    """The files of the package that a file imports, wherever in it."""
    result = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom) or not node.level:
            continue
        base = path.parents[node.level - 1].joinpath(*(node.module or "").split(".") if node.module else ())
        for alias in node.names:
            files = (base / f"{alias.name}.py", base / alias.name / "__init__.py", base.with_suffix(".py"))
            result.add(next((file for file in files if file.exists()), base / "__init__.py"))
    return result - {path}


def circles(graph: dict[Path, set[Path]]) -> list[set[Path]]:
    """Sets of files of which each leads to all others."""
    reached = {}
    for start in graph:
        seen: set[Path] = set()
        todo = [start]
        while todo:
            new = graph[todo.pop()] - seen
            seen |= new
            todo += new
        reached[start] = seen
    groups = {frozenset(b for b in reached[a] if a in reached[b]) for a in graph if a in reached[a]}
    return [set(group) for group in groups]


def test_a_circle_is_found(tmp_path: Path) -> None:
    a, b, c = (tmp_path / name for name in ("a.py", "b.py", "c.py"))
    a.write_text("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .b import B\n")
    b.write_text("def f():\n    from . import a\n")
    c.write_text("from .a import A\n")
    assert circles({path: imports(path) for path in (a, b, c)}) == [{a, b}]


def test_only_the_parts_of_a_running_cluster_import_each_other_in_a_circle() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    graph = {path: imports(path) for path in files}
    assert sum(map(len, graph.values())) > 300 and all(
        target in graph for result in graph.values() for target in result
    )
    assert circles(graph) == [{PACKAGE / "core" / f"{name}.py" for name in CLUSTER}]
