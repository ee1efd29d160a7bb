"""Device code of `dependent_launch` in cuTile.

Tiles are in lower case, (TILE_M, TILE_N), constants in capitals.
"""

import cuda.tile as ct

ConstInt = ct.Constant[int]
ConstBool = ct.Constant[bool]


@ct.kernel
def first(U, V, W, TILE_M: ConstInt, TILE_N: ConstInt, EARLY: ConstBool):
    """Compute W = U + V on arrays [M, N], one block per tile.

    EARLY: the next kernel may start once all blocks have read.
    """
    place = (ct.bid(0), ct.bid(1))
    u = ct.load(U, place, shape=(TILE_M, TILE_N))
    v = ct.load(V, place, shape=(TILE_M, TILE_N))
    if EARLY:
        ct.grid_dependency_control_launch_dependents()
    ct.store(W, place, tile=u + v)


@ct.kernel
def second(W, X, Y, TILE_M: ConstInt, TILE_N: ConstInt, EARLY: ConstBool):
    """Compute Y = W + X on arrays [M, N], one block per tile.

    EARLY: X is read before the previous kernel has ended.
    """
    place = (ct.bid(0), ct.bid(1))
    x = ct.load(X, place, shape=(TILE_M, TILE_N))
    if EARLY:
        ct.grid_dependency_control_wait()
    w = ct.load(W, place, shape=(TILE_M, TILE_N))
    ct.store(Y, place, tile=w + x)
