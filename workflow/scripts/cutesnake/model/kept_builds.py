"""Builds, static metrics, anatomy, simulated checks and predictions kept in `recorded/builds/`.

`recorded/builds/<operator>.jsonl` has a line per build: the records of its stages, and for each a key of what it was
made from. A record counts only while its key is that of today's code, parameters and compilers. Predictions of a build
repeat most of each other: all but the first are written as `{"like": name, "but": differences}`. Anatomies have files
of their own, in `recorded/builds/anatomy/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from cutesnake.model import record
from cutesnake.model.records.common import Record

FOLDER = "recorded/builds"
COMPILE, INSPECT, ANATOMY, CHECK, PREDICTION = "compile", "inspect", "anatomy", "correctness", "predict"


class RecordedBuildsError(ValueError):
    """A file of kept builds is damaged. One line."""


class Key(msgspec.Struct, frozen=True):
    """What a record was made from: digest of code and parameters, and versions of distributions."""

    digest: str
    versions: dict[str, str | None]

    def holds(self, now: Key) -> bool:
        """Return whether `now` is equal, without distributions that are not installed here."""
        return self.digest == now.digest and all(
            version is None or self.versions.get(name) == version for name, version in now.versions.items()
        )


class KeptKeys(msgspec.Struct, frozen=True):
    """Keys of a kept build: of `compile`, `inspect`, `anatomy`, `correctness/<workload>`, `predict/<workload>`."""

    build: str
    keys: dict[str, Key]


class KeptBuild(msgspec.Struct, frozen=True):
    """One line of a file: a build with its records by key name."""

    build: str
    keys: dict[str, Key]
    records: dict[str, msgspec.Raw]


def read_keys(file: Path) -> dict[str, KeptKeys]:
    """Return keys of an operator's kept builds, if any; RecordedBuildsError for a damaged file."""
    result: dict[str, KeptKeys] = {}
    for part in _parts(file):
        for _, kept in _lines(part, KeptKeys):
            known = result.get(kept.build)
            result[kept.build] = KeptKeys(kept.build, {**known.keys, **kept.keys}) if known else kept
    return result


def read_records(file: Path, wanted: Mapping[str, Sequence[str]]) -> dict[str, Record]:
    """Return the wanted records of an operator's kept builds: `<file>#<line>/<name>` -> record.

    wanted: build -> names of records. Raises RecordedBuildsError for a damaged file.
    """
    records: dict[str, Record] = {}
    for part in _parts(file):
        for number, kept in _lines(part, KeptBuild):
            whole = _expanded(kept.records) if kept.build in wanted else {}
            for name in (name for name in wanted.get(kept.build, ()) if name in whole):
                where = f"{FOLDER}/{part.relative_to(file.parent).as_posix()}#{number}/{name}"
                records[where] = record.parse(name.partition("/")[0], bytes(whole[name]), where)
    return records


def _parts(file: Path) -> tuple[Path, Path]:
    """Return an operator's file and the file of its anatomies."""
    return file, file.parent / ANATOMY / file.name


def is_kept(path: str) -> bool:
    """Say whether the path of a record, as evidence has it, is one of `read_records`."""
    return path.startswith(f"{FOLDER}/")


def write_builds(
    folder: Path, keys: Mapping[str, Mapping[str, Sequence[Any]]], paths: Mapping[str, Mapping[str, str]]
) -> int:
    """Write a line per build from the records of a finished run; return the count.

    keys: build -> name of a record -> digest and versions of its key; paths: build -> name -> file. Records that this
    machine does not make, such as simulated checks where the GPU is, stay while their build's key is the same. A build
    without code of its own has no anatomy.
    """
    files: dict[Path, list[bytes]] = {}
    operators = {build.partition("/")[0] for build in keys}
    before: dict[str, KeptBuild] = {}
    for part in (part for name in operators for part in _parts(folder / f"{name}.jsonl")):
        for _, kept in _lines(part, KeptBuild):
            known = before.get(kept.build, KeptBuild(kept.build, {}, {}))
            before[kept.build] = KeptBuild(
                kept.build, {**known.keys, **kept.keys}, {**known.records, **_expanded(kept.records)}
            )
    for build, named in sorted(keys.items()):
        made = [name for name in named if name != ANATOMY or Path(paths[build][name]).is_file()]
        now = {name: Key(*named[name]) for name in made}
        records = {name: _kept(paths[build][name]) for name in made}
        earlier = before.get(build)
        if earlier and COMPILE in earlier.keys and earlier.keys[COMPILE].holds(now[COMPILE]):
            now, records = {**earlier.keys, **now}, {**earlier.records, **records}
        for part, anatomy in zip(_parts(folder / f"{build.partition('/')[0]}.jsonl"), (False, True), strict=True):
            mine = {name: one for name, one in now.items() if (name == ANATOMY) is anatomy}
            if mine:
                kept = KeptBuild(build, mine, _compact({name: records[name] for name in mine if name in records}))
                files.setdefault(part, []).append(msgspec.json.encode(kept))
    for part, lines in files.items():
        record.write_text(part, b"\n".join([*lines, b""]).decode())
    return len(keys)


def _compact(records: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """Write predictions as differences from the first one."""
    merged = dict(records)
    first: tuple[str, Any] | None = None
    for name in sorted(merged):
        if name.startswith(PREDICTION):
            entry = msgspec.json.decode(merged[name])
            if first is None:
                first = name, entry
            elif _merged(first[1], but := _differences(first[1], entry)) == entry:
                merged[name] = msgspec.Raw(msgspec.json.encode({"like": first[0], "but": but}))
    return merged


def _expanded(records: Mapping[str, msgspec.Raw]) -> dict[str, msgspec.Raw]:
    """Undo `_compact`."""
    merged = dict(records)
    for name, text in records.items():
        if name.startswith(PREDICTION) and "like" in (entry := msgspec.json.decode(text)):
            whole = _merged(msgspec.json.decode(records[entry["like"]]), entry["but"])
            merged[name] = msgspec.Raw(msgspec.json.encode(whole))
    return merged


def _differences(base: Any, entry: Any) -> Any:
    """Return values of `entry` that `base` lacks, in equally long lists by item."""
    if isinstance(base, dict) and isinstance(entry, dict):
        changed = {key: value for key, value in entry.items() if key not in base or base[key] != value}
        return {key: _differences(base.get(key), value) for key, value in changed.items()}
    if (
        isinstance(base, list)
        and isinstance(entry, list)
        and len(base) == len(entry)
        and all(isinstance(one, dict) for one in (*base, *entry))
    ):
        return {
            str(n): _differences(*pair) for n, pair in enumerate(zip(base, entry, strict=True)) if pair[0] != pair[1]
        }
    return entry


def _merged(base: Any, but: Any) -> Any:
    """Return `base` with the values of `_differences` in place of its own."""
    if isinstance(base, dict) and isinstance(but, dict):
        return base | {key: _merged(base.get(key), value) for key, value in but.items()}
    if isinstance(base, list) and isinstance(but, dict):
        return [_merged(one, but.get(str(n), {})) if isinstance(one, dict) else one for n, one in enumerate(base)]
    return but


def _kept(path: str) -> msgspec.Raw:
    """Return a record without provenance of its files and machine, with rounded metrics."""
    entry = record.plain(record.read_any(path))
    for name in ("made_from", "digest"):
        entry["provenance"].pop(name, None)
    metrics = entry.get("metrics") or {}
    if entry["stage"] == COMPILE:
        entry["files"] = {}
        entry["log_tail"] = entry["log_tail"] if entry["status"] == "failed" else ""
    elif entry["stage"] == PREDICTION and metrics:
        metrics["timeline"]["tracks"] = []
    for launch in (metrics.get("simulated") or {}).get("launches", ()):
        launch.pop("opcodes", None)
    return msgspec.Raw(msgspec.json.encode(record.rounded(entry)))


def _lines(file: Path, kind: type[Any]) -> Iterable[tuple[int, Any]]:
    try:
        text = file.read_bytes()
    except FileNotFoundError:
        return
    for number, line in enumerate(text.splitlines(), 1):
        try:
            yield number, msgspec.json.decode(line, type=kind)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise RecordedBuildsError(f"{FOLDER}/{file.name}, line {number}: {error}; take it from git again") from None
