"""Digests that tell Snakemake what a result depends on besides its input files: code, by content, not by date."""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from cutesnake.model import record
from cutesnake.model.catalog import label, roots
from cutesnake.model.paths import ROOT, SCRIPTS

KNOWN = Path(".snakemake/cutesnake-imports.json")
# Where modules of this repository are found, by the first part of their name.
PLACES = {"cutesnake": SCRIPTS, "ptxsim": ROOT}
# Imported nearly everywhere, but only as protocols, for writing records and for messages: nothing of them is baked in.
NOT_BAKED = frozenset(
    SCRIPTS / "cutesnake" / name
    for name in (
        *(f"model/{name}.py" for name in ("contract", "record", "catalog", "dsls", "targets", "paths")),
        *(f"model/{name}.py" for name in ("explain", "inputs", "records/__init__", "records/common")),
        *(f"runtime/{name}.py" for name in ("shareable", "errors", "machine_check", "machine_lock", "forks")),
        *(f"runtime/{name}.py" for name in ("fork_server", "job", "private_folder")),
    )
)
# `module:function`, which another process imports: see cutesnake/runtime/job.py
TASK = re.compile(r"[a-z]+(\.\w+)+:\w+")
MARK = "not_baked"  # the decorator of cutesnake.model.contract


def digest_files(paths: Iterable[Path], baked: bool = False) -> str:
    """sha256 (first 16 hex digits) over labels and contents, in the order of the labels.

    With `baked`, what is marked `@not_baked` does not count.
    """
    total = hashlib.sha256()
    for name, path in sorted((label(path), path) for path in set(paths)):
        content = path.read_bytes()
        if baked and path.suffix == ".py":
            content = _without_marked(content.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        total.update(name.encode() + b"\0" + content + b"\0")
    return total.hexdigest()[:16]


def digest_data(data: Any) -> str:
    """Digest of JSON-like data: comments and key order of the file it was read from do not count."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


def digest_case(settings: Any, card: str, code: str, identity: Mapping[str, Any]) -> str:
    """Digest of what a check or a timing depends on besides files, alike in a job of its own and in a batch.

    `card` is the fingerprint of what it is measured on, `code` the digest of what runs, `identity` of which case.
    """
    return digest_data([settings, card, code, identity])


@functools.cache
def digest_code(*modules: str) -> str:
    """Digest of modules (`cutesnake.report.plot`) or scripts (`plot.py`) and of all they import, directly or not."""
    return digest_files(closure(*modules))


@functools.cache
def digest_baked(operator: str, kernel: str) -> str:
    """Digest of the code that a build depends on: the kernel without what it marks `@not_baked`, the compile stage."""
    return digest_files(closure(f"kernels.{operator}.{kernel}", "compile.py", baked=True) - NOT_BAKED, baked=True)


@functools.cache
def closure(*modules: str, baked: bool = False) -> frozenset[Path]:
    """Files of modules and of everything of this repository that they import, at any depth and in any function.

    With `baked`, imports inside what is marked `@not_baked` are left out: no build depends on it.
    """
    found: set[Path] = set()
    seen, waiting = set(modules), list(modules)
    while waiting:
        for path in _module_files(waiting.pop()):
            if path not in found:
                found.add(path)
                more = _imported(path, baked) if path.suffix == ".py" else ()
                waiting += (name for name in more if name not in seen)
                seen.update(more)
    return frozenset(found)


@functools.cache
def _module_files(name: str) -> tuple[Path, ...]:
    """The file of a module or package; of the simulator all files, since its handlers register themselves."""
    if name.endswith(".py"):
        return (SCRIPTS / name,)
    first, *rest = name.split(".")
    if first == "kernels":
        return _first_file(root.joinpath(*rest) for root in roots()) if rest else ()
    if first not in PLACES or (not rest and first != "ptxsim"):
        return ()
    path = PLACES[first].joinpath(first, *rest)
    if first == "ptxsim" and path.is_dir():
        return tuple(sorted((*path.rglob("*.py"), *path.rglob("*.c"))))
    return _first_file([path])


def _first_file(paths: Iterable[Path]) -> tuple[Path, ...]:
    for path in paths:
        for file in (path / "__init__.py", path.with_suffix(".py")):
            if file.exists():
                return (file,)
    return ()


@functools.cache
def _imported(path: Path, baked: bool) -> tuple[str, ...]:
    """Names of this repository that a file imports. Known files are looked up: parsing them all takes a second."""
    text = path.read_text(encoding="utf-8", errors="replace")
    key = hashlib.sha256(f"{label(path)} {baked} {text}".encode()).hexdigest()
    known = _known()
    if key not in known:
        known[key] = _parse_imports(_package(path), text, baked)
        known.changed = True
    return tuple(known[key])


class Known(dict[str, list[str]]):
    """Digest of a file -> what it imports, kept in the working directory between runs."""

    changed = False


@functools.cache
def _known() -> Known:
    try:
        found = json.loads(KNOWN.read_text())
        imports = found["imports"]
        return Known(imports if found["digest"] == digest_data(imports) and isinstance(imports, dict) else {})
    except (OSError, ValueError, LookupError, TypeError, RecursionError):  # not there yet, or damaged: a shortcut only
        return Known()


def remember() -> None:
    """Write what files import for the next run, if anything is new and the folder can be written."""
    if _known().changed:
        with contextlib.suppress(OSError):
            content = {"digest": digest_data(_known()), "imports": _known()}
            record.write_text(KNOWN, json.dumps(content))
        _known().changed = False


def _parse_imports(package: str, text: str, baked: bool) -> list[str]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # a kernel's fault, which the plan tells; it imports nothing
        return []
    names: list[str] = []
    for node in _nodes(tree, baked):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and TASK.fullmatch(node.value):
            names.append(node.value.partition(":")[0])
    return sorted({name for name in names if name.split(".")[0] in (*PLACES, "kernels")})


def _package(path: Path) -> str:
    """The package that a file's relative imports start from."""
    folder = path.parent
    for root in roots():
        if folder.is_relative_to(root):
            return ".".join(("kernels", *folder.relative_to(root).parts))
    base = SCRIPTS if folder.is_relative_to(SCRIPTS) else ROOT
    return ".".join(folder.relative_to(base).parts)


def _nodes(tree: ast.AST, baked: bool) -> Iterator[ast.AST]:
    """All nodes, less those under `if TYPE_CHECKING` and, with `baked`, what is marked."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        if baked and _is_marked(node):
            continue
        yield node
        yield from _nodes(node, baked)


def _is_marked(node: ast.AST) -> bool:
    """Whether `@not_baked`, or `@….not_baked`, stands over a function or class."""
    if not isinstance(node, ast.FunctionDef | ast.ClassDef):
        return False
    names = (d.id if isinstance(d, ast.Name) else getattr(d, "attr", None) for d in node.decorator_list)
    return MARK in names


def _without_marked(text: str) -> str:
    """The source of a module less its marked functions, classes and methods; unchanged if nothing is marked."""
    if f"@{MARK}" not in text:
        return text
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # a kernel's fault, which the plan or the build tells
        return text
    lines = text.splitlines()
    for node in ast.walk(tree):
        if _is_marked(node):
            assert isinstance(node, ast.FunctionDef | ast.ClassDef)
            first = node.decorator_list[0].lineno
            lines[first - 1 : node.end_lineno] = [""] * ((node.end_lineno or first) - first + 1)
    return "\n".join(line for line in lines if line.strip())
