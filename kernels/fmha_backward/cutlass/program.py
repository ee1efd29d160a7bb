"""NVIDIA's CUTLASS example of the backward pass for Blackwell, called unmodified with our operator's tensors."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import make_fake_stream

from kernels.fmha.cutlass.program import ELEMENTS, grouped
from kernels.programs import row_major
from kernels.upstream.examples import module

Tensors = tuple[cute.Tensor, ...]


class Backward:
    """The operator on the example.

    Its three kernels compute row sums, the products, and dQ from float32 to its dtype.
    """

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
        """Launch the three kernels.

        mQ, mO, mdO, mdQ (B, S, H, D), mK, mV, mdK, mdV (B, S, key heads, D), mLSE (B, H, S), mWorkspace (bytes,).
        """
        tensors = (mQ, mK, mV, mO, mLSE, mdO, mdQ, mdK, mdV)
        self.launch(tensors, None, mQ.shape[1], mQ.shape[0], mWorkspace, scale, stream)

    def launch(
        self,
        tensors: Tensors,
        starts: cute.Tensor | None,
        longest: cutlass.Int32,
        sequences: cutlass.Int32,
        workspace: cute.Tensor,
        scale: cutlass.Float32,
        stream: CUstream,
    ) -> None:
        """Pass the tensors in the example's order of modes.

        `longest` is how many tokens a sequence has at most. `starts` says where each sequence begins among the tokens
        of the first mode; None where all are equally long.
        """
        q, k, v, o, lse, do, dq, dk, dv = tensors
        rows, tokens, heads, width = q.shape
        key_heads = k.shape[2]
        group, one = heads // key_heads, cutlass.Int32(1)
        lse_layout = cute.make_layout(
            (tokens, group, key_heads, rows), stride=(1, tokens, tokens * group, tokens * heads)
        )
        left, right = (None if side is None else cutlass.Int32(side) for side in (self.left, self.right))
        self.example(
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


class RaggedBackward(Backward):
    """The same for sequences of different lengths, one after the other."""

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
        mStarts: cute.Tensor,
        longest: cutlass.Int32,
        mWorkspace: cute.Tensor,
        scale: cutlass.Float32,
        stream: CUstream,
    ) -> None:
        """Launch on B = 1 and S = all tokens.

        mStarts is (sequences + 1,); no sequence is longer than `longest`.
        """
        tensors = (mQ, mK, mV, mO, mLSE, mdO, mdQ, mdK, mdV)
        self.launch(tensors, mStarts, longest, mStarts.shape[0] - 1, mWorkspace, scale, stream)


def program(
    dtype: str, head_dim: int, tile_m: int, tile_n: int, mask: str, window: int, ragged: bool
) -> tuple[Backward, tuple[Any, ...]]:
    """Return the host function and fake arguments.

    Batch, length and both head counts are dynamic. `tile_m` x `tile_n` are queries x keys. `mask` is "causal";
    "residual", which hides what lies past the last query; or "none" for whole tiles. `window` is how many tokens before
    a query it sees, 0 for all. `ragged` is for sequences of different lengths.
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
    backward = RaggedBackward if ragged else Backward
    return backward(kernel, window or None, 0 if mask == "causal" else None), arguments
