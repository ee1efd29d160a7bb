"""Kernel that merges the partial results of split requests, in CuTe DSL."""

from __future__ import annotations

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, const_expr
from cutlass.utils import SmemAllocator

from kernels.mla_decode.split_kv.plan import COMBINE_WARPS as WARPS
from kernels.mla_decode.split_kv.plan import MOST_COMBINE_CTAS

LATENT = 512  # columns of a row of O
VECTOR = 4  # fp32 of a 16-byte load
CHUNKS = LATENT // (VECTOR * 32)  # 16-byte loads of a lane for a row of one partial result
PREFETCHED = 2  # partial results that a warp loads before it knows their weights
LN_2 = 0.6931471805599453


class Combine:
    """O = sum_i w_i O_i / sum_i w_i, with w_i = 2^(LSE_i - max LSE).

    A row without keys gets O 0 and LSE +inf; a request of length 0 is merged from no partial results. With `padded`
    mMerges may end in rows that ask for nothing: their number of partial results is -1. How many others there are is
    then known on the GPU alone: no more CTAs are launched than run at once, and each goes on until such a row.

    `row_warps` of a CTA's 8 warps share a row, each taking every row_warps-th partial result; so a request in many
    splits is read by many warps, and one in two splits does not leave warps idle.
    """

    def __init__(self, dtype: type[cutlass.Numeric], padded: bool = False):
        self.dtype = dtype
        self.padded = padded

    @cute.jit
    def __call__(
        self,
        mMerges: cute.Tensor,  # [merged requests, 4] int32: request, first partial, number of partials, 0
        mOPartial: cute.Tensor,  # [partials, rows, 512] fp32
        mLSEPartial: cute.Tensor,  # [partials, rows] fp32, base 2
        mO: cute.Tensor,  # [batch, rows, 512]
        mLSE: cute.Tensor,  # [batch, rows] fp32, natural
        row_warps: Int32,  # 1, 2, 4 or 8; 0: no launch
        stream: cuda.CUstream,
    ):
        if row_warps > 0:
            blocks = cute.ceil_div(mO.shape[1] * row_warps, WARPS)
            grid = [blocks, mMerges.shape[0], 1]
            if const_expr(self.padded):
                grid = [cutlass.min(blocks * mMerges.shape[0], MOST_COMBINE_CTAS), 1, 1]
            self.combine_kernel(mMerges, mOPartial, mLSEPartial, mO, mLSE, row_warps, blocks).launch(
                grid=grid, block=[32 * WARPS, 1, 1], stream=stream, use_pdl=True
            )

    @cute.kernel
    def combine_kernel(
        self,
        mMerges: cute.Tensor,
        mOPartial: cute.Tensor,
        mLSEPartial: cute.Tensor,
        mO: cute.Tensor,
        mLSE: cute.Tensor,
        row_warps: Int32,
        blocks: Int32,  # CTAs of a request
    ):
        smem = SmemAllocator()
        sO = smem.allocate_tensor(Float32, cute.make_layout((LATENT, WARPS)), byte_alignment=16)
        sWeight = smem.allocate_tensor(Float32, cute.make_layout(WARPS))
        block, merge, _ = cute.arch.block_idx()
        tensors = sO, sWeight, mOPartial, mLSEPartial, mO, mLSE
        task, tasks = block, blocks * mMerges.shape[0]
        if const_expr(self.padded):
            merge, block = task // blocks, task % blocks
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        shift = cute.arch.popc(row_warps - 1)  # a power of two: no division, which would come after the wait below
        row, share = (block * WARPS + warp) >> shift, warp & (row_warps - 1)
        # The schedule was written before the split kernel; its partial results only exist once it has ended.
        request, first, partials = mMerges[merge, 0], mMerges[merge, 1], mMerges[merge, 2]
        if const_expr(self.padded):
            # A CTA that has nothing to do may end before the split kernel has. The first one waits for it all the same:
            # whoever waits for the end of this kernel then waits for the end of that one, too, and may start early.
            if partials >= 0:
                cute.arch.griddepcontrol_wait()
                cute.arch.griddepcontrol_launch_dependents()
            if (partials < 0) & (task == 0):
                cute.arch.griddepcontrol_launch_dependents()
                cute.arch.griddepcontrol_wait()
            while partials >= 0:
                self.merge(request, first, partials, row, share, row_warps, *tensors)
                cute.arch.sync_threads()  # `sO` and `sWeight` have been read
                task = task + cute.arch.grid_dim()[0]
                merge, row = cutlass.min(task, tasks - 1) // blocks, (task % blocks * WARPS + warp) >> shift
                request, first, partials = mMerges[merge, 0], mMerges[merge, 1], mMerges[merge, 2]
                if task >= tasks:
                    partials = Int32(-1)
        else:
            cute.arch.griddepcontrol_wait()
            cute.arch.griddepcontrol_launch_dependents()
            self.merge(request, first, partials, row, share, row_warps, *tensors)

    @cute.jit
    def merge(
        self, request, first, partials, row, share, row_warps, sO, sWeight, mOPartial, mLSEPartial, mO, mLSE
    ) -> None:
        """Merge a row of a request: this warp every `row_warps`-th partial result from `share` on."""
        lane = cute.arch.lane_idx()
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        pRow = row < mO.shape[1]
        lse_max = -Float32.inf
        weight_sum = Float32(0.0)
        tOrO = cute.make_rmem_tensor((VECTOR, CHUNKS), Float32)
        tOrO.fill(0.0)
        if pRow:
            gOPartial = cute.local_tile(mOPartial, (1, 1, VECTOR), (None, row, None))  # (1, 1, 4, partials, 128)
            # The first few are loaded before their weights are known, which depend on a load of their own.
            tOrO_prefetched = cute.make_rmem_tensor((VECTOR, CHUNKS, PREFETCHED), Float32)
            weights_log2 = cute.make_rmem_tensor((PREFETCHED,), Float32)
            tOrO_prefetched.fill(0.0)
            weights_log2.fill(-Float32.inf)
            for k in cutlass.range_constexpr(PREFETCHED):
                i = share + k * row_warps
                if i < partials:
                    weights_log2[k] = mLSEPartial[first + i, row]
                    for n in cutlass.range_constexpr(CHUNKS):
                        cute.autovec_copy(gOPartial[0, 0, None, first + i, lane + 32 * n], tOrO_prefetched[None, n, k])
            for i in cutlass.range(lane, partials, 32):
                lse_max = cute.arch.fmax(lse_max, mLSEPartial[first + i, row])
            lse_max = cute.arch.warp_reduction_max(lse_max)
            if lse_max == -Float32.inf:
                lse_max = Float32(0.0)  # no partial result has seen a key: their weights are 0, not NaN
            for k in cutlass.range_constexpr(PREFETCHED):
                weight = cute.math.exp2(weights_log2[k] - lse_max, fastmath=True)
                for n in cutlass.range_constexpr(VECTOR * CHUNKS):
                    tOrO[n] = tOrO[n] + weight * tOrO_prefetched[n % VECTOR, n // VECTOR, k]
                weight_sum += weight
            for i in cutlass.range(share + PREFETCHED * row_warps, partials, row_warps, unroll=4):
                weight = cute.math.exp2(mLSEPartial[first + i, row] - lse_max, fastmath=True)
                tOrO_i = cute.make_rmem_tensor((VECTOR, CHUNKS), Float32)
                for n in cutlass.range_constexpr(CHUNKS):
                    cute.autovec_copy(gOPartial[0, 0, None, first + i, lane + 32 * n], tOrO_i[None, n])
                for n in cutlass.range_constexpr(VECTOR * CHUNKS):
                    tOrO[n] = tOrO[n] + weight * tOrO_i[n]
                weight_sum += weight

        tOsO = cute.local_tile(sO, (VECTOR, 1), (None, warp))  # (4, 1, 128)
        for n in cutlass.range_constexpr(CHUNKS):
            cute.autovec_copy(tOrO[None, n], tOsO[None, 0, lane + 32 * n])
        if lane == 0:
            sWeight[warp] = weight_sum
        cute.arch.sync_threads()  # mutant: warps of a row

        # The first warp of each row adds the shares of the others.
        if pRow and share == 0:
            for other in cutlass.range(1, row_warps):
                weight_sum += sWeight[warp + other]
                tOsO_other = cute.local_tile(sO, (VECTOR, 1), (None, warp + other))
                for n in cutlass.range_constexpr(CHUNKS):
                    tOrO_i = cute.make_rmem_tensor((VECTOR,), Float32)
                    cute.autovec_copy(tOsO_other[None, 0, lane + 32 * n], tOrO_i)
                    for c in cutlass.range_constexpr(VECTOR):
                        tOrO[c, n] = tOrO[c, n] + tOrO_i[c]
            scale = Float32(0.0)
            lse = Float32.inf
            if weight_sum > 0.0:
                scale = 1.0 / weight_sum
                lse = (lse_max + cute.math.log2(weight_sum, fastmath=True)) * LN_2
            gO = cute.local_tile(mO, (1, 1, VECTOR), (request, row, None))  # (1, 1, 4, 128)
            for n in cutlass.range_constexpr(CHUNKS):
                result = cute.make_rmem_tensor((VECTOR,), self.dtype)
                for c in cutlass.range_constexpr(VECTOR):
                    result[c] = (tOrO[c, n] * scale).to(self.dtype)
                cute.autovec_copy(result, gO[0, 0, None, lane + 32 * n])
            if lane == 0:
                mLSE[request, row] = lse
