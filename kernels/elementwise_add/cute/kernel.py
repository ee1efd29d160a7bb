"""Device code of `elementwise_add` in CuTe DSL: C = A + B over contiguous memory.

Names follow the algebra: `mX` is the whole tensor X, `gX` the tile of it that one CTA works on, `tXgX` the part of that
tile that one thread works on, `tXrX` the same part in registers, `cX` the coordinates of X, `pX` a predicate over it.
"""

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

ELEMENTS = {"fp32": cutlass.Float32, "fp16": cutlass.Float16, "bf16": cutlass.BFloat16, "int32": cutlass.Int32}
VECTOR_BITS = 128  # the widest load and store that one thread can ask for


class ElementwiseAdd:
    """C = A + B; `threads` per CTA, each adding `vectors` 128-bit vectors."""

    def __init__(self, dtype: type[cutlass.Numeric], threads: int, vectors: int) -> None:
        self.dtype = dtype
        self.threads = threads
        self.vectors = vectors
        self.vector = VECTOR_BITS // dtype.width  # elements
        self.kernel.set_name_prefix("elementwise_add")  # what a profiler shows

    @cute.jit
    def __call__(self, mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, stream: CUstream) -> None:
        """Launch on mA, mB, mC: (L,) of `dtype`, 16-byte aligned; L is dynamic."""
        # The TV layout says which element of a tile is value v of thread t. Neighbouring threads hold neighbouring
        # vectors, so that a warp reads 512 contiguous bytes at once; further vectors lie a whole row of threads on.
        tv_layout = cute.make_layout(
            (self.threads, (self.vector, self.vectors)), stride=(self.vector, (1, self.threads * self.vector))
        )
        tiler = (cute.size(tv_layout),)
        self.kernel(mA, mB, mC, tv_layout, tiler).launch(
            grid=[cute.ceil_div(cute.size(mC), tiler[0]), 1, 1], block=[self.threads, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(
        self, mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, tv_layout: cute.Layout, tiler: cutlass.Constexpr
    ) -> None:
        """One CTA adds one tile."""
        thread, _, _ = cute.arch.thread_idx()
        tile, _, _ = cute.arch.block_idx()

        # zipped_divide turns (L,) into ((Tile,), (Tiles,)): first the place within a tile, then which tile. Fixing the
        # second leaves this CTA's tile, (Tile,). The last tile may reach past the end of the tensor.
        gA = cute.zipped_divide(mA, tiler)[((None,), tile)]
        gB = cute.zipped_divide(mB, tiler)[((None,), tile)]
        gC = cute.zipped_divide(mC, tiler)[((None,), tile)]
        # Divided the same way, the identity tensor gives the coordinate that each element of the tile has in mC.
        cC = cute.zipped_divide(cute.make_identity_tensor(mC.shape), tiler)[((None,), tile)]

        if (tile + 1) * tiler[0] <= mC.shape[0]:
            # A whole tile: 128-bit copies and no questions asked.
            self.add(gA, gB, gC, cC, mC.shape, tv_layout, tiler, thread, VECTOR_BITS, False)
        else:
            # The ragged last tile: a vector may straddle the end, so copy element by element, each with its predicate.
            self.add(gA, gB, gC, cC, mC.shape, tv_layout, tiler, thread, self.dtype.width, True)

    @cute.jit
    def add(
        self,
        gA: cute.Tensor,
        gB: cute.Tensor,
        gC: cute.Tensor,
        cC: cute.Tensor,
        shape: cute.Shape,
        tv_layout: cute.Layout,
        tiler: cutlass.Constexpr,
        thread: cutlass.Int32,
        copy_bits: cutlass.Constexpr,
        predicated: cutlass.Constexpr,
    ) -> None:
        """Add this thread's part of the tile in copies of `copy_bits`; mC has `shape`."""
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=copy_bits)
        thread_copy = cute.make_tiled_copy(atom, tv_layout, tiler).get_slice(thread)

        # (Copy, Copies): the elements that one copy moves, and how many copies there are.
        tAgA = thread_copy.partition_S(gA)
        tBgB = thread_copy.partition_S(gB)
        tCgC = thread_copy.partition_D(gC)
        tArA = cute.make_fragment_like(tAgA)
        tBrB = cute.make_fragment_like(tBgB)
        tCrC = cute.make_fragment_like(tCgC)

        # All loads are under way before the first addition waits for one.
        if cutlass.const_expr(predicated):
            tCcC = thread_copy.partition_D(cC)
            tCpC = cute.make_rmem_tensor(tCcC.shape, cutlass.Boolean)
            for i in cutlass.range_constexpr(cute.size(tCpC)):
                tCpC[i] = cute.elem_less(tCcC[i], shape)
            cute.copy(atom, tAgA, tArA, pred=tCpC)
            cute.copy(atom, tBgB, tBrB, pred=tCpC)
            tCrC.store(tArA.load() + tBrB.load())
            cute.copy(atom, tCrC, tCgC, pred=tCpC)
        else:
            cute.copy(atom, tAgA, tArA)
            cute.copy(atom, tBgB, tBrB)
            tCrC.store(tArA.load() + tBrB.load())
            cute.copy(atom, tCrC, tCgC)


def program(dtype: str, threads: int, vectors: int) -> tuple[ElementwiseAdd, tuple]:
    """Return the host function and fake arguments for a build that serves every length."""
    element = ELEMENTS[dtype]
    length = cute.sym_int32()  # one symbol: the three tensors must agree
    tensors = [make_fake_compact_tensor(element, (length,), assumed_align=16) for _ in range(3)]
    return ElementwiseAdd(element, threads, vectors), (*tensors, make_fake_stream())
