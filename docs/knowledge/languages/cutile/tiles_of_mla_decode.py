"""Device functions that show what entries in this folder say of cuTile's compiler.

Every function here gives what `cutesnake.stages.compile.cutile.build` compiles. It differs from the project's own
kernel (128 query rows x 64 keys, latent width in two parts, eight warps that compute) in what its name says and in
nothing else.
"""

from __future__ import annotations

from typing import Any

import cuda.tile as ct

from cutesnake.stages.compile.cutile import DeviceFunction, array, scalar
from kernels.mla_decode.cutile.kernel import ConstInt, attend_item, entry, natural, split_undivided, store_result, whole

LATENT, ROPE, LATENCY = 512, 64, 1


@ct.kernel
def either(
    Q, KV, PageTable, Items, Out, Lse, Partial, PartialLse, scale_log2: float, heads: int, causal_tokens: int,
    TILE_H: ConstInt, TILE_N: ConstInt, LATENT: ConstInt, ROPE: ConstInt, PARTS: ConstInt, LATENCY: ConstInt,
):  # fmt: skip
    """Store results of whole requests and of splits in different tensors."""
    request, partial = entry(Items, ct.bid(1), 0), entry(Items, ct.bid(1), 4)
    out, lse = attend_item(
        Q, KV, PageTable, Items, scale_log2, heads, causal_tokens, TILE_H, TILE_N, LATENT, ROPE, PARTS, LATENCY,
    )  # fmt: skip
    if partial == 0:
        store_result(Out, Lse, request, out, natural(lse), TILE_H, LATENT // PARTS, PARTS)
    else:
        store_result(Partial, PartialLse, partial, out, lse, TILE_H, LATENT // PARTS, PARTS)


def attention(kernel: Any = whole, rows: int = 128, keys: int = 64, parts: int = 2, warps: int = 8) -> DeviceFunction:
    pages, items = (array("int32", 2, aligned=False) for _ in range(2))
    out = [array("bf16", 3), array("fp32", 2, aligned=False)]
    partial = [array("fp32", 3), array("fp32", 2, aligned=False)] if kernel is either else []
    numbers = [scalar("fp32"), scalar("int32"), scalar("int32"), rows, keys, LATENT, ROPE, parts, LATENCY]
    inputs = [array("bf16", 3), array("bf16", 3), pages, items]
    return DeviceFunction(
        "trial", "trial", kernel.replace_hints(num_worker_warps=warps), [*inputs, *out, *partial, *numbers]
    )


def as_it_is() -> DeviceFunction:
    return attention()


def four_warps() -> DeviceFunction:
    return attention(warps=4)


def twice_the_keys() -> DeviceFunction:
    """Take keys of 128 x 576, which do not fit together with the queries."""
    return attention(keys=128)


def a_store_under_a_test() -> DeviceFunction:
    return attention(either)


def splits(results: str) -> DeviceFunction:
    """Compute splits in blocks of 64 rows, with a KV tile loaded in quarters."""
    pages, items = (array("int32", 2, aligned=False) for _ in range(2))
    partial = [array(results, 3), *(array("fp32", 2, aligned=False) for _ in range(2))]
    numbers = [scalar("fp32"), scalar("int32"), scalar("int32"), 64, 64, LATENT, ROPE, 4, 3]
    kernel = split_undivided.replace_hints(num_worker_warps=8)
    return DeviceFunction(
        "trial", "trial", kernel, [array("bf16", 3), array("bf16", 3), pages, items, *partial, *numbers]
    )


def results_of_16_bits() -> DeviceFunction:
    return splits("fp16")


def results_of_32_bits() -> DeviceFunction:
    return splits("fp32")
