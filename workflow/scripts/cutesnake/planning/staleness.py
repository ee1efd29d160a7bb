"""Digests of the code and data that a result depends on: by meaning, neither by date nor by layout.

Comments, docstrings and layout of Python files do not count, nor where the project lies.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from cutesnake.model.catalog import label, roots
from cutesnake.model.paths import ROOT, SCRIPTS
from cutesnake.planning import installed
from cutesnake.planning.looked_at import memory, stamp, state_of

# Where modules of this repository are found, by the first part of their name.
PLACES = {"cutesnake": SCRIPTS, "ptxsim": ROOT}
# Imported nearly everywhere, but only as protocols, for writing records and for messages: nothing of them is baked in.
NOT_BAKED = frozenset(
    SCRIPTS / "cutesnake" / name
    for name in (
        *(f"model/{name}.py" for name in ("contract", "record", "provenance", "catalog", "dsls", "targets", "paths")),
        *(f"model/{name}.py" for name in ("explain", "inputs", "own_builds", "records/__init__", "records/common")),
        *(f"planning/{name}.py" for name in ("staleness", "looked_at", "outputs", "installed")),
        *(f"runtime/{name}.py" for name in ("shareable", "errors", "machine_faults", "machine_check", "locks")),
        *(f"runtime/{name}.py" for name in ("pool", "job", "private_folder")),
    )
)
# `module:function`, which another process imports: see cutesnake/runtime/job.py
TASK = re.compile(r"[a-z]+(\.\w+)+:\w+")
COMPILER = "cutesnake.stages.compile.compile"
MARK = "not_baked"  # the decorator of cutesnake.model.contract


WORKFLOW, SIMULATOR, KERNELS = "workflow", "ptxsim", "kernels"


def digest_files(paths: Iterable[Path], baked: bool = False) -> str:
    """sha256 (first 16 hex digits) over labels and contents, in the order of the labels.

    With `baked`, what is marked `@not_baked` does not count.
    """
    return digest_data(sorted((label(path), _digest_of(path, baked)) for path in set(paths)))


def digests_of_code(paths: Iterable[Path], baked: bool = False) -> dict[str, str]:
    """Digests of kernels' files by label, of the simulator and of all else together."""
    found: dict[str, str] = {}
    groups: dict[str, list[Path]] = {}
    for path in paths:
        name = label(path)
        first = name.partition("/")[0]
        if first == KERNELS:
            found[name] = _digest_of(path, baked)
        else:
            groups.setdefault(first if first == SIMULATOR else WORKFLOW, []).append(path)
    return found | {name: digest_files(group, baked) for name, group in groups.items()}


def _digest_of(path: Path, baked: bool) -> str:
    source = _source(path)
    return source.baked if baked else source.digest


def digest_data(data: Any) -> str:
    """Digest of JSON-like data: comments and key order of the file it was read from do not count."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


@functools.cache
def code_of(*modules: str) -> dict[str, str]:
    """Digests of modules or scripts, and of all they import, as `digests_of_code` gives them."""
    return recalled("code", " ".join(modules), lambda: digests_of_code(closure(*modules)))


@functools.cache
def code_of_build(operator: str, kernel: str) -> dict[str, str]:
    """Return digests of the code that a build depends on, as `digests_of_code` gives them."""

    def find() -> dict[str, str]:
        files = closure(f"kernels.{operator}.{kernel}", COMPILER, baked=True) - NOT_BAKED
        return digests_of_code(files, baked=True)

    return recalled("code of builds", f"{operator}/{kernel}", find)


def recalled(kind: str, key: str, find: Callable[[], Any]) -> Any:
    """Return what `find` returned in an earlier run.

    Find anew if a file of code, a file in a folder of kernels or the version of an installed package changed since.
    """
    installed_now = digest_data(installed.packages())
    return memory().recall(kind, f"{key} {installed_now}", _state((SCRIPTS, ROOT / SIMULATOR, *roots())), find)


_state = functools.cache(state_of)


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
                source = _source(path)
                more = source.baked_imports if baked else source.imports
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


class Source(NamedTuple):
    """What a file of code says: digests and imported names, of all of it and of what builds depend on."""

    digest: str
    baked: str
    imports: tuple[str, ...]
    baked_imports: tuple[str, ...]


@functools.cache
def _source(path: Path) -> Source:
    """What a file says, read only if it changed: parsing all files takes seconds."""
    name, now = str(path), stamp(path)
    found = memory().get("sources", name, now)
    if found is None:
        found = _read(path)
        memory().put("sources", name, now, found)
    digest, baked, imports, baked_imports = found
    return Source(digest, baked, tuple(imports), tuple(baked_imports))


def _read(path: Path) -> tuple[str, str, list[str], list[str]]:
    content = path.read_bytes()
    if path.suffix == ".py":
        with contextlib.suppress(SyntaxError, ValueError):  # a kernel's fault, which the plan or the build tells
            tree = ast.parse(content)
            seen = _Seen(_package(path))
            seen.walk(tree)
            return seen.found()
    digest = _short(content)
    return digest, digest, [], []


class _Seen:
    """A module without comments, docstrings, layout and `if TYPE_CHECKING`: its syntax tree as text, its imports.

    What is marked `@not_baked` is kept apart.
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self.words: tuple[list[str], list[str]] = ([], [])  # baked, marked
        self.names: tuple[set[str], set[str]] = (set(), set())

    def found(self) -> tuple[str, str, list[str], list[str]]:
        baked, marked = (_short(" ".join(words).encode(errors="surrogatepass")) for words in self.words)
        whole = _short(f"{baked} {marked}".encode()) if self.words[1] else baked
        return whole, baked, sorted(self.names[0] | self.names[1]), sorted(self.names[0])

    def walk(self, node: ast.AST, marked: bool = False) -> None:
        marked = marked or _is_marked(node)
        words = self.words[marked]
        words.append(type(node).__name__)
        self._import(node, self.names[marked])
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                words.append(f"{field}:")
                self.walk(value, marked)
            elif isinstance(value, list):
                if field == "body":
                    value = _without_docstring(node, value)
                if value:  # an empty list says nothing: later versions of Python have more fields
                    words.append(f"{field}[")
                    for item in value:
                        if not isinstance(item, ast.AST):
                            words.append(repr(item))
                        elif not _is_for_types(item):
                            self.walk(item, marked)
                    words.append("]")
            elif value is not None or (isinstance(node, ast.Constant) and field == "value"):
                words.append(f"{field}={value!r}")

    def _import(self, node: ast.AST, names: set[str]) -> None:
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = self.package.split(".")
            parts = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            found = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and TASK.fullmatch(node.value):
            found = [node.value.partition(":")[0]]
        names.update(name for name in found if name.split(".")[0] in (*PLACES, "kernels"))


def _without_docstring(node: ast.AST, body: list[Any]) -> list[Any]:
    documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    if not (documented and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)):
        return body
    return body[1:] if isinstance(body[0].value.value, str) else body


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _package(path: Path) -> str:
    """The package that a file's relative imports start from."""
    folder = path.parent
    for root in roots():
        if folder.is_relative_to(root):
            return ".".join(("kernels", *folder.relative_to(root).parts))
    base = next((base for base in (SCRIPTS, ROOT) if folder.is_relative_to(base)), folder)
    return ".".join(folder.relative_to(base).parts)


def _is_marked(node: ast.AST) -> bool:
    """Whether `@not_baked`, or `@….not_baked`, stands over a function or class."""
    if not isinstance(node, ast.FunctionDef | ast.ClassDef):
        return False
    names = (d.id if isinstance(d, ast.Name) else getattr(d, "attr", None) for d in node.decorator_list)
    return MARK in names


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
