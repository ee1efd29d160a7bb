"""Changes in compiled code: registers, spills, shared memory, size, instructions, compilers."""

import itertools
from collections.abc import Mapping

from msgspec.structs import asdict

from cutesnake.analysis.change.baseline import Before
from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.model.records.change import ChangedBuilds, ChangedFigure, ChangedFunction, Versions
from cutesnake.model.records.common import Record
from cutesnake.model.records.compile import Compile
from cutesnake.model.records.inspect import Function, Inspect

Key = tuple[str, str, str]  # kernel, target, variant


def static_values(function: Function) -> dict[str, int | None]:
    """Return the compared static values of a device function; None if unknown."""
    dynamic = function.dynamic_shared_bytes
    counts: dict[str, int] = asdict(function.instructions) if function.instructions else {}
    return {
        "registers_per_thread": function.registers_per_thread,
        "spill_bytes": function.spill_bytes,
        "stack_bytes": function.stack_bytes,
        "code_bytes": function.code_bytes,
        "shared_bytes": None if dynamic is None else function.static_shared_bytes + dynamic,
        "instructions": sum(counts.values()) if counts else None,
        **{f"instructions, {name.replace('_', ' ')}": count for name, count in counts.items()},
    }


def builds(evidence: Evidence, before: Before, reason: str | None = None) -> ChangedBuilds:
    """Compare the builds that both sides inspected.

    `reason` says why the baseline has none. Device functions are paired in order, the main one first, since compilers
    decorate their names.
    """
    old, new = _by_build(before), _by_build(evidence.inspected)
    shared = [key for key in new if key in old]
    return ChangedBuilds(
        compared=len(shared),
        only_before=sum(key not in new for key in old),
        only_now=sum(key not in old for key in new),
        compilers=_compilers(before, evidence.builds),
        reason=reason or (None if shared else _why_none(old, new)),
        changed=[entry for key in shared for entry in _functions(key, old[key].functions, new[key].functions)],
    )


def _by_build(records: Mapping[str, Record]) -> dict[Key, Inspect]:
    return {
        (entry.kernel, entry.target, entry.variant.id): entry
        for entry in records.values()
        if isinstance(entry, Inspect) and entry.status == "ok" and entry.functions
    }


def _functions(key: Key, before: list[Function], now: list[Function]) -> list[ChangedFunction]:
    """Return an entry per changed device function, or one that a single side has."""
    changed = []
    for place, (old, new) in enumerate(itertools.zip_longest(before, now), 1):
        left, right = (static_values(side) if side else {} for side in (old, new))
        names = dict.fromkeys((*left, *right))
        changes = [
            ChangedFigure(name, left.get(name), right.get(name)) for name in names if left.get(name) != right.get(name)
        ]
        if changes:
            changed.append(ChangedFunction(*key, place, (new or old).symbol, changes))
    return changed


def _compilers(before: Mapping[str, Record], now: Mapping[str, Record]) -> list[Versions]:
    """Return the compilers whose versions differ."""
    old, new = (_versions(records) for records in (before, now))
    return [
        Versions(name, old.get(name, []), new.get(name, []))
        for name in sorted({*old, *new})
        if old and new and old.get(name) != new.get(name)
    ]


def _versions(records: Mapping[str, Record]) -> dict[str, list[str]]:
    compilers: dict[str, set[str]] = {}
    for entry in records.values():
        if isinstance(entry, Compile):
            for name, version in entry.compilers.items():
                compilers.setdefault(name, set()).add(version)
    return {name: sorted(versions) for name, versions in compilers.items()}


def _why_none(old: dict, new: dict) -> str:
    if not new:
        return "this run inspected no build of this operator"
    if not old:
        return "the baseline has no inspect records of this operator"
    return "both sides have no common build: kernels, targets or variants differ"
