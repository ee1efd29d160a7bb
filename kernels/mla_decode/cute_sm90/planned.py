"""MLA decode for Hopper in CuTe DSL, with the step that makes its schedule: one exported function does either."""

from __future__ import annotations

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Int64

from kernels.mla_decode.cute_sm90.kernel import MlaDecodeSm90
from kernels.mla_decode.cute_sm90.planner import Planner
from kernels.mla_decode.cute_sm90.schedule import prices


class PlannedMlaDecodeSm90:
    """`MlaDecodeSm90` on tables that `Planner` writes; the choices are those of the former."""

    def __init__(self, dtype: type[cutlass.Numeric], cluster: int = 1, halves: bool = False, single: bool = False):
        self.decode = MlaDecodeSm90(dtype, cluster, halves, padded=True, single=single)
        self.planner = Planner(prices(halves), 2 if halves else 1, 1 if halves else cluster)

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
        lengths: cute.Tensor,  # [batch] int32
        lanes: Int32,
        plans: Int32,  # other than 0: make the schedule for `lengths`; 0: compute by the one that is there
        stream: cuda.CUstream,
    ):
        if plans == 0:  # first: the first kernel of a build counts as its main one
            self.decode(
                *(q, kv, page_table, out, lse, items, item_offsets, merges, out_partial, lse_partial),
                *(scale_log2, heads, hidden_tokens, row_warps, policy, q_policy, ahead, stream),
            )
        else:
            self.planner(lengths, items, item_offsets, merges, lanes, stream)
