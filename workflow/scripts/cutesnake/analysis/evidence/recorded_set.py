"""Recorded sets: committed measurements of a device, for machines without that device.

`recorded/<device>/<stage>-<operator>-<kernel>.jsonl` holds one record of the stage's schema per line, sorted by case.
`set.json` summarizes origin, dates and counts. One file per kernel stays well below a megabyte. Records hold no serial
numbers, paths or host names, and the hash that distinguishes GPUs of one name is dropped.

A case that is measured again replaces its own row only. Rows stay in the files even if a sweep no longer lists their
case, or their build is no longer the default. Readers decide what is shown: the sweep selects workloads, and `standing`
selects rows of a workload.
"""

import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from cutesnake.model import record
from cutesnake.model.records.common import Choice
from cutesnake.model.records.correctness import Check, Correctness, Output
from cutesnake.model.records.measurement import Measurement, device_name, variant_id
from cutesnake.model.records.nsys import Nsys
from cutesnake.model.stages import MEASUREMENTS
from cutesnake.planning.machine import MOCK_FILE

M = TypeVar("M", bound=Measurement)

SUMMARY = "set.json"
FILE = re.compile(r"(?P<stage>[a-z]+)-(?P<operator>\w+)(-\w+)?\.jsonl")  # without the kernel until 2026-11-23
SHOWN = 3  # cases named in a message
NSYS_CALLS = 2  # calls of a timeline that are kept

Case = tuple[str, ...]  # stage, operator, kernel, target, variant, workload: one row of a set


@dataclass
class Written:
    """Changes of a written set: new rows, and kept rows by their commit."""

    new: int = 0
    kept: Counter[str] = field(default_factory=Counter)
    failed: int = 0  # kept rows: measured again, failed
    older: int = 0  # kept rows: newer than their replacement

    def __str__(self) -> str:
        text = f"{_rows(self.new)} new"
        if not self.kept:
            return text
        commits = ", ".join(f"{commit} ({count})" for commit, count in sorted(self.kept.items()))
        text += f", {self.kept.total()} kept, by commit: {commits}"
        if self.failed:
            text += f"; {self.failed} of these failed in this run"
        if self.older:
            text += f"; {self.older} of these are newer than the results"
        return text


class RecordedError(ValueError):
    """One-line error: nothing to record, or a damaged recorded set."""


def device_folder(name: str) -> str:
    """Return the folder name of a device: `NVIDIA H200` -> `nvidia_h200`."""
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def files_of(names: Iterable[str], operator: str, stage: str | None = None) -> list[str]:
    """Return a set's files of an operator (and stage), in order."""
    matches = [match for match in map(FILE.fullmatch, sorted(names)) if match]
    return [match[0] for match in matches if match["operator"] == operator and stage in (None, match["stage"])]


def refuse_mocked_machine() -> None:
    """Raise RecordedError if a file describes this run's machine."""
    if os.environ.get(MOCK_FILE):
        raise RecordedError(f"{MOCK_FILE} is set: a mocked machine has no measurements; unset it")


def write_recorded(results: Path | str, folder: Path | str, *, replace_passing: bool = False) -> dict[str, Written]:
    """Write the live GPU records below `results` into `folder`/<device>/.

    Returns the changes per device folder. Existing rows are kept unless their case was measured again. A failing check
    replaces a passing one only with `replace_passing`. Raises RecordedError, before writing, without live records, for
    records of a mocked machine, and for a failing check where the recorded one passes.
    """
    by_device: dict[str, list[Measurement]] = defaultdict(list)
    for stage in MEASUREMENTS:
        for path in sorted((Path(results) / stage).glob("**/*.json")):
            entry: Measurement = record.read(stage, path)
            if entry.device is not None and entry.backend == "cuda":
                if entry.provenance.mocked:
                    raise RecordedError(f"{path}: made on a mocked machine; only measurements of a GPU are recorded")
                by_device[device_folder(entry.device.name)].append(slim(entry))
    if not by_device:
        raise RecordedError(f"{results} holds no GPU measurement; run `measured` on a machine with a GPU first")
    if not replace_passing:
        for name, entries in by_device.items():
            _refuse_new_failures(Path(folder) / name, entries)
    return {name: _write_set(Path(folder) / name, entries) for name, entries in by_device.items()}


def _refuse_new_failures(folder: Path, entries: Iterable[Measurement]) -> None:
    """Raise RecordedError with the cases that fail here but pass in the set."""
    passing = {case for case, entry in _newest({}, read_set(folder)).items() if entry.status == "ok"}
    failing = [_case(entry) for entry in entries if entry.stage == "correctness" and entry.status != "ok"]
    if wrong := [case for case in failing if case in passing]:
        named = "; ".join("/".join(case[1:]) for case in wrong[:SHOWN])
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        raise RecordedError(
            f"recorded/{folder.name}: {_rows(len(wrong))} pass in the set and fail in this run: {named}{more}; to "
            "record the failures, add --config 'keep={replace_passing: true}'"
        )


def standing(entries: Iterable[M], asked: Callable[[Choice], Iterable[str]] = lambda case: ()) -> list[M]:
    """Select the current rows, so that a GPU's rows of one workload do not contradict.

    Of a workload's variants, those count that `asked` returns for its case. If none of them was measured, or nothing is
    asked, the rows of the newest row's commit count; older rows of other builds are history.
    """
    groups: dict[tuple[str, ...], list[M]] = defaultdict(list)
    for entry in entries:
        stage, operator, kernel, target, _, workload = _case(entry)
        groups[device_name(entry) or "", stage, operator, kernel, target, workload].append(entry)
    return [entry for group in groups.values() for entry in _standing(group, asked)]


def _standing(rows: list[M], asked: Callable[[Choice], Iterable[str]]) -> list[M]:
    if len(rows) == 1:
        return rows
    wanted = set(asked(rows[0].case))
    if named := [row for row in rows if variant_id(row.case) in wanted]:
        return named
    newest = max(rows, key=lambda row: row.provenance.created)
    return [row for row in rows if _commit(row) == _commit(newest)]


def slim(entry: M) -> M:
    """Return a record for storage: rounded, without debugging fields, valid by its type."""
    kept = replace(
        entry,
        device=entry.device and replace(entry.device, uuid_hash=None),
        provenance=replace(entry.provenance, made_from=None, digest=None),
    )
    if isinstance(kept, Correctness) and kept.metrics:
        checks = [_slim_check(check) if check.passed else check for check in kept.metrics.checks]
        kept = replace(kept, metrics=replace(kept.metrics, checks=checks))
    if isinstance(kept, Nsys) and kept.metrics:
        kernels = [kernel for kernel in kept.metrics.kernels if kernel.call < NSYS_CALLS]
        kept = replace(kept, metrics=replace(kept.metrics, kernels=kernels))
    rounded: M = record.convert(entry.stage, record.rounded(record.plain(kept)), "a record of the set")
    return rounded


def _slim_check(check: Check) -> Check:
    outputs = {
        name: Output(output.relative_error, output.worst_absolute_error, output.passed)
        for name, output in check.outputs.items()
    }
    return replace(check, outputs=outputs)


def _write_set(folder: Path, entries: list[Measurement]) -> Written:
    earlier = _newest({}, read_set(folder))
    rows = _newest(earlier, entries)
    written = Written(sum(rows[case] is not earlier.get(case) for case in rows))
    written.kept.update(_commit(entry) for case, entry in rows.items() if entry is earlier.get(case))
    refused = [entry for entry in entries if rows[_case(entry)] is earlier.get(_case(entry))]
    written.failed = sum(entry.status != "ok" for entry in refused)
    written.older = len(refused) - written.failed
    _write_rows(folder, [rows[case] for case in sorted(rows)])
    return written


def _newest(rows: Mapping[Case, Measurement], entries: Iterable[Measurement]) -> dict[Case, Measurement]:
    """Return one row per case: `rows`, with `entries` that are new or replace one."""
    newest = dict(rows)
    for entry in entries:
        if _replaces(entry, newest.get(_case(entry))):
            newest[_case(entry)] = entry
    return newest


def _replaces(entry: Measurement, there: Measurement | None) -> bool:
    """Return whether a row replaces another of the same case: the newer one does.

    A failed timing or profile has no values and replaces no successful one. A failed check is a result and does.
    """
    if there is None:
        return True
    if entry.stage != "correctness" and (entry.status == "ok") != (there.status == "ok"):
        return bool(entry.status == "ok")
    return bool(entry.provenance.created >= there.provenance.created)


def _write_rows(folder: Path, rows: list[Measurement]) -> None:
    files: dict[str, list[Measurement]] = defaultdict(list)
    for entry in rows:
        files[f"{entry.stage}-{entry.case.operator}-{entry.case.kernel}.jsonl"].append(entry)
    for name, lines in files.items():
        text = "".join(json.dumps(record.plain(line), allow_nan=False, separators=(",", ":")) + "\n" for line in lines)
        record.write_text(folder / name, text)
    for path in folder.glob("*.jsonl"):
        if path.name not in files:  # old name, until 2026-11-23; its records were just written
            path.unlink()
    record.write_text(folder / SUMMARY, json.dumps(_summary(rows), indent=1) + "\n")


def _case(entry: Measurement) -> Case:
    case = entry.case
    return entry.stage, case.operator, case.kernel, case.target, variant_id(case), case.workload


def _commit(entry: Measurement) -> str:
    return (entry.provenance.commit or "unknown")[:7]


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"


def _summary(entries: Iterable[Measurement]) -> dict[str, Any]:
    entries = list(entries)
    made = sorted(e.provenance.created for e in entries)
    return {
        "device": device_name(entries[0]),
        "drivers": sorted({e.device.driver for e in entries if e.device}),
        "commits": sorted({e.provenance.commit or "unknown" for e in entries}),
        "first": made[0],
        "last": made[-1],
        "packages": _packages(entries),
        "records": dict(sorted(Counter(f"{e.stage} {e.status}" for e in entries).items())),
    }


def _packages(entries: Iterable[Measurement]) -> dict[str, list[str]]:
    packages: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        for name, version in entry.provenance.packages.items():
            if version:
                packages[name].add(version)
    return {name: sorted(versions) for name, versions in sorted(packages.items())}


def read_set(folder: Path) -> list[Measurement]:
    """Return all records of one device; raise RecordedError with file and line of damage."""
    return [entry for path in sorted(folder.glob("*.jsonl")) for _, entry in _lines(path)]


def read_recorded(files: Iterable[str | Path]) -> dict[str, Measurement]:
    """Return records by `recorded/<device>/<file>#<line>`; RecordedError for a damaged one."""
    records: dict[str, Measurement] = {}
    for path in map(Path, files):
        records |= {f"recorded/{path.parent.name}/{where}": entry for where, entry in _lines(path)}
    return records


def _lines(path: Path) -> Iterable[tuple[str, Measurement]]:
    stage = path.name.split("-")[0]
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        where = f"{path.name}#{number}"
        try:
            yield where, record.parse(stage, line, f"{path.parent.name}/{where}")
        except record.RecordError as error:
            raise RecordedError(f"{error}; record the set again") from error
