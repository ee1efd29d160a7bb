"""Device code of `gemm_blockscaled` in cuTile; constants are in capitals."""

import cuda.tile as ct

ConstInt = ct.Constant[int]


@ct.function
def codes(Array, tile, step, ROWS, TILE_K, PER_BYTE):
    """Load (ROWS, TILE_K) 8-bit or 4-bit codes from bytes, zeros past the end."""
    shape = (ROWS, TILE_K // PER_BYTE)
    loaded = ct.load(Array, (tile, step), shape=shape, padding_mode=ct.PaddingMode.ZERO)
    if PER_BYTE == 2:
        flat = ct.unpack_from_bytes(ct.reshape(loaded, (ROWS * TILE_K // 2,)), ct.float4_e2m1fn)
        return ct.reshape(flat, (ROWS, TILE_K))
    return ct.bitcast(loaded, ct.float8_e4m3fn)


@ct.function
def scales(Array, tile, step, ROWS, COUNT, BLOCK):
    """Load (ROWS, COUNT) scales, stored as [32, 4, 4] bytes per 128 rows by 4."""
    shape = (ROWS // 128, COUNT // 4, 512)
    loaded = ct.load(Array, (tile, step, 0), shape=shape, padding_mode=ct.PaddingMode.ZERO)
    loaded = ct.reshape(loaded, (ROWS // 128, COUNT // 4, 32, 4, 4))  # row r of a tile is at [r % 32, r // 32]
    loaded = ct.reshape(ct.permute(loaded, (0, 3, 2, 1, 4)), (ROWS, COUNT))
    return ct.bitcast(loaded, ct.float8_e4m3fn if BLOCK == 16 else ct.float8_e8m0fnu)


@ct.kernel
def product(
    A, B, ScalesA, ScalesB, C,
    TILE_M: ConstInt, TILE_N: ConstInt, TILE_K: ConstInt, PER_BYTE: ConstInt, BLOCK: ConstInt,
):  # fmt: skip
    """C = A B^T; a block per tile of C, grid (tiles down, tiles across).

    A [M, K / PER_BYTE], B [N, K / PER_BYTE] bytes; ScalesA, ScalesB [tiles of 128 rows, tiles of 4 scales, 512] bytes;
    C [M, N] fp16. Past the ends codes are zeros and scales zero bytes, which are no NaN in either format.
    """
    row, column = ct.bid(0), ct.bid(1)
    COUNT = TILE_K // BLOCK
    acc = ct.zeros((TILE_M, TILE_N), ct.float32)
    for step in range(ct.cdiv(A.shape[1], TILE_K // PER_BYTE)):
        a = codes(A, row, step, TILE_M, TILE_K, PER_BYTE)
        b = codes(B, column, step, TILE_N, TILE_K, PER_BYTE)
        scale_a = scales(ScalesA, row, step, TILE_M, COUNT, BLOCK)
        scale_b = scales(ScalesB, column, step, TILE_N, COUNT, BLOCK)
        acc = ct.mma_scaled(a, scale_a, ct.transpose(b), ct.transpose(scale_b), acc)
    ct.store(C, (row, column), ct.astype(acc, C.dtype))
