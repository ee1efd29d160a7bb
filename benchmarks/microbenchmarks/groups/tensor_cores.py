"""wgmma: cycles by shape, type and location of A, latency, and loaded clock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import lines, registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "tensor_cores"
GROUP_THREADS = 128
SIZE = 160 * 1024
WARP_UNROLL, WARP_CHAINS = 32, 8
K_BLOCK_BYTES = 128  # one swizzled row of an operand
A_BYTES = 64 * K_BLOCK_BYTES


@dataclass(frozen=True)
class Product:
    """m64nNk(32 bytes) of a type, A from `place` ("shared" or "registers")."""

    n: int
    dtype: str
    place: str

    @property
    def k(self) -> int:
        return 32 if self.dtype in ("e4m3", "e5m2") else 16

    @property
    def name(self) -> str:
        return f"wgmma_n{self.n}_{self.dtype}_{self.place}"

    @property
    def flops(self) -> int:
        return 2 * 64 * self.n * self.k

    def text(self, step: int) -> str:
        accumulators = ", ".join(f"%acc{i}" for i in range(self.n // 2))
        a = "{%ra0, %ra1, %ra2, %ra3}" if self.place == "registers" else f"%da{step}"
        transposed = "" if self.k == 32 else (", 0" if self.place == "registers" else ", 0, 0")
        form = f"wgmma.mma_async.sync.aligned.m64n{self.n}k{self.k}.f32.{self.dtype}.{self.dtype}"
        return f"{form} {{{accumulators}}}, {a}, %db{step}, %p, 1, 1{transposed};"


PRODUCTS = tuple(
    Product(n, dtype, place)
    for dtype in ("bf16", "e4m3")
    for place in ("shared", "registers")
    for n in (8, 16, 32, 64, 96, 128, 192, 256)
)

# Finite numbers of the order of one in either type: the power that a product draws depends on its operands.
SETUP = """
  .reg .b64 %da<4>, %db<4>; .reg .b32 %ra<4>; .reg .b32 %word; .reg .b64 %descriptor;
  mov.u32 %i, %thread;
FILL:
  mad.lo.u32 %word, %i, 1664525, 1013904223;  shr.u32 %j, %word, 13;  xor.b32 %word, %word, %j;
  mul.lo.u32 %word, %word, 747796405;  and.b32 %word, %word, 0x8F3F8F3F;  or.b32 %word, %word, 0x30003000;
  shl.b32 %j, %i, 2;  add.u32 %j, %base, %j;  st.shared.u32 [%j], %word;
  add.u32 %i, %i, %threads;  setp.lt.u32 %p, %i, {words};  @%p bra FILL;
  fence.proxy.async.shared::cta;
  shr.u32 %i, %base, 4;  shr.u32 %j, %thread, 7;  mul.lo.u32 %j, %j, {a_units};  add.u32 %i, %i, %j;
  cvt.u64.u32 %descriptor, %i;  or.b64 %descriptor, %descriptor, 0x4000004000010000;
  add.u64 %da0, %descriptor, 0;  add.u64 %da1, %descriptor, 2;
  add.u64 %da2, %descriptor, 4;  add.u64 %da3, %descriptor, 6;
  shr.u32 %i, %base, 4;  add.u32 %i, %i, {b_units};
  cvt.u64.u32 %descriptor, %i;  or.b64 %descriptor, %descriptor, 0x4000004000010000;
  add.u64 %db0, %descriptor, 0;  add.u64 %db1, %descriptor, 2;
  add.u64 %db2, %descriptor, 4;  add.u64 %db3, %descriptor, 6;
  and.b32 %ra0, %thread, 0x0F0F;  or.b32 %ra0, %ra0, 0x30003000;  xor.b32 %ra1, %ra0, 0x0101;
  xor.b32 %ra2, %ra0, 0x0202;  xor.b32 %ra3, %ra0, 0x0303;
  setp.eq.u32 %p, %thread, %thread;
"""


def _setup(product: Product) -> str:
    units = {"words": SIZE // 4, "a_units": A_BYTES // 16, "b_units": 4 * A_BYTES // 16}
    accumulators = "\n  ".join(f"mov.f32 %acc{i}, 0f00000000;" for i in range(product.n // 2))
    return registers("f32", "%acc", product.n // 2) + SETUP.format(**units) + accumulators


def _after(product: Product) -> str:
    return "\n  ".join(f"mov.b32 %i, %acc{i}; xor.b32 %sink, %sink, %i;" for i in range(product.n // 2))


def _stream(product: Product) -> str:
    """Four products a round, one round in flight while the next is issued."""
    four = "\n  ".join(product.text(step) for step in range(4))
    body = (
        f"wgmma.fence.sync.aligned;\n  {four}\n  wgmma.commit_group.sync.aligned;\n  wgmma.wait_group.sync.aligned 1;"
    )
    drain = "wgmma.wait_group.sync.aligned 0;"
    return timed(product.name, body, setup=_setup(product), drain=drain, after=_after(product))


def _alone(product: Product) -> str:
    """One product, waited for before the next."""
    body = f"""wgmma.fence.sync.aligned;
  {product.text(0)}
  wgmma.commit_group.sync.aligned;  wgmma.wait_group.sync.aligned 0;"""
    return timed(f"{product.name}_alone", body, setup=_setup(product), after=_after(product))


def _warp_product(chains: int) -> str:
    """mma.sync m16n8k16 of bf16, `chains` accumulators in turn."""
    setup = registers("f32", "%acc", 4 * chains) + registers("b32", "%ra", 6)
    setup += "\n  " + lines("add.u32 %ra{i}, %thread, {i};", 6)
    setup += "\n  " + lines("mov.f32 %acc{i}, 0f00000000;", 4 * chains)
    out = []
    for i in range(WARP_UNROLL):
        c = ", ".join(f"%acc{4 * (i % chains) + k}" for k in range(4))
        out.append(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            f"{{{c}}}, {{%ra0, %ra1, %ra2, %ra3}}, {{%ra4, %ra5}}, {{{c}}};"
        )
    after = lines("mov.b32 %i, %acc{i}; xor.b32 %sink, %sink, %i;", 4 * chains)
    return timed(f"mma_{chains}", "\n  ".join(out), setup=setup, after=after)


def kernels() -> list[str]:
    return [_warp_product(1), _warp_product(WARP_CHAINS)] + [
        make(product) for product in PRODUCTS for make in (_stream, _alone)
    ]


def expected() -> dict[str, tuple[str, int]]:
    sass = {product: "QGMMA" if product.k == 32 else "HGMMA" for product in PRODUCTS}
    streams = {product.name: (sass[product], 4) for product in PRODUCTS}
    return (
        streams
        | {"mma_1": ("HMMA", WARP_UNROLL)}
        | {f"{product.name}_alone": (sass[product], 1) for product in PRODUCTS}
    )


def _parameters(product: Product, warpgroups: int) -> dict[str, object]:
    return {
        "shape": f"m64n{product.n}k{product.k}",
        "dtype": product.dtype,
        "a": product.place,
        "warpgroups": warpgroups,
    }


def _throughput(product: Product, warpgroups: int) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        shape = Shape(block=GROUP_THREADS * warpgroups, shared=SIZE)
        reading = gpu.slope(product.name, shape, Arguments(), (200, 1200), 4 * warpgroups)
        reading.also["flop_per_cycle"] = product.flops / reading.value
        return reading

    return Benchmark("wgmma interval", _parameters(product, warpgroups), "cycles per product of an SM", measure)


def _latency(product: Product) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        return gpu.slope(f"{product.name}_alone", Shape(block=GROUP_THREADS, shared=SIZE), Arguments(), (100, 500), 1)

    return Benchmark("wgmma issue to wait", _parameters(product, 1), "cycles", measure)


def _warp(chains: int, warps: int) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        count = WARP_UNROLL * (1 if chains == 1 else warps)
        return gpu.slope(f"mma_{chains}", Shape(block=32 * warps), Arguments(), (50, 250), count)

    parameters = {"shape": "m16n8k16", "dtype": "bf16", "independent": chains, "warps": warps}
    unit = "cycles of a dependent chain" if chains == 1 else "cycles per product of an SM"
    return Benchmark("mma.sync", parameters, unit, measure)


def _sustained(product: Product) -> Benchmark:
    """All SMs for about 0.4 s: where the clock goes."""

    def measure(gpu: Gpu) -> Reading:
        shape = Shape(grid=gpu.processors, block=2 * GROUP_THREADS, shared=SIZE)
        runs = [gpu.run(product.name, shape, Arguments(), 12_000) for _ in range(30)]
        clocks = [run.clock_mhz for run in runs]
        last = sorted(clocks[-10:])
        tflops = [gpu.processors * 8 * 12_000 * product.flops / run.nanoseconds / 1000 for run in runs]
        also = {"first_mhz": clocks[0], "tflops_first": tflops[0], "tflops_last": tflops[-1]}
        also["milliseconds_each"] = runs[-1].nanoseconds / 1e6
        return Reading(last[5], last[0], last[-1], 10, last[5], also)

    return Benchmark("SM clock", {"ctas": "all SMs", "load": product.name}, "MHz", measure)


def benchmarks() -> Iterator[Benchmark]:
    for product in PRODUCTS:
        yield _throughput(product, 1)
        yield _throughput(product, 2)
        yield _latency(product)
    yield _warp(1, 1)
    for warps in (1, 4, 8, 16):
        yield _warp(WARP_CHAINS, warps)
    for product in PRODUCTS:
        if product.n == 256 and product.place == "shared":
            yield _sustained(product)
