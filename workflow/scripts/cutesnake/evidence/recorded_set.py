"""Recorded sets: measurements of a device, committed, so that a machine without it can show them.

`recorded/<device>/<stage>-<operator>-<kernel>.jsonl` holds one record of the stage's own schema per line, sorted by
case; `set.json` says where and when they were made and how many there are. A file a kernel keeps every file well below
a megabyte, and what is measured anew replaces whole files. The machine's identity (serial numbers, paths, names) stays
out: records have none, and the hash that tells two cards of one name apart is dropped.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cutesnake import record
from cutesnake.stages import MEASUREMENTS

DIGITS = 6  # significant digits of measured figures: more than any measurement has
SUMMARY = "set.json"
FILE = re.compile(r"(?P<stage>[a-z]+)-(?P<operator>\w+)(-\w+)?\.jsonl")  # until 2026-11-23 without the kernel
NSYS_CALLS = 2  # calls kept of a timeline

Record = dict[str, Any]


class RecordedError(ValueError):
    """Nothing to record, or a recorded set that is damaged. One line."""


def device_folder(name: str) -> str:
    """`NVIDIA H200` -> `nvidia_h200`."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def files_of(names: Iterable[str], operator: str, stage: str | None = None) -> list[str]:
    """Which of a set's files hold records of an operator (and stage), in order."""
    found = [match for match in map(FILE.fullmatch, sorted(names)) if match]
    return [match[0] for match in found if match["operator"] == operator and stage in (None, match["stage"])]


def write_recorded(results: Path | str, folder: Path | str) -> dict[str, int]:
    """Write the live GPU records below `results` into `folder`/<device>/; returns {device folder: records written}.

    Records already there are kept unless their operator and kernel were measured anew. Raises RecordedError if there is
    no live record.
    """
    by_device: dict[str, list[Record]] = defaultdict(list)
    for stage in MEASUREMENTS:
        for path in sorted((Path(results) / stage).glob("**/*.json")):
            entry = record.read(stage, path)
            if entry["device"] is not None and entry["backend"] == "cuda":
                by_device[device_folder(entry["device"]["name"])].append(slim(entry))
    if not by_device:
        raise RecordedError(f"{results} holds no measurement made on a GPU: run the target `measured` on one first")
    for name, entries in by_device.items():
        _write_set(Path(folder) / name, entries)
    return {name: len(entries) for name, entries in by_device.items()}


def slim(entry: Record) -> Record:
    """A record as it is kept: rounded, without what only debugging needs, still fitting its schema."""
    entry = _rounded(entry)
    entry["device"] = {**entry["device"], "uuid_hash": None}
    entry["provenance"].pop("made_from", None)
    metrics = entry["metrics"]
    if entry["stage"] == "correctness" and metrics:
        for check in metrics["checks"]:
            if check["passed"]:
                check["outputs"] = {name: _slim_output(output) for name, output in check["outputs"].items()}
    if entry["stage"] == "nsys" and metrics:
        metrics["kernels"] = [k for k in metrics["kernels"] if k["call"] < NSYS_CALLS]
    return entry


def _slim_output(output: Record) -> Record:
    return {key: output[key] for key in ("relative_error", "worst_absolute_error", "passed")}


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def _write_set(folder: Path, entries: list[Record]) -> None:
    anew = {(e["stage"], e["case"]["operator"], e["case"]["kernel"]) for e in entries}
    kept = [e for e in read_set(folder) if (e["stage"], e["case"]["operator"], e["case"]["kernel"]) not in anew]
    files: dict[str, list[Record]] = defaultdict(list)
    for entry in sorted(entries + kept, key=_order):
        files[f"{entry['stage']}-{entry['case']['operator']}-{entry['case']['kernel']}.jsonl"].append(entry)
    for name, lines in files.items():
        text = "".join(json.dumps(line, allow_nan=False, separators=(",", ":")) + "\n" for line in lines)
        record.write_text(folder / name, text)
    for path in folder.glob("*.jsonl"):
        if path.name not in files:  # named as until 2026-11-23: its records are in those just written
            path.unlink()
    record.write_text(folder / SUMMARY, json.dumps(_summary(entries + kept), indent=1) + "\n")


def _order(entry: Record) -> tuple[str, ...]:
    case = entry["case"]
    return entry["stage"], case["operator"], case["kernel"], case["target"], _variant(case), case["workload"]


def _variant(case: Record) -> str:
    return case["variant"]["id"] if case["variant"] else ""


def _summary(entries: Iterable[Record]) -> Record:
    entries = list(entries)
    made = sorted(e["provenance"]["created"] for e in entries)
    return {
        "device": entries[0]["device"]["name"],
        "drivers": sorted({e["device"]["driver"] for e in entries}),
        "commits": sorted({e["provenance"]["commit"] or "unknown" for e in entries}),
        "first": made[0],
        "last": made[-1],
        "packages": _packages(entries),
        "records": dict(sorted(Counter(f"{e['stage']} {e['status']}" for e in entries).items())),
    }


def _packages(entries: Iterable[Record]) -> dict[str, list[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        for name, version in entry["provenance"]["packages"].items():
            if version:
                found[name].add(version)
    return {name: sorted(versions) for name, versions in sorted(found.items())}


def read_set(folder: Path) -> list[Record]:
    """All records of one device; RecordedError names the file and line of a damaged one."""
    return [entry for path in sorted(folder.glob("*.jsonl")) for _, entry in _lines(path)]


def read_recorded(files: Iterable[str | Path]) -> dict[str, Record]:
    """Records of files `…/<device>/<stage>-<operator>-<kernel>.jsonl`: `recorded/<device>/<file>#<line>` -> record.

    Raises RecordedError, which names the file and line, for a damaged one.
    """
    found: dict[str, Record] = {}
    for path in map(Path, files):
        found |= {f"recorded/{path.parent.name}/{where}": entry for where, entry in _lines(path)}
    return found


def _lines(path: Path) -> Iterable[tuple[str, Record]]:
    stage = path.name.split("-")[0]
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        where = f"{path.name}#{number}"
        try:
            entry = json.loads(line)
            record.check(stage, entry, f"{path.parent.name}/{where}")
        except (json.JSONDecodeError, record.RecordError) as error:
            raise RecordedError(f"{path.parent.name}/{where}: {error}; record the set again") from error
        yield where, entry
