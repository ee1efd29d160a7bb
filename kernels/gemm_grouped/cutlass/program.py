"""NVIDIA's grouped GEMM classes for SM100 and SM90, called unmodified with our operator's tensors."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import make_fake_stream

from kernels.gemm_blockscaled.cutlass.program import FORMATS
from kernels.gemm_grouped.cutlass import hopper
from kernels.programs import row_major
from kernels.upstream.examples import module
from kernels.upstream.gemm import element

DESCRIPTOR_WORDS = 16  # of 8 bytes
ALIGNED = 32  # elements: of the rows of tensors that give descriptors their element type and majors
EXTENT = cutlass.Int32(ALIGNED)  # of these tensors, as the adapter passes it


class Plain:
    """The class for 16-bit operands, on the vectors in which all groups' matrices lie."""

    def __init__(self, example: Any, groups: int, tiles: int, most_clusters: int) -> None:
        self.example, self.groups, self.tiles, self.most_clusters = example, groups, tiles, most_clusters

    @cute.jit
    def __call__(
        self,
        mA: cute.Tensor,
        mB: cute.Tensor,
        mC: cute.Tensor,
        mSizes: cute.Tensor,
        mStrides: cute.Tensor,
        mAddresses: cute.Tensor,
        mDescriptors: cute.Tensor,
        extent: cutlass.Int32,
        stream: CUstream,
    ) -> None:
        """Vectors mA, mB, mC; tables (groups, …); room for descriptors (processors, 3, 16).

        The class wants the number of tiles of all groups, or as many as fit on the GPU where it counts them itself.
        """
        a, b, c = (template(x.iterator, x.element_type, extent) for x in (mA, mB, mC))
        self.example(
            a, b, c, self.groups, mSizes, mStrides, mAddresses, self.tiles, mDescriptors, self.most_clusters, stream
        )


class Scaled:
    """The block-scaled class, whose operands are given their element types here: the operator's hold bytes."""

    def __init__(self, example: Any, form: str, groups: int, most_clusters: int) -> None:
        self.example, self.groups, self.most_clusters = example, groups, most_clusters
        self.element, self.scale, _, _ = FORMATS[form]

    @cute.jit
    def __call__(
        self,
        mA: cute.Tensor,
        mB: cute.Tensor,
        mC: cute.Tensor,
        mSFA: cute.Tensor,
        mSFB: cute.Tensor,
        mSizes: cute.Tensor,
        mStrides: cute.Tensor,
        mAddresses: cute.Tensor,
        mScaleAddresses: cute.Tensor,
        mDescriptors: cute.Tensor,
        extent: cutlass.Int32,
        stream: CUstream,
    ) -> None:
        """Launch the class on its tensors and tables.

        Vectors of bytes mA, mB, mSFA, mSFB, a vector mC; tables (groups, …), descriptors (processors, 5, 16).
        """
        a, b = (template(x.iterator, self.element, extent) for x in (mA, mB))
        sfa, sfb = (template(x.iterator, self.scale, extent) for x in (mSFA, mSFB))
        c = template(mC.iterator, mC.element_type, extent)
        self.example(
            a, b, c, sfa, sfb, self.groups, mSizes, mStrides, mAddresses, mScaleAddresses, self.most_clusters,
            mDescriptors, self.most_clusters, stream,
        )  # fmt: skip


def template(pointer: cute.Pointer, dtype: type[cutlass.Numeric], extent: cutlass.Int32) -> cute.Tensor:
    """Return a fake row-major matrix of `extent` x `extent` elements, as (rows, columns, 1).

    The extent is known at launch only: dimensions of constant extent may vanish from a descriptor, which the kernel
    changes dimension by dimension.
    """
    extent = cute.assume(extent, ALIGNED)
    layout = cute.make_layout((extent, extent, 1), stride=(extent, 1, extent * extent))
    return cute.make_tensor(cute.recast_ptr(pointer, dtype=dtype), layout)


def program(path: str, name: str, takes: str, **params: Any) -> tuple[Any, tuple]:
    """Return the class `name` of the example `path` and fake arguments.

    The class is made for a variant. Only the tables have known sizes.
    """
    if takes == "hopper":
        hopper.give_names_back()
    p, groups, example = params, params["groups"], getattr(module(path), name)
    tile, cluster = (p["tile_m"], p["tile_n"]), (p["cluster_m"], p["cluster_n"])
    whole, wide = cutlass.Int32, cutlass.Int64
    tables = (row_major(whole, groups, 4), row_major(whole, groups, 3, 2), row_major(wide, groups, 3))
    if takes != "scaled":
        dtype, room = element(p["dtype"]), row_major(wide, p["processors"], 3, DESCRIPTOR_WORDS)
        if takes == "hopper":
            hopper.load_by_copies(module(path))
            made = example(cutlass.Float32, tile, cluster, 1, True)  # tiles in the order of rows
        else:
            made = example(cutlass.Float32, p["pair"], tile, cluster)
        kernel = Plain(made, groups, p["tiles"] or p["most_clusters"], p["most_clusters"])
        return kernel, (*(row_major(dtype, cute.sym_int32()) for _ in "ABC"), *tables, room, EXTENT, make_fake_stream())
    byte, block = cutlass.Uint8, FORMATS[p["dtype"]][2]
    vectors = (row_major(kind, cute.sym_int32()) for kind in (byte, byte, cutlass.Float16, byte, byte))
    tables = (*tables, row_major(wide, groups, 2))
    room = row_major(wide, p["processors"], 5, DESCRIPTOR_WORDS)
    scaled = Scaled(example(block, tile, cluster), p["dtype"], groups, p["most_clusters"])
    return scaled, (*vectors, *tables, room, EXTENT, make_fake_stream())
