"""MLA decode in CuTe DSL: the kernel that merges the partial results of split requests."""

from __future__ import annotations

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr
from cutlass.utils import SmemAllocator

from kernels.mla_decode.split_kv.plan import COMBINE_WARPS as WARPS
from kernels.mla_decode.split_kv.plan import MOST_COMBINE_CTAS

LATENT = 512
LOADS = LATENT // (4 * 32)  # 16-byte loads of a lane for one partial result
AHEAD = 2  # partial results that a warp asks for before it knows their weights
LN_2 = 0.6931471805599453


class Combine:
    """out = sum_i w_i out_i / sum_i w_i with w_i = 2^(lse_i - max lse); of a row without keys 0, and its lse +inf.

    A request of length 0 is merged from no partial results. With `padded` there may be rows of `merges` that ask for
    nothing, behind all others: their number of partial results is -1. How many others there are is then known on the
    card alone: no more CTAs are launched than run at once, and each goes on until it comes to such a row.

    `row_warps` of a CTA's 8 warps share a row, each taking every row_warps-th partial result; so a request in many
    pieces is read by many warps, and one in two pieces does not leave warps idle.
    """

    def __init__(self, dtype: type[cutlass.Numeric], padded: bool = False):
        self.dtype = dtype
        self.padded = padded

    @cute.jit
    def __call__(
        self,
        merges: cute.Tensor,  # [merged requests, 4] int32: request, first partial, number of partials, 0
        out_partial: cute.Tensor,  # [partials, rows, 512] fp32
        lse_partial: cute.Tensor,  # [partials, rows] fp32, base 2
        out: cute.Tensor,  # [batch, rows, 512]
        lse: cute.Tensor,  # [batch, rows] fp32, natural
        row_warps: Int32,  # 1, 2, 4 or 8; 0: nothing was split, no launch
        stream: cuda.CUstream,
    ):
        if row_warps > 0:
            blocks = cute.ceil_div(out.shape[1] * row_warps, WARPS)
            grid = [blocks, merges.shape[0], 1]
            if const_expr(self.padded):
                grid = [cutlass.min(blocks * merges.shape[0], MOST_COMBINE_CTAS), 1, 1]
            self.combine_kernel(merges, out_partial, lse_partial, out, lse, row_warps, blocks).launch(
                grid=grid, block=[32 * WARPS, 1, 1], stream=stream, use_pdl=True
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
        blocks: Int32,  # CTAs of a request
    ):
        smem = SmemAllocator()
        sums = smem.allocate_tensor(Float32, cute.make_layout((LATENT, WARPS)), byte_alignment=16)
        weights = smem.allocate_tensor(Float32, cute.make_layout(WARPS))
        block, merge, _ = cute.arch.block_idx()
        tensors = (out_partial, lse_partial, out, lse)
        task, tasks = block, blocks * merges.shape[0]
        if const_expr(self.padded):
            merge, block = task // blocks, task % blocks
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        shift = cute.arch.popc(row_warps - 1)  # a power of two: no division, which would come after the wait below
        row, share = (block * WARPS + warp) >> shift, warp & (row_warps - 1)
        # The schedule was written before the split kernel; its partial results only exist once it has ended.
        request, first, partials = merges[merge, 0], merges[merge, 1], merges[merge, 2]
        if const_expr(self.padded):
            # A CTA that has nothing to do may end before the split kernel has. The first one waits for it all the same:
            # whoever waits for the end of this kernel then waits for the end of that one, too, and may come early.
            if partials >= 0:
                cute.arch.griddepcontrol_wait()
                cute.arch.griddepcontrol_launch_dependents()
            if (partials < 0) & (task == 0):
                cute.arch.griddepcontrol_launch_dependents()
                cute.arch.griddepcontrol_wait()
            while partials >= 0:
                self.merge(request, first, partials, row, share, row_warps, sums, weights, *tensors)
                cute.arch.sync_threads()  # `sums` and `weights` have been read
                task = task + cute.arch.grid_dim()[0]
                merge, row = cutlass.min(task, tasks - 1) // blocks, (task % blocks * WARPS + warp) >> shift
                request, first, partials = merges[merge, 0], merges[merge, 1], merges[merge, 2]
                if task >= tasks:
                    partials = Int32(-1)
        else:
            cute.arch.griddepcontrol_wait()
            cute.arch.griddepcontrol_launch_dependents()
            self.merge(request, first, partials, row, share, row_warps, sums, weights, *tensors)

    @cute.jit
    def merge(
        self, request, first, partials, row, share, row_warps, sums, weights, out_partial, lse_partial, out, lse
    ) -> None:
        """A row of a request, this warp's share of its partial results; `sums` and `weights` are shared memory."""
        lane = cute.arch.lane_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        inside = row < out.shape[1]
        top = -Float32.inf
        weight_sum = Float32(0.0)
        total = cute.make_rmem_tensor((4, LOADS), Float32)
        total.fill(0.0)
        if inside:
            gO = cute.local_tile(out_partial, (1, 1, 4), (None, row, None))  # (1, 1, 4, partials, 128)
            # The first few are asked for before their weights are known, which hang on a load of their own.
            ahead = cute.make_rmem_tensor((4, LOADS, AHEAD), Float32)
            weights_log2 = cute.make_rmem_tensor((AHEAD,), Float32)
            ahead.fill(0.0)
            weights_log2.fill(-Float32.inf)
            for k in cutlass.range_constexpr(AHEAD):
                i = share + k * row_warps
                if i < partials:
                    weights_log2[k] = lse_partial[first + i, row]
                    for n in cutlass.range_constexpr(LOADS):
                        cute.autovec_copy(gO[0, 0, None, first + i, lane + 32 * n], ahead[None, n, k])
            for i in cutlass.range(lane, partials, 32):
                top = cute.arch.fmax(top, lse_partial[first + i, row])
            top = cute.arch.warp_reduction_max(top)
            if top == -Float32.inf:
                top = Float32(0.0)  # no partial result has seen a key: their weights are 0, not NaN
            for k in cutlass.range_constexpr(AHEAD):
                weight = cute.math.exp2(weights_log2[k] - top, fastmath=True)
                for n in cutlass.range_constexpr(4 * LOADS):
                    total[n] = total[n] + weight * ahead[n % 4, n // 4, k]
                weight_sum += weight
            for i in cutlass.range(share + AHEAD * row_warps, partials, row_warps, unroll=4):
                weight = cute.math.exp2(lse_partial[first + i, row] - top, fastmath=True)
                part = cute.make_rmem_tensor((4, LOADS), Float32)
                for n in cutlass.range_constexpr(LOADS):
                    cute.autovec_copy(gO[0, 0, None, first + i, lane + 32 * n], part[None, n])
                for n in cutlass.range_constexpr(4 * LOADS):
                    total[n] = total[n] + weight * part[n]
                weight_sum += weight

        chunks = cute.local_tile(sums, (4, 1), (None, warp))  # (4, 1, 128)
        for n in cutlass.range_constexpr(LOADS):
            cute.autovec_copy(total[None, n], chunks[None, 0, lane + 32 * n])
        if lane == 0:
            weights[warp] = weight_sum
        cute.arch.sync_threads()

        # The first warp of each row adds what its fellows found.
        if inside and share == 0:
            for other in cutlass.range(1, row_warps):
                weight_sum += weights[warp + other]
                fellow = cute.local_tile(sums, (4, 1), (None, warp + other))
                for n in cutlass.range_constexpr(LOADS):
                    part = cute.make_rmem_tensor((4,), Float32)
                    cute.autovec_copy(fellow[None, 0, lane + 32 * n], part)
                    for c in cutlass.range_constexpr(4):
                        total[c, n] = total[c, n] + part[c]
            inverse = Float32(0.0)
            natural = Float32.inf
            if weight_sum > 0.0:
                inverse = 1.0 / weight_sum
                natural = (top + cute.math.log2(weight_sum, fastmath=True)) * LN_2
            gOut = cute.local_tile(out, (1, 1, 4), (request, row, None))  # (1, 1, 4, 128)
            for n in cutlass.range_constexpr(LOADS):
                result = cute.make_rmem_tensor((4,), self.dtype)
                for c in cutlass.range_constexpr(4):
                    result[c] = (total[c, n] * inverse).to(self.dtype)
                cute.autovec_copy(result, gOut[0, 0, None, lane + 32 * n])
            if lane == 0:
                lse[request, row] = natural
