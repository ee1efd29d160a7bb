"""Device code of `mla_decode` in cuTile.

Tiles are in lower case with their shape next to them, constants in capitals.

One block computes TILE_H query rows (a row is a head of a query token) over a range of KV tiles, by online softmax
(Milakov and Gimelshein, arXiv:1805.02867) in base 2. The range is an item of the schedule that `schedule.py` makes: a
whole request, whose result goes to the output, or a split of one, whose partial result goes to `combine`.

PARTS blocks share the latent width of the output: each computes all scores, and its own columns of the result. The
second product then needs a part of the KV tile only, so the tile is loaded in PARTS slices: its own last, because that
one is in use longest. A slice is used twice, transposed as keys and as it is as values.
"""

import math

import cuda.tile as ct

ConstInt = ct.Constant[int]

LN_2 = math.log(2.0)
PAGE = 64  # tokens per page of the cache
# Below every score, yet finite: the difference of two of them is 0, where that of two infinities is NaN.
LOWEST = -1.0e30
# With smaller hints the loads of float16 make the compiler write the loop of `merge_splits` three times.
COMBINE_LATENCY = 8
LEAST_LARGEST = 2.0**-110  # of a row of partial results: where all are less, they count as zeros


@ct.function
def load_tile(Array, index, ROWS, COLUMNS, LATENCY):
    """Load a (ROWS, COLUMNS) tile of a three-dimensional array."""
    return ct.reshape(ct.load(Array, index, shape=(1, ROWS, COLUMNS), latency=LATENCY), (ROWS, COLUMNS))


@ct.function
def load_rows(Array, plane, row, column_tile, ROWS, COLUMNS, LATENCY):
    """Load (ROWS, COLUMNS) from any row of a three-dimensional array, below 0 zeros."""
    view = Array.tiled_view((1, ROWS, COLUMNS), padding_mode=ct.PaddingMode.ZERO, traversal_steps=(1, 1, COLUMNS))
    return ct.reshape(view.load((plane, row, column_tile), latency=LATENCY), (ROWS, COLUMNS))


@ct.function
def entry(Table, row, COLUMN):
    """Read an entry of a table that the host made, unchecked since it exists."""
    return ct.load(Table, (row, COLUMN), shape=(), check_bounds=False, allow_tma=False)


@ct.function
def natural(lse):
    """Base-2 log-sum-exp to base e; +inf where there was no key, as FlashMLA defines it."""
    return ct.where(lse > LOWEST, lse * LN_2, math.inf)


@ct.function
def attend(
    Q, KV, PageTable, request, begin, end, length, row_tile, part, scale_log2, heads, causal_tokens,
    TILE_H, TILE_N, LATENT, ROPE, PARTS, LATENCY,
):  # fmt: skip
    """Attend to KV tiles [begin, end) of a request for TILE_H rows.

    The result is one part of the latent width. Returns the unnormalised output (TILE_H, LATENT / PARTS), maximum and
    sum (TILE_H, 1) of the base-2 softmax; the sum is 0 for a row that sees no key.
    """
    WIDTH = LATENT // PARTS
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
        first = tile * TILE_N
        page = ct.load(PageTable, (request, first // PAGE), shape=(), allow_tma=False)
        # What lies past the request's end may be NaN, and 0 x NaN is NaN: it must not be read. So the last tile begins
        # `missing` rows earlier and ends with the request. The rows before its own are masked; those before the page
        # read as zeros.
        missing = ct.maximum(first + TILE_N - length, 0)
        row = first % PAGE - missing

        k_rope = load_rows(KV, page, row, LATENT // ROPE, TILE_N, ROPE, LATENCY)
        scores = ct.mma(q_rope, ct.transpose(k_rope), ct.zeros((TILE_H, TILE_N), ct.float32))
        for i in ct.static_iter(range(1, PARTS + 1)):
            kv = load_rows(KV, page, row, (part + i) % PARTS, TILE_N, WIDTH, LATENCY)
            scores = ct.mma(q[i - 1], ct.transpose(kv), scores)
        # Masking every tile costs less than the second copy of the loop that a test would make the compiler write. As
        # unsigned numbers the rows before the tile's own are the largest there are: one comparison masks both ends.
        key = ct.bitcast(keys - missing, ct.uint32)  # within the tile, (1, TILE_N)
        seen = ct.bitcast(ct.maximum(visible - first, 0), ct.uint32)  # (TILE_H, 1)
        scores = ct.where(key < seen, scores, -math.inf)

        new_max = ct.maximum(row_max, ct.max(scores, axis=1, keepdims=True) * scale_log2)
        p = ct.exp2(scores * scale_log2 - new_max, flush_to_zero=True)  # (TILE_H, TILE_N)
        alpha = ct.exp2(row_max - new_max, flush_to_zero=True)  # (TILE_H, 1)
        row_sum = row_sum * alpha + ct.sum(p, axis=1, keepdims=True)
        acc = ct.mma(ct.astype(p, Q.dtype), kv, acc * alpha)
        row_max = new_max
    return acc, row_max, row_sum


@ct.function
def attend_undivided(
    Q, KV, PageTable, request, begin, end, length, row_tile, scale_log2, heads, causal_tokens,
    TILE_H, TILE_N, LATENT, ROPE, SLICES, LATENCY,
):  # fmt: skip
    """Attend with few rows over the whole latent width.

    Unlike in `attend`, no scores are computed twice. The KV tile is loaded in SLICES along the width, each used twice,
    and the result is a tuple of as many tiles. That and the latency hint make the compiler keep two buffers of a tile.
    The mask is what the scores begin with, and the sums of a row's columns are kept apart: both spare this loop waits,
    and would cost the one above some.
    """
    WIDTH = LATENT // SLICES
    q_rope = load_tile(Q, (request, row_tile, LATENT // ROPE), TILE_H, ROPE, LATENCY)
    q = ()
    for i in ct.static_iter(range(SLICES)):
        q += (load_tile(Q, (request, row_tile, i), TILE_H, WIDTH, LATENCY),)

    rows = row_tile * TILE_H + ct.arange(TILE_H, dtype=ct.int32)[:, None]
    visible = length + ct.minimum(rows // heads - (causal_tokens - 1), 0)  # (TILE_H, 1)
    keys = ct.arange(TILE_N, dtype=ct.int32)[None, :]

    row_max = ct.full((TILE_H, 1), LOWEST, ct.float32)
    row_sum = ct.zeros((TILE_H, TILE_N), ct.float32)
    acc = ()
    for _ in ct.static_iter(range(SLICES)):
        acc += (ct.zeros((TILE_H, WIDTH), ct.float32),)
    for tile in range(begin, end):
        first = tile * TILE_N
        page = ct.load(PageTable, (request, first // PAGE), shape=(), allow_tma=False)
        missing = ct.maximum(first + TILE_N - length, 0)  # the last tile ends with the request, as in `attend`
        row = first % PAGE - missing

        k_rope = load_rows(KV, page, row, LATENT // ROPE, TILE_N, ROPE, LATENCY)
        key = ct.bitcast(keys - missing, ct.uint32)  # within the tile, (1, TILE_N)
        seen = ct.bitcast(ct.maximum(visible - first, 0), ct.uint32)  # (TILE_H, 1)
        scores = ct.mma(q_rope, ct.transpose(k_rope), ct.where(key < seen, 0.0, -math.inf))
        kv = ()
        for i in ct.static_iter(range(SLICES)):
            part = load_rows(KV, page, row, i, TILE_N, WIDTH, LATENCY)
            scores = ct.mma(q[i], ct.transpose(part), scores)
            kv += (part,)

        new_max = ct.maximum(row_max, ct.max(scores, axis=1, keepdims=True) * scale_log2)
        p = ct.exp2(scores * scale_log2 - new_max, flush_to_zero=True)  # (TILE_H, TILE_N)
        alpha = ct.exp2(row_max - new_max, flush_to_zero=True)  # (TILE_H, 1)
        row_sum = row_sum * alpha + p
        weights = ct.astype(p, Q.dtype)
        new_acc = ()
        for i in ct.static_iter(range(SLICES)):
            new_acc += (ct.mma(weights, kv[i], acc[i] * alpha),)
        acc = new_acc
        row_max = new_max
    return acc, row_max, ct.sum(row_sum, axis=1, keepdims=True)


@ct.function
def attend_item(
    Q, KV, PageTable, Items, scale_log2, heads, causal_tokens, TILE_H, TILE_N, LATENT, ROPE, PARTS, LATENCY,
):  # fmt: skip
    """Attend to the work item `bid(1)`.

    `bid(0)` stands for the rows and the part of the latent width. Returns the normalised output (TILE_H, LATENT /
    PARTS), zeros in a row that sees no key, and the base-2 log-sum-exp (TILE_H, 1), -inf in such a row.
    """
    row_tile, part, item = ct.bid(0) // PARTS, ct.bid(0) % PARTS, ct.bid(1)
    request, length = entry(Items, item, 0), entry(Items, item, 1)
    begin, end = entry(Items, item, 2), entry(Items, item, 3)
    acc, row_max, row_sum = attend(
        Q, KV, PageTable, request, begin, end, length, row_tile, part, scale_log2, heads, causal_tokens,
        TILE_H, TILE_N, LATENT, ROPE, PARTS, LATENCY,
    )  # fmt: skip
    seen = row_sum > 0.0
    return acc * (1.0 / ct.where(seen, row_sum, 1.0)), ct.where(seen, row_max + ct.log2(row_sum), -math.inf)


@ct.function
def store_result(Out, Lse, plane, out, lse, TILE_H, WIDTH, PARTS):
    """Store the result of `bid(0)`: `out` (TILE_H, WIDTH), and once `lse` (TILE_H, 1)."""
    row_tile, part = ct.bid(0) // PARTS, ct.bid(0) % PARTS
    ct.store(Out, (plane, row_tile, part), ct.reshape(ct.astype(out, Out.dtype), (1, TILE_H, WIDTH)))
    if part == 0:
        ct.store(Lse, (plane, row_tile), ct.reshape(lse, (1, TILE_H)))


# The four kernels below take the items of a schedule; grid (row tiles x PARTS, items).
#
# Q [batch, rows, LATENT + ROPE] with rows = query tokens x heads, KV [pages, PAGE, LATENT + ROPE], PageTable [batch,
# pages per request] int32. Items [items, 5] int32: request, its kv length in tokens, first KV tile, the tile after the
# last, index of its partial result (0 for a whole request, which has none).
#
# Out [batch, rows, LATENT] and Lse [batch, rows] float32, natural: a row that sees no key has zeros and +inf. Partial
# [partials, rows, LATENT] float32 and PartialLse [partials, rows] float32, base 2, are normalised within a split: there
# a row that sees no key has zeros and -inf.


@ct.kernel
def whole(
    Q, KV, PageTable, Items, Out, Lse, scale_log2: float, heads: int, causal_tokens: int,
    TILE_H: ConstInt, TILE_N: ConstInt, LATENT: ConstInt, ROPE: ConstInt, PARTS: ConstInt, LATENCY: ConstInt,
):  # fmt: skip
    """Every item is a whole request: results go to the output."""
    request = entry(Items, ct.bid(1), 0)
    out, lse = attend_item(
        Q, KV, PageTable, Items, scale_log2, heads, causal_tokens, TILE_H, TILE_N, LATENT, ROPE, PARTS, LATENCY,
    )  # fmt: skip
    store_result(Out, Lse, request, out, natural(lse), TILE_H, LATENT // PARTS, PARTS)


@ct.kernel
def split(
    Q, KV, PageTable, Items, Partial, PartialLse, scale_log2: float, heads: int, causal_tokens: int,
    TILE_H: ConstInt, TILE_N: ConstInt, LATENT: ConstInt, ROPE: ConstInt, PARTS: ConstInt, LATENCY: ConstInt,
):  # fmt: skip
    """Every item is a split of a request: results are partial, for `combine`."""
    partial = entry(Items, ct.bid(1), 4)
    out, lse = attend_item(
        Q, KV, PageTable, Items, scale_log2, heads, causal_tokens, TILE_H, TILE_N, LATENT, ROPE, PARTS, LATENCY,
    )  # fmt: skip
    store_result(Partial, PartialLse, partial, out, lse, TILE_H, LATENT // PARTS, PARTS)


@ct.kernel
def split_first(
    Q, KV, PageTable, Items, Partial, PartialLse, scale_log2: float, heads: int, causal_tokens: int,
    TILE_H: ConstInt, TILE_N: ConstInt, LATENT: ConstInt, ROPE: ConstInt, PARTS: ConstInt, LATENCY: ConstInt,
):  # fmt: skip
    """`split`, after which `whole_rest` may start as soon as all blocks of this kernel have."""
    ct.grid_dependency_control_launch_dependents()
    partial = entry(Items, ct.bid(1), 4)
    out, lse = attend_item(
        Q, KV, PageTable, Items, scale_log2, heads, causal_tokens, TILE_H, TILE_N, LATENT, ROPE, PARTS, LATENCY,
    )  # fmt: skip
    store_result(Partial, PartialLse, partial, out, lse, TILE_H, LATENT // PARTS, PARTS)


@ct.kernel
def whole_rest(
    Q, KV, PageTable, Items, Out, Lse, scale_log2: float, heads: int, causal_tokens: int,
    TILE_H: ConstInt, TILE_N: ConstInt, LATENT: ConstInt, ROPE: ConstInt, PARTS: ConstInt, LATENCY: ConstInt,
):  # fmt: skip
    """`whole`, on the multiprocessors that `split_first` leaves free.

    It reads nothing that `split_first` writes, yet must not end before it: `combine` waits for this kernel alone. So
    the last item's blocks wait, when their work is done.
    """
    request = entry(Items, ct.bid(1), 0)
    out, lse = attend_item(
        Q, KV, PageTable, Items, scale_log2, heads, causal_tokens, TILE_H, TILE_N, LATENT, ROPE, PARTS, LATENCY,
    )  # fmt: skip
    store_result(Out, Lse, request, out, natural(lse), TILE_H, LATENT // PARTS, PARTS)
    if ct.bid(1) == ct.num_blocks(1) - 1:
        ct.grid_dependency_control_wait()


@ct.function
def attend_undivided_item(
    Q, KV, PageTable, Items, scale_log2, heads, causal_tokens, TILE_H, TILE_N, LATENT, ROPE, SLICES, LATENCY,
):  # fmt: skip
    """`attend_undivided` of the item `bid(1)`, for the rows that `bid(0)` stands for."""
    row_tile, item = ct.bid(0), ct.bid(1)
    request, length = entry(Items, item, 0), entry(Items, item, 1)
    begin, end = entry(Items, item, 2), entry(Items, item, 3)
    return attend_undivided(
        Q, KV, PageTable, request, begin, end, length, row_tile, scale_log2, heads, causal_tokens,
        TILE_H, TILE_N, LATENT, ROPE, SLICES, LATENCY,
    )  # fmt: skip


@ct.function
def store_undivided(Out, Lse, plane, acc, row_max, row_sum, TILE_H, WIDTH, SLICES):
    """Store what `attend_undivided` returns, normalised, in the rows that `bid(0)` stands for."""
    row_tile = ct.bid(0)
    seen = row_sum > 0.0
    weight = 1.0 / ct.where(seen, row_sum, 1.0)
    lse = ct.where(seen, row_max + ct.log2(row_sum), -math.inf)
    for i in ct.static_iter(range(SLICES)):
        out = ct.astype(acc[i] * weight, Out.dtype)
        ct.store(Out, (plane, row_tile, i), ct.reshape(out, (1, TILE_H, WIDTH)))
    ct.store(Lse, (plane, row_tile), ct.reshape(natural(lse), (1, TILE_H)))


# Three kernels with one block for all of the latent width; grid (row tiles, items). Their arrays are as for the four
# above, but for partial results: Partial is float16, in units of PartialScale [partials, rows] float32. As float32 they
# would take the shared memory of the second buffer of a KV tile.


@ct.kernel
def whole_undivided(
    Q, KV, PageTable, Items, Out, Lse, scale_log2: float, heads: int, causal_tokens: int,
    TILE_H: ConstInt, TILE_N: ConstInt, LATENT: ConstInt, ROPE: ConstInt, SLICES: ConstInt, LATENCY: ConstInt,
):  # fmt: skip
    """`whole`."""
    acc, row_max, row_sum = attend_undivided_item(
        Q, KV, PageTable, Items, scale_log2, heads, causal_tokens, TILE_H, TILE_N, LATENT, ROPE, SLICES, LATENCY,
    )  # fmt: skip
    store_undivided(Out, Lse, entry(Items, ct.bid(1), 0), acc, row_max, row_sum, TILE_H, LATENT // SLICES, SLICES)


@ct.kernel
def split_undivided(
    Q, KV, PageTable, Items, Partial, PartialLse, PartialScale, scale_log2: float, heads: int, causal_tokens: int,
    TILE_H: ConstInt, TILE_N: ConstInt, LATENT: ConstInt, ROPE: ConstInt, SLICES: ConstInt, LATENCY: ConstInt,
):  # fmt: skip
    """`split_first`."""
    ct.grid_dependency_control_launch_dependents()
    row_tile, partial = ct.bid(0), entry(Items, ct.bid(1), 4)
    acc, row_max, row_sum = attend_undivided_item(
        Q, KV, PageTable, Items, scale_log2, heads, causal_tokens, TILE_H, TILE_N, LATENT, ROPE, SLICES, LATENCY,
    )  # fmt: skip
    largest = ct.zeros((TILE_H, 1), ct.float32)
    for i in ct.static_iter(range(SLICES)):
        largest = ct.maximum(largest, ct.max(ct.abs(acc[i]), axis=1, keepdims=True))
    # The largest of a row becomes 2^15, so that all down to 2^-29 of it have float16's 11 bits.
    unit = ct.where(largest > LEAST_LARGEST, largest, 1.0) * 2.0**-15
    inverse = 1.0 / unit
    for i in ct.static_iter(range(SLICES)):
        out = ct.astype(acc[i] * inverse, Partial.dtype)
        ct.store(Partial, (partial, row_tile, i), ct.reshape(out, (1, TILE_H, LATENT // SLICES)))
    seen = row_sum > 0.0
    lse = ct.where(seen, row_max + ct.log2(row_sum), -math.inf)
    scale = unit * (1.0 / ct.where(seen, row_sum, 1.0))
    ct.store(PartialLse, (partial, row_tile), ct.reshape(lse, (1, TILE_H)))
    ct.store(PartialScale, (partial, row_tile), ct.reshape(scale, (1, TILE_H)))


@ct.kernel
def rest_undivided(
    Q, KV, PageTable, Items, Out, Lse, scale_log2: float, heads: int, causal_tokens: int,
    TILE_H: ConstInt, TILE_N: ConstInt, LATENT: ConstInt, ROPE: ConstInt, SLICES: ConstInt, LATENCY: ConstInt,
):  # fmt: skip
    """Run `whole_rest` for undivided rows.

    A wait after the work would keep blocks from loading ahead. So the last item is one of no request, without keys and
    with nowhere to store: its blocks wait first, and are done.
    """
    if ct.bid(1) == ct.num_blocks(1) - 1:
        ct.grid_dependency_control_wait()
    acc, row_max, row_sum = attend_undivided_item(
        Q, KV, PageTable, Items, scale_log2, heads, causal_tokens, TILE_H, TILE_N, LATENT, ROPE, SLICES, LATENCY,
    )  # fmt: skip
    store_undivided(Out, Lse, entry(Items, ct.bid(1), 0), acc, row_max, row_sum, TILE_H, LATENT // SLICES, SLICES)


@ct.function
def partial_row(Array, partial, row_tile, TILE_R):
    """Load a number of each of TILE_R rows of a partial result, (TILE_R, 1)."""
    row = ct.load(Array, (partial, row_tile), shape=(1, TILE_R), check_bounds=False, allow_tma=False)
    return ct.reshape(row, (TILE_R, 1))


@ct.function
def merge_splits(Partial, PartialLse, PartialScale, Merges, Out, Lse, TILE_S, TILE_R, TILE_D, SCALED):
    """Merge a split request: out = sum_s 2^(lse_s - lse) partial_s.

    The grid is (row tiles, requests that were split, LATENT / TILE_D). Merges [split requests, 4] int32: request, its
    first partial result, how many there are. TILE_R rows and TILE_D columns per block, TILE_S splits at a time, written
    out one after the other so that all their loads are under way before the first is used: so bounds are not checked,
    since each check is a branch, and the last tile may read what lies behind its rows. Maximum and sum are kept as in
    online softmax. If SCALED is 1 and not 0, a row of a partial result is in units of PartialScale.
    """
    row_tile, merge, column = ct.bid(0), ct.bid(1), ct.bid(2)
    request, base, splits = entry(Merges, merge, 0), entry(Merges, merge, 1), entry(Merges, merge, 2)
    ct.grid_dependency_control_wait()  # may be launched while `attention` still runs: its results are there from here
    largest = ct.full((TILE_R, 1), LOWEST, ct.float32)
    total = ct.zeros((TILE_R, 1), ct.float32)
    acc = ct.zeros((TILE_R, TILE_D), ct.float32)
    for chunk in range(ct.cdiv(splits, TILE_S)):
        lses = ()
        partials = ()
        scales = ()
        new_largest = largest
        for i in ct.static_iter(range(TILE_S)):
            part = base + ct.minimum(chunk * TILE_S + i, splits - 1)
            lse = partial_row(PartialLse, part, row_tile, TILE_R)
            at = (part, row_tile, column)
            tile = (1, TILE_R, TILE_D)
            partial = ct.load(Partial, at, shape=tile, check_bounds=False, latency=COMBINE_LATENCY, allow_tma=False)
            lses += (ct.where(chunk * TILE_S + i < splits, lse, -math.inf),)
            partials += (ct.reshape(partial, (TILE_R, TILE_D)),)
            for _ in ct.static_iter(range(SCALED)):
                scales += (partial_row(PartialScale, part, row_tile, TILE_R),)
        for i in ct.static_iter(range(TILE_S)):
            new_largest = ct.maximum(new_largest, lses[i])
        alpha = ct.exp2(largest - new_largest, flush_to_zero=True)
        total = total * alpha
        acc = acc * alpha
        for i in ct.static_iter(range(TILE_S)):
            weight = ct.exp2(lses[i] - new_largest, flush_to_zero=True)
            total = total + weight
            for _ in ct.static_iter(range(SCALED)):
                weight = weight * scales[i]
            acc = acc + ct.astype(partials[i], ct.float32) * weight
        largest = new_largest
    seen = total > 0.0
    out = ct.astype(acc * (1.0 / ct.where(seen, total, 1.0)), Out.dtype)
    ct.store(Out, (request, row_tile, column), ct.reshape(out, (1, TILE_R, TILE_D)), allow_tma=False)
    if column == 0:
        lse = ct.where(seen, largest + ct.log2(total), -math.inf)
        ct.store(Lse, (request, row_tile), ct.reshape(natural(lse), (1, TILE_R)))


@ct.kernel
def combine(
    Partial, PartialLse, Merges, Out, Lse, TILE_S: ConstInt, TILE_R: ConstInt, TILE_D: ConstInt,
):  # fmt: skip
    """`merge_splits` of float32 partial results."""
    merge_splits(Partial, PartialLse, PartialLse, Merges, Out, Lse, TILE_S, TILE_R, TILE_D, 0)


@ct.kernel
def combine_scaled(
    Partial, PartialLse, PartialScale, Merges, Out, Lse, TILE_S: ConstInt, TILE_R: ConstInt, TILE_D: ConstInt,
):  # fmt: skip
    """`merge_splits` of partial results that `split_undivided` stored."""
    merge_splits(Partial, PartialLse, PartialScale, Merges, Out, Lse, TILE_S, TILE_R, TILE_D, 1)
