"""Pipelines: which mbarriers belong together, who arrives at them and who waits, and what is full or empty by them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cutesnake.stages.anatomy.code import Code
from cutesnake.stages.anatomy.roles import Role
from cutesnake.stages.anatomy.shared import Buffer
from cutesnake.stages.anatomy.watch import Bar, Seen

SIZE = 8  # bytes of an mbarrier


@dataclass
class Group:
    """Neighbouring mbarriers that the same roles arrive at and wait for: one per stage."""

    name: str
    offsets: list[int]
    count: int  # arrivals that complete a phase
    arrivals: dict[tuple[str, str], Counter[int]] = field(default_factory=dict)  # (kind, role) -> instruction: times
    waits: dict[str, Counter[int]] = field(default_factory=dict)  # role -> instruction: times
    tensors: set[str] = field(default_factory=set)
    from_other_cta: bool = False
    completed: int = 0
    unused: int = 0

    @property
    def arrivers(self) -> set[str]:
        return {role for _, role in self.arrivals}


@dataclass
class Pipeline:
    """A circular buffer: full barriers that the producer completes and empty ones that the consumer gives back."""

    name: str
    full: Group
    empty: Group

    @property
    def stages(self) -> int:
        return len(self.full.offsets)


def find_groups(
    code: Code, seen: Seen, roles: Sequence[Role], buffers: Sequence[Buffer], tensors: Mapping[int, set[str]]
) -> list[Group]:
    """The barriers of a launch in order of address. `tensors` are those that copies bring, by their mbarrier."""
    of_warp = {warp: role.name for role in roles for warp in role.warps}
    groups: list[Group] = []
    singles = [
        _single(seen.bars[at], at, of_warp, tensors.get(at, set()), _field(buffers, at)) for at in sorted(seen.bars)
    ]
    halves = _halves(singles, buffers)
    for one in singles:
        place = one.offsets[0]
        if place in halves:
            if halves[place] == place:
                groups.append(one)
            else:
                _join(groups[-1], one)
        elif groups and groups[-1].offsets[0] not in halves and _continues(code, groups[-1], one):
            _join(groups[-1], one)
        else:
            groups.append(one)
    return groups


def _halves(singles: Sequence[Group], buffers: Sequence[Buffer]) -> dict[int, int]:
    """Offset -> where its half begins, of fields that hold barriers of one pipeline: full ones, then as many empty.

    That is how CuTe DSL's pipeline classes lay them out; a field whose halves do not agree in themselves is left out.
    """
    found: dict[int, int] = {}
    for buffer in buffers:
        inside = [one for one in singles if buffer.offset <= one.offsets[0] < buffer.end]
        if not buffer.field or len(inside) % 2 or len(inside) * SIZE != buffer.bytes:
            continue
        middle = len(inside) // 2
        parts = inside[:middle], inside[middle:]
        if all(_agree(a, b) for part in parts for a in part for b in part):
            found |= {one.offsets[0]: part[0].offsets[0] for part in parts for one in part}
    return found


def _agree(a: Group, b: Group) -> bool:
    """Whether two barriers can be stages of one pipeline, as far as they were used."""

    def nested(mine: set[Any], yours: set[Any]) -> bool:
        return mine <= yours or yours <= mine

    return a.count == b.count and nested(set(a.arrivals), set(b.arrivals)) and nested(set(a.waits), set(b.waits))


def _single(bar: Bar, offset: int, of_warp: Mapping[int, str], tensors: set[str], name: str) -> Group:
    group = Group(name, [offset], bar.count, tensors=set(tensors), completed=bar.completed)
    for (kind, at, (_, warp), other), times in bar.arrivals.items():
        group.arrivals.setdefault((kind, of_warp[warp]), Counter())[at] += times
        group.from_other_cta |= other
    for (at, (_, warp)), times in bar.waits.items():
        group.waits.setdefault(of_warp[warp], Counter())[at] += times
    group.unused = int(not group.arrivals and not group.waits)
    return group


def _field(buffers: Sequence[Buffer], offset: int) -> str:
    """The field of the kernel's own structure of shared memory that holds an offset."""
    return next((b.name for b in buffers if b.offset <= offset < b.offset + b.bytes), "")


def _continues(code: Code, group: Group, one: Group) -> bool:
    """Whether a barrier is a further stage of the group: nothing about it contradicts that."""
    if one.offsets[0] != group.offsets[-1] + SIZE or one.count != group.count or one.name != group.name:
        return False
    if one.unused:
        return True
    mine, yours = set(one.arrivals), set(group.arrivals)
    waits, others = set(one.waits), set(group.waits)
    if not (mine <= yours or yours <= mine) or not (waits <= others or others <= waits):
        return False
    if one.tensors != group.tensors:
        return False
    if not mine or not yours:
        return _lines(code, one.waits) == _lines(code, group.waits)
    return bool(_lines(code, one.arrivals) & _lines(code, group.arrivals))


def _lines(code: Code, table: Mapping[Any, Counter[int]]) -> set[str | None]:
    return {code.source(at) for counter in table.values() for at in counter if at >= 0}


def _join(group: Group, one: Group) -> None:
    group.offsets += one.offsets
    for key, times in one.arrivals.items():
        group.arrivals.setdefault(key, Counter()).update(times)
    for role, times in one.waits.items():
        group.waits.setdefault(role, Counter()).update(times)
    group.from_other_cta |= one.from_other_cta
    group.completed += one.completed
    group.unused += one.unused
    group.tensors |= one.tensors


def find_pipelines(groups: Sequence[Group]) -> list[Pipeline]:
    """Groups paired into full and empty: what one's arrivers wait for, the other's waiters arrive at."""
    found: list[Pipeline] = []
    free = [group for group in groups if group.arrivals and group.waits]
    while free:
        full = free.pop(0)
        partners = [g for g in free if _pairs(full, g)]
        if not partners:
            continue
        empty = min(partners, key=lambda g: (g.name != full.name, abs(g.offsets[0] - full.offsets[-1])))
        free.remove(empty)
        if _copies(empty) and not _copies(full):
            full, empty = empty, full
        found.append(Pipeline(_pipeline_name(full), full, empty))
    return found


def _pairs(a: Group, b: Group) -> bool:
    if len(a.offsets) != len(b.offsets) or (_copies(a) and _copies(b)):
        return False
    return bool(a.arrivers & set(b.waits)) and bool(b.arrivers & set(a.waits))


def _copies(group: Group) -> bool:
    return any(kind in ("copy", "cp.async") for kind, _ in group.arrivals)


def _pipeline_name(full: Group) -> str:
    what = ", ".join(sorted(full.tensors))
    ends = f"{' and '.join(sorted(full.arrivers))} → {' and '.join(sorted(full.waits))}"
    return f"{what}: {ends}" if what else ends
