"""Device code of `gemm_grouped` in cuTile; constants are in capitals."""

import cuda.tile as ct

from kernels.gemm_blockscaled.cutile.kernel import codes, scales

ConstInt = ct.Constant[int]


@ct.kernel
def grouped_products(
    As, Bs, ScalesAs, ScalesBs, Cs,
    TILE_M: ConstInt, TILE_N: ConstInt, TILE_K: ConstInt, PER_BYTE: ConstInt, BLOCK: ConstInt, BLOCKS: ConstInt,
):  # fmt: skip
    """Compute C = A B^T for every group.

    Each of BLOCKS blocks takes every BLOCKS-th tile of all groups. Lists of arrays as `gemm_blockscaled` has them: A
    [M, K / PER_BYTE], B [N, K / PER_BYTE] bytes; ScalesA, ScalesB [tiles of 128 rows, tiles of 4 scales, 512] bytes; C
    [M, N] fp16.
    """
    COUNT = TILE_K // BLOCK
    tile, begin = ct.bid(0), 0
    for group in range(len(As)):
        A, B, ScalesA, ScalesB, C = As[group], Bs[group], ScalesAs[group], ScalesBs[group], Cs[group]
        across = ct.cdiv(C.shape[1], TILE_N)
        end = begin + ct.cdiv(C.shape[0], TILE_M) * across
        while tile < end:
            row, column = (tile - begin) // across, (tile - begin) % across
            acc = ct.zeros((TILE_M, TILE_N), ct.float32)
            for step in range(ct.cdiv(A.shape[1], TILE_K // PER_BYTE)):
                a = codes(A, row, step, TILE_M, TILE_K, PER_BYTE)  # (TILE_M, TILE_K)
                b = codes(B, column, step, TILE_N, TILE_K, PER_BYTE)  # (TILE_N, TILE_K)
                scale_a = scales(ScalesA, row, step, TILE_M, COUNT, BLOCK)  # (TILE_M, COUNT)
                scale_b = scales(ScalesB, column, step, TILE_N, COUNT, BLOCK)  # (TILE_N, COUNT)
                acc = ct.mma_scaled(a, scale_a, ct.transpose(b), ct.transpose(scale_b), acc)
            ct.store(C, (row, column), ct.astype(acc, C.dtype))
            tile = tile + BLOCKS
        begin = end
