"""Digests that tell Snakemake what a result depends on besides its input files: code, by content, not by date."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from cutesnake import record
from cutesnake.places import ROOT, SCRIPTS

KNOWN = Path(".snakemake/cutesnake-imports.json")
# Where modules of this repository are found, by the first part of their name.
PLACES = {"cutesnake": SCRIPTS, "kernels": ROOT, "ptxsim": ROOT}
# Imported nearly everywhere, but only as protocols, for writing records and for messages: nothing of them is baked in.
NOT_BAKED = frozenset(SCRIPTS / "cutesnake" / name for name in ("contract.py", "record.py", "fault.py"))


def digest_files(paths: Iterable[Path]) -> str:
    """sha256 (first 16 hex digits) over relative names and contents, in the order of the names."""
    total = hashlib.sha256()
    for path in sorted(set(paths)):
        total.update(str(path.relative_to(ROOT)).encode() + b"\0")
        total.update(path.read_bytes() + b"\0")
    return total.hexdigest()[:16]


def digest_data(data: Any) -> str:
    """Digest of JSON-like data: comments and key order of the file it was read from do not count."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


@functools.cache
def digest_code(*modules: str) -> str:
    """Digest of modules (`cutesnake.plot`) or scripts (`plot.py`) and of all they import, directly or not."""
    return digest_files(closure(*modules))


@functools.cache
def digest_baked(operator: str, kernel: str) -> str:
    """Digest of the code that a build depends on: the kernel without its `load` side, and the compile stage."""
    return digest_files(closure(f"kernels.{operator}.{kernel}", "compile.py", baked=True) - NOT_BAKED)


@functools.cache
def closure(*modules: str, baked: bool = False) -> frozenset[Path]:
    """Files of modules and of everything of this repository that they import, at any depth and in any function.

    With `baked`, imports inside functions named `load` and inside classes are left out: that is the running side of a
    kernel's contract, which no build depends on.
    """
    found: set[Path] = set()
    waiting = list(modules)
    while waiting:
        for path in _module_files(waiting.pop()):
            if path not in found:
                found.add(path)
                waiting += _imported(path, baked) if path.suffix == ".py" else ()
    return frozenset(found)


@functools.cache
def _module_files(name: str) -> tuple[Path, ...]:
    """The file of a module or package; of the simulator all files, since its handlers register themselves."""
    if name.endswith(".py"):
        return (SCRIPTS / name,)
    first, *rest = name.split(".")
    if first not in PLACES or (not rest and first != "ptxsim"):
        return ()
    path = PLACES[first].joinpath(first, *rest)
    if first == "ptxsim" and path.is_dir():
        return tuple(sorted((*path.rglob("*.py"), *path.rglob("*.c"))))
    if path.is_dir():
        return (path / "__init__.py",) if (path / "__init__.py").exists() else ()
    return (path.with_suffix(".py"),) if path.with_suffix(".py").exists() else ()


@functools.cache
def _imported(path: Path, baked: bool) -> tuple[str, ...]:
    """Names of this repository that a file imports. Known files are looked up: parsing them all takes a second."""
    text = path.read_text()
    key = hashlib.sha256(f"{path.relative_to(ROOT)} {baked} {text}".encode()).hexdigest()
    known = _known()
    if key not in known:
        known[key] = _parse_imports(_name(path.parent), text, baked)
        known.changed = True
    return tuple(known[key])


class Known(dict[str, list[str]]):
    """Digest of a file -> what it imports, kept in the working directory between runs."""

    changed = False


@functools.cache
def _known() -> Known:
    try:
        return Known(json.loads(KNOWN.read_text()))
    except (OSError, ValueError):  # not there yet, or cut short: it is only a shortcut
        return Known()


def remember() -> None:
    """Write what files import for the next run, if anything is new and the folder can be written."""
    if _known().changed:
        with contextlib.suppress(OSError):
            record.write_text(KNOWN, json.dumps(_known()))
        _known().changed = False


def _parse_imports(package: str, text: str, baked: bool) -> list[str]:
    names: list[str] = []
    for node in _nodes(ast.parse(text), baked):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return sorted({name for name in names if name.split(".")[0] in PLACES})


def _name(folder: Path) -> str:
    base = SCRIPTS if folder.is_relative_to(SCRIPTS) else ROOT
    return ".".join(folder.relative_to(base).parts)


def _nodes(tree: ast.AST, baked: bool) -> Iterator[ast.AST]:
    """All nodes, less those under `if TYPE_CHECKING` and, with `baked`, those of the running side."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if baked and (isinstance(node, ast.ClassDef) or (isinstance(node, ast.FunctionDef) and node.name == "load")):
            continue
        yield node
        yield from _nodes(node, baked)
