"""Contention: L2 among CTAs, shared memory among copies and products, and rows.

The CTAs ask for the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.groups import together
from benchmarks.microbenchmarks.groups.global_memory import LARGE, _by_global_timer
from benchmarks.microbenchmarks.groups.tensor_cores import Product
from benchmarks.microbenchmarks.groups.tma import RESIDENT_ROWS, ROW_BYTES, SELECT, SHARED, TENSOR, _ring
from benchmarks.microbenchmarks.kernel import timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading, Run, slope_reading

NAME = "contention"
KIB = 1024
PRODUCTS = tuple(Product(n, "bf16", place) for place in ("shared", "registers") for n in (64, 128, 256))
TESTS = 16
ROUNDS = 2000  # of eight products of two warpgroups
MOST_CYCLES = 300  # of a product, for the loaders to last as long as the products

# The phase that is asked about is over: each test succeeds, and the next one asks with what it has answered.
COMPLETED = """
  .reg .pred %ready;  mov.u32 %j, 0;
  setp.ne.u32 %p, %thread, 0;  @%p bra SET;
  mbarrier.init.shared.b64 [%base], 1;  mbarrier.arrive.shared.b64 _, [%base];
SET:
"""
TEST = "mbarrier.{kind}.parity.shared.b64 %ready, [%base], %j;  selp.u32 %j, 0, 1, %ready;"


def _tested(kind: str) -> str:
    body = "\n  ".join([TEST.format(kind=kind)] * TESTS)
    return timed(f"completed_{kind}", body, setup=COMPLETED, after="xor.b32 %sink, %sink, %j;")


def _shared_ring() -> str:
    """Fetch like tma's ring, but 2^%b consecutive CTAs fetch the same rows.

    All SMs take part.
    """
    first = "mul.lo.u32 %first_row, %cta, %e;"
    text = _ring(replace(TENSOR, name="shared"))
    select = SELECT.split("\n")[1]
    assert first in text and select in text
    shifted = "cvt.u32.u64 %i, %b;  shr.u32 %first_row, %cta, %i;  mul.lo.u32 %first_row, %first_row, %e;"
    return text.replace(first, shifted).replace(select, "")


def kernels() -> list[str]:
    joint = [together.kernel_of(product, f"beside_{product.name}") for product in PRODUCTS]
    return [_shared_ring(), _tested("try_wait"), _tested("test_wait"), *joint]


def expected() -> dict[str, tuple[str, int]]:
    result = {
        "ring_shared": ("UTMALDG", 2),
        "completed_try_wait": ("SYNCS", TESTS),
        "completed_test_wait": ("SYNCS", TESTS),
    }
    return result | {f"beside_{product.name}": ("HGMMA", 4) for product in PRODUCTS}


def _same_rows(shift: int, box: int, slots: int) -> Benchmark:
    """Boxes of which so many neighbouring CTAs fetch the same, from L2."""

    def measure(gpu: Gpu) -> Reading:
        tensor = gpu.tensor_map(gpu.buffer("large", LARGE), 64, LARGE // ROW_BYTES, box // ROW_BYTES)
        arguments = Arguments(a=64, b=shift, c=box, d=slots, e=RESIDENT_ROWS, tensor_map=tensor)
        times = (256 * KIB // box * 16, 256 * KIB // box * 48)

        def run(rounds: int) -> Run:
            return gpu.run("ring_shared", Shape(gpu.processors, 32, SHARED), arguments, rounds)

        run(times[0])
        pairs = [(run(times[0]), run(times[1])) for _ in range(5)]
        return _by_global_timer(pairs, times, box * gpu.processors, gpu.processors)

    parameters = {"ctas_that_fetch_the_same": 1 << shift, "box_bytes": box, "boxes_in_flight": slots}
    return Benchmark("TMA from L2, the same bytes for several", parameters, "bytes per cycle of an SM", measure)


def _narrow(columns: int, box: int, slots: int, everywhere: bool) -> Benchmark:
    """Boxes whose rows have so many 16-bit columns."""

    def measure(gpu: Gpu) -> Reading:
        rows = box // (2 * columns)
        tensor = gpu.tensor_map(gpu.buffer("large", LARGE), 64, LARGE // ROW_BYTES, rows, columns)
        arguments = Arguments(a=64, c=box, d=slots, e=RESIDENT_ROWS, tensor_map=tensor)
        ctas = gpu.processors if everywhere else 1
        times = (256 * KIB // box * 8, 256 * KIB // box * 24)

        def run(rounds: int) -> Run:
            return gpu.run("ring_shared", Shape(ctas, 32, SHARED), arguments, rounds)

        run(times[0])
        pairs = [(run(times[0]), run(times[1])) for _ in range(5)]
        return _by_global_timer(pairs, times, box * ctas, ctas)

    parameters = {"row_bytes": 2 * columns, "box_bytes": box, "boxes_in_flight": slots}
    parameters["sms"] = "all" if everywhere else 1  # type: ignore[assignment]
    return Benchmark("TMA from L2 by width of a row", parameters, "bytes per cycle of an SM", measure)


def _together(product: Product, sms: int, loads: bool) -> Benchmark:
    """Return cycles of a product during copies into shared memory.

    Two warpgroups compute it, while a third warp fills shared memory as fast as it can.
    """

    def measure(gpu: Gpu) -> Reading:
        boxes = ROUNDS * 8 * MOST_CYCLES * 64 // together.BOX if loads else together.SLOTS
        tensor = gpu.tensor_map(gpu.buffer("large", LARGE), 64, LARGE // ROW_BYTES, together.BOX // ROW_BYTES)
        shape = Shape(sms or gpu.processors, 32 * together.WARPS, together.SHARED)
        arguments = Arguments(c=boxes, tensor_map=tensor)
        runs = [gpu.run(f"beside_{product.name}", shape, arguments, ROUNDS) for _ in range(4)][1:]
        cycles = sorted(Run(run.stamps[:, :8, :]).cycles / (ROUNDS * 8) for run in runs)
        loaders = [Run(run.stamps[:, 8:, :]) for run in runs]
        also = {
            "bytes_per_cycle_of_an_sm": boxes * together.BOX / loaders[1].cycles,
            "loaders_cycles": loaders[1].cycles,
            "products_cycles": cycles[1] * ROUNDS * 8,
        }
        return Reading(cycles[1], cycles[0], cycles[-1], 3, loaders[1].clock_mhz, also)

    parameters = {"shape": f"m64n{product.n}k16", "a": product.place, "sms": sms or "all", "copies": loads}
    return Benchmark("wgmma beside copies into shared memory", parameters, "cycles", measure)


def _test(kind: str) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        times = (64, 192)
        pairs = [
            tuple(gpu.run(f"completed_{kind}", Shape(1, 32, KIB), Arguments(), rounds) for rounds in times)
            for _ in range(5)
        ]
        return slope_reading(pairs, times, TESTS)

    return Benchmark("mbarrier test of a phase that is over, and a select", {"instruction": kind}, "cycles", measure)


def benchmarks() -> Iterator[Benchmark]:
    for kind in ("try_wait", "test_wait"):
        yield _test(kind)
    for box, slots in ((8 * KIB, 16), (32 * KIB, 4)):
        for shift in (0, 1, 2, 3, 4, 5, 7):
            yield _same_rows(shift, box, slots)
    for columns in (64, 32, 16):
        for everywhere in (False, True):
            yield _narrow(columns, 4 * KIB, 16, everywhere)
    for product in PRODUCTS:
        for sms in (1, 0):
            for loads in (False, True):
                yield _together(product, sms, loads)
