"""Device code of `reduce`: a kernel around NVIDIA's `row_reduce`, for rows of any length.

Names follow the algebra: `mX` is the whole tensor X, `gX` the part of it that one CTA works on, `tXgX` what one thread
reads of that, `tXrX` the same in registers, `cX` coordinates, `pX` a predicate over them.
"""

from typing import Any

import cutlass
import cutlass.cute as cute
import cutlass.utils as utils
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from kernels.upstream.examples import module

ELEMENTS = {"fp32": cutlass.Float32, "fp16": cutlass.Float16, "bf16": cutlass.BFloat16}
VECTOR_BITS = 128  # the widest load that one thread can ask for


class RowReduce:
    """The kernel: y = sum or max over the columns of x.

    `cluster` CTAs of `threads` share `threads / threads_per_row` rows.
    """

    def __init__(
        self,
        row_reduce: Any,
        operation: str,
        dtype: type[cutlass.Numeric],
        threads: int,
        threads_per_row: int,
        cluster: int,
        vectors: int,
        aligned: bool,
    ) -> None:
        self.row_reduce = row_reduce
        self.maximum = operation == "max"
        self.op = cute.ReductionOp.MAX if self.maximum else cute.ReductionOp.ADD
        self.identity = float("-inf") if self.maximum else 0.0
        self.dtype = dtype
        self.threads = threads
        self.threads_per_row = threads_per_row
        self.cluster = cluster
        self.vectors = vectors
        self.vector = VECTOR_BITS // dtype.width  # elements
        self.aligned = aligned
        self.kernel.set_name_prefix("reduce")  # what a profiler shows

    @cute.jit
    def __call__(self, mX: cute.Tensor, mY: cute.Tensor, stream: CUstream) -> None:
        """Launch on row-major mX (M, N), mY (M, 1) of `dtype`; extents are dynamic."""
        # Threads of a row hold neighbouring vectors, so that a warp reads 512 contiguous bytes at once; further vectors
        # of a thread lie a whole row of threads on. Rows of the tile are a thread mode of their own.
        rows = self.threads // self.threads_per_row
        width = self.threads_per_row * self.vector  # columns that the threads of a row read at once
        tv_layout = cute.make_layout(
            ((self.threads_per_row, rows), (self.vector, self.vectors)),
            stride=((self.vector * rows, 1), (rows, width * rows)),
        )
        tiler = (rows, width * self.vectors)
        self.kernel(mX, mY, tv_layout, tiler).launch(
            grid=[cute.ceil_div(mX.shape[0], rows), self.cluster, 1],
            block=[self.threads, 1, 1],
            cluster=[1, self.cluster, 1] if cutlass.const_expr(self.cluster > 1) else None,
            stream=stream,
        )

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mY: cute.Tensor, tv_layout: cute.Layout, tiler: cutlass.Constexpr) -> None:
        """Reduce every `cluster`-th tile of this CTA's rows, for all CTAs of the cluster."""
        thread, _, _ = cute.arch.thread_idx()
        block, rank, _ = cute.arch.block_idx()
        warps_per_row = max(self.threads_per_row // 32, 1)

        smem = utils.SmemAllocator()
        if cutlass.const_expr(self.cluster == 1):
            buffer = smem.allocate_tensor(
                cutlass.Float32, cute.make_layout((tiler[0], warps_per_row)), byte_alignment=4
            )
            mbar = None
        else:
            buffer = smem.allocate_tensor(
                cutlass.Float32, cute.make_layout((tiler[0], (warps_per_row, self.cluster))), byte_alignment=4
            )
            mbar = smem.allocate_array(cutlass.Int64, num_elems=1)
            if thread == 0:
                cute.arch.mbarrier_init(mbar, 1)
            cute.arch.mbarrier_init_fence()
            # No CTA may store into another before that one has its barrier; they meet while the rows are read.
            cute.arch.cluster_arrive_relaxed()

        partial = cute.make_rmem_tensor((self.vector,), cutlass.Float32)
        partial.fill(self.identity)
        row = block * tiler[0] + thread // self.threads_per_row
        if row < mX.shape[0]:
            self.read(mX, partial, tv_layout, tiler, block, rank, thread)

        if cutlass.const_expr(self.cluster > 1):
            cute.arch.cluster_wait()
        result = self.row_reduce(
            partial.load(), self.op, self.threads_per_row, buffer, mbar, self.cluster, cutlass.Float32(self.identity)
        )
        if thread % self.threads_per_row == 0 and rank == 0 and row < mX.shape[0]:
            mY[row, 0] = result.to(self.dtype)
        if cutlass.const_expr(self.cluster > 1):  # a CTA must not end while others store into it
            cute.arch.cluster_arrive_relaxed()
            cute.arch.cluster_wait()

    @cute.jit
    def read(
        self,
        mX: cute.Tensor,
        partial: cute.Tensor,
        tv_layout: cute.Layout,
        tiler: cutlass.Constexpr,
        block: cutlass.Int32,
        rank: cutlass.Int32,
        thread: cutlass.Int32,
    ) -> None:
        """Reduce elements of tiles rank, rank + cluster, … of this thread into `partial`."""
        tiles = cute.ceil_div(mX.shape[1], tiler[1])
        first = rank
        if cutlass.const_expr(self.aligned):
            whole = mX.shape[1] // tiler[1]
            for tile in cutlass.range(rank, whole, self.cluster, unroll=1):
                self.add(mX, partial, tv_layout, tiler, (block, tile), thread, VECTOR_BITS, False)
            first = whole + (rank - whole % self.cluster + self.cluster) % self.cluster
        for tile in cutlass.range(first, tiles, self.cluster, unroll=1):
            self.add(mX, partial, tv_layout, tiler, (block, tile), thread, self.dtype.width, True)

    @cute.jit
    def add(
        self,
        mX: cute.Tensor,
        partial: cute.Tensor,
        tv_layout: cute.Layout,
        tiler: cutlass.Constexpr,
        place: tuple,
        thread: cutlass.Int32,
        copy_bits: cutlass.Constexpr,
        predicated: cutlass.Constexpr,
    ) -> None:
        """Reduce one tile by copies of `copy_bits`, past the last column the identity."""
        atom = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), self.dtype, num_bits_per_copy=copy_bits)
        thread_copy = cute.make_tiled_copy(atom, tv_layout, tiler).get_slice(thread)
        tXgX = thread_copy.partition_S(cute.local_tile(mX, tiler, place))
        tXrX = cute.make_fragment_like(tXgX)
        if cutlass.const_expr(predicated):
            tXcX = thread_copy.partition_S(cute.local_tile(cute.make_identity_tensor(mX.shape), tiler, place))
            tXpX = cute.make_rmem_tensor(tXcX.shape, cutlass.Boolean)
            for i in cutlass.range_constexpr(cute.size(tXpX)):
                tXpX[i] = cute.elem_less(tXcX[i], mX.shape)
            tXrX.fill(self.dtype(self.identity))
            cute.copy(atom, tXgX, tXrX, pred=tXpX)
        else:
            cute.copy(atom, tXgX, tXrX)
        values = cute.make_tensor(tXrX.iterator, cute.make_layout((self.vector, self.vectors)))
        for i in cutlass.range_constexpr(self.vectors):
            for j in cutlass.range_constexpr(self.vector):
                value = values[j, i].to(cutlass.Float32)
                if cutlass.const_expr(self.maximum):
                    partial[j] = cute.arch.fmax(partial[j], value)
                else:
                    partial[j] = partial[j] + value


def program(
    operation: str, dtype: str, threads: int, threads_per_row: int, cluster: int, vectors: int, aligned: bool
) -> tuple[RowReduce, tuple]:
    """Return the host function and fake arguments for a build that serves every shape.

    `aligned` builds are for rows that are a multiple of 16 bytes long.
    """
    element = ELEMENTS[dtype]
    rows = cute.sym_int32()
    columns = cute.sym_int32(divisibility=VECTOR_BITS // element.width) if aligned else cute.sym_int32()
    x = make_fake_compact_tensor(element, (rows, columns), stride_order=(1, 0), assumed_align=16)
    y = make_fake_compact_tensor(element, (rows, 1), stride_order=(1, 0), assumed_align=element.width // 8)
    example = module("blackwell.reduce")
    kernel = RowReduce(example.row_reduce, operation, element, threads, threads_per_row, cluster, vectors, aligned)
    return kernel, (x, y, make_fake_stream())
