"""Group mbarriers into pipelines: who arrives, who waits, full and empty barriers."""

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
    phases: int = 0  # that all its barriers completed in one CTA, at most
    first: int | None = None  # place of the first phase among all that completed
    early: bool = False  # whether the first wait passed at once
    half_of: int | None = None  # offset of a buffer that holds one pipeline, full barriers and then empty ones

    @property
    def arrivers(self) -> set[str]:
        """Return the names of roles that arrive."""
        return {role for _, role in self.arrivals}


@dataclass
class Pipeline:
    """A circular buffer: full barriers by the producer, empty ones by the consumer."""

    name: str
    full: Group
    empty: Group
    stages: int  # a stage can have several full or empty barriers


def find_groups(
    code: Code, seen: Seen, roles: Sequence[Role], buffers: Sequence[Buffer], tensors: Mapping[int, set[str]]
) -> list[Group]:
    """Return the barriers of a launch by address; `tensors`: mbarrier -> copies' tensors."""
    of_warp = {warp: role.name for role in roles for warp in role.warps}
    singles = [
        _single(seen.bars[at], at, of_warp, tensors.get(at, set()), _field(buffers, at)) for at in sorted(seen.bars)
    ]
    return joined(code, singles, buffers)


def joined(code: Code, singles: Sequence[Group], buffers: Sequence[Buffer]) -> list[Group]:
    """Join single mbarriers, in order of address, to groups of stages."""
    groups: list[Group] = []
    parts = _parts(singles, buffers)
    for one in singles:
        place = one.offsets[0]
        if place in parts:
            if parts[place] == place:
                groups.append(one)
            else:
                _join(groups[-1], one)
        elif groups and groups[-1].offsets[0] not in parts and _continues(code, groups[-1], one):
            _join(groups[-1], one)
        else:
            groups.append(one)
    return groups


def _parts(singles: Sequence[Group], buffers: Sequence[Buffer]) -> dict[int, int]:
    """Return offset -> first offset of its group, for buffers that hold only one pipeline.

    CuTe DSL's pipeline classes take one array, the full barriers and then as many empty ones. Kernels that name two
    fields have all full barriers in one and all empty ones in the other. A buffer of neither form is left out.
    """
    result: dict[int, int] = {}
    for buffer in buffers:
        inside = [one for one in singles if buffer.offset <= one.offsets[0] < buffer.end]
        if not inside or len(inside) * SIZE != buffer.bytes:
            continue
        middle = len(inside) // 2
        halves = [] if len(inside) % 2 else [inside[:middle], inside[middle:]]
        for parts in ([inside], halves):
            if parts and all(_agree(a, b) for part in parts for a in part for b in part):
                result |= {one.offsets[0]: part[0].offsets[0] for part in parts for one in part}
                for part in parts:
                    part[0].half_of = buffer.offset if len(parts) == 2 else None
                break
    return result


def _agree(a: Group, b: Group) -> bool:
    """Return whether two barriers can be stages of one pipeline."""

    def nested(mine: set[Any], yours: set[Any]) -> bool:
        return mine <= yours or yours <= mine

    return a.count == b.count and nested(set(a.arrivals), set(b.arrivals)) and nested(set(a.waits), set(b.waits))


def _single(bar: Bar, offset: int, of_warp: Mapping[int, str], tensors: set[str], name: str) -> Group:
    group = Group(name, [offset], bar.count, tensors=set(tensors), completed=bar.completed)
    group.phases, group.first, group.early = bar.phases, bar.first, bar.early
    for (kind, at, (_, warp), other), times in bar.arrivals.items():
        group.arrivals.setdefault((kind, of_warp[warp]), Counter())[at] += times
        group.from_other_cta |= other
    for (at, (_, warp)), times in bar.waits.items():
        group.waits.setdefault(of_warp[warp], Counter())[at] += times
    group.unused = int(not group.arrivals and not group.waits)
    return group


def _field(buffers: Sequence[Buffer], offset: int) -> str:
    """Return the named field of shared memory that holds an offset."""
    return next((b.name for b in buffers if b.field and b.offset <= offset < b.end), "")


def _continues(code: Code, group: Group, one: Group) -> bool:
    """Return whether a barrier can be the next stage of the group."""
    if one.offsets[0] != group.offsets[-1] + SIZE or one.count != group.count or one.name != group.name:
        return False
    if one.unused:
        return True
    mine, yours = set(one.arrivals), set(group.arrivals)
    waits, others = set(one.waits), set(group.waits)
    if not (mine <= yours or yours <= mine) or not (waits <= others or others <= waits):
        return False
    if one.tensors != group.tensors or (waits and others and one.early != group.early):
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
    group.phases += one.phases
    group.first = min((at for at in (group.first, one.first) if at is not None), default=None)
    group.early |= one.early
    group.unused += one.unused
    group.tensors |= one.tensors


def find_pipelines(groups: Sequence[Group]) -> list[Pipeline]:
    """Pair groups into full and empty: producers wait for empty, consumers arrive there."""
    result: list[Pipeline] = []
    free = [group for group in groups if (group.arrivals and group.waits) or group.half_of is not None]
    while free:
        full = free.pop(0)
        partners = [g for g in free if _pairs(full, g)]
        if not partners:
            continue
        empty = min(partners, key=lambda g: _likeness(full, g))
        free.remove(empty)
        if _comes_first(empty, full):
            full, empty = empty, full
        result.append(Pipeline(_pipeline_name(full), full, empty, len(full.offsets)))
    paired = {id(group) for one in result for group in (one.full, one.empty)}
    result += _sharing([group for group in groups if id(group) not in paired], result)
    paired |= {id(one.full) for one in result}
    result += _tiled_rings([group for group in groups if id(group) not in paired])
    return sorted(result, key=lambda one: one.full.offsets[0])


def _likeness(a: Group, b: Group) -> tuple[bool, int, int]:
    """Return the sort key of partners: one array, equal phases, near."""
    phases = abs(a.phases - b.phases) // len(a.offsets)
    return not _siblings(a, b), phases, abs(b.offsets[0] - a.offsets[-1])


def _comes_first(a: Group, b: Group) -> bool:
    """Return whether, of two partners in order of address, `a` has the full barriers."""
    if _copies(a) != _copies(b):
        return _copies(a)
    if a.early != b.early:  # a producer's first wait passes at once
        return b.early
    once = a.phases == b.phases == 1 and not _siblings(a, b)
    return once and a.first is not None and b.first is not None and a.first < b.first


def _sharing(groups: Sequence[Group], pipelines: Sequence[Pipeline]) -> list[Pipeline]:
    """Find rings of full barriers that share the barriers of another pipeline."""
    result = []
    for full in groups:
        for one in pipelines:
            if _copies(full) and one.stages > 1 and _copies(one.full) and _uses(full) == _uses(one.full):
                if full.tensors - one.full.tensors:
                    result.append(Pipeline(_pipeline_name(full), full, one.empty, one.stages))
                    break
            elif _returns(full, one.full):
                result.append(Pipeline(_pipeline_name(full), full, one.full, len(full.offsets)))
                break
    return result


def _returns(full: Group, other: Group) -> bool:
    """Return whether another pipeline's full barriers release the stages of a ring."""
    stages = len(full.offsets)
    there_and_back = full.arrivers == set(other.waits) and set(full.waits) == other.arrivers
    return stages > 1 and there_and_back and not _copies(full) and abs(full.phases - other.phases) <= stages


def _uses(group: Group) -> tuple[int, int, set[str], set[str]]:
    return len(group.offsets), group.completed, group.arrivers, set(group.waits)


def _pairs(a: Group, b: Group) -> bool:
    if len(a.offsets) != len(b.offsets) or (_copies(a) and _copies(b)):
        return False
    there, back = bool(a.arrivers & set(b.waits)), bool(b.arrivers & set(a.waits))
    unused = b.unused == len(b.offsets)  # a hand-over that is used once has nobody at its empty barrier
    return (there and back) or ((there or back or unused) and _siblings(a, b))


def _siblings(a: Group, b: Group) -> bool:
    """Return whether two groups are halves of one array, or fields named full and empty."""
    if a.half_of is not None:
        return a.half_of == b.half_of
    return a.name != b.name and a.name.replace("full", "empty") == b.name.replace("full", "empty")


def _tiled_rings(groups: Sequence[Group]) -> list[Pipeline]:
    """Find rings with a full barrier per tile and an empty one per consumer."""
    result: list[Pipeline] = []
    fulls = [group for group in groups if _copies(group) and group.waits]
    for producers in dict.fromkeys(frozenset(group.arrivers) for group in fulls):
        full = _merged([group for group in fulls if group.arrivers == producers])
        passed = [g for g in groups if not _copies(g) and set(g.waits) == producers and g.arrivers <= set(full.waits)]
        if not passed:
            continue
        empty = _merged(passed)
        stages, left = divmod(len(empty.offsets), len({frozenset(group.arrivers) for group in passed}))
        if empty.arrivers == set(full.waits) and stages and not left and len(full.offsets) % stages == 0:
            result.append(Pipeline(_pipeline_name(full), full, empty, stages))
    return result


def _merged(groups: Sequence[Group]) -> Group:
    """Merge groups into one, at the first one's offset."""
    whole = Group(groups[0].name, [], groups[0].count)
    for group in groups:
        _join(whole, group)
    return whole


def _copies(group: Group) -> bool:
    return any(kind in ("copy", "cp.async") for kind, _ in group.arrivals)


def _pipeline_name(full: Group) -> str:
    what = ", ".join(sorted(full.tensors))
    ends = f"{' and '.join(sorted(full.arrivers))} → {' and '.join(sorted(full.waits))}"
    return f"{what}: {ends}" if what else ends
