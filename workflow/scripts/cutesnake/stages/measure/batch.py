"""A batch of cases of one build, in one job: those that are not there yet, or were made from something else."""

from __future__ import annotations

import hashlib
import os
import signal
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cutesnake.model import record
from cutesnake.planning.machine import probe
from cutesnake.runtime.errors import describe, is_foreseen
from cutesnake.runtime.gpu_slots import one_card
from cutesnake.stages.measure.stage import made_from, run_stage

UNDER_WAY = 2  # cases: one measures, and the next has its process, which waits for the card with everything imported


class BatchError(RuntimeError):
    """Cases of a batch could not be measured, for no fault of theirs. One line."""


def run_batch(
    stage: str, cases: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], build: Path | str, output: Path | str,
    card: str,
) -> None:  # fmt: skip
    """Measure what is missing or stale among `cases`, then write the batch's record to `output`.

    A case is {identity, record: its path, needs: paths of correctness records, from: digest of what else it depends
    on}. `card` is as for `run_stage`. A fault of the machine costs its case; the others go on, then BatchError is
    raised.
    """
    written = record.written()

    def measure(case: Mapping[str, Any]) -> None:
        origin = made_from(case["from"], build, case["needs"])
        if not _is_there(stage, case["record"], origin, written):
            run_stage(
                stage, case["identity"], settings, build, case["record"], case["needs"], card=card, made_from=origin
            )

    with one_card(probe()), ThreadPoolExecutor(UNDER_WAY) as pool:
        faults = _faults_of([pool.submit(measure, case) for case in cases], pool)
    if faults:
        raise BatchError(f"{len(faults)} of {len(cases)} cases could not be measured: {faults[0]}")
    _write(output, (case["record"] for case in cases))


def _faults_of(cases: Sequence[Future[None]], pool: ThreadPoolExecutor) -> list[str]:
    """What the machine did wrong, in words, when all have ended; what was not foreseen is raised and ends the rest."""
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


def _is_there(stage: str, path: str, origin: str, written: Mapping[str, set[str]]) -> bool:
    """Whether a record is whole, as it was written, and made from what it would be made from now."""
    try:
        known = record.plain(record.read(stage, path))
    except (OSError, record.RecordError):
        return False
    return known["provenance"].get("made_from") == origin and _digest(path) in written.get(path, {_digest(path)})


def _digest(path: Path | str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _write(output: Path | str, records: Iterable[str]) -> None:
    created = datetime.now(UTC).isoformat(timespec="seconds")
    entry = {"stage": "batch", "status": "ok", "reason": None, "provenance": {"created": created}}
    record.write("batch", output, {**entry, "records": list(records)})
