"""MLA decode for Hopper in CuTe DSL: what a consumer does once it has added up an item (see cute_sm90/consumer.py)."""

from __future__ import annotations

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass import Float32, Int32, Uint32, const_expr
from cutlass.cutlass_dsl import select_

from kernels.mla_decode.cute_sm90.layout import (
    HALF,
    LEFT_CHUNKS,
    LN_2,
    PART_BYTES,
    Q_READ,
    RECEIVED,
    SENT_CHUNKS,
    SUMS_READY,
)


def pack(values: list[Uint32]) -> list[Uint32]:
    """Four fp32 (their bits) in three words: of each the upper 24 bits, rounded; 2^-16 of the value at most is lost."""
    half, byte, two, three, upper = (Uint32(n) for n in (0x80, 8, 16, 24, 0xFFFFFF00))
    packed = []
    for n in range(0, len(values), 4):
        a, b, c, d = (value + half for value in values[n : n + 4])
        packed += [a >> byte | b >> byte << three, b >> two | c >> byte << two, c >> three | d & upper]
    return packed


def unpack(words: list[Uint32]) -> list[Uint32]:
    byte, two, three, upper = (Uint32(n) for n in (8, 16, 24, 0xFFFFFF00))
    values = []
    for n in range(0, len(words), 3):
        u, v, w = words[n : n + 3]
        values += [u << byte, u >> three << byte | v << two, v >> two << byte | w << three, w & upper]
    return values


class Epilogue:
    """A part of `Consumer`: merge and store. All fields are `Consumer`'s."""

    @cute.jit
    def finish(
        self, parity: Int32, request: Int32, first_row: Int32, partial: Int32, is_last: Any, outputs: Any
    ) -> None:
        """An item is summed up: merge what the consumers, and the halves of the keys, have of it; and store."""
        out, lse, out_partial, lse_partial, counters, left = outputs
        if const_expr(self.halves):
            ticket = self.merge_halves(parity, partial, counters)
            if not is_last:  # the last time nobody waits
                self.release_q()
        else:
            self.add_sums(parity)
        if const_expr(self.meets):
            stores = Int32(1)
            if partial >= 0:
                stores = self.meet(ticket, first_row, partial, out.shape[1], counters, left)
            if stores == 1:
                self.store(request, first_row, Int32(-1), (out, lse, None, None))
        else:
            self.store(request, first_row, partial, (out, lse, out_partial, lse_partial))

    @cute.jit
    def store(self, request: Int32, first_row: Int32, partial: Int32, outputs: Any) -> None:
        """Normalise, and store to the output, or a partial result if the request is split."""
        out, lse, out_partial, lse_partial = outputs
        total, m, factor = self.l, self.m, self.factor
        natural = cute.make_rmem_tensor((2,), Float32)
        for r in cutlass.range_constexpr(2):
            factor[r] = Float32(0.0)
            natural[r] = Float32.inf  # of a row that saw no key: out 0, lse +inf, and -inf of a partial result
            if total[r] > 0.0:
                factor[r] = 1.0 / total[r]
                natural[r] = (m[r] + cute.math.log2(total[r], fastmath=True)) * LN_2
        first = (self.lane % 4 == 0) & (self.index == 0) & (self.half == 0)
        if const_expr(not self.meets):
            if partial < 0:
                self.store_whole(out, lse, request, first_row, natural, first)
            else:
                self.store_partial(out_partial, lse_partial, partial, first_row, out.shape[1], first)
        else:
            self.store_whole(out, lse, request, first_row, natural, first)

    @cute.jit
    def store_whole(self, out, lse, request, first_row, natural, first) -> None:
        for r in cutlass.range_constexpr(2):
            row = first_row + self.row(r)
            inside = row < out.shape[1]
            self.store_row(r, out[request, row, None], inside)
            if first & inside:
                lse[request, row] = natural[r]

    @cute.jit
    def store_partial(self, out_partial, lse_partial, partial, first_row, rows, first) -> None:
        total, m = self.l, self.m
        for r in cutlass.range_constexpr(2):
            row = first_row + self.row(r)
            inside = row < rows
            self.store_row(r, out_partial[partial, row, None], inside)
            if first & inside:
                lse_partial[partial, row] = m[r] + cute.math.log2(total[r], fastmath=True)

    @cute.jit
    def add_sums(self, parity: Int32) -> None:
        """l = sum of P over the pages of both consumers."""
        sums = self.sums
        for r in cutlass.range_constexpr(2):
            for offset in (1, 2):
                self.l[r] = self.l[r] + cute.arch.shuffle_sync_bfly(self.l[r], offset=offset)
        if self.lane % 4 == 0:
            for r in cutlass.range_constexpr(2):
                sums[parity, self.index, self.row(r)] = self.l[r]
        cute.arch.mbarrier_arrive(self.mbarriers + SUMS_READY)
        cute.arch.mbarrier_wait(self.mbarriers + SUMS_READY, parity)
        for r in cutlass.range_constexpr(2):
            self.l[r] = self.l[r] + sums[parity, 1 - self.index, self.row(r)]

    @cute.jit
    def merge_halves(self, parity: Int32, meeting: Int32, counters: Any) -> Int32:
        """Give the CTA with the other half of the keys the columns that it stores, and merge what it gives.

        Thread t of a consumer there holds the rows of thread t here. Both have the columns that they store in O[:64]
        (`MlaDecodeSm90.source`); after this O[:64], m and l are those of all keys. Returns the ticket for `meet`, which
        is taken where there is a wait anyway.
        """
        acc, total, m, here, there = self.O, self.l, self.m, self.own, self.factor
        bar = self.mbarriers + RECEIVED + 2 * self.index
        if self.thread == 0:
            cute.arch.mbarrier_arrive_and_expect_tx(bar, PART_BYTES)
            cute.arch.mbarrier_arrive_and_expect_tx(bar + 1, PART_BYTES)
        # Through a shuffle: else the compiler computes all remote addresses ahead of the items, and keeps them.
        partner = cute.arch.make_warp_uniform(1 - self.half)
        acc_bits, l_bits, m_bits = (cute.recast_tensor(values, Uint32) for values in (acc, total, m))
        cute.arch.mbarrier_wait(self.mbarriers + Q_READ, parity)
        self.send(0, [m_bits[r % 2] for r in range(4)], partner)
        for group in cutlass.range_constexpr(4):  # of 16 values: three chunks
            words = pack([acc_bits[64 + 16 * group + i] for i in range(16)])
            for n in cutlass.range_constexpr(3):
                self.send(1 + 3 * group + n, words[4 * n : 4 * n + 4], partner)
        self.add_sums(parity)
        self.send(SENT_CHUNKS - 1, [l_bits[r % 2] for r in range(4)], partner)

        ticket = self.draw(meeting, counters) if self.meets else Int32(0)
        cute.arch.mbarrier_wait(bar, parity)
        their_m = self.receive(0)
        for r in cutlass.range_constexpr(2):
            top = cute.arch.fmax(m[r], their_m[r])
            here[r] = cute.math.exp2(m[r] - top, fastmath=True)
            there[r] = cute.math.exp2(their_m[r] - top, fastmath=True)
            m[r] = top
        for group in cutlass.range_constexpr(4):
            if const_expr(group == 2):
                cute.arch.mbarrier_wait(bar + 1, parity)
            words = [cute.recast_tensor(self.receive(1 + 3 * group + n), Uint32) for n in range(3)]
            values = cute.make_rmem_tensor((16,), Uint32)
            for i, value in enumerate(unpack([words[n // 4][n % 4] for n in range(12)])):
                values[i] = value
            theirs = cute.recast_tensor(values, Float32)
            for i in cutlass.range_constexpr(16):
                n = 16 * group + i
                acc[n] = acc[n] * here[i // 2 % 2] + theirs[i] * there[i // 2 % 2]
        their_l = self.receive(SENT_CHUNKS - 1)
        for r in cutlass.range_constexpr(2):
            total[r] = total[r] * here[r] + their_l[r] * there[r]
        return ticket

    @cute.jit
    def draw(self, meeting: Int32, counters: cute.Tensor) -> Int32:
        """Lane 0's ticket: 0 or 1, whether this warp is the first or the second of two pieces."""
        ticket = Int32(0)
        if (meeting >= 0) & (self.lane == 0):
            ticket = cute.arch.atomic_add(self.counter(counters, meeting, 0), Int32(1), sem="relaxed", scope="gpu")
        return ticket

    def counter(self, counters: cute.Tensor, meeting: Int32, which: int) -> Any:
        return cute.local_tile(counters, (1, 1, 1), (meeting, self.meeting_place(), which)).iterator

    def meeting_place(self) -> Int32:
        """This warp's number among those of a pair of halves: it meets the same warp of the request's other piece."""
        return 8 * self.half + 4 * self.index + self.thread // 32

    @cute.jit
    def meet(
        self,
        ticket: Int32,
        first_row: Int32,
        meeting: Int32,
        rows: Int32,
        counters: cute.Tensor,
        left: cute.Tensor,
    ) -> Int32:
        """Merge both pieces of a request. Returns 1 where the output is to be stored.

        The warp with the second ticket waits for the one that drew the first, and so is at work here or done: nobody
        waits for what has not begun. It leaves the counters as it found them. Who comes second changes no bit.
        """
        stores = Int32(0)
        place = self.meeting_place()
        something = self.counter(counters, meeting, 1)
        ticket = cute.arch.make_warp_uniform(ticket)
        inside = first_row + self.thread // 32 * 16 < rows  # else the warp has no row
        if ticket == 0:
            if inside:
                self.leave(left, meeting, place)
            cute.arch.sync_warp()
            if self.lane == 0:  # a release, of what the other lanes have stored as well
                cute.arch.red(something, Int32(1), op="add", dtype="s32", sem="release", scope="gpu")
        else:
            there = cute.arch.load(something, Int32, sem="acquire", scope="gpu")
            while there == 0:
                there = cute.arch.load(something, Int32, sem="acquire", scope="gpu")
            cute.arch.sync_warp()
            if self.lane == 0:
                zero = Int32(0)
                cute.arch.store(self.counter(counters, meeting, 0), zero)
                cute.arch.store(something, zero)
            if inside:
                self.add_left(left, meeting, place)
                stores = Int32(1)
        return stores

    def leave(self, left: cute.Tensor, meeting: Int32, place: Int32) -> None:
        values = [self.m[0], self.m[1], self.l[0], self.l[1], *(self.O[n] for n in range(64))]
        chunk = cute.make_rmem_tensor((4,), Float32)
        for number in range(LEFT_CHUNKS):
            for n in range(4):
                chunk[n] = values[4 * number + n]
            cute.autovec_copy(chunk, left[meeting, place, number, self.lane, None])

    def add_left(self, left: cute.Tensor, meeting: Int32, place: Int32) -> None:
        """O[:64], m and l become those of both pieces: what has the smaller maximum is scaled, and added to the other.

        So both would get the same bits, whoever is the second.
        """
        theirs = cute.make_rmem_tensor((4, LEFT_CHUNKS), Float32)
        for number in range(LEFT_CHUNKS):
            cute.autovec_copy(left[meeting, place, number, self.lane, None], theirs[None, number])
        for r in range(2):
            mine_is_top = self.m[r] >= theirs[r]
            top = cute.arch.fmax(self.m[r], theirs[r])
            factor = cute.math.exp2(cute.arch.fmin(self.m[r], theirs[r]) - top, fastmath=True)

            def both(mine: Float32, other: Float32, mine_is_top=mine_is_top, factor=factor) -> Float32:
                low, high = select_(mine_is_top, other, mine), select_(mine_is_top, mine, other)
                return Float32(low) * factor + Float32(high)

            self.m[r] = top
            self.l[r] = both(self.l[r], theirs[2 + r])
            for n in range(2 * r, 64, 4):
                for column in (n, n + 1):
                    self.O[column] = both(self.O[column], theirs[4 + column])

    def send(self, chunk: int, words: list[Uint32], partner: Int32) -> None:
        """16 bytes to the same thread of CTA `partner`; asynchronous, an mbarrier there counts them."""
        bar = self.mbarriers + RECEIVED + 2 * self.index + 2 * chunk // SENT_CHUNKS
        target = self.received[None, self.thread, chunk].iterator
        cute.arch.store_async_dsmem(target, tuple(Int32(word) for word in words), bar, partner)

    def receive(self, chunk: int) -> cute.Tensor:
        values = cute.make_rmem_tensor((4,), Float32)
        cute.autovec_copy(self.received[None, self.thread, chunk], values)
        return values

    @cute.jit
    def put(self, value: cute.Tensor, target: cute.Tensor, inside: cutlass.Boolean) -> None:
        if inside:
            cute.autovec_copy(value, target)

    def store_row(self, r: int, target: cute.Tensor, inside: cutlass.Boolean) -> None:
        """target[256 index + ...] = O of row r times its factor, 16 bytes at a time, where the row is `inside`.

        A lane holds two neighbouring columns of every octet of columns; lanes of a quad swap until each holds 16 bytes
        that lie side by side, so that a quad writes 64 bytes of a row at once and not 8 or 16. All lanes of a warp take
        part in the swaps, also those whose row is past the end.
        """
        odd, upper = self.lane % 2 == 1, self.lane % 4 >= 2
        octets = 16 if self.halves else 32
        first_octet = HALF // 8 * self.index + (16 * self.half if self.halves else 0)
        if const_expr(target.element_type.width == 32):
            chunks = cute.local_tile(target, (4,), (None,))
            for octet in range(0, octets, 2):
                a, b = ([self.O[4 * (octet + n) + 2 * r + c] * self.factor[r] for c in (0, 1)] for n in (0, 1))
                a, b = self._swap(a, b, odd, 1)
                value = cute.make_rmem_tensor((4,), Float32)
                for c in range(4):
                    value[c] = (a + b)[c]
                chunk = 2 * (first_octet + octet + self.lane % 2) + self.lane % 4 // 2
                self.put(value, chunks[None, chunk], inside)
        else:
            chunks = cute.local_tile(target, (8,), (None,))
            for octet in range(0, octets, 4):
                words = []
                for n in range(4):
                    pair = cute.make_rmem_tensor((2,), target.element_type)
                    for c in range(2):
                        value = self.O[4 * (octet + n) + 2 * r + c] * self.factor[r]
                        pair[c] = value.to(target.element_type)
                    words.append([cute.recast_tensor(pair, Int32)[0]])
                a, b = self._swap(words[0], words[1], odd, 1)  # octet + odd, this lane's half of it
                c, d = self._swap(words[2], words[3], odd, 1)  # octet + 2 + odd
                e, f = self._swap(a + b, c + d, upper, 2)
                value = cute.make_rmem_tensor((4,), Int32)
                for n in range(4):
                    value[n] = (e + f)[n]
                chunk = first_octet + octet + self.lane % 2 + 2 * (self.lane % 4 // 2)
                self.put(cute.recast_tensor(value, target.element_type), chunks[None, chunk], inside)

    def _swap(self, low: list, high: list, is_high: cutlass.Boolean, offset: int) -> tuple[list, list]:
        """Lanes `offset` apart: the low one keeps `low` and gets the other's `low`, the high one the two `high`.

        Returns both parts in the order of the lanes they come from.
        """
        kind = type(low[0])
        keep = [kind(select_(is_high, b, a)) for a, b in zip(low, high, strict=True)]
        send = [kind(select_(is_high, a, b)) for a, b in zip(low, high, strict=True)]
        got = [cute.arch.shuffle_sync_bfly(value, offset=offset) for value in send]
        first = [kind(select_(is_high, g, k)) for g, k in zip(got, keep, strict=True)]
        second = [kind(select_(is_high, k, g)) for g, k in zip(got, keep, strict=True)]
        return first, second
