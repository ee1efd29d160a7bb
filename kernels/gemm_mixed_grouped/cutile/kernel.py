"""Device code of `gemm_mixed_grouped` in cuTile; constants are in capitals."""

import cuda.tile as ct

from kernels.gemm_mixed.cutile.kernel import product

ConstInt = ct.Constant[int]


@ct.kernel
def gemm_mixed_grouped(
    A, B, Scales, Starts, C,
    TILE_M: ConstInt, TILE_N: ConstInt, TILE_K: ConstInt, BITS: ConstInt, SCALED: ConstInt,
):  # fmt: skip
    """Compute C = A B[group]^T for the rows of every group.

    Blocks stay, and take every so-manyth tile of all groups. A [rows, K] bf16; B [G, N, K * BITS / 8] codes; Scales [G,
    blocks, N] bf16; Starts [G + 1] int32; C [rows, N] bf16.
    """
    tile, begin = ct.bid(0), 0
    across = ct.cdiv(C.shape[1], TILE_N)
    first = ct.load(Starts, index=(0,), shape=(1,)).item()
    for group in range(B.shape[0]):
        last = ct.load(Starts, index=(group + 1,), shape=(1,)).item()
        end = begin + ct.cdiv(last - first, TILE_M) * across
        while tile < end:
            row, column = (tile - begin) // across, (tile - begin) % across
            rows = A.slice(axis=0, start=first, stop=last)
            acc = product(rows, B, Scales, group, row, column, TILE_M, TILE_N, TILE_K, BITS, SCALED)
            ct.store(C.slice(axis=0, start=first, stop=last), (row, column), ct.astype(acc, C.dtype))
            tile = tile + ct.num_blocks(0)
        first, begin = last, end
