"""Bursts: an SM copies some KiB at once, then pauses; the others alternate.

On average the GPU is asked for less than it can give; how long a burst takes says how far ahead
of its even share of L2's bandwidth an SM may run.
"""

from collections.abc import Iterator

import numpy as np

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.groups.global_memory import LARGE
from benchmarks.microbenchmarks.groups.tma import RESIDENT_ROWS, ROW_BYTES, SHARED
from benchmarks.microbenchmarks.kernel import timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "bursts"
KIB = 1024
BOX = 16 * KIB
COPIES_KIB = (16, 64, 128, 192)
COPY_DEMANDS = (8, 16, 24, 30)  # bytes a cycle and SM on average
ROUNDS = 64
REPETITIONS = 3
STEP = 7919  # cycles, modulo the period, between the bursts of one CTA and the next
# %d: boxes in a burst; %e: cycles from the start of one to the start of the next.
CLOCKS = """
  .reg .b64 %next, %total, %now, %then;  .reg .b32 %place, %row, %first_row, %inner, %parity, %phase;
  .reg .pred %ready, %chosen;  .reg .b64 %map, %to;
  mov.u64 %total, 0;  mov.u32 %parity, 0;
"""
START = f"""
  mul.lo.u32 %phase, %cta, {STEP};  rem.u32 %phase, %phase, %e;
  mov.u64 %next, %clock64;  cvt.u64.u32 %wide, %phase;  add.u64 %next, %next, %wide;
"""
PAUSE = """
PAUSE:
  mov.u64 %now, %clock64;  setp.lt.u64 %p, %now, %next;  @%p bra PAUSE;
  cvt.u64.u32 %wide, %e;  add.u64 %next, %next, %wide;
"""
COUNTED = """
  mov.u64 %then, %clock64;  sub.u64 %then, %then, %now;  add.u64 %total, %total, %then;
"""
# The stamps say the sum of the bursts in place of the end.
AFTER = "add.u64 %t1, %t0, %total;"


def _copies() -> str:
    setup = f"""{CLOCKS}
  mov.b64 %map, p_map;  cvta.param.u64 %map, %map;  mul.lo.u32 %first_row, %cta, {RESIDENT_ROWS};
  setp.ne.u32 %p, %lane, 0;  @%p bra MADE;
  mbarrier.init.shared.b64 [%base], 1;  fence.mbarrier_init.release.cluster;  fence.proxy.async.shared::cta;
MADE:"""
    body = f"""{PAUSE}
  mov.u32 %inner, 0;  mov.u32 %row, 0;  add.u32 %place, %base, 1024;
  elect.sync %i|%chosen, -1;  @!%chosen bra ARMED;
  mul.lo.u32 %i, %d, {BOX};  mbarrier.arrive.expect_tx.shared.b64 _, [%base], %i;
ARMED:
  bar.warp.sync -1;
ISSUE:
  elect.sync %i|%chosen, -1;  @!%chosen bra SKIP;
  add.u32 %j, %first_row, %row;  mov.u32 %i, 0;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%place], [%map, {{%i, %j}}], [%base];
SKIP:
  add.u32 %row, %row, {BOX // ROW_BYTES};  and.b32 %row, %row, {RESIDENT_ROWS - 1};  add.u32 %place, %place, {BOX};
  add.u32 %inner, %inner, 1;  setp.lt.u32 %p, %inner, %d;  @%p bra ISSUE;
WAIT:
  mbarrier.try_wait.parity.shared.b64 %ready, [%base], %parity;  @!%ready bra WAIT;
  xor.b32 %parity, %parity, 1;
  {COUNTED}"""
    return timed("burst_copy", body, setup=setup, select=START, after=AFTER, tensor_map=True, keep=False)


def kernels() -> list[str]:
    return [_copies()]


def expected() -> dict[str, tuple[str, int]]:
    return {"burst_copy": ("UTMALDG", 1)}


def _burst(kib: int, demand: int, everywhere: bool) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        large = gpu.buffer("large", LARGE)
        tensor = gpu.tensor_map(large, 64, LARGE // ROW_BYTES, BOX // ROW_BYTES)
        arguments = Arguments(a=large, d=kib * KIB // BOX, e=kib * KIB // demand, tensor_map=tensor)
        shape = Shape(gpu.processors if everywhere else 1, 32, SHARED)
        gpu.run("burst_copy", shape, arguments, ROUNDS)
        values, slowest = [], []
        for _ in range(REPETITIONS):
            stamps = gpu.run("burst_copy", shape, arguments, ROUNDS).stamps
            cycles = (stamps[:, :, 1] - stamps[:, :, 0]).max(axis=1) / ROUNDS
            values.append(float(np.mean(cycles)))
            slowest.append(float(np.max(cycles)))
        values.sort()
        also = {"slowest_sm": max(slowest), "bytes_per_cycle": kib * KIB / values[REPETITIONS // 2]}
        return Reading(values[REPETITIONS // 2], values[0], values[-1], REPETITIONS, None, also)

    parameters = {"what": "burst_copy", "burst_kib": kib, "bytes_a_cycle_on_average": demand}
    return Benchmark("burst", parameters | {"sms": "all" if everywhere else 1}, "cycles per burst", measure)


def benchmarks() -> Iterator[Benchmark]:
    for everywhere in (False, True):
        for kib in COPIES_KIB:
            for demand in COPY_DEMANDS if everywhere else COPY_DEMANDS[:1]:
                yield _burst(kib, demand, everywhere)
