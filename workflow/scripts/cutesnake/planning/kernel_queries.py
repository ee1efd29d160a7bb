"""Ask kernels for their part of the plan, and check the replies by contract."""

import re
import time
from collections.abc import Iterable
from typing import Any

from cutesnake.model.catalog import ContractError
from cutesnake.model.contract import Kernel, Variant, Workload
from cutesnake.planning.config import MOST_CHARACTERS
from cutesnake.planning.looked_at import memory
from cutesnake.planning.staleness import recalled

recall = False  # whether replies of earlier runs count; the Snakefile sets it
SLOW_SECONDS = 0.001  # replies that took as long are remembered: of kernels that search for a schedule
VARIANT_ID = re.compile(r"[\w-][\w.-]*", re.ASCII)


def supports(module: Kernel, workload: Workload) -> str | None:
    """None, or why the kernel does not take the workload."""
    reason = module.supports(workload)
    if reason is not None and (not isinstance(reason, str) or not reason.strip()):
        raise ContractError(f"supports() gives {reason!r}; it must give None, or a sentence that says why not")
    return reason


def variants(module: Kernel, workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a kernel's candidates for a supported workload; ContractError if invalid.

    A kernel that searches for a schedule is asked once, since several parts of a run ask.
    """
    replies = _known_variants.get((id(module), target)) or _Replies(module, target)
    return replies.remembered(workload.id) or replies.ask(workload) if replies.slow else replies.ask(workload)


class _Replies:
    """Variants that a kernel gave for a target, equal ones once; slow replies are remembered."""

    def __init__(self, module: Kernel, target: str) -> None:
        self.module, self.target = module, target  # with the module, so that no other module has its id
        self.slow: dict[str, list[list[Any]]] = {}  # id of a workload, which is unique -> ids and params
        self.checked: dict[str, tuple[Variant, ...]] = {}  # by the id of the first
        if recall:  # replies of earlier runs too, unless code changed since
            self.slow = recalled("variants", f"{vars(module)['__name__']}/{target}", dict)
        _known_variants[id(module), target] = self

    def remembered(self, workload: str) -> tuple[Variant, ...]:
        """Return an earlier reply, empty without one."""
        return tuple(Variant(name, params) for name, params in self.slow.get(workload, ()))

    def ask(self, workload: Workload) -> tuple[Variant, ...]:
        """Ask the kernel, and remember what took long."""
        began = time.perf_counter()
        message: Any = self.module.variants(workload, self.target)
        if type(message) is not tuple:
            message = tuple(message) if isinstance(message, Iterable) else (message,)
        slow = time.perf_counter() - began >= SLOW_SECONDS
        known = self.checked.get(str(getattr(message[0], "id", None))) if message else None
        if known is None or len(known) != len(message) or any(map(_differ, known, message)):
            known = _valid(message, workload, self.target)
            self.checked[known[0].id] = known
        if slow:
            self.slow[workload.id] = [[one.id, dict(one.params)] for one in known]
            if recall:
                memory().changed = True
        return known


_known_variants: dict[tuple[int, str], _Replies] = {}


def _differ(known: Variant, one: object) -> bool:
    return type(one) is not Variant or one.id != known.id or one.params != known.params


def _valid(result: tuple[Any, ...], workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return what variants() gave; ContractError if it breaks the contract."""
    for one in result:
        if not isinstance(one, Variant):
            kind = "None" if one is None else type(one).__name__
            raise ContractError(f"variants() gives {kind} for {workload.id}; it must give a tuple of Variant")
        if not isinstance(one.id, str) or not VARIANT_ID.fullmatch(one.id):
            raise ContractError(
                f"variants() gives the id {one.id!r}; it may hold A-Z, a-z, 0-9, `_`, `.` and `-`, no `.` first"
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
    if not result:
        raise ContractError(f"variants() gives none for {workload.id} on {target}, which supports() takes")
    ids = [variant.id for variant in result]
    twice = next((one for one in ids if ids.count(one) > 1), None)
    if twice is not None:
        raise ContractError(f"variants() gives the id {twice!r} twice for {workload.id}: ids must differ")
    return result


def group_key(module: Kernel, variant: Variant) -> str | None:
    """Return the key of equivalent builds, which differ in compile-time sizes; or None."""
    result = module.group_key(variant)
    if result is not None and not isinstance(result, str):
        raise ContractError(f"group_key() gives {result!r} for {variant.id!r}; it must give None, or a text")
    return result


def same(variant: Variant, other: Variant, workload: Workload) -> None:
    """ContractError unless two variants of one id, asked for different workloads, are the same."""
    if dict(variant.params) != dict(other.params):
        raise ContractError(
            f"variants() gives the id {variant.id!r} to {dict(variant.params)}, and for {workload.id} to "
            f"{dict(other.params)}: an id must stand for one build"
        )
