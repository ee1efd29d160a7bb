"""The schedule of `cute_sm90` made on the card: a plan becomes items, offsets and merges (see planner.py)."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32
from cutlass.cutlass_dsl import select_

from kernels.mla_decode.cute_sm90.layout import PAGE
from kernels.mla_decode.cute_sm90.plan_layout import FAR, MOST_UNITS, MOST_WORKERS, THREADS, UNIT_BITS, UNITS, WARPS


class Tables:
    """A part of `Planner`: what all threads do together, ending in barriers, and from `write` on one by itself."""

    pages: int  # in a unit
    blocks: int  # row blocks of a worker

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
