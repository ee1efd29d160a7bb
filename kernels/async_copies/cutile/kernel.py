"""Device code of `async_copies` in cuTile."""

import cuda.tile as ct

ConstInt = ct.Constant[int]


@ct.kernel
def copy(X, Y, TILE_M: ConstInt, TILE_N: ConstInt):
    """Copy X [M, N] to Y, one block per tile of TILE_M x TILE_N."""
    row, column = ct.bid(0), ct.bid(1)
    ct.store(Y, index=(row, column), tile=ct.load(X, index=(row, column), shape=(TILE_M, TILE_N)))
