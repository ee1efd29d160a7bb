"""NVIDIA's attention kernels for Hopper and Blackwell, called unmodified with our operator's tensors."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from kernels.programs import row_major
from kernels.upstream.examples import module

ELEMENTS = {"bf16": cutlass.BFloat16, "fp16": cutlass.Float16, "fp8": cutlass.Float8E4M3FN}


def grouped(mX: cute.Tensor, group: cutlass.Int32) -> cute.Tensor:
    """View (B, S, H, D) row-major as (S, D, group, H / group, B).

    The Hopper example takes this order; the memory is the same.
    """
    batch, length, heads, width = mX.shape
    layout = cute.make_layout(
        (length, width, group, heads // group, batch),
        stride=(width * heads, 1, width, width * group, width * heads * length),
    )
    return cute.make_tensor(mX.iterator, layout)


def on_hopper(example: Any, window_right: int | None) -> Any:
    """Return the operator on the Hopper example, which also writes the log-sum-exp."""

    @cute.jit
    def attention(mQ, mK, mV, mO, mLSE, scale_log2, scale, stream):
        batch, length, heads, _ = mQ.shape
        group = heads // mK.shape[2]
        lse_layout = cute.make_layout(
            (length, 1, group, heads // group, batch), stride=(1, 1, length, length * group, length * heads)
        )
        right = None if cutlass.const_expr(window_right is None) else cutlass.Int32(window_right)
        example(
            grouped(mQ, group),
            grouped(mK, cutlass.Int32(1)),
            grouped(mV, cutlass.Int32(1)),
            grouped(mO, group),
            cute.make_tensor(mLSE.iterator, lse_layout),
            scale_log2,
            scale,
            cutlass.Float32(1.0),  # output scale
            None,  # no window to the left
            right,
            stream,
        )

    return attention


def on_blackwell(example: Any, window_right: int | None) -> Any:
    """Return the operator on the Blackwell example, without its log-sum-exp, which is for training."""

    @cute.jit
    def attention(mQ, mK, mV, mO, scale_log2, scale, stream):
        batch, length, heads, width = mQ.shape
        right = None if cutlass.const_expr(window_right is None) else cutlass.Int32(window_right)
        example(
            mQ.iterator,
            mK.iterator,
            mV.iterator,
            mO.iterator,
            (batch, length, length, length, heads, mK.shape[2], width),
            None,  # sequences of one length: no table of where they begin
            None,
            None,
            scale_log2,
            scale,
            cutlass.Float32(1.0),  # output scale
            None,  # no window to the left
            right,
            stream,
        )

    return attention


def on_flashinfer(example: Any, window_right: int | None) -> Any:
    """Return the operator on FlashInfer's kernel, without log-sum-exp, sinks and skipped tiles."""

    @cute.jit
    def attention(mQ, mK, mV, mO, mStart, scale_log2, scale, stream):
        batch, length, heads, width = mQ.shape
        key_heads = mK.shape[2]
        group = heads // key_heads
        right = None if cutlass.const_expr(window_right is None) else cutlass.Int32(window_right)
        example(
            *(_in_a_row(mX, key_heads, shared) for mX, shared in ((mQ, group), (mK, 1), (mV, 1), (mO, group))),
            (batch, length, length, length, heads, key_heads, width, width),
            mStart,
            mStart,
            None,  # no log-sum-exp
            None,  # no sink
            scale_log2,
            scale,
            cutlass.Float32(1.0),  # output scale
            None,  # no tile is skipped
            None,  # no window to the left
            right,
            None,
            None,
            stream,
            False,  # no early launch
        )

    return attention


def _in_a_row(mX: cute.Tensor, key_heads: Any, shared: Any) -> cute.Tensor:
    """View (B, S, H, D) as (1, B S, key heads, group, D)."""
    batch, length, heads, width = mX.shape
    shape = (1, batch * length, key_heads, shared, width)
    stride = (batch * length * heads * width, heads * width, shared * width, width, 1)
    return cute.make_tensor(mX.iterator, cute.make_layout(shape, stride=stride))


def program(path: str, name: str, dtype: str, head_dim: int, tile_m: int, tile_n: int, mask: str) -> tuple[Any, tuple]:
    """Return the host function and fake arguments, row-major.

    mQ and mO are (B, S, H, D), mK and mV (B, S, key heads, D), mLSE (B, H, S), natural, mStart (B + 1). B, S and both
    head counts are dynamic. `path` and `name` are the example and its class. `tile_m` x `tile_n` are queries x keys of
    one product. `mask` is "causal"; "residual", which hides what lies past the last key; or "none" for whole tiles of
    keys.
    """
    example = module(path)
    masks = example.fmha_utils.MaskEnum
    kind = masks.RESIDUAL_MASK if mask == "residual" else masks.WINDOW_MASK
    attention, both = getattr(example, name), (cutlass.Float32, cutlass.Float32)
    ragged = path.startswith("attention.")
    if ragged:
        kind = masks.WINDOW_MASK_INFERENCE if mask == "causal" else masks.RESIDUAL_MASK
        choices = {"enable_ex2_emulation": True, "enable_skip_correction": True, "use_tma_store": False}  # FlashInfer's
        kernel = attention(*both, (tile_m, tile_n), head_dim, False, kind, **choices)
    else:
        kernel = attention(*both, (tile_m, tile_n, head_dim), False, kind)
    batch, length, heads, key_heads = (cute.sym_int32() for _ in range(4))
    element = ELEMENTS[dtype]
    output = cutlass.Float16 if dtype == "fp8" else element

    q, o = (row_major(kind, batch, length, heads, head_dim) for kind in (element, output))
    k, v = (row_major(element, batch, length, key_heads, head_dim) for _ in "kv")
    scales = (cutlass.Float32(1.0), cutlass.Float32(1.0))
    right = 0 if mask == "causal" else None
    if "hopper" in path:
        lse = row_major(cutlass.Float32, batch, heads, length, align=4)
        return on_hopper(kernel, right), (q, k, v, o, lse, *scales, make_fake_stream())
    if ragged:
        starts = row_major(cutlass.Int32, cute.sym_int32())
        return on_flashinfer(kernel, right), (q, k, v, o, starts, *scales, make_fake_stream())
    return on_blackwell(kernel, right), (q, k, v, o, *scales, make_fake_stream())
