"""Loads of one line from L2 during TMA copies."""

from collections.abc import Iterator

import numpy as np

from benchmarks.microbenchmarks.gpu import REPETITIONS, Arguments, Gpu, Shape
from benchmarks.microbenchmarks.groups.global_memory import LARGE
from benchmarks.microbenchmarks.groups.tma import RESIDENT_ROWS, ROW_BYTES
from benchmarks.microbenchmarks.kernel import timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading, Run, slope_reading

NAME = "small_copies"
UNROLL = 8
KIB = 1024
TIMES = (32, 160)
BOXES = 9000  # of the warp that copies: more than the timed loads take
BOX, SLOTS = 8192, 12
RING_AT = 72 * 1024  # of shared memory
SHARED = RING_AT + 1024 + BOX * SLOTS

# The second warp fetches %c boxes of 64 rows into a ring, for as long as it takes, and then goes where the others end.
LOADER = f"""
  .reg .b32 %bar, %place, %slot, %parity, %row, %first_row, %inner; .reg .pred %ready, %chosen; .reg .b64 %map;
  .reg .b32 %ring;
  mov.b64 %map, p_map;  cvta.param.u64 %map, %map;
  add.u32 %ring, %base, {RING_AT};
  @!%first bra PREPARED;
  mov.u32 %i, 0;
PREPARE:
  shl.b32 %j, %i, 3;  add.u32 %j, %ring, %j;  mbarrier.init.shared.b64 [%j], 1;
  add.u32 %i, %i, 1;  setp.lt.u32 %p, %i, {SLOTS};  @%p bra PREPARE;
  fence.mbarrier_init.release.cluster;  fence.proxy.async.shared::cta;
PREPARED:
"""
RING = f"""
  setp.lt.u32 %q, %warp, 1;  @%q bra LOAD;
  mov.u64 %g0, %globaltimer;  mov.u64 %t0, %clock64;
  mul.lo.u32 %first_row, %cta, {RESIDENT_ROWS};  mov.u32 %row, 0;  mov.u32 %slot, 0;  mov.u32 %parity, 1;
  mov.u32 %inner, 0;
RINGLOOP:
  shl.b32 %bar, %slot, 3;  add.u32 %bar, %ring, %bar;  mad.lo.u32 %place, %slot, {BOX}, %ring;
  add.u32 %place, %place, 1024;  setp.lt.u32 %p, %inner, {SLOTS};  @%p bra EMPTY;
FULL:
  mbarrier.try_wait.parity.shared.b64 %ready, [%bar], %parity;  @!%ready bra FULL;
EMPTY:
  elect.sync %i|%chosen, -1;  @!%chosen bra SKIP;
  add.u32 %j, %first_row, %row;  mbarrier.arrive.expect_tx.shared.b64 _, [%bar], {BOX};  mov.u32 %i, 0;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%place], [%map, {{%i, %j}}], [%bar];
SKIP:
  add.u32 %row, %row, {BOX // ROW_BYTES};  and.b32 %row, %row, {RESIDENT_ROWS - 1};
  add.u32 %slot, %slot, 1;  setp.eq.u32 %p, %slot, {SLOTS};  @%p mov.u32 %slot, 0;  @%p xor.b32 %parity, %parity, 1;
  add.u32 %inner, %inner, 1;  setp.lt.u32 %p, %inner, %c;  @%p bra RINGLOOP;
  mov.u32 %inner, 0;
DRAIN:
  shl.b32 %bar, %slot, 3;  add.u32 %bar, %ring, %bar;
LAST:
  mbarrier.try_wait.parity.shared.b64 %ready, [%bar], %parity;  @!%ready bra LAST;
  add.u32 %slot, %slot, 1;  setp.eq.u32 %p, %slot, {SLOTS};  @%p mov.u32 %slot, 0;  @%p xor.b32 %parity, %parity, 1;
  add.u32 %inner, %inner, 1;  setp.lt.u32 %p, %inner, {SLOTS};  @%p bra DRAIN;
  bra STOP;
LOAD:
"""


def _beside() -> str:
    """Build dependent loads of one line in one warp, box copies in another."""
    one = "cvt.u64.u32 %wide, %sink;  add.u64 %address, %a, %wide;  ld.global.cg.u32 %sink, [%address];"
    setup = LOADER + "mul.wide.u32 %wide, %lane, 4;  add.u64 %a, %a, %wide;"
    return timed("beside", "\n  ".join([one] * UNROLL), setup=setup, select=RING, drain="STOP:", tensor_map=True)


def kernels() -> list[str]:
    return [_beside()]


def expected() -> dict[str, tuple[str, int]]:
    return {"beside": ("LDG", UNROLL)}


def _load(copies: bool) -> Benchmark:
    """Return cycles of an L2 hit, with or without the other warp's copies."""

    def measure(gpu: Gpu) -> Reading:
        zeros = gpu.buffer("zeros", 4 * KIB)
        gpu.write(zeros, np.zeros(512, np.uint64))
        tensor = gpu.tensor_map(gpu.buffer("large", LARGE), 64, LARGE // ROW_BYTES, BOX // ROW_BYTES)
        boxes = BOXES if copies else SLOTS
        shape = Shape(gpu.processors, 64, SHARED)
        arguments = Arguments(a=zeros, c=boxes, tensor_map=tensor)

        def run(rounds: int) -> tuple[Run, Run]:
            result = gpu.run("beside", shape, arguments, rounds)
            return Run(result.stamps[:, :1, :]), Run(result.stamps[:, 1:, :])

        run(TIMES[0])
        pairs = [(run(TIMES[0]), run(TIMES[1])) for _ in range(REPETITIONS)]
        result = slope_reading([(few[0], many[0]) for few, many in pairs], TIMES, UNROLL)
        loader = pairs[-1][1][1]
        also = {"bytes_per_cycle_of_an_sm": boxes * BOX / loader.cycles, "copied_for_cycles": loader.cycles}
        also["loaded_for_cycles"] = pairs[-1][1][0].cycles
        return Reading(result.value, result.low, result.high, result.repetitions, result.sm_clock_mhz, also)

    return Benchmark("loads from L2 beside copies by TMA", {"sms": "all", "copies": copies}, "cycles", measure)


def benchmarks() -> Iterator[Benchmark]:
    for copies in (False, True):
        yield _load(copies)
