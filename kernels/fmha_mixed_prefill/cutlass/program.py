"""NVIDIA's CUTLASS examples of attention over int8 keys and values for Blackwell, called unmodified."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from kernels.programs import row_major
from kernels.upstream.examples import module


def program(path: str, name: str, width: int, mask: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the operator on an example, with one scale per token, and fake row-major arguments.

    mQ and mO are (B, H, S, D), mK and mV (B, key heads, S, D), their scales (B, key heads, S). B, S and both head
    counts are dynamic. `path` and `name` are the example and its class. `mask` is "causal"; "residual", which hides
    what lies past the last key; or "none" for whole tiles of keys.
    """
    example = module(path)
    masks = example.fmha_utils.MaskEnum
    kind = masks.RESIDUAL_MASK if mask == "residual" else masks.WINDOW_MASK_INFERENCE
    kernel = getattr(example, name)(width, cutlass.Float32, cutlass.Float32, False, kind)

    @cute.jit
    def attention(mQ, mK, mV, mKScale, mVScale, mO, scale_log2, stream):
        batch, heads, length, width = mQ.shape
        right = cutlass.Int32(0) if cutlass.const_expr(mask == "causal") else None
        kernel(
            mQ.iterator,
            mK.iterator,
            mV.iterator,
            mO.iterator,
            mKScale.iterator,
            mVScale.iterator,
            (batch, length, length, heads, mK.shape[1], cutlass.Int32(width)),
            scale_log2,
            cutlass.Float32(1.0),  # output scale
            None,  # no window to the left
            right,
            stream,
        )

    batch, length, heads, key_heads = (cute.sym_int32() for _ in range(4))
    q, o = (row_major(cutlass.BFloat16, batch, heads, length, width) for _ in "qo")
    k, v = (row_major(cutlass.Int8, batch, key_heads, length, width) for _ in "kv")
    scales = [row_major(cutlass.BFloat16, batch, key_heads, length) for _ in "kv"]
    return attention, (q, k, v, *scales, o, cutlass.Float32(1.0), make_fake_stream())
