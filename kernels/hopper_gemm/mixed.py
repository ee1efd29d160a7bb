"""Device code of the Hopper GEMM with int8 or int4 weights.

D = A B^T, with A in bf16.

Weights are the rows of the tensor cores' product and tokens its columns, so that few tokens fill a tile. wgmma takes
weights from registers: a thread reads codes of its rows from shared memory and makes bf16 of two with a few
instructions. Scales of int4 multiply the sums of a block of 128, so that codes are multiplied as they are.
"""

from typing import Any

import cutlass
import cutlass.cute as cute
import cutlass.utils.hopper_helpers as sm90
from cutlass import BFloat16, Float32, Int32, Uint32, const_expr
from cutlass.cute.nvgpu import warpgroup

from kernels.hopper_gemm.kernel import HopperGemm, Params, Tile
from kernels.hopper_gemm.tiles import BLOCK, WARPGROUP_ROWS

PAIRS = {"int8": cutlass.Int16, "int4": cutlass.Uint8}  # element type of arrays of codes: two are an element
FRAGMENTS = BLOCK // 16  # products of a block, each of 16 elements along K
MAGIC = 0x43004300  # two bf16 of 128: an integer below 128 in the low bits adds itself


class HopperMixed(HopperGemm):
    """Compile-time choices: type of weights, tile (tokens, weight rows), groups."""

    reads_stages = True

    def __init__(self, dtype: str, tile: tuple[int, int], occupancy: int = 1, groups: str | None = None) -> None:
        super().__init__("bf16", "bf16", tile, occupancy, scaled=dtype == "int4", groups=groups)
        self.dtype = dtype
        self.width_a = BLOCK
        self.element_b, self.width_b = PAIRS[dtype], BLOCK // 2
        self._divide(self.tile_n)

    def _mma(self) -> cute.TiledMma:
        k_major = warpgroup.OperandMajorMode.K
        return sm90.make_trivial_tiled_mma(
            *(BFloat16, BFloat16, k_major, k_major, Float32),
            (self.warpgroups, 1, 1),
            (WARPGROUP_ROWS, self.tile_m),
            warpgroup.OperandSource.RMEM,
        )

    @cute.jit
    def multiply(self, mma, first, sA, sB, full, empty, params: Params, k_tiles) -> None:
        thread = cute.arch.thread_idx()[0]
        part = mma.get_slice(thread)
        tCrA = mma.make_fragment_B(part.partition_B(sA))  # tokens are the second operand
        tCcD = part.partition_C(cute.make_identity_tensor((self.tile_n, self.tile_m)))
        acc = cute.make_rmem_tensor(mma.partition_shape_C((self.tile_n, self.tile_m)), Float32)
        block = cute.make_rmem_tensor(acc.layout, Float32)
        weights = cute.make_rmem_tensor((4 * FRAGMENTS,), Uint32)  # pairs of bf16, as wgmma takes them
        operand = cute.make_layout(((2, 2, 2), 1, FRAGMENTS), stride=((1, 2, 4), 0, 8))
        tCrB = cute.make_tensor(cute.recast_ptr(weights.iterator, dtype=BFloat16), operand)
        scales = cute.make_rmem_tensor((2,), Float32)
        row = thread // 32 * 16 + thread % 32 // 4
        stage, phase = Int32(0), Int32(0)
        tile, tiles = cute.arch.block_idx()[0], self.count(params)
        while tile < tiles:
            at = self.place(tile, params)
            acc.fill(0.0)
            for k in cutlass.range(k_tiles, unroll=1):
                if const_expr(self.scaled):
                    self.load_scales(scales, tCcD, at, k, params)
                cute.arch.mbarrier_wait(full + stage, phase)
                self.convert(weights, sB[None, None, stage], row, thread % 4)
                warpgroup.fence()
                sums = block if const_expr(self.scaled) else acc
                for part_k in cutlass.range_constexpr(FRAGMENTS):
                    chosen = first if const_expr(self.scaled and part_k == 0) else mma
                    cute.gemm(chosen, sums, tCrB[None, None, part_k], tCrA[None, None, part_k, stage], sums)
                warpgroup.commit_group()
                warpgroup.wait_group(0)
                self.release(empty + stage)
                if const_expr(self.scaled):
                    self.add_scaled(acc, block, scales)
                stage += 1
                if stage == self.stages:
                    stage, phase = Int32(0), phase ^ 1
            self.store(part, acc, at, params)
            tile += cute.arch.grid_dim()[0]

    @cute.jit
    def convert(self, weights: cute.Tensor, sB: cute.Tensor, row: Int32, lane: Int32) -> None:
        """Convert weights to bf16: rows `row`, `row` + 8, pairs `lane`, `lane` + 4, ..."""
        spread = cute.make_rmem_tensor((4 * FRAGMENTS,), Uint32)  # each code in the low bits of a half
        lows = cute.make_rmem_tensor((4 * FRAGMENTS,), Uint32)
        for i in cutlass.range_constexpr(4 * FRAGMENTS):
            codes = Uint32(sB[row + 8 * (i % 2), 8 * (i // 4) + 4 * (i // 2 % 2) + lane])
            if const_expr(self.dtype == "int8"):
                spread[i] = ((codes & 0xFF) | (codes << 8)) & 0x00FF00FF
                lows[i] = (spread[i] & 0x007F007F) | MAGIC
                spread[i] = (spread[i] & 0x00800080) | MAGIC  # 256 with a code's sign, else 128
            else:
                lows[i] = (((codes | (codes << 12)) & 0x000F000F) ^ 0x00080008) | MAGIC  # 136 more than the code
        of = cute.recast_tensor(lows, BFloat16).load()
        if const_expr(self.dtype == "int8"):
            cute.recast_tensor(weights, BFloat16).store(of - cute.recast_tensor(spread, BFloat16).load())
        else:
            cute.recast_tensor(weights, BFloat16).store(of - BFloat16(136.0))

    @cute.jit
    def load_scales(self, scales: cute.Tensor, tCcD: cute.Tensor, at: Tile, k: Int32, params: Params) -> None:
        """Load the scales of the thread's two weight rows of block `k`."""
        for r in cutlass.range_constexpr(2):
            row = at.n * self.tile_n + tCcD[(0, r, 0), 0, 0][0]
            scales[r] = Float32(params.mScalesB[at.group, k, cutlass.min(row, params.mScalesB.shape[2] - 1)])

    def vectors(self, part: cute.Tensor) -> cute.Tensor:
        """View a thread's tile as elements: MMA neighbours are in different rows of D."""
        return cute.prepend_ones(cute.group_modes(part, 0, 3), up_to_rank=2)

    def target(self, mD: cute.Tensor, at: Tile, params: Params) -> tuple[cute.Tensor, Any, Any, Any]:
        """Return D transposed, from the first row of a group on."""
        mD = mD[at.batch, None, None]
        rows, columns = mD.shape
        if self.groups == "starts":
            rows = params.mGroups[at.group + 1] - params.mGroups[at.group]
            mD = cute.domain_offset((params.mGroups[at.group], 0), mD)
        mD = cute.make_tensor(mD.iterator, cute.select(mD.layout, mode=[1, 0]))
        return mD, (columns, rows), (self.tile_n, self.tile_m), (at.n, at.m)

    def fake_scales(self, row_major: Any, batch: Any, groups: Any, m: Any, n: Any) -> tuple[Any, Any]:
        return None, row_major(BFloat16, groups, cute.sym_int32(), n)
