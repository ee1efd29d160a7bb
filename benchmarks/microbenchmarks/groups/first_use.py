"""What a kernel does once: jumps, descriptors, the first load.

It is measured warm (in a graph of repeated launches) and cold (alone, behind a flush of L2).
"""

import ctypes
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.groups import instruction_fetch
from benchmarks.microbenchmarks.groups.cold import _flush
from benchmarks.microbenchmarks.groups.global_memory import LARGE
from benchmarks.microbenchmarks.groups.launches import PLACE, PROCESSORS, SPIN, hold
from benchmarks.microbenchmarks.groups.tma import ROW_BYTES
from benchmarks.microbenchmarks.kernel import STAMPS, lines, registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading, Run

NAME = "first_use"
HOPS = 32  # pieces of code with as many branches between them
SPLIT, SKIPPED = 8, 23  # instructions that a piece runs and that it jumps over: 512 bytes with the branch
MAPS = (1, 2, 4)
BOX = 4096
NODES = 16  # launches in a graph
REPETITIONS = 5
COLD_REPETITIONS = 11
FLUSHES = ("none", "memset")
# Which threads go on is reported by a number that has been loaded: the clock is read behind the load.
LOAD = "ld.global.u32 %i, [%a];  setp.eq.u32 %p, %i, 0x7fedcba9;  @%p bra END;"


def _hops() -> str:
    """Build blocks of straight code, each followed by a branch over unused code."""
    chains = instruction_fetch.CHAINS
    setup = registers("f32", "%x", chains) + " .reg .f32 %y, %z; .reg .pred %on;\n  "
    setup += lines("add.u32 %i, %thread, {i}; cvt.rn.f32.u32 %x{i}, %i;", chains)
    setup += "\n  cvt.rn.f32.u32 %y, %c; cvt.rn.f32.u32 %z, %d; setp.ne.u32 %on, %c, 12345;"
    xs = [f"%x{i}" for i in range(chains)]
    split = lines("fma.rn.f32 {x}, {x}, %y, %z;", SPLIT, x=xs)
    skipped = lines("fma.rn.f32 {x}, {x}, %z, %y;", SKIPPED, x=xs)
    body = "\n  ".join(f"{split}\n  @%on bra HOP{n};\n  {skipped}\nHOP{n}:" for n in range(HOPS))
    after = lines("mov.b32 %i, %x{i}; xor.b32 %sink, %sink, %i;", chains)
    return timed(f"hops{HOPS}", body, setup=setup, after=after)


def _maps(count: int, mapped: bool) -> str:
    """Fetch a box by each of so many descriptors at once, or by copies."""
    setup = f"""
  .reg .b64 %map, %from;  .reg .pred %ready, %chosen;  .reg .b32 %place, %row;
  mul.lo.u32 %row, %cta, {BOX // ROW_BYTES};  add.u32 %place, %base, 1024;  mov.u32 %j, 0;
  mul.wide.u32 %wide, %cta, {BOX};  add.u64 %from, %a, %wide;
  {"mov.b64 %map, p_map;  cvta.param.u64 %map, %map;" if mapped else ""}
  setp.ne.u32 %p, %lane, 0;  @%p bra MADE;
  mbarrier.init.shared.b64 [%base], 1;  fence.mbarrier_init.release.cluster;  fence.proxy.async.shared::cta;
MADE:"""
    copies = []
    for n in range(count):
        if mapped:
            copies.append(f"""
  add.u64 %wide, %map, {128 * n};
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%place], [%wide, {{%j, %row}}], [%base];
  add.u32 %place, %place, {BOX};""")
        else:
            copies.append(f"""
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%place], [%from], {BOX}, [%base];
  add.u64 %from, %from, {4 << 20};  add.u32 %place, %place, {BOX};""")
    body = f"""
  elect.sync %i|%chosen, -1;  @!%chosen bra SKIP;
  mbarrier.arrive.expect_tx.shared.b64 _, [%base], {BOX * count};{"".join(copies)}
SKIP:
WAIT:
  mbarrier.try_wait.parity.shared.b64 %ready, [%base], 0;  @!%ready bra WAIT;"""
    text = timed(f"{'maps' if mapped else 'bulk'}{count}", body, setup=setup, tensor_map=mapped, keep=False)
    return text.replace("p_map[128]", f"p_map[{128 * count}]")


def kernels() -> list[str]:
    return [
        timed("spin", SPIN, setup=PLACE, keep=False),
        _hops(),
        *(_maps(count, True) for count in MAPS),
        *(_maps(count, False) for count in MAPS),
        timed("load_one", LOAD, setup="mul.wide.u32 %wide, %cta, 4096;  add.u64 %a, %a, %wide;", keep=False),
    ]


def expected() -> dict[str, tuple[str, int]]:
    result = {f"hops{HOPS}": ("BRA", HOPS), "load_one": ("LDG", 1)}
    result |= {f"maps{count}": ("UTMALDG", count) for count in MAPS}
    return result | {f"bulk{count}": ("UBLKCP", count) for count in MAPS}


class Maps:
    """Tensor maps one behind the other, as a kernel's first parameter."""

    def __init__(self, gpu: Gpu, count: int) -> None:
        large = gpu.buffer("large", LARGE)
        rows = (4 << 20) // ROW_BYTES
        made = [gpu.tensor_map(large + (n * 4 << 20), 64, rows, BOX // ROW_BYTES) for n in range(count)]
        raw = b"".join(ctypes.string_at(int(one.getPtr()), 128) for one in made)
        self._space = (ctypes.c_uint8 * (len(raw) + 64))()
        self._at = -(-ctypes.addressof(self._space) // 64) * 64
        ctypes.memmove(self._at, raw, len(raw))

    def getPtr(self) -> int:
        return self._at


def _arguments(gpu: Gpu, kernel: str) -> Arguments:
    tensor_map = Maps(gpu, int(kernel[4:])) if kernel.startswith("maps") else None
    return Arguments(a=gpu.buffer("large", LARGE), c=1, d=1, tensor_map=tensor_map)


def _inside(gpu: Gpu, shape: Shape) -> tuple[float, float]:
    """Return cycles between a launch's stamps: the median CTA's and the slowest's."""
    warps = max(1, shape.block // 32)
    run = Run.of(gpu.read(gpu.out, shape.grid * warps * STAMPS), shape.grid, warps)
    slowest = max(float(rows[:, 1].max() - rows[:, 0].min()) for rows in run.stamps)
    return run.cycles, slowest


def _warm(kernel: str, shape: Shape) -> Benchmark:
    """Return microseconds between launches in a graph, and cycles inside one."""

    def measure(gpu: Gpu) -> Reading:
        arguments = _arguments(gpu, kernel)
        replay: Callable[[], None] = gpu.graph([lambda: gpu.launch(kernel, shape, arguments, 1)] * NODES)
        replays = {count: (lambda count=count: [replay() for _ in range(count)] and None) for count in (1, 9)}
        replay()
        values = []
        for _ in range(REPETITIONS):
            few, many = (gpu.microseconds(replays[count], lambda: hold(gpu, 16)) for count in (1, 9))
            values.append((many - few) / 8 / NODES)
        inside, slowest = _inside(gpu, shape)
        also = {"cycles_inside": inside, "cycles_of_the_slowest": slowest}
        return Reading.of(values, also)

    return Benchmark("once in a launch, warm", _named(kernel, shape), "µs per launch, a sixteenth of a graph", measure)


def _cold(flush: str, kernel: str, shape: Shape) -> Benchmark:
    """Return a single graph's time behind the flush, between events, and its cycles."""

    def measure(gpu: Gpu) -> Reading:
        arguments = _arguments(gpu, kernel)
        replay = gpu.graph([lambda: gpu.launch(kernel, shape, arguments, 1)])
        before = _flush(gpu, flush)
        gpu.microseconds(replay, before)
        values, inside, slowest = [], [], []
        for _ in range(COLD_REPETITIONS):
            values.append(gpu.microseconds(replay, before))
            local = _inside(gpu, shape)
            inside.append(local[0])
            slowest.append(local[1])
        also = {"cycles_inside": float(np.median(inside)), "cycles_of_the_slowest": float(np.median(slowest))}
        return Reading.of(values, also, left_out=1)

    return Benchmark("once in a launch, alone", {"flush": flush} | _named(kernel, shape), "µs", measure)


def _named(kernel: str, shape: Shape) -> dict[str, object]:
    return {"kernel": kernel, "ctas": shape.grid, "threads": shape.block}


def benchmarks() -> Iterator[Benchmark]:
    single = Shape(PROCESSORS, 32, 32 * 1024)
    yield _warm(f"hops{HOPS}", Shape(1, 128))
    for kernel in (f"{kind}{count}" for kind in ("maps", "bulk") for count in MAPS):
        yield _warm(kernel, single)
    for flush in FLUSHES:
        yield _cold(flush, "load_one", single)
    for kernel in ("maps1", "bulk1"):
        yield _warm(kernel, Shape(1, 32, 32 * 1024))
