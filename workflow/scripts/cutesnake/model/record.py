"""Records: one JSON file per stage and case, schema-checked, written whole or not at all."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
import referencing

from cutesnake.model.paths import SCHEMAS
from cutesnake.runtime.shareable import neutral_json


class RecordError(ValueError):
    """A record that is not JSON, is cut short, or does not fit its stage's schema."""


JOURNAL = Path(".snakemake/cutesnake-written.log")
NODE = "CUTESNAKE_NODE"  # in jobs that an executor starts: the node, which has a journal of its own
DIGEST = re.compile(r"[0-9a-f]{64}")
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
    temporary = f"{path.parent}/.{path.name}.{os.urandom(4).hex()}.tmp"
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)  # less the umask
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        _note(path, text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _note(path: Path, text: str) -> None:
    """Add to the journal what is about to be written, so that a later change by somebody else shows."""
    name = os.path.relpath(path)
    if name.startswith("results/") and not name.startswith("results/log/") and JOURNAL.parent.is_dir():
        line = f"{hashlib.sha256(text.encode()).hexdigest()} {name}\n"
        with contextlib.suppress(OSError), _journal().open("ab") as stream:
            stream.write(line.encode(errors="surrogateescape"))  # one write: lines of two jobs do not mix


def _journal() -> Path:
    """Nodes of a cluster have a file each: a network file system does not keep lines of two of them apart."""
    node = os.environ.get(NODE)
    return JOURNAL.with_suffix(f".{re.sub(r'[^A-Za-z0-9-]', '_', node)}.log") if node else JOURNAL


def written() -> dict[str, set[str]]:
    """Path of a result -> sha256 of what was last written there, by each node that did; empty without a journal."""
    found: dict[str, set[str]] = {}
    for path in _journals():
        try:
            lines = path.read_bytes().decode(errors="surrogateescape").splitlines()
        except OSError:
            continue
        entries = (line.partition(" ") for line in lines)
        last = {name: digest for digest, _, name in entries if DIGEST.fullmatch(digest) and name}
        for name, digest in last.items():
            found.setdefault(name, set()).add(digest)
    return found


def _journals() -> list[Path]:
    return sorted(JOURNAL.parent.glob(f"{JOURNAL.stem}*{JOURNAL.suffix}"))


def rewrite_journal() -> None:
    """Keep a line for every path, in one file, so that the journal does not grow for ever."""
    before, lines = _journals(), []
    for name, digests in written().items():
        with contextlib.suppress(OSError):
            if len(digests) > 1:
                digests &= {hashlib.sha256(Path(name).read_bytes()).hexdigest()}
            lines += [f"{digest} {name}\n" for digest in digests if os.path.exists(name)]
    with contextlib.suppress(OSError):
        write_text(JOURNAL, "".join(lines))
        for path in before:
            path.unlink() if path != JOURNAL else None


def write(stage: str, path: Path | str, record: dict[str, Any], *, indent: int | None = 1) -> None:
    """Check `record` against the stage's schema and write it atomically, without this machine's folders.

    With `indent` None it is one line: a third smaller where a record has thousands of rows.
    """
    check(stage, record, str(path))
    write_text(path, neutral_json(json.dumps(record, indent=indent, allow_nan=False)) + "\n")


def read(stage: str, path: Path | str) -> dict[str, Any]:
    """Read and check a record; RecordError says which file is damaged and that deleting it rebuilds it."""
    try:
        record = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"{path}: not a whole JSON file ({error}); delete it and run again") from error
    check(stage, record, str(path))
    return record
