"""Count the lines of Python of a kernel, host and device apart.

The syntax trees decide. `python -m cutesnake.analysis.verdict.python_lines` records the lines of fetched packages.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePosixPath

from cutesnake.model import record
from cutesnake.model.catalog import kernel_file, kernel_files, label, load_kernel, operators, roots
from cutesnake.model.paths import ROOT
from cutesnake.model.records.verdict import Lines
from cutesnake.planning import strict_yaml
from cutesnake.planning.staleness import TASK

RECORDED = ROOT / "kernels/upstream_lines.yaml"

DSL_MODULES = ("cutlass", "cuda.tile")
LAUNCH = "launch"
SHARED = ("kernels.upstream", "kernels.targets", "kernels.matrices", "kernels.programs")  # of many kernels
_SILENT = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@cache
def count_lines(operator: str, kernel: str, fetched: Path | None = None) -> Lines | None:
    """Count a kernel's modules, and the definitions it uses of its third-party package.

    The package is in `fetched`. Device lines belong to functions that do not launch, in modules that import the DSL;
    all others are host lines. None if the kernel has no file, or if the adapter does not name its file of the package.
    """
    first = kernel_file(operator, kernel)
    if first is None:
        return None
    own = list(_modules(first, operator))
    host, device = 0, 0
    for path in own:
        own_host, own_device = split(path.read_text(encoding="utf-8"))
        host, device = host + own_host, device + own_device
    used = [] if fetched is None else _upstream(own, fetched)
    if fetched is not None and not used:
        return None
    for path, names in used:
        own_host, own_device = split(path.read_text(encoding="utf-8", errors="replace"), names)
        host, device = host + own_host, device + own_device
    shown = [*map(label, own), *(path.relative_to(fetched).as_posix() for path, _ in used if fetched)]
    return Lines(host, device, shown)


def recorded_lines(operator: str, kernel: str, source: str) -> Lines | None:
    """Return a kernel's lines with recorded ones of its package; None without them."""
    package = strict_yaml.read(RECORDED).get(_pinned(source), {}).get(f"{operator}/{kernel}")
    own = count_lines(operator, kernel)
    if own is None or package is None:
        return None
    return Lines(own.host + package[0], own.device + package[1], own.files)


def _pinned(source: str) -> str:
    """Return a package with the version that kernels/upstream.yaml pins."""
    return f"{source} {strict_yaml.read(ROOT / 'kernels/upstream.yaml').get(source, {}).get('version')}"


def record_lines(fetched: Path, output: Path = RECORDED) -> None:
    """Write the host and device lines of each kernel's package below `fetched`."""
    known: dict[str, list[str]] = {}
    for operator in operators():
        for kernel in kernel_files(operator):
            folder = fetched / (source := load_kernel(operator, kernel).SOURCE)
            if folder.is_dir() and (every := count_lines(operator, kernel, folder)):
                own = count_lines(operator, kernel) or Lines(0, 0, [])
                rows = known.setdefault(_pinned(source), [])
                rows.append(f"  {operator}/{kernel}: [{every.host - own.host}, {every.device - own.device}]\n")
    texts = (f"{package}:\n{''.join(rows)}" for package, rows in sorted(known.items()))
    head = "# Lines of Python that kernels use of a package: [host, device]. Written by python_lines.py.\n"
    record.write_text(output, head + "".join(texts))


@cache
def split(text: str, names: frozenset[str] | None = None) -> tuple[int, int]:
    """Return host and device lines of a module, or of what `names` use."""
    tree, nodes = _parsed(text)
    wanted = code_lines(text, nodes)
    if names is not None:
        wanted &= {line for node in _reachable(tree, names) for line in _span(node)}
    device: set[int] = set()
    if _imports_dsl(tree):
        calls = [(node.lineno, node.func) for node in nodes if isinstance(node, ast.Call)]
        launches = [line for line, of in calls if isinstance(of, ast.Attribute) and of.attr == LAUNCH]
        spans = [_span(node) for node in nodes if isinstance(node, ast.FunctionDef)]
        hosts = {span for span in spans if any(line in span for line in launches)}
        device.update(line for span in spans if span not in hosts for line in span)
        device.difference_update(line for span in hosts for line in span)
    return len(wanted - device), len(wanted & device)


@cache
def _parsed(text: str) -> tuple[ast.Module, list[ast.AST]]:
    """Return the syntax tree of a module, and all its nodes."""
    tree = ast.parse(text)
    return tree, list(ast.walk(tree))


def code_lines(text: str, nodes: Iterable[ast.AST]) -> set[int]:
    """Return the numbers of lines that are neither blank, comment nor docstring."""
    result: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _SILENT:
            result.update(range(token.start[0], token.end[0] + 1))
    for node in nodes:
        if isinstance(node, ast.Module | Definition) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            result.difference_update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return result


def _span(node: Definition) -> range:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return range(first, (node.end_lineno or node.lineno) + 1)


def _imports_dsl(tree: ast.Module) -> bool:
    return any(
        name == dsl or name.startswith(f"{dsl}.")
        for node in tree.body
        for name in _imported(node)
        for dsl in DSL_MODULES
    )


def _imported(node: ast.AST) -> list[str]:
    """Names of modules, perhaps of their members, that a node imports or names as `module:function`."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and TASK.fullmatch(node.value):
        return [node.value.partition(":")[0]]
    return []


def _modules(first: Path, operator: str) -> Iterator[Path]:
    """Yield the contract module and its imports below `kernels`, without shared modules."""
    waiting, seen = [first], set()
    if first.name == "__init__.py":
        waiting += sorted(path for path in first.parent.glob("*.py") if path != first)
    while waiting:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.add(path)
        yield path
        for name in _runtime_imports(path.read_text(encoding="utf-8")):
            if not name.startswith("kernels.") or name.startswith(SHARED) or name == f"kernels.{operator}.operator":
                continue
            waiting += [file for file in _files(name) if file not in seen and file.name != "operator.py"]


def _runtime_imports(text: str) -> Iterator[str]:
    _, nodes = _parsed(text)
    typing = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in nodes:
        if id(node) not in typing:
            yield from _imported(node)


def _files(name: str) -> Iterator[Path]:
    relative = Path(*name.split(".")[1:])
    places = [relative.with_suffix(".py"), *([relative / "__init__.py"] if len(relative.parts) > 1 else [])]
    for root in roots():
        yield from (root / place for place in places if (root / place).is_file())


def _upstream(own: Iterable[Path], fetched: Path) -> list[tuple[Path, frozenset[str] | None]]:
    """Return files and definitions of a package that text constants of the adapter name.

    The contract module's constants count before constants of modules that it imports, dotted names before bare ones. Of
    several files, those count whose name ends like the kernel's.
    """
    own = list(own)
    files = {path: PurePosixPath(path.relative_to(fetched)).with_suffix("").parts for path in fetched.rglob("*.py")}
    every = frozenset(text for path in own for text in _constants(path))
    for constants in (_constants(own[0]), every):
        for least in (2, 1):
            result = [
                path
                for path, parts in sorted(files.items())
                if any(".".join(parts[-depth:]) in constants for depth in range(least, len(parts) + 1))
            ]
            if result:
                same_ending = [path for path in result if path.stem.endswith(own[0].stem.rpartition("_")[2])]
                result = same_ending if own[0].name != "__init__.py" and same_ending else result
                return [(path, _named(path, every)) for path in result]
    return []


def _named(path: Path, constants: frozenset[str]) -> frozenset[str] | None:
    tree, _ = _parsed(path.read_text(encoding="utf-8", errors="replace"))
    return frozenset(node.name for node in tree.body if isinstance(node, Definition)) & constants or None


@cache
def _constants(path: Path) -> frozenset[str]:
    _, nodes = _parsed(path.read_text(encoding="utf-8"))
    texts = (node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    attributes = (node.attr for node in nodes if isinstance(node, ast.Attribute))
    return frozenset([*texts, *attributes])


def _reachable(tree: ast.Module, names: frozenset[str]) -> list[Definition]:
    """Return the definitions of a module that `names` are, or use."""
    known = {node.name: node for node in tree.body if isinstance(node, Definition)}
    waiting, result = [name for name in names if name in known], {}
    while waiting:
        name = waiting.pop()
        if name in result:
            continue
        result[name] = known[name]
        for node in ast.walk(known[name]):
            if isinstance(node, ast.Name) and node.id in known:
                waiting.append(node.id)
    return list(result.values())


if __name__ == "__main__":
    record_lines(Path("results/fetch"))
