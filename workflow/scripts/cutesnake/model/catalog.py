"""Find operators and kernels by name, and check them against their contracts.

`kernel_paths` of the configuration names further folders with the layout of `kernels/`. A new operator is a folder with
an `operator.py`; a further kernel of a known operator is a module in a folder with the operator's name. Both are
imported as `kernels.<operator>.<kernel>`. An environment variable passes the paths to processes that compile and
measure.
"""

import ast
import dataclasses
import functools
import importlib
import inspect
import itertools
import os
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from cutesnake.model.contract import INSTALLED, OWN, Kernel, Operator, Variant, Workload
from cutesnake.model.dsls import DSLS
from cutesnake.model.limited_import import ImportStoppedError, limited_import
from cutesnake.model.paths import ROOT
from cutesnake.model.targets import KNOWN_FEATURES, TARGETS

PATHS = "CUTESNAKE_KERNEL_PATHS"  # folders of the user's own, apart by os.pathsep
LONGEST_SHOWN = 200  # characters of a path in a message
NAME = re.compile(r"[a-z][a-z0-9_]*")
OPERATOR_NAMES = {
    "DTYPES": "a mapping of element types to bytes",
    "DISTRIBUTIONS": "a tuple of kinds of inputs",
    "AXIS": "the field of Workload on the x axis of plots",
    "AXIS_LABEL": "the label of that axis",
}
OPERATOR_CALLABLES = (
    *("Workload", "Inputs", "Outputs", "relatives", "make_inputs", "make_outputs"),
    *("reference", "same_precision", "cost", "tolerance"),
)
KERNEL_CALLABLES = {
    "supports": ("workload",),
    "variants": ("workload", "target"),
    "compile": ("variant", "target", "folder"),
    "bind": ("build", "workload", "inputs", "outputs"),
}


RENAMED = {"OUTSIDE": "UNSUPPORTED", "alike": "group_key"}  # names of contracts before 2026-11-28


class ContractError(ValueError):
    """Report a missing, broken or incomplete operator or kernel, in one line."""


def use_paths(paths: Iterable[str | Path]) -> None:
    """Search these folders for operators, also in new processes; ContractError without a folder."""
    chosen = [_folder(path) for path in paths]
    if chosen:
        os.environ[PATHS] = os.pathsep.join(map(str, chosen))
    else:
        os.environ.pop(PATHS, None)


def _folder(name: str | Path) -> Path:
    """Return a folder of `kernel_paths`; ContractError if it cannot be used."""
    shown = str(name) if len(str(name)) <= LONGEST_SHOWN else f"{str(name)[:LONGEST_SHOWN]}…"
    shown = shown.replace("\0", "\\0")
    if os.pathsep in str(name):
        raise ContractError(f"kernel_paths: {shown} has a {os.pathsep!r} in it, which no path may; rename the folder")
    try:
        path = Path(name).expanduser().resolve()
        is_folder = path.is_dir() and os.access(path, os.R_OK | os.X_OK)
    except (OSError, ValueError, RuntimeError) as error:  # too long, with a NUL, a loop of links
        why = (error.strerror if isinstance(error, OSError) else None) or str(error).replace(str(name), shown)
        raise ContractError(f"kernel_paths: {shown}: {why}; name folders that hold <operator>/<kernel>.py") from None
    if not is_folder:
        raise ContractError(f"kernel_paths: {path} is no folder; name folders that hold <operator>/<kernel>.py")
    if os.pathsep in str(path):
        raise ContractError(f"kernel_paths: {path} has a {os.pathsep!r} in it, which no path may; rename the folder")
    return path


def roots() -> list[Path]:
    """Folders of operators: this project's, then the user's."""
    return list(_roots(os.environ.get(PATHS, "")))


@functools.cache
def _roots(paths: str) -> tuple[Path, ...]:
    return ROOT / "kernels", *map(Path, filter(None, paths.split(os.pathsep)))


def pin_files() -> list[Path]:
    """Return the files that pin wheels: `upstream.yaml` in this project's and the user's folders."""
    return [file for root in roots() if (file := root / "upstream.yaml").is_file()]


def label(path: Path) -> str:
    """Return a kernel's file as messages and digests name it, without machine-specific parts."""
    if not path.is_absolute():  # named so already: see cutesnake/stages/compile/neutral_paths.py
        return str(path)
    return _label(path, _roots(os.environ.get(PATHS, "")))


@functools.cache
def _label(path: Path, places: tuple[Path, ...]) -> str:
    for root in places:
        if path.is_relative_to(root):
            return f"kernels/{path.relative_to(root)}"
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


def operators() -> list[str]:
    """Names of all operators."""
    return sorted({path.parent.name for root in roots() for path in root.glob("*/operator.py") if path.is_file()})


def folders(operator: str) -> list[Path]:
    """Folders that hold kernels of an operator."""
    return [root / operator for root in roots() if (root / operator).is_dir()]


def without_operator() -> list[Path]:
    """Folders of the user's that hold a kernel and have the name of no operator."""
    known = operators()
    inside = [folder for root in roots()[1:] for folder in sorted(root.iterdir()) if folder.name not in known]
    return [folder for folder in inside if any(map(_sets_dsl, _modules_in(folder).values()))]


def sweep_file(operator: str) -> Path:
    """Return the path of an operator's `sweep.yaml`, in the folder of its operator.py."""
    return next(folder for folder in folders(operator) if (folder / "operator.py").is_file()) / "sweep.yaml"


def kernel_files(operator: str) -> dict[str, Path]:
    """Return the contract modules of an operator by kernel name: those that set a DSL.

    A file that cannot be parsed counts if it looks like a kernel: loading it reports the error.
    """
    files: dict[str, Path] = {}
    for name, path in _modules(operator):
        if name not in files and _sets_dsl(path):
            files[name] = path
    return dict(sorted(files.items()))


def kernel_file(operator: str, kernel: str) -> Path | None:
    """Return one kernel's file without scanning the others."""
    return next((path for name, path in _modules(operator) if name == kernel and _sets_dsl(path)), None)


def users_own(operator: str, kernel: str) -> bool:
    """Return whether a kernel lies in a folder of `kernel_paths`."""
    path = kernel_file(operator, kernel)
    return path is not None and not path.is_relative_to(ROOT / "kernels")


def _modules(operator: str) -> Iterator[tuple[str, Path]]:
    """Yield names and files of possible kernels, in search order."""
    for folder in folders(operator):
        yield from _modules_in(folder).items()


def _modules_in(folder: Path) -> dict[str, Path]:
    """Regular files alone: reading a FIFO would never end."""
    modules = {path.stem: path for path in sorted(folder.glob("*.py")) if path.is_file()}
    return modules | {path.parent.name: path for path in sorted(folder.glob("*/__init__.py")) if path.is_file()}


def _sets_dsl(path: Path) -> bool:
    return _text_sets_dsl(path.read_text(encoding="utf-8", errors="replace"))


@functools.cache
def _text_sets_dsl(text: str) -> bool:
    if not re.search(r"^DSL\b", text, re.MULTILINE):
        return False
    try:
        return sets_dsl(ast.parse(text))
    except (SyntaxError, ValueError):
        return True


def sets_dsl(module: ast.Module) -> bool:
    """Return whether a module assigns DSL, as contracts of kernels do."""
    for node in module.body:
        names: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            names = node.targets
        elif isinstance(node, ast.AnnAssign):
            names = [node.target]
        if any(isinstance(name, ast.Name) and name.id == "DSL" for name in names):
            return True
    return False


def _import(name: str) -> ModuleType:
    """Import a module of `kernels`, whose packages reach into the user's folders as well."""
    package = importlib.import_module("kernels")
    package.__path__ = [str(root) for root in roots()]
    operator = name.split(".")[1]
    try:
        part = importlib.import_module(f"kernels.{operator}")
    except ModuleNotFoundError:
        pass
    else:
        part.__path__ = [str(folder) for folder in folders(operator)]
    return importlib.import_module(name)


def load_operator(operator: str) -> Operator:
    """Return the operator's module; ContractError if it is missing, broken or incomplete."""
    return cast(Operator, _operator(operator, os.environ.get(PATHS, "")))


@functools.cache
def _operator(operator: str, paths: str) -> ModuleType:
    _check_name("operator", operator)
    where = f"kernels/{operator}/operator.py"
    if operator not in operators():
        raise ContractError(f"{where}: there is no such operator")
    module = _load(f"kernels.{operator}.operator", where)
    for name, what in OPERATOR_NAMES.items():
        if not hasattr(module, name):
            raise ContractError(f"{where}: {name} is missing; it must be {what}")
    for name in OPERATOR_CALLABLES:
        if not callable(getattr(module, name, None)):
            raise ContractError(f"{where}: {name} is missing; cutesnake/model/contract.py says what it must be")
    fields = getattr(module.Workload, "__dataclass_fields__", {})
    if module.AXIS not in fields:
        raise ContractError(f"{where}: AXIS is {module.AXIS!r}; it must be a field of Workload: {', '.join(fields)}")
    vars(module).setdefault("RELATED", tuple(module.DISTRIBUTIONS[:1]))
    vars(module).setdefault("PLANNED", ())
    unknown = [name for name in module.RELATED if name not in module.DISTRIBUTIONS]
    if unknown:
        known = ", ".join(module.DISTRIBUTIONS)
        raise ContractError(f"{where}: RELATED has {unknown[0]!r}, which is none of DISTRIBUTIONS: {known}")
    return module


# Types that fields of a Workload have -> the words of a YAML file. A truth value is no number, though Python has it so.
FIELD_TYPES = {"int": "a whole number", "bool": "true or false", "str": "a text", "float": "a number"}


def make_workload(operator: str, parameters: Mapping[str, Any]) -> Workload:
    """Return a workload of an operator, after a check of the declared types.

    Raises TypeError for a value of another type or an unknown field, and what Workload raises for impossible values.
    """
    (workload,) = make_workloads(operator, {name: [value] for name, value in parameters.items()})
    return workload


def make_workloads(operator: str, values: Mapping[str, Sequence[Any]]) -> Iterator[Workload]:
    """Yield the workloads of every combination of values, the last field's first; raises as `make_workload`."""
    make = load_operator(operator).Workload
    for name, kind in _field_types(make).items():
        for value in values.get(name, ()):
            if not _has_type(value, kind):
                raise TypeError(f"{name} is {value!r}; it must be {FIELD_TYPES[kind]}")
    names = tuple(values)
    for combination in itertools.product(*values.values()):
        yield make(**dict(zip(names, combination, strict=True)))


@functools.cache
def _field_types(make: Any) -> dict[str, str]:
    """Fields of a dataclass whose type is one of FIELD_TYPES, with its name."""
    named = ((field.name, field.type) for field in dataclasses.fields(make))
    kinds = ((name, kind if isinstance(kind, str) else getattr(kind, "__name__", "")) for name, kind in named)
    return {name: kind for name, kind in kinds if kind in FIELD_TYPES}


def _has_type(value: Any, kind: str) -> bool:
    return type(value).__name__ == kind or (kind == "float" and type(value) is int)


def load_kernel(operator: str, kernel: str) -> Kernel:
    """Return the kernel's contract module; ContractError names file, line and remedy."""
    _check_name("kernel", kernel)
    return cast(Kernel, _kernel(operator, kernel, os.environ.get(PATHS, "")))


@functools.cache
def _kernel(operator: str, kernel: str, paths: str) -> ModuleType:
    path = kernel_file(operator, kernel)
    where = label(path) if path else f"kernels/{operator}/{kernel}.py"
    if path is None:
        known = ", ".join(kernel_files(operator))
        raise ContractError(f"{where}: there is no such kernel, or it sets no DSL; kernels of {operator}: {known}")
    module = _load(f"kernels.{operator}.{kernel}", where)
    _check_constants(module, where)
    for name, parameters in KERNEL_CALLABLES.items():
        function = getattr(module, name, None)
        if not callable(function):
            raise ContractError(f"{where}: the function {name}({', '.join(parameters)}) is missing")
        try:
            inspect.signature(function).bind(*parameters)
        except TypeError as error:
            raise ContractError(f"{where}: {name} must take ({', '.join(parameters)}): {error}") from error
    for name in ("NEEDS", "UNSUPPORTED"):
        if not hasattr(module, name):
            setattr(module, name, {})
    if not hasattr(module, "group_key"):
        module.group_key = no_group_key  # type: ignore[attr-defined]
    return module


def no_group_key(variant: Variant) -> str | None:
    """Return None: the `group_key` of a kernel that defines none."""
    return None


def _check_constants(module: Any, where: str) -> None:
    for old, new in RENAMED.items():
        if hasattr(module, old):
            raise ContractError(f"{where}: {old} is an old name; write {new}")
    if module.DSL not in DSLS:
        raise ContractError(f"{where}: DSL is {module.DSL!r}; it must be one of {', '.join(DSLS)}")
    if not isinstance(getattr(module, "SOURCE", None), str):
        raise ContractError(
            f'{where}: SOURCE is missing; it must be "{OWN}", "{INSTALLED}" or a key of kernels/upstream.yaml'
        )
    targets = getattr(module, "TARGETS", None)
    if not isinstance(targets, dict) or not targets:
        raise ContractError(
            f"{where}: TARGETS is missing; it must map targets to tuples of the features that they need"
        )
    for target, features in targets.items():
        if target not in TARGETS:
            raise ContractError(f"{where}: TARGETS has {target!r}; known targets are {', '.join(TARGETS)}")
        unknown = set(features) - KNOWN_FEATURES if isinstance(features, tuple) else {features}
        if unknown:
            wrong = ", ".join(map(repr, sorted(map(str, unknown))))
            raise ContractError(
                f"{where}: TARGETS[{target!r}] has {wrong}; it must be a tuple of {', '.join(sorted(KNOWN_FEATURES))}"
            )


def _check_name(what: str, name: str) -> None:
    if not NAME.fullmatch(name):
        raise ContractError(f"{what} {name!r}: a name must start with a-z and hold only a-z, 0-9 and _")


def _load(name: str, where: str) -> ModuleType:
    """Import a module; ContractError gives its error in one line, with its source line."""
    asked = name, os.environ.get(PATHS, "")
    if asked in _stopped:
        raise ContractError(_stopped[asked])
    try:
        with limited_import():
            return _import(name)
    except ImportStoppedError as error:
        _stopped[asked] = f"{where}{_line_of(error.__context__ or error, where)}: {error}"
        raise ContractError(_stopped[asked]) from None
    except SyntaxError as error:
        place = label(Path(error.filename)) if error.filename else where
        raise ContractError(f"{place}:{error.lineno}: {type(error).__name__}: {error.msg}") from error
    except (Exception, SystemExit) as error:
        line = _line_of(error, where)
        message = str(error).splitlines()[0] if str(error) else ""
        hint = "; import DSLs and torch inside compile and bind" if isinstance(error, ModuleNotFoundError) else ""
        raise ContractError(f"{where}{line}: {type(error).__name__}: {message}{hint}") from error


_stopped: dict[tuple[str, str], str] = {}  # imports that did not end, and would take as long again


def _line_of(error: BaseException, where: str) -> str:
    """`:12`, the last line of the file `where` that an exception passed through."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if label(Path(frame.filename)) == where:
            return f":{frame.lineno}"
    return ""


def blame(operator: str, kernel: str, error: BaseException, whole: bool = False) -> str:
    """Describe an error of a kernel's function, with the kernel's file and line.

    One line, or with `whole` all that the error says. Of an error without words, the line of the source.
    """
    path = kernel_file(operator, kernel)
    place, source = label(path) if path else f"kernels/{operator}/{kernel}", ""
    for frame in reversed(_frames(error)):
        if (name := label(Path(frame.filename))).startswith(f"kernels/{operator}/"):
            place, source = f"{name}:{frame.lineno}", frame.line or ""
            break
    text = f"{place}: {type(error).__name__}: {str(error).strip() or source}".strip()
    return text if whole else text.splitlines()[0]


def _frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Return the frames that an exception and its causes passed through, causes first."""
    earlier = error.__cause__ or error.__context__
    return [*(_frames(earlier) if earlier else ()), *traceback.extract_tb(error.__traceback__)]
