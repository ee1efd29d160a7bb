"""MLA decode for Hopper in CuTe DSL: the kernel that merges the partial results of split requests."""

from __future__ import annotations

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32

LATENT = 512
THREADS = 128
COLUMNS = LATENT // THREADS  # 4: one 16-byte load per partial and thread
LN_2 = 0.6931471805599453


class CombineSm90:
    """out = sum_i w_i out_i / sum_i w_i with w_i = 2^(lse_i - max lse); a CTA per row of each split request."""

    def __init__(self, dtype: type[cutlass.Numeric]):
        self.dtype = dtype

    @cute.jit
    def __call__(
        self,
        merges: cute.Tensor,  # [merged requests, 4] int32: request, first partial, number of partials, 0
        out_partial: cute.Tensor,  # [partials, rows, 512] fp32
        lse_partial: cute.Tensor,  # [partials, rows] fp32, base 2
        out: cute.Tensor,  # [batch, rows, 512]
        lse: cute.Tensor,  # [batch, rows] fp32, natural
        merge_rows: Int32,  # 0: nothing was split, no launch
        stream: cuda.CUstream,
    ):
        if merge_rows > 0:
            self.combine_kernel(merges, out_partial, lse_partial, out, lse).launch(
                grid=[merge_rows, merges.shape[0], 1], block=[THREADS, 1, 1], stream=stream, use_pdl=True
            )

    @cute.kernel
    def combine_kernel(
        self,
        merges: cute.Tensor,
        out_partial: cute.Tensor,
        lse_partial: cute.Tensor,
        out: cute.Tensor,
        lse: cute.Tensor,
    ):
        thread = cute.arch.thread_idx()[0]
        row, merge, _ = cute.arch.block_idx()
        request, first, partials = merges[merge, 0], merges[merge, 1], merges[merge, 2]
        # The schedule above was written before the split kernel; its partial results only exist once it has ended.
        cute.arch.griddepcontrol_wait()

        top = -Float32.inf
        for i in cutlass.range(partials, unroll=8):
            top = cute.arch.fmax(top, lse_partial[first + i, row])

        gO = cute.local_tile(out_partial, (1, 1, COLUMNS), (None, row, thread))  # (1, 1, 4, partials)
        total = cute.make_rmem_tensor((COLUMNS,), Float32)
        total.fill(0.0)
        weights = Float32(0.0)
        for i in cutlass.range(partials, unroll=8):
            weight = cute.math.exp2(lse_partial[first + i, row] - top, fastmath=True)
            part = cute.make_rmem_tensor((COLUMNS,), Float32)
            cute.autovec_copy(gO[0, 0, None, first + i], part)
            for c in cutlass.range_constexpr(COLUMNS):
                total[c] += weight * part[c]
            weights += weight

        result = cute.make_rmem_tensor((COLUMNS,), self.dtype)
        result.store((total.load() * (1.0 / weights)).to(self.dtype))
        cute.autovec_copy(result, cute.local_tile(out, (1, 1, COLUMNS), (request, row, thread))[0, 0, None])
        if thread == 0:
            lse[request, row] = (top + cute.math.log2(weights, fastmath=True)) * LN_2
