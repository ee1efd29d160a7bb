"""wgmma of bf16 with A in shared memory: cycles per product, and latency."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.kernel import registers, timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "tensor_cores"
GROUP_THREADS = 128
SIZE = 160 * 1024
K_BLOCK_BYTES = 128  # one swizzled row of an operand
A_BYTES = 64 * K_BLOCK_BYTES


@dataclass(frozen=True)
class Product:
    """m64nNk16 of bf16."""

    n: int

    @property
    def name(self) -> str:
        return f"wgmma_n{self.n}"

    @property
    def flops(self) -> int:
        return 2 * 64 * self.n * 16

    def text(self, step: int) -> str:
        accumulators = ", ".join(f"%acc{i}" for i in range(self.n // 2))
        form = f"wgmma.mma_async.sync.aligned.m64n{self.n}k16.f32.bf16.bf16"
        return f"{form} {{{accumulators}}}, %da{step}, %db{step}, %p, 1, 1, 0, 0;"

    def parameters(self, warpgroups: int) -> dict[str, object]:
        return {"shape": f"m64n{self.n}k16", "dtype": "bf16", "a": "shared", "warpgroups": warpgroups}


PRODUCTS = (Product(64), Product(256))

# Finite numbers of the order of one: the power that a product draws depends on its operands.
SETUP = """
  .reg .b64 %da<4>, %db<4>; .reg .b32 %word; .reg .b64 %descriptor;
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


def kernels() -> list[str]:
    return [make(product) for product in PRODUCTS for make in (_stream, _alone)]


def expected() -> dict[str, tuple[str, int]]:
    streams = {product.name: ("HGMMA", 4) for product in PRODUCTS}
    return streams | {f"{product.name}_alone": ("HGMMA", 1) for product in PRODUCTS}


def _throughput(product: Product, warpgroups: int) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        shape = Shape(block=GROUP_THREADS * warpgroups, shared=SIZE)
        reading = gpu.slope(product.name, shape, Arguments(), (200, 1200), 4 * warpgroups)
        reading.also["flop_per_cycle"] = product.flops / reading.value
        return reading

    return Benchmark("wgmma interval", product.parameters(warpgroups), "cycles per product of an SM", measure)


def _latency(product: Product) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        return gpu.slope(f"{product.name}_alone", Shape(block=GROUP_THREADS, shared=SIZE), Arguments(), (100, 500), 1)

    return Benchmark("wgmma issue to wait", product.parameters(1), "cycles", measure)


def benchmarks() -> Iterator[Benchmark]:
    for product in PRODUCTS:
        yield _throughput(product, 1)
        yield _throughput(product, 2)
        yield _latency(product)
