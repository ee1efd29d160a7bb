"""NVIDIA's grouped GEMM classes for SM100 and SM90, called unmodified with our operator's tensors."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from kernels.gemm_blockscaled.cutlass.program import FORMATS
from kernels.gemm_grouped.cutlass import hopper
from kernels.programs import row_major
from kernels.upstream.examples import module
from kernels.upstream.gemm import element

DESCRIPTOR_WORDS = 16  # of 8 bytes
ALIGNED = 32  # elements: of the rows of tensors that give descriptors their element type and majors
EXTENT = cutlass.Int32(ALIGNED)  # of these tensors, as the adapter passes it


def template(pointer: cute.Pointer, dtype: type[cutlass.Numeric], extent: cutlass.Int32) -> cute.Tensor:
    """Return a fake row-major matrix of `extent` x `extent` elements, as (rows, columns, 1).

    The extent is known at launch only: dimensions of constant extent may vanish from a descriptor, which the kernel
    changes dimension by dimension.
    """
    extent = cute.assume(extent, ALIGNED)
    layout = cute.make_layout((extent, extent, 1), stride=(extent, 1, extent * extent))
    return cute.make_tensor(cute.recast_ptr(pointer, dtype=dtype), layout)


def program(path: str, name: str, takes: str, **params: Any) -> tuple[Any, tuple]:
    """Return the operator on class `name` of example `path`, and fake arguments.

    mA, mB, mC, mSFA and mSFB are vectors in which all groups' matrices lie, mSizes, mStrides, mAddresses and
    mScaleAddresses tables (groups, …), mDescriptors (processors, 3 or 5, 16). Only the tables have known sizes. The
    class for 16-bit operands wants the number of tiles of all groups, or as many as fit on the GPU where it counts them
    itself. The operator's block-scaled operands hold bytes, which get their element types here.
    """
    if takes == "hopper":
        hopper.give_names_back()
    p, groups, made = params, params["groups"], getattr(module(path), name)
    most_clusters, tiles = p["most_clusters"], p["tiles"] or p["most_clusters"]
    tile, cluster = (p["tile_m"], p["tile_n"]), (p["cluster_m"], p["cluster_n"])
    whole, wide = cutlass.Int32, cutlass.Int64
    tables = (row_major(whole, groups, 4), row_major(whole, groups, 3, 2), row_major(wide, groups, 3))
    if takes == "scaled":
        kind, scale, block, _ = FORMATS[p["dtype"]]
        example = made(block, tile, cluster)
    elif takes == "hopper":
        hopper.load_by_copies(module(path))
        example = made(cutlass.Float32, tile, cluster, 1, True)  # tiles in the order of rows
    else:
        example = made(cutlass.Float32, p["pair"], tile, cluster)

    @cute.jit
    def plain(mA, mB, mC, mSizes, mStrides, mAddresses, mDescriptors, extent, stream):
        matrices = [template(x.iterator, x.element_type, extent) for x in (mA, mB, mC)]
        example(*matrices, groups, mSizes, mStrides, mAddresses, tiles, mDescriptors, most_clusters, stream)

    @cute.jit
    def scaled(mA, mB, mC, mSFA, mSFB, mSizes, mStrides, mAddresses, mScaleAddresses, mDescriptors, extent, stream):
        a, b = (template(x.iterator, kind, extent) for x in (mA, mB))
        sfa, sfb = (template(x.iterator, scale, extent) for x in (mSFA, mSFB))
        c = template(mC.iterator, mC.element_type, extent)
        example(
            a, b, c, sfa, sfb, groups, mSizes, mStrides, mAddresses, mScaleAddresses, most_clusters, mDescriptors,
            most_clusters, stream,
        )  # fmt: skip

    if takes == "scaled":
        byte = cutlass.Uint8
        vectors = [row_major(kind, cute.sym_int32()) for kind in (byte, byte, cutlass.Float16, byte, byte)]
        room = row_major(wide, p["processors"], 5, DESCRIPTOR_WORDS)
        return scaled, (*vectors, *tables, row_major(wide, groups, 2), room, EXTENT, make_fake_stream())
    vectors = [row_major(element(p["dtype"]), cute.sym_int32()) for _ in "ABC"]
    room = row_major(wide, p["processors"], 3, DESCRIPTOR_WORDS)
    return plain, (*vectors, *tables, room, EXTENT, make_fake_stream())
