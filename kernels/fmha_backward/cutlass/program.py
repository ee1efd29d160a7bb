"""NVIDIA's CUTLASS example of the backward pass for Blackwell, called unmodified with our operator's tensors."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from kernels.fmha.cutlass.program import ELEMENTS, grouped
from kernels.upstream.examples import module


class Backward:
    """The operator on the example: three kernels, for row sums, the products, and dQ from float32 to its dtype."""

    def __init__(self, example: Any, left: int | None, right: int | None) -> None:
        self.example, self.left, self.right = example, left, right

    @cute.jit
    def __call__(
        self,
        mQ: cute.Tensor,
        mK: cute.Tensor,
        mV: cute.Tensor,
        mO: cute.Tensor,
        mLSE: cute.Tensor,
        mdO: cute.Tensor,
        mdQ: cute.Tensor,
        mdK: cute.Tensor,
        mdV: cute.Tensor,
        mWorkspace: cute.Tensor,
        scale: cutlass.Float32,
        stream: CUstream,
    ) -> None:
        """mQ, mO, mdO, mdQ (B, S, H, D), mK, mV, mdK, mdV (B, S, key heads, D), mLSE (B, H, S), mWorkspace (bytes,)."""
        batch, length, heads, width = mQ.shape
        key_heads = mK.shape[2]
        group, one = heads // key_heads, cutlass.Int32(1)
        lse_layout = cute.make_layout(
            (length, group, key_heads, batch), stride=(1, length, length * group, length * heads)
        )
        left = None if cutlass.const_expr(self.left is None) else cutlass.Int32(self.left)
        right = None if cutlass.const_expr(self.right is None) else cutlass.Int32(self.right)
        self.example(
            (length, length, width, ((group, key_heads), batch)),
            grouped(mQ, group),
            grouped(mK, one),
            grouped(mV, one),
            grouped(mO, group),
            grouped(mdQ, group),
            grouped(mdK, one),
            grouped(mdV, one),
            grouped(mdO, group),
            cute.make_tensor(mLSE.iterator, lse_layout),
            None,  # sequences of one length: no tables of where they begin
            None,
            scale,
            left,
            right,
            mWorkspace,
            stream,
        )


def program(
    dtype: str, head_dim: int, tile_m: int, tile_n: int, mask: str, window: int
) -> tuple[Backward, tuple[Any, ...]]:
    """The host function and fake arguments; batch, length and both counts of heads are known at launch only.

    `tile_m` x `tile_n` are queries x keys. `mask` is "causal"; "residual", which hides what lies past the last query;
    or "none" for whole tiles. `window` is how many tokens before a query it sees, 0 for all.
    """
    example = module("blackwell.fmha_bwd")
    masks, element = example.fmha_utils.MaskEnum, ELEMENTS[dtype]
    kind = masks.RESIDUAL_MASK_BWD if mask == "residual" else masks.WINDOW_MASK_BWD
    kernel = example.BlackwellFusedMultiHeadAttentionBackward(
        element, cutlass.Float32, (tile_m, tile_n, head_dim), False, kind
    )
    batch, length, heads, key_heads = (cute.sym_int32() for _ in range(4))

    def row_major(element: type[cutlass.Numeric], *shape: Any) -> Any:
        order = tuple(reversed(range(len(shape))))
        return make_fake_compact_tensor(element, shape, stride_order=order, assumed_align=16)

    q, o, do, dq = (row_major(element, batch, length, heads, head_dim) for _ in range(4))
    k, v, dk, dv = (row_major(element, batch, length, key_heads, head_dim) for _ in range(4))
    lse = row_major(cutlass.Float32, batch, heads, length)
    workspace = row_major(cutlass.Uint8, cute.sym_int32())
    arguments = (q, k, v, o, lse, do, dq, dk, dv, workspace, cutlass.Float32(1.0), make_fake_stream())
    return Backward(kernel, window or None, 0 if mask == "causal" else None), arguments
