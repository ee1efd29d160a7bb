"""Program of NVIDIA's CUTLASS example of decoding from a low-bit cache for Blackwell."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.arch import nvvm_wrappers
from cutlass.cute.runtime import make_fake_stream

from kernels.programs import row_major
from kernels.upstream.examples import module

CODES = {"int8": cutlass.Int8, "fp8": cutlass.Float8E4M3FN, "int4": cutlass.Int4}


def program(dtype: str, head_dim: int, head_tile: int, converters: int) -> tuple[Any, tuple[Any, ...]]:
    """Return the operator on the example and fake row-major arguments.

    It is a split and a combine kernel. mQ and mO are (B, H, D), mK and mV (B, key heads, S, bytes), their scales (B,
    key heads, S), mMax and mLSE (B, H), mPartial (splits, B, H, D), mPartialMax and mPartialSum (splits, B, H). B,
    heads, S and splits are dynamic.
    """
    if not hasattr(nvvm_wrappers, "mapa"):
        nvvm_wrappers.mapa = None  # the example imports it and does not use it
    example = module("blackwell.mixed_input_fmha.mixed_input_fmha_decode")
    kernel = example.MixedInputFusedMultiHeadAttentionDecode(head_dim, head_dim, head_tile, converters)
    element = CODES[dtype]

    @cute.jit
    def decode(mQ, mK, mV, mKScale, mVScale, mO, mMax, mLSE, mPartial, mPartialMax, mPartialSum, scale, stream):
        batch, heads, width = mQ.shape
        codes = [cute.recast_ptr(m.iterator, dtype=element) for m in (mK, mV)]
        workspace = (mMax, mLSE, mPartial, mPartialMax, mPartialSum)
        kernel(
            (batch, heads, mK.shape[1], mK.shape[2], cutlass.Int32(width)),
            mPartial.shape[0],
            mQ.iterator,
            *codes,
            mKScale.iterator,
            mVScale.iterator,
            mO.iterator,
            *(mX.iterator for mX in workspace),
            scale,
            cutlass.Float32(1.0),  # output scale
            stream,
        )

    batch, heads, key_heads, length, splits = (cute.sym_int32() for _ in range(5))
    bf16, fp32 = cutlass.BFloat16, cutlass.Float32
    q, o = (row_major(bf16, batch, heads, head_dim) for _ in "qo")
    k, v = (row_major(cutlass.Int8, batch, key_heads, length, head_dim * element.width // 8) for _ in "kv")
    k_scale, v_scale = (row_major(bf16, batch, key_heads, length) for _ in "kv")
    largest, lse = (row_major(fp32, batch, heads) for _ in range(2))
    partial = row_major(fp32, splits, batch, heads, head_dim)
    partial_largest, partial_sum = (row_major(fp32, splits, batch, heads) for _ in range(2))
    workspace = (largest, lse, partial, partial_largest, partial_sum)
    return decode, (q, k, v, k_scale, v_scale, o, *workspace, cutlass.Float32(1.0), make_fake_stream())
