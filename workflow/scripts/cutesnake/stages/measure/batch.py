"""Do a batch of cases in one job: those missing or stale."""

import hashlib
import os
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cutesnake.model import provenance, record
from cutesnake.planning.machine import probe
from cutesnake.runtime.errors import describe, is_foreseen
from cutesnake.runtime.gpu_slots import one_gpu
from cutesnake.stages.measure.stage import run_stage
from cutesnake.stages.simulate import simulation

UNDER_WAY = 2  # cases: one measures, and the next has its process, which waits for the GPU with everything imported


class BatchError(RuntimeError):
    """Cases of a batch could not be measured, for no fault of theirs. One line."""


def run_batch(
    stage: str, cases: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], output: Path | str, planned_gpu: str
) -> None:
    """Measure what is missing or stale among `cases`, then write the batch's record to `output`.

    A case is {identity, build: the path of its build.json, record: its own path, needs: paths of correctness records,
    recipe: what else it depends on}. `planned_gpu` is as for `run_stage`. A fault of the machine costs its case; the
    others go on, then BatchError is raised.
    """

    def measure(case: Mapping[str, Any]) -> None:
        _measure(stage, case, settings, planned_gpu=planned_gpu)

    with one_gpu(probe()), ThreadPoolExecutor(UNDER_WAY) as pool:
        faults = _faults_of([pool.submit(measure, case) for case in cases], pool)
    if faults:
        raise BatchError(f"{len(faults)} of {len(cases)} cases could not be measured: {faults[0]}")
    write_summary(output, [case["record"] for case in cases])


def simulate_case(case: Mapping[str, Any], settings: Mapping[str, Any], log: str) -> None:
    """Simulate a batch's case if missing or stale; its progress goes to `log`."""
    _measure("correctness", case, settings, backend=simulation.NAME, log=log)


def measure_case(stage: str, case: Mapping[str, Any], settings: Mapping[str, Any], planned_gpu: str) -> None:
    """Measure one case as `run_batch` does; a fault of the machine raises."""
    with one_gpu(probe()):
        _measure(stage, case, settings, planned_gpu=planned_gpu)


def _measure(stage: str, case: Mapping[str, Any], settings: Mapping[str, Any], **options: Any) -> None:
    made_from = provenance.made_from(case["recipe"], (case["build"], *case["needs"]))
    if not _is_there(stage, case["record"], made_from):
        needs = case["needs"]
        run_stage(
            stage, case["identity"], settings, case["build"], case["record"], needs, made_from=made_from, **options
        )


def _faults_of(cases: Sequence[Future[None]], pool: ThreadPoolExecutor) -> list[str]:
    """Return the machine's faults when all cases ended; raise unforeseen errors."""
    faults = []
    try:
        for case in cases:
            error = case.exception()
            if error is None:
                continue
            if not isinstance(error, Exception) or not is_foreseen(error):
                raise error
            faults.append(describe(error))
    except KeyboardInterrupt:  # Python would wait for threads that wait for a measurement; so the worker ends it
        os._exit(128 + signal.SIGINT)
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    return faults


def _is_there(stage: str, path: str, made_from: Mapping[str, Any]) -> bool:
    """Return whether a record is whole, unchanged, and made from present inputs."""
    try:
        _, made = record.read_whole(stage, path)
        return made == made_from
    except (OSError, ValueError):
        return False


def write_summary(output: Path | str, records: Sequence[str]) -> None:
    """Write the record of a batch, all of whose cases have theirs."""
    created = provenance.now()
    entry = {"stage": "batch", "status": "ok", "reason": None, "provenance": {"created": created}}
    files = {path: hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in records}
    record.write("batch", output, {**entry, "records": list(records)}, files=files)
