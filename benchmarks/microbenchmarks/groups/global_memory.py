"""Ordinary loads and stores, atomics and cp.async: latency and bandwidth from L1, L2 and DRAM."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import lines, registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading, Run, slope_reading

NAME = "global_memory"
UNROLL = 8
BLOCK = 512
CHASE_UNROLL = 16
LARGE = 1 << 32
MIB = 1 << 20
WIDTHS = {4: ".u32", 8: ".v2.u32", 16: ".v4.u32"}

# The CTA's part of a footprint of %c + 1 bytes (a power of two): rounds of UNROLL · BLOCK · width,
# the grid side by side.
SWEEP = """
  .reg .b32 %offset, %step; .reg .b64 %at<{unroll}>; {values}
  mul.lo.u32 %step, %threads, {width};  mul.lo.u32 %offset, %cta, %step;  mul.lo.u32 %offset, %offset, {unroll};
  mad.lo.u32 %offset, %thread, {width}, %offset;
  mov.u32 %j, %nctaid.x;  mul.lo.u32 %e, %j, %step;  mul.lo.u32 %e, %e, {unroll};
  {fill}
"""


def _addresses(pointer: str) -> str:
    """Compute UNROLL addresses a block apart, wrapped at the footprint.

    A step of the whole grid follows.
    """
    out = []
    for i in range(UNROLL):
        out.append(f"mad.lo.u32 %i, %step, {i}, %offset;  and.b32 %i, %i, %c;  cvt.u64.u32 %wide, %i;")
        out.append(f"add.u64 %at{i}, {pointer}, %wide;")
    return "\n  ".join([*out, "add.u32 %offset, %offset, %e;"])


def _vector(width: int, first: int) -> str:
    names = [f"%v{first + k}" for k in range(width // 4)]
    return names[0] if width == 4 else "{" + ", ".join(names) + "}"


def _setup(width: int) -> str:
    values = registers("b32", "%v", UNROLL * width // 4)
    fill = lines("add.u32 %v{i}, %thread, {i};", UNROLL * width // 4)
    return SWEEP.format(unroll=UNROLL, width=width, values=values, fill=fill)


def _load(cache: str, width: int) -> str:
    loads = [f"ld.global.{cache}{WIDTHS[width]} {_vector(width, i * width // 4)}, [%at{i}];" for i in range(UNROLL)]
    folds = [f"xor.b32 %sink, %sink, %v{i};" for i in range(0, UNROLL * width // 4, width // 4)]
    return timed(f"ld_{cache}_{width}", "\n  ".join([_addresses("%a"), *loads, *folds]), setup=_setup(width))


def _laps(copies: bool) -> str:
    """Build 16-byte loads in laps of a footprint of %c bytes.

    It is a multiple of what the grid reads in a step (%e). With `copies`, stores of what was loaded to the same places
    of a second buffer.
    """
    setup = "  .reg .b32 %offset; .reg .b64 %at, %to<8>; " + registers("b32", "%v", 4 * UNROLL)
    setup += """
  mad.lo.u32 %offset, %cta, %threads, %thread;  mul.lo.u32 %offset, %offset, 16;
  mov.u32 %j, %nctaid.x;  mul.lo.u32 %e, %j, %threads;  mul.lo.u32 %e, %e, 16;"""
    body = ""
    for i in range(UNROLL):
        body += f"""
  cvt.u64.u32 %at, %offset;  add.u64 %to{i}, %b, %at;  add.u64 %at, %a, %at;
  ld.global.cg.v4.u32 {_vector(16, 4 * i)}, [%at];
  add.u32 %offset, %offset, %e;  setp.ge.u32 %p, %offset, %c;  @%p sub.u32 %offset, %offset, %c;"""
    for i in range(UNROLL):
        used = f"st.global.v4.u32 [%to{i}], {_vector(16, 4 * i)};" if copies else f"xor.b32 %sink, %sink, %v{4 * i};"
        body += "\n  " + used
    return timed("laps_copy" if copies else "laps", body, setup=setup)


def _store(width: int) -> str:
    stores = [f"st.global{WIDTHS[width]} [%at{i}], {_vector(width, i * width // 4)};" for i in range(UNROLL)]
    return timed(f"st_{width}", "\n  ".join([_addresses("%a"), *stores]), setup=_setup(width))


def _copy() -> str:
    setup = _setup(16).replace(".reg .b64 %at", ".reg .b64 %to<8>, %at", 1)
    loads = [f"ld.global.v4.u32 {_vector(16, 4 * i)}, [%at{i}];" for i in range(UNROLL)]
    stores = [f"sub.u64 %wide, %at{i}, %a; add.u64 %to{i}, %b, %wide;" for i in range(UNROLL)]
    stores += [f"st.global.v4.u32 [%to{i}], {_vector(16, 4 * i)};" for i in range(UNROLL)]
    return timed("copy", "\n  ".join([_addresses("%a"), *loads, *stores]), setup=setup)


def _async_copy() -> str:
    """Build cp.async of 16 bytes a thread, UNROLL per group, double-buffered."""
    setup = _setup(16) + "  .reg .b32 %to; mad.lo.u32 %to, %thread, 16, %base;"
    half = BLOCK * 16 * UNROLL
    one = [f"cp.async.cg.shared.global [%to+{BLOCK * 16 * i}], [%at{i}], 16;" for i in range(UNROLL)]
    turn = f"sub.u32 %i, %to, %base;  xor.b32 %i, %i, {half};  add.u32 %to, %base, %i;"
    body = "\n  ".join([_addresses("%a"), *one, turn, "cp.async.commit_group;  cp.async.wait_group 1;"])
    return timed("cp_async", body, setup=setup, drain="cp.async.wait_group 0;")


def _chase(cache: str) -> str:
    """Build a chain of pointers from %a on, lanes %c bytes apart."""
    setup = "mul.lo.u32 %i, %lane, %c;  cvt.u64.u32 %wide, %i;  add.u64 %address, %a, %wide;"
    body = "\n  ".join([f"ld.global.{cache}.u64 %address, [%address];"] * CHASE_UNROLL)
    return timed(f"chase_{cache}", body, setup=setup, after="cvt.u32.u64 %sink, %address;")


def _async_latency() -> str:
    setup = ".reg .b32 %to; mad.lo.u32 %to, %thread, 16, %base; mul.wide.u32 %wide, %thread, 16; add.u64 %a, %a, %wide;"
    one = "cp.async.cg.shared.global [%to], [%a], 16; cp.async.commit_group; cp.async.wait_group 0;"
    return timed("cp_async_alone", "\n  ".join([one] * CHASE_UNROLL), setup=setup)


def _atomics() -> list[str]:
    lane = (
        "mul.wide.u32 %wide, %thread, %c; add.u64 %a, %a, %wide; mul.wide.u32 %wide, %cta, %d; add.u64 %a, %a, %wide;"
    )
    chain = "\n  ".join(["atom.global.add.u32 %sink, [%a], %sink;"] * CHASE_UNROLL)
    red = "\n  ".join(["red.global.add.u32 [%a], 1;"] * CHASE_UNROLL)
    red_f32 = "\n  ".join(["red.global.add.f32 [%a], 0f3F800000;"] * CHASE_UNROLL)
    fence = "\n  ".join(["st.global.u32 [%a], %sink; fence.acq_rel.gpu;"] * CHASE_UNROLL)
    empty_fence = "\n  ".join(["fence.acq_rel.gpu;"] * CHASE_UNROLL)
    return [
        timed("atom", chain, setup=lane),
        timed("red", red, setup=lane),
        timed("red_f32", red_f32, setup=lane),
        timed("store_fence", fence, setup=lane),
        timed("fence", empty_fence, setup=lane),
    ]


def kernels() -> list[str]:
    out = [_load(cache, width) for cache in ("ca", "cg") for width in WIDTHS]
    out += (
        [_laps(False), _laps(True)] + [_store(width) for width in WIDTHS] + [_copy(), _async_copy(), _async_latency()]
    )
    return out + [_chase(cache) for cache in ("ca", "cg")] + _atomics()


def expected() -> dict[str, tuple[str, int]]:
    out = {f"ld_{cache}_{width}": ("LDG", UNROLL) for cache in ("ca", "cg") for width in WIDTHS}
    out |= {f"st_{width}": ("STG", UNROLL) for width in WIDTHS} | {
        "laps": ("LDG", UNROLL),
        "laps_copy": ("STG", UNROLL),
        "copy": ("LDG", UNROLL),
        "cp_async": ("LDGSTS", UNROLL),
    }
    out |= {f"chase_{cache}": ("LDG", CHASE_UNROLL) for cache in ("ca", "cg")} | {
        "cp_async_alone": ("LDGSTS", CHASE_UNROLL)
    }
    return out | {"atom": ("ATOM", CHASE_UNROLL), "red": ("RED", CHASE_UNROLL), "fence": ("MEMBAR|FENCE", CHASE_UNROLL)}


def _latency(cache: str, footprint: int, where: str) -> Benchmark:
    """Chase a random cycle through lines of a footprint with one thread.

    A lap before brings it where it belongs. From DRAM: 65,536 lines spread over the footprint, and the L2 overwritten
    before each run.
    """
    cold = footprint > 64 * MIB
    stride = footprint // 65_536 if cold else 128

    def measure(gpu: Gpu) -> Reading:
        buffer = gpu.buffer("large", LARGE)
        order = np.random.default_rng(1).permutation(footprint // stride).astype(np.uint64)
        links = np.zeros(len(order), np.uint64)
        links[order] = buffer + np.roll(order, -1) * stride
        gpu.write_spaced(buffer, stride, links)
        arguments = Arguments(a=buffer + int(order[0]) * stride)

        def run(rounds: int) -> Run:
            if cold:
                gpu.overwrite_l2()
            return gpu.run(f"chase_{cache}", Shape(), arguments, rounds)

        run(1 if cold else len(order) // CHASE_UNROLL + 1)
        pairs = [(run(200), run(600)) for _ in range(5)]
        return slope_reading(pairs, (200, 600), CHASE_UNROLL)

    parameters = {"instruction": f"ld.global.{cache}.u64", "from": where, "footprint_bytes": footprint}
    return Benchmark("global latency", parameters, "cycles", measure)


def _sweep(kernel: str, width: int, footprint: int, where: str, everywhere: bool, per_processor: int = 2) -> Benchmark:
    """Measure the bandwidth over a footprint after a warm-up lap.

    It is the slope between few and many rounds.
    """

    def measure(gpu: Gpu) -> Reading:
        ctas = per_processor * gpu.processors if everywhere else 1
        each = UNROLL * BLOCK * width * (2 if kernel == "copy" else 1)
        arguments = Arguments(
            a=gpu.buffer("large", LARGE),
            b=gpu.buffer("other", LARGE // 4) if kernel == "copy" else 0,
            c=footprint - 1,
        )
        rounds = max(8, min(400, LARGE // 4 // (each * ctas)))
        shape = Shape(ctas, BLOCK, 128 * 1024 if kernel == "cp_async" else 0)
        if footprint <= 256 * MIB:
            gpu.run(kernel, shape, arguments, footprint // (UNROLL * BLOCK * width * ctas) + 1)
        times = (rounds, 3 * rounds)
        if not everywhere and footprint > 256 * MIB:  # the little that one SM reads would stay in the L2
            pairs = [tuple(_overwritten(gpu, kernel, shape, arguments, count) for count in times) for _ in range(5)]
            return slope_reading(pairs, times, each, bytes_per_iteration=each, rate=True)
        gpu.run(kernel, shape, arguments, rounds)
        pairs = [tuple(gpu.run(kernel, shape, arguments, count) for count in times) for _ in range(5)]
        if everywhere:
            return _by_global_timer(pairs, times, each * ctas, gpu.processors)
        return slope_reading(pairs, times, each, bytes_per_iteration=each * ctas, rate=True)

    where_from = {"kernel": kernel, "from": where, "footprint_bytes": footprint}
    parameters = where_from | {"ctas_per_sm": per_processor, "sms": "all"} if everywhere else where_from | {"sms": 1}
    return Benchmark("global bandwidth", parameters, "bytes per cycle of an SM", measure)


def _overwritten(gpu: Gpu, kernel: str, shape: Shape, arguments: Arguments, rounds: int) -> Run:
    gpu.overwrite_l2()
    return gpu.run(kernel, shape, arguments, rounds)


def _residency(steps: int, copies: bool) -> Benchmark:
    """Measure the bandwidth over a footprint, lap after lap.

    It shows how much of the footprint L2 keeps.
    """
    kernel = "laps_copy" if copies else "laps"
    sides = 2 if copies else 1  # a copy reads one buffer and writes another

    def measure(gpu: Gpu) -> Reading:
        ctas = 2 * gpu.processors
        step = ctas * BLOCK * 16
        arguments = Arguments(a=gpu.buffer("large", LARGE), b=gpu.buffer("other", LARGE // 4), c=steps * step)
        rounds = max(8, steps)  # of UNROLL steps each
        gpu.run(kernel, Shape(ctas, BLOCK), arguments, rounds)
        times = (rounds, 3 * rounds)
        pairs = [tuple(gpu.run(kernel, Shape(ctas, BLOCK), arguments, count) for count in times) for _ in range(5)]
        reading = _by_global_timer(pairs, times, step * UNROLL * sides, gpu.processors)
        reading.also["footprint_bytes"] = steps * step * sides
        return reading

    name = "L2 residency of a copy" if copies else "L2 residency"
    return Benchmark(name, {"steps_of_the_grid": steps}, "bytes per cycle of an SM", measure)


def _by_global_timer(pairs: list, times: tuple[int, int], total: float, processors: int) -> Reading:
    """Return bytes per cycle and SM when all work, by the global timer.

    The clock is the observed one.
    """
    spans = sorted((many.nanoseconds - few.nanoseconds) / (times[1] - times[0]) for few, many in pairs)
    clocks = sorted(many.clock_mhz for _, many in pairs)
    clock = clocks[len(clocks) // 2]
    values = [total / span / processors / (clock / 1000) for span in spans]
    also = {"gb_per_s": total / spans[len(spans) // 2]}
    return Reading(values[len(values) // 2], values[-1], values[0], len(values), clock, also)


def _atomic(kernel: str, what: str, ctas: int, block: int, lane_bytes: int, cta_bytes: int) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        a = gpu.buffer("large", LARGE)
        shape = Shape(grid=gpu.processors if ctas == 0 else ctas, block=block, shared=4096)
        arguments = Arguments(a=a, c=lane_bytes, d=cta_bytes)
        return gpu.slope(kernel, shape, arguments, (16, 80), CHASE_UNROLL)

    parameters = {"instruction": what, "ctas": ctas or "all SMs", "threads": block, "bytes_between_lanes": lane_bytes}
    parameters["bytes_between_ctas"] = cta_bytes
    return Benchmark("global operation", parameters, "cycles per instruction of a warp", measure)


def benchmarks() -> Iterator[Benchmark]:
    yield _latency("ca", 16 * 1024, "L1")
    yield _latency("ca", 128 * 1024, "L1")
    yield _latency("ca", 8 * MIB, "L2")
    for footprint in (128 * 1024, 4 * MIB, 16 * MIB):
        yield _latency("cg", footprint, "L2")
    for footprint in (256 * MIB, LARGE):
        yield _latency("cg", footprint, "DRAM")
    for width in WIDTHS:
        yield _sweep(f"ld_ca_{width}", width, 64 * 1024, "L1", False)
        yield _sweep(f"ld_cg_{width}", width, 8 * MIB, "L2", False)
        yield _sweep(f"ld_cg_{width}", width, 16 * MIB, "L2", True)
        yield _sweep(f"ld_ca_{width}", width, 16 * MIB, "L2", True)
        yield _sweep(f"ld_cg_{width}", width, LARGE, "DRAM", True)
        yield _sweep(f"st_{width}", width, 8 * MIB, "L2", False)
        yield _sweep(f"st_{width}", width, 16 * MIB, "L2", True)
        yield _sweep(f"st_{width}", width, LARGE, "DRAM", True)
    for footprint in (4 * MIB, 8 * MIB, 32 * MIB, 64 * MIB, 128 * MIB):
        yield _sweep("ld_cg_16", 16, footprint, "L2 by footprint", True)
    for steps in (4, 8, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 40, 60):
        yield _residency(steps, copies=False)
    for steps in (2, 4, 6, 8, 9, 10, 11, 12, 13, 14, 16, 20, 30):
        yield _residency(steps, copies=True)
    yield _sweep("ld_cg_16", 16, LARGE, "DRAM", False)
    yield _sweep("st_16", 16, LARGE, "DRAM", False)
    yield _sweep("ld_cg_16", 16, LARGE, "DRAM", True, per_processor=1)
    yield _sweep("st_16", 16, LARGE, "DRAM", True, per_processor=1)
    for footprint in (8 * MIB, 32 * MIB, LARGE // 4):
        yield _sweep("copy", 16, footprint, "DRAM" if footprint > 64 * MIB else "L2", True)
    for footprint, where in ((16 * MIB, "L2"), (LARGE, "DRAM")):
        yield _sweep("cp_async", 16, footprint, where, True, per_processor=1)
    yield _atomic("cp_async_alone", "cp.async 16 B, commit, wait (L2)", 1, 32, 0, 0)
    for kernel, what in (
        ("atom", "atom.global.add.u32"),
        ("red", "red.global.add.u32"),
        ("red_f32", "red.global.add.f32"),
    ):
        yield _atomic(kernel, what, 1, 32, 4, 0)
        yield _atomic(kernel, what, 1, 32, 0, 0)
        yield _atomic(kernel, what, 0, 256, 4, 1024)
        yield _atomic(kernel, what, 0, 32, 4, 0)
    yield _atomic("store_fence", "st.global + fence.acq_rel.gpu", 1, 32, 4, 0)
    yield _atomic("store_fence", "st.global + fence.acq_rel.gpu", 0, 128, 4, 512)
    yield _atomic("fence", "fence.acq_rel.gpu", 1, 32, 4, 0)
