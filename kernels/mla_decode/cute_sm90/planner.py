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
from cutlass import Float32, Int32, Uint8, Uint32
from cutlass.cutlass_dsl import select_
from cutlass.utils import SmemAllocator

from kernels.mla_decode.cute_sm90.layout import PAGE
from kernels.mla_decode.split_kv.plan import QUARTERS, Prices

WARPS = 16
THREADS = 32 * WARPS
SLOTS = 5  # workers of a lane in `deal`
MOST_WORKERS = 32 * SLOTS
MOST_REQUESTS, MOST_LENGTH = 1024, 131_072
MOST_UNITS = MOST_LENGTH // PAGE
MOST_PIECES = 1536  # of a plan: see Prices.most_pieces
SORTED = 2048  # the next power of two
FAR = 0x7FFFFFFF
UNIT_BITS, UNITS = 12, 0xFFF  # of a word that names a place: a request, and units of it


class Planner:
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

    # -- all threads ---------------------------------------------------------------------------------------------

    @cute.jit
    def scan(self, value: Int32, sums: cute.Tensor, side: int, me: tuple) -> tuple[Int32, Int32]:
        """The sum over the threads before this one, and over all. Two scans after each other take different sides."""
        _, warp, lane = me
        total = value
        for distance in (1, 2, 4, 8, 16):
            other = cute.arch.shuffle_sync_up(total, distance)
            total = total + Int32(select_(lane >= distance, other, Int32(0)))
        if lane == 31:
            sums[side, warp] = total
        cute.arch.sync_threads()
        mine = sums[side, lane % WARPS]
        below = cute.arch.warp_redux_sync(Int32(select_(lane < warp, mine, Int32(0))), "add")
        every = cute.arch.warp_redux_sync(Int32(select_(lane < WARPS, mine, Int32(0))), "add")
        return below + total - value, every

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

    @cute.jit
    def number(self, units, request, first, partials, merges, lengths, sums, count, chunk, walked, me) -> Int32:
        """Pieces and partial results get their numbers, request by request, and `merges` is written. Returns pieces.

        `first`: the request's first piece; of a walk it holds the pieces' number on entry. `partials`: -1 if whole.
        """
        thread, _, _ = me
        pieces = cute.make_rmem_tensor((2,), Int32)
        split = cute.make_rmem_tensor((2,), Int32)
        empty = cute.make_rmem_tensor((2,), Int32)
        inverse = 1.0 / Float32(chunk)
        for n in cutlass.range_constexpr(2):
            pieces[n] = Int32(0)
            empty[n] = Int32(0)
            if 2 * thread + n < count:
                pieces[n] = self.divide(units[2 * thread + n] + chunk - 1, inverse)
                if walked:
                    pieces[n] = first[2 * thread + n]
            if 2 * thread + n < lengths.shape[0]:
                empty[n] = 1 - cutlass.min(lengths[2 * thread + n], 1)
            split[n] = cutlass.min(cutlass.max(pieces[n] - 1, 0), 1)
        begin, every = self.scan(pieces[0] + pieces[1], sums, 0, me)
        partial, _ = self.scan(pieces[0] * split[0] + pieces[1] * split[1], sums, 1, me)
        merge, splits = self.scan(split[0] + split[1], sums, 0, me)
        nobody, empties = self.scan(empty[0] + empty[1], sums, 1, me)
        nobody = nobody + splits
        for n in cutlass.range_constexpr(2):
            index = 2 * thread + n
            if index < count:
                first[index] = begin
                partials[index] = Int32(select_(split[n] > 0, partial, Int32(-1)))
            if split[n] > 0:
                self.put4(merges, merge, (request[index], partial, pieces[n], Int32(0)))
            if empty[n] > 0:
                self.put4(merges, nobody, (index, Int32(0), Int32(0), Int32(0)))
            if (index >= splits + empties) & (index < lengths.shape[0]):
                self.put4(merges, index, (Int32(0), Int32(0), Int32(-1), Int32(0)))
            begin = begin + pieces[n]
            partial = partial + pieces[n] * split[n]
            merge = merge + split[n]
            nobody = nobody + empty[n]
        if thread == 0:
            first[count] = every
        cute.arch.sync_threads()
        return every

    @cute.jit
    def order_walk(self, start, first, worker_first, cuts, count, workers, sums, me) -> None:
        """Of a walk: `worker_first`, the workers that begin in the middle of a request in `cuts`, pieces in `first`."""
        thread, _, _ = me
        for index in cutlass.range(thread, count, THREADS):
            first[index] = Int32(1)
        inside = Int32(0)
        if thread < workers:
            inside = cutlass.min(start[thread] & UNITS, 1)
        cut, _ = self.scan(inside, sums, 1, me)  # and a barrier: the ones are there
        if thread <= workers:
            worker_first[thread] = (start[thread] >> UNIT_BITS) + inside + cut
            if inside > 0:
                cuts[cut] = thread
                cute.arch.atomic_add(self.at(first, start[thread] >> UNIT_BITS), Int32(1), scope="cta")
        cute.arch.sync_threads()

    @cute.jit
    def order_chunks(
        self, units, first, worker_first, keys, places, dealt, pieces, count, workers, chunk, sums, me
    ) -> None:
        """Of chunks: the pieces sorted as they were dealt, in `keys`; each one's place with its worker in `places`."""
        thread, warp, lane = me
        size = Int32(32)
        while size < pieces:
            size = size * 2
        for piece in cutlass.range(thread, size, THREADS, unroll=1):
            key = Int32(FAR)
            if piece < pieces:
                index = self.last_begun(first, count, piece)
                begin, end = self.cut(units[index], piece - first[index], first[index + 1] - first[index])
                key = ((2 * MOST_UNITS - (end - begin)) << 16) | piece
            keys[piece] = key
        if thread <= workers:
            worker_first[thread] = Int32(0)
        cute.arch.sync_threads()
        if warp == 0:  # 32 ranks at a time: how many before have the same worker
            for begin in cutlass.range(0, pieces, 32, unroll=1):
                rank = begin + lane
                worker = Int32(MOST_WORKERS)
                if rank < pieces:
                    worker = self.dealt(dealt, rank, workers)
                alike = cute.arch.match_sync(0xFFFFFFFF, worker, kind="any")
                earlier = cute.arch.popc(alike & ((1 << lane) - 1))
                if rank < pieces:
                    known = worker_first[worker]
                    places[rank] = known + earlier
                cute.arch.sync_warp()
                if (rank < pieces) & (earlier == 0):
                    worker_first[worker] = worker_first[worker] + cute.arch.popc(alike)
                cute.arch.sync_warp()
        run = Int32(2)
        while run <= size:  # bitonic
            step = run // 2
            while step > 0:
                if (step > 32) | ((step == 32) & (run > 64)):  # else a warp has what it had in the step before
                    cute.arch.sync_threads()
                else:
                    cute.arch.sync_warp()
                for pair in cutlass.range(thread, size // 2, THREADS, unroll=1):
                    low = 2 * pair - (pair & (step - 1))
                    a, b = keys[low], keys[low + step]
                    if (a > b) == ((low & run) == 0):
                        keys[low] = b
                        keys[low + step] = a
                step = step // 2
            run = run * 2
        cute.arch.sync_threads()
        mine = Int32(0)
        if thread < workers:
            mine = worker_first[thread]
        begin, _ = self.scan(mine, sums, 0, me)  # and a barrier: all have read theirs
        if thread <= workers:
            worker_first[thread] = begin
        cute.arch.sync_threads()

    # -- a warp alone ----------------------------------------------------------------------------------------------

    @cute.jit
    def walk(self, before, count, workers, starts, found, me) -> None:
        """Warp n fills workers up to n quarters above the mean load; `found`: whether there was room for all.

        Where each worker begins: its request, and in the lower bits how many units of that are done.
        """
        _, warp, lane = me
        total = before[count]
        capacity = total // workers + warp
        request, begin, start = Int32(0), Int32(0), Int32(0)  # begin: what costs up to here
        if warp <= self.item + QUARTERS:
            for worker in cutlass.range(workers, unroll=1):
                if lane == 0:
                    starts[warp, worker] = start
                target = begin + capacity
                fits, reached = Int32(32), begin
                while fits == 32:  # the lanes look at this request and the next 31; this one fits, or part of it
                    end = before[request + lane]
                    fits = cute.arch.popc(cute.arch.vote_ballot_sync(end <= target))
                    reached = cute.arch.shuffle_sync(end, fits - 1)
                    request = request + fits - 1
                taken = cutlass.max(target - cutlass.max(reached, begin) - self.item, 0) & -QUARTERS
                begin = cutlass.min(cutlass.max(reached, begin) + taken, total)
                start = (request << UNIT_BITS) + ((begin - reached) >> 2)
            if lane == 0:
                starts[warp, workers] = start
        if lane == 0:
            found[0, warp] = begin - total

    @cute.jit
    def cost_of_walk(self, start, before, workers, me) -> Int32:
        """Every warp finds it for itself."""
        load, partials = Int32(0), Int32(0)
        for worker in cutlass.range(me[2], workers, 32, unroll=1):
            here, there = start[worker], start[worker + 1]
            cut = cutlass.min(there & UNITS, 1)
            begin = before[here >> UNIT_BITS] + QUARTERS * (here & UNITS)
            end = before[there >> UNIT_BITS] + QUARTERS * (there & UNITS)
            load = cutlass.max(load, end - begin + self.item * cut)
            # A cut is a piece more, and one more still if it is the first of its request.
            again = ((here & UNITS) > 0) & ((here >> UNIT_BITS) == (there >> UNIT_BITS))
            partials = partials + cut + Int32(select_(again, Int32(0), cut))
        load = cute.arch.warp_redux_sync(load, "max")
        return self.cost(load, cute.arch.warp_redux_sync(partials, "add"), workers)

    @cute.jit
    def chunks(self, units, before, count, longest, workers, walk_cost, counts, assigned, found, me) -> None:
        """Warp n tries the chunk sizes that cut the longest request into n + 1, n + 17, ... pieces."""
        _, warp, lane = me
        total = before[count]
        best, best_chunk, best_pieces, best_side = Int32(FAR), Int32(1), Int32(0), Int32(0)
        side = Int32(0)
        for cut in cutlass.range(warp + 1, cutlass.min(longest, workers) + 1, WARPS, unroll=1):
            chunk = (longest + cut - 1) // cut
            known = Int32(0)  # the size of one piece less: the same size is tried once
            if cut > 1:
                known = (longest + cut - 2) // (cut - 1)
            if chunk != known:
                inverse = 1.0 / Float32(chunk)
                pieces, partials = Int32(0), Int32(0)
                for index in cutlass.range(lane, count, 32, unroll=1):
                    mine = self.divide(units[index] + chunk - 1, inverse)
                    pieces = pieces + mine
                    partials = partials + Int32(select_(mine > 1, mine, Int32(0)))
                pieces = cute.arch.warp_redux_sync(pieces, "add")
                partials = cute.arch.warp_redux_sync(partials, "add")
                least = total + self.item * (pieces - count) + self.partial * partials
                least = least + Int32(select_(partials > 0, workers * self.merge, Int32(0)))
                if (least <= walk_cost) & (least < best):
                    self.count_sizes(units, count, chunk, counts[warp, None], lane)
                    load = self.deal(counts[warp, None], assigned[side, warp, None], chunk, workers, lane)
                    cost = self.cost(load, partials, workers)
                    if cost < best:
                        best, best_chunk, best_pieces, best_side = cost, chunk, cut, side
                        side = 1 - side
        if lane == 0:
            found[0, warp] = best
            found[1, warp] = best_chunk
            found[2, warp] = best_pieces
            found[3, warp] = best_side

    @cute.jit
    def count_sizes(self, units, count, chunk, counts, lane) -> None:
        """How many pieces there are of each length, if no piece is longer than `chunk`."""
        for length in cutlass.range(lane, chunk + 1, 32, unroll=1):
            counts[length] = Int32(0)
        cute.arch.sync_warp()
        inverse = 1.0 / Float32(chunk)
        for index in cutlass.range(lane, count, 32, unroll=1):
            pieces = self.divide(units[index] + chunk - 1, inverse)
            length = self.divide(units[index], 1.0 / Float32(pieces))
            longer = units[index] - length * pieces
            cute.arch.atomic_add(self.at(counts, length), pieces - longer, scope="cta")
            if longer > 0:
                cute.arch.atomic_add(self.at(counts, length + 1), longer, scope="cta")
        cute.arch.sync_warp()

    @cute.jit
    def deal(self, counts, dealt, chunk, workers, lane) -> Int32:
        """Pieces, the longest first, each to the worker with the least load; the first of each worker is not written.

        A lane has the workers lane, lane + 32, ..., each as its load and its number in one word. Returns the largest.
        """
        loads = cute.make_rmem_tensor((SLOTS,), Uint32)
        for n in cutlass.range_constexpr(SLOTS):
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
                for n in cutlass.range_constexpr(SLOTS):  # whoever has nothing yet, in the order of their numbers
                    worker = lane + 32 * n
                    if (worker >= rank) & (worker < end) & (worker < workers):
                        loads[n] = loads[n] + more
                for place in cutlass.range(cutlass.max(rank, workers), end, unroll=1):
                    least = loads[0]
                    for n in cutlass.range_constexpr(1, SLOTS):
                        least = cutlass.min(least, loads[n])
                    least = cute.arch.warp_redux_sync(least, "umin")
                    for n in cutlass.range_constexpr(SLOTS):
                        loads[n] = loads[n] + Uint32(select_(loads[n] == least, more, Uint32(0)))
                    if lane == 0:
                        dealt[place] = Uint8(least & 255)
                rank = end
            top = top - 32
        largest = Uint32(0)
        for n in cutlass.range_constexpr(SLOTS):
            if lane + 32 * n < workers:
                largest = cutlass.max(largest, loads[n] >> 8)
        return Int32(cute.arch.warp_redux_sync(largest, "umax"))

    @cute.jit
    def least_capacity(self, found, me) -> Int32:
        """The first walk that had room for all."""
        able = cute.arch.vote_ballot_sync(found[0, me[2] % WARPS] == 0)
        return cute.arch.popc((able & -able) - 1)

    @cute.jit
    def cheapest(self, found, walk_cost, me) -> tuple[Int32, Int32, Int32]:
        """The warp with the cheapest chunks, of equals that with the larger ones, their size, and the side of its
        assignments; -1 and nothing else of use if the walk is cheaper."""
        lane = me[2] % WARPS
        cost = found[0, lane]
        least = cute.arch.warp_redux_sync(cost, "min")
        cut = Int32(select_(cost == least, found[2, lane], Int32(FAR)))
        fewest = cute.arch.warp_redux_sync(cut, "min")
        who = cute.arch.vote_ballot_sync(cut == fewest)
        winner = cute.arch.popc((who & -who) - 1)
        chunk, side = found[1, winner], found[3, winner]
        return Int32(select_((least <= walk_cost) & (least != FAR), winner, Int32(-1))), chunk, side

    # -- a thread alone --------------------------------------------------------------------------------------------

    @cute.jit
    def write(self, piece, place, worker, chunk, walked, cuts, start, tables, count, lengths, items, lanes) -> None:
        """The rows of one piece in the table of items: `place` of its lane, with `worker`, for every row block."""
        units, request, first, partials, worker_first = tables
        index = self.last_begun(first, count, piece)
        part, parts = piece - first[index], first[index + 1] - first[index]
        begin, end = Int32(0), units[index]
        if walked:  # the pieces before are those of `index` requests and of as many cuts as are left
            if part > 0:
                begin = start[cuts[piece - index - 1]] & UNITS
            if part + 1 < parts:
                end = start[cuts[piece - index]] & UNITS
        else:
            begin, end = self.cut(units[index], part, parts)
        length = lengths[request[index]]
        end = cutlass.min(self.pages * end, (length + PAGE - 1) // PAGE)
        partial = Int32(select_(partials[index] < 0, Int32(-1), partials[index] + part))
        before, mine = worker_first[worker], worker_first[worker + 1] - worker_first[worker]
        row = before * lanes + place - before
        for block in cutlass.range(lanes, unroll=1):
            self.put4(items, row, (request[index], block * self.blocks, self.pages * begin, end))
            self.put4(items, row, (partial, length, Int32(0), Int32(0)), 1)
            row = row + mine

    def put4(self, table, row, values, part=0):
        """16 bytes of a row of int32."""
        four = cute.make_rmem_tensor((4,), Int32)
        for n, value in enumerate(values):
            four[n] = value
        cute.autovec_copy(four, cute.local_tile(table, (1, 4), (row, part))[0, None])

    @cute.jit
    def last_begun(self, table, entries: Int32, value: Int32) -> Int32:
        """The last of the ascending entries that is not above `value`; the first is not."""
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
        """The worker of a piece by its rank. The first pieces go to all workers in turn."""
        worker = rank
        if rank >= workers:
            worker = Int32(table[rank])
        return worker

    def cut(self, units, part, parts):
        """Where the `part`-th of so many parts of nearly one length begins and ends."""
        return units * part // parts, units * (part + 1) // parts

    def cost(self, load, partials, workers):
        merge = Int32(select_(partials > 0, Int32(self.merge), Int32(0)))
        return workers * (load + merge) + self.partial * partials

    def divide(self, units, inverse):
        """units // n by 1 / n, both up to MOST_UNITS: half a unit is more than what rounding may lack."""
        return Int32((Float32(units) + 0.5) * inverse)

    def at(self, table, index):
        return table.iterator + index
