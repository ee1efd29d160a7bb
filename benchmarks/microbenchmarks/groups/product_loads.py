"""Stages of matrix products that only load A and B by TMA.

Each CTA has an A of its own. CTAs at a distance in the grid share B, so that L2 sends the same bytes several times. A
comes from L2 or from DRAM.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.microbenchmarks.gpu import REPETITIONS, Arguments, Gpu, Shape
from benchmarks.microbenchmarks.groups.global_memory import LARGE
from benchmarks.microbenchmarks.groups.tma import ROW_BYTES
from benchmarks.microbenchmarks.kernel import timed
from benchmarks.microbenchmarks.reading import Benchmark, Reading

NAME = "product_loads"
SHARED_BYTES, RESERVED_BYTES, MOST_STAGES = 232_448, 2_048, 8
WIDTH = 64  # elements of a stage along K


@dataclass(frozen=True)
class Ring:
    """A tile of 64 · `groups` rows and `n` columns; CTAs per SM."""

    n: int
    groups: int
    occupancy: int

    @property
    def name(self) -> str:
        return f"ring_{64 * self.groups}x{self.n}_o{self.occupancy}"

    @property
    def stage(self) -> int:
        return (64 * self.groups + self.n) * ROW_BYTES

    @property
    def stages(self) -> int:
        return min(MOST_STAGES, (SHARED_BYTES // self.occupancy - RESERVED_BYTES) // self.stage)

    @property
    def box_rows(self) -> int:
        return min(self.n, 64)

    @property
    def shape(self) -> dict[str, int]:
        return {"block": 128 * self.groups + 32, "shared": 1024 + self.stages * self.stage}

    def text(self) -> str:
        return timed(self.name, self._consume(), setup=self._setup(), select=self._produce(), tensor_map=True)

    def _setup(self) -> str:
        return f"""
  .reg .b32 %slot, %bar, %parity, %tile, %k, %row_a, %row_b, %place, %depth, %by;
  .reg .pred %ready, %chosen;  .reg .b64 %map;
  mov.b64 %map, p_map;  cvta.param.u64 %map, %map;
  setp.ne.u32 %p, %thread, 0;  @%p bra MADE;
  mov.u32 %i, 0;
MAKE:
  shl.b32 %j, %i, 3;  add.u32 %j, %base, %j;
  mbarrier.init.shared.b64 [%j], 1;  mbarrier.init.shared.b64 [%j+256], {4 * self.groups};
  add.u32 %i, %i, 1;  setp.lt.u32 %p, %i, {self.stages};  @%p bra MAKE;
  fence.mbarrier_init.release.cluster;  fence.proxy.async.shared::cta;
MADE:
  mov.u32 %slot, 0;  mov.u32 %parity, 0;
"""

    def _next(self) -> str:
        return (
            f"add.u32 %slot, %slot, 1;  setp.eq.u32 %p, %slot, {self.stages};  @%p mov.u32 %slot, 0;  "
            f"@%p xor.b32 %parity, %parity, 1;"
        )

    def _produce(self) -> str:
        rows = self.box_rows
        copy = f"""
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%place], [%map, {{%k, %j}}], [%bar];
  add.u32 %place, %place, {rows * ROW_BYTES};  add.u32 %j, %j, {rows};"""
        copies = f"mov.u32 %j, %row_a;{64 * self.groups // rows * copy}  mov.u32 %j, %row_b;{self.n // rows * copy}"
        return f"""
  setp.lt.u32 %p, %warp, {4 * self.groups};  @%p bra CONSUME;
  cvt.u32.u64 %depth, %a;  mov.u32 %tile, %cta;  mov.u32 %k, %depth;
PRODUCE:
  setp.lt.u32 %p, %k, %depth;  @%p bra SAME;
  mov.u32 %k, 0;  rem.u32 %tile, %tile, %d;  mul.lo.u32 %row_a, %tile, {64 * self.groups};
  and.b32 %by, %e, 0xffff;  shr.u32 %i, %e, 16;  mul.lo.u32 %i, %i, %by;  div.u32 %row_b, %tile, %i;
  mul.lo.u32 %row_b, %row_b, %by;  rem.u32 %i, %tile, %by;  add.u32 %row_b, %row_b, %i;
  mov.u32 %j, 0x40000000;  div.u32 %j, %j, %depth;  mad.lo.u32 %row_b, %row_b, {self.n}, %j;
  mov.u32 %j, %nctaid.x;  add.u32 %tile, %tile, %j;
SAME:
  shl.b32 %bar, %slot, 3;  add.u32 %bar, %base, %bar;  xor.b32 %i, %parity, 1;
EMPTY:
  mbarrier.try_wait.parity.shared.b64 %ready, [%bar+256], %i;  @!%ready bra EMPTY;
  mad.lo.u32 %place, %slot, {self.stage}, %base;  add.u32 %place, %place, 1024;
  elect.sync %i|%chosen, -1;  @!%chosen bra SKIP;
  mbarrier.arrive.expect_tx.shared.b64 _, [%bar], {self.stage};
  {copies}
SKIP:
  add.u32 %k, %k, {WIDTH};  {self._next()}
  sub.u32 %n, %n, 1;  setp.ne.u32 %p, %n, 0;  @%p bra PRODUCE;
  bra END;
CONSUME:
"""

    def _consume(self) -> str:
        return f"""shl.b32 %bar, %slot, 3;  add.u32 %bar, %base, %bar;
FULL:
  mbarrier.try_wait.parity.shared.b64 %ready, [%bar], %parity;  @!%ready bra FULL;
  setp.ne.u32 %p, %lane, 0;  @!%p mbarrier.arrive.shared.b64 _, [%bar+256];
  {self._next()}"""


WIDE = [Ring(128, 1, 2), Ring(256, 1, 1), Ring(256, 2, 1)]
RINGS = [Ring(32, 1, 2), Ring(64, 1, 2), Ring(128, 2, 1), *WIDE]
SHARED = ((1, 1), (1, 4), (1, 16), (2, 4), (2, 16), (4, 4), (4, 16), (8, 4), (8, 16))  # stride, sharers


def kernels() -> list[str]:
    return [ring.text() for ring in RINGS]


def expected() -> dict[str, tuple[str, int]]:
    return {}


def _stages(ring: Ring, k: int, stride: int, sharers: int, counts: tuple[int, int] = (512, 1024)) -> Benchmark:
    """Return cycles of a stage; `sharers` CTAs, `stride` apart in the grid, have one B.

    They are the mean between the `counts` of a CTA's stages.
    """

    def measure(gpu: Gpu) -> Reading:
        slots = gpu.processors * ring.occupancy
        tensor: Any = gpu.tensor_map(gpu.buffer("large", LARGE), k, LARGE // (2 * k), ring.box_rows)
        arguments = Arguments(a=k, d=slots, e=stride | min(sharers, slots) << 16, tensor_map=tensor)
        shape = Shape(slots, **ring.shape)
        gpu.run(ring.name, shape, arguments, counts[1])
        cycles, clocks = np.zeros((2, REPETITIONS, 2))
        for i in range(REPETITIONS):
            for j, count in enumerate(counts):
                stamps = gpu.run(ring.name, shape, arguments, count).stamps[:, : 4 * ring.groups]
                cycles[i, j] = np.median(stamps[..., 1].max(1) - stamps[..., 0].min(1))
                clocks[i, j] = 1e3 * cycles[i, j] / np.median(stamps[..., 3].max(1) - stamps[..., 2].min(1))
        steps = (cycles[:, 1] - cycles[:, 0]) / (counts[1] - counts[0])
        also = {"bytes_of_a": 64 * ring.groups * ROW_BYTES * slots, "bytes_of_b": ring.n * ROW_BYTES * slots}
        return Reading(
            float(np.median(steps)),
            float(steps.min()),
            float(steps.max()),
            len(steps),
            float(np.median(clocks[:, 1])),
            also,
        )

    parameters = {
        "tile": f"{64 * ring.groups}x{ring.n}",
        "ctas_per_sm": ring.occupancy,
        "k": k,
        "stride": stride,
        "sharers": sharers,
    }
    return Benchmark("stages of tiles loaded by TMA", parameters, "cycles per stage", measure)


def benchmarks() -> Iterator[Benchmark]:
    for ring in RINGS:
        for stride, sharers in SHARED:
            yield _stages(ring, 512, stride, sharers)
    for ring in WIDE:  # A, which several bytes of B go with, from DRAM, and the case from L2 that is not above
        yield _stages(ring, 512, 1, 999)
        for sharers in (16, 999):
            yield _stages(ring, 7168, 1, sharers, (256, 1024))
