"""Device code of `fmha_mixed_decode` in cuTile.

Tiles are in lower case, constants in capitals.

Split-KV decoding (Flash-Decoding): a block computes TILE_H query heads of a group over a range of KV tiles, by online
softmax (Milakov and Gimelshein, arXiv:1805.02867) in base 2; `combine` joins the ranges. Keys are the rows of the first
product and values, transposed, are operands of the second, so that few query heads still fill the tensor cores' tiles.

Scales are applied to scores and weights: that is a multiplication per token and head, not one per element of the cache.
"""

import math

import cuda.tile as ct

ConstInt = ct.Constant[int]

# Below every score, yet finite: the difference of two of them is 0, where that of two infinities is NaN.
LOWEST = -1.0e30


@ct.function
def values(codes, ROWS, WIDTH, BITS):
    """Decode codes to bf16 values (ROWS, WIDTH).

    Codes are (ROWS, WIDTH) of 8 bits, or bytes (ROWS, WIDTH / 2) of two int4 each.
    """
    if BITS == 4:
        low = ct.reshape((codes << 4) >> 4, (ROWS, WIDTH // 2, 1))  # the shift back brings the sign
        high = ct.reshape(codes >> 4, (ROWS, WIDTH // 2, 1))
        codes = ct.reshape(ct.cat((low, high), 2), (ROWS, WIDTH))
    return ct.astype(codes, ct.bfloat16)


@ct.function
def load_values(Array, plane, tile, ROWS, WIDTH, BITS):
    """bf16 values (ROWS, WIDTH) of a tile of the cache; zeros past its end."""
    BYTES = WIDTH * BITS // 8
    codes = ct.load(Array, (plane, tile, 0), shape=(1, ROWS, BYTES), padding_mode=ct.PaddingMode.ZERO)
    return values(ct.reshape(codes, (ROWS, BYTES)), ROWS, WIDTH, BITS)


@ct.function
def load_scales(Array, plane, tile, ROWS):
    """Scales of a tile's tokens, float32 (ROWS,); zeros past the end."""
    scales = ct.load(Array, (plane, tile), shape=(1, ROWS), padding_mode=ct.PaddingMode.ZERO)
    return ct.astype(ct.reshape(scales, (ROWS,)), ct.float32)


@ct.kernel
def split(
    Q, K, V, KScale, VScale, Partial, PartialLse, length: int, tiles_per_split: int, scale_log2: float,
    TILE_H: ConstInt, TILE_N: ConstInt, WIDTH: ConstInt, BITS: ConstInt,
):  # fmt: skip
    """Attend to one range of one cache.

    The grid is (splits, tiles of heads of a group, planes), a plane being a key head of a request. Q [planes, group,
    WIDTH] bf16, K and V [planes, length, WIDTH * BITS / 8] codes, KScale and VScale [planes, length] bf16. Partial
    [planes, splits, group, WIDTH] float32 is normalised within the range, PartialLse [planes, splits, group] float32 is
    to base 2.
    """
    part, row_tile, plane = ct.bid(0), ct.bid(1), ct.bid(2)
    q = ct.load(Q, (plane, row_tile, 0), shape=(1, TILE_H, WIDTH), padding_mode=ct.PaddingMode.ZERO)
    q = ct.transpose(ct.reshape(q, (TILE_H, WIDTH)))  # (WIDTH, TILE_H)
    begin = part * tiles_per_split
    end = ct.minimum(begin + tiles_per_split, ct.cdiv(length, TILE_N))
    keys = ct.arange(TILE_N, dtype=ct.int32)[:, None]

    largest = ct.full((1, TILE_H), LOWEST, ct.float32)
    total = ct.zeros((1, TILE_H), ct.float32)
    acc = ct.zeros((WIDTH, TILE_H), ct.float32)
    for tile in range(begin, end):
        k = load_values(K, plane, tile, TILE_N, WIDTH, BITS)
        scores = ct.mma(k, q, ct.zeros((TILE_N, TILE_H), ct.float32))
        scores = scores * (load_scales(KScale, plane, tile, TILE_N) * scale_log2)[:, None]
        scores = ct.where(tile * TILE_N + keys < length, scores, -math.inf)

        new_largest = ct.maximum(largest, ct.max(scores, axis=0, keepdims=True))
        p = ct.exp2(scores - new_largest)  # (TILE_N, TILE_H)
        alpha = ct.exp2(largest - new_largest)  # (1, TILE_H)
        total = total * alpha + ct.sum(p, axis=0, keepdims=True)
        weights = ct.astype(p * load_scales(VScale, plane, tile, TILE_N)[:, None], ct.bfloat16)
        v = load_values(V, plane, tile, TILE_N, WIDTH, BITS)
        acc = ct.mma(ct.transpose(v), weights, acc * alpha)
        largest = new_largest
    out = ct.transpose(acc / total)  # every range has a token: the total is no 0
    ct.store(Partial, (plane, part, row_tile, 0), ct.reshape(out, (1, 1, TILE_H, WIDTH)))
    ct.store(PartialLse, (plane, part, row_tile), ct.reshape(largest + ct.log2(total), (1, 1, TILE_H)))


@ct.kernel
def combine(Partial, PartialLse, Out, splits: int, WIDTH: ConstInt):
    """Merge the ranges of a query head: out = sum_s 2^(lse_s - lse) partial_s.

    The grid is (group, planes). `split` writes the partial results. Out is [planes, group, WIDTH] bf16.
    """
    head, plane = ct.bid(0), ct.bid(1)
    largest = ct.full((1, 1), LOWEST, ct.float32)
    total = ct.zeros((1, 1), ct.float32)
    acc = ct.zeros((1, WIDTH), ct.float32)
    for part in range(splits):
        lse = ct.reshape(ct.load(PartialLse, (plane, part, head), shape=(1, 1, 1)), (1, 1))
        partial = ct.reshape(ct.load(Partial, (plane, part, head, 0), shape=(1, 1, 1, WIDTH)), (1, WIDTH))
        new_largest = ct.maximum(largest, lse)
        alpha, weight = ct.exp2(largest - new_largest), ct.exp2(lse - new_largest)
        total = total * alpha + weight
        acc = acc * alpha + partial * weight
        largest = new_largest
    ct.store(Out, (plane, head, 0), ct.reshape(ct.astype(acc / total, Out.dtype), (1, 1, WIDTH)))
