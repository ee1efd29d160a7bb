"""MLA decode for Blackwell in CuTe DSL: the kernel that merges the partial results of split requests."""

from __future__ import annotations

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32

from kernels.mla_decode.cute_sm100.layout import LATENT, LN_2, WARP_LANES
from kernels.mla_decode.split_kv.plan import COMBINE_WARPS

IN_FLIGHT = 16  # registers of a lane into which partial results are loaded at once


class Combine:
    """out = sum_i w_i out_i / sum_i w_i with w_i = 2^(lse_i - max lse); of a row without keys 0, and its lse +inf.

    `row_warps` of a CTA's warps share a row's columns, and each goes through all partial results: nothing has to be
    exchanged. What it can hold of them it asks for before it knows their weights, since the kernel is short and made of
    latencies. `element` is the type of the partial results, of 16 bits.
    """

    def __init__(self, dtype: type[cutlass.Numeric], element: type[cutlass.Numeric]):
        self.dtype = dtype
        self.element = element

    @cute.jit
    def __call__(
        self,
        merges: cute.Tensor,  # [merged requests, 4] int32: request, first partial, number of partials (2 or more), 0
        out_partial: cute.Tensor,  # [partials, rows, 512]
        lse_partial: cute.Tensor,  # [partials, rows] fp32, base 2
        out: cute.Tensor,  # [batch, rows, 512]
        lse: cute.Tensor,  # [batch, rows] fp32, natural
        row_warps: Int32,  # 1, 2, 4 or 8; 0: nothing was split, no launch
        stream: cuda.CUstream,
    ):
        if row_warps > 0:
            blocks = cute.ceil_div(out.shape[1] * row_warps, COMBINE_WARPS)
            self.combine_kernel(merges, out_partial, lse_partial, out, lse, row_warps).launch(
                grid=[blocks, merges.shape[0], 1],
                block=[WARP_LANES * COMBINE_WARPS, 1, 1],
                stream=stream,
                use_pdl=True,
            )

    @cute.kernel
    def combine_kernel(
        self,
        merges: cute.Tensor,
        out_partial: cute.Tensor,
        lse_partial: cute.Tensor,
        out: cute.Tensor,
        lse: cute.Tensor,
        row_warps: Int32,
    ):
        # The schedule was written before the split kernel, under whose end all comes that needs nothing else.
        block, merge, _ = cute.arch.block_idx()
        number = block * COMBINE_WARPS + cute.arch.make_warp_uniform(cute.arch.warp_idx())  # of the warp
        request, first, partials = merges[merge, 0], merges[merge, 1], merges[merge, 2]
        work = (out_partial, lse_partial, out, lse, request, first, partials, number)
        if row_warps == 8:
            self._merge(8, *work)
        elif row_warps == 4:
            self._merge(4, *work)
        elif row_warps == 2:
            self._merge(2, *work)
        else:
            self._merge(1, *work)

    @cute.jit
    def _merge(
        self,
        row_warps: cutlass.Constexpr,
        out_partial: cute.Tensor,
        lse_partial: cute.Tensor,
        out: cute.Tensor,
        lse: cute.Tensor,
        request: Int32,
        first: Int32,
        partials: Int32,
        number: Int32,
    ) -> None:
        row, share = number // row_warps, number % row_warps  # by a shift, once it is known
        if row < out.shape[1]:
            self._merge_row(row_warps, out_partial, lse_partial, out, lse, request, first, partials, row, share)

    @cute.jit
    def _merge_row(
        self,
        row_warps: cutlass.Constexpr,
        out_partial: cute.Tensor,
        lse_partial: cute.Tensor,
        out: cute.Tensor,
        lse: cute.Tensor,
        request: Int32,
        first: Int32,
        partials: Int32,
        row: Int32,
        share: Int32,
    ) -> None:
        """A warp's columns of a row, of all its partial results; the next are under way while some are added."""
        lane = cute.arch.lane_idx()
        columns = LATENT // (WARP_LANES * row_warps)  # of a lane
        depth = IN_FLIGHT * 32 // (columns * self.element.width)  # partial results that are loaded at once
        place = WARP_LANES * share + lane
        parts = cute.local_tile(out_partial, (1, 1, columns), (None, row, None))[0, 0, None, None, place]
        target = cute.local_tile(out, (1, 1, columns), (request, row, None))[0, 0, None, place]
        # The partial results only exist once the split kernel has ended.
        cute.arch.griddepcontrol_wait()
        cute.arch.griddepcontrol_launch_dependents()
        own = self._lse(lse_partial, first, lane, partials, row)  # of the partial result that has the lane's number
        found = cute.make_rmem_tensor((columns, depth), self.element)
        self._load(found, parts, first, Int32(0), partials)
        top = own
        for i in cutlass.range(lane + WARP_LANES, partials, WARP_LANES):
            top = cute.arch.fmax(top, lse_partial[first + i, row])
        top = cute.arch.warp_reduction_max(top)
        if top == -Float32.inf:
            top = Float32(0.0)  # no partial result has seen a key: their weights are 0, not NaN
        weight = cute.math.exp2(own - top, fastmath=True)
        total = Float32(0.0)
        sums = cute.make_rmem_tensor((columns,), Float32)
        sums.fill(0.0)
        for n in cutlass.range(0, partials, depth, unroll=1):
            if (n > 0) & (n % WARP_LANES == 0):
                weight = cute.math.exp2(self._lse(lse_partial, first, n + lane, partials, row) - top, fastmath=True)
            values = cute.make_rmem_tensor((columns, depth), self.element)
            values.store(found.load())
            if n + depth < partials:
                self._load(found, parts, first, n + depth, partials)
            # All at once: each has a latency.
            weights = [cute.arch.shuffle_sync(weight, n % WARP_LANES + i) for i in range(depth)]
            for i in cutlass.range_constexpr(depth):
                added = values[None, i].load().to(Float32)
                total = total + weights[i]
                for c in cutlass.range_constexpr(columns):
                    sums[c] = sums[c] + weights[i] * added[c]
        inverse = Float32(0.0)
        if total > 0.0:
            inverse = cute.arch.rcp_approx(total)
        result = cute.make_rmem_tensor((columns,), self.dtype)
        for c in cutlass.range_constexpr(columns):
            sums[c] = sums[c] * inverse
        result.store(sums.load().to(self.dtype))
        cute.autovec_copy(result, target)
        if (share == 0) & (lane == 0):
            natural = Float32.inf
            if total > 0.0:
                natural = (top + cute.math.log2(total, fastmath=True)) * LN_2
            lse[request, row] = natural

    @cute.jit
    def _lse(self, lse_partial: cute.Tensor, first: Int32, n: Int32, partials: Int32, row: Int32) -> Float32:
        """Of the row in partial result number n; -inf, whose weight is 0, past the last one."""
        found = -Float32.inf
        if n < partials:
            found = lse_partial[first + n, row]
        return found

    def _load(self, found: cute.Tensor, parts: cute.Tensor, first: Int32, n: Int32, partials: Int32) -> None:
        """This lane's columns of the partial results from number n on: registers (columns, depth).

        Past the last one it is loaded again, from L1, and its weight is 0.
        """
        for i in range(cute.size(found, mode=[1])):
            cute.autovec_copy(parts[None, first + cutlass.min(n + i, partials - 1)], found[None, i])
