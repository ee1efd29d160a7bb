"""What a kernel answers when it is asked for its part of the plan, held against its contract."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cutesnake.model.catalog import ContractError
from cutesnake.model.contract import Kernel, Variant, Workload
from cutesnake.planning.config import MOST_CHARACTERS
from cutesnake.planning.looked_at import memory
from cutesnake.planning.staleness import recalled

recall = False  # whether answers of earlier runs count; the Snakefile sets it
VARIANT_ID = re.compile(r"[\w-][\w.-]*", re.ASCII)


def supports(module: Kernel, workload: Workload) -> str | None:
    """None, or why the kernel does not take the workload."""
    reason = module.supports(workload)
    if reason is not None and (not isinstance(reason, str) or not reason.strip()):
        raise ContractError(f"supports() gives {reason!r}; it must give None, or a sentence that says why not")
    return reason


def variants(module: Kernel, workload: Workload, target: str) -> tuple[Variant, ...]:
    """The kernel's candidates for a workload that it supports; ContractError where they cannot name builds.

    A kernel is asked once: some search for a schedule, and plan, anatomy and what a result is made from ask alike.
    """
    key = (id(module), repr(workload), target)
    if key not in _answers:
        _answers[key] = module, _recalled(module, workload, target) if recall else _variants(module, workload, target)
    return _answers[key][1]


def _recalled(module: Kernel, workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return what the kernel answered in an earlier run, unless code changed since."""
    known = recalled("variants", f"{vars(module)['__name__']}/{target}", dict)
    asked = repr(workload)
    if asked not in known:
        known[asked] = [[one.id, dict(one.params)] for one in _variants(module, workload, target)]
        memory().changed = True
    return tuple(Variant(name, params) for name, params in known[asked])


_answers: dict[tuple[int, str, str], tuple[Kernel, tuple[Variant, ...]]] = {}  # the module, so that its id is its own


def _variants(module: Kernel, workload: Workload, target: str) -> tuple[Variant, ...]:
    said: object = module.variants(workload, target)
    found = tuple(said) if isinstance(said, Iterable) else (said,)
    for one in found:
        if not isinstance(one, Variant):
            kind = "None" if one is None else type(one).__name__
            raise ContractError(f"variants() gives {kind} for {workload.id}; it must give a tuple of Variant")
        if not isinstance(one.id, str) or not VARIANT_ID.fullmatch(one.id):
            raise ContractError(
                f"variants() gives the id {one.id!r}; it must be letters, digits, `_`, `.` and `-`, no `.` first"
            )
        if len(one.id) > MOST_CHARACTERS:
            raise ContractError(
                f"variants() gives the id {one.id[:20]}… of {len(one.id)} characters; {MOST_CHARACTERS} at most, as it "
                "names files"
            )
        for name, value in one.params.items():
            if not isinstance(value, bool | int | float | str):
                raise ContractError(
                    f"variants() gives {one.id!r} whose params {name!r} is {value!r}; it must be a number, a text or "
                    "a truth value"
                )
    if not found:
        raise ContractError(f"variants() gives none for {workload.id} on {target}, which supports() takes")
    ids = [variant.id for variant in found]
    twice = next((one for one in ids if ids.count(one) > 1), None)
    if twice is not None:
        raise ContractError(f"variants() gives the id {twice!r} twice for {workload.id}: ids must differ")
    return found


def group_key(module: Kernel, variant: Variant) -> str | None:
    """What a variant has in common with those that differ in baked sizes only; None where it is like no other."""
    found = module.group_key(variant)
    if found is not None and not isinstance(found, str):
        raise ContractError(f"group_key() gives {found!r} for {variant.id!r}; it must give None, or a text")
    return found


def same(variant: Variant, other: Variant, workload: Workload) -> None:
    """ContractError unless two variants of one id, asked for different workloads, are the same."""
    if dict(variant.params) != dict(other.params):
        raise ContractError(
            f"variants() gives the id {variant.id!r} to {dict(variant.params)}, and for {workload.id} to "
            f"{dict(other.params)}: an id must stand for one build"
        )
