"""What a run says at its end: the comparison's verdict, and the cells that failed.

A cell that failed is a record with its reason, and no failed job.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from cutesnake.model.case_id import CaseId
from cutesnake.model.contract import OWN

NOUNS = {
    **{"compile": "builds", "inspect": "readings of a build", "correctness": "checks", "timing": "timings"},
    **{"nsys": "nsys profiles", "ncu": "ncu profiles", "autotune": "choices of a variant", "predict": "predictions"},
}
SHOWN = 4  # kernels that the line names
CELLS = 3  # failed cells with a line each
REASON_LENGTH = 160


def of_run(
    records: Iterable[tuple[str, CaseId, str]], batches: Mapping[str, str], files: Collection[str]
) -> list[tuple[str, CaseId, str]]:
    """Return the records whose file or batch is among a run's files."""
    return [made for made in records if batches.get(made[2], made[2]) in files]


def lines(
    records: Iterable[tuple[str, CaseId, str]],
    broken: Mapping[tuple[str, str], str],
    sources: Mapping[tuple[str, str], str],
    page: str,
) -> list[str]:
    """Return a line on the failed records, and one each for the first.

    `records` are stage, build or case, and path, of which some may not exist yet, `broken` the kernels (operator,
    kernel) that break their contract and have no build at all, with the reason, `sources` where kernels are from,
    `page` where all reasons are. What follows from a build that failed is not counted: the build is.
    """
    made: Counter[str] = Counter()
    failed: dict[str, list[CaseId]] = {stage: [] for stage in NOUNS}
    reasons: dict[tuple[str, CaseId], tuple[str, str]] = {}  # with the record's path
    for stage, case, path in records:
        if (record := _record(path)) is not None:
            made[stage] += 1
            if record["status"] == "failed":
                failed[stage].append(case)
                reasons[stage, case] = str(record.get("reason") or "no reason in its record"), path
    missing = set(failed["compile"])
    counted = {
        stage: [case for case in cases if stage == "compile" or case.build not in missing]
        for stage, cases in failed.items()
    }
    message = [f"{len(cases)} of {made[stage]} {NOUNS[stage]}" for stage, cases in counted.items() if cases]
    if broken:
        message.insert(0, f"{len(broken)} {'kernels' if len(broken) > 1 else 'kernel'} that cannot be loaded")
    if not message:
        return []
    kernels = dict.fromkeys(sorted(broken))
    kernels |= {(case.operator, case.kernel): None for cases in counted.values() for case in cases}
    whose = "" if any(sources.get(kernel, OWN) == OWN for kernel in kernels) else ", all of kernels by others"
    named = _named(["/".join(kernel) for kernel in kernels])
    cells = [f"  {'/'.join(kernel)}: {_short(reason)}" for kernel, reason in sorted(broken.items())]
    cells += [
        f"  {stage} {case.key}: {_short(reasons[stage, case][0])} · {_where(stage, case, reasons[stage, case][1])}"
        for stage, cases in counted.items()
        for case in cases
    ]
    first = f"Failed: {', '.join(message)}{whose} ({named}). The reasons are in {page} and in each record."
    return [first, *cells[:CELLS]]


def verdict(path: str) -> str | None:
    """Return an operator's verdict on each measured GPU as a sentence, or None."""
    record = _record(path)
    try:
        parts = [
            f"{_result(main)} on {one['gpu']}"
            for one in (record or {})["verdicts"]
            if not one["predicted"] and (main := one.get("warm") or one.get("cold"))
        ]
    except (KeyError, TypeError, ValueError):
        return None
    return f"{record['operator']}: {'; '.join(parts)}." if record and parts else None


def _result(decision: Mapping[str, Any]) -> str:
    """Return who wins, by how much and on how many workloads."""
    count = sum(len(decision[which]) for which in ("cute_wins", "cutile_wins", "equal"))
    counted = f"faster on {len(decision['cute_wins'])} of {count} workloads ({decision['figure']} L2)"
    if decision["winner"] == "depends":
        on = (decision.get("split") or {}).get("parameter")
        what = f"the winner depends on {on}" if on else "no clear winner"
        return f"{'tie' if decision['reason'] == 'noise' else what}, CuTe DSL {counted}"
    if decision["winner"] == "cute":
        return f"CuTe DSL is {decision['mean']:.2f} times as fast as cuTile, {counted},"
    counted = f"faster on {len(decision['cutile_wins'])} of {count} workloads ({decision['figure']} L2)"
    return f"cuTile is {1 / decision['mean']:.2f} times as fast as CuTe DSL, {counted},"


def _record(path: str) -> dict[str, Any] | None:
    """Return a record, None if it is missing or damaged, which the next run finds."""
    try:
        record = json.loads(Path(path).read_bytes())
        return record if record["status"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _short(reason: str) -> str:
    text = " ".join(reason.split())
    return text if len(text) <= REASON_LENGTH else f"{text[: REASON_LENGTH - 1]}…"


def _where(stage: str, case: CaseId, record: str) -> str:
    """Return the log file of a build or case; its record without one."""
    log = f"results/log/{'compile' if stage == 'inspect' else stage}/{case.key}.log"
    return log if Path(log).exists() else record


def _named(kernels: list[str]) -> str:
    more = len(kernels) - SHOWN
    shown = kernels if more <= 1 else kernels[:SHOWN]
    return ", ".join(shown) + (f" and {more} more kernels" if more > 1 else "")
