"""NVIDIA's mixed-input GEMM classes for SM100, called unmodified with our operators' tensors.

They call the narrow operand A and want it first: our weights B. Their C is then the transpose of this project's.
"""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from kernels.upstream import operators
from kernels.upstream.examples import module
from kernels.upstream.gemm import element, fake

BLOCK = 128  # elements that share a scale


@cute.jit
def unpacked(codes: cute.Tensor) -> cute.Tensor:
    """Bytes (N, K / 2, L) as int4 (N, K, L)."""
    rows, half, batch = codes.shape
    width = cute.assume(half * 2, BLOCK)
    stride = (width, 1, cute.assume(rows * width, BLOCK))
    pointer = cute.recast_ptr(codes.iterator, dtype=cutlass.Int4)
    return cute.make_tensor(pointer, cute.make_layout((rows, width, batch), stride=stride))


@cute.jit
def turned(tensor: cute.Tensor, modes: cutlass.Constexpr) -> cute.Tensor:
    """Return a tensor with its modes in another order."""
    return cute.make_tensor(tensor.iterator, cute.select(tensor.layout, modes))


def program(path: str, name: str, batch_first: bool, **params: Any) -> tuple[Any, tuple]:
    """Return the operator on class `name` of the example `path` and fake arguments.

    mWeights is (N, K, L), or bytes (N, K / 2, L) of int4; mScales (N, blocks, L), N contiguous; mA (M, K, 1);
    mGroupEnds (L + 1); mC (N, M, 1), N contiguous. Sizes are dynamic. `batch_first` is for an implementation of
    nvidia-cutlass-operators, which has no groups, and takes the batch first, as PyTorch has it.
    """
    p, packed, groups, most_clusters = params, params["dtype"] == "int4", params["groups"], params["most_clusters"]
    made = getattr((operators.module if batch_first else module)(path), name)
    granularity = (1, BLOCK) if packed else (0, 0)
    tile, cluster = (p["tile_m"], p["tile_n"], p["tile_k"]), (p["cluster_m"], p["cluster_n"])
    last: list[Any] = [groups or True, False]  # the number of groups, or whether C is stored by TMA
    if batch_first:
        last.append(cutlass.Int4 if packed else element(p["dtype"]))
    example = made(*granularity, cutlass.Float32, p["pair"], tile, cluster, *last)

    @cute.jit
    def mixed(mWeights, mScales, mA, mGroupEnds, mC, stream):
        weights = mWeights
        if cutlass.const_expr(packed):
            weights = unpacked(mWeights)
        if cutlass.const_expr(groups):
            example(weights, mScales, mA, mGroupEnds, mC, most_clusters, stream)
        else:
            example(weights, mScales, mA, mC, most_clusters, stream)

    @cute.jit
    def first(mWeights, mScales, mA, mGroupEnds, mC, stream):
        weights, scales = mWeights, mScales
        if cutlass.const_expr(packed):
            weights, scales = unpacked(mWeights), turned(mScales, [2, 0, 1])
        a, c = turned(mA, [2, 1, 0]), turned(mC, [2, 0, 1])
        example(turned(weights, [2, 0, 1]), scales, a, c, most_clusters, stream)

    codes, scales = fake("uint8" if packed else p["dtype"]), fake("bf16", first_major=True) if packed else None
    ends = make_fake_compact_tensor(cutlass.Int32, (groups + 1,), assumed_align=4) if groups else None
    arguments = (codes, scales, fake("bf16"), ends, fake("bf16", first_major=True), make_fake_stream())
    return first if batch_first else mixed, arguments
