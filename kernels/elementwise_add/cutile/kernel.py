"""Device code of `elementwise_add` in cuTile; tiles are in capitals, with their shape."""

import cuda.tile as ct

ConstInt = ct.Constant[int]


@ct.kernel
def add(A, B, C, TILE_M: ConstInt, TILE_N: ConstInt):
    """Compute C = A + B, one block per tile of TILE_M x TILE_N.

    Arrays [M, N] have one dtype; M and N are dynamic. A block on the edge reads past the array: `ct.load` fills that
    part with an undetermined value, and `ct.store` writes only what lies inside.
    """
    row, column = ct.bid(0), ct.bid(1)
    a = ct.load(A, index=(row, column), shape=(TILE_M, TILE_N))  # (TILE_M, TILE_N)
    b = ct.load(B, index=(row, column), shape=(TILE_M, TILE_N))  # (TILE_M, TILE_N)
    ct.store(C, index=(row, column), tile=a + b)
