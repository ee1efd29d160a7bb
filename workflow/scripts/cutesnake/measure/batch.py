"""A batch of cases of one build, in one job: those that are not there yet, or were made from something else."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cutesnake import record
from cutesnake.fault import describe, is_foreseen
from cutesnake.measure.cards import one_card
from cutesnake.measure.stage import run_stage
from cutesnake.plan.machine import probe
from cutesnake.plan.staleness import digest_data


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
    written, faults = record.written(), []
    with one_card(probe()):
        for case in cases:
            made_from = digest_data([case["from"], _digest(build), *map(_digest, case["needs"])])
            if _is_there(stage, case["record"], made_from, written):
                continue
            try:
                run_stage(
                    stage, case["identity"], settings, build, case["record"], case["needs"], card=card,
                    made_from=made_from,
                )  # fmt: skip
            except Exception as error:
                if not is_foreseen(error):
                    raise
                faults.append(describe(error))
    if faults:
        raise BatchError(f"{len(faults)} of {len(cases)} cases could not be measured: {faults[0]}")
    _write(output, (case["record"] for case in cases))


def _is_there(stage: str, path: str, made_from: str, written: Mapping[str, set[str]]) -> bool:
    """Whether a record is whole, as it was written, and made from what it would be made from now."""
    try:
        known = record.read(stage, path)
    except (OSError, record.RecordError):
        return False
    return known["provenance"].get("made_from") == made_from and _digest(path) in written.get(path, {_digest(path)})


def _digest(path: Path | str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _write(output: Path | str, records: Iterable[str]) -> None:
    created = datetime.now(UTC).isoformat(timespec="seconds")
    entry = {"stage": "batch", "status": "ok", "reason": None, "provenance": {"created": created}}
    record.write("batch", output, {**entry, "records": list(records)})
