"""NVIDIA's block-scaled GEMM classes for SM100, called unmodified with our operator's bytes.

The operator's tensors are bytes: CuTe's exported functions take 4-bit tensors in no spelling that both PyTorch and the
simulator have. Their pointers are given the element types here.
"""

from typing import Any

import cutlass
import cutlass.cute as cute
import cutlass.utils as utils
from cutlass.cute.nvgpu import tcgen05
from cutlass.cute.runtime import make_fake_stream

from kernels.programs import row_major
from kernels.upstream.examples import module

# Format -> elements, scales, elements of a block, elements in a byte
FORMATS = {
    "mxfp8": (cutlass.Float8E4M3FN, cutlass.Float8E8M0FNU, 32, 1),
    "mxfp4": (cutlass.Float4E2M1FN, cutlass.Float8E8M0FNU, 32, 2),
    "nvfp4": (cutlass.Float4E2M1FN, cutlass.Float8E4M3FN, 16, 2),
}
K_MAJOR = tcgen05.OperandMajorMode.K
ALIGNED = 32  # elements: what the examples assume of every extent that is or leads to a stride


def rows(pointer: cute.Pointer, count: cutlass.Int32, width: cutlass.Int32) -> cute.Tensor:
    """View a row-major matrix (count, width) as (count, width, 1)."""
    width = cute.assume(width, ALIGNED)
    layout = cute.make_layout((count, width, 1), stride=(width, 1, cute.assume(count * width, ALIGNED)))
    return cute.make_tensor(pointer, layout)


def scales(pointer: cute.Pointer) -> cute.Tensor:
    """Return a tensor whose pointer alone counts: its layout follows from the operand's."""
    return cute.make_tensor(pointer, cute.make_layout((1,)))


def program(
    path: str, name: str, takes: str, dtype: str, most_clusters: int, **tiling: Any
) -> tuple[Any, tuple[Any, ...]]:
    """Return the operator on class `name` of example `path` and fake arguments.

    Bytes mA (M, row), mB (N, row) and scales mSFA, mSFB (bytes,); mC (M, N) fp16, row-major; mAmax (1, 1, 1) or None.
    Sizes are dynamic. `takes`: "problem" (pointers and sizes; a class with a format and tile of its own), "layouts"
    (pointers, layouts, sizes), "tensors", or "amax" (tensors, and one for the largest magnitude in C). `tiling`:
    tile_m, tile_n, cluster_m, cluster_n, for all but "problem".
    """
    t, cls = tiling, getattr(module(path), name)
    element, scale, block, per_byte = FORMATS[dtype]
    if takes == "problem":
        example = cls()
    else:
        example = cls(block, (t["tile_m"], t["tile_n"]), (t["cluster_m"], t["cluster_n"]))

    @cute.jit
    def product(mA, mB, mSFA, mSFB, mC, mAmax, stream):
        a, b = (cute.recast_ptr(x.iterator, dtype=element) for x in (mA, mB))
        sfa, sfb = (cute.recast_ptr(x.iterator, dtype=scale) for x in (mSFA, mSFB))
        m, n = mC.shape
        k = mA.shape[1] * per_byte
        one = cutlass.Int32(1)
        if cutlass.const_expr(takes == "problem"):
            example(a, b, sfa, sfb, mC.iterator, (m, n, k, one), stream)
        elif cutlass.const_expr(takes == "layouts"):
            layouts = (K_MAJOR, K_MAJOR, utils.LayoutEnum.ROW_MAJOR)
            example(a, b, sfa, sfb, mC.iterator, layouts, (m, n, k, one), most_clusters, stream)
        else:
            tensors = (rows(a, m, k), rows(b, n, k), scales(sfa), scales(sfb), rows(mC.iterator, m, n))
            if cutlass.const_expr(takes == "amax"):
                example(*tensors, mAmax, most_clusters, stream)
            else:
                example(*tensors, most_clusters, stream)

    def fake(element: type[cutlass.Numeric], extents: int, align: int) -> Any:
        return row_major(element, *(cute.sym_int32() for _ in range(extents)), align=align)

    matrices = [fake(cutlass.Uint8, 2, 16) for _ in "AB"] + [fake(cutlass.Uint8, 1, 32) for _ in "AB"]
    amax = row_major(cutlass.Float32, 1, 1, 1) if takes == "amax" else None
    return product, (*matrices, fake(cutlass.Float16, 2, 32), amax, make_fake_stream())
