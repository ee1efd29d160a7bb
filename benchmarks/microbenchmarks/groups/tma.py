"""TMA: loads by box, bytes in flight and SMs; multicast; stores; bulk copies.

Loads are from L2 and DRAM. Bulk copies have no tensor map.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.groups.global_memory import LARGE, MIB, _by_global_timer
from benchmarks.microbenchmarks.kernel import timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading, Run

NAME = "tma"
ROW_BYTES = 128
RING = 1024  # the ring of boxes begins here in shared memory; before it lie the barriers
RESIDENT_ROWS = 1024  # per CTA: 128 KiB, on all SMs 17 MB
SHARED = 200 * 1024

# Each warp has a ring of its own. %c: bytes of a box; %d: slots of the ring; %e: rows of the CTA's part (a power of
# two, a multiple of the box).
# With %q false for this CTA (its SM does not take part) it ends at once.
PREPARE = """
  .reg .b32 %slot, %place, %bar, %parity, %row, %first_row, %rows, %column, %inner;
  .reg .pred %ready, %chosen; .reg .b64 %map;
  {map}
  shr.u32 %rows, %c, 7;  mul.lo.u32 %first_row, %cta, %e;  mov.u32 %column, 0;
  mul.lo.u32 %i, %c, %d;  add.u32 %i, %i, 1024;  mad.lo.u32 %base, %warp, %i, %base;
  sub.u32 %i, %e, 1;  mul.lo.u32 %row, %warp, 128;  and.b32 %row, %row, %i;
  mov.u32 %slot, 0;  mov.u32 %parity, 0;  sub.u32 %e, %e, 1;
  setp.ne.u32 %p, %lane, 0;  @%p bra PREPARED;
  mov.u32 %i, 0;
PREPARE:
  shl.b32 %j, %i, 3;  add.u32 %j, %base, %j;  mbarrier.init.shared.b64 [%j], 1;
  add.u32 %i, %i, 1;  setp.lt.u32 %p, %i, %d;  @%p bra PREPARE;
  fence.mbarrier_init.release.cluster;  fence.proxy.async.shared::cta;
PREPARED:
"""
# Only the SMs up to %b take part (0: all).
SELECT = """
  cvt.u32.u64 %i, %b;  setp.ne.u32 %p, %i, 0;  setp.ge.and.u32 %q, %sm, %i, %p;  @%q bra END;
  {fill}
"""
# The next box: 64 columns further, behind the last column (%a of them) the next rows.
ADVANCE = """
  add.u32 %column, %column, 64;  cvt.u32.u64 %i, %a;  setp.ge.u32 %p, %column, %i;
  @%p mov.u32 %column, 0;  @%p add.u32 %row, %row, %rows;  and.b32 %row, %row, %e;
"""
ADVANCE_PLAIN = "add.u32 %row, %row, %rows;  and.b32 %row, %row, %e;"
NEXT_SLOT = """
  add.u32 %slot, %slot, 1;  setp.eq.u32 %p, %slot, %d;  @%p mov.u32 %slot, 0;  @%p xor.b32 %parity, %parity, 1;
"""
PLACE = (
    "shl.b32 %bar, %slot, 3;  add.u32 %bar, %base, %bar;  "
    "mad.lo.u32 %place, %slot, %c, %base;  add.u32 %place, %place, 1024;"
)


@dataclass(frozen=True)
class Source:
    """How one box is fetched: `load` starts it into [%place], signalling [%bar]."""

    name: str
    load: str
    tensor_map: bool


TENSOR = Source(
    "tensor",
    "add.u32 %j, %first_row, %row;  mbarrier.arrive.expect_tx.shared.b64 _, [%bar], %c;\n  "
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
    "[%place], [%map, {%column, %j}], [%bar];",
    True,
)
PLAIN = Source(
    "plain",
    "add.u32 %j, %first_row, %row;  mul.wide.u32 %wide, %j, 128;  add.u64 %wide, %a, %wide;\n  "
    "mbarrier.arrive.expect_tx.shared.b64 _, [%bar], %c;\n  "
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%place], [%wide], %c, [%bar];",
    False,
)


def _prepare(tensor_map: bool) -> str:
    return PREPARE.replace("{map}", "mov.b64 %map, p_map;  cvta.param.u64 %map, %map;" if tensor_map else "")


def _elected(label: str, text: str) -> str:
    """Run `text` by one thread of the warp.

    Of any other choice ptxas does not know that it is one thread: it would put a loop of 67 cycles around each TMA
    instruction.
    """
    return f"elect.sync %i|%chosen, -1;  @!%chosen bra {label};\n  {text}\n{label}:"


def _wait(label: str) -> str:
    return f"{label}:\n  mbarrier.try_wait.parity.shared.b64 %ready, [%bar], %parity;  @!%ready bra {label};"


def _ring(source: Source) -> str:
    """Build a ring: wait for the oldest box, refill its slot.

    It is filled first, and all boxes are awaited at the end.
    """
    advance = ADVANCE if source.tensor_map else ADVANCE_PLAIN
    fill = f"""mov.u32 %inner, 0;
RINGFILL:
  {PLACE}  {_elected("SKIPFILL", source.load)}  {advance}  {NEXT_SLOT}
  add.u32 %inner, %inner, 1;  setp.lt.u32 %p, %inner, %d;  @%p bra RINGFILL;
  mov.u32 %parity, 0;  mov.u32 %slot, 0;"""
    body = f"{PLACE}\n  {_wait('FULL')}\n  {_elected('SKIP', source.load)}  {advance}  {NEXT_SLOT}"
    drain = f"""mov.u32 %inner, 0;
DRAIN:
  {PLACE}
  {_wait("LAST")}
  {NEXT_SLOT}
  add.u32 %inner, %inner, 1;  setp.lt.u32 %p, %inner, %d;  @%p bra DRAIN;"""
    return timed(
        f"ring_{source.name}",
        body,
        setup=_prepare(source.tensor_map),
        select=SELECT.format(fill=fill),
        drain=drain,
        tensor_map=source.tensor_map,
    )


def _many(boxes: int) -> str:
    """Build a ring whose slots have several boxes behind one barrier.

    They are `boxes` boxes of %c / `boxes` bytes: what a box costs the TMA unit itself.
    """
    load = f"""mbarrier.arrive.expect_tx.shared.b64 _, [%bar], %c;  add.u32 %j, %first_row, %row;
  shr.u32 %part, %c, {boxes.bit_length() - 1};  shr.u32 %step, %part, 7;"""
    for _ in range(boxes):
        load += """
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%place], [%map, {%column, %j}], [%bar];
  add.u32 %place, %place, %part;  add.u32 %j, %j, %step;"""
    many = Source(f"{boxes}", load, True)
    return _ring(many).replace(".reg .pred %ready,", ".reg .b32 %part, %step; .reg .pred %ready,", 1)


STORE = """add.u32 %j, %first_row, %row;
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {%column, %j}], [%place];  cp.async.bulk.commit_group;"""


def _store(groups: int) -> str:
    """Boxes from shared memory, at most `groups` of them still being read."""
    store = f"{STORE}  cp.async.bulk.wait_group.read {groups - 1};"
    body = f"{PLACE}  {_elected('SKIP', store)}  {ADVANCE}  {NEXT_SLOT}"
    drain = "cp.async.bulk.wait_group 0;"
    return timed(
        f"store_{groups}", body, setup=_prepare(True), select=SELECT.format(fill=""), drain=drain, tensor_map=True
    )


def _store_alone() -> str:
    """Store a box and wait for its writes."""
    body = f"{PLACE}  {_elected('SKIP', f'{STORE}  cp.async.bulk.wait_group 0;')}  {ADVANCE}"
    return timed("store_alone", body, setup=_prepare(True), select=SELECT.format(fill=""), tensor_map=True)


def _multicast(size: int) -> str:
    """Multicast a CTA's share of each box to its cluster.

    A CTA fetches 1/size. A slot is refilled when all have seen it full.
    """
    setup = (
        _prepare(True).replace(
            "mbarrier.init.shared.b64 [%j], 1;",
            f"mbarrier.init.shared.b64 [%j], 1;  mbarrier.init.shared.b64 [%j+256], {size};",
        )
        + f"""
  .reg .b32 %rank, %part, %to, %remote, %peer, %seen; .reg .b16 %mask;
  mov.u32 %rank, %cluster_ctarank;  div.u32 %part, %c, {size};
  sub.u32 %i, %cta, %rank;  add.u32 %j, %e, 1;  mul.lo.u32 %first_row, %i, %j;
  shr.u32 %j, %part, 7;  mul.lo.u32 %j, %j, %rank;  add.u32 %first_row, %first_row, %j;
  mul.lo.u32 %to, %rank, %part;  mov.u16 %mask, {(1 << size) - 1};  mov.u32 %seen, 0;"""
    )
    load = """add.u32 %j, %first_row, %row;  add.u32 %i, %place, %to;
  mbarrier.arrive.expect_tx.shared.b64 _, [%bar], %c;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
    [%i], [%map, {%column, %j}], [%bar], %mask;"""
    fill = f"""mov.u32 %inner, 0;
RINGFILL:
  {PLACE}  {_elected("SKIPFILL", load)}  {ADVANCE}  {NEXT_SLOT}
  add.u32 %inner, %inner, 1;  setp.lt.u32 %p, %inner, %d;  @%p bra RINGFILL;
  mov.u32 %parity, 0;  mov.u32 %slot, 0;"""
    free = "\n  ".join(
        f"mapa.shared::cluster.u32 %remote, %bar, {peer};  add.u32 %remote, %remote, 256;\n  "
        "mbarrier.arrive.shared::cluster.b64 _, [%remote];"
        for peer in range(size)
    )
    empty = """EMPTY:
  mbarrier.try_wait.parity.shared.b64 %ready, [%bar+256], %parity;  @!%ready bra EMPTY;"""
    refill = f"{_elected('SKIP', load)}  {ADVANCE}  {NEXT_SLOT}"
    body = f"{PLACE}\n  {_wait('FULL')}\n  {_elected('KEPT', free)}\n  {empty}\n  {refill}"
    drain = f"""mov.u32 %inner, 0;
DRAIN:
  {PLACE}
  {_wait("LAST")}
  {NEXT_SLOT}
  add.u32 %inner, %inner, 1;  setp.lt.u32 %p, %inner, %d;  @%p bra DRAIN;"""
    return timed(
        f"multicast_{size}",
        body,
        setup=setup,
        select=fill,
        drain=drain,
        tensor_map=True,
        cluster=True,
    )


def kernels() -> list[str]:
    out = [_ring(TENSOR), _ring(PLAIN), _many(8), _store_alone()]
    return out + [_store(groups) for groups in (1, 2, 4)] + [_multicast(size) for size in (2, 4)]


def expected() -> dict[str, tuple[str, int]]:
    out = {
        "ring_tensor": ("UTMALDG", 2),
        "ring_8": ("UTMALDG", 16),
        "ring_plain": ("UBLKCP", 2),
        "store_alone": ("UTMASTG", 1),
    }
    return out | {"store_4": ("UTMASTG", 1), "multicast_2": ("UTMALDG", 2), "multicast_4": ("UTMALDG", 2)}


@dataclass(frozen=True)
class Setting:
    """Setting of a run.

    `sms`: SMs that take part, lowest numbers first (0: all). `pitch`: bytes between rows of the tensor.
    """

    kernel: str
    box: int
    slots: int
    sms: int
    dram: bool
    pitch: int = ROW_BYTES
    cluster: int = 1
    warps: int = 1

    def parameters(self) -> dict[str, object]:
        return {
            "kernel": self.kernel,
            "box_bytes": self.box,
            "boxes_in_flight": self.slots,
            "sms": self.sms or "all",
            "from": "DRAM" if self.dram else "L2",
            "row_pitch_bytes": self.pitch,
            "cluster": self.cluster,
            "warps": self.warps,
        }


def _run(gpu: Gpu, setting: Setting, iterations: int) -> Run:
    ctas = gpu.processors // setting.cluster * setting.cluster
    share = LARGE // 256 if setting.dram else RESIDENT_ROWS * ROW_BYTES  # bytes of a CTA
    part = setting.box // {"multicast_2": 2, "multicast_4": 4, "ring_8": 8}.get(setting.kernel, 1)
    buffer, columns = gpu.buffer("large", LARGE), setting.pitch // 2
    plain = setting.kernel == "ring_plain"
    arguments = Arguments(
        a=buffer if plain else columns,
        b=setting.sms,
        c=setting.box,
        d=setting.slots,
        e=share // setting.pitch,
        tensor_map=None if plain else gpu.tensor_map(buffer, columns, LARGE // setting.pitch, part // ROW_BYTES),
    )
    if setting.dram and setting.sms:  # what a few SMs read would stay in the L2 from one run to the next
        gpu.overwrite_l2()
    return gpu.run(setting.kernel, Shape(ctas, 32 * setting.warps, SHARED, setting.cluster), arguments, iterations)


def _bandwidth(setting: Setting) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        ctas = setting.sms or gpu.processors // setting.cluster * setting.cluster
        rounds = max(16, min(4000, (16 if setting.dram else 4) * MIB // 8 // setting.box))
        times = (rounds, 3 * rounds)
        if not setting.dram:
            _run(gpu, setting, RESIDENT_ROWS * ROW_BYTES // setting.box * 2)
        pairs = [tuple(_run(gpu, setting, count) for count in times) for _ in range(5)]
        reading = _by_global_timer(pairs, times, setting.box * setting.warps * ctas, ctas)
        cycles = sorted((many.cycles - few.cycles) / (times[1] - times[0]) for few, many in pairs)
        reading.also["cycles_per_box"] = cycles[len(cycles) // 2]
        reading.also["cycles_from_issue_to_wait"] = cycles[len(cycles) // 2] * setting.slots
        return reading

    return Benchmark("TMA", setting.parameters(), "bytes per cycle of an SM", measure)


def _tall(box: int, slots: int, ctas: int, pitch: int, lowest: bool = False) -> Benchmark:
    """Fetch boxes of a matrix with long rows, each CTA along its rows.

    A row is longer than a box's. It is what products of a few rows do whose other matrix is in L2. The CTAs are on SMs
    as the GPU gives them, or on the SMs of the `lowest` numbers. With rows of 128 bytes each CTA goes over 128 KiB that
    lie together.
    """

    def measure(gpu: Gpu) -> Reading:
        columns, rows = pitch // 2, box // ROW_BYTES
        own = rows if pitch > ROW_BYTES else RESIDENT_ROWS
        passes = own // rows * columns // (ROW_BYTES // 2)
        of_all = gpu.tensor_map(gpu.buffer("large", LARGE), columns, LARGE // pitch, rows)
        arguments = Arguments(a=columns, b=ctas if lowest else 0, c=box, d=slots, e=own, tensor_map=of_all)
        times, shape = (2 * passes, 8 * passes), Shape(gpu.processors if lowest else ctas, 32, SHARED)
        gpu.run("ring_tensor", shape, arguments, passes)
        pairs = [tuple(gpu.run("ring_tensor", shape, arguments, count) for count in times) for _ in range(5)]
        reading = _by_global_timer(pairs, times, box * ctas, ctas)
        cycles = sorted((many.cycles - few.cycles) / (times[1] - times[0]) for few, many in pairs)
        reading.also["cycles_per_box"] = cycles[len(cycles) // 2]
        return reading

    parameters = {"box_bytes": box, "boxes_in_flight": slots, "ctas": ctas, "row_pitch_bytes": pitch}
    parameters |= {"sms": "lowest" if lowest else "any"}
    return Benchmark("TMA along long rows", parameters, "bytes per cycle of an SM", measure)


def _past(rows: int, inside: int, wide: int, ctas: int = 1) -> Benchmark:
    """Fetch boxes whose last rows are outside of the matrix: they become zeros."""

    def measure(gpu: Gpu) -> Reading:
        columns, box, slots = 4096, rows * wide, 8
        of_all = gpu.tensor_map(gpu.buffer("large", LARGE), columns, inside, rows, wide // 2)
        arguments = Arguments(a=columns, c=box, d=slots, e=1, tensor_map=of_all)
        shape, times = Shape(ctas, 32, SHARED), (256, 1024)
        pairs = [tuple(gpu.run("ring_tensor", shape, arguments, count) for count in times) for _ in range(5)]
        values = sorted((many.cycles - few.cycles) / (times[1] - times[0]) for few, many in pairs)
        return Reading(values[2], values[0], values[-1], len(values), pairs[0][1].clock_mhz)

    parameters = {"rows": rows, "rows_inside": inside, "row_bytes": wide, "boxes_in_flight": 8, "ctas": ctas}
    return Benchmark("TMA, boxes partly outside", parameters, "cycles per box", measure)


def settings() -> Iterator[Setting]:
    kib = 1024
    for dram in (False, True):
        for box in (1 * kib, 2 * kib, 4 * kib, 8 * kib, 16 * kib, 32 * kib):
            yield Setting("ring_tensor", box, 1, 1, dram)
            yield Setting("ring_tensor", box, min(128 * kib // box, 30), 0, dram)
        for slots in (1, 2, 3, 4, 6, 8, 12, 24):
            yield Setting("ring_tensor", 8 * kib, slots, 0, dram)
        for sms in (1, 2, 4, 8, 16, 32, 64):
            yield Setting("ring_tensor", 32 * kib, 5, sms, dram)
        for sms in (1, 2):
            yield Setting("ring_tensor", 8 * kib, 16, sms, dram)
            yield Setting("ring_tensor", 16 * kib, 8, sms, dram)
        for box in (1, 2, 4, 8, 16, 32):
            yield Setting("ring_8", box * kib, 4, 1, dram)
            yield Setting("ring_8", box * kib, 1, 1, dram, warps=4)
        yield Setting("ring_8", 32 * kib, 4, 0, dram)
        yield Setting("ring_tensor", 8 * kib, 16, 0, dram, 1024)
        for slots in (1, 16):
            yield Setting("ring_plain", 8 * kib, slots, 0 if slots > 1 else 1, dram)
        for cluster in (2, 4):
            for box, slots in ((4 * kib, 1), (4 * kib, 24), (8 * kib, 1), (16 * kib, 6), (32 * kib, 5)):
                yield Setting(f"multicast_{cluster}", box, slots, 0, dram, cluster=cluster)
        yield Setting("store_alone", kib, 1, 1, dram)
        yield Setting("store_1", kib, 1, 1, dram)
        for box in (4 * kib, 16 * kib):
            yield Setting("store_alone", box, 1, 1, dram)
            yield Setting("store_1", box, 1, 1, dram)
            yield Setting("store_4", box, 4, 1, dram)
            yield Setting("store_1", box, 4, 0, dram)
            yield Setting("store_2", box, 4, 0, dram)
            yield Setting("store_4", box, 4, 0, dram)


def benchmarks() -> Iterator[Benchmark]:
    for setting in settings():
        yield _bandwidth(setting)
    for box, slots in ((8192, 8), (16384, 8), (16384, 2)):
        for ctas in (1, 8, 32, 64):
            for pitch in (128, 2048, 6144, 12288):
                yield _tall(box, slots, ctas, pitch)
    for ctas in (8, 32, 64):
        for pitch in (128, 2048, 6144):
            yield _tall(16384, 8, ctas, pitch, lowest=True)
    for rows, wide in ((128, 128), (128, 64), (256, 64), (64, 128)):
        for inside in (rows, rows // 2, rows // 4, 8):
            yield _past(rows, inside, wide)
    yield _past(128, 32, 128, 8)
    yield _past(128, 128, 128, 8)
