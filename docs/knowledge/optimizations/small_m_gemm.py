"""Tiles of an output, and how busy they keep the SMs."""

from math import ceil

SMS = 132  # H100, H200


def busy(m, n, tile_m, tile_n):
    """Return the share of SM time in use, if all tiles take equal time."""
    tiles = ceil(m / tile_m) * ceil(n / tile_n)
    return tiles / (SMS * ceil(tiles / SMS))


def test_few_rows_want_smaller_tiles():
    assert busy(128, 8192, 128, 256) < 0.25  # 32 tiles
    assert busy(128, 8192, 128, 64) > 0.95  # 128 tiles
    assert busy(8192, 8192, 128, 256) > 0.95  # many rows: the large tile keeps the SMs busy, too
