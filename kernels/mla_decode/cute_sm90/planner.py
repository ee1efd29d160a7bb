"""Make the schedule of `cute_sm90` on the GPU: the plan of split_kv/plan.py in CuTe DSL.

One CTA writes what the host's `make_schedule` would write, entry for entry, into tables whose sizes depend on batch,
rows and GPU alone; behind the schedule stand entries that ask for nothing. All costs are whole numbers, quarters of a
unit times the workers, as on the host, so both choose the same plan. In this order:

    gather    requests that have keys, their units, and the running sum of their costs
    walk      each warp tries one capacity (there are `item + 5` to try); it goes from worker to worker, its lanes
              look for the last request that still fits
    chunks    each warp takes every 16th chunk size: lanes count splits; if the least cost says that this size may win,
              the splits are counted by length, and dealt out, the longest first, to the least loaded worker, which
              one redux of (load, worker) over the warp finds
    write     the splits of the cheapest plan in the order of workers, row blocks and assignment; offsets; merges

Shared memory per CTA: 16 x 2,049 counts of lengths 131,136 bytes, assignments 2 x 16 x 1,536 bytes, the rest 45 KB.
"""

from __future__ import annotations

from typing import NamedTuple

import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Uint8, Uint32
from cutlass.cutlass_dsl import select_
from cutlass.utils import SmemAllocator

from kernels.mla_decode.cute_sm90.layout import (
    INT32_MAX,
    MAX_REQUESTS,
    MAX_SPLITS,
    MAX_UNITS,
    MAX_WORKERS,
    PAGE,
    PLAN_THREADS,
    PLAN_WARPS,
    SORT_KEYS,
    UNIT_BITS,
    UNIT_MASK,
    WORKERS_PER_LANE,
)
from kernels.mla_decode.split_kv.plan import QUARTERS, Prices


class Shared(NamedTuple):
    """Tables in shared memory; a [request] is one that has keys, in order."""

    sCounts: cute.Tensor  # [warp, length] splits of a length
    sAssigned: cute.Tensor  # [side, warp, rank] uint8: a split's worker
    sKeys: cute.Tensor  # [2048] splits by length; of a walk the workers that begin inside a request
    sUnits: cute.Tensor  # [request] length in units
    sRequest: cute.Tensor  # [request] its number
    sCostBefore: cute.Tensor  # [request] cost of those before it; 32 entries more than requests
    sFirst: cute.Tensor  # [request] its first split
    sPartial: cute.Tensor  # [request] its first partial result, -1 if it is whole
    sStarts: cute.Tensor  # [warp, worker] where a walk's workers begin
    sWorkerFirst: cute.Tensor  # [worker] its first split
    sSums: cute.Tensor  # [2, 16] of `scan`
    sBest: cute.Tensor  # [4, warp] a walk's missing room; then cost, size, cuts and side of a warp's best chunks

    @property
    def sPlaces(self) -> cute.Tensor:
        """[rank] a split's place with its worker; in sCounts, once nothing is counted any more."""
        return cute.make_tensor(self.sCounts.iterator, cute.make_layout(MAX_SPLITS))


class Thread(NamedTuple):
    """Which thread runs."""

    thread: Int32  # in the CTA
    warp: Int32
    lane: Int32


class Planner:
    """Plan in units of `pages` pages for workers that take `blocks` row blocks."""

    def __init__(self, prices: Prices, pages: int, blocks: int):
        self.item, self.merge, self.partial = prices.quarters
        self.pages = pages
        self.blocks = blocks
        assert self.item + QUARTERS + 1 <= PLAN_WARPS
        assert prices.max_splits(MAX_REQUESTS, MAX_WORKERS) <= MAX_SPLITS

    @cute.jit
    def __call__(
        self,
        mLengths: cute.Tensor,  # [batch] int32
        mWork: cute.Tensor,  # [work tiles, 8] int32, room for every plan and one row more
        mWorkOffsets: cute.Tensor,  # [workers x lanes + 1] int32
        mMerges: cute.Tensor,  # [batch, 4] int32
        lanes: Int32,  # row blocks over `blocks`
        stream: cuda.CUstream,
    ):
        self.plan_kernel(mLengths, mWork, mWorkOffsets, mMerges, lanes).launch(
            grid=[1, 1, 1], block=[PLAN_THREADS, 1, 1], stream=stream
        )
        # The kernel that reads the tables is launched early and reads them before it waits for the kernel before it.
        # This one, launched as late as any, lies between: when it begins the tables are written.
        self.between_kernel().launch(grid=[1, 1, 1], block=[32, 1, 1], stream=stream)

    @cute.kernel
    def between_kernel(self):
        pass

    @cute.kernel
    def plan_kernel(
        self, mLengths: cute.Tensor, mWork: cute.Tensor, mWorkOffsets: cute.Tensor, mMerges: cute.Tensor, lanes: Int32
    ):
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        me = Thread(cute.arch.thread_idx()[0], warp, cute.arch.lane_idx())
        smem = SmemAllocator()

        def table(*shape: int, element: type[cutlass.Numeric] = Int32, alignment: int = 4) -> cute.Tensor:
            rows_first = cute.make_ordered_layout(shape, order=tuple(reversed(range(len(shape)))))
            return smem.allocate_tensor(element, rows_first, byte_alignment=alignment)

        s = Shared(
            sCounts=table(PLAN_WARPS, MAX_UNITS + 1, alignment=16),
            sAssigned=table(2, PLAN_WARPS, MAX_SPLITS, element=Uint8, alignment=16),
            sKeys=table(SORT_KEYS),
            sUnits=table(MAX_REQUESTS),
            sRequest=table(MAX_REQUESTS),
            sCostBefore=table(MAX_REQUESTS + 32),
            sFirst=table(MAX_REQUESTS + 1),
            sPartial=table(MAX_REQUESTS),
            sStarts=table(PLAN_WARPS, MAX_WORKERS + 1),
            sWorkerFirst=table(MAX_WORKERS + 1),
            sSums=table(2, PLAN_WARPS),
            sBest=table(4, PLAN_WARPS),
        )
        workers = (mWorkOffsets.shape[0] - 1) // lanes

        count, longest = self.gather(mLengths, s, me)
        self.walk(s, count, workers, me)
        cute.arch.sync_threads()
        start = s.sStarts[self.least_capacity(s, me), None]
        walk_cost = self.cost_of_walk(s, start, workers, me)
        cute.arch.sync_threads()
        self.chunks(s, count, longest, workers, walk_cost, me)
        cute.arch.sync_threads()
        winner, chunk, side = self.cheapest(s, walk_cost, me)

        walked = winner < 0
        if walked:
            self.order_walk(s, start, count, workers, me)
        splits = self.number(s, mMerges, mLengths, count, chunk, walked, me)
        if not walked:
            self.order_chunks(s, s.sAssigned[side, winner, None], splits, count, workers, me)
        for rank in cutlass.range(me.thread, splits, PLAN_THREADS, unroll=1):
            split, place, worker = rank, rank, Int32(0)
            if walked:
                worker = self.last_begun(s.sWorkerFirst, workers, rank)
            else:
                split = s.sKeys[rank] & 0xFFFF
                worker = self.dealt(s.sAssigned[side, winner, None], rank, workers)
                place = s.sWorkerFirst[worker] + s.sPlaces[rank]
            self.write(s, split, place, worker, walked, start, count, mLengths, mWork, lanes)
        for place in cutlass.range(me.thread, workers * lanes + 1, PLAN_THREADS, unroll=1):
            worker = place // lanes
            begin = s.sWorkerFirst[worker]
            following = s.sWorkerFirst[cutlass.min(worker + 1, workers)]
            mWorkOffsets[place] = begin * lanes + (place - worker * lanes) * (following - begin)

    # -- gather, and the cheapest plan: each method is a warp's but `gather` -----------------------------------------

    @cute.jit
    def gather(self, mLengths, s, me) -> tuple[Int32, Int32]:
        """List requests that have keys; return how many, and the units of the longest."""
        thread, warp, lane = me
        unit = self.pages * PAGE
        mine = cute.make_rmem_tensor((2,), Int32)
        some = cute.make_rmem_tensor((2,), Int32)
        for n in cutlass.range_constexpr(2):
            mine[n] = Int32(0)
            if 2 * thread + n < mLengths.shape[0]:
                mine[n] = (mLengths[2 * thread + n] + (unit - 1)) // unit
            some[n] = cutlass.min(mine[n], 1)
        place, count = self.scan(some[0] + some[1], s.sSums, 0, me)
        cost = QUARTERS * mine[0] + self.item * some[0]
        begin, total = self.scan(cost + QUARTERS * mine[1] + self.item * some[1], s.sSums, 1, me)
        for n in cutlass.range_constexpr(2):
            if mine[n] > 0:
                s.sUnits[place] = mine[n]
                s.sRequest[place] = 2 * thread + n
                s.sCostBefore[place] = begin
            place = place + some[n]
            begin = begin + cost
        if thread < 32:
            s.sCostBefore[count + thread] = Int32(select_(thread == 0, total, Int32(INT32_MAX)))
        top = cute.arch.warp_redux_sync(cutlass.max(mine[0], mine[1]), "max")
        if lane == 0:
            s.sSums[0, warp] = top
        cute.arch.sync_threads()
        longest = cute.arch.warp_redux_sync(s.sSums[0, lane % PLAN_WARPS], "max")
        return count, longest

    @cute.jit
    def walk(self, s, count, workers, me) -> None:
        """Fill workers up to `warp` quarters of a unit above the mean load.

        sStarts: where each worker begins, its request and in the lower bits how many units of that are done. sBest: 0
        if there was room for all.
        """
        _, warp, lane = me
        total = s.sCostBefore[count]
        capacity = total // workers + warp
        request, begin, start = Int32(0), Int32(0), Int32(0)  # begin: what costs up to here
        if warp <= self.item + QUARTERS:
            for worker in cutlass.range(workers, unroll=1):
                if lane == 0:
                    s.sStarts[warp, worker] = start
                target = begin + capacity
                fits, reached = Int32(32), begin
                while fits == 32:  # the lanes look at this request and the next 31; this one fits, or part of it
                    end = s.sCostBefore[request + lane]
                    fits = cute.arch.popc(cute.arch.vote_ballot_sync(end <= target))
                    reached = cute.arch.shuffle_sync(end, fits - 1)
                    request = request + fits - 1
                taken = cutlass.max(target - cutlass.max(reached, begin) - self.item, 0) & -QUARTERS
                begin = cutlass.min(cutlass.max(reached, begin) + taken, total)
                start = (request << UNIT_BITS) + ((begin - reached) >> 2)
            if lane == 0:
                s.sStarts[warp, workers] = start
        if lane == 0:
            s.sBest[0, warp] = begin - total

    @cute.jit
    def least_capacity(self, s, me) -> Int32:
        """Return the first walk that had room for all."""
        able = cute.arch.vote_ballot_sync(s.sBest[0, me.lane % PLAN_WARPS] == 0)
        return cute.arch.popc((able & -able) - 1)

    @cute.jit
    def cost_of_walk(self, s, start, workers, me) -> Int32:
        """Return the cost of a walk; every warp computes it for itself."""
        load, partials = Int32(0), Int32(0)
        for worker in cutlass.range(me.lane, workers, 32, unroll=1):
            this, next_start = start[worker], start[worker + 1]
            cut = cutlass.min(next_start & UNIT_MASK, 1)
            begin = s.sCostBefore[this >> UNIT_BITS] + QUARTERS * (this & UNIT_MASK)
            end = s.sCostBefore[next_start >> UNIT_BITS] + QUARTERS * (next_start & UNIT_MASK)
            load = cutlass.max(load, end - begin + self.item * cut)
            # A cut is one split more, and one more still if it is the first of its request.
            again = ((this & UNIT_MASK) > 0) & ((this >> UNIT_BITS) == (next_start >> UNIT_BITS))
            partials = partials + cut + Int32(select_(again, Int32(0), cut))
        load = cute.arch.warp_redux_sync(load, "max")
        return self.cost(load, cute.arch.warp_redux_sync(partials, "add"), workers)

    @cute.jit
    def chunks(self, s, count, longest, workers, walk_cost, me) -> None:
        """Try sizes that cut the longest request into warp + 1 + 16 i splits."""
        _, warp, lane = me
        total = s.sCostBefore[count]
        best, best_chunk, best_cuts, best_side = Int32(INT32_MAX), Int32(1), Int32(0), Int32(0)
        side = Int32(0)
        for cut in cutlass.range(warp + 1, cutlass.min(longest, workers) + 1, PLAN_WARPS, unroll=1):
            chunk = (longest + cut - 1) // cut
            known = Int32(0)  # the size of one split less: the same size is tried once
            if cut > 1:
                known = (longest + cut - 2) // (cut - 1)
            if chunk != known:
                inverse = 1.0 / Float32(chunk)
                splits, partials = Int32(0), Int32(0)
                for index in cutlass.range(lane, count, 32, unroll=1):
                    mine = self.divide(s.sUnits[index] + chunk - 1, inverse)
                    splits = splits + mine
                    partials = partials + Int32(select_(mine > 1, mine, Int32(0)))
                splits = cute.arch.warp_redux_sync(splits, "add")
                partials = cute.arch.warp_redux_sync(partials, "add")
                least = total + self.item * (splits - count) + self.partial * partials
                least = least + Int32(select_(partials > 0, workers * self.merge, Int32(0)))
                if (least <= walk_cost) & (least < best):
                    self.count_sizes(s, count, chunk, s.sCounts[warp, None], lane)
                    load = self.deal(s.sCounts[warp, None], s.sAssigned[side, warp, None], chunk, workers, lane)
                    cost = self.cost(load, partials, workers)
                    if cost < best:
                        best, best_chunk, best_cuts, best_side = cost, chunk, cut, side
                        side = 1 - side
        if lane == 0:
            s.sBest[0, warp] = best
            s.sBest[1, warp] = best_chunk
            s.sBest[2, warp] = best_cuts
            s.sBest[3, warp] = best_side

    @cute.jit
    def count_sizes(self, s, count, chunk, counts, lane) -> None:
        """Count the splits of each length, if no split is longer than `chunk`."""
        for length in cutlass.range(lane, chunk + 1, 32, unroll=1):
            counts[length] = Int32(0)
        cute.arch.sync_warp()
        inverse = 1.0 / Float32(chunk)
        for index in cutlass.range(lane, count, 32, unroll=1):
            splits = self.divide(s.sUnits[index] + chunk - 1, inverse)
            length = self.divide(s.sUnits[index], 1.0 / Float32(splits))
            longer = s.sUnits[index] - length * splits
            cute.arch.atomic_add(self.at(counts, length), splits - longer, scope="cta")
            if longer > 0:
                cute.arch.atomic_add(self.at(counts, length + 1), longer, scope="cta")
        cute.arch.sync_warp()

    @cute.jit
    def deal(self, counts, dealt, chunk, workers, lane) -> Int32:
        """Deal splits, the longest first, to the least loaded workers; return the largest load.

        A thread has the workers lane, lane + 32, ..., each as its load and its number in one word. The first split of
        each worker is not written to `dealt`.
        """
        loads = cute.make_rmem_tensor((WORKERS_PER_LANE,), Uint32)
        for n in cutlass.range_constexpr(WORKERS_PER_LANE):
            loads[n] = Uint32(lane + 32 * n)
            if lane + 32 * n >= workers:
                loads[n] = Uint32(0xFFFFFFFF)
        rank, top = Int32(0), chunk
        while top > 0:
            mine = Int32(0)
            if top - lane > 0:
                mine = counts[top - lane]
            there = cute.arch.vote_ballot_sync(mine > 0)
            while there != 0:
                source = cute.arch.popc((there & -there) - 1)
                there = there & (there - 1)
                number = cute.arch.shuffle_sync(mine, source)
                more = Uint32(QUARTERS * (top - source) + self.item) << 8
                end = rank + number
                for n in cutlass.range_constexpr(WORKERS_PER_LANE):  # first those without any
                    worker = lane + 32 * n
                    if (worker >= rank) & (worker < end) & (worker < workers):
                        loads[n] = loads[n] + more
                for place in cutlass.range(cutlass.max(rank, workers), end, unroll=1):
                    least = loads[0]
                    for n in cutlass.range_constexpr(1, WORKERS_PER_LANE):
                        least = cutlass.min(least, loads[n])
                    least = cute.arch.warp_redux_sync(least, "umin")
                    for n in cutlass.range_constexpr(WORKERS_PER_LANE):
                        loads[n] = loads[n] + Uint32(select_(loads[n] == least, more, Uint32(0)))
                    if lane == 0:
                        dealt[place] = Uint8(least & 255)
                rank = end
            top = top - 32
        largest = Uint32(0)
        for n in cutlass.range_constexpr(WORKERS_PER_LANE):
            if lane + 32 * n < workers:
                largest = cutlass.max(largest, loads[n] >> 8)
        return Int32(cute.arch.warp_redux_sync(largest, "umax"))

    @cute.jit
    def cheapest(self, s, walk_cost, me) -> tuple[Int32, Int32, Int32]:
        """Return the warp with the cheapest chunks, their size, and the side of its assignments.

        Of equals the warp with the larger chunks; -1, and nothing else of use, if the walk is cheaper.
        """
        lane = me.lane % PLAN_WARPS
        cost = s.sBest[0, lane]
        least = cute.arch.warp_redux_sync(cost, "min")
        cut = Int32(select_(cost == least, s.sBest[2, lane], Int32(INT32_MAX)))
        fewest = cute.arch.warp_redux_sync(cut, "min")
        who = cute.arch.vote_ballot_sync(cut == fewest)
        winner = cute.arch.popc((who & -who) - 1)
        chunk, side = s.sBest[1, winner], s.sBest[3, winner]
        return Int32(select_((least <= walk_cost) & (least != INT32_MAX), winner, Int32(-1))), chunk, side

    # -- tables: all threads together, ending in barriers; from `write` on each thread by itself ----------------------

    @cute.jit
    def scan(self, value: Int32, sSums: cute.Tensor, side: int, me: Thread) -> tuple[Int32, Int32]:
        """Return sums before this thread and of all; successive scans alternate sides of sSums."""
        _, warp, lane = me
        total = value
        for distance in (1, 2, 4, 8, 16):
            other = cute.arch.shuffle_sync_up(total, distance)
            total = total + Int32(select_(lane >= distance, other, Int32(0)))
        if lane == 31:
            sSums[side, warp] = total
        cute.arch.sync_threads()
        mine = sSums[side, lane % PLAN_WARPS]
        below = cute.arch.warp_redux_sync(Int32(select_(lane < warp, mine, Int32(0))), "add")
        every = cute.arch.warp_redux_sync(Int32(select_(lane < PLAN_WARPS, mine, Int32(0))), "add")
        return below + total - value, every

    @cute.jit
    def number(self, s, mMerges, mLengths, count, chunk, walked, me) -> Int32:
        """Assign numbers to splits and partial results, write mMerges; return the splits.

        sFirst: the request's first split; of a walk it holds the number of splits on entry. sPartial: -1 if whole.
        """
        thread, _, _ = me
        splits = cute.make_rmem_tensor((2,), Int32)
        is_split = cute.make_rmem_tensor((2,), Int32)
        empty = cute.make_rmem_tensor((2,), Int32)
        inverse = 1.0 / Float32(chunk)
        for n in cutlass.range_constexpr(2):
            splits[n] = Int32(0)
            empty[n] = Int32(0)
            if 2 * thread + n < count:
                splits[n] = self.divide(s.sUnits[2 * thread + n] + chunk - 1, inverse)
                if walked:
                    splits[n] = s.sFirst[2 * thread + n]
            if 2 * thread + n < mLengths.shape[0]:
                empty[n] = 1 - cutlass.min(mLengths[2 * thread + n], 1)
            is_split[n] = cutlass.min(cutlass.max(splits[n] - 1, 0), 1)
        begin, total = self.scan(splits[0] + splits[1], s.sSums, 0, me)
        partial, _ = self.scan(splits[0] * is_split[0] + splits[1] * is_split[1], s.sSums, 1, me)
        merge, split_requests = self.scan(is_split[0] + is_split[1], s.sSums, 0, me)
        empty_row, empty_requests = self.scan(empty[0] + empty[1], s.sSums, 1, me)
        empty_row = empty_row + split_requests
        for n in cutlass.range_constexpr(2):
            index = 2 * thread + n
            if index < count:
                s.sFirst[index] = begin
                s.sPartial[index] = Int32(select_(is_split[n] > 0, partial, Int32(-1)))
            if is_split[n] > 0:
                self.put4(mMerges, merge, (s.sRequest[index], partial, splits[n], Int32(0)))
            if empty[n] > 0:
                self.put4(mMerges, empty_row, (index, Int32(0), Int32(0), Int32(0)))
            if (index >= split_requests + empty_requests) & (index < mLengths.shape[0]):
                self.put4(mMerges, index, (Int32(0), Int32(0), Int32(-1), Int32(0)))
            begin = begin + splits[n]
            partial = partial + splits[n] * is_split[n]
            merge = merge + is_split[n]
            empty_row = empty_row + empty[n]
        if thread == 0:
            s.sFirst[count] = total
        cute.arch.sync_threads()
        return total

    @cute.jit
    def order_walk(self, s, start, count, workers, me) -> None:
        """Order a walk: write sWorkerFirst, cuts to sKeys, splits of each request to sFirst."""
        thread, _, _ = me
        for index in cutlass.range(thread, count, PLAN_THREADS):
            s.sFirst[index] = Int32(1)
        inside = Int32(0)
        if thread < workers:
            inside = cutlass.min(start[thread] & UNIT_MASK, 1)
        cut, _ = self.scan(inside, s.sSums, 1, me)  # and a barrier: the ones are there
        if thread <= workers:
            s.sWorkerFirst[thread] = (start[thread] >> UNIT_BITS) + inside + cut
            if inside > 0:
                s.sKeys[cut] = thread
                cute.arch.atomic_add(self.at(s.sFirst, start[thread] >> UNIT_BITS), Int32(1), scope="cta")
        cute.arch.sync_threads()

    @cute.jit
    def order_chunks(self, s, dealt, splits, count, workers, me) -> None:
        """Order chunks: sort the splits as dealt into sKeys, their places with workers into sPlaces."""
        thread, warp, lane = me
        size = Int32(32)
        while size < splits:
            size = size * 2
        for split in cutlass.range(thread, size, PLAN_THREADS, unroll=1):
            key = Int32(INT32_MAX)
            if split < splits:
                index = self.last_begun(s.sFirst, count, split)
                begin, end = self.cut(s.sUnits[index], split - s.sFirst[index], s.sFirst[index + 1] - s.sFirst[index])
                key = ((2 * MAX_UNITS - (end - begin)) << 16) | split
            s.sKeys[split] = key
        if thread <= workers:
            s.sWorkerFirst[thread] = Int32(0)
        cute.arch.sync_threads()
        if warp == 0:  # 32 ranks at a time: how many before have the same worker
            for begin in cutlass.range(0, splits, 32, unroll=1):
                rank = begin + lane
                worker = Int32(MAX_WORKERS)
                if rank < splits:
                    worker = self.dealt(dealt, rank, workers)
                same = cute.arch.match_sync(0xFFFFFFFF, worker, kind="any")
                earlier = cute.arch.popc(same & ((1 << lane) - 1))
                if rank < splits:
                    known = s.sWorkerFirst[worker]
                    s.sPlaces[rank] = known + earlier
                cute.arch.sync_warp()
                if (rank < splits) & (earlier == 0):
                    s.sWorkerFirst[worker] = s.sWorkerFirst[worker] + cute.arch.popc(same)
                cute.arch.sync_warp()
        run = Int32(2)
        while run <= size:  # bitonic
            step = run // 2
            while step > 0:
                if (step > 32) | ((step == 32) & (run > 64)):  # else a warp has what it had in the step before
                    cute.arch.sync_threads()
                else:
                    cute.arch.sync_warp()
                for pair in cutlass.range(thread, size // 2, PLAN_THREADS, unroll=1):
                    low = 2 * pair - (pair & (step - 1))
                    a, b = s.sKeys[low], s.sKeys[low + step]
                    if (a > b) == ((low & run) == 0):
                        s.sKeys[low] = b
                        s.sKeys[low + step] = a
                step = step // 2
            run = run * 2
        cute.arch.sync_threads()
        mine = Int32(0)
        if thread < workers:
            mine = s.sWorkerFirst[thread]
        begin, _ = self.scan(mine, s.sSums, 0, me)  # and a barrier: all have read theirs
        if thread <= workers:
            s.sWorkerFirst[thread] = begin
        cute.arch.sync_threads()

    @cute.jit
    def write(self, s, split, place, worker, walked, start, count, mLengths, mWork, lanes) -> None:
        """Write the work tiles of one split: at `place`, of `worker`, for every row block."""
        index = self.last_begun(s.sFirst, count, split)
        part, parts = split - s.sFirst[index], s.sFirst[index + 1] - s.sFirst[index]
        begin, end = Int32(0), s.sUnits[index]
        if walked:  # the splits before are one for each of `index` requests, one for each cut left
            if part > 0:
                begin = start[s.sKeys[split - index - 1]] & UNIT_MASK
            if part + 1 < parts:
                end = start[s.sKeys[split - index]] & UNIT_MASK
        else:
            begin, end = self.cut(s.sUnits[index], part, parts)
        length = mLengths[s.sRequest[index]]
        end = cutlass.min(self.pages * end, (length + PAGE - 1) // PAGE)
        partial = Int32(select_(s.sPartial[index] < 0, Int32(-1), s.sPartial[index] + part))
        before, mine = s.sWorkerFirst[worker], s.sWorkerFirst[worker + 1] - s.sWorkerFirst[worker]
        row = before * lanes + place - before
        for block in cutlass.range(lanes, unroll=1):
            self.put4(mWork, row, (s.sRequest[index], block * self.blocks, self.pages * begin, end))
            self.put4(mWork, row, (partial, length, Int32(0), Int32(0)), 1)
            row = row + mine

    def put4(self, table, row, values, part=0):
        """Store 16 bytes of a row of int32."""
        four = cute.make_rmem_tensor((4,), Int32)
        for n, value in enumerate(values):
            four[n] = value
        cute.autovec_copy(four, cute.local_tile(table, (1, 4), (row, part))[0, None])

    @cute.jit
    def last_begun(self, table, entries: Int32, value: Int32) -> Int32:
        """Return the index of the last ascending entry not above `value`."""
        low, high = Int32(0), entries
        while high - low > 1:
            middle = (low + high) // 2
            if table[middle] <= value:
                low = middle
            else:
                high = middle
        return low

    @cute.jit
    def dealt(self, table, rank: Int32, workers: Int32) -> Int32:
        """Return the worker of the split of that rank: at first all workers in turn."""
        worker = rank
        if rank >= workers:
            worker = Int32(table[rank])
        return worker

    def cut(self, units, part, parts):
        """Return where the `part`-th of so many parts of nearly one length begins and ends."""
        return units * part // parts, units * (part + 1) // parts

    def cost(self, load, partials, workers):
        merge = Int32(select_(partials > 0, Int32(self.merge), Int32(0)))
        return workers * (load + merge) + self.partial * partials

    def divide(self, units, inverse):
        """Divide, both up to MAX_UNITS: half a unit is more than what rounding may lack."""
        return Int32((Float32(units) + 0.5) * inverse)

    def at(self, table, index):
        return table.iterator + index
