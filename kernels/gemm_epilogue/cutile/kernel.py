"""Device code of `gemm_epilogue` in cuTile; tiles are in lower case."""

import cuda.tile as ct

ConstInt = ct.Constant[int]
GROUP = 8  # rows of tiles that neighbouring blocks share, so that what they load stays in L2


@ct.kernel
def gemm_epilogue(A, B, C, D, alpha, beta, TILE_M: ConstInt, TILE_N: ConstInt, TILE_K: ConstInt, ACTIVATION: ConstInt):
    """Compute D = activation(alpha A B^T + beta C), a block per tile of D.

    A [M, K], B [N, K], C and D [M, N]. ACTIVATION is 0 for none, 1 for relu, 2 for silu.
    """
    tiles_m, tiles_n = ct.cdiv(D.shape[0], TILE_M), ct.cdiv(D.shape[1], TILE_N)
    block = ct.bid(0)
    group = block // (GROUP * tiles_n)
    rows = ct.minimum(tiles_m - group * GROUP, GROUP)  # the last group may have fewer
    within = block - group * GROUP * tiles_n
    row, column = group * GROUP + within % rows, within // rows

    sums = ct.full((TILE_M, TILE_N), 0.0, dtype=ct.float32)  # (TILE_M, TILE_N)
    for k in range(ct.cdiv(A.shape[1], TILE_K)):
        a = ct.load(A, index=(row, k), shape=(TILE_M, TILE_K), padding_mode=ct.PaddingMode.ZERO)  # (TILE_M, TILE_K)
        b = ct.load(B, index=(column, k), shape=(TILE_N, TILE_K), padding_mode=ct.PaddingMode.ZERO)  # (TILE_N, TILE_K)
        sums = ct.mma(a, ct.transpose(b), sums)
    c = ct.load(C, index=(row, column), shape=(TILE_M, TILE_N), padding_mode=ct.PaddingMode.ZERO)  # (TILE_M, TILE_N)
    x = sums * alpha + ct.astype(c, ct.float32) * beta
    if ACTIVATION == 1:
        x = ct.maximum(x, 0.0)
    if ACTIVATION == 2:
        x = x / (1.0 + ct.exp(-x))
    ct.store(D, index=(row, column), tile=ct.astype(x, D.dtype))
