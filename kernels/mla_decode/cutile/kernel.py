"""Device code of `mla_decode` in cuTile. Tiles are in lower case with their shape beside them, constants in capitals.

One block computes TILE_H query rows (a row is a head of a query token) over a range of KV tiles, by online softmax
(Milakov and Gimelshein, arXiv:1805.02867) in base 2. `split` writes its share of a long sequence in float32 for
`combine`; `whole` has a request to itself and writes the result.

PARTS blocks share the latent width of the output: each computes all scores, and its own columns of the result. The
second product then needs a part of the KV tile only, so the tile is loaded in PARTS pieces: its own last, because that
one is in use longest. A piece is used twice, transposed as keys and as it is as values.
"""

import math

import cuda.tile as ct

ConstInt = ct.Constant[int]

LN_2 = math.log(2.0)
PAGE = 64  # tokens per page of the cache
# Below every score, yet finite: the difference of two of them is 0, where that of two infinities is NaN.
LOWEST = -1.0e30


@ct.function
def load_tile(Array, index, ROWS, COLUMNS, LATENCY):
    """A (ROWS, COLUMNS) tile of a three-dimensional array."""
    return ct.reshape(ct.load(Array, index, shape=(1, ROWS, COLUMNS), latency=LATENCY), (ROWS, COLUMNS))


@ct.function
def attend(
    Q, KV, PageTable, KvLengths, scale_log2, splits, share, row_tile, part, heads, causal_tokens,
    TILE_H, TILE_N, LATENT, ROPE, PARTS, LATENCY,
):  # fmt: skip
    """Attention of TILE_H rows over a share of the KV tiles of request `bid(1)`, for one part of the latent width.

    Returns the unnormalised output (TILE_H, LATENT / PARTS), maximum and sum (TILE_H, 1) of the base-2 softmax.
    """
    request = ct.bid(1)
    WIDTH = LATENT // PARTS
    length = ct.load(KvLengths, (request,), shape=())
    tiles = ct.cdiv(length, TILE_N)
    begin = share * tiles // splits
    end = (share + 1) * tiles // splits

    q_rope = load_tile(Q, (request, row_tile, LATENT // ROPE), TILE_H, ROPE, LATENCY)
    q = ()
    for i in ct.static_iter(range(1, PARTS + 1)):  # this block's part of the width last
        q += (load_tile(Q, (request, row_tile, (part + i) % PARTS), TILE_H, WIDTH, LATENCY),)

    # Row r belongs to query token r // heads; of `causal_tokens` query tokens the last sees every key.
    rows = row_tile * TILE_H + ct.arange(TILE_H, dtype=ct.int32)[:, None]
    visible = length + ct.minimum(rows // heads - (causal_tokens - 1), 0)  # (TILE_H, 1)
    keys = ct.arange(TILE_N, dtype=ct.int32)[None, :]

    row_max = ct.full((TILE_H, 1), LOWEST, ct.float32)
    row_sum = ct.zeros((TILE_H, 1), ct.float32)
    acc = ct.zeros((TILE_H, WIDTH), ct.float32)
    for tile in range(begin, end):
        page = ct.load(PageTable, (request, tile * TILE_N // PAGE), shape=(), allow_tma=False)
        rows_of_page = tile % (PAGE // TILE_N)

        k_rope = load_tile(KV, (page, rows_of_page, LATENT // ROPE), TILE_N, ROPE, LATENCY)
        scores = ct.mma(q_rope, ct.transpose(k_rope), ct.zeros((TILE_H, TILE_N), ct.float32))
        for i in ct.static_iter(range(1, PARTS + 1)):
            kv = load_tile(KV, (page, rows_of_page, (part + i) % PARTS), TILE_N, WIDTH, LATENCY)
            scores = ct.mma(q[i - 1], ct.transpose(kv), scores)
        # Masking every tile costs less than the second copy of the loop that a test would make the compiler write.
        scores = ct.where(tile * TILE_N + keys < visible, scores, -math.inf)

        new_max = ct.maximum(row_max, ct.max(scores, axis=1, keepdims=True) * scale_log2)
        p = ct.exp2(scores * scale_log2 - new_max)  # (TILE_H, TILE_N)
        alpha = ct.exp2(row_max - new_max)  # (TILE_H, 1)
        row_sum = row_sum * alpha + ct.sum(p, axis=1, keepdims=True)
        acc = ct.mma(ct.astype(p, Q.dtype), kv, acc * alpha)
        row_max = new_max
    return acc, row_max, row_sum


@ct.kernel
def whole(
    Q, KV, PageTable, KvLengths, Out, Lse, scale_log2: float, heads: int, causal_tokens: int,
    TILE_H: ConstInt, TILE_N: ConstInt, LATENT: ConstInt, ROPE: ConstInt, PARTS: ConstInt, LATENCY: ConstInt,
):  # fmt: skip
    """A request per block column; grid (row tiles x PARTS, batch).

    Q [batch, rows, LATENT + ROPE] with rows = query tokens x heads, KV [pages, PAGE, LATENT + ROPE], PageTable [batch,
    pages per request] int32, KvLengths [batch] int32, Out [batch, rows, LATENT], Lse [batch, rows] float32, natural.
    """
    row_tile, part, request = ct.bid(0) // PARTS, ct.bid(0) % PARTS, ct.bid(1)
    acc, row_max, row_sum = attend(
        Q, KV, PageTable, KvLengths, scale_log2, 1, 0, row_tile, part, heads, causal_tokens,
        TILE_H, TILE_N, LATENT, ROPE, PARTS, LATENCY,
    )  # fmt: skip
    out = ct.astype(acc / row_sum, Out.dtype)
    ct.store(Out, (request, row_tile, part), ct.reshape(out, (1, TILE_H, LATENT // PARTS)))
    if part == 0:
        lse = (row_max + ct.log2(row_sum)) * LN_2
        ct.store(Lse, (request, row_tile), ct.reshape(lse, (1, TILE_H)))


@ct.kernel
def split(
    Q, KV, PageTable, KvLengths, Partial, PartialLse, scale_log2: float, heads: int, causal_tokens: int,
    TILE_H: ConstInt, TILE_N: ConstInt, LATENT: ConstInt, ROPE: ConstInt, PARTS: ConstInt, LATENCY: ConstInt,
):  # fmt: skip
    """A share of a request's KV tiles per block; grid (row tiles x PARTS, batch, splits).

    Partial [batch, splits, rows, LATENT] float32, normalised within its share; PartialLse [batch, splits, rows]
    float32, base 2. A share without a visible key has zeros and -inf.
    """
    row_tile, part, request, share = ct.bid(0) // PARTS, ct.bid(0) % PARTS, ct.bid(1), ct.bid(2)
    acc, row_max, row_sum = attend(
        Q, KV, PageTable, KvLengths, scale_log2, ct.num_blocks(2), share, row_tile, part, heads, causal_tokens,
        TILE_H, TILE_N, LATENT, ROPE, PARTS, LATENCY,
    )  # fmt: skip
    seen = row_sum > 0.0
    out = acc / ct.where(seen, row_sum, 1.0)
    ct.store(Partial, (request, share, row_tile, part), ct.reshape(out, (1, 1, TILE_H, LATENT // PARTS)))
    if part == 0:
        lse = ct.where(seen, row_max + ct.log2(row_sum), -math.inf)
        ct.store(PartialLse, (request, share, row_tile), ct.reshape(lse, (1, 1, TILE_H)))


@ct.kernel
def combine(
    Partial, PartialLse, Out, Lse, TILE_S: ConstInt, TILE_R: ConstInt, TILE_D: ConstInt,
):  # fmt: skip
    """Weighted mean of the shares, out = sum_s 2^(lse_s - lse) partial_s; grid (row tiles, batch, LATENT / TILE_D).

    TILE_R rows and TILE_D columns per block, TILE_S shares at a time, written out one after the other so that all
    their loads are under way before the first is used. Maximum and sum are kept as in online softmax.
    """
    ct.grid_dependency_control_wait()  # may be launched while `split` still runs: its results are there from here on
    row_tile, request, column = ct.bid(0), ct.bid(1), ct.bid(2)
    shares = PartialLse.shape[1]
    largest = ct.full((TILE_R, 1), LOWEST, ct.float32)
    total = ct.zeros((TILE_R, 1), ct.float32)
    acc = ct.zeros((TILE_R, TILE_D), ct.float32)
    for chunk in range(ct.cdiv(shares, TILE_S)):
        lses = ()
        partials = ()
        new_largest = largest
        for i in ct.static_iter(range(TILE_S)):
            share = ct.minimum(chunk * TILE_S + i, shares - 1)
            lse = ct.load(PartialLse, (request, share, row_tile), shape=(1, 1, TILE_R), allow_tma=False)
            partial = ct.load(
                Partial, (request, share, row_tile, column), shape=(1, 1, TILE_R, TILE_D), allow_tma=False
            )
            lses += (ct.where(chunk * TILE_S + i < shares, ct.reshape(lse, (TILE_R, 1)), -math.inf),)
            partials += (ct.reshape(partial, (TILE_R, TILE_D)),)
        for i in ct.static_iter(range(TILE_S)):
            new_largest = ct.maximum(new_largest, lses[i])
        alpha = ct.exp2(largest - new_largest)
        total = total * alpha
        acc = acc * alpha
        for i in ct.static_iter(range(TILE_S)):
            weight = ct.exp2(lses[i] - new_largest)
            total = total + weight
            acc = acc + partials[i] * weight
        largest = new_largest
    out = ct.astype(acc / total, Out.dtype)
    ct.store(Out, (request, row_tile, column), ct.reshape(out, (1, TILE_R, TILE_D)), allow_tma=False)
    if column == 0:
        lse = (largest + ct.log2(total)) * LN_2
        ct.store(Lse, (request, row_tile), ct.reshape(lse, (1, TILE_R)))
