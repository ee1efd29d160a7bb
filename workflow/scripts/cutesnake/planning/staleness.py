"""Digest the code and data that a result depends on, by meaning.

Comments, docstrings and layout of Python files do not count, nor dates, nor where the project is.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from cutesnake.model.catalog import label, roots, sets_dsl
from cutesnake.model.paths import ROOT, SCRIPTS
from cutesnake.planning import installed
from cutesnake.planning.looked_at import digest as digest_of_file
from cutesnake.planning.looked_at import memory, state_of

# Where modules of this repository are found, by the first part of their name.
PLACES = {"cutesnake": SCRIPTS, "ptxsim": ROOT}
# Imported nearly everywhere, but only as protocols, for writing records and for messages: no build depends on them.
NEVER_IN_BUILDS = frozenset(
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
# Parts of ptxsim for people and for pytest. No record depends on them, unless code imports them by name.
FRONT = ("__main__.py", "census.py", "commandline/", "museum/", "pytest_plugin.py", "timing/early_arrivals.py")
MARK = "not_baked"  # the decorator of cutesnake.model.contract
MARKED_BY_NAME = ("supports", "variants", "bind")  # functions of contracts that no build depends on


WORKFLOW, SIMULATOR, KERNELS = "workflow", "ptxsim", "kernels"


def digest_files(paths: Iterable[Path], for_builds: bool = False) -> str:
    """sha256 (first 16 hex digits) over labels and contents, in the order of the labels.

    With `for_builds`, what is marked `@not_baked` does not count.
    """
    return digest_data(sorted((label(path), _digest_of(path, for_builds)) for path in set(paths)))


def digests_of_code(paths: Iterable[Path], for_builds: bool = False) -> dict[str, str]:
    """Digests of kernels' files by label, of the simulator and of all else together."""
    digests: dict[str, str] = {}
    groups: dict[str, list[Path]] = {}
    for path in paths:
        name = label(path)
        first = name.partition("/")[0]
        if first == KERNELS:
            digests[name] = _digest_of(path, for_builds)
        else:
            groups.setdefault(first if first == SIMULATOR else WORKFLOW, []).append(path)
    return digests | {name: digest_files(group, for_builds) for name, group in groups.items()}


def _digest_of(path: Path, for_builds: bool) -> str:
    source = _source(path)
    return source.for_builds if for_builds else source.digest


def digest_data(data: Any) -> str:
    """Return the digest of JSON-like data; comments and key order do not count."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:16]


@functools.cache
def code_of(*modules: str) -> dict[str, str]:
    """Digests of modules or scripts, and of all they import, as `digests_of_code` gives them."""
    return recalled("code", " ".join(modules), lambda: digests_of_code(closure(*modules)))


@functools.cache
def code_of_build(operator: str, kernel: str) -> dict[str, str]:
    """Return digests of the code that a build depends on, as `digests_of_code` gives them."""

    def find() -> dict[str, str]:
        files = closure(f"kernels.{operator}.{kernel}", COMPILER, for_builds=True) - NEVER_IN_BUILDS
        return digests_of_code(files, for_builds=True)

    return recalled("code of builds", f"{operator}/{kernel}", find)


def recalled(kind: str, key: str, find: Callable[[], Any]) -> Any:
    """Return what `find` returned in an earlier run.

    Find again if a file of code, a file in a folder of kernels or the version of an installed package changed since.
    """
    return memory().recall(kind, f"{key} {_installed()}", _state((SCRIPTS, ROOT / SIMULATOR, *roots())), find)


@functools.cache
def _installed() -> str:
    return digest_data(installed.packages())


_state = functools.cache(state_of)


@functools.cache
def closure(*modules: str, for_builds: bool = False) -> frozenset[Path]:
    """Return the files of modules and of all their imports from this repository.

    With `for_builds`, imports for what is marked `@not_baked` are left out: no build depends on it.
    """
    files: set[Path] = set()
    seen, waiting = set(modules), list(modules)
    while waiting:
        for path in _module_files(waiting.pop()):
            if path not in files:
                files.add(path)
                source = _source(path)
                more = source.build_imports if for_builds else source.imports
                waiting += (name for name in more if name not in seen)
                seen.update(more)
    return frozenset(files)


@functools.cache
def _module_files(name: str) -> tuple[Path, ...]:
    """Return the file of a module; of ptxsim all but FRONT, since handlers register themselves."""
    if name.endswith(".py"):
        return (SCRIPTS / name,)
    first, *rest = name.split(".")
    if first == "kernels":
        return _first_file(root.joinpath(*rest) for root in roots()) if rest else ()
    if first not in PLACES or (not rest and first != "ptxsim"):
        return ()
    path = PLACES[first].joinpath(first, *rest)
    if first == "ptxsim" and path.is_dir():
        files = sorted((*path.rglob("*.py"), *path.rglob("*.c")))
        return tuple(f for f in files if rest or not f.relative_to(path).as_posix().startswith(FRONT))
    return _first_file([path])


def _first_file(paths: Iterable[Path]) -> tuple[Path, ...]:
    for path in paths:
        for file in (path / "__init__.py", path.with_suffix(".py")):
            if file.exists():
                return (file,)
    return ()


class Source(NamedTuple):
    """Digests and imports of a code file: of all, and of what builds need."""

    digest: str
    for_builds: str
    imports: tuple[str, ...]
    build_imports: tuple[str, ...]


@functools.cache
def _source(path: Path) -> Source:
    """Return digests and imports of a file; parse each content once, wherever it lies."""
    content = digest_of_file(str(path))
    key = f"{_package(path)} {path.suffix} {content}"
    entry = memory().get("sources", key, content or "")
    if entry is None:
        data = path.read_bytes()
        state = content if content == _short(data) else None  # None: it changed meanwhile
        entry = memory().recall("sources", key, state, lambda: _read(path, data))
    digest, for_builds, imports, build_imports = entry
    return Source(digest, for_builds, tuple(imports), tuple(build_imports))


def _read(path: Path, content: bytes) -> tuple[str, str, list[str], list[str]]:
    if path.suffix == ".py":
        with contextlib.suppress(SyntaxError, ValueError):  # a kernel's fault, which the plan or the build tells
            tree = ast.parse(content)
            seen = _Seen(_package(path), tree)
            seen.walk(tree)
            return seen.digests()
    digest = _short(content)
    return digest, digest, [], []


class _Seen:
    """The syntax tree of a module as text, and its imports.

    Comments, docstrings, layout and `if TYPE_CHECKING` are left out. What is marked `@not_baked` is kept apart. So are
    the functions of a contract that bear a name of MARKED_BY_NAME, and imports from an operator for them and for types.
    """

    def __init__(self, package: str, module: ast.Module) -> None:
        self.package = package
        functions = (node for node in module.body if isinstance(node, ast.FunctionDef) and sets_dsl(module))
        self.functions = {function for function in functions if function.name in MARKED_BY_NAME}
        self.used = set(self._used(module))
        self.texts: tuple[list[str], list[str]] = ([], [])  # what builds depend on, marked
        self.names: tuple[set[str], set[str]] = (set(), set())

    def digests(self) -> tuple[str, str, list[str], list[str]]:
        for_builds, marked = (_short(" ".join(texts).encode(errors="surrogatepass")) for texts in self.texts)
        whole = _short(f"{for_builds} {marked}".encode()) if self.texts[1] else for_builds
        return whole, for_builds, sorted(self.names[0] | self.names[1]), sorted(self.names[0])

    def walk(self, node: ast.AST, marked: bool = False) -> None:
        marked = marked or self._is_marked(node)
        texts = self.texts[marked]
        texts.append(type(node).__name__)
        self._import(node, self.names[marked])
        for field in node._fields:
            value = getattr(node, field, None)
            if isinstance(value, ast.AST):
                texts.append(f"{field}:")
                self.walk(value, marked)
            elif isinstance(value, list):
                if field == "body":
                    value = _without_docstring(node, value)
                if value:  # an empty list says nothing: later versions of Python have more fields
                    texts.append(f"{field}[")
                    for item in value:
                        if not isinstance(item, ast.AST):
                            texts.append(repr(item))
                        elif not _is_for_types(item):
                            self.walk(item, marked)
                    texts.append("]")
            elif value is not None or (isinstance(node, ast.Constant) and field == "value"):
                texts.append(f"{field}={value!r}")

    def _is_marked(self, node: ast.AST) -> bool:
        if isinstance(node, ast.ImportFrom):
            bound = {alias.asname or alias.name for alias in node.names}
            return (node.module or "").endswith(".operator") and not bound & self.used
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            return False
        decorators = (d.id if isinstance(d, ast.Name) else getattr(d, "attr", None) for d in node.decorator_list)
        return node in self.functions or MARK in decorators

    def _used(self, node: ast.AST) -> Iterator[str]:
        """Yield names that are read, but for annotations and what is marked."""
        if isinstance(node, ast.Name):
            yield node.id
        elif not (isinstance(node, ast.FunctionDef | ast.ClassDef) and self._is_marked(node)):
            for field, value in ast.iter_fields(node):
                children = [] if field in ("annotation", "returns") else value if isinstance(value, list) else [value]
                for child in children:
                    if isinstance(child, ast.AST):
                        yield from self._used(child)

    def _import(self, node: ast.AST, names: set[str]) -> None:
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            parts = self.package.split(".")
            parts = parts[: len(parts) - node.level + 1] if node.level else []
            base = ".".join([*parts, *([node.module] if node.module else [])])
            modules = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and TASK.fullmatch(node.value):
            modules = [node.value.partition(":")[0]]
        names.update(name for name in modules if name.split(".")[0] in (*PLACES, "kernels"))


def _without_docstring(node: ast.AST, body: list[Any]) -> list[Any]:
    documented = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    if not (documented and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)):
        return body
    return body[1:] if isinstance(body[0].value.value, str) else body


def _is_for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _package(path: Path) -> str:
    """Return the package that a file's relative imports start from."""
    folder = path.parent
    for root in roots():
        if folder.is_relative_to(root):
            return ".".join(("kernels", *folder.relative_to(root).parts))
    base = next((base for base in (SCRIPTS, ROOT) if folder.is_relative_to(base)), folder)
    return ".".join(folder.relative_to(base).parts)


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
