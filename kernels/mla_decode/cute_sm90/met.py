"""MLA decode for Hopper in CuTe DSL, of requests in one piece or in two that meet: no partial results."""

from __future__ import annotations

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64

from kernels.mla_decode.cute_sm90.kernel import MlaDecodeSm90


class MetMlaDecodeSm90:
    """`MlaDecodeSm90` with halves, where the two pieces of a request are merged by those who compute them
    (`Epilogue.meet`). Of a request without keys the combine kernel stores the output, as ever."""

    def __init__(self, dtype: type[cutlass.Numeric]):
        self.decode = MlaDecodeSm90(dtype, cluster=2, halves=True, meets=True)

    @cute.jit
    def __call__(
        self,
        q: cute.Tensor,
        kv: cute.Tensor,
        page_table: cute.Tensor,
        out: cute.Tensor,
        lse: cute.Tensor,
        items: cute.Tensor,
        item_offsets: cute.Tensor,
        merges: cute.Tensor,
        out_partial: cute.Tensor,
        lse_partial: cute.Tensor,
        scale_log2: Float32,
        heads: Int32,
        hidden_tokens: Int32,
        row_warps: Int32,
        policy: Int64,
        q_policy: Int64,
        ahead: Int32,
        counters: cute.Tensor,  # [meetings, 16, 2] int32, 0
        left: cute.Tensor,  # [meetings, 16, 17, 32, 4] fp32
        stream: cuda.CUstream,
    ):
        self.decode.launch(
            *(q, kv, page_table, out, lse, items, item_offsets, merges, out_partial, lse_partial),
            *(scale_log2, heads, hidden_tokens, row_warps, policy, q_policy, ahead, counters, left, stream),
        )
