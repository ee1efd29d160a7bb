"""Records: one JSON file per stage and case, typed and checked, written atomically."""

from __future__ import annotations

import functools
import importlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import msgspec

from cutesnake.model import provenance
from cutesnake.model.explain import problem
from cutesnake.runtime.shareable import neutral_json

if TYPE_CHECKING:
    from cutesnake.model.records.anatomy import Anatomy, AnatomyIndex
    from cutesnake.model.records.arch import Arch, Machine
    from cutesnake.model.records.change import Change
    from cutesnake.model.records.common import Part, Record
    from cutesnake.model.records.compare import Compare
    from cutesnake.model.records.compile import Compile
    from cutesnake.model.records.correctness import Correctness
    from cutesnake.model.records.fetch import Fetch
    from cutesnake.model.records.plan import Plan
    from cutesnake.model.records.plot import Plot
    from cutesnake.model.records.predict import Predict
    from cutesnake.model.records.roofline import Roofline
    from cutesnake.model.records.toolchain import Environment, Toolchain, Toolchains


# Two threads that use a type for the first time at once crash msgspec 0.22.0, which then looks at its fields.
_one_at_a_time = threading.RLock()


class RecordError(ValueError):
    """Report a record that is not JSON, truncated, or invalid for its stage; one line."""


TYPES = {  # stage -> module and class of its record; a module is imported on first use
    "anatomy": ("anatomy", "Anatomy"),
    "anatomy_index": ("anatomy", "AnatomyIndex"),
    "arch": ("arch", "Arch"),
    "autotune": ("autotune", "Autotune"),
    "batch": ("batch", "Batch"),
    "change": ("change", "Change"),
    "compare": ("compare", "Compare"),
    "compile": ("compile", "Compile"),
    "correctness": ("correctness", "Correctness"),
    "environment": ("toolchain", "Environment"),
    "fetch": ("fetch", "Fetch"),
    "inspect": ("inspect", "Inspect"),
    "machine": ("arch", "Machine"),
    "ncu": ("ncu", "Ncu"),
    "nsys": ("nsys", "Nsys"),
    "operations": ("operations", "Operations"),
    "plan": ("plan", "Plan"),
    "plot": ("plot", "Plot"),
    "predict": ("predict", "Predict"),
    "roofline": ("roofline", "Roofline"),
    "timing": ("timing", "Timing"),
    "toolchain": ("toolchain", "Toolchain"),
    "toolchains": ("toolchain", "Toolchains"),
}


@functools.cache
def type_of(stage: str) -> type[Record]:
    """Return the type of a stage's records; RecordError for an unknown stage."""
    if stage not in TYPES:
        raise RecordError(f"{stage!r} is no stage with records; known: {', '.join(TYPES)}")
    module, name = TYPES[stage]
    kind: type[Record] = getattr(importlib.import_module(f"cutesnake.model.records.{module}"), name)
    return kind


def convert(stage: str, data: Mapping[str, Any], where: str) -> Any:
    """Return the typed record of `data`; RecordError names file, key and fault."""
    try:
        with _one_at_a_time:
            return msgspec.convert(data, type_of(stage))
    except msgspec.ValidationError as error:
        raise RecordError(f"{where}: {problem(error, data, type_of(stage))}") from None


def check(stage: str, record: Mapping[str, Any] | Record, where: str) -> None:
    """Raise RecordError, naming file and key, unless `record` fits the stage's type."""
    convert(stage, msgspec.to_builtins(record), where)


def plain(record: Mapping[str, Any] | Part) -> dict[str, Any]:
    """Return a record, or a part of one, as its JSON mapping."""
    mapping: dict[str, Any] = _listed(msgspec.to_builtins(record))
    return mapping


KEPT_DIGITS = 6  # significant digits of values that the repository keeps, above the precision of any measurement


def rounded(value: Any, digits: int = KEPT_DIGITS) -> Any:
    """Return JSON-like data with its floats rounded to significant digits."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    return [rounded(item, digits) for item in value] if isinstance(value, list) else value


def _listed(value: Any) -> Any:
    """Return the value with lists in place of tuples, as JSON has them."""
    if isinstance(value, dict):
        return {key: _listed(one) for key, one in value.items()}
    return [_listed(one) for one in value] if isinstance(value, list | tuple) else value


def write_text(path: Path | str, text: str) -> None:
    """Write a text as `write_bytes` does."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path | str, content: bytes) -> None:
    """Write to a temporary file, flush and rename: readers never see half."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = f"{path.parent}/.{path.name}.{os.urandom(4).hex()}.tmp"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)  # less the umask
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write(
    stage: str,
    path: Path | str,
    record: Mapping[str, Any] | Record,
    *,
    indent: int | None = 1,
    files: Mapping[str, str] | None = None,
) -> None:
    """Check `record` against the stage's type and write it atomically, without this machine's folders.

    With `indent` None it is one line: a third smaller where a record has thousands of rows. In a job it says what it
    was made from; `files` are others that were written before it, see `provenance.digests`.
    """
    data = msgspec.to_builtins(record)
    convert(stage, data, str(path))
    text = neutral_json(json.dumps(data, indent=indent, allow_nan=False))
    if provenance.is_signed(data):
        text = json.dumps(provenance.signed(json.loads(text), files), indent=indent, allow_nan=False)
    write_text(path, f"{text}\n")


@overload
def read(stage: Literal["anatomy"], path: Path | str) -> Anatomy: ...
@overload
def read(stage: Literal["anatomy_index"], path: Path | str) -> AnatomyIndex: ...
@overload
def read(stage: Literal["arch"], path: Path | str) -> Arch: ...
@overload
def read(stage: Literal["change"], path: Path | str) -> Change: ...
@overload
def read(stage: Literal["compare"], path: Path | str) -> Compare: ...
@overload
def read(stage: Literal["compile"], path: Path | str) -> Compile: ...
@overload
def read(stage: Literal["correctness"], path: Path | str) -> Correctness: ...
@overload
def read(stage: Literal["fetch"], path: Path | str) -> Fetch: ...
@overload
def read(stage: Literal["machine"], path: Path | str) -> Machine: ...
@overload
def read(stage: Literal["plan"], path: Path | str) -> Plan: ...
@overload
def read(stage: Literal["plot"], path: Path | str) -> Plot: ...
@overload
def read(stage: Literal["predict"], path: Path | str) -> Predict: ...
@overload
def read(stage: Literal["roofline"], path: Path | str) -> Roofline: ...
@overload
def read(stage: Literal["environment"], path: Path | str) -> Environment: ...
@overload
def read(stage: Literal["toolchain"], path: Path | str) -> Toolchain: ...
@overload
def read(stage: Literal["toolchains"], path: Path | str) -> Toolchains: ...
@overload
def read(stage: str, path: Path | str) -> Any: ...


def read(stage: str, path: Path | str) -> Any:
    """Return the typed record of a file; RecordError names a damaged file."""
    return parse(stage, Path(path).read_bytes(), str(path))


def read_whole(stage: str, path: Path | str) -> tuple[dict[str, Any], provenance.MadeFrom | None]:
    """Return a record's JSON and its provenance; RecordError if it was changed since."""
    text = Path(path).read_bytes()
    parse(stage, text, str(path))
    entry = json.loads(text)
    try:
        return entry, provenance.check(entry)
    except ValueError as error:
        raise RecordError(f"{path}: {error}") from None


def parse(stage: str, text: bytes | str, where: str) -> Any:
    """Return the typed record of a JSON text; RecordError names `where`."""
    try:
        with _one_at_a_time:
            return _decoder(stage).decode(text)
    except msgspec.ValidationError as error:
        fault = problem(error, msgspec.json.decode(text), type_of(stage))
        raise RecordError(f"{where}: {fault}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"{where}: not a whole JSON file ({error}); delete it and run again") from error


class _Stage(msgspec.Struct):
    stage: str


def read_any(path: Path | str) -> Record:
    """Return the typed record of a file of any stage; RecordError for a damaged one."""
    try:
        text = Path(path).read_bytes()
        with _one_at_a_time:
            stage = msgspec.json.decode(text, type=_Stage).stage
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: not a whole record ({error}); delete it and run again") from error
    entry: Record = parse(stage, text, str(path))
    return entry


@functools.cache
def _decoder(stage: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_of(stage))
