"""The schedule of `cute_sm90` made on the card: warps that look for the cheapest plan (see cute_sm90/planner.py)."""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Uint8, Uint32
from cutlass.cutlass_dsl import select_

from kernels.mla_decode.cute_sm90.plan_layout import FAR, SLOTS, UNIT_BITS, UNITS, WARPS
from kernels.mla_decode.split_kv.plan import QUARTERS


class Search:
    """A part of `Planner`, which has the prices. Each method is a warp's, but `cost`, `divide` and `at`."""

    item: int  # prices in quarters of a unit
    merge: int
    partial: int

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
    def least_capacity(self, found, me) -> Int32:
        """The first walk that had room for all."""
        able = cute.arch.vote_ballot_sync(found[0, me[2] % WARPS] == 0)
        return cute.arch.popc((able & -able) - 1)

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

    def cost(self, load, partials, workers):
        merge = Int32(select_(partials > 0, Int32(self.merge), Int32(0)))
        return workers * (load + merge) + self.partial * partials

    def divide(self, units, inverse):
        """units // n by 1 / n, both up to MOST_UNITS: half a unit is more than what rounding may lack."""
        return Int32((Float32(units) + 0.5) * inverse)

    def at(self, table, index):
        return table.iterator + index
