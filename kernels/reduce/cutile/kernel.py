"""Device code of `reduce` in cuTile; tiles are in lower case, with their shape."""

import math

import cuda.tile as ct

ConstInt = ct.Constant[int]
ConstBool = ct.Constant[bool]


@ct.kernel
def reduce(X, Y, TILE_M: ConstInt, TILE_N: ConstInt, MAXIMUM: ConstBool):
    """Reduce the rows of X, block by block.

    Y[m, b] is row m over column tiles b, b + blocks, …The result is a sum or maximum. X (M, N), Y (M, blocks), M and N
    dynamic. The grid is (tiles of TILE_M rows, blocks); with one block along a row Y is the result, with more of them
    what another launch reduces.
    """
    row, block = ct.bid(0), ct.bid(1)
    blocks = ct.num_blocks(1)
    tiles = ct.cdiv(X.shape[1], TILE_N)
    if MAXIMUM:
        partial = ct.full((TILE_M, TILE_N), -math.inf, ct.float32)
        for tile in range(block, tiles, blocks):
            x = ct.load(X, (row, tile), shape=(TILE_M, TILE_N), padding_mode=ct.PaddingMode.NEG_INF)
            partial = ct.maximum(partial, ct.astype(x, ct.float32))
        y = ct.max(partial, axis=1, keepdims=True)  # (TILE_M, 1)
    else:
        partial = ct.zeros((TILE_M, TILE_N), ct.float32)
        for tile in range(block, tiles, blocks):
            x = ct.load(X, (row, tile), shape=(TILE_M, TILE_N), padding_mode=ct.PaddingMode.ZERO)
            partial += ct.astype(x, ct.float32)
        y = ct.sum(partial, axis=1, keepdims=True)  # (TILE_M, 1)
    ct.store(Y, (row, block), tile=ct.astype(y, Y.dtype))
