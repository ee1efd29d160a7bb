"""Change stage: changes of one operator against a baseline."""

import csv
import io
import os
from collections.abc import Iterable

from cutesnake.analysis.change.baseline import Baseline, Before
from cutesnake.analysis.change.cases import Timed, Times, cases, conditions, gather
from cutesnake.analysis.change.static_values import builds
from cutesnake.analysis.change.verdict import RULE
from cutesnake.analysis.compare.speedup import CACHE_STATES, CacheState
from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.model import provenance, record
from cutesnake.model.records.change import Baseline as BaselineRecord
from cutesnake.model.records.change import (
    BothTotals,
    Change,
    ChangedCase,
    ChangeProvenance,
    Judged,
    Totals,
    Unpaired,
)
from cutesnake.model.records.timing import Timing

NO_FIGURES = "a recorded set holds measurements only, no static values of builds"


def change(evidence: Evidence, baseline: Baseline, before: Before) -> Change:
    """Return the change record of one operator; `before` holds the baseline's records."""
    times = gather(evidence, before)
    rows = cases(times)
    return Change(
        status="ok",
        reason=None,
        provenance=ChangeProvenance(_count(times.before), _count(times.now)),
        operator=evidence.operator,
        baseline=_described(baseline, before),
        rule=list(RULE),
        conditions=conditions(times),
        cases=rows,
        unpaired=_unpaired(times, rows),
        no_cases=None if rows else _why_none(times),
        totals=BothTotals(*(_totals(rows, cache) for cache in CACHE_STATES)),
        builds=builds(evidence, before, None if baseline.kind == "results" else NO_FIGURES),
    )


def write_change(evidence: Evidence, baseline: Baseline, before: Before, output: str, table: str) -> None:
    """Write the record to `output`, and its cases as CSV to `table`."""
    compared = change(evidence, baseline, before)
    record.write_text(table, to_csv(compared))
    record.write("change", output, compared, files=provenance.digests([table], os.path.dirname(output)))


def to_csv(compared: Change) -> str:
    """Return a line per case; verdicts are empty if both sides are one measurement."""
    names = ("operator", "device", "kernel", "dsl", "target", "workload", "variant", "variant_before", "same")
    keys = (
        "before_us",
        "now_us",
        "ratio",
        "before_noise_percent",
        "now_noise_percent",
        "limit_percent",
        "verdict",
        "why",
    )
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*names, *(f"{cache}_{key}" for cache in CACHE_STATES for key in keys)])
    for row in compared.cases:
        identity = [compared.operator, *(getattr(row, name) for name in names[1:])]
        sides = [judged(row, cache) for cache in CACHE_STATES]
        writer.writerow([*identity, *(side and getattr(side, key) for side in sides for key in keys)])
    return text.getvalue()


def unchanged(changes: Iterable[Change], fails: str) -> tuple[bool, str]:
    """Return whether nothing got worse by `fails` (`none`, `slower`, `worse`), and a summary line.

    Without comparable data, the result is a failure unless `fails` is `none`.
    """
    records = list(changes)
    slower, times = _slower(records)
    spilling, code = _spilling(records)
    failed = (fails in ("slower", "worse") and slower) or (fails == "worse" and spilling)
    timed = any(not row.same for entry in records for row in entry.cases)
    built = fails != "slower" and any(entry.builds.compared for entry in records)
    if not timed and not built:
        return (fails == "none", f"nothing was compared with {records[0].baseline.label}: {_why(records)}")
    return not failed, "; ".join(filter(None, (times, code)))


def _why(changes: list[Change]) -> str:
    """Return why the first operator has no compared time."""
    return changes[0].no_cases or "all times are identical to the baseline's measurements"


def _slower(changes: list[Change]) -> tuple[int, str]:
    """Count slower cases, cold or warm, and describe the worst."""
    label = changes[0].baseline.label
    cases = [(change.operator, row) for change in changes for row in change.cases if not row.same]
    worst = [
        (side.ratio, f"{operator}, {row.kernel} on {row.workload} ({row.device}), {cache}")
        for operator, row in cases
        for cache in CACHE_STATES
        if (side := judged(row, cache)) and side.verdict == "slower"
    ]
    if not worst:
        return 0, f"none of {len(cases)} cases is slower than in {label}"
    count = sum(any(side and side.verdict == "slower" for side in (row.cold, row.warm)) for _, row in cases)
    ratio, case = max(worst)
    return count, (
        f"{count} of {len(cases)} cases are slower than in {label}; the worst is {case}: {ratio:.3g} times the time"
    )


def _spilling(changes: list[Change]) -> tuple[int, str]:
    """Count device functions that spill more, and describe the first."""
    spilling = [
        f"{change.operator}, {entry.kernel} for {entry.target}, {entry.variant}"
        for change in changes
        for entry in change.builds.changed
        if any(c.figure == "spill_bytes" and (c.now or 0) > (c.before or 0) for c in entry.changes)
    ]
    if not spilling:
        return 0, ""
    functions = f"{len(spilling)} device function{'s' * (len(spilling) > 1)}"
    return len(spilling), f"{functions} with more spills, the first in {spilling[0]}"


def _count(timed: Timed) -> int:
    return sum(len(variants) for variants in timed.values())


def judged(row: ChangedCase, cache: CacheState) -> Judged | None:
    """Return the verdict on a case, cold or warm."""
    return row.cold if cache == "cold" else row.warm


def _described(baseline: Baseline, before: Before) -> BaselineRecord:
    """Return dates, commits and devices of the baseline's measurements."""
    timed = [entry for entry in before.values() if isinstance(entry, Timing)]
    days = sorted(entry.provenance.created[:10] for entry in before.values())
    return BaselineRecord(
        kind=baseline.kind,
        label=baseline.label,
        first=days[0] if days else None,
        last=days[-1] if days else None,
        commits=sorted({entry.provenance.commit or "unknown" for entry in timed}),
        devices=sorted({entry.device.name for entry in timed if entry.device}),
    )


def _unpaired(times: Times, rows: list[ChangedCase]) -> Unpaired:
    """Count the cases that only one side timed."""
    before = {(row.device, row.kernel, row.target, row.workload, row.variant_before) for row in rows}
    now = {(row.device, row.kernel, row.target, row.workload, row.variant) for row in rows}
    return Unpaired(len(_every(times.before) - before), len(_every(times.now) - now))


def _every(timed: Timed) -> set[tuple[str, ...]]:
    return {(*place, variant) for place, variants in timed.items() for variant in variants}


def _why_none(times: Times) -> str:
    before, now = ({place[0] for place in side} for side in (times.before, times.now))
    if not before:
        return "the baseline has no times of these kernels and workloads"
    if not now:
        return "this run has no times of this operator, measured or recorded"
    if not before & now:
        return f"the baseline was timed on {', '.join(sorted(before))}, this run on {', '.join(sorted(now))}"
    return "both sides have no common case: kernels, targets or workloads differ"


def _totals(rows: list[ChangedCase], cache: CacheState) -> Totals:
    """Count verdicts, and identical measurements separately."""
    verdicts = [side.verdict for row in rows if (side := judged(row, cache))]
    return Totals(
        slower=verdicts.count("slower"),
        faster=verdicts.count("faster"),
        equal=verdicts.count("equal"),
        cannot_tell=verdicts.count("cannot tell"),
        same=len(rows) - len(verdicts),
    )
