"""Device code of `tensor_products` in CuTe DSL, 128 x 256 per CTA."""

from typing import Any

import cutlass
import cutlass.cute as cute
import cutlass.utils.blackwell_helpers as sm100
from cuda.bindings.driver import CUstream
from cutlass.cute.nvgpu import cpasync, tcgen05
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream
from cutlass.utils import SmemAllocator

from kernels.tcgen05.fence import after_thread_sync, before_thread_sync
from kernels.tensor_products.cute.tile import COLUMNS, ROWS, STAGE_BYTES

THREADS = 128
TENSOR_MEMORY_COLUMNS = 512  # all: sums in the first half, scales behind them
SCALE_COLUMN, SCALE_COLUMNS = 256, 32  # more than both operands' scales take; all are the same
ONES = 0x7F7F7F7F  # four scales of 1 in UE8M0
# Kind of product -> element types of operands in memory, of operands as multiplied, and of sums.
KINDS = {
    "fp16": (cutlass.Float16, cutlass.Float16, cutlass.Float32),
    "tf32": (cutlass.Float32, cutlass.TFloat32, cutlass.Float32),
    "fp8": (cutlass.Float8E4M3FN, cutlass.Float8E4M3FN, cutlass.Float32),
    "int8": (cutlass.Int8, cutlass.Int8, cutlass.Int32),
    "mxf4": (cutlass.Uint8, cutlass.Float4E2M1FN, cutlass.Float32),
}


class Products:
    """Compile-time choices: the kind of product and how many CTAs make one."""

    def __init__(self, dtype: str, ctas: int) -> None:
        self.stored, self.element, self.sum = KINDS[dtype]
        self.scaled = dtype == "mxf4"
        self.ctas = ctas
        self.group = tcgen05.CtaGroup.TWO if ctas == 2 else tcgen05.CtaGroup.ONE
        self.tile = (ROWS * ctas, COLUMNS, STAGE_BYTES * 8 // self.element.width)

    def _mma(self) -> cute.TiledMma:
        if self.scaled:
            shape = (*self.tile[:2], 64)
            return cute.make_tiled_mma(tcgen05.MmaMXF4Op(shape, self.group, tcgen05.OperandSource.SMEM))
        k_major = tcgen05.OperandMajorMode.K
        return sm100.make_trivial_tiled_mma(
            self.element, self.element, k_major, k_major, self.sum, self.group, self.tile[:2]
        )

    @cute.jit
    def __call__(self, mA: cute.Tensor, mB: cute.Tensor, mD: cute.Tensor, stream: CUstream) -> None:
        """Launch on row-major mA (M, K), mB (N, K), mD (M, N)."""
        if cutlass.const_expr(self.scaled):
            mA, mB = (cute.recast_tensor(m, self.element) for m in (mA, mB))
        mma = self._mma()
        a_layout = sm100.make_smem_layout_a(mma, self.tile, self.element, 1)
        b_layout = sm100.make_smem_layout_b(mma, self.tile, self.element, 1)
        cluster = cute.tiled_divide(cute.make_layout((self.ctas, 1, 1)), (mma.thr_id.shape,))
        load = cpasync.CopyBulkTensorTileG2SOp(self.group)
        internal = self.element if self.element is not self.stored and not self.scaled else None
        atoms = []
        for make, tensor, layout in (
            (cute.nvgpu.make_tiled_tma_atom_A, mA, a_layout),
            (cute.nvgpu.make_tiled_tma_atom_B, mB, b_layout),
        ):
            one = cute.select(layout, mode=[0, 1, 2])
            atoms += make(load, tensor, one, self.tile, mma, cluster.shape, internal_type=internal)
        grid = (mD.shape[0] // ROWS, mD.shape[1] // COLUMNS, 1)
        self.kernel(mma, *atoms, mD, a_layout, b_layout, cluster).launch(
            grid=grid, block=[THREADS, 1, 1], cluster=[self.ctas, 1, 1], stream=stream
        )

    @cute.kernel
    def kernel(
        self,
        mma: cute.TiledMma,
        tma_a: cute.CopyAtom,
        mA: cute.Tensor,
        tma_b: cute.CopyAtom,
        mB: cute.Tensor,
        mD: cute.Tensor,
        a_layout: cute.ComposedLayout,
        b_layout: cute.ComposedLayout,
        cluster: cute.Layout,
    ) -> None:
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        bidx, bidy, _ = cute.arch.block_idx()
        rank = bidx % self.ctas
        leads = rank == 0  # of a pair this one expects the bytes and issues the products

        smem = SmemAllocator()
        mbarriers = smem.allocate_array(cutlass.Int64, 2)  # a stage is loaded; a stage has been multiplied
        holder = smem.allocate_array(cutlass.Int32, 1)
        sA = smem.allocate_tensor(self.element, a_layout.outer, 1024, a_layout.inner)
        sB = smem.allocate_tensor(self.element, b_layout.outer, 1024, b_layout.inner)
        loaded, multiplied = mbarriers, mbarriers + 1
        stage_bytes = (cute.cosize(a_layout.outer) + cute.cosize(b_layout.outer)) * self.element.width // 8 * self.ctas

        if warp == 0:
            cpasync.prefetch_descriptor(tma_a)
            cpasync.prefetch_descriptor(tma_b)
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(loaded, 1)
                cute.arch.mbarrier_init(multiplied, 1)
            cute.arch.mbarrier_init_fence()
        self.meet()
        if warp == 0:  # of a pair, both CTAs must run before one allocates
            cute.arch.alloc_tmem(TENSOR_MEMORY_COLUMNS, holder, is_two_cta=self.ctas == 2)
            cute.arch.relinquish_tmem_alloc_permit(is_two_cta=self.ctas == 2)
        before_thread_sync()
        cute.arch.sync_threads()
        after_thread_sync()
        tensor_memory = cute.arch.retrieve_tmem_ptr(self.sum, 16, holder)

        # Partitions: of A and B for the products and for TMA, of the sums in tensor memory and of D.
        part = mma.get_slice(rank)
        place = (bidx // self.ctas, bidy, None)
        gA = part.partition_A(cute.local_tile(mA, self.tile, place, proj=(1, None, 1)))
        gB = part.partition_B(cute.local_tile(mB, self.tile, place, proj=(None, 1, 1)))
        gD = part.partition_C(cute.local_tile(mD, self.tile, place, proj=(1, 1, None)))
        rA, rB = mma.make_fragment_A(sA), mma.make_fragment_B(sB)
        one_cta = cute.make_layout(1)
        tAsA, tAgA = cpasync.tma_partition(tma_a, 0, one_cta, cute.group_modes(sA, 0, 3), cute.group_modes(gA, 0, 3))
        tBsB, tBgB = cpasync.tma_partition(tma_b, 0, one_cta, cute.group_modes(sB, 0, 3), cute.group_modes(gB, 0, 3))
        sums = mma.make_fragment_C(mma.partition_shape_C(self.tile[:2]))
        sums = cute.make_tensor(tensor_memory, sums.layout)

        if cutlass.const_expr(self.scaled):
            self.set_scales(mma, tensor_memory)

        stages = cute.size(gA, mode=[3])
        if warp == 0:
            mma.set(tcgen05.Field.ACCUMULATE, False)
            for stage in cutlass.range(stages, unroll=1):
                if leads:
                    with cute.arch.elect_one():
                        cute.arch.mbarrier_arrive_and_expect_tx(loaded, stage_bytes)
                cute.copy(tma_a, tAgA[None, stage], tAsA[None, 0], tma_bar_ptr=loaded)
                cute.copy(tma_b, tBgB[None, stage], tBsB[None, 0], tma_bar_ptr=loaded)
                if leads:
                    cute.arch.mbarrier_wait(loaded, stage % 2)
                    for k in cutlass.range_constexpr(cute.size(rA, mode=[2])):
                        cute.gemm(mma, sums, rA[None, None, k, 0], rB[None, None, k, 0], sums)
                        mma.set(tcgen05.Field.ACCUMULATE, True)
                    with cute.arch.elect_one():
                        tcgen05.commit(multiplied, (1 << self.ctas) - 1 if self.ctas == 2 else None, self.group)
                cute.arch.mbarrier_wait(multiplied, stage % 2)
        cute.arch.sync_threads()
        cute.arch.mbarrier_wait(multiplied, (stages - 1) % 2)
        after_thread_sync()
        self.store(sums, gD)

        before_thread_sync()
        self.meet()
        after_thread_sync()
        if warp == 0:
            cute.arch.dealloc_tmem(tensor_memory, TENSOR_MEMORY_COLUMNS, is_two_cta=self.ctas == 2)

    @cute.jit
    def meet(self) -> None:
        """Every thread of the CTA, or of the pair, has come this far."""
        if cutlass.const_expr(self.ctas == 2):
            cute.arch.cluster_arrive()
            cute.arch.cluster_wait()
        else:
            cute.arch.sync_threads()

    @cute.jit
    def set_scales(self, mma: cute.TiledMma, tensor_memory: cute.Pointer) -> None:
        """Write scales of 1 for A and B, whose order does not matter."""
        column = cute.recast_ptr(tensor_memory, dtype=cutlass.Int32) + SCALE_COLUMN
        columns = cute.make_tensor(column, cute.make_layout((128, SCALE_COLUMNS), stride=(1 << 16, 1)))
        atom = cute.make_copy_atom(tcgen05.St32x32bOp(tcgen05.Repetition.x32), cutlass.Int32)
        part = tcgen05.make_tmem_copy(atom, columns).get_slice(cute.arch.thread_idx()[0])
        target = part.partition_D(columns)
        ones = cute.make_rmem_tensor(
            part.partition_S(cute.make_identity_tensor((128, SCALE_COLUMNS))).shape, cutlass.Int32
        )
        ones.fill(ONES)
        cute.copy(part, ones, target)
        cute.arch.fence_view_async_tmem_store()
        before_thread_sync()
        self.meet()
        after_thread_sync()
        scales = cute.recast_ptr(column, dtype=cutlass.Float8E8M0FNU)
        mma.set(tcgen05.Field.SFA, scales)
        mma.set(tcgen05.Field.SFB, scales)

    @cute.jit
    def store(self, sums: cute.Tensor, gD: cute.Tensor) -> None:
        """Store the CTA's 128 rows of sums to D, 64 columns at a time."""
        quarter = ((cute.size(sums, mode=[0, 0]), cute.size(sums, mode=[0, 1]) // 4),)
        from_sums, to_d = cute.zipped_divide(sums, quarter), cute.zipped_divide(gD, quarter)
        atom = cute.make_copy_atom(tcgen05.Ld32x32bOp(tcgen05.Repetition.x64), self.sum)
        copy = tcgen05.make_tmem_copy(atom, from_sums[None, 0])
        part = copy.get_slice(cute.arch.thread_idx()[0])
        source, target = part.partition_S(from_sums), part.partition_D(to_d)
        registers = cute.make_rmem_tensor(target[None, None, 0].shape, self.sum)
        for i in cutlass.range(cute.size(source, mode=[2]), unroll=1):
            cute.copy(copy, source[None, None, i], registers)
            cute.arch.fence_view_async_tmem_load()
            cute.autovec_copy(registers, target[None, None, i])


def program(dtype: str, ctas: int) -> tuple[Products, tuple[Any, ...]]:
    """Return the host function and fake arguments; all sizes are dynamic."""
    kernel = Products(dtype, ctas)
    m, n, k = cute.sym_int32(), cute.sym_int32(), cute.sym_int32(divisibility=STAGE_BYTES * 8 // kernel.stored.width)

    def row_major(element: type[cutlass.Numeric], *shape: Any) -> Any:
        return make_fake_compact_tensor(element, shape, stride_order=(1, 0), assumed_align=16)

    a, b, d = row_major(kernel.stored, m, k), row_major(kernel.stored, n, k), row_major(kernel.sum, m, n)
    return kernel, (a, b, d, make_fake_stream())
