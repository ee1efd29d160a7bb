"""Insights: sentences about a pair of kernels that follow from the numbers of its row by stated rules.

A rule has an id, the condition under which it speaks and a function that gives its sentence, or None. It looks at
nothing but the cells and static figures of the row, so that the same numbers always give the same words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cutesnake.model.records.compare import Basis, Cell, Insight
from cutesnake.model.records.inspect import Function
from cutesnake.model.records.ncu import NcuMetrics
from cutesnake.model.records.roofline import RooflineRow
from cutesnake.model.records.timing import TimingMetrics
from cutesnake.stages.profile import bottleneck

REGISTER_CEILING = 255  # per thread, every architecture (CUDA programming guide, compute capabilities)
NOISE_PERCENT = 3.0  # times nearer to each other than this, or than their spreads, are called equal
POINTS = 10.0  # percentage points from which two shares of a peak are called different
CACHED = 1.15  # a cold run this many times slower than a hot one read from the L2 cache when hot


@dataclass(frozen=True)
class Side:
    """One kernel of a pair; `kernel` is None where the DSL has none for the row, `reason` says why."""

    kernel: str | None
    dsl: str
    variant: str | None
    reason: str | None
    cells: Mapping[str, Cell]
    function: Function | None = None  # static figures of its main device function
    params: Mapping[str, Any] = field(default_factory=dict)  # what is baked into the build
    served: int = 0  # workloads that the build serves
    timing: TimingMetrics | None = None
    ncu: NcuMetrics | None = None


@dataclass(frozen=True)
class Pair:
    cutile: Side
    cute: Side
    floor: RooflineRow | None  # row of the roofline
    parameters: Mapping[str, Any]  # of the workload

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.cutile, self.cute

    def functions(self) -> list[tuple[str, Function]]:
        return [(side.kernel, side.function) for side in self.sides if side.kernel and side.function]


@dataclass(frozen=True)
class Rule:
    id: str
    basis: Basis
    condition: str
    sentence: Callable[[Pair], str | None]


def insights(pair: Pair) -> list[Insight]:
    """Every rule that applies, in the order of RULES."""
    found = ((rule, rule.sentence(pair)) for rule in RULES)
    return [Insight(rule.id, rule.basis, text) for rule, text in found if text]


def number(value: float) -> str:
    """Three significant digits, whole numbers in full, thousands apart: 0.123, 51.7, 1 234."""
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}".replace(",", "\u202f")
    return f"{value:.3g}"


def _both(pair: Pair) -> tuple[tuple[str, Function], tuple[str, Function]] | None:
    found = pair.functions()
    return (found[0], found[1]) if len(found) == 2 else None


def _each(pair: Pair, say: Callable[[str, Function], str | None]) -> str | None:
    said = [text for kernel, function in pair.functions() if (text := say(kernel, function))]
    return " ".join(said) or None


def _only_one(pair: Pair, has: Callable[[Function], int | None], say: Callable[[str, Any, str], str]) -> str | None:
    """Speak where `has` is true of exactly one side and known of both."""
    if (both := _both(pair)) is None:
        return None
    (left, a), (right, b) = ((kernel, has(function)) for kernel, function in both)
    if a is None or b is None or bool(a) == bool(b):
        return None
    return say(left, a, right) if a else say(right, b, left)


def _spills(pair: Pair) -> str | None:
    return _each(
        pair,
        lambda kernel, f: (
            f"{kernel} spills {number(f.spill_bytes)} bytes of registers per thread to local memory."
            if f.spill_bytes
            else None
        ),
    )


def _ceiling(pair: Pair) -> str | None:
    def say(kernel: str, f: Function) -> str | None:
        if (f.registers_per_thread or 0) < REGISTER_CEILING:
            return None
        spills = "" if f.spill_bytes else ", and does so without spilling" * (f.spill_bytes == 0)
        return f"{kernel} uses all {REGISTER_CEILING} registers that a thread can have{spills}."

    return _each(pair, say)


def _registers(pair: Pair) -> str | None:
    if (both := _both(pair)) is None:
        return None
    (left, a), (right, b) = ((kernel, f.registers_per_thread) for kernel, f in both)
    if not a or not b or abs(a - b) < 32:
        return None
    (less, few), (more, many) = sorted(((left, a), (right, b)), key=lambda item: item[1])
    return f"{less} needs {many - few} registers per thread fewer than {more} ({few} against {many})."


def _reallocation(pair: Pair) -> str | None:
    def say(kernel: str, f: Function) -> str | None:
        limits = sorted(set(f.setmaxnreg or []))
        if not limits:
            return None
        return (
            f"{kernel} moves registers between its warpgroups while it runs (setmaxnreg "
            f"{', '.join(map(str, limits))}): producers give up what the consumers take."
        )

    return _each(pair, say)


def _one_block(pair: Pair) -> str | None:
    def alone(f: Function) -> bool:
        return f.occupancy is not None and f.occupancy.blocks_per_sm == 1 and "shared" in f.occupancy.limiter

    def size(f: Function) -> str:
        return number(((f.static_shared_bytes or 0) + (f.dynamic_shared_bytes or 0)) / 1024)

    found = [f"{kernel} ({size(f)} KB)" for kernel, f in pair.functions() if alone(f)]
    if not found:
        return None
    return (
        f"Shared memory lets one block onto an SM: {', '.join(found)}. Latency must be hidden inside the block, by its "
        "own pipeline."
    )


def _tensor_cores(pair: Pair) -> str | None:
    return _only_one(
        pair,
        lambda f: f.instructions.tensor_core if f.instructions else None,
        lambda one, count, other: f"{one} has {number(count)} tensor-core instructions, {other} has none.",
    )


def _tensor_memory(pair: Pair) -> str | None:
    return _each(
        pair,
        lambda kernel, f: (
            f"{kernel} keeps accumulators in tensor memory ({f.tensor_memory_columns} of 512 columns): they cost "
            "it no registers."
            if f.tensor_memory_columns
            else None
        ),
    )


def _tma_loads(function: Function) -> int | None:
    mix = function.instructions
    return None if mix is None else mix.tma_load + mix.tma_multicast


def _tma(pair: Pair) -> str | None:
    return _only_one(
        pair,
        _tma_loads,
        lambda one, count, other: (
            f"{one} loads through the TMA unit ({number(count)} instructions in its code), {other} has no TMA load."
        ),
    )


def _multicast(pair: Pair) -> str | None:
    return _only_one(
        pair,
        lambda f: f.instructions.tma_multicast if f.instructions else None,
        lambda one, _, other: (
            f"{one} loads tiles once for several blocks of a cluster (TMA multicast), {other} has no such load."
        ),
    )


def _cluster(pair: Pair) -> str | None:
    def say(kernel: str, f: Function) -> str | None:
        size = f.cluster_size
        return f"{kernel} runs in clusters of {size} blocks." if size and size > 1 else None

    return _each(pair, say)


def _sizes(pair: Pair) -> str | None:
    said = []
    for side in pair.sides:
        if side.kernel is None or side.reason:
            continue
        baked = sorted(set(side.params) & (set(pair.parameters) - {"dtype"}))
        if baked:
            said.append(f"{side.kernel} bakes in {', '.join(baked)}: another value is another build.")
        elif side.served > 1:
            said.append(f"One build of {side.kernel} serves {side.served} workloads: their sizes are arguments.")
    return " ".join(said) or None


def _bound(pair: Pair) -> str | None:
    floor = pair.floor
    if floor is None or floor.floor_us is None or floor.ridge is None:
        return None
    side = "above" if floor.bound == "compute" else "below"
    return (
        f"{number(floor.intensity)} FLOP/B lies {side} the {number(floor.ridge)} FLOP/B of {floor.device}: "
        f"{floor.bound}-bound, at least {number(floor.floor_us)} µs."
    )


def _time(side: Side) -> float | None:
    cell = side.cells["duration_us"]
    return cell.value if cell.kind in ("measured", "recorded") else None


def _times(pair: Pair) -> tuple[float, float] | None:
    left, right = _time(pair.cutile), _time(pair.cute)
    return (left, right) if left and right else None


def _faster(pair: Pair) -> str | None:
    if (times := _times(pair)) is None:
        return None
    noise = sum(side.timing.spread_percent if side.timing else 0.0 for side in pair.sides)
    (fast, short), (slow, long) = sorted(
        zip((pair.cutile.kernel, pair.cute.kernel), times, strict=True), key=lambda item: item[1]
    )
    percent = 100 * (long / short - 1)
    if percent <= max(NOISE_PERCENT, noise):
        return f"{fast} and {slow} take the same time within the noise ({percent:.1f} % apart)."
    return f"{fast} is {long / short:.2f} times as fast as {slow}."


def _share(pair: Pair) -> str | None:
    floor = pair.floor.floor_us if pair.floor else None
    if not floor:
        return None
    said = [f"{side.kernel} reaches {100 * floor / time:.0f} %" for side in pair.sides if (time := _time(side))]
    return f"{' and '.join(said)} of what the device's peaks allow." if said else None


def _cached(pair: Pair) -> str | None:
    said = []
    for side in pair.sides:
        cold, hot = _time(side), side.cells["hot_duration_us"].value
        if cold and hot and cold / hot >= CACHED:
            said.append(f"{side.kernel} is {cold / hot:.2f} times as fast when its inputs lie in the L2 cache.")
    return " ".join(said) or None


def _bottleneck(pair: Pair) -> str | None:
    words = {"compute": "the tensor cores", "memory": "DRAM", "locality": "what it reads twice", "latency": "latency"}
    said = []
    for side in pair.sides:
        found = side.ncu.bottleneck if side.ncu else None
        if found and found.kind in words:
            numbers = ", ".join(f"{k.removesuffix('_percent')} {number(v)}" for k, v in found.numbers.items() if v)
            said.append(f"{side.kernel} is limited by {words[found.kind]} ({numbers.replace('_', ' ')}).")
    return " ".join(said) or None


def _tensor_share(pair: Pair) -> str | None:
    left, right = (side.cells["tensor_core_percent"].value for side in pair.sides)
    if left is None or right is None or abs(left - right) < POINTS:
        return None
    more = pair.cutile.kernel if left > right else pair.cute.kernel
    return f"{more} keeps the tensor cores busier by {number(abs(left - right))} percentage points."


def _low_occupancy(pair: Pair) -> str | None:
    if (times := _times(pair)) is None:
        return None
    cells = [side.cells["occupancy_percent"] for side in pair.sides]
    left, right = (cell.value for cell in cells)
    if left is None or right is None or cells[0].kind != cells[1].kind:
        return None
    faster, low, high = (pair.cutile.kernel, left, right) if times[0] < times[1] else (pair.cute.kernel, right, left)
    if high - low < POINTS:
        return None
    return f"{faster} is faster with fewer resident warps ({number(low)} % against {number(high)} %)."


def _doubt(pair: Pair) -> str | None:
    said = [
        f"{side.kernel}: {'; '.join(map(str, side.timing.flags))}."
        for side in pair.sides
        if side.timing and side.timing.flags
    ]
    return " ".join(said) or None


RULES = (
    Rule(
        "M1",
        "measured",
        f"Both times are measured. They count as equal if they differ by no more than {NOISE_PERCENT:g} % or the sum "
        "of their spreads.",
        _faster,
    ),
    Rule("M2", "measured", "A time is measured and the roofline gives a lower bound for the device.", _share),
    Rule(
        "M3",
        "measured",
        "ncu's record gives a bottleneck class: "
        + "; ".join(f"{name}: {rule}" for name, rule in bottleneck.RULES)
        + ".",
        _bottleneck,
    ),
    Rule(
        "M4",
        "measured",
        f"The tensor-core shares differ by at least {POINTS:g} percentage points.",
        _tensor_share,
    ),
    Rule("M5", "measured", f"The faster kernel has an occupancy lower by {POINTS:g} points or more.", _low_occupancy),
    Rule("M6", "measured", f"The run with a flushed L2 cache takes at least {CACHED:g} times the hot one.", _cached),
    Rule("M7", "measured", "A time carries a flag, such as two clocks that disagree.", _doubt),
    Rule("S1", "static", "The roofline knows the workload and the device.", _bound),
    Rule("S2", "static", "Spilled bytes per thread are more than 0.", _spills),
    Rule("S3", "static", f"A kernel is allotted {REGISTER_CEILING} registers per thread.", _ceiling),
    Rule("S4", "static", "Registers per thread differ by 32 or more.", _registers),
    Rule("S5", "static", "A kernel contains setmaxnreg.", _reallocation),
    Rule("S6", "static", "One block fits on an SM, and shared memory is among what runs out first.", _one_block),
    Rule("S7", "static", "Exactly one of the two has tensor-core instructions.", _tensor_cores),
    Rule("S8", "static", "A kernel allocates tensor memory.", _tensor_memory),
    Rule("S9", "static", "Exactly one of the two has TMA loads.", _tma),
    Rule("S10", "static", "Exactly one of the two has TMA multicast loads.", _multicast),
    Rule("S11", "static", "A kernel is launched in clusters of more than one block.", _cluster),
    Rule(
        "S12",
        "static",
        "A size of the workload is among the values baked into a build, or one build serves several workloads.",
        _sizes,
    ),
)
