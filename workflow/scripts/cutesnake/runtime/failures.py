"""What a run says at its end of the cells that failed: each is a record with its reason, and none is a failed job."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from cutesnake.model.case_id import CaseId
from cutesnake.model.contract import OURS

NOUNS = {
    **{"compile": "builds", "inspect": "readings of a build", "correctness": "checks", "timing": "timings"},
    **{"nsys": "nsys profiles", "ncu": "ncu profiles", "autotune": "choices of a variant", "predict": "predictions"},
}
SHOWN = 4  # kernels that the line names


def line(
    records: Iterable[tuple[str, CaseId, str]],
    broken: Collection[tuple[str, str]],
    sources: Mapping[tuple[str, str], str],
    page: str,
) -> str | None:
    """One line on the records that say `failed`, stage by stage, and where their reasons are; None if there is none.

    `records` are stage, build or case, and path, of which some may not exist yet, `broken` the kernels (operator,
    kernel) that break their contract and have no build at all, `sources` where kernels are from, `page` where all
    reasons are. What follows from a build that failed is not counted: the build is.
    """
    made: Counter[str] = Counter()
    failed: dict[str, list[CaseId]] = {stage: [] for stage in NOUNS}
    for stage, case, path in records:
        if (status := _status(path)) is not None:
            made[stage] += 1
            if status == "failed":
                failed[stage].append(case)
    lost = set(failed["compile"])
    counted = {
        stage: [case for case in cases if stage == "compile" or case.build not in lost]
        for stage, cases in failed.items()
    }
    said = [f"{len(cases)} of {made[stage]} {NOUNS[stage]}" for stage, cases in counted.items() if cases]
    if broken:
        said.insert(0, f"{len(broken)} {'kernels' if len(broken) > 1 else 'kernel'} that cannot be loaded")
    if not said:
        return None
    kernels = dict.fromkeys(sorted(broken))
    kernels |= {(case.operator, case.kernel): None for cases in counted.values() for case in cases}
    whose = "" if any(sources.get(kernel, OURS) == OURS for kernel in kernels) else ", all of kernels by others"
    named = _named(["/".join(kernel) for kernel in kernels])
    return f"Failed: {', '.join(said)}{whose} ({named}). The reasons are in {page} and in each record."


def _status(path: str) -> str | None:
    """None where there is no record: it was not asked for, or is damaged, which the next run finds."""
    try:
        return str(json.loads(Path(path).read_bytes())["status"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _named(kernels: list[str]) -> str:
    more = len(kernels) - SHOWN
    shown = kernels if more <= 1 else kernels[:SHOWN]
    return ", ".join(shown) + (f" and {more} more kernels" if more > 1 else "")
