"""Device code of `mla_decode` in cuTile. Tiles are in lower case with their shape beside them, constants in capitals.

One block computes TILE_H query rows (a row is a head of a query token) over a range of KV tiles, with the whole latent
width in its accumulators, by online softmax (Milakov and Gimelshein, arXiv:1805.02867) in base 2. `split` writes its
share of a long sequence in float32 for `combine`; `whole` has a request to itself and writes the result.

A KV tile is loaded once and used twice: transposed as keys, as it is as values. It is loaded in CHUNKS pieces along the
latent width, each with an accumulator of its own: with one piece the compiler for sm_90 keeps a single KV buffer and
waits for every load; with four it double-buffers them and runs the next tile's first product while the last one ends.
"""

import math

import cuda.tile as ct

ConstInt = ct.Constant[int]

LN_2 = math.log(2.0)
PAGE = 64  # tokens per page of the cache
# Below every score, yet finite: the difference of two of them is 0, where that of two infinities is NaN.
LOWEST = -1.0e30


@ct.function
def attend(
    Q, KV, PageTable, KvLengths, scale_log2, splits, share, heads, causal_tokens,
    TILE_H, TILE_N, LATENT, ROPE, CHUNKS, LATENCY,
):  # fmt: skip
    """Attention of one block's rows over its share of the KV tiles.

    Returns CHUNKS unnormalised outputs (TILE_H, LATENT / CHUNKS), maximum and sum (TILE_H, 1) of the base-2 softmax.
    """
    row_tile, request = ct.bid(0), ct.bid(1)
    CHUNK = LATENT // CHUNKS
    length = ct.load(KvLengths, (request,), shape=())
    tiles = ct.cdiv(length, TILE_N)
    begin = share * tiles // splits
    end = (share + 1) * tiles // splits

    q_rope = ct.load(Q, (request, row_tile, LATENT // ROPE), shape=(1, TILE_H, ROPE))
    q_rope = ct.reshape(q_rope, (TILE_H, ROPE))
    q = ()
    acc = ()
    for c in ct.static_iter(range(CHUNKS)):
        q += (ct.reshape(ct.load(Q, (request, row_tile, c), shape=(1, TILE_H, CHUNK)), (TILE_H, CHUNK)),)
        acc += (ct.zeros((TILE_H, CHUNK), ct.float32),)

    # Row r belongs to query token r // heads; of `causal_tokens` query tokens the last sees every key.
    rows = row_tile * TILE_H + ct.arange(TILE_H, dtype=ct.int32)[:, None]
    visible = length + ct.minimum(rows // heads - (causal_tokens - 1), 0)  # (TILE_H, 1)
    keys = ct.arange(TILE_N, dtype=ct.int32)[None, :]

    row_max = ct.full((TILE_H, 1), LOWEST, ct.float32)
    sums = ct.zeros((TILE_H, TILE_N), ct.float32)  # summed over keys once, after the loop
    for tile in range(begin, end):
        page = ct.load(PageTable, (request, tile * TILE_N // PAGE), shape=(), allow_tma=False)
        part = tile % (PAGE // TILE_N)
        kv = ()
        for c in ct.static_iter(range(CHUNKS)):
            piece = ct.load(KV, (page, part, c), shape=(1, TILE_N, CHUNK), latency=LATENCY)
            kv += (ct.reshape(piece, (TILE_N, CHUNK)),)
        k_rope = ct.load(KV, (page, part, LATENT // ROPE), shape=(1, TILE_N, ROPE), latency=LATENCY)
        k_rope = ct.reshape(k_rope, (TILE_N, ROPE))

        scores = ct.zeros((TILE_H, TILE_N), ct.float32)
        for c in ct.static_iter(range(CHUNKS)):
            scores = ct.mma(q[c], ct.transpose(kv[c]), scores)
        scores = ct.mma(q_rope, ct.transpose(k_rope), scores)
        # Masking every tile costs less than the second copy of the loop that a test would make the compiler write.
        scores = ct.where(tile * TILE_N + keys < visible, scores, -math.inf)

        new_max = ct.maximum(row_max, ct.max(scores, axis=1, keepdims=True) * scale_log2)
        p = ct.exp2(scores * scale_log2 - new_max)  # (TILE_H, TILE_N)
        alpha = ct.exp2(row_max - new_max)  # (TILE_H, 1)
        sums = sums * alpha + p
        p = ct.astype(p, Q.dtype)
        new_acc = ()
        for c in ct.static_iter(range(CHUNKS)):
            new_acc += (ct.mma(p, kv[c], acc[c] * alpha),)
        acc = new_acc
        row_max = new_max
    return acc, row_max, ct.sum(sums, axis=1, keepdims=True)


@ct.kernel
def whole(
    Q, KV, PageTable, KvLengths, Out, Lse, scale_log2: float, heads: int, causal_tokens: int,
    TILE_H: ConstInt, TILE_N: ConstInt, LATENT: ConstInt, ROPE: ConstInt, CHUNKS: ConstInt, LATENCY: ConstInt,
):  # fmt: skip
    """A request per block column; grid (rows / TILE_H, batch).

    Q [batch, rows, LATENT + ROPE] with rows = query tokens x heads, KV [pages, PAGE, LATENT + ROPE], PageTable [batch,
    pages per request] int32, KvLengths [batch] int32, Out [batch, rows, LATENT], Lse [batch, rows] float32, natural.
    """
    row_tile, request = ct.bid(0), ct.bid(1)
    acc, row_max, row_sum = attend(
        Q, KV, PageTable, KvLengths, scale_log2, 1, 0, heads, causal_tokens,
        TILE_H, TILE_N, LATENT, ROPE, CHUNKS, LATENCY,
    )  # fmt: skip
    for c in ct.static_iter(range(CHUNKS)):
        out = ct.astype(acc[c] / row_sum, Out.dtype)
        ct.store(Out, (request, row_tile, c), ct.reshape(out, (1, TILE_H, LATENT // CHUNKS)))
    lse = (row_max + ct.log2(row_sum)) * LN_2
    ct.store(Lse, (request, row_tile), ct.reshape(lse, (1, TILE_H)))


@ct.kernel
def split(
    Q, KV, PageTable, KvLengths, Partial, PartialLse, scale_log2: float, heads: int, causal_tokens: int,
    TILE_H: ConstInt, TILE_N: ConstInt, LATENT: ConstInt, ROPE: ConstInt, CHUNKS: ConstInt, LATENCY: ConstInt,
):  # fmt: skip
    """A share of a request's KV tiles per block; grid (rows / TILE_H, batch, splits).

    Partial [batch, rows, splits, LATENT] float32, normalised within its share; PartialLse [batch, rows, splits]
    float32, base 2. A share without a visible key has zeros and -inf.
    """
    row_tile, request, share = ct.bid(0), ct.bid(1), ct.bid(2)
    acc, row_max, row_sum = attend(
        Q, KV, PageTable, KvLengths, scale_log2, ct.num_blocks(2), share, heads, causal_tokens,
        TILE_H, TILE_N, LATENT, ROPE, CHUNKS, LATENCY,
    )  # fmt: skip
    seen = row_sum > 0.0
    for c in ct.static_iter(range(CHUNKS)):
        out = acc[c] / ct.where(seen, row_sum, 1.0)
        ct.store(Partial, (request, row_tile, share, c), ct.reshape(out, (1, TILE_H, 1, LATENT // CHUNKS)))
    lse = ct.where(seen, row_max + ct.log2(row_sum), -math.inf)
    ct.store(PartialLse, (request, row_tile, share), ct.reshape(lse, (1, TILE_H, 1)))


@ct.kernel
def combine(Partial, PartialLse, Out, Lse, TILE_S: ConstInt, TILE_D: ConstInt):
    """Weighted mean of the shares: out = sum_s 2^(lse_s - lse) partial_s; grid (rows, batch, LATENT / TILE_D)."""
    row, request, column = ct.bid(0), ct.bid(1), ct.bid(2)
    chunks = ct.cdiv(PartialLse.shape[2], TILE_S)

    largest = ct.full((TILE_S,), LOWEST, ct.float32)
    for chunk in range(chunks):
        lse = ct.load(PartialLse, (request, row, chunk), shape=(1, 1, TILE_S), padding_mode=ct.PaddingMode.NEG_INF)
        largest = ct.maximum(largest, ct.reshape(lse, (TILE_S,)))
    largest = ct.max(largest)

    total = ct.zeros((TILE_S,), ct.float32)
    acc = ct.zeros((TILE_S, TILE_D), ct.float32)
    for chunk in range(chunks):
        lse = ct.load(PartialLse, (request, row, chunk), shape=(1, 1, TILE_S), padding_mode=ct.PaddingMode.NEG_INF)
        weight = ct.exp2(ct.reshape(lse, (TILE_S,)) - largest)
        total = total + weight
        partial = ct.load(
            Partial,
            (request, row, chunk, column),
            shape=(1, 1, TILE_S, TILE_D),
            padding_mode=ct.PaddingMode.ZERO,
        )
        acc = acc + ct.reshape(partial, (TILE_S, TILE_D)) * weight[:, None]
    total = ct.sum(total)
    out = ct.astype(ct.sum(acc, axis=0) / total, Out.dtype)  # (TILE_D,)
    ct.store(Out, (request, row, column), ct.reshape(out, (1, 1, TILE_D)))
    if column == 0:
        ct.store(Lse, (request, row), ct.reshape((largest + ct.log2(total)) * LN_2, (1, 1)))
