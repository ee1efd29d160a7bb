"""A TMA descriptor in global memory: with and without an acquire before each box."""

from collections.abc import Iterator

from benchmarks.microbenchmarks.gpu import Arguments, Gpu, Shape
from benchmarks.microbenchmarks.groups.global_memory import LARGE
from benchmarks.microbenchmarks.groups.tma import ROW_BYTES
from benchmarks.microbenchmarks.kernel import timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "descriptors"
BOX = 4096
ROWS = BOX // ROW_BYTES
TIMES = (64, 192)
SHARED = 16 * 1024
# A CTA of one warp has a descriptor of its own, 128 bytes at %a + 1024 * CTA, copied from the launch's parameter.
SETUP = f"""
  .reg .b64 %map, %own, %word;  .reg .pred %ready, %chosen;  .reg .b32 %place, %parity, %row;
  mov.b64 %map, p_map;  cvta.param.u64 %map, %map;
  mul.wide.u32 %wide, %cta, 1024;  add.u64 %own, %a, %wide;
  setp.lt.u32 %p, %lane, 16;  mul.wide.u32 %wide, %lane, 8;  add.u64 %map, %map, %wide;  add.u64 %address, %own, %wide;
  @%p ld.u64 %word, [%map];  @%p st.global.u64 [%address], %word;
  mov.u32 %parity, 0;  add.u32 %place, %base, 1024;  mul.lo.u32 %row, %cta, {ROWS};
  setp.ne.u32 %p, %lane, 0;  @%p bra MADE;
  mbarrier.init.shared.b64 [%base], 1;  fence.mbarrier_init.release.cluster;  fence.proxy.async.shared::cta;
MADE:
  bar.warp.sync -1;  fence.acq_rel.gpu;
  fence.proxy.tensormap::generic.acquire.gpu [%own], 128;
"""
FETCH = f"""
  elect.sync %i|%chosen, -1;  @!%chosen bra SKIP;
  mbarrier.arrive.expect_tx.shared.b64 _, [%base], {BOX};  mov.u32 %j, 0;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%place], [%own, {{%j, %row}}], [%base];
SKIP:
WAIT:
  mbarrier.try_wait.parity.shared.b64 %ready, [%base], %parity;  @!%ready bra WAIT;
  xor.b32 %parity, %parity, 1;"""
KINDS = {  # what a round does
    "fetch": FETCH,
    "acquire_fetch": "fence.proxy.tensormap::generic.acquire.gpu [%own], 128;" + FETCH,
}


def kernels() -> list[str]:
    return [timed(f"map_{name}", text, setup=SETUP, tensor_map=True) for name, text in KINDS.items()]


def expected() -> dict[str, tuple[str, int]]:
    return {"map_fetch": ("UTMALDG", 1), "map_acquire_fetch": ("UTMACCTL", 2)}


def _round(kind: str) -> Benchmark:
    def measure(gpu: Gpu) -> Reading:
        large = gpu.buffer("large", LARGE)
        tensor = gpu.tensor_map(large, 64, LARGE // ROW_BYTES, ROWS)
        arguments = Arguments(a=gpu.buffer("maps", 1 << 20), b=large, tensor_map=tensor)
        return gpu.slope(f"map_{kind}", Shape(1, 32, SHARED), arguments, TIMES, 1)

    parameters = {"what": kind, "box_bytes": BOX, "sms": 1}
    return Benchmark("a TMA descriptor in global memory", parameters, "cycles per round", measure)


def benchmarks() -> Iterator[Benchmark]:
    for kind in KINDS:
        yield _round(kind)
