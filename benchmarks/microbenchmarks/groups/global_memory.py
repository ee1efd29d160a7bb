"""Ordinary loads, stores and reductions: latency and bandwidth from L1, L2 and DRAM."""

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

# The CTA's part of a footprint of %c + 1 bytes (a power of two): rounds of UNROLL · BLOCK · 16 bytes,
# the grid side by side.
SETUP = f"""
  .reg .b32 %offset, %step; .reg .b64 %at<{UNROLL}>, %to<{UNROLL}>; {registers("b32", "%v", 4 * UNROLL)}
  mul.lo.u32 %step, %threads, 16;  mul.lo.u32 %offset, %cta, %step;  mul.lo.u32 %offset, %offset, {UNROLL};
  mad.lo.u32 %offset, %thread, 16, %offset;
  mov.u32 %j, %nctaid.x;  mul.lo.u32 %e, %j, %step;  mul.lo.u32 %e, %e, {UNROLL};
  {lines("add.u32 %v{i}, %thread, {i};", 4 * UNROLL)}
"""
RED = "\n  ".join(["red.global.add.f32 [%a], 0f3F800000;"] * CHASE_UNROLL)
VECTORS = ["{" + ", ".join(f"%v{4 * i + k}" for k in range(4)) + "}" for i in range(UNROLL)]


def _addresses() -> str:
    """Compute UNROLL addresses a block apart, wrapped at the footprint, then a grid's step."""
    out = []
    for i in range(UNROLL):
        out.append(f"mad.lo.u32 %i, %step, {i}, %offset;  and.b32 %i, %i, %c;  cvt.u64.u32 %wide, %i;")
        out.append(f"add.u64 %at{i}, %a, %wide;")
    return "\n  ".join([*out, "add.u32 %offset, %offset, %e;"])


def _load(cache: str) -> str:
    loads = [f"ld.global.{cache}.v4.u32 {VECTORS[i]}, [%at{i}];" for i in range(UNROLL)]
    folds = [f"xor.b32 %sink, %sink, %v{4 * i};" for i in range(UNROLL)]
    return timed(f"ld_{cache}_16", "\n  ".join([_addresses(), *loads, *folds]), setup=SETUP)


def _laps() -> str:
    """Build 16-byte loads in laps of %c bytes, a multiple of the grid's %e."""
    setup = "  .reg .b32 %offset; .reg .b64 %at; " + registers("b32", "%v", 4 * UNROLL)
    setup += """
  mad.lo.u32 %offset, %cta, %threads, %thread;  mul.lo.u32 %offset, %offset, 16;
  mov.u32 %j, %nctaid.x;  mul.lo.u32 %e, %j, %threads;  mul.lo.u32 %e, %e, 16;"""
    body = ""
    for i in range(UNROLL):
        body += f"""
  cvt.u64.u32 %at, %offset;  add.u64 %at, %a, %at;  ld.global.cg.v4.u32 {VECTORS[i]}, [%at];
  add.u32 %offset, %offset, %e;  setp.ge.u32 %p, %offset, %c;  @%p sub.u32 %offset, %offset, %c;"""
    folds = "\n  ".join(f"xor.b32 %sink, %sink, %v{4 * i};" for i in range(UNROLL))
    return timed("laps", f"{body}\n  {folds}", setup=setup)


def _store() -> str:
    stores = [f"st.global.v4.u32 [%at{i}], {VECTORS[i]};" for i in range(UNROLL)]
    return timed("st_16", "\n  ".join([_addresses(), *stores]), setup=SETUP)


def _copy() -> str:
    loads = [f"ld.global.v4.u32 {VECTORS[i]}, [%at{i}];" for i in range(UNROLL)]
    stores = [f"sub.u64 %wide, %at{i}, %a; add.u64 %to{i}, %b, %wide;" for i in range(UNROLL)]
    stores += [f"st.global.v4.u32 [%to{i}], {VECTORS[i]};" for i in range(UNROLL)]
    return timed("copy", "\n  ".join([_addresses(), *loads, *stores]), setup=SETUP)


def _chase(cache: str) -> str:
    """Build a chain of pointers from %a on."""
    body = "\n  ".join([f"ld.global.{cache}.u64 %address, [%address];"] * CHASE_UNROLL)
    return timed(f"chase_{cache}", body, setup="mov.u64 %address, %a;", after="cvt.u32.u64 %sink, %address;")


def kernels() -> list[str]:
    out = [make(cache) for make in (_load, _chase) for cache in ("ca", "cg")]
    return [*out, _laps(), _store(), _copy(), timed("red", RED)]


def expected() -> dict[str, tuple[str, int]]:
    loads = {f"ld_{cache}_16": ("LDG", UNROLL) for cache in ("ca", "cg")}
    loads |= {f"chase_{cache}": ("LDG", CHASE_UNROLL) for cache in ("ca", "cg")}
    return loads | {"laps": ("LDG", UNROLL), "st_16": ("STG", UNROLL), "copy": ("LDG", UNROLL), "red": ("RED", 1)}


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


def _sweep(kernel: str, footprint: int, where: str, everywhere: bool) -> Benchmark:
    """Measure the bandwidth over a footprint by the slope after a warm-up lap."""

    def measure(gpu: Gpu) -> Reading:
        ctas = 2 * gpu.processors if everywhere else 1
        each = UNROLL * BLOCK * 16 * (2 if kernel == "copy" else 1)
        other = gpu.buffer("other", LARGE // 4) if kernel == "copy" else 0
        arguments = Arguments(a=gpu.buffer("large", LARGE), b=other, c=footprint - 1)
        rounds = max(8, min(400, LARGE // 4 // (each * ctas)))
        shape = Shape(ctas, BLOCK)
        if footprint <= 256 * MIB:
            gpu.run(kernel, shape, arguments, footprint // (UNROLL * BLOCK * 16 * ctas) + 1)
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
    parameters = where_from | {"ctas_per_sm": 2, "sms": "all"} if everywhere else where_from | {"sms": 1}
    return Benchmark("global bandwidth", parameters, "bytes per cycle of an SM", measure)


def _overwritten(gpu: Gpu, kernel: str, shape: Shape, arguments: Arguments, rounds: int) -> Run:
    gpu.overwrite_l2()
    return gpu.run(kernel, shape, arguments, rounds)


def _residency(steps: int) -> Benchmark:
    """Measure the bandwidth over a footprint lap after lap: what L2 keeps."""

    def measure(gpu: Gpu) -> Reading:
        shape = Shape(2 * gpu.processors, BLOCK)
        step = shape.grid * BLOCK * 16
        arguments = Arguments(a=gpu.buffer("large", LARGE), c=steps * step)
        rounds = max(8, steps)  # of UNROLL steps each
        gpu.run("laps", shape, arguments, rounds)
        times = (rounds, 3 * rounds)
        pairs = [tuple(gpu.run("laps", shape, arguments, count) for count in times) for _ in range(5)]
        reading = _by_global_timer(pairs, times, step * UNROLL, gpu.processors)
        reading.also["footprint_bytes"] = steps * step
        return reading

    return Benchmark("L2 residency", {"steps_of_the_grid": steps}, "bytes per cycle of an SM", measure)


def _by_global_timer(pairs: list, times: tuple[int, int], total: float, processors: int) -> Reading:
    """Return bytes per cycle and SM of all, by global timer and observed clock."""
    spans = sorted((many.nanoseconds - few.nanoseconds) / (times[1] - times[0]) for few, many in pairs)
    clocks = sorted(many.clock_mhz for _, many in pairs)
    clock = clocks[len(clocks) // 2]
    values = [total / span / processors / (clock / 1000) for span in spans]
    also = {"gb_per_s": total / spans[len(spans) // 2]}
    return Reading(values[len(values) // 2], values[-1], values[0], len(values), clock, also)


def _reduction() -> Benchmark:
    """All lanes of a warp add to one word."""

    def measure(gpu: Gpu) -> Reading:
        return gpu.slope("red", Shape(), Arguments(a=gpu.buffer("large", LARGE)), (16, 80), CHASE_UNROLL)

    parameters = {"instruction": "red.global.add.f32", "ctas": 1, "threads": 32, "bytes_between_lanes": 0}
    parameters["bytes_between_ctas"] = 0
    return Benchmark("global operation", parameters, "cycles per instruction of a warp", measure)


def benchmarks() -> Iterator[Benchmark]:
    yield _latency("ca", 16 * 1024, "L1")
    yield _latency("cg", 4 * MIB, "L2")
    yield _latency("cg", 256 * MIB, "DRAM")
    yield _sweep("ld_ca_16", 64 * 1024, "L1", False)
    for kernel in ("ld_cg_16", "st_16"):
        yield _sweep(kernel, 8 * MIB, "L2", False)
        yield _sweep(kernel, 16 * MIB, "L2", True)
        yield _sweep(kernel, LARGE, "DRAM", True)
    yield _sweep("ld_cg_16", 4 * MIB, "L2 by footprint", True)
    for steps in (4, 8, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 40, 60):
        yield _residency(steps)
    yield _sweep("ld_cg_16", LARGE, "DRAM", False)
    yield _sweep("copy", 8 * MIB, "L2", True)
    yield _sweep("copy", LARGE // 4, "DRAM", True)
    yield _reduction()
