"""nsys stage: the timeline of a few single calls, from nsys's sqlite export.

Times are microseconds from the first launch call. `gaps_us` are the idle times between one kernel and the next of the
same call; a negative gap is an overlap (programmatic dependent launch). Every call is waited for before the next one
begins: otherwise, a kernel that is launched early waits on the GPU for the call before, and the profiler counts
that as its work.
"""

import contextlib
import itertools
import sqlite3
import statistics
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutesnake.model.records.nsys import Launched
from cutesnake.stages.measure.case import Case
from cutesnake.stages.profile.profiled import CALL, MEASURED, ProfilerError, find_tool, last_output, run_under

CALLS = 6

# Launches are matched to kernels by CUPTI's correlation id; `nameId` and `shortName` are keys of StringIds.
KERNELS = """
SELECT k.start, k.end, k.streamId, names.value, k.gridX, k.gridY, k.gridZ, k.blockX, k.blockY, k.blockZ,
       k.registersPerThread, k.staticSharedMemory + k.dynamicSharedMemory, r.start, r.end
FROM CUPTI_ACTIVITY_KIND_KERNEL AS k
JOIN StringIds AS names ON names.id = k.demangledName
JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r
  ON r.correlationId = k.correlationId AND r.globalTid / 0x1000000 = k.globalPid / 0x1000000
ORDER BY k.start
"""
RANGES = """
SELECT start, end, coalesce(text, names.value)
FROM NVTX_EVENTS LEFT JOIN StringIds AS names ON names.id = textId
WHERE end IS NOT NULL
ORDER BY start
"""


@dataclass(frozen=True)
class Range:
    """An NVTX range, times in nanoseconds of the host clock."""

    start: int
    end: int
    text: str


def profile(case: Case, folder: Path, gpu: str, limit_s: float) -> tuple[dict[str, Any], str | None]:
    """Run the case under nsys, keep its files; return metrics, and a reason or None."""
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "report"
    command = [find_tool("nsys"), "profile", "--sample=none", "--cpuctxsw=none", "--trace=cuda,nvtx"]
    command += ["--export=sqlite", "--force-overwrite=true", f"--output={report}"]
    for suffix in (".sqlite", ".nsys-rep"):
        report.with_suffix(suffix).unlink(missing_ok=True)
    output, seconds = run_under(command, case, CALLS, gpu, limit_s)
    if not report.with_suffix(".sqlite").exists():
        raise ProfilerError(f"nsys wrote no report (it needs libdw.so.1 and libelf.so.1): {last_output(output)}")
    metrics = read_timeline(report.with_suffix(".sqlite"))
    return {**metrics, "measuring_seconds": round(seconds, 3)}, None


def read_timeline(path: Path) -> dict[str, Any]:
    """Return the stage's metrics from an nsys sqlite file, or ProfilerError."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"NVTX_EVENTS", "CUPTI_ACTIVITY_KIND_KERNEL"} <= tables:
            raise ProfilerError("nsys saw no kernel or no NVTX range of the measured process")
        ranges = [Range(*row) for row in database.execute(RANGES)]
        rows = database.execute(KERNELS).fetchall()
    calls = [r for r in ranges if r.text == CALL]
    if not calls or not any(r.text == MEASURED for r in ranges):
        raise ProfilerError(f"nsys recorded no NVTX range {MEASURED!r} with calls in it")
    origin = calls[0].start
    kernels = [k for row in rows if (k := _kernel(row, calls, origin)) is not None]
    if not kernels:
        raise ProfilerError("nsys recorded no kernel inside the measured range")
    derived = {"spacing": _spacing(kernels), **_derived(kernels, len(calls))}
    return {"kernels": kernels, **derived, "nvtx": [_range(r, origin) for r in ranges]}


def _kernel(row: tuple[Any, ...], calls: list[Range], origin: int) -> Launched | None:
    """One kernel launched inside a call; None for kernels of the warm-up."""
    start, end, stream, name, *sizes = row
    grid, block, registers, shared, launched, returned = sizes[:3], sizes[3:6], *sizes[6:]
    call = next((i for i, r in enumerate(calls) if r.start <= launched <= r.end), None)
    if call is None:
        return None
    return Launched(
        name=name,
        call=call,
        start_us=_us(start - origin),
        duration_us=_us(end - start),
        stream=stream,
        grid=list(grid),
        block=list(block),
        registers_per_thread=registers,
        shared_bytes=shared,
        launch_start_us=_us(launched - origin),
        launch_call_us=_us(returned - launched),
        launch_latency_us=_us(start - launched),
    )


def _range(r: Range, origin: int) -> dict[str, Any]:
    return {"text": r.text, "start_us": _us(r.start - origin), "duration_us": _us(r.end - r.start)}


def _us(nanoseconds: int) -> float:
    return round(nanoseconds / 1000, 3)


def _spacing(kernels: list[Launched]) -> str:
    """Return whether every call met an idle GPU, as a record names it."""
    ends: dict[int, float] = {}
    for kernel in kernels:
        ends[kernel.call] = max(kernel.end_us, ends.get(kernel.call, 0.0))
    early = (k.launch_start_us < ends.get(k.call - 1, 0.0) for k in kernels)
    return "back_to_back" if any(early) else "lone"


def _derived(kernels: list[Launched], calls: int) -> dict[str, Any]:
    """Return gaps, overlap, first launch latency, and device time of a call."""
    gaps, device = [], []
    for call in range(calls):
        mine = [k for k in kernels if k.call == call]
        for before, after in itertools.pairwise(mine):
            gaps.append(round(after.start_us - before.end_us, 3))
        if mine:
            device.append(max(k.end_us for k in mine) - mine[0].start_us)
    return {
        "calls": calls,
        "kernels_per_call": round(len(kernels) / calls, 3),
        "gaps_us": gaps,
        "overlap_us": round(sum(-gap for gap in gaps if gap < 0), 3),
        # Later launches wait for earlier kernels: only the first one meets an idle GPU.
        "launch_latency_us": kernels[0].launch_latency_us,
        "launch_call_us": round(statistics.median(k.launch_call_us for k in kernels), 3),
        "device_us": round(statistics.median(device), 3),
        "streams": sorted({k.stream for k in kernels}),
    }
