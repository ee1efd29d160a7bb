"""MLA decode for Blackwell in CuTe DSL: how partial results lie in memory between the two kernels."""

from __future__ import annotations

import cutlass.cute as cute

from kernels.mla_decode.cute_sm100.layout import LATENT, PIECE, WARP_LANES


def in_pieces(out_partial: cute.Tensor) -> cute.Tensor:
    """[partials, rows, 512], rows a multiple of 32, as (8, 32, 64, rows / 32, partials).

    The same columns of 32 rows lie side by side, 8 of each row: so a warp of the softmax, of which each lane has a row,
    stores 512 bytes at once, and the combine kernel reads as many.
    """
    partials, rows, _ = out_partial.shape
    shape = (PIECE, WARP_LANES, LATENT // PIECE, rows // WARP_LANES, partials)
    stride = (1, PIECE, PIECE * WARP_LANES, LATENT * WARP_LANES, out_partial.stride[0])
    return cute.make_tensor(out_partial.iterator, cute.make_layout(shape, stride=stride))
