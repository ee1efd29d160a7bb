"""Device code of the Hopper GEMM of groups of any sizes.

A build is for a number of groups, and each group has TMA descriptors of its own, which a launch encodes. So none is
changed on the GPU, and a warp that loads chooses between them by branches.
"""

from typing import Any, NamedTuple

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass import Int32, Int64
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from kernels.hopper_gemm.kernel import HopperGemm, Params, Tile
from kernels.hopper_gemm.tiles import BAND

MULTIPLE = 8  # of sizes: TMA takes rows of whole 16 bytes


class Problem(NamedTuple):
    """Sizes of a group, and where its C begins."""

    m: Int32
    n: Int32
    k: Int32
    begin: Int64


class GroupTile(NamedTuple):
    """Tile indices: rows, columns, group; the group's sizes, and where its C begins."""

    m: Int32
    n: Int32
    group: Int32
    problem: Problem


class HopperGrouped(HopperGemm):
    """Compile-time choices: element type, tile (M, N), and the number of groups."""

    def __init__(self, dtype: str, tile: tuple[int, int], count: int, occupancy: int = 1) -> None:
        super().__init__(dtype, dtype, tile, occupancy)
        self.problems, self.keeps_sums = count, True

    @cute.jit
    def __call__(
        self,
        mA: cute.Tensor,  # vector with A of each group, (m, k)
        mB: cute.Tensor,  # with B of each group, (n, k)
        mC: cute.Tensor,  # with C of each group, (m, n)
        groups: Any,  # m, n, k and where A, B, C begin in the vectors, of one group after the other
        tiles: Int32,
        ctas: Int32,
        stream: CUstream,
    ) -> None:
        a_layout, b_layout = self._layouts()
        atoms, problems = [[], [], [], []], []
        for group in cutlass.range_constexpr(self.problems):
            m, n, k = (cute.assume(size, MULTIPLE) for size in groups[6 * group : 6 * group + 3])
            a, b, c = groups[6 * group + 3 : 6 * group + 6]
            for place, (tensor, begin, rows, layout, tile) in enumerate(
                ((mA, a, m, a_layout, (self.tile_m, self.width_a)), (mB, b, n, b_layout, (self.tile_n, self.width_b)))
            ):
                pointer = (tensor.iterator + begin).align(16)
                matrix = cute.make_tensor(pointer, cute.make_layout((rows, k, 1), stride=(k, 1, 0)))
                box = cute.slice_(layout, (None, None, 0))
                pair = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), matrix, box, tile)
                atoms[2 * place].append(pair[0])
                atoms[2 * place + 1].append(pair[1])
            problems.append(Problem(m, n, k, c))
        params = Params(mC, None, None, None, None, None, None, tiles, tuple(problems))
        self.kernel(self._mma(), self._mma(), *map(tuple, atoms), a_layout, b_layout, params).launch(
            grid=[ctas, 1, 1],
            block=[self.threads, 1, 1],
            stream=stream,
            min_blocks_per_mp=self.occupancy,
            preferred_smem_carveout=100,  # percent; else the DSL asks a GPU
        )

    def descriptors(self, tma_a: Any, tma_b: Any) -> tuple[cute.CopyAtom, ...]:
        return (*tma_a, *tma_b)

    def depth(self, mA: Any) -> Any:
        return None

    def steps(self, at: Any, k_tiles: Any) -> Int32:
        return cute.ceil_div(at.problem.k, self.width_a)

    @cute.jit
    def place(self, tile: Int32, params: Params) -> GroupTile:
        """Return a tile's indices; BAND rows of a group's tiles share loads, by column."""
        group, begin = Int32(0), Int32(0)
        m, n, k, at = params.problems[0]
        end = cute.ceil_div(m, self.tile_m) * cute.ceil_div(n, self.tile_n)
        for later in cutlass.range_constexpr(1, self.problems):
            one = params.problems[later]
            if tile >= end:
                group, begin = Int32(later), end
                m, n, k, at = one
            end += cute.ceil_div(one.m, self.tile_m) * cute.ceil_div(one.n, self.tile_n)
        down, across = cute.ceil_div(m, self.tile_m), cute.ceil_div(n, self.tile_n)
        tile -= begin
        band = tile // (BAND * across)
        rows = cutlass.min(down - band * BAND, BAND)
        within = tile - band * BAND * across
        return GroupTile(band * BAND + within % rows, within // rows, group, Problem(m, n, k, at))

    @cute.jit
    def load(self, tma_a, mA, tma_b, mB, sA, sB, full, empty, params: Params, k_tiles) -> None:
        stage, phase = Int32(0), Int32(0)
        tile = cute.arch.block_idx()[0]
        while tile < params.tiles:
            at = self.place(tile, params)
            for group in cutlass.range_constexpr(self.problems):
                if at.group == group:
                    stage, phase = self.load_tile(
                        *(tma_a[group], mA[group], tma_b[group], mB[group], sA, sB, full, empty),
                        *(Tile(at.m, at.n, Int32(0), Int32(0)), self.steps(at, None), stage, phase),
                    )
            tile += cute.arch.grid_dim()[0]

    def target(self, mC: cute.Tensor, at: Any, params: Params) -> tuple[cute.Tensor, Any, Any, Any]:
        """Return the group's C, its shape, the tile's shape and the tile's indices."""
        m, n = at.problem.m, cute.assume(at.problem.n, MULTIPLE)
        pointer = (mC.iterator + at.problem.begin).align(16)
        matrix = cute.make_tensor(pointer, cute.make_layout((m, n), stride=(n, 1)))
        return matrix, matrix.shape, (self.tile_m, self.tile_n), (at.m, at.n)

    def arguments(self) -> tuple[Any, ...]:
        """Return fake arguments of the host function; all sizes are dynamic."""
        vectors = (
            make_fake_compact_tensor(kind, (cute.sym_int32(),), assumed_align=16)
            for kind in (self.element_a, self.element_b, self.output)
        )
        group = (*(Int32(1) for _ in "mnk"), *(Int64(0) for _ in "ABC"))
        return *vectors, group * self.problems, Int32(1), Int32(1), make_fake_stream()
