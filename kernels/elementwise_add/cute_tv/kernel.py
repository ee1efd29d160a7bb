"""Device code of `elementwise_add` over a two-dimensional thread-value layout.

Names as in `kernels.elementwise_add.cute.kernel`, whose step from global memory to registers and back serves here too.
"""

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from kernels.elementwise_add.cute.kernel import ELEMENTS, VECTOR_BITS, ElementwiseAdd

THREADS = (4, 32)  # of a CTA, in rows and columns: a warp is a row of them
VALUE_ROWS = 4  # of each thread


class ElementwiseAddTV(ElementwiseAdd):
    """C = A + B over M x N matrices.

    `aligned` if rows start at multiples of 16 bytes; `exact` if the matrices are known to be of whole tiles.
    """

    def __init__(self, dtype: type[cutlass.Numeric], aligned: bool, exact: bool) -> None:
        super().__init__(dtype, THREADS[0] * THREADS[1], VALUE_ROWS)
        self.aligned = aligned
        self.exact = exact

    @cute.jit
    def __call__(self, mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, stream: CUstream) -> None:
        """Launch on row-major mA, mB, mC: (M, N) of `dtype`, static or dynamic."""
        # Rows of threads and rows of values, both row-major: thread (i, j) has the values of rows 4 i to 4 i + 3 in
        # the columns of vector j. make_layout_tv turns that around, from thread and value to the place in the tile.
        threads = cute.make_ordered_layout(THREADS, order=(1, 0))
        values = cute.make_ordered_layout((VALUE_ROWS, self.vector), order=(1, 0))
        tiler, tv_layout = cute.make_layout_tv(threads, values)
        across = cute.ceil_div(mC.shape[1], tiler[1])
        tiles = cute.ceil_div(mC.shape[0], tiler[0]) * across
        self.kernel(mA, mB, mC, across, tv_layout, tiler).launch(
            grid=[tiles, 1, 1], block=[self.threads, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(
        self,
        mA: cute.Tensor,
        mB: cute.Tensor,
        mC: cute.Tensor,
        across: cutlass.Int32,
        tv_layout: cute.Layout,
        tiler: cutlass.Constexpr,
    ) -> None:
        """One CTA adds one tile; neighbouring CTAs have neighbouring columns."""
        thread, _, _ = cute.arch.thread_idx()
        tile, _, _ = cute.arch.block_idx()
        place = (tile // across, tile % across)

        gA = cute.local_tile(mA, tiler, place)
        gB = cute.local_tile(mB, tiler, place)
        gC = cute.local_tile(mC, tiler, place)
        cC = cute.local_tile(cute.make_identity_tensor(mC.shape), tiler, place)

        if cutlass.const_expr(self.exact):
            self.add(gA, gB, gC, cC, mC.shape, tv_layout, tiler, thread, VECTOR_BITS, False)
        elif cutlass.const_expr(self.aligned):
            if (place[0] + 1) * tiler[0] <= mC.shape[0] and (place[1] + 1) * tiler[1] <= mC.shape[1]:
                self.add(gA, gB, gC, cC, mC.shape, tv_layout, tiler, thread, VECTOR_BITS, False)
            else:
                self.add(gA, gB, gC, cC, mC.shape, tv_layout, tiler, thread, self.dtype.width, True)
        else:
            self.add(gA, gB, gC, cC, mC.shape, tv_layout, tiler, thread, self.dtype.width, True)


def program(dtype: str, aligned: bool, rows: int, columns: int) -> tuple[ElementwiseAddTV, tuple]:
    """Return host function and fake arguments; `rows` and `columns` 0: for every shape."""
    element = ELEMENTS[dtype]
    vector = VECTOR_BITS // element.width
    shape = (rows, columns)
    if not rows:
        shape = (cute.sym_int32(), cute.sym_int32(divisibility=vector if aligned else 1))
    exact = rows > 0 and rows % (THREADS[0] * VALUE_ROWS) == 0 and columns % (THREADS[1] * vector) == 0
    tensors = [make_fake_compact_tensor(element, shape, stride_order=(1, 0), assumed_align=16) for _ in range(3)]
    return ElementwiseAddTV(element, aligned, exact), (*tensors, make_fake_stream())
