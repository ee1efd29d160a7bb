"""Program of NVIDIA's unmodified CUTLASS MLA decode examples for SM100 in CuTe DSL.

The examples are imported from the fetched wheel. They want latent and rope as tensors of their own, which the operator
packs side by side: they are taken apart by layout, in place.
"""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from kernels.programs import row_major
from kernels.upstream.examples import module

HEADS, LATENT, ROPE, PAGE = 128, 512, 64, 64
QK_TILE = (128, 128)  # heads x keys of one Q K^T product, the examples' default
PV_TILE = (128, 256)  # heads x latent columns of one P V product, the examples' default
EXAMPLES = {
    "fp16": ("blackwell.mla.mla_decode_fp16", "BlackwellMultiHeadLatentAttentionForwardFP16", cutlass.Float16),
    "fp8": ("blackwell.mla.mla_decode_fp8", "BlackwellMultiHeadLatentAttentionForwardFP8", cutlass.Float8E4M3FN),
}


def columns(mX: cute.Tensor, modes: list[int], first: int, count: int) -> cute.Tensor:
    """View `mX` with modes reordered and `count` columns from `first` on.

    The columns are mode 1 after the reordering. The memory is the same.
    """
    layout = cute.select(mX.layout, mode=modes)
    shape = [count if mode == 1 else size for mode, size in enumerate(layout.shape)]
    return cute.make_tensor(mX.iterator + first, cute.make_layout(tuple(shape), stride=layout.stride))


def program(dtype: str, split: bool, persistent: bool, max_active_clusters: int) -> tuple[Any, tuple]:
    """Return the operator on an example and fake row-major arguments.

    For B requests, T query tokens, H heads: mQ (B, T, H, latent + rope), mKV (pages, page, latent + rope), mPages (B,
    pages per request), mLengths (B,), mO (B, T, H, latent), mLSE (B, T, H), to base 2. mWorkspace (bytes,) is for the
    splits' partial results, float32, or None without `split`: then the output is written directly, and splits is 1.
    Batch, query tokens, pages, lengths and splits are dynamic. `persistent` launches at most `max_active_clusters`
    clusters of two CTAs that take tile after tile.
    """
    path, name, element = EXAMPLES[dtype]
    example = getattr(module(path), name)(
        acc_dtype=cutlass.Float32,
        lse_dtype=cutlass.Float32,
        mma_qk_tiler_mn=QK_TILE,
        mma_pv_tiler_mn=PV_TILE,
        max_active_clusters=max_active_clusters,
        page_size=PAGE,
        skip_correction_threshold=0.0,
        is_persistent=persistent,
        is_var_seq=True,
        is_var_split_kv=False,
    )

    @cute.jit
    def decode(mQ, mKV, mPages, mLengths, mO, mLSE, mWorkspace, splits, softmax_scale, stream):
        token_modes = [2, 3, 1, 0]  # (H, columns, T, B)
        page_modes = [1, 2, 0]  # (page, columns, pages)
        example(
            columns(mQ, token_modes, 0, LATENT),
            columns(mQ, token_modes, LATENT, ROPE),
            columns(mKV, page_modes, 0, LATENT),
            columns(mKV, page_modes, LATENT, ROPE),
            cute.make_tensor(mPages.iterator, cute.select(mPages.layout, mode=[1, 0])),  # (pages of a request, B)
            columns(mO, token_modes, 0, LATENT),
            cute.make_tensor(mLSE.iterator, cute.select(mLSE.layout, mode=[2, 1, 0])),  # (H, T, B)
            mWorkspace,
            splits,
            mLengths,
            None,  # no split counts per request: the same for all
            softmax_scale,
            cutlass.Float32(1.0),  # output scale
            stream,
        )

    batch, tokens = cute.sym_int32(), cute.sym_int32()
    return decode, (
        row_major(element, batch, tokens, HEADS, LATENT + ROPE),
        row_major(element, cute.sym_int32(), PAGE, LATENT + ROPE),
        row_major(cutlass.Int32, batch, cute.sym_int32(), align=4),
        row_major(cutlass.Int32, batch, align=4),
        row_major(element, batch, tokens, HEADS, LATENT),
        row_major(cutlass.Float32, batch, tokens, HEADS),
        row_major(cutlass.Int8, cute.sym_int64(), align=32) if split else None,
        cutlass.Int32(1),
        cutlass.Float32(1.0),
        make_fake_stream(),
    )
