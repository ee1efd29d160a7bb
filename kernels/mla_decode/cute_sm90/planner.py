"""The schedule of `cute_sm90` made on the card, from lengths that are there: the plan of split_kv/plan.py, in CuTe DSL.

One CTA writes what the host's `make_schedule` would write, entry for entry, into tables whose sizes depend on batch,
rows and the card alone; behind the schedule stand entries that ask for nothing. All costs are whole numbers, quarters
of a unit times the workers, as on the host, so both choose the same plan. In this order:

    gather    requests that have keys, their units, and the running sum of what they cost
    walk      each warp tries one capacity (there are `item + 5` to try); it goes from worker to worker, its lanes
              look for the last request that still fits
    chunks    each warp takes every 16th chunk size: lanes count pieces; if the least cost says that this size may win,
              the pieces are counted by length, and dealt out, the longest first, to the least loaded worker, which
              one redux of (load, worker) over the warp finds
    write     the pieces of the cheapest plan in the order of workers, row blocks and assignment; offsets; merges

Shared memory per CTA: 16 x 2,049 counts of lengths 131,136 bytes, assignments 2 x 16 x 1,536 bytes, the rest 45 KB.
"""

from __future__ import annotations

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from cutlass import Int32, Uint8
from cutlass.cutlass_dsl import select_
from cutlass.utils import SmemAllocator

from kernels.mla_decode.cute_sm90.layout import PAGE
from kernels.mla_decode.cute_sm90.plan_layout import (
    FAR,
    MOST_PIECES,
    MOST_REQUESTS,
    MOST_UNITS,
    MOST_WORKERS,
    SORTED,
    THREADS,
    WARPS,
)
from kernels.mla_decode.cute_sm90.search import Search
from kernels.mla_decode.cute_sm90.tables import Tables
from kernels.mla_decode.split_kv.plan import QUARTERS, Prices


class Planner(Search, Tables):
    """Compile-time choices: `prices` in units of `pages` pages each, and `blocks`, the row blocks of a worker."""

    def __init__(self, prices: Prices, pages: int, blocks: int):
        self.item, self.merge, self.partial = prices.quarters
        self.pages = pages
        self.blocks = blocks
        assert self.item + QUARTERS + 1 <= WARPS
        assert prices.most_pieces(MOST_REQUESTS, MOST_WORKERS) <= MOST_PIECES

    @cute.jit
    def __call__(
        self,
        lengths: cute.Tensor,  # [batch] int32
        items: cute.Tensor,  # [items, 8] int32, room for every plan and one row more
        offsets: cute.Tensor,  # [workers x lanes + 1] int32
        merges: cute.Tensor,  # [batch, 4] int32
        lanes: Int32,  # row blocks over `blocks`
        stream: cuda.CUstream,
    ):
        @cute.struct
        class SharedStorage:
            counts: cute.struct.Align[cute.struct.MemRange[Int32, WARPS * (MOST_UNITS + 1)], 16]
            assigned: cute.struct.Align[cute.struct.MemRange[Uint8, 2 * WARPS * MOST_PIECES], 16]
            keys: cute.struct.MemRange[Int32, SORTED]
            units: cute.struct.MemRange[Int32, MOST_REQUESTS]
            request: cute.struct.MemRange[Int32, MOST_REQUESTS]
            before: cute.struct.MemRange[Int32, MOST_REQUESTS + 32]
            first: cute.struct.MemRange[Int32, MOST_REQUESTS + 1]
            partials: cute.struct.MemRange[Int32, MOST_REQUESTS]
            starts: cute.struct.MemRange[Int32, WARPS * (MOST_WORKERS + 1)]
            worker_first: cute.struct.MemRange[Int32, MOST_WORKERS + 1]
            sums: cute.struct.MemRange[Int32, 2 * WARPS]
            found: cute.struct.MemRange[Int32, 4 * WARPS]

        self.storage = SharedStorage
        self.plan_kernel(lengths, items, offsets, merges, lanes).launch(
            grid=[1, 1, 1], block=[THREADS, 1, 1], stream=stream
        )
        # The kernel that reads the tables is launched early and reads them before it waits for the kernel before it.
        # This one, launched as late as any, lies between: when it begins the tables are written.
        self.between_kernel().launch(grid=[1, 1, 1], block=[32, 1, 1], stream=stream)

    @cute.kernel
    def between_kernel(self):
        pass

    @cute.kernel
    def plan_kernel(
        self, lengths: cute.Tensor, items: cute.Tensor, offsets: cute.Tensor, merges: cute.Tensor, lanes: Int32
    ):
        me = cute.arch.thread_idx()[0], cute.arch.make_warp_uniform(cute.arch.warp_idx()), cute.arch.lane_idx()
        storage = SmemAllocator().allocate(self.storage)

        def view(field, *shape):
            return field.get_tensor(cute.make_ordered_layout(shape, order=tuple(reversed(range(len(shape))))))

        units, request = view(storage.units, MOST_REQUESTS), view(storage.request, MOST_REQUESTS)
        before, sums = view(storage.before, MOST_REQUESTS + 32), view(storage.sums, 2, WARPS)
        starts = view(storage.starts, WARPS, MOST_WORKERS + 1)
        found = view(storage.found, 4, WARPS)
        counts, assigned = view(storage.counts, WARPS, MOST_UNITS + 1), view(storage.assigned, 2, WARPS, MOST_PIECES)
        first, partials = view(storage.first, MOST_REQUESTS + 1), view(storage.partials, MOST_REQUESTS)
        worker_first, keys = view(storage.worker_first, MOST_WORKERS + 1), view(storage.keys, SORTED)
        places = cute.make_tensor(counts.iterator, cute.make_layout(MOST_PIECES))  # once nothing is counted any more
        workers = (offsets.shape[0] - 1) // lanes

        count, longest = self.gather(lengths, units, request, before, sums, me)
        self.walk(before, count, workers, starts, found, me)
        cute.arch.sync_threads()
        start = starts[self.least_capacity(found, me), None]
        walk_cost = self.cost_of_walk(start, before, workers, me)
        cute.arch.sync_threads()
        self.chunks(units, before, count, longest, workers, walk_cost, counts, assigned, found, me)
        cute.arch.sync_threads()
        winner, chunk, side = self.cheapest(found, walk_cost, me)

        walked = winner < 0
        tables = (units, request, first, partials, worker_first)
        if walked:
            self.order_walk(start, first, worker_first, keys, count, workers, sums, me)
        pieces = self.number(units, request, first, partials, merges, lengths, sums, count, chunk, walked, me)
        if not walked:
            self.order_chunks(
                *(units, first, worker_first, keys, places, assigned[side, winner, None]),
                *(pieces, count, workers, chunk, sums, me),
            )
        for rank in cutlass.range(me[0], pieces, THREADS, unroll=1):
            piece, place, worker = rank, rank, Int32(0)
            if walked:
                worker = self.last_begun(worker_first, workers, rank)
            else:
                piece = keys[rank] & 0xFFFF
                worker = self.dealt(assigned[side, winner, None], rank, workers)
                place = worker_first[worker] + places[rank]
            self.write(piece, place, worker, chunk, walked, keys, start, tables, count, lengths, items, lanes)
        for place in cutlass.range(me[0], workers * lanes + 1, THREADS, unroll=1):
            worker = place // lanes
            begin = worker_first[worker]
            following = worker_first[cutlass.min(worker + 1, workers)]
            offsets[place] = begin * lanes + (place - worker * lanes) * (following - begin)

    @cute.jit
    def gather(self, lengths, units, request, before, sums, me) -> tuple[Int32, Int32]:
        """Requests that have keys, in order; `before`: what those before it cost. How many, and the longest's units."""
        thread, warp, lane = me
        unit = self.pages * PAGE
        mine = cute.make_rmem_tensor((2,), Int32)
        some = cute.make_rmem_tensor((2,), Int32)
        for n in cutlass.range_constexpr(2):
            mine[n] = Int32(0)
            if 2 * thread + n < lengths.shape[0]:
                mine[n] = (lengths[2 * thread + n] + (unit - 1)) // unit
            some[n] = cutlass.min(mine[n], 1)
        place, count = self.scan(some[0] + some[1], sums, 0, me)
        cost = QUARTERS * mine[0] + self.item * some[0]
        begin, total = self.scan(cost + QUARTERS * mine[1] + self.item * some[1], sums, 1, me)
        for n in cutlass.range_constexpr(2):
            if mine[n] > 0:
                units[place] = mine[n]
                request[place] = 2 * thread + n
                before[place] = begin
            place = place + some[n]
            begin = begin + cost
        if thread < 32:
            before[count + thread] = Int32(select_(thread == 0, total, Int32(FAR)))
        top = cute.arch.warp_redux_sync(cutlass.max(mine[0], mine[1]), "max")
        if lane == 0:
            sums[0, warp] = top
        cute.arch.sync_threads()
        longest = cute.arch.warp_redux_sync(sums[0, lane % WARPS], "max")
        return count, longest
