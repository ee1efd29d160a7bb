"""Device code of `fmha_mixed_prefill` in cuTile.

Tiles are in lower case, constants in capitals.

A block computes TILE_M queries of a head over the keys that they see, by online softmax in base 2 (FlashAttention-2,
arXiv:2307.08691). Keys and values become bf16 as they are loaded; their scales go to scores and weights.
"""

import math

import cuda.tile as ct

from kernels.fmha_mixed_decode.cutile.kernel import LOWEST, load_scales, load_values

ConstInt = ct.Constant[int]
ConstBool = ct.Constant[bool]


@ct.kernel
def attention(
    Q, K, V, KScale, VScale, Out, length: int, scale_log2: float, GROUP: ConstInt, CAUSAL: ConstBool,
    TILE_M: ConstInt, TILE_N: ConstInt, WIDTH: ConstInt, BITS: ConstInt,
):  # fmt: skip
    """Grid (tiles of queries, query heads of all requests).

    Q and Out [query heads of all requests, length, WIDTH] bf16, K and V [key heads of all requests, length, WIDTH *
    BITS / 8] codes, KScale and VScale [key heads of all requests, length] bf16. GROUP query heads share a key head.
    """
    row_tile, head = ct.num_blocks(0) - 1 - ct.bid(0), ct.bid(1)  # causal: the longest first
    plane = head // GROUP
    q = ct.load(Q, (head, row_tile, 0), shape=(1, TILE_M, WIDTH), padding_mode=ct.PaddingMode.ZERO)
    q = ct.reshape(q, (TILE_M, WIDTH))
    rows = row_tile * TILE_M + ct.arange(TILE_M, dtype=ct.int32)[:, None]
    keys = ct.arange(TILE_N, dtype=ct.int32)[None, :]
    last = ct.minimum(rows + 1, length) if CAUSAL else ct.full((TILE_M, 1), 1, ct.int32) * length  # keys seen
    end = ct.minimum((row_tile + 1) * TILE_M, length) if CAUSAL else length

    largest = ct.full((TILE_M, 1), LOWEST, ct.float32)
    total = ct.zeros((TILE_M, 1), ct.float32)
    acc = ct.zeros((TILE_M, WIDTH), ct.float32)
    for tile in range(ct.cdiv(end, TILE_N)):
        k = load_values(K, plane, tile, TILE_N, WIDTH, BITS)
        scores = ct.mma(q, ct.transpose(k), ct.zeros((TILE_M, TILE_N), ct.float32))
        scores = scores * (load_scales(KScale, plane, tile, TILE_N) * scale_log2)[None, :]
        scores = ct.where(tile * TILE_N + keys < last, scores, -math.inf)

        new_largest = ct.maximum(largest, ct.max(scores, axis=1, keepdims=True))
        p = ct.exp2(scores - new_largest)  # (TILE_M, TILE_N)
        alpha = ct.exp2(largest - new_largest)  # (TILE_M, 1)
        total = total * alpha + ct.sum(p, axis=1, keepdims=True)
        weights = ct.astype(p * load_scales(VScale, plane, tile, TILE_N)[None, :], ct.bfloat16)
        v = load_values(V, plane, tile, TILE_N, WIDTH, BITS)
        acc = ct.mma(weights, v, acc * alpha)
        largest = new_largest
    ct.store(Out, (head, row_tile, 0), ct.reshape(ct.astype(acc / total, Out.dtype), (1, TILE_M, WIDTH)))
