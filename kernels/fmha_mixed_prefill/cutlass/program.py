"""NVIDIA's CUTLASS examples of attention over int8 keys and values for Blackwell, called unmodified."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import make_fake_stream

from kernels.programs import row_major
from kernels.upstream.examples import module


class MixedPrefill:
    """The operator on one of the examples, with one scale per token."""

    def __init__(self, example: Any, right: int | None) -> None:
        self.example, self.right = example, right

    @cute.jit
    def __call__(
        self,
        mQ: cute.Tensor,
        mK: cute.Tensor,
        mV: cute.Tensor,
        mKScale: cute.Tensor,
        mVScale: cute.Tensor,
        mO: cute.Tensor,
        scale_log2: cutlass.Float32,
        stream: CUstream,
    ) -> None:
        """Launch on row-major tensors.

        mQ and mO (B, H, S, D), mK and mV (B, key heads, S, D), their scales (B, key heads, S).
        """
        batch, heads, length, width = mQ.shape
        right = None if cutlass.const_expr(self.right is None) else cutlass.Int32(self.right)
        self.example(
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


def program(path: str, name: str, width: int, mask: str) -> tuple[MixedPrefill, tuple[Any, ...]]:
    """Return the host function and fake arguments.

    Batch, length and both head counts are dynamic. `path` and `name` are the example and its class. `mask` is "causal";
    "residual", which hides what lies past the last key; or "none" for whole tiles of keys.
    """
    example = module(path)
    masks = example.fmha_utils.MaskEnum
    kind = masks.RESIDUAL_MASK if mask == "residual" else masks.WINDOW_MASK_INFERENCE
    kernel = getattr(example, name)(width, cutlass.Float32, cutlass.Float32, False, kind)
    batch, length, heads, key_heads = (cute.sym_int32() for _ in range(4))

    q, o = (row_major(cutlass.BFloat16, batch, heads, length, width) for _ in "qo")
    k, v = (row_major(cutlass.Int8, batch, key_heads, length, width) for _ in "kv")
    scales = [row_major(cutlass.BFloat16, batch, key_heads, length) for _ in "kv"]
    arguments = (q, k, v, *scales, o, cutlass.Float32(1.0), make_fake_stream())
    return MixedPrefill(kernel, 0 if mask == "causal" else None), arguments
