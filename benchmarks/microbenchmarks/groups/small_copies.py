"""Small global accesses: 4-byte cp.async, and loads during TMA copies."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.microbenchmarks.gpu import REPETITIONS, Arguments, Gpu, Shape
from benchmarks.microbenchmarks.groups import together
from benchmarks.microbenchmarks.groups.global_memory import LARGE
from benchmarks.microbenchmarks.groups.tma import ROW_BYTES
from benchmarks.microbenchmarks.kernel import timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading, Run, slope_reading

NAME = "small_copies"
UNROLL = 8
KIB = 1024
TIMES = (32, 160)
BOXES = 9000  # of the warp that copies: more than the timed loads take

# Lane and warp %thread copies from %a + %c thread to shared memory + %d thread.
PLACES = """
  .reg .b32 %to, %parity, %spare;  .reg .pred %ready;
  mul.wide.u32 %wide, %thread, %c;  add.u64 %a, %a, %wide;  mad.lo.u32 %to, %thread, %d, %base;
  add.u32 %to, %to, 1024;  mov.u32 %parity, 0;
  setp.ne.u32 %p, %thread, 0;  @%p bra MADE;
  mbarrier.init.shared.b64 [%base], %threads;
MADE:
"""
GROUP = "cp.async.ca.shared.global [%to], [%a], 4;  cp.async.commit_group;  cp.async.wait_group 0;"
BARRIER = """
  cp.async.ca.shared.global [%to], [%a], 4;  cp.async.mbarrier.arrive.noinc.shared.b64 [%base];
WAIT{i}:
  mbarrier.try_wait.parity.shared.b64 %ready, [%base], %parity;  @!%ready bra WAIT{i};
  xor.b32 %parity, %parity, 1;"""
WAITS = {"wait_group": GROUP, "mbarrier": BARRIER}


def _together() -> str:
    """Build dependent loads of one line in one warp, box copies in another."""
    select = together.RING.replace("setp.lt.u32 %q, %warp, 8;", "setp.lt.u32 %q, %warp, 1;")
    assert select != together.RING
    one = "cvt.u64.u32 %wide, %sink;  add.u64 %address, %a, %wide;  ld.global.cg.u32 %sink, [%address];"
    setup = together.LOADER + "mul.wide.u32 %wide, %lane, 4;  add.u64 %a, %a, %wide;"
    return timed("beside", "\n  ".join([one] * UNROLL), setup=setup, select=select, drain="STOP:", tensor_map=True)


def kernels() -> list[str]:
    result = []
    for name, text in WAITS.items():
        body = "\n  ".join(text.replace("{i}", str(i)) for i in range(UNROLL))
        result.append(timed(f"copy_{name}", body, setup=PLACES))
    return [*result, _together()]


def expected() -> dict[str, tuple[str, int]]:
    return {f"copy_{name}": ("LDGSTS", UNROLL) for name in WAITS} | {"beside": ("LDG", UNROLL)}


def _copy(wait: str, between: int, to: int, warps: int, everywhere: bool) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        shape = Shape(gpu.processors if everywhere else 1, 32 * warps, 8 * KIB)
        arguments = Arguments(a=gpu.buffer("large", LARGE), c=between, d=to)
        return gpu.slope(f"copy_{wait}", shape, arguments, TIMES, UNROLL)

    parameters = {"wait": wait, "bytes_between_lanes": between, "between_their_places": to, "warps": warps}
    parameters["sms"] = "all" if everywhere else 1
    return Benchmark("cp.async of 4 bytes and its wait", parameters, "cycles", measure)


def _load(sms: int, copies: bool) -> Benchmark:
    """Return cycles of a load that hits L2, with or without copies.

    The SM's other warp copies boxes into shared memory.
    """

    def measure(gpu: Gpu) -> Reading:
        zeros = gpu.buffer("zeros", 4 * KIB)
        gpu.write(zeros, np.zeros(512, np.uint64))
        tensor = gpu.tensor_map(gpu.buffer("large", LARGE), 64, LARGE // ROW_BYTES, together.BOX // ROW_BYTES)
        boxes = BOXES if copies else together.SLOTS
        shape = Shape(sms or gpu.processors, 64, together.SHARED)
        arguments = Arguments(a=zeros, c=boxes, tensor_map=tensor)

        def run(rounds: int) -> tuple[Run, Run]:
            result = gpu.run("beside", shape, arguments, rounds)
            return Run(result.stamps[:, :1, :]), Run(result.stamps[:, 1:, :])

        run(TIMES[0])
        pairs = [(run(TIMES[0]), run(TIMES[1])) for _ in range(REPETITIONS)]
        result = slope_reading([(few[0], many[0]) for few, many in pairs], TIMES, UNROLL)
        loader = pairs[-1][1][1]
        also = {"bytes_per_cycle_of_an_sm": boxes * together.BOX / loader.cycles, "copied_for_cycles": loader.cycles}
        also["loaded_for_cycles"] = pairs[-1][1][0].cycles
        return Reading(result.value, result.low, result.high, result.repetitions, result.sm_clock_mhz, also)

    return Benchmark("loads from L2 beside copies by TMA", {"sms": sms or "all", "copies": copies}, "cycles", measure)


def benchmarks() -> Iterator[Benchmark]:
    for wait in WAITS:
        for between, to in ((4, 4), (0, 4), (0, 0)):
            for warps in (1, 4):
                yield _copy(wait, between, to, warps, False)
        yield _copy(wait, 0, 0, 4, True)
    for sms in (1, 0):
        for copies in (False, True):
            yield _load(sms, copies)
