"""The matrix of kernels and targets: what was built, checked and timed, on which card or by simulation, and why not."""

from __future__ import annotations

from typing import Any

from cutesnake.model.contract import INSTALLED
from cutesnake.model.records.compare import Compare, Counts, Coverage, DeviceCounts
from cutesnake.report.formatting import DSL_NAMES, STAGE_NAMES, Notes, listed, plural, short, slug

View = dict[str, Any]  # what a template shows

STOOD_FOR = (
    "they differ from those that are built only in sizes that are constants of the code, and no card of their target "
    "is here; with --config 'compile={baked_sizes: all}' they are built, too"
)
PARTICIPLES = {"nsys": "profiled", "ncu": "profiled"}  # in a sentence both profilers are one


def matrix(comparison: Compare, notes: Notes, page: str) -> View:
    """An operator's rows, one per kernel and target, with their sums. `page` is the link to the operator's own page."""
    rows = comparison.coverage
    return {
        "operator": comparison.operator,
        "page": page,
        "kernels": plural(len({row.kernel for row in rows}), "kernel"),
        "sums": _sums(rows),
        "rows": [
            {
                **{"kernel": row.kernel, "target": row.target},
                "dsl": DSL_NAMES[row.dsl],
                "link": f"{page}#{slug('kernel', comparison.operator, row.kernel)}",
                "states": [_built(row.build), *(_ran(row, stage) for stage in list(STAGE_NAMES)[1:])],
                "why": _why(row, notes),
            }
            for row in rows
        ],
    }


def _state(mark: str, kind: str, text: str, value: float) -> View:
    """A mark, a class and words: never the mark or the colour alone. `value` is what a column is sorted by."""
    return {"mark": mark, "class": kind, "text": text, "value": value}


def _built(count: Counts) -> View:
    expected, ok, failed = count.expected, count.ok, count.failed
    if failed:
        return _state("✕", "bad", f"{failed} of {expected} failed", -failed)
    if expected == 0:
        return _state("\N{EN DASH}", "none", "no", -1)
    text = f"{ok} of {expected}" + f", {count.recorded} recorded" * bool(count.recorded)
    there = ok + count.recorded
    return _state(*(("✓", "good") if there >= expected else ("○", "none")), text, there)


def _ran(row: Coverage, stage: str) -> View:
    """Where a stage ran and on how many cases. What a simulator checked is told apart from what a card did."""
    count, cards = row.counts(stage), row.cards[stage]
    done = [card for card in cards if card.ok]
    failed = [card for card in cards if card.failed]
    said = [f"{card.ok} on {_card(card)}" for card in done]
    said += [f"{count.simulated} by simulation"] * bool(count.simulated)
    said += [f"{count.recorded} by simulation, recorded"] * bool(count.recorded)
    said += [f"{card.failed} failed on {_card(card)}" for card in failed]
    broken = count.failed - sum(card.failed for card in failed if card.kind == "live")
    if broken > 0:
        said.append(f"{broken} failed by simulation")
    total = sum(card.ok for card in done)
    if broken > 0 or failed:
        return _state("✕", "bad", ", ".join(said), -1)
    if any(card.ok >= count.expected for card in done):
        return _state("✓", "good", ", ".join(said), total)
    if said:
        return _state("◐", "part", ", ".join(said), total or count.simulated + count.recorded)
    if count.expected == 0:
        return _state("\N{EN DASH}", "none", "no", -1)
    return _state("○", "none", f"0 of {count.expected}", 0)


def _card(card: DeviceCounts) -> str:
    return f"{short(card.device)}{' here' * (card.kind == 'live')}"


def _sums(rows: list[Coverage]) -> list[str]:
    """An operator in a line: builds, and cases checked and timed per place."""
    built = sum(row.build.ok for row in rows)
    recorded = sum(row.build.recorded for row in rows)
    said = [f"{built} of {plural(sum(row.build.expected for row in rows), 'build')}"]
    said += [f"{recorded} recorded"] * bool(recorded)
    for stage, word in (("correctness", "checked"), ("timing", "timed")):
        places: dict[str, int] = {}
        for row in rows:
            for card in row.cards[stage]:
                places[_card(card)] = places.get(_card(card), 0) + card.ok
        parts = [f"{count} on {place}" for place, count in places.items() if count]
        simulated = sum(row.counts(stage).simulated for row in rows)
        parts += [f"{simulated} by simulation"] * bool(simulated)
        kept = sum(row.counts(stage).recorded for row in rows)
        parts += [f"{kept} by simulation, recorded"] * bool(kept)
        said.append(f"{word} {listed(parts)}" if parts else f"not {word}")
    return said


def _why(entry: Coverage, notes: Notes) -> list[View]:
    """What did not happen, each with the number of its reason; and what the kernel cannot compute."""
    reasons: dict[str, list[str]] = {}
    built = entry.build.reason
    for stage in STAGE_NAMES:
        if reason := entry.counts(stage).reason:
            told_as = built if built and reason == f"did not compile: {built}" else reason
            reasons.setdefault(told_as, []).append(stage)
    told = [{"words": _missed(entry, stages, reason), "note": notes.mark(reason)} for reason, stages in reasons.items()]
    if count := entry.stood_for:
        told.append({"words": f"{plural(count, 'more build')} not made", "note": notes.mark(STOOD_FOR)})
    if entry.not_simulated:
        told.append({"words": "not simulated", "note": notes.mark(entry.not_simulated)})
    if entry.build.expected:
        told += [
            {"words": f"{plural(left.workloads, 'workload')} left out", "note": notes.mark(left.reason)}
            for left in entry.unsupported
        ]
    return told


def _missed(entry: Coverage, stages: list[str], reason: str) -> str:
    """What `stages`, which share a reason, did not do here. A check that failed was made all the same."""
    if entry.build.failed and reason == entry.build.reason:
        return "did not compile"
    if "build" in stages:
        return "not run" if entry.source == INSTALLED else "not built"
    if stages == ["correctness"] and entry.correctness.failed:
        return "failed its check"
    names = {stage: PARTICIPLES.get(stage, name) for stage, name in STAGE_NAMES.items()}
    if entry.correctness.simulated:
        names["correctness"] = "checked on a card"
    *others, last = dict.fromkeys(names[stage] for stage in stages)
    here = " here" if any(entry.cards[stage] for stage in stages) else ""
    return f"not {' or '.join(filter(None, (', '.join(others), last)))}{here}"
