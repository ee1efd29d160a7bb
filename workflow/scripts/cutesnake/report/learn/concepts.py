"""Numbers of the concepts on learners' pages, computed from the anatomy of a path's kernels."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cutesnake.model.records.anatomy import Anatomy, AnatomyFunction, Barrier, Pipeline
from cutesnake.report.layouts.hardware import (
    COLUMNS,
    LANES,
    SWIZZLE_BYTES,
    SWIZZLES,
    accumulator_columns,
    most_box_elements,
    product_depth,
)
from cutesnake.report.layouts.memories import LayoutPlot, draw_atom, draw_overlap, draw_tensor_memory

BITS = {"f32": 32, "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "u8": 8, "s8": 8, "e2m1": 4}
SHARED_PER_SM = 233_472  # bytes; each CTA reserves another 1,024 (CUDA programming guide, compute capabilities)
RESERVED = 1_024
SIZES = ((1_000, 3_000, 1_000), (4_096, 4_096, 4_096))  # of the example: one does not divide
FLOPS = "tcgen05_flops_per_cycle"
PLACES = {(64, 1): "16 of each 32", (128, 1): "0-127", (128, 2): "0-127, two halves of N", (256, 2): "0-127"}
UNITS = (8, 3, 4)  # of the overlap's example: main loop, epilogue, tiles


@dataclass(frozen=True)
class Ring:
    """A pipeline of a kernel: what a stage holds, and what its two barriers count.

    holds: in one CTA, empty if unknown. expects: bytes of a phase of the full barrier, None without copies.
    full, empty: (count, arrivals in words, roles that wait). fields: the source's names of its barriers.
    """

    name: str
    stages: int
    holds: str
    expects: int | None
    full: tuple[int, str, str]
    empty: tuple[int, str, str]
    fields: tuple[str, ...] = ()


@dataclass(frozen=True)
class Facts:
    """Numbers of a tcgen05 matrix product that loads A and B by TMA.

    tile: M, N, K of a work tile. ctas: that share it. bits: of an element. names: of the buffers of A and B.
    other_bytes: shared memory outside their ring. columns: of tensor memory that are allocated.
    """

    kernel: str
    tile: tuple[int, int, int]
    ctas: int
    cluster: int
    bits: int
    stages: int
    names: tuple[str, str]
    other_bytes: int
    limit: int
    accumulators: int
    columns: int | None
    persistent: bool
    masked: bool
    processors: int
    rings: list[Ring]

    @property
    def parts(self) -> dict[str, int]:
        """Return bytes that a stage holds of A and B in one CTA."""
        sizes = (extent // self.ctas * self.tile[2] * self.bits // 8 for extent in self.tile[:2])
        return dict(zip(self.names, sizes, strict=True))

    @property
    def stage_bytes(self) -> int:
        """Return bytes of a stage in one CTA."""
        return sum(self.parts.values())

    @property
    def dynamic(self) -> int:
        """Return bytes of shared memory that a CTA takes."""
        return self.stages * self.stage_bytes + self.other_bytes

    @property
    def columns_each(self) -> int:
        """Return columns of an accumulator in a CTA."""
        return accumulator_columns(*self.tile[:2], self.ctas)

    @property
    def most_stages(self) -> int:
        """Return how many stages shared memory has room for."""
        return (self.limit - self.other_bytes) // self.stage_bytes

    @property
    def products_per_stage(self) -> int:
        """Return how many MMA instructions read a stage."""
        return self.tile[2] // product_depth(self.bits)

    @property
    def ctas_per_sm(self) -> int:
        """Return how many CTAs the shared memory of an SM has room for."""
        return SHARED_PER_SM // (self.dynamic + RESERVED)

    @property
    def clusters_at_once(self) -> int:
        """Return how many clusters the GPU has room for."""
        return self.processors * self.ctas_per_sm // self.cluster


def facts_of(record: Anatomy) -> Facts | None:
    """Return a kernel's numbers, or None for a kernel of another kind."""
    function = record.functions[0] if record.functions else None
    if function is None or not function.products or not function.pipelines or not record.grids:
        return None
    kinds = {(p.shape[2], p.types["a"]) for p in function.products if p.cta_group}
    if len(function.accumulators) != 1 or len(kinds) != 1:
        return None
    (m, n, ctas), (_, kind) = function.accumulators[0], kinds.pop()
    deepest = max(function.pipelines, key=lambda p: p.stages)
    buffers = [b for b in function.shared.buffers or [] if b.tensors and b.stages == deepest.stages]
    sizes = [b.stage_bytes or 0 for b in buffers]
    bits = BITS.get(kind)
    if len(buffers) != 2 or not all(sizes) or bits is None:
        return None
    k = sizes[0] * 8 * ctas // bits // m
    if sizes != [extent // ctas * k * bits // 8 for extent in (m, n)]:  # the buffers are not A and B
        return None
    sums = [p.stages for p in function.pipelines if _accumulates(function, p)]
    patterns, shared = function.patterns, function.shared
    return Facts(
        kernel=f"{record.operator}/{record.kernel}",
        tile=(m, n, k),
        ctas=ctas,
        cluster=math.prod(function.host.cluster or [1]),
        bits=bits,
        stages=deepest.stages,
        names=(", ".join(buffers[0].tensors), ", ".join(buffers[1].tensors)),
        other_bytes=(shared.dynamic_bytes or 0) - deepest.stages * sum(sizes),
        limit=shared.limit_bytes,
        accumulators=max(sums, default=1),
        columns=function.tensor_memory.columns,
        persistent=bool(patterns["persistent loop"].present),
        masked=bool(patterns["boundary handling"].present),
        processors=record.grids[0].processors,
        rings=rings_of(record),
    )


def _barrier(function: AnatomyFunction, offsets: Sequence[int]) -> Barrier:
    return next(b for b in function.barriers or [] if b.offset == offsets[0])


def _accumulates(function: AnatomyFunction, pipeline: Pipeline) -> bool:
    """Return whether an MMA's commit alone fills the pipeline."""
    return {arrival.kind for arrival in _barrier(function, pipeline.full_offsets).arrivals} == {"commit"}


def rings_of(record: Anatomy) -> list[Ring]:
    """Return the pipelines of a kernel's main function; none for one that did not run."""
    function = record.functions[0] if record.functions else None
    if function is None or not function.pipelines:
        return []
    return [_ring(function, pipeline) for pipeline in function.pipelines]


def _ring(function: AnatomyFunction, pipeline: Pipeline) -> Ring:
    tensors = pipeline.name.rpartition(": ")[0]
    parts: dict[str, int] = {}
    for b in function.shared.buffers or []:
        if b.stages == pipeline.stages and b.stage_bytes and set(b.tensors) & set(tensors.split(", ")):
            name = ", ".join(b.tensors)
            parts[name] = parts.get(name, 0) + b.stage_bytes
    full = _barrier(function, pipeline.full_offsets)
    pair = full.from_other_cta and any(p.cta_group == 2 for p in function.products or [])
    holds = " and ".join(f"{name} ({size:,} B)" for name, size in parts.items())
    if _accumulates(function, pipeline) and len(function.accumulators) == 1:
        holds = f"accumulator, {accumulator_columns(*function.accumulators[0])} columns of tensor memory"
    sides = []
    for barrier in (full, _barrier(function, pipeline.empty_offsets)):
        come = [a for a in barrier.arrivals if a.kind != "copy"]
        texts = [f"{a.per_phase:g} x {_ARRIVAL.get(a.kind, a.kind)} of {a.role}" for a in come]
        sides.append((barrier.count, " + ".join(texts), ", ".join(w.role for w in barrier.waits)))
    each = sum(parts.values())
    expects = each * (1 + pair) or None
    return Ring(pipeline.name, pipeline.stages, holds, expects, sides[0], sides[1], tuple(pipeline.fields))


_ARRIVAL = {"threads": "arrive", "commit": "tcgen05.commit"}


@dataclass(frozen=True)
class Cut:
    """How a kernel cuts a problem.

    tiles: along M and N. steps: along K. clusters, ctas: of the grid. last: clusters with work in the last round.
    useful_percent: of the computed elements that belong to the problem. busy_percent: of the GPU, over all rounds.
    """

    sizes: tuple[int, int, int]
    tiles: tuple[int, int]
    steps: int
    clusters: int
    ctas: int
    rounds: int
    last: int
    useful_percent: int
    busy_percent: int


def cut(facts: Facts, sizes: tuple[int, int, int]) -> Cut:
    """Return how a problem of M, N, K becomes tiles, CTAs and rounds."""
    m, n, k = facts.tile
    across, down, steps = -(-sizes[0] // m), -(-sizes[1] // n), -(-sizes[2] // k)
    units = -(-across * down * facts.ctas // facts.cluster)  # clusters' worth of tiles
    clusters = min(units, facts.clusters_at_once) if facts.persistent else units
    rounds = -(-units // facts.clusters_at_once)
    return Cut(
        sizes=sizes,
        tiles=(across, down),
        steps=steps,
        clusters=clusters,
        ctas=clusters * facts.cluster,
        rounds=rounds,
        last=units - (rounds - 1) * facts.clusters_at_once,
        useful_percent=round(100 * sizes[0] * sizes[1] * sizes[2] / (across * m * down * n * steps * k)),
        busy_percent=round(100 * units / (rounds * facts.clusters_at_once)),
    )


def variations(facts: Facts) -> list[tuple[str, Facts]]:
    """Return a kernel with one number changed at a time, by what changed."""
    m, n, k = facts.tile
    half = facts.bits // 2
    changed = [
        ("nothing", facts),
        (f"elements of {half} bits", replace(facts, bits=half)),
        (f"elements of {half} bits, K tile as wide in bytes", replace(facts, bits=half, tile=(m, n, 2 * k))),
        ("K tile twice as long", replace(facts, tile=(m, n, 2 * k))),
        ("half of N", replace(facts, tile=(m, n // 2, k))),
    ]
    alone = [("one CTA, with its part of M", replace(facts, tile=(m // 2, n, k), ctas=1))]
    return changed + alone * (facts.ctas == 2)


def first_uses(stages: int) -> list[dict[str, Any]]:
    """Return rows of a ring's uses.

    full, empty: parities that consumer and producer wait for. freed: the use whose release empties the stage.
    """
    rows = []
    for use in (*range(min(stages, 2)), *range(stages, stages + 2), 2 * stages):
        turn = use // stages
        rows.append(
            {
                "use": use,
                "stage": use % stages,
                "round": turn,
                "full": turn % 2,
                "empty": 1 - turn % 2,
                "freed": use - stages if turn else None,
            }
        )
    return rows


def clock(facts: Facts, device: str) -> dict[str, Any]:
    """Return cycles of a K step and of loads on a modelled GPU.

    ptxsim's rate is that of 16-bit products; fewer bits are that much faster.
    """
    import ptxsim

    model = ptxsim.DeviceModel.load(device)
    value = {name: int(model.parameters[name].value) for name in ("tma_latency", "tma_dram_latency", FLOPS)}
    flops = value[FLOPS] * 16 // facts.bits
    step = 2 * math.prod(facts.tile) // facts.ctas // flops
    return {
        "name": model.name,
        "step": step,
        "flops": flops,
        "l2": value["tma_latency"],
        "dram": value["tma_dram_latency"],
    }


def schedule(main: int, epilogue: int, tiles: int, accumulators: int) -> list[tuple[int, int]]:
    """Return when the main loop and the epilogue of each tile end.

    A tile's main loop waits for the one before, and for the epilogue that frees its accumulator.
    """
    ends: list[tuple[int, int]] = []
    for tile in range(tiles):
        freed = ends[tile - accumulators][1] if tile >= accumulators else 0
        summed = max(ends[-1][0] if ends else 0, freed) + main
        ends.append((summed, max(summed, ends[-1][1] if ends else 0) + epilogue))
    return ends


def overlap_plot(main: int, epilogue: int, tiles: int) -> LayoutPlot:
    """Return a plot of both schedules: one accumulator, and two."""
    rows: list[list[tuple[str, int, int, int]]] = []
    for count in (1, 2):
        ends = schedule(main, epilogue, tiles, count)
        rows.append([(f"tile {n}", end - main, end, n % count) for n, (end, _) in enumerate(ends)])
        rows.append([(f"{n}", end - epilogue, end, n % count) for n, (_, end) in enumerate(ends)])
    return draw_overlap(rows, ["one: main loop", "epilogue", "two: main loop", "epilogue"])


def boxes() -> list[dict[str, Any]]:
    """Return a row per element size: inner extents of boxes, depth of products."""
    return [
        {"bits": bits, "inner": [most_box_elements(bits, width) for width in SWIZZLE_BYTES], "k": product_depth(bits)}
        for bits in (32, 16, 8, 4)
    ]


def accumulators() -> list[dict[str, Any]]:
    """Return a row per shape of accumulators: lanes, columns, how many fit."""
    return [
        {
            "m": m,
            "ctas": ctas,
            "rows": m // ctas,
            "lanes": lanes,
            "columns": accumulator_columns(m, 256, ctas),
            "fit": COLUMNS // accumulator_columns(m, 256, ctas),
        }
        for (m, ctas), lanes in PLACES.items()
    ]


def examples(anatomies: Mapping[str, Anatomy]) -> dict[str, Any] | None:
    """Return what the concepts' template shows of a path's kernels; None without a fitting kernel."""
    known = [facts for record in anatomies.values() if (facts := facts_of(record))]
    if not known:
        return None
    first = known[0]
    pair = next((facts for facts in known if facts.ctas == 2), None)
    deep = max(known, key=lambda facts: (facts.persistent, facts.stages))
    shapes = {(facts.tile[0], facts.tile[1], facts.ctas): facts for facts in known}
    return {
        "kernels": known,
        "rings": [(facts.kernel, ring) for facts in known for ring in facts.rings],
        "first": first,
        "pair": pair,
        "deep": deep,
        "cuts": [(facts, cut(facts, sizes)) for facts in _shapes(known) for sizes in SIZES],
        "variations": variations(deep),
        "uses": first_uses(deep.stages),
        "overlap": [schedule(*UNITS, count)[-1][1] for count in (1, 2)],
        "overlap_plot": overlap_plot(*UNITS),
        "units": UNITS,
        "boxes": boxes(),
        "widths": SWIZZLE_BYTES,
        "accumulators": accumulators(),
        "atoms": [draw_atom(SWIZZLES[f"{width} B"], width) for width in SWIZZLE_BYTES],
        "memories": [draw_tensor_memory(m, 256, ctas) for m, ctas in PLACES]
        + [draw_tensor_memory(*shape, facts.accumulators) for shape, facts in shapes.items() if facts.accumulators > 1],
        "lanes": LANES,
        "columns": COLUMNS,
        "shared_per_sm": SHARED_PER_SM,
        "reserved": RESERVED,
    }


def _shapes(known: Sequence[Facts]) -> list[Facts]:
    """Return the first kernel of each way to cut a problem."""
    return list({(f.tile, f.ctas, f.persistent): f for f in reversed(known)}.values())[::-1]


SCORES, VALUES = ((1, 3), (2, 5)), ((10, 20), (30, 40))  # of the example, by block of keys
SPLITS = ((1, 8_192), (8, 8_192), (50, 8_192), (128, 1_024))  # requests and keys of the example
KEYS, HEADS, REGISTERS = 128, 128, 65_536


def online_softmax(scores: Sequence[Sequence[int]], values: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Return the running maximum, factor and sums after each block of keys of a row."""
    steps, m, total, out = [], -math.inf, 0.0, 0.0
    for block, mine in zip(scores, values, strict=True):
        largest = max(m, *block)
        factor = math.exp(m - largest)
        weights = [math.exp(score - largest) for score in block]
        m, total = largest, factor * total + sum(weights)
        out = factor * out + sum(weight * value for weight, value in zip(weights, mine, strict=True))
        steps.append({"scores": block, "values": mine, "m": m, "f": factor, "l": total, "o": out})
    return steps


def merged(parts: Sequence[Mapping[str, Any]]) -> float:
    """Return the attention of a row from the m, l and o of its splits."""
    largest = max(part["m"] for part in parts)
    weights = [math.exp(part["m"] - largest) for part in parts]
    out, total = (sum(w * part[key] for w, part in zip(weights, parts, strict=True)) for key in "ol")
    return out / total


def splits(batch: int, keys: int, pairs: int) -> dict[str, Any]:
    """Return how a simple rule splits requests: all pairs busy."""
    tiles = -(-keys // KEYS)
    longest = -(-tiles // max(min(tiles, pairs // batch), 1))
    count = -(-tiles // longest)
    rounds = -(-batch * count // pairs)
    row = {"batch": batch, "keys": keys, "pairs": pairs, "tiles": tiles, "splits": count, "longest": rounds * longest}
    return {**row, "busy": min(batch * count, pairs), "ideal": batch * tiles / pairs}


def attention_examples(anatomies: Mapping[str, Anatomy]) -> dict[str, Any] | None:
    """Return what the template of attention shows; None without a kernel that ran."""
    ran = {name: one.functions[0] for name, one in anatomies.items() if one.functions and one.grids}
    if not ran:
        return None
    columns = [
        (name, shape, accumulator_columns(*shape), function.tensor_memory.accumulators_at)
        for name, function in ran.items()
        for shape in function.accumulators
    ]
    pairs = next(iter(anatomies.values())).grids[0].processors // 2
    blocks = [online_softmax([s], [v])[0] for s, v in zip(SCORES, VALUES, strict=True)]
    whole = online_softmax([sum(SCORES, ())], [sum(VALUES, ())])[0]
    return {
        "softmax": online_softmax(SCORES, VALUES),
        "whole": whole["o"] / whole["l"],
        "merged": merged(blocks),
        "heads": HEADS,
        "splits": [splits(batch, keys, pairs) for batch, keys in SPLITS],
        "rings": [(name, ring) for name in ran for ring in rings_of(anatomies[name])],
        "columns": columns,
        "memories": [draw_tensor_memory(*shape) for shape in dict.fromkeys(shape for _, shape, _, _ in columns)],
        "registers": [(name, *shares(function)) for name, function in ran.items() if function.roles],
    }


def shares(function: AnatomyFunction) -> tuple[list[tuple[str, int, int]], int]:
    """Return (role, warps, registers per thread), and registers of a CTA."""
    launched = function.registers.per_thread or 0
    rows = [(r.name, len(r.warps), max(r.registers, default=launched)) for r in function.roles or []]
    return rows, sum(warps * 32 * each for _, warps, each in rows)


TILE_TIMES = ((4,) * 8, (9, 2, 2, 2, 9, 2, 2, 2))  # of the example
LAUNCHES = ((2, 3, 2, 10), (10, 3, 2, 4))  # kernels, gap, set-up and work in microseconds


def dealt(times: Sequence[int], clusters: int) -> tuple[list[int], list[int]]:
    """Return until when each cluster works, with a static schedule and a dynamic one."""
    static, dynamic = [0] * clusters, [0] * clusters
    for tile, time in enumerate(times):
        static[tile % clusters] += time
        dynamic[dynamic.index(min(dynamic))] += time
    return static, dynamic


def launched(kernels: int, gap: int, setup: int, work: int) -> dict[str, int]:
    """Return the time of kernels one after the other, and with dependent launch."""
    row = {"kernels": kernels, "gap": gap, "setup": setup, "work": work}
    return {**row, "plain": kernels * (gap + setup + work), "dependent": gap + setup + kernels * work}


def advanced_examples(anatomies: Mapping[str, Anatomy]) -> dict[str, Any] | None:
    """Return what the template of advanced patterns shows; None without a kernel that ran."""
    known = [facts for record in anatomies.values() if (facts := facts_of(record))]
    pairs = [(times, dealt(times, 4)) for times in TILE_TIMES]
    alone = [replace(f, tile=(f.tile[0] // f.ctas, *f.tile[1:]), ctas=1) for f in known[:1]]
    return {
        "rings": [(name, ring) for name, one in anatomies.items() for ring in rings_of(one)],
        "schedules": [{"times": times, "static": s, "dynamic": d} for times, (s, d) in pairs],
        "multicasts": [
            (f.kernel, m, n, a // n + b // m, a + b, m + n - 1)
            for f in alone
            for m, n in ((1, 1), (2, 1), (2, 2), (4, 4))
            for a, b in [tuple(f.parts.values())]
        ],
        "launches": [launched(*row) for row in LAUNCHES],
    }


EXAMPLES = {"a": examples, "b": attention_examples, "c": advanced_examples}  # path -> what its template shows
