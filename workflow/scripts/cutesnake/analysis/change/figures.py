"""What changed in the code of builds: registers, spills, shared memory, size, instructions, compilers."""

from __future__ import annotations

import itertools
from typing import Any

from cutesnake.analysis.evidence.gather import Evidence, Records

Record = dict[str, Any]

PLAIN = ("registers_per_thread", "spill_bytes", "stack_bytes", "code_bytes")


def figures(function: Record) -> dict[str, int | None]:
    """The static figures of a device function that are compared: figure -> value, None where it is not known."""
    dynamic, counts = function["dynamic_shared_bytes"], function["instructions"]
    return {
        **{name: function[name] for name in PLAIN},
        "shared_bytes": None if dynamic is None else function["static_shared_bytes"] + dynamic,
        "instructions": None if counts is None else sum(counts.values()),
        **{f"instructions, {name.replace('_', ' ')}": count for name, count in (counts or {}).items()},
    }


def builds(evidence: Evidence, before: Records) -> Record:
    """Builds of which both sides have static figures, and what differs in each; `reason` says why there are none.

    Device functions are paired in order, the main one first: their names hold what compilers put in them.
    """
    old, new = _by_build(before), _by_build(evidence.inspected)
    shared = [key for key in new if key in old]
    changed = [
        {**dict(zip(("kernel", "target", "variant"), key, strict=True)), **entry}
        for key in shared
        for entry in _functions(old[key]["functions"], new[key]["functions"])
    ]
    return {
        "compared": len(shared),
        "only_before": sum(key not in new for key in old),
        "only_now": sum(key not in old for key in new),
        "changed": changed,
        "compilers": _compilers(before, evidence.builds),
        "reason": None if shared else _why_none(old, new),
    }


def _by_build(records: Records) -> dict[tuple[str, str, str], Record]:
    return {
        (entry["kernel"], entry["target"], entry["variant"]["id"]): entry
        for entry in records.values()
        if entry["stage"] == "inspect" and entry["status"] == "ok" and entry["functions"]
    }


def _functions(before: list[Record], now: list[Record]) -> list[Record]:
    """An entry per device function with a figure that differs; one that only one side has is an entry of its own."""
    found = []
    for place, (old, new) in enumerate(itertools.zip_longest(before, now), 1):
        left, right = (figures(side) if side else {} for side in (old, new))
        names = dict.fromkeys((*left, *right))
        changes = [
            {"figure": name, "before": left.get(name), "now": right.get(name)}
            for name in names
            if left.get(name) != right.get(name)
        ]
        if changes:
            found.append({"function": place, "symbol": (new or old)["symbol"], "changes": changes})
    return found


def _compilers(before: Records, now: Records) -> list[Record]:
    """Compilers whose versions differ, or that only one side has."""
    old, new = (_versions(records) for records in (before, now))
    return [
        {"name": name, "before": old.get(name, []), "now": new.get(name, [])}
        for name in sorted({*old, *new})
        if old and new and old.get(name) != new.get(name)
    ]


def _versions(records: Records) -> dict[str, list[str]]:
    found: dict[str, set[str]] = {}
    for entry in records.values():
        if entry["stage"] == "compile":
            for name, version in entry["compilers"].items():
                found.setdefault(name, set()).add(version)
    return {name: sorted(versions) for name, versions in found.items()}


def _why_none(old: dict, new: dict) -> str:
    if not new:
        return "this run inspected no build of this operator"
    if not old:
        return "the baseline has no inspect records of this operator"
    return "no build is in both: kernels, targets or variants have other names"
