"""TMA loads from L2 while tensor cores lower the SM clock.

They show whether L2's bandwidth follows that clock.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.groups.global_memory import LARGE
from benchmarks.microbenchmarks.groups.tensor_cores import A_BYTES, Product
from benchmarks.microbenchmarks.groups.tensor_cores import SETUP as PRODUCT_SETUP
from benchmarks.microbenchmarks.groups.tma import RESIDENT_ROWS, ROW_BYTES
from benchmarks.microbenchmarks.kernel import registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading, Run

NAME = "together"
PRODUCT = Product(256, "bf16", "shared")
BOX, SLOTS = 8192, 12
OPERANDS = 72 * 1024  # two tiles of A and one of B, and room; the ring of boxes begins behind them
SHARED = OPERANDS + 1024 + BOX * SLOTS
WARPS = 9  # two warpgroups that multiply, a warp that loads
LAUNCHES, PRODUCT_ROUNDS = 30, 12_000

# The ninth warp fetches %c boxes of 64 rows into a ring, for as long as it takes, and then goes where the others end.
LOADER = f"""
  .reg .b32 %bar, %place, %slot, %parity, %row, %first_row, %inner; .reg .pred %ready, %chosen; .reg .b64 %map;
  .reg .b32 %ring;
  mov.b64 %map, p_map;  cvta.param.u64 %map, %map;
  add.u32 %ring, %base, {OPERANDS};
  @!%first bra PREPARED;
  mov.u32 %i, 0;
PREPARE:
  shl.b32 %j, %i, 3;  add.u32 %j, %ring, %j;  mbarrier.init.shared.b64 [%j], 1;
  add.u32 %i, %i, 1;  setp.lt.u32 %p, %i, {SLOTS};  @%p bra PREPARE;
  fence.mbarrier_init.release.cluster;  fence.proxy.async.shared::cta;
PREPARED:
"""
RING = f"""
  setp.lt.u32 %q, %warp, 8;  @%q bra MULTIPLY;
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
MULTIPLY:
"""


def kernel_of(product: Product, name: str) -> str:
    """Two warpgroups that multiply and a warp that loads."""
    units = {"words": OPERANDS // 4, "a_units": A_BYTES // 16, "b_units": 4 * A_BYTES // 16}
    setup = registers("f32", "%acc", product.n // 2) + PRODUCT_SETUP.format(**units) + LOADER
    zero = "\n  ".join(f"mov.f32 %acc{i}, 0f00000000;" for i in range(product.n // 2))
    four = "\n  ".join(product.text(step) for step in range(4))
    body = f"""wgmma.fence.sync.aligned;
  {four}
  wgmma.commit_group.sync.aligned;
  wgmma.wait_group.sync.aligned 1;"""
    fold = "\n  ".join(f"mov.b32 %i, %acc{i}; xor.b32 %sink, %sink, %i;" for i in range(product.n // 2))
    drain = f"wgmma.wait_group.sync.aligned 0;\n  {fold}\nSTOP:"
    select = f"{RING}\n  {zero}\n  setp.eq.u32 %p, %thread, %thread;"
    return timed(name, body, setup=setup, select=select, drain=drain, tensor_map=True)


def kernels() -> list[str]:
    return [kernel_of(PRODUCT, "together")]


def expected() -> dict[str, tuple[str, int]]:
    return {"together": ("HGMMA", 4)}


def _loads(boxes: int, rounds: int) -> Benchmark:
    """Return the loaders' bandwidth and clock in the last third of launches.

    `rounds` of 1 leaves the products out.
    """

    def measure(gpu: Gpu) -> Reading:
        tensor = gpu.tensor_map(gpu.buffer("large", LARGE), 64, LARGE // ROW_BYTES, BOX // ROW_BYTES)
        shape = Shape(gpu.processors, 32 * WARPS, SHARED)
        arguments = Arguments(c=boxes, tensor_map=tensor)
        runs = [gpu.run("together", shape, arguments, rounds) for _ in range(LAUNCHES)][-LAUNCHES // 3 :]
        loaders = [Run(run.stamps[:, 8:, :]) for run in runs]
        clocks = sorted(run.clock_mhz for run in loaders)
        rates = sorted(boxes * BOX * gpu.processors / run.nanoseconds for run in loaders)
        also = {
            "loaders_ms": loaders[-1].nanoseconds / 1e6,
            "products_ms": Run(runs[-1].stamps[:, :8, :]).nanoseconds / 1e6,
        }
        if rounds > 1:
            also["cycles_per_product"] = Run(runs[-1].stamps[:, :8, :]).cycles / (rounds * 8)
        also["bytes_per_cycle_of_an_sm"] = rates[5] / gpu.processors / clocks[5] * 1000
        return Reading(rates[5], rates[0], rates[-1], len(rates), clocks[5], also)

    parameters = {"boxes": boxes, "box_bytes": BOX, "boxes_in_flight": SLOTS, "product_rounds": rounds}
    return Benchmark("TMA from L2 beside products", parameters, "GB/s", measure)


def benchmarks() -> Iterator[Benchmark]:
    yield _loads(40_000, 1)
    yield _loads(30_000, PRODUCT_ROUNDS)
