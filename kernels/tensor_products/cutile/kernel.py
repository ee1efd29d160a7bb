"""Device code of `tensor_products` in cuTile; tiles are in lower case."""

import cuda.tile as ct

ConstInt = ct.Constant[int]


@ct.kernel
def tensor_products(A, B, D, TILE_M: ConstInt, TILE_N: ConstInt, TILE_K: ConstInt, TF32: ConstInt):
    """Compute D = A B^T, a block per tile of D.

    A [M, K] and B [N, K] fp16, fp32 (multiplied as tf32), fp8 or int8; D [M, N] fp32, or int32 of int8.
    """
    row, column = ct.bid(0), ct.bid(1)
    sums = ct.zeros((TILE_M, TILE_N), D.dtype)  # (TILE_M, TILE_N)
    for k in range(ct.cdiv(A.shape[1], TILE_K)):
        a = ct.load(A, index=(row, k), shape=(TILE_M, TILE_K), padding_mode=ct.PaddingMode.ZERO)  # (TILE_M, TILE_K)
        b = ct.load(B, index=(column, k), shape=(TILE_N, TILE_K), padding_mode=ct.PaddingMode.ZERO)  # (TILE_N, TILE_K)
        if TF32:
            a, b = ct.astype(a, ct.tfloat32), ct.astype(b, ct.tfloat32)
        sums = ct.mma(a, ct.transpose(b), sums)
    ct.store(D, index=(row, column), tile=sums)
