"""The combine kernel of `cute_sm100`: merges partial results of split requests."""

from __future__ import annotations

from typing import Any

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32
from cutlass.cutlass_dsl import select_

from kernels.mla_decode.cute_sm100.sizes import COMBINE_WARPS, LATENT, LN_2, NO_MAX, VECTOR, WARP

FEW, IN_FLIGHT, MORE = 4, 8, 12  # vectors of partial results that a lane loads at once


class Combine:
    """The combine kernel: out = sum_i w_i out_i / sum_i w_i.

    w_i = 2^(lse_i - max lse). A row without keys has output 0 and log-sum-exp +inf. A lane has a row, and of it a piece
    of 16 bytes (or two). Where there is little to do, two or four lanes share a row's partial results, and add up what
    they have in the end: `row_warps` times as many warps as rows are at work. Whatever comes is added at once, relative
    to the highest log-sum-exp so far, since the kernel is short and made of latencies: it has one of them, if a lane
    can hold all that it adds. `element` is the type of the partial results, of 16 bits.
    """

    def __init__(self, dtype: type[cutlass.Numeric], element: type[cutlass.Numeric]):
        self.dtype = dtype
        self.element = element

    @cute.jit
    def __call__(
        self,
        merges: cute.Tensor,  # [merged requests, 4] int32: request, first partial, number of partials (2 or more), 0
        results: cute.Tensor,  # (8, 32, 64, rows / 32, partials), see tile_partials
        lse_partial: cute.Tensor,  # [partials, rows] fp32, base 2
        out: cute.Tensor,  # [batch, rows, 512]
        lse: cute.Tensor,  # [batch, rows] fp32, natural
        row_warps: Int32,  # 1, 2, 4 or 8; 0: nothing was split, no launch
        stream: cuda.CUstream,
    ):
        if row_warps > 0:
            rows = rows_of_warp(row_warps)
            blocks = cute.ceil_div(out.shape[1], rows) * rows * row_warps // COMBINE_WARPS
            self.combine_kernel(merges, results, lse_partial, out, lse, row_warps).launch(
                grid=[blocks, merges.shape[0], 1], block=[WARP * COMBINE_WARPS, 1, 1], stream=stream, use_pdl=True
            )

    @cute.kernel
    def combine_kernel(
        self,
        merges: cute.Tensor,
        results: cute.Tensor,
        lse_partial: cute.Tensor,
        out: cute.Tensor,
        lse: cute.Tensor,
        row_warps: Int32,
    ):
        # The schedule was written before the split kernel, under whose end all comes that needs nothing else.
        block, merge, _ = cute.arch.block_idx()
        number = block * COMBINE_WARPS + cute.arch.make_warp_uniform(cute.arch.warp_idx())  # of the warp
        request, first, partials = merges[merge, 0], merges[merge, 1], merges[merge, 2]
        work = (results, lse_partial, out, lse, request, first, partials, number)
        if row_warps == 8:
            self._merge_few_or_many(8, *work)
        elif row_warps == 4:
            self._merge_few_or_many(4, *work)
        elif row_warps == 2:
            self._merge_few_or_many(2, *work)
        else:
            self._merge_few_or_many(1, *work)

    @cute.jit
    def _merge_few_or_many(self, row_warps: cutlass.Constexpr, results: cute.Tensor, *work: Any) -> None:
        """Merge with as many loads in flight as results, if a lane can hold them."""
        partials, shares = work[-2], WARP // rows_of_warp(row_warps)
        if cutlass.const_expr(row_warps == 1):
            self._merge(row_warps, IN_FLIGHT, False, results, *work)
        elif partials <= FEW * shares:
            self._merge(row_warps, FEW, True, results, *work)
        elif partials <= IN_FLIGHT * shares:  # mutant: combine depth
            self._merge(row_warps, IN_FLIGHT, True, results, *work)
        elif partials <= MORE * shares:
            self._merge(row_warps, MORE, True, results, *work)
        else:
            self._merge(row_warps, IN_FLIGHT, False, results, *work)

    @cute.jit
    def _merge(
        self,
        row_warps: cutlass.Constexpr,
        in_flight: cutlass.Constexpr,
        at_once: cutlass.Constexpr,
        results: cute.Tensor,
        lse_partial: cute.Tensor,
        out: cute.Tensor,
        lse: cute.Tensor,
        request: Int32,
        first: Int32,
        partials: Int32,
        number: Int32,
    ) -> None:
        """Merge the partial results of a warp's rows; load some while others are added."""
        rows = rows_of_warp(row_warps)
        shares = WARP // rows  # lanes of a row
        width = 2 if row_warps == 1 else 1  # vectors of a lane
        lane, warps = cute.arch.lane_idx(), LATENT // VECTOR // width  # of the same rows
        share, row = lane // rows, number // warps * rows + lane % rows
        first_vector = number % warps * width
        known = cutlass.min(row, out.shape[1] - 1)  # past the last row it is computed again, and not stored
        vectors = cute.make_tensor(
            results[None, known % WARP, first_vector, known // WARP, None].iterator,
            cute.make_layout((VECTOR, width, results.shape[4]), stride=(1, VECTOR * WARP, results.stride[4])),
        )
        sums_of_row = lse_partial[None, known]
        # The partial results only exist once the split kernel has ended.
        cute.arch.griddepcontrol_wait()  # mutant: combine wait
        cute.arch.griddepcontrol_launch_dependents()
        depth = in_flight // width
        loaded = cute.make_rmem_tensor((VECTOR, width, depth), self.element)
        heights = cute.make_rmem_tensor((depth,), Float32)
        self._load(loaded, heights, vectors, sums_of_row, first, share, partials, shares)
        top, total = Float32(NO_MAX), Float32(0.0)
        sums = cute.make_rmem_tensor((VECTOR, width), Float32)
        sums.fill(0.0)
        step = depth * shares
        if cutlass.const_expr(at_once):
            for i in cutlass.range_constexpr(depth):
                top = cute.arch.fmax(top, heights[i])
            total = self._add(sums, total, top, loaded, [heights[i] for i in range(depth)])
        else:
            for n in cutlass.range(0, partials, step, unroll=1):
                values = cute.make_rmem_tensor((VECTOR, width, depth), self.element)
                values.store(loaded.load())
                known_heights = [heights[i] for i in range(depth)]
                if n + step < partials:
                    self._load(
                        *(loaded, heights, vectors, sums_of_row, first),
                        n + step + share,  # mutant: combine next
                        *(partials, shares),
                    )
                new = top
                for height in known_heights:
                    new = cute.arch.fmax(new, height)
                factor = cute.math.exp2(top - new, fastmath=True)  # mutant: combine rescale
                top, total = new, total * factor
                for c in cutlass.range_constexpr(VECTOR * width):
                    sums[c] = sums[c] * factor
                total = self._add(sums, total, top, values, known_heights)
        if cutlass.const_expr(shares > 1):
            new = top
            for distance in self._distances(rows):
                new = cute.arch.fmax(new, cute.arch.shuffle_sync_bfly(new, distance))
            factor = cute.math.exp2(top - new, fastmath=True)  # mutant: combine rescale
            top, total = new, total * factor
            for c in cutlass.range_constexpr(VECTOR * width):
                sums[c] = sums[c] * factor
            for distance in self._distances(rows):
                total = total + cute.arch.shuffle_sync_bfly(total, distance)
                for c in cutlass.range_constexpr(VECTOR * width):
                    sums[c] = sums[c] + cute.arch.shuffle_sync_bfly(sums[c], distance)
        inverse = Float32(0.0)
        if total > 0.0:
            inverse = cute.arch.rcp_approx(total)
        result = cute.make_rmem_tensor((VECTOR * width,), self.dtype)
        for c in cutlass.range_constexpr(VECTOR * width):
            sums[c] = sums[c] * inverse
        result.store(cute.make_tensor(sums.iterator, cute.make_layout(VECTOR * width)).load().to(self.dtype))
        if (share == 0) & (row < out.shape[1]):
            target = cute.local_tile(out, (1, 1, VECTOR * width), (request, row, None))[0, 0, None, number % warps]
            cute.autovec_copy(result, target)
            if first_vector == 0:
                natural = Float32.inf
                if total > 0.0:
                    natural = (top + cute.math.log2(total, fastmath=True)) * LN_2
                lse[request, row] = natural

    def _add(
        self, sums: cute.Tensor, total: Float32, top: Float32, values: cute.Tensor, heights: list[Float32]
    ) -> Float32:
        """Weighed partial results to the sums, relative to `top`; returns the sum of the weights."""
        for i, height in enumerate(heights):
            weight = cute.math.exp2(height - top, fastmath=True)  # mutant: combine weight
            added = values[None, None, i].load().to(Float32)
            total = total + weight
            for c in range(cute.size(sums)):
                sums[c] = sums[c] + weight * added[c]
        return total

    def _distances(self, rows: int) -> list[int]:
        """Between lanes of a row."""
        return [distance for distance in (8, 16) if distance >= rows]  # mutant: combine lanes

    def _load(
        self,
        loaded: cute.Tensor,
        heights: cute.Tensor,
        vectors: cute.Tensor,
        sums_of_row: cute.Tensor,
        first: Int32,
        n: Int32,
        partials: Int32,
        shares: int,
    ) -> None:
        """Load this lane's vectors of its partial results from n on, and their log-sum-exp.

        Past the last one it is loaded again, from L1, and its weight is 0.
        """
        for i in range(cute.size(heights)):
            number = n + shares * i
            at = first + cutlass.min(number, partials - 1)
            cute.autovec_copy(vectors[None, None, at], loaded[None, None, i])
            heights[i] = Float32(select_(number < partials, sums_of_row[at], -Float32.inf))  # mutant: combine end


def rows_of_warp(row_warps: Any) -> Any:
    """Of the combine kernel where so many warps share a row: 8, 16 or 32."""
    return cutlass.min(LATENT // VECTOR // row_warps, WARP)


def tile_partials(mOPartial: cute.Tensor) -> cute.Tensor:
    """View [partials, rows, 512] as (8, 32, 64, rows / 32, partials).

    `rows` is a multiple of 32. The same 8 columns of 32 rows are consecutive, so a warp of the softmax, with a row a
    lane, stores 512 bytes at once, and the combine kernel loads as many.
    """
    partials, rows, _ = mOPartial.shape
    shape = (VECTOR, WARP, LATENT // VECTOR, rows // WARP, partials)
    stride = (1, VECTOR, VECTOR * WARP, LATENT * WARP, mOPartial.stride[0])
    return cute.make_tensor(mOPartial.iterator, cute.make_layout(shape, stride=stride))
