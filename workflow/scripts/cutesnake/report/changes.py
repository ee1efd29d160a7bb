"""Section on changes against a baseline: summary sentences, changed cases and changed builds."""

import os
from typing import Any

from cutesnake.analysis.change.change import judged
from cutesnake.analysis.change.verdict import apart
from cutesnake.analysis.compare.insight import number
from cutesnake.analysis.compare.speedup import CACHE_STATES, CacheState
from cutesnake.model.records.change import Change, ChangedBuilds, ChangedCase, ChangedFigure, Judged, Totals, Unpaired
from cutesnake.report.formatting import listed, plural, short

View = dict[str, Any]  # data of a template

NAMES = {"cold": "cold L2", "warm": "warm L2"}
MARKS = {"slower": ("▼", "bad"), "faster": ("▲", "good"), "equal": ("=", "soft"), "cannot tell": ("?", "part")}
COUNTED = ("slower", "faster", "equal", "cannot_tell")
FIRST = ("registers_per_thread", "spill_bytes", "shared_bytes", "code_bytes", "instructions")  # columns of the table


def changed(changes: list[Change], operator: str, pages: dict[str, str], base: str) -> View | None:
    """Return the view of the section, or None without a baseline.

    `changes` holds the change records of all operators on the page, including the record of `here`.
    """
    if not changes:
        return None
    own = next(change for change in changes if change.operator == operator)
    return {
        "baseline": _baseline(changes),
        "sentences": [_times(changes, name) for name in CACHE_STATES] + _against(changes),
        "worst": [
            sentence
            for name in CACHE_STATES
            for verdict in ("slower", "faster")
            if (sentence := _most(changes, name, verdict))
        ],
        "operators": [{**_sums(change), "page": pages[change.operator]} for change in changes] if changes[1:] else [],
        "rule": own.rule,
        "operator": operator,
        "why_no_cases": own.no_cases,
        "names": NAMES,
        "cases": [_case(row) for row in sorted(own.cases, key=_calm) if not row.same],
        "same": sum(row.same for row in own.cases),
        "unpaired": _unpaired(own.unpaired),
        "builds": _builds(own.builds),
        "why_no_builds": own.builds.reason,
        "compared": own.builds.compared,
        "table": os.path.relpath(f"results/change/{operator}.csv", base),
    }


def _totals(change: Change, cache: CacheState) -> Totals:
    return change.totals.cold if cache == "cold" else change.totals.warm


def _baseline(changes: list[Change]) -> str:
    """Describe the baseline: label, dates, GPUs and commits."""
    places = [change.baseline for change in changes]
    days = sorted(day for place in places for day in (place.first, place.last) if day)
    devices = sorted({device for place in places for device in place.devices})
    commits = sorted({commit[:7] for place in places for commit in place.commits})
    made = "" if not days else days[0] if days[0] == days[-1] else f"{days[0]} to {days[-1]}"
    timed = f"timed on {listed(devices)}" if devices else ""
    at = f"at commit {listed(commits)}" if commits else ""
    details = ", ".join(filter(None, (made, timed, at)))
    return f"{places[0].label} ({details})" if details else places[0].label


def _times(changes: list[Change], cache: CacheState) -> str:
    totals = [_totals(change, cache) for change in changes]
    counts = {key: sum(getattr(total, key) for total in totals) for key in COUNTED}
    same = sum(total.same for total in totals)
    judged = sum(counts.values())
    also = f" In {plural(same, 'further case')}, both sides hold the same measurement." if same else ""
    if not judged:
        return f"{_capitalized(NAMES[cache])}: no case was measured on both sides.{also}"
    counted = ", ".join(f"{count} {key.replace('_', ' ')}" for key, count in counts.items())
    return f"{_capitalized(NAMES[cache])}: {plural(judged, 'case')}, {counted}.{also}"


def _against(changes: list[Change]) -> list[str]:
    """Return sentences about compiled code, drivers and package versions."""
    compared = sum(change.builds.compared for change in changes)
    differ = {
        (change.operator, entry.kernel, entry.target, entry.variant)
        for change in changes
        for entry in change.builds.changed
    }
    sentences = []
    if compared:
        sentences.append(f"Compiled code: {len(differ)} of {plural(compared, 'build')} differ in static values.")
    else:
        reasons = dict.fromkeys(change.builds.reason for change in changes)
        sentences.append(f"Compiled code: not compared ({'; '.join(filter(None, reasons))}).")
    versions = {
        f"{entry.name} {_versions(entry.before)}, now {_versions(entry.now)}"
        for change in changes
        for entry in (*change.conditions, *change.builds.compilers)
    }
    if versions:
        sentences.append(f"Other differences: {'; '.join(sorted(versions))}.")
    return sentences


def _versions(versions: list[str]) -> str:
    return " and ".join(versions) or "absent"


def _most(changes: list[Change], cache: CacheState, verdict: str) -> str | None:
    """Return a sentence on the case with the largest change of one verdict."""
    candidates = [
        (change.operator, row, side)
        for change in changes
        for row in change.cases
        if (side := judged(row, cache)) and side.verdict == verdict
    ]
    if not candidates:
        return None
    operator, row, side = max(candidates, key=lambda entry: apart(entry[2].ratio))
    return (
        f"Largest change ({verdict}, {NAMES[cache]}): {operator}, {row.kernel} on {row.workload} "
        f"({short(row.device)}), {number(side.before_us)} µs before, {number(side.now_us)} µs now, noise limit "
        f"{number(side.limit_percent or 0.0)} %."
    )


def _sums(change: Change) -> View:
    built = {(e.kernel, e.target, e.variant) for e in change.builds.changed}
    counts = {cache: [getattr(_totals(change, cache), key) for key in COUNTED] for cache in CACHE_STATES}
    return {"operator": change.operator, "counts": counts, "differ": len(built), "compared": change.builds.compared}


def _unpaired(counts: Unpaired) -> str:
    sides = ((counts.only_before, "in the baseline"), (counts.only_now, "now"))
    parts = [f"{plural(count, 'case')} only {side}" for count, side in sides if count]
    return " and ".join(parts)


def _calm(row: ChangedCase) -> bool:
    """Sort key: cases with a verdict of slower or faster first."""
    return not any(side and side.verdict in ("slower", "faster") for side in (row.cold, row.warm))


def _case(row: ChangedCase) -> View:
    variant = row.variant if row.variant == row.variant_before else f"{row.variant_before} → {row.variant}"
    return {
        **{"workload": row.workload, "kernel": row.kernel, "target": row.target},
        **{"device": short(row.device), "variant": variant},
        "sides": [_judged_view(side) for side in (row.cold, row.warm) if side],
    }


def _judged_view(side: Judged) -> View:
    mark, style = MARKS[side.verdict]
    noises = [side.before_noise_percent, side.now_noise_percent]
    return {
        **{"before_us": side.before_us, "now_us": side.now_us, "ratio": side.ratio},
        **{"verdict": side.verdict, "why": side.why},
        **{"mark": mark, "class": style, "limit": side.limit_percent},
        "noise": " + ".join("?" if noise is None else number(round(noise, 2)) for noise in noises),
    }


def _builds(builds: ChangedBuilds) -> list[View]:
    """Return a row per changed device function: main values in columns, the rest as text."""
    rows = []
    for entry in builds.changed:
        changes = {change.figure: change for change in entry.changes}
        others = [change for name, change in changes.items() if name not in FIRST]
        rows.append(
            {
                **{"kernel": entry.kernel, "target": entry.target, "variant": entry.variant},
                **{"function": entry.function, "symbol": entry.symbol},
                "cells": [_cell(changes.get(name)) for name in FIRST],
                "others": "; ".join(
                    f"{one.figure.removeprefix('instructions, ').replace('_', ' ')} {_both(one)}" for one in others
                ),
            }
        )
    return rows


def _cell(change: ChangedFigure | None) -> View | None:
    if change is None:
        return None
    known = change.before is not None and change.now is not None
    return {"text": _both(change), "value": (change.now or 0) - (change.before or 0) if known else None}


def _both(change: ChangedFigure) -> str:
    before, now = ("unknown" if value is None else number(value) for value in (change.before, change.now))
    return f"{before} → {now}"


def _capitalized(text: str) -> str:
    return text[0].upper() + text[1:]
