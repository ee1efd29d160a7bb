"""Device code of `gemm_mixed` in cuTile; constants are in capitals."""

import cuda.tile as ct

from kernels.fmha_mixed_decode.cutile.kernel import values

ConstInt = ct.Constant[int]
GROUP = 8  # rows of tiles that neighbouring blocks share, so that what they load stays in L2


@ct.function
def product(A, B, Scales, group, row, column, TILE_M, TILE_N, TILE_K, BITS, SCALED):
    """Compute a float32 tile of C from A's tile `row` and B[group]'s tile `column`."""
    BYTES = TILE_K * BITS // 8
    acc = ct.zeros((TILE_M, TILE_N), ct.float32)
    for step in range(ct.cdiv(A.shape[1], TILE_K)):
        a = ct.load(A, (row, step), shape=(TILE_M, TILE_K), padding_mode=ct.PaddingMode.ZERO)  # (TILE_M, TILE_K)
        codes = ct.load(B, (group, column, step), shape=(1, TILE_N, BYTES), padding_mode=ct.PaddingMode.ZERO)
        b = values(ct.reshape(codes, (TILE_N, BYTES)), TILE_N, TILE_K, BITS)  # (TILE_N, TILE_K)
        if SCALED:
            scales = ct.load(Scales, (group, step, column), shape=(1, 1, TILE_N), padding_mode=ct.PaddingMode.ZERO)
            b = b * ct.reshape(scales, (TILE_N, 1))
        acc = ct.mma(a, ct.transpose(b), acc)
    return acc


@ct.kernel
def gemm_mixed(
    A, B, Scales, C,
    TILE_M: ConstInt, TILE_N: ConstInt, TILE_K: ConstInt, BITS: ConstInt, SCALED: ConstInt,
):  # fmt: skip
    """C = A B^T; a block per tile of C.

    A [M, K] bf16; B [1, N, K * BITS / 8] codes; Scales [1, blocks, N] bf16, one per TILE_K elements; C [M, N] bf16.
    """
    tiles_m, tiles_n = ct.cdiv(C.shape[0], TILE_M), ct.cdiv(C.shape[1], TILE_N)
    block = ct.bid(0)
    group = block // (GROUP * tiles_n)
    rows = ct.minimum(tiles_m - group * GROUP, GROUP)  # the last group may have fewer
    within = block - group * GROUP * tiles_n
    row, column = group * GROUP + within % rows, within // rows
    acc = product(A, B, Scales, 0, row, column, TILE_M, TILE_N, TILE_K, BITS, SCALED)
    ct.store(C, (row, column), ct.astype(acc, C.dtype))
