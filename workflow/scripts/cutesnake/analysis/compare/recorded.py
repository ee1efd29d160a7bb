"""Times and speedups of the sets in `recorded/`, without a plan or results folder."""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from cutesnake.analysis.compare.speedup import speedups
from cutesnake.analysis.compare.times import best
from cutesnake.analysis.evidence.recorded_set import files_of, read_recorded, standing
from cutesnake.model.paths import ROOT
from cutesnake.model.records.common import Origin
from cutesnake.model.records.compare import Speedup, TimesRow, TimesTable
from cutesnake.model.records.timing import Timing
from cutesnake.planning.sweep import Sweep, make_sweep, read_sweep

SETS = ROOT / "recorded"


class Recorded(NamedTuple):
    """Speedups of one operator, an entry per recorded GPU."""

    operator: str
    speedups: list[Speedup]


def folders(sets: Path = SETS) -> list[Path]:
    """Return the folders of the recorded sets, those with most files first."""
    paths = [path.parent for path in sets.glob("*/set.json")]
    return sorted(paths, key=lambda folder: (-len(list(folder.glob("*.jsonl"))), folder.name))


def operators(sets: Path = SETS) -> list[str]:
    """Return the operators with recorded timings, by name."""
    names = {path.name.split("-")[1] for path in sets.glob("*/timing-*-*.jsonl")}
    return sorted(names)


def recorded_times(operator: str, kernels: Collection[str] = (), sets: Path = SETS) -> list[TimesTable]:
    """Return a table of the sweep's workloads per recorded GPU; `kernels` default to the sweep."""
    sweep = make_sweep(operator, read_sweep(operator, {}))
    tables = (_table(folder, sweep, kernels or sweep.kernels) for folder in folders(sets))
    return [table for table in tables if table and table.rows]


def recorded_speedups(operator: str, sets: Path = SETS) -> Recorded:
    """Return an operator's speedups on each recorded GPU, as in the report."""
    return Recorded(operator, speedups(recorded_times(operator, sets=sets)))


def _table(folder: Path, sweep: Sweep, kernels: Collection[str]) -> TimesTable | None:
    names = files_of((path.name for path in folder.glob("*.jsonl")), sweep.operator, "timing")
    timed = [entry for entry in read_recorded(folder / name for name in names).values() if isinstance(entry, Timing)]
    entries = [entry for entry in standing(timed) if entry.status == "ok" and entry.case.kernel in kernels]
    if not entries:
        return None
    timings: dict[str, dict[str, list[Timing]]] = {}
    for entry in entries:
        timings.setdefault(entry.case.workload, {}).setdefault(entry.case.kernel, []).append(entry)
    days = sorted({entry.provenance.created[:10] for entry in entries})
    commits = sorted({entry.provenance.commit[:7] for entry in entries if entry.provenance.commit})
    device = next(entry.device.name for entry in entries if entry.device)
    dsls = {entry.case.kernel: entry.case.dsl for entry in entries}
    return TimesTable(
        entries[0].case.target,
        Origin("recorded", device, [days[0], days[-1]], commits),
        {kernel: dsls[kernel] for kernel in kernels if kernel in dsls},
        [
            TimesRow(workload.id, None, {kernel: best(of) for kernel, of in timings[workload.id].items()})
            for workload in sweep.workloads()
            if workload.id in timings
        ],
    )
