"""NVIDIA's CUTLASS example of the backward pass for Blackwell, called unmodified with our operator's tensors."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from kernels.fmha.cutlass.program import ELEMENTS, grouped
from kernels.programs import row_major
from kernels.upstream.examples import module


def on_example(example: Any, window_left: int | None, window_right: int | None, ragged: bool) -> Any:
    """Return the operator on the example.

    Its three kernels compute row sums, the products, and dQ from float32 to its dtype. Tensors mQ, mO, mdO, mdQ are (B,
    S, H, D), mK, mV, mdK, mdV (B, S, key heads, D), mLSE (B, H, S), mWorkspace (bytes,). `ragged` is for sequences of
    different lengths, one after the other: B = 1 and S = all tokens, mStarts (sequences + 1,) says where each begins,
    and none is longer than `longest`.
    """

    def launch(tensors, starts, longest, sequences, workspace, scale, stream):
        q, k, v, o, lse, do, dq, dk, dv = tensors
        rows, tokens, heads, width = q.shape
        key_heads = k.shape[2]
        group, one = heads // key_heads, cutlass.Int32(1)
        lse_layout = cute.make_layout(
            (tokens, group, key_heads, rows), stride=(1, tokens, tokens * group, tokens * heads)
        )
        left, right = (None if side is None else cutlass.Int32(side) for side in (window_left, window_right))
        example(
            (longest, longest, width, ((group, key_heads), sequences)),
            grouped(q, group),
            grouped(k, one),
            grouped(v, one),
            grouped(o, group),
            grouped(dq, group),
            grouped(dk, one),
            grouped(dv, one),
            grouped(do, group),
            cute.make_tensor(lse.iterator, lse_layout),
            starts,  # of queries
            starts,  # of keys
            scale,
            left,
            right,
            workspace,
            stream,
        )

    @cute.jit
    def backward(mQ, mK, mV, mO, mLSE, mdO, mdQ, mdK, mdV, mWorkspace, scale, stream):
        tensors = (mQ, mK, mV, mO, mLSE, mdO, mdQ, mdK, mdV)
        launch(tensors, None, mQ.shape[1], mQ.shape[0], mWorkspace, scale, stream)

    @cute.jit
    def ragged_backward(mQ, mK, mV, mO, mLSE, mdO, mdQ, mdK, mdV, mStarts, longest, mWorkspace, scale, stream):
        tensors = (mQ, mK, mV, mO, mLSE, mdO, mdQ, mdK, mdV)
        launch(tensors, mStarts, longest, mStarts.shape[0] - 1, mWorkspace, scale, stream)

    return ragged_backward if ragged else backward


def program(
    dtype: str, head_dim: int, tile_m: int, tile_n: int, mask: str, window: int, ragged: bool
) -> tuple[Any, tuple[Any, ...]]:
    """Return the host function and fake arguments.

    Batch, length and both head counts are dynamic. `tile_m` x `tile_n` are queries x keys. `mask` is "causal";
    "residual", which hides what lies past the last query; or "none" for whole tiles. `window` is how many tokens before
    a query it sees, 0 for all.
    """
    example = module("blackwell.fmha_bwd")
    masks, element = example.fmha_utils.MaskEnum, ELEMENTS[dtype]
    kind = masks.RESIDUAL_MASK_BWD if mask == "residual" else masks.WINDOW_MASK_BWD
    kernel = example.BlackwellFusedMultiHeadAttentionBackward(
        element, cutlass.Float32, (tile_m, tile_n, head_dim), ragged, kind
    )
    length, heads, key_heads = (cute.sym_int32() for _ in range(3))
    batch = 1 if ragged else cute.sym_int32()

    q, o, do, dq = (row_major(element, batch, length, heads, head_dim) for _ in range(4))
    k, v, dk, dv = (row_major(element, batch, length, key_heads, head_dim) for _ in range(4))
    lse = row_major(cutlass.Float32, batch, heads, length)
    workspace = row_major(cutlass.Uint8, cute.sym_int32())
    starts = row_major(cutlass.Int32, cute.sym_int32(), align=4)
    table = (starts, cutlass.Int32(1)) if ragged else ()
    arguments = (q, k, v, o, lse, do, dq, dk, dv, *table, workspace, cutlass.Float32(1.0), make_fake_stream())
    return on_example(kernel, window or None, 0 if mask == "causal" else None, ragged), arguments
