"""Device code of `gemm_grouped_masked` in cuTile; constants are in capitals."""

import cuda.tile as ct

ConstInt = ct.Constant[int]


@ct.kernel
def gemm_grouped_masked(
    A, B, ScalesA, ScalesB, Rows, C,
    TILE_M: ConstInt, TILE_N: ConstInt, BLOCK: ConstInt,
):  # fmt: skip
    """Compute C = A B^T in the rows in use of every group.

    A block computes a tile; the grid is (tiles down, tiles across, groups). A [G, M, K] and B [G, N, K] fp8; ScalesA
    [G, blocks along K, M], ScalesB [G, blocks along N, blocks along K] fp32; Rows [G or more] int32; C [G, M, N].
    TILE_N divides BLOCK, so that a tile of B has one scale.
    """
    row, column, group = ct.bid(0), ct.bid(1), ct.bid(2)
    used = ct.load(Rows, index=(group,), shape=(1,)).item()
    if row * TILE_M < used:
        acc = ct.zeros((TILE_M, TILE_N), ct.float32)
        for step in range(ct.cdiv(A.shape[2], BLOCK)):
            at = (group, row, step)
            a = ct.load(A, index=at, shape=(1, TILE_M, BLOCK), padding_mode=ct.PaddingMode.ZERO)
            at = (group, column, step)
            b = ct.load(B, index=at, shape=(1, TILE_N, BLOCK), padding_mode=ct.PaddingMode.ZERO)
            a, b = ct.reshape(a, (TILE_M, BLOCK)), ct.reshape(b, (TILE_N, BLOCK))
            at = (group, step, row)
            scale_a = ct.load(ScalesA, index=at, shape=(1, 1, TILE_M), padding_mode=ct.PaddingMode.ZERO)
            at = (group, column * TILE_N // BLOCK, step)
            scale_b = ct.load(ScalesB, index=at, shape=(1, 1, 1))
            scale = ct.reshape(scale_a, (TILE_M, 1)) * ct.reshape(scale_b, (1, 1))  # (TILE_M, 1)
            product = ct.mma(a, ct.transpose(b), ct.zeros((TILE_M, TILE_N), ct.float32))  # (TILE_M, TILE_N)
            acc = acc + product * scale
        tile = ct.reshape(ct.astype(acc, C.dtype), (1, TILE_M, TILE_N))
        ct.store(C, index=(group, row, column), tile=tile)
