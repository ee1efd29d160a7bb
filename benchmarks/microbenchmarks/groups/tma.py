"""TMA: loads from L2 and DRAM by box, bytes in flight and SMs; stores."""

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
  mov.b64 %map, p_map;  cvta.param.u64 %map, %map;
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
NEXT_SLOT = """
  add.u32 %slot, %slot, 1;  setp.eq.u32 %p, %slot, %d;  @%p mov.u32 %slot, 0;  @%p xor.b32 %parity, %parity, 1;
"""
PLACE = (
    "shl.b32 %bar, %slot, 3;  add.u32 %bar, %base, %bar;  "
    "mad.lo.u32 %place, %slot, %c, %base;  add.u32 %place, %place, 1024;"
)


COPY = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%place], [%map, {%column, %j}], "
    "[%bar];"
)
# Fetches a box into [%place], signalling [%bar].
LOAD = f"add.u32 %j, %first_row, %row;  mbarrier.arrive.expect_tx.shared.b64 _, [%bar], %c;\n  {COPY}"


def _elected(label: str, text: str) -> str:
    """Run `text` by one thread of the warp.

    Of any other choice ptxas does not know that it is one thread: it would put a loop of 67 cycles around each TMA
    instruction.
    """
    return f"elect.sync %i|%chosen, -1;  @!%chosen bra {label};\n  {text}\n{label}:"


def _wait(label: str) -> str:
    return f"{label}:\n  mbarrier.try_wait.parity.shared.b64 %ready, [%bar], %parity;  @!%ready bra {label};"


def _ring(name: str, load: str = LOAD) -> str:
    """Build a ring that is filled, waits for the oldest box, refills, and drains."""
    fill = f"""mov.u32 %inner, 0;
RINGFILL:
  {PLACE}  {_elected("SKIPFILL", load)}  {ADVANCE}  {NEXT_SLOT}
  add.u32 %inner, %inner, 1;  setp.lt.u32 %p, %inner, %d;  @%p bra RINGFILL;
  mov.u32 %parity, 0;  mov.u32 %slot, 0;"""
    body = f"{PLACE}\n  {_wait('FULL')}\n  {_elected('SKIP', load)}  {ADVANCE}  {NEXT_SLOT}"
    drain = f"""mov.u32 %inner, 0;
DRAIN:
  {PLACE}
  {_wait("LAST")}
  {NEXT_SLOT}
  add.u32 %inner, %inner, 1;  setp.lt.u32 %p, %inner, %d;  @%p bra DRAIN;"""
    return timed(f"ring_{name}", body, setup=PREPARE, select=SELECT.format(fill=fill), drain=drain, tensor_map=True)


def _many(boxes: int) -> str:
    """Build a ring whose slots have several boxes behind one barrier.

    They are `boxes` boxes of %c / `boxes` bytes: what a box costs the TMA unit itself.
    """
    load = f"""mbarrier.arrive.expect_tx.shared.b64 _, [%bar], %c;  add.u32 %j, %first_row, %row;
  shr.u32 %part, %c, {boxes.bit_length() - 1};  shr.u32 %step, %part, 7;"""
    for _ in range(boxes):
        load += f"\n  {COPY}  add.u32 %place, %place, %part;  add.u32 %j, %j, %step;"
    return _ring(f"{boxes}", load).replace(".reg .pred %ready,", ".reg .b32 %part, %step; .reg .pred %ready,", 1)


STORE = """add.u32 %j, %first_row, %row;
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {%column, %j}], [%place];  cp.async.bulk.commit_group;"""


def _store(name: str, wait: str, then: str = "", drain: str = "") -> str:
    """Store a box and wait."""
    body = f"{PLACE}  {_elected('SKIP', f'{STORE}  {wait}')}  {ADVANCE}  {then}"
    return timed(name, body, setup=PREPARE, select=SELECT.format(fill=""), drain=drain, tensor_map=True)


def kernels() -> list[str]:
    written = "cp.async.bulk.wait_group 0;"
    four = _store("store_4", "cp.async.bulk.wait_group.read 3;", NEXT_SLOT, written)
    return [_ring("tensor"), _many(8), _store("store_alone", written), four]


def expected() -> dict[str, tuple[str, int]]:
    loads = {"ring_tensor": ("UTMALDG", 2), "ring_8": ("UTMALDG", 16)}
    return loads | {"store_alone": ("UTMASTG", 1), "store_4": ("UTMASTG", 1)}


@dataclass(frozen=True)
class Setting:
    """Setting of a run; `sms`: SMs that take part, lowest first (0: all)."""

    kernel: str
    box: int
    slots: int
    sms: int
    dram: bool = False
    warps: int = 1

    def parameters(self) -> dict[str, object]:
        return {
            "kernel": self.kernel,
            "box_bytes": self.box,
            "boxes_in_flight": self.slots,
            "sms": self.sms or "all",
            "from": "DRAM" if self.dram else "L2",
            "row_pitch_bytes": ROW_BYTES,
            "cluster": 1,
            "warps": self.warps,
        }


def _run(gpu: Gpu, setting: Setting, iterations: int) -> Run:
    share = LARGE // 256 if setting.dram else RESIDENT_ROWS * ROW_BYTES  # bytes of a CTA
    part, columns = setting.box // (8 if setting.kernel == "ring_8" else 1), ROW_BYTES // 2
    of_all = gpu.tensor_map(gpu.buffer("large", LARGE), columns, LARGE // ROW_BYTES, part // ROW_BYTES)
    arguments = Arguments(
        a=columns, b=setting.sms, c=setting.box, d=setting.slots, e=share // ROW_BYTES, tensor_map=of_all
    )
    if setting.dram and setting.sms:  # what a few SMs read would stay in the L2 from one run to the next
        gpu.overwrite_l2()
    return gpu.run(setting.kernel, Shape(gpu.processors, 32 * setting.warps, SHARED), arguments, iterations)


def _bandwidth(setting: Setting) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        ctas = setting.sms or gpu.processors
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


def _tall(ctas: int) -> Benchmark:
    """Fetch boxes of a matrix with long rows, each CTA along its rows.

    It is what products of a few rows do whose other matrix is in L2. The CTAs are on SMs as the GPU gives them.
    """
    box, slots, pitch = 16384, 8, 2048

    def measure(gpu: Gpu) -> Reading:
        columns, rows = pitch // 2, box // ROW_BYTES
        passes = columns // (ROW_BYTES // 2)
        of_all = gpu.tensor_map(gpu.buffer("large", LARGE), columns, LARGE // pitch, rows)
        arguments = Arguments(a=columns, c=box, d=slots, e=rows, tensor_map=of_all)
        times, shape = (2 * passes, 8 * passes), Shape(ctas, 32, SHARED)
        gpu.run("ring_tensor", shape, arguments, passes)
        pairs = [tuple(gpu.run("ring_tensor", shape, arguments, count) for count in times) for _ in range(5)]
        reading = _by_global_timer(pairs, times, box * ctas, ctas)
        cycles = sorted((many.cycles - few.cycles) / (times[1] - times[0]) for few, many in pairs)
        reading.also["cycles_per_box"] = cycles[len(cycles) // 2]
        return reading

    parameters = {"box_bytes": box, "boxes_in_flight": slots, "ctas": ctas, "row_pitch_bytes": pitch, "sms": "any"}
    return Benchmark("TMA along long rows", parameters, "bytes per cycle of an SM", measure)


def settings() -> Iterator[Setting]:
    kib = 1024
    for box in (1 * kib, 8 * kib, 16 * kib):
        yield Setting("ring_tensor", box, 1, 1)
    yield Setting("ring_tensor", 32 * kib, 4, 0)
    for sms in (1, 2):
        yield Setting("ring_tensor", 32 * kib, 5, sms)
    yield Setting("ring_8", 1 * kib, 1, 1, warps=4)
    for box in (4 * kib, 16 * kib):
        yield Setting("store_alone", box, 1, 1)
    yield Setting("store_4", 16 * kib, 4, 1)
    for box in (1 * kib, 8 * kib):
        yield Setting("ring_tensor", box, 1, 1, dram=True)
    for dram in (False, True):
        for slots in (1, 2, 3):
            yield Setting("ring_tensor", 8 * kib, slots, 0, dram)


def benchmarks() -> Iterator[Benchmark]:
    for setting in settings():
        yield _bandwidth(setting)
    for ctas in (8, 32, 64):
        yield _tall(ctas)
