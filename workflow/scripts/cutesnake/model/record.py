"""Records: one JSON file per stage and case, schema-checked, written whole or not at all."""

from __future__ import annotations

import functools
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
import referencing

from cutesnake.model import provenance
from cutesnake.model.paths import SCHEMAS
from cutesnake.runtime.shareable import neutral_json


class RecordError(ValueError):
    """A record that is not JSON, is cut short, or does not fit its stage's schema."""


COMMON = "common.schema.json"  # what the stages' schemas refer to with `$ref`


@functools.cache
def _validator(stage: str) -> jsonschema.Draft202012Validator:
    shared = referencing.Resource.from_contents(_schema(COMMON))
    registry = referencing.Registry().with_resource(COMMON, shared)
    return jsonschema.Draft202012Validator(_schema(f"{stage}.schema.json"), registry=registry)


@functools.cache
def _quick_validator(stage: str) -> jsonschema_rs.Draft202012Validator:
    """Says yes or no, thirty times as fast: a report over thousands of workloads reads tens of thousands of records."""
    registry = jsonschema_rs.Registry([(f"json-schema:///{COMMON}", _schema(COMMON))])
    return jsonschema_rs.Draft202012Validator(_schema(f"{stage}.schema.json"), registry=registry)


def _schema(name: str) -> dict[str, Any]:
    return json.loads((SCHEMAS / name).read_text())


def check(stage: str, record: Any, where: str) -> None:
    """Raise RecordError, naming the file, the key and what is wrong, unless `record` fits the stage's schema."""
    if _quick_validator(stage).is_valid(record):
        return
    error = next(iter(_validator(stage).iter_errors(record)), None)
    if error is not None:
        key = "/".join(str(part) for part in error.absolute_path) or "the record itself"
        said = error.message
        if error.validator == "type":
            said = f"it is {'empty' if error.instance is None else repr(error.instance)}; it must be "
            said += kind_in_words(error.validator_value)
        raise RecordError(f"{where}: {key}: {said[:300]}")


def kind_in_words(kind: str | list[str]) -> str:
    """A type of JSON schema, or one of several, in the words of a JSON or YAML file."""
    words = {
        **{"array": "a list", "object": "a mapping of keys to values", "string": "a text", "null": "empty"},
        **{"integer": "a whole number", "number": "a finite number", "boolean": "true or false"},
    }
    return " or ".join(words[one] for one in ([kind] if isinstance(kind, str) else kind))


def write_text(path: Path | str, text: str) -> None:
    """Write to a temporary file beside `path`, flush it to disk and rename, so that readers never see half a file."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write(
    stage: str,
    path: Path | str,
    record: dict[str, Any],
    *,
    indent: int | None = 1,
    files: Mapping[str, str] | None = None,
) -> None:
    """Check `record` against the stage's schema and write it atomically, without this machine's folders.

    With `indent` None it is one line: a third smaller where a record has thousands of rows. In a job it says what it
    was made from; `files` are others that were written before it, see `provenance.digests`.
    """
    check(stage, record, str(path))
    text = neutral_json(json.dumps(record, indent=indent, allow_nan=False))
    if provenance.is_signed(record):
        text = json.dumps(provenance.signed(json.loads(text), files), indent=indent, allow_nan=False)
    write_text(path, f"{text}\n")


def read(stage: str, path: Path | str) -> dict[str, Any]:
    """Read and check a record; RecordError says which file is damaged and that deleting it rebuilds it."""
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"{path}: not a whole JSON file ({error}); delete it and run again") from error
    check(stage, record, str(path))
    return record
