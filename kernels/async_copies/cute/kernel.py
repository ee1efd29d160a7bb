"""Device code of `async_copies` in CuTe DSL: tiles of 32 x 64 floats."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream
from cutlass.utils import SmemAllocator, TensorMapManager, TensorMapUpdateMode

from kernels.async_copies.cute.tile import COLUMNS, ROWS

THREADS = 128
TILE = (ROWS, COLUMNS)
VECTOR = 4  # elements of 16 bytes
DESCRIPTOR_WORDS = 16  # of 8 bytes


def tile_layout() -> cute.Layout:
    """Row-major, in shared memory."""
    return cute.make_layout(TILE, stride=(COLUMNS, 1))


class CopyThroughL2:
    """Every thread copies pieces of 16 bytes by `cp.async`, cached in L2 only."""

    @cute.jit
    def __call__(self, mX: cute.Tensor, mY: cute.Tensor, stream: CUstream) -> None:
        """Launch on mX and mY (rows, columns), row-major."""
        grid = (mX.shape[0] // ROWS, mX.shape[1] // COLUMNS, 1)
        self.kernel(mX, mY).launch(grid=grid, block=[THREADS, 1, 1], stream=stream)

    @cute.kernel
    def kernel(self, mX: cute.Tensor, mY: cute.Tensor) -> None:
        tidx = cute.arch.thread_idx()[0]
        bidx, bidy, _ = cute.arch.block_idx()
        gX, gY = (cute.local_tile(m, TILE, (bidx, bidy)) for m in (mX, mY))
        sX = SmemAllocator().allocate_tensor(cutlass.Float32, tile_layout(), 128)
        threads = cute.make_layout((THREADS * VECTOR // COLUMNS, COLUMNS // VECTOR), stride=(COLUMNS // VECTOR, 1))
        load = cute.make_copy_atom(
            cpasync.CopyG2SOp(cache_mode=cpasync.LoadCacheMode.GLOBAL), cutlass.Float32, num_bits_per_copy=128
        )
        tiled = cute.make_tiled_copy_tv(load, threads, cute.make_layout((1, VECTOR)))
        part = tiled.get_slice(tidx)
        cute.copy(tiled, part.partition_S(gX), part.partition_D(sX))
        cute.arch.cp_async_commit_group()
        cute.arch.cp_async_wait_group(0)
        cute.arch.sync_threads()
        cute.autovec_copy(part.partition_S(sX), part.partition_D(gY))


class CopyByDescriptor:
    """TMA loads, each through a descriptor of the CTA's own.

    The one that the host made is for all of x. Each CTA copies it to global memory, points it to its own rows, orders
    that before its use by TMA with a pair of proxy fences, and loads the tile of row 0 of what it now describes.
    """

    @cute.jit
    def __call__(self, mX: cute.Tensor, mY: cute.Tensor, mRoom: cute.Tensor, stream: CUstream) -> None:
        """Launch on row-major mX and mY (rows, columns); mRoom (CTAs, 16) is for descriptors."""
        load, xTma = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileG2SOp(), mX, tile_layout(), TILE)
        grid = (mX.shape[0] // ROWS, mX.shape[1] // COLUMNS, 1)
        self.kernel(load, xTma, mX, mY, mRoom).launch(grid=grid, block=[THREADS, 1, 1], stream=stream)

    @cute.kernel
    def kernel(
        self, load: cute.CopyAtom, xTma: cute.Tensor, mX: cute.Tensor, mY: cute.Tensor, mRoom: cute.Tensor
    ) -> None:
        tidx = cute.arch.thread_idx()[0]
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        bidx, bidy, _ = cute.arch.block_idx()
        smem = SmemAllocator()
        loaded = smem.allocate_array(cutlass.Int64, 1)
        sX = smem.allocate_tensor(cutlass.Float32, tile_layout(), 128)
        gY = cute.local_tile(mY, TILE, (bidx, bidy))
        place = bidx + bidy * cute.arch.grid_dim()[0]
        maps = TensorMapManager(TensorMapUpdateMode.GMEM, DESCRIPTOR_WORDS * 8)
        room = mRoom.iterator + place * DESCRIPTOR_WORDS
        own = maps.get_tensormap_ptr(room)
        if warp == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_init(loaded, 1)
            cute.arch.mbarrier_init_fence()
            rows = cute.domain_offset((bidx * ROWS, 0), mX)
            rows = cute.make_tensor(rows.iterator, cute.make_layout((ROWS, mX.shape[1]), stride=mX.stride))
            with cute.arch.elect_one():
                cpasync.copy_tensormap(load, own)
            cute.arch.sync_warp()
            maps.fence_tensormap_initialization()
            cpasync.update_tma_descriptor(load, rows, own)
            cute.arch.sync_warp()
            cpasync.fence_tma_desc_release()
            cpasync.fence_tma_desc_acquire(own)
            generic = maps.get_tensormap_ptr(room, cute.AddressSpace.generic)
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(loaded, ROWS * COLUMNS * 4)
            gX = cute.local_tile(xTma, TILE, (0, bidy))
            source, target = cute.group_modes(gX, 0, 2), cute.group_modes(sX, 0, 2)
            to, of = cpasync.tma_partition(load, 0, cute.make_layout(1), target, source)
            cute.copy(load, of, to, tma_bar_ptr=loaded, tma_desc_ptr=generic)
        cute.arch.sync_threads()
        cute.arch.mbarrier_wait(loaded, 0)
        store = cute.make_copy_atom(cute.nvgpu.CopyUniversalOp(), cutlass.Float32, num_bits_per_copy=128)
        threads = cute.make_layout((THREADS * VECTOR // COLUMNS, COLUMNS // VECTOR), stride=(COLUMNS // VECTOR, 1))
        part = cute.make_tiled_copy_tv(store, threads, cute.make_layout((1, VECTOR))).get_slice(tidx)
        cute.autovec_copy(part.partition_S(sX), part.partition_D(gY))


def program(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return the host function of class `name` and fake arguments; sizes are dynamic."""
    rows, columns = cute.sym_int32(divisibility=ROWS), cute.sym_int32(divisibility=COLUMNS)

    def row_major(element: type[cutlass.Numeric], *shape: Any) -> Any:
        return make_fake_compact_tensor(element, shape, stride_order=(1, 0), assumed_align=16)

    x, y = (row_major(cutlass.Float32, rows, columns) for _ in "xy")
    if name == "CopyThroughL2":
        return CopyThroughL2(), (x, y, make_fake_stream())
    return CopyByDescriptor(), (x, y, row_major(cutlass.Int64, cute.sym_int32(), DESCRIPTOR_WORDS), make_fake_stream())
