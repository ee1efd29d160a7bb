"""Device code of this project's Hopper GEMM in CuTe DSL: D = A B^T.

CTAs stay for several tiles of D. A warp loads with TMA into a ring of stages. One or two warpgroups multiply with
wgmma, 64 rows each, and store from registers while the next tile's stages fill.

    dense       D = activation(alpha A B^T + beta C), or the plain product
    scaled      fp8 operands: a stage is a block of 128 along K, whose sums are scaled in registers and added
    contiguous  rows of A in groups, one after the other: a tile of rows takes the B of its group
    masked      batches of which the first rows count: tiles past them are left out
    starts      rows of A in groups that begin anywhere
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cutlass
import cutlass.cute as cute
import cutlass.utils.hopper_helpers as sm90
from cuda.bindings.driver import CUstream
from cutlass import Float32, Int32, Int64, const_expr
from cutlass._mlir.dialects.llvm import inline_asm
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream
from cutlass.cutlass_dsl import T
from cutlass.utils import SmemAllocator

from kernels.hopper_gemm.tiles import BAND, BLOCK, ROW_BYTES, WARPGROUP_ROWS, stages
from kernels.upstream.gemm import element

WARPGROUP = 128  # threads
LOAD_REGISTERS, MULTIPLY_REGISTERS = 40, 232  # of a thread, where two warpgroups multiply
LOG2_E = 1.4426950408889634


class Params(NamedTuple):
    """Arguments that host function and kernel share; None where a build has no such argument."""

    mD: cute.Tensor  # (batch, M, N)
    mC: cute.Tensor | None  # (M, N)
    alpha: Float32 | None
    beta: Float32 | None
    mScalesA: cute.Tensor | None  # (batch, blocks along K, M) fp32
    mScalesB: cute.Tensor | None  # (batch, blocks along N, blocks along K) fp32; mixed: (batch, blocks along K, N) bf16
    mGroups: cute.Tensor | None  # int32. contiguous: (M,) group of a row; masked: (batch or more,) rows in use;
    #                              starts: (groups + 1,) first row of each group
    tiles: Int32  # unless the GPU counts them
    problems: Any = None  # sizes of each group, where they differ


class Tile(NamedTuple):
    """Tile indices: rows, columns, batch of A and D, batch of B."""

    m: Int32
    n: Int32
    batch: Int32
    group: Int32


class HopperGemm:
    """Compile-time choices: element types, tile (M, N), and which of the products."""

    reads_stages = False  # by ordinary loads

    def __init__(
        self,
        dtype: str,
        output: str,
        tile: tuple[int, int],
        occupancy: int = 1,  # CTAs that a multiprocessor is to hold
        activation: str | None = None,  # identity, relu or silu: with alpha, beta and C
        scaled: bool = False,
        groups: str | None = None,  # contiguous, masked or starts
    ) -> None:
        self.tile_m, self.tile_n = tile
        self.occupancy, self.activation, self.scaled, self.groups = occupancy, activation, scaled, groups
        self.counted = groups in ("masked", "starts")
        self.keeps_sums = groups == "masked"
        self.element_a = self.element_b = element(dtype)
        self.output = element(output)
        self.width_a = self.width_b = ROW_BYTES * 8 // self.element_a.width  # of a stage, elements along K
        self._divide(self.tile_m)

    def _divide(self, rows: int) -> None:
        """Choose threads and stages, for so many rows of the tensor cores' product."""
        self.stage_bytes = sum(
            rows * width * kind.width // 8
            for rows, width, kind in (
                (self.tile_m, self.width_a, self.element_a),
                (self.tile_n, self.width_b, self.element_b),
            )
        )
        self.stages = stages(self.stage_bytes, self.occupancy)
        self.warpgroups = rows // WARPGROUP_ROWS
        self.load_warp = 4 * self.warpgroups
        self.splits_registers = self.warpgroups == 2
        self.threads = WARPGROUP * self.warpgroups + (WARPGROUP if self.splits_registers else 32)

    def _mma(self) -> cute.TiledMma:
        k_major = warpgroup.OperandMajorMode.K
        return sm90.make_trivial_tiled_mma(
            *(self.element_a, self.element_b, k_major, k_major, Float32),
            (self.warpgroups, 1, 1),
            (WARPGROUP_ROWS, self.tile_n),
        )

    def _layouts(self) -> tuple[cute.ComposedLayout, cute.ComposedLayout]:
        """Return swizzled layouts (rows, elements along K, stages) of A and B."""
        result = []
        kinds = {128: warpgroup.SmemLayoutAtomKind.K_SW128, 64: warpgroup.SmemLayoutAtomKind.K_SW64}
        for rows, width, kind in (
            (self.tile_m, self.width_a, self.element_a),
            (self.tile_n, self.width_b, self.element_b),
        ):
            atom = warpgroup.make_smem_layout_atom(kinds[min(128, width * kind.width // 8)], kind)
            result.append(cute.tile_to_shape(atom, (rows, width, self.stages), order=(0, 1, 2)))
        return result[0], result[1]

    @cute.jit
    def __call__(
        self,
        mA: cute.Tensor,  # (batch, M, K); one batch unless masked
        mB: cute.Tensor,  # (groups, N, K)
        mD: cute.Tensor,  # from here to `tiles`: see Params
        mC: cute.Tensor | None,
        alpha: Float32 | None,
        beta: Float32 | None,
        mScalesA: cute.Tensor | None,
        mScalesB: cute.Tensor | None,
        mGroups: cute.Tensor | None,
        tiles: Int32,
        ctas: Int32,
        stream: CUstream,
    ) -> None:
        a_layout, b_layout = self._layouts()
        atoms = []
        for tensor, layout, tile in (
            (mA, a_layout, (self.tile_m, self.width_a)),
            (mB, b_layout, (self.tile_n, self.width_b)),
        ):
            batch_last = cute.make_tensor(tensor.iterator, cute.select(tensor.layout, mode=[1, 2, 0]))
            box = cute.slice_(layout, (None, None, 0))
            atoms += cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), batch_last, box, tile)
        params = Params(mD, mC, alpha, beta, mScalesA, mScalesB, mGroups, tiles)
        self.kernel(self._mma(), self._mma(), *atoms, a_layout, b_layout, params).launch(
            grid=[ctas, 1, 1],
            block=[self.threads, 1, 1],
            stream=stream,
            min_blocks_per_mp=self.occupancy,
            preferred_smem_carveout=100,  # percent; else the DSL asks a GPU
        )

    @cute.kernel
    def kernel(
        self,
        mma: cute.TiledMma,
        first: cute.TiledMma,
        tma_a: Any,  # atom, or one for each group
        mA: Any,  # (M, K, batch)
        tma_b: Any,
        mB: Any,  # (N, K, groups)
        a_layout: cute.ComposedLayout,
        b_layout: cute.ComposedLayout,
        params: Params,
    ) -> None:
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        smem = SmemAllocator()
        sA = smem.allocate_tensor(self.element_a, a_layout.outer, 1024, a_layout.inner)
        sB = smem.allocate_tensor(self.element_b, b_layout.outer, 1024, b_layout.inner)
        full = smem.allocate_array(Int64, 2 * self.stages)
        empty = full + self.stages
        if warp == self.load_warp:
            for descriptor in self.descriptors(tma_a, tma_b):
                cpasync.prefetch_descriptor(descriptor)
            with cute.arch.elect_one():
                for stage in range(self.stages):
                    cute.arch.mbarrier_init(full + stage, 1)
                    cute.arch.mbarrier_init(empty + stage, 4 * self.warpgroups)
            cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()
        # Set once, outside every branch and loop: the field is rebound in the place where it is set.
        first.set(warpgroup.Field.ACCUMULATE, False)
        mma.set(warpgroup.Field.ACCUMULATE, True)

        k_tiles = self.depth(mA)
        if warp >= self.load_warp:
            if const_expr(self.splits_registers):
                cute.arch.setmaxregister_decrease(LOAD_REGISTERS)
            if warp == self.load_warp:
                self.load(tma_a, mA, tma_b, mB, sA, sB, full, empty, params, k_tiles)
        else:
            if const_expr(self.splits_registers):
                cute.arch.setmaxregister_increase(MULTIPLY_REGISTERS)
            self.multiply(mma, first, sA, sB, full, empty, params, k_tiles)

    def descriptors(self, tma_a: Any, tma_b: Any) -> tuple[cute.CopyAtom, ...]:
        return tma_a, tma_b

    def depth(self, mA: Any) -> Any:
        """Return the stages that a tile takes, the same for all."""
        return cute.ceil_div(mA.shape[1], self.width_a)

    def steps(self, at: Tile, k_tiles: Any) -> Int32:
        """Return the stages of a tile."""
        return k_tiles

    # -- which tile ----------------------------------------------------------------------------------------------------

    @cute.jit
    def count(self, params: Params) -> Int32:
        """Return the number of tiles of all CTAs."""
        tiles = params.tiles
        if const_expr(self.counted):
            tiles = Int32(0)
            across = cute.ceil_div(params.mD.shape[2], self.tile_n)
            groups = params.mD.shape[0] if const_expr(self.groups == "masked") else params.mGroups.shape[0] - 1
            for group in cutlass.range(groups, unroll=1):
                tiles += cute.ceil_div(self.rows(group, params), self.tile_m) * across
        return tiles

    def rows(self, group: Int32, params: Params) -> Int32:
        """Return the rows of a group, of those that are counted."""
        if self.groups == "masked":
            return params.mGroups[group]
        return params.mGroups[group + 1] - params.mGroups[group]

    @cute.jit
    def place(self, tile: Int32, params: Params) -> Tile:
        """Return a tile's indices; BAND rows of tiles share loads, column by column."""
        down = cute.ceil_div(params.mD.shape[1], self.tile_m)
        across = cute.ceil_div(params.mD.shape[2], self.tile_n)
        group = Int32(0)
        if const_expr(self.counted):
            down = cute.ceil_div(self.rows(group, params), self.tile_m)
            while tile >= down * across:
                tile -= down * across
                group += 1
                down = cute.ceil_div(self.rows(group, params), self.tile_m)
        band = tile // (BAND * across)
        rows = cutlass.min(down - band * BAND, BAND)
        within = tile - band * BAND * across
        m, n = band * BAND + within % rows, within // rows
        batch = group if const_expr(self.groups == "masked") else Int32(0)
        if const_expr(self.groups == "contiguous"):
            group = params.mGroups[m * self.tile_m]
        return Tile(m, n, batch, group)

    # -- one warp loads ------------------------------------------------------------------------------------------------

    @cute.jit
    def load(self, tma_a, mA, tma_b, mB, sA, sB, full, empty, params: Params, k_tiles) -> None:
        stage, phase = Int32(0), Int32(0)
        tile, tiles = cute.arch.block_idx()[0], self.count(params)
        while tile < tiles:
            at = self.place(tile, params)
            rows = mA
            if const_expr(self.groups == "starts"):
                rows = cute.domain_offset((params.mGroups[at.group], 0, 0), mA)
            stage, phase = self.load_tile(tma_a, rows, tma_b, mB, sA, sB, full, empty, at, k_tiles, stage, phase)
            tile += cute.arch.grid_dim()[0]

    @cute.jit
    def load_tile(self, tma_a, mA, tma_b, mB, sA, sB, full, empty, at: Tile, k_tiles, stage, phase) -> Any:
        """Load a tile's stages; return the next stage and its phase."""
        gA = cute.local_tile(mA, (self.tile_m, self.width_a), (at.m, None, at.batch))
        gB = cute.local_tile(mB, (self.tile_n, self.width_b), (at.n, None, at.group))
        alone = cute.make_layout(1)
        tAsA, tAgA = cpasync.tma_partition(tma_a, 0, alone, cute.group_modes(sA, 0, 2), cute.group_modes(gA, 0, 2))
        tBsB, tBgB = cpasync.tma_partition(tma_b, 0, alone, cute.group_modes(sB, 0, 2), cute.group_modes(gB, 0, 2))
        for k in cutlass.range(k_tiles, unroll=1):
            cute.arch.mbarrier_wait(empty + stage, phase ^ 1)  # passes the first time: all stages are empty
            if const_expr(self.reads_stages):  # here, since the multiplying warps have no time to spare
                cute.arch.fence_proxy("async.shared", space="cta")
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full + stage, self.stage_bytes)
            cute.copy(tma_a, tAgA[None, k], tAsA[None, stage], tma_bar_ptr=full + stage)
            cute.copy(tma_b, tBgB[None, k], tBsB[None, stage], tma_bar_ptr=full + stage)
            stage += 1
            if stage == self.stages:
                stage, phase = Int32(0), phase ^ 1
        return stage, phase

    # -- one or two warpgroups multiply --------------------------------------------------------------------------------

    @cute.jit
    def multiply(self, mma, first, sA, sB, full, empty, params: Params, k_tiles) -> None:
        thread = cute.arch.thread_idx()[0]
        part = mma.get_slice(thread)
        whole = mma.get_slice(cute.arch.make_warp_uniform(thread // WARPGROUP) * WARPGROUP)  # for uniform descriptors
        tCrA, tCrB = mma.make_fragment_A(whole.partition_A(sA)), mma.make_fragment_B(whole.partition_B(sB))
        tCcD = part.partition_C(cute.make_identity_tensor((self.tile_m, self.tile_n)))
        acc = cute.make_rmem_tensor(mma.partition_shape_C((self.tile_m, self.tile_n)), Float32)
        block = cute.make_rmem_tensor(acc.layout, Float32)  # sums of a block, if scaled
        scales = cute.make_rmem_tensor((2,), Float32)
        stage, phase = Int32(0), Int32(0)
        tile, tiles = cute.arch.block_idx()[0], self.count(params)
        while tile < tiles:
            at = self.place(tile, params)
            acc.fill(0.0)
            before = stage
            for k in cutlass.range(self.steps(at, k_tiles), unroll=1):
                if const_expr(self.scaled):
                    self.load_scales(scales, tCcD, at, k, params)
                cute.arch.mbarrier_wait(full + stage, phase)
                warpgroup.fence()
                sums = block if const_expr(self.scaled) else acc
                for part_k in cutlass.range_constexpr(cute.size(tCrA, mode=[2])):
                    a, b = tCrA[None, None, part_k, stage], tCrB[None, None, part_k, stage]
                    cute.gemm(first if const_expr(self.scaled and part_k == 0) else mma, sums, a, b, sums)
                warpgroup.commit_group()
                if const_expr(self.scaled):
                    warpgroup.wait_group(0)
                    self.release(empty + stage)
                    self.add_scaled(acc, block, scales)
                else:
                    warpgroup.wait_group(1)  # for the products of the stage before
                    if k > 0:
                        self.release(empty + before)
                    before = stage
                stage += 1
                if stage == self.stages:
                    stage, phase = Int32(0), phase ^ 1
            if const_expr(not self.scaled):
                warpgroup.wait_group(0)
                if const_expr(self.keeps_sums):
                    self.keep_after_wait(acc)
                self.release(empty + before)
            self.store(part, acc, at, params)
            tile += cute.arch.grid_dim()[0]

    @cute.jit
    def keep_after_wait(self, acc: cute.Tensor) -> None:
        """Keep the compiler from converting sums before the wait.

        It did so in builds of groups. The assembly is empty and costs no instruction.
        """
        for i in cutlass.range_constexpr(cute.size(acc)):
            acc[i] = Float32(inline_asm(T.f32(), [acc[i].ir_value()], "", "=f,0", has_side_effects=True))

    @cute.jit
    def release(self, empty: cute.Pointer) -> None:
        """Arrive, once for each warp."""
        with cute.arch.elect_one():
            cute.arch.mbarrier_arrive(empty)

    @cute.jit
    def load_scales(self, scales: cute.Tensor, tCcD: cute.Tensor, at: Tile, k: Int32, params: Params) -> None:
        """Load products of A's and B's scales for the thread's rows of block `k`."""
        of_b = params.mScalesB[at.group, at.n * self.tile_n // BLOCK, k]
        for r in cutlass.range_constexpr(2):
            row = at.m * self.tile_m + tCcD[(0, r, 0), 0, 0][0]
            scales[r] = of_b * params.mScalesA[at.batch, k, cutlass.min(row, params.mScalesA.shape[2] - 1)]

    @cute.jit
    def add_scaled(self, acc: cute.Tensor, block: cute.Tensor, scales: cute.Tensor) -> None:
        """Add a block's sums times the scales of the thread's two rows."""
        columns = cute.size(acc) // 4
        each = cute.make_tensor(scales.iterator, cute.make_layout(((2, 2, columns), 1, 1), stride=((0, 1, 0), 0, 0)))
        acc.store(acc.load() + block.load() * each.load())

    def vectors(self, part: cute.Tensor) -> cute.Tensor:
        """View a thread's part of a tile as pairs of neighbours."""
        return cute.group_modes(cute.make_tensor(part.iterator, cute.get(part.layout, mode=[0])), 1, 3)

    def target(self, mD: cute.Tensor, at: Tile, params: Params) -> tuple[cute.Tensor, Any, Any, Any]:
        """Return D, its shape, the tile's shape and the tile's indices."""
        mD = mD[at.batch, None, None]
        return mD, mD.shape, (self.tile_m, self.tile_n), (at.m, at.n)

    @cute.jit
    def store(self, part: Any, acc: cute.Tensor, at: Tile, params: Params) -> None:
        """Store the thread's elements of D."""
        mD, bounds, shape, place = self.target(params.mD, at, params)
        tDgD = self.vectors(part.partition_C(cute.local_tile(mD, shape, place)))
        tDcD = self.vectors(part.partition_C(cute.local_tile(cute.make_identity_tensor(mD.shape), shape, place)))
        inside = cute.make_rmem_tensor((1, tDcD.shape[1]), cutlass.Boolean)
        for i in cutlass.range_constexpr(cute.size(inside)):
            inside[i] = cute.elem_less(tDcD[0, i], bounds)
        bits = cute.size(tDgD, mode=[0]) * self.output.width
        word = {16: cutlass.Int16, 32: Int32, 64: Int64}[bits]  # a vector as one element, since a predicate is for one
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), word, num_bits_per_copy=bits)
        tDrD = cute.make_rmem_tensor(tDgD.shape, self.output)
        if const_expr(self.activation is not None):
            tDgC = self.vectors(part.partition_C(cute.local_tile(params.mC, shape, place)))
            tDrD.fill(0.0)
            cute.copy(atom, cute.recast_tensor(tDgC, word), cute.recast_tensor(tDrD, word), pred=inside)
            self.finish(acc, tDrD, params)
        tDrD.store(self.vectors(acc).load().to(self.output))
        cute.copy(atom, cute.recast_tensor(tDrD, word), cute.recast_tensor(tDgD, word), pred=inside)

    @cute.jit
    def finish(self, acc: cute.Tensor, c: cute.Tensor, params: Params) -> None:
        """Replace sums by activation(alpha sums + beta C)."""
        for i in cutlass.range_constexpr(cute.size(acc)):
            x = params.alpha * acc[i] + params.beta * Float32(c[i])
            if const_expr(self.activation == "relu"):
                x = cute.arch.fmax(x, Float32(0.0))
            if const_expr(self.activation == "silu"):
                x = x * cute.arch.rcp_approx(1.0 + cute.arch.exp2(x * -LOG2_E))
            acc[i] = x

    # -- fake arguments ------------------------------------------------------------------------------------------------

    def arguments(self) -> tuple[Any, ...]:
        """Return fake arguments of the host function; all sizes are dynamic."""
        batch, groups, m = (cute.sym_int32() for _ in range(3))
        k, k_of_b = (cute.sym_int32(divisibility=128 // kind.width) for kind in (self.element_a, self.element_b))
        n = cute.sym_int32(divisibility=128 // self.output.width)

        def row_major(kind: type[cutlass.Numeric], *shape: Any, aligned: int = 16) -> Any:
            order = tuple(reversed(range(len(shape))))
            return make_fake_compact_tensor(kind, shape, stride_order=order, assumed_align=aligned)

        a, b = row_major(self.element_a, batch, m, k), row_major(self.element_b, groups, n, k_of_b)
        d = row_major(self.output, batch, m, n)
        epilogue = None, None, None
        if self.activation is not None:
            epilogue = row_major(self.output, m, n), Float32(1.0), Float32(1.0)
        scales = self.fake_scales(row_major, batch, groups, m, n) if self.scaled else (None, None)
        rows = row_major(Int32, cute.sym_int32(), aligned=4) if self.groups else None
        return a, b, d, *epilogue, *scales, rows, Int32(1), Int32(1), make_fake_stream()

    def fake_scales(self, row_major: Any, batch: Any, groups: Any, m: Any, n: Any) -> tuple[Any, Any]:
        along_k, along_n = cute.sym_int32(), cute.sym_int32()
        of_a = row_major(Float32, batch, along_k, m, aligned=4)
        return of_a, row_major(Float32, groups, along_n, along_k, aligned=4)
