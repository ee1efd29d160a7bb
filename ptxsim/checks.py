"""What hardware does not tell: uninitialised reads and accesses that nothing orders.

Happens-before by vector clocks over actors: every warp, every mbarrier (for the copies that signal it), the tensor
pipe of a CTA, and per warp its cp.async copies, bulk stores and tcgen05.st. An access is a race when it touches a
word last written (or, for a write, read) at an epoch its own clock does not cover. A second clock holds what a
proxy fence has made visible to the async proxy: the tensor cores and bulk stores may only read ordinary writes it
covers. Words are four bytes, narrower accesses noted by byte; lanes of one warp count as ordered; global memory is not
covered.
"""

from __future__ import annotations

import numpy as np

CAPACITY = 512
_WHOLE, _ATOMIC = 15, 16


class Token:
    """The state of a warp's clocks when it issued asynchronous work, and the work's serial number."""

    __slots__ = ("clock", "line", "phases", "rank", "seen", "serial", "warp")

    def __init__(self, clock: np.ndarray, seen: np.ndarray, rank: int, warp: int, serial: int, line: int) -> None:
        self.clock, self.seen, self.rank, self.warp, self.serial, self.line = clock, seen, rank, warp, serial, line
        self.phases: dict[int, int] = {}


class Order:
    """Clocks of a cluster."""

    def __init__(self, machine, ctas: list) -> None:
        self.machine = machine
        self.names: list[str] = ["nobody"]
        self.ids: dict[object, int] = {}
        self.generic = np.zeros(CAPACITY, bool)
        self.serial = 0
        self.clocks: dict[tuple[int, int], np.ndarray] = {}
        self.seen: dict[tuple[int, int], np.ndarray] = {}
        self.groups: dict[tuple[int, int], list[int]] = {}
        self.issued: dict[tuple[int, int], int] = {}
        self.cluster_clock = None
        self.unfenced: dict[tuple[int, int], list] = {}  # warp → mbarriers it made and has not fenced
        self.wgmma_done: dict[tuple[int, int], int] = {}
        for c in ctas:
            for w in range(-(-machine.launch.threads // 32)):
                me = self.actor((c.rank, w), f"warp {w} of CTA {c.rank}", True)
                self.clocks[c.rank, w] = np.zeros(CAPACITY, np.int64)
                self.clocks[c.rank, w][me] = 1
                self.seen[c.rank, w] = np.zeros(CAPACITY, np.int64)

    def actor(self, key: object, name: str, generic: bool = False) -> int:
        n = self.ids.get(key)
        if n is None:
            n = self.ids[key] = len(self.names)
            if n >= CAPACITY:
                raise RuntimeError("more actors than the race check has room for")
            self.names.append(name)
            self.generic[n] = generic
        return n

    def warps(self, f, lanes=None) -> list[tuple[int, int]]:
        own = f.warps() if lanes is None else sorted({(f.lo + int(x)) // 32 for x in lanes})
        return [(f.cta.rank, w) for w in own]

    def _publish(self, key: tuple[int, int], clock: np.ndarray, seen: np.ndarray) -> None:
        """Add a warp's clocks to those of a synchronising object; what the warp does next is not covered."""
        np.maximum(clock, self.clocks[key], out=clock)
        np.maximum(seen, self.seen[key], out=seen)
        self.clocks[key][self.ids[key]] += 1

    def _learn(self, key: tuple[int, int], clock: np.ndarray, seen: np.ndarray) -> None:
        np.maximum(self.clocks[key], clock, out=self.clocks[key])
        np.maximum(self.seen[key], seen, out=self.seen[key])

    def issue(self, f, i: int, warp: int) -> Token:
        key = (f.cta.rank, warp)
        self.serial += 1
        token = Token(self.clocks[key].copy(), self.seen[key].copy(), key[0], warp, self.serial, i)
        self.clocks[key][self.ids[key]] += 1
        self.issued[key] = self.serial
        return token

    def proxy_fence(self, f) -> None:
        for key in self.warps(f):
            np.maximum(self.seen[key], self.clocks[key], out=self.seen[key])
            self.clocks[key][self.ids[key]] += 1

    # mbarriers
    def initialised(self, f, bar, i: int) -> None:
        self.unfenced.setdefault(self.warps(f)[0], []).append(bar)
        bar.clock = [np.zeros(CAPACITY, np.int64), np.zeros(CAPACITY, np.int64)]
        bar.next_clock = [np.zeros(CAPACITY, np.int64), np.zeros(CAPACITY, np.int64)]

    def bar_actor(self, bar) -> int:
        return self.actor(
            ("bar", bar.cta.rank, bar.offset),
            f"a copy signalling the mbarrier at shared offset {bar.offset} of CTA {bar.cta.rank}",
        )

    def release(self, f, bar, lanes) -> None:
        for key in self.warps(f, lanes):
            self._publish(key, *bar.next_clock)

    def acquire(self, f, bar, lanes) -> None:
        for key in self.warps(f, lanes):
            self._learn(key, *bar.clock)

    def phase_completed(self, bar) -> None:
        for have, new in zip(bar.clock, bar.next_clock, strict=False):
            np.maximum(have, new, out=have)
            new[:] = 0
        bar.clock[0][self.bar_actor(bar)] = bar.phase

    def init_fence(self, f) -> None:
        """A fence after which copies may signal the mbarriers that these warps made."""
        for key in self.warps(f):
            for bar in self.unfenced.pop(key, ()):
                bar.fenced = True

    def expect_copy(self, bar, token: Token) -> None:
        if not bar.fenced and "race" in self.machine.checks:
            self.machine.report(
                "barrier",
                f"a copy is to signal an mbarrier initialised without fence.mbarrier_init or a proxy fence: {bar}",
                None,
                token.line,
            )
            bar.fenced = True
        token.phases[id(bar)] = bar.phase + 1

    def commit(self, bar, token: Token, key) -> None:
        np.maximum(bar.next_clock[0], token.clock, out=bar.next_clock[0])
        np.maximum(bar.next_clock[1], token.seen, out=bar.next_clock[1])
        pipe = self.pipe(key[1])
        bar.next_clock[0][pipe] = max(bar.next_clock[0][pipe], token.serial)

    def pipe(self, rank: int) -> int:
        return self.actor(("mma", rank), f"the tensor pipe of CTA {rank}")

    def wgmma(self, rank: int, group: int) -> int:
        return self.actor(("wgmma", rank, group), f"wgmma of warpgroup {group} of CTA {rank}")

    def wgmma_waited(self, rank: int, warp: int, group: int) -> None:
        self.clocks[rank, warp][self.wgmma(rank, group)] = self.wgmma_done.get((rank, group), 0)

    # cp.async, bulk stores, tcgen05.st
    def side(self, kind: str, rank: int, warp: int) -> int:
        names = {"cp": "cp.async of", "store": "a bulk store of", "st": "tcgen05.st of", "ld": "tcgen05.ld of"}
        return self.actor((kind, rank, warp), f"{names[kind]} warp {warp} of CTA {rank}", kind == "cp")

    def cp_commit(self, f, warp: int) -> None:
        self.groups.setdefault((f.cta.rank, warp), []).append(self.serial)

    def joined(self, f, warp: int, left: int) -> None:
        key = (f.cta.rank, warp)
        groups = self.groups.get(key, [])
        upto = self.serial if left < 0 else groups[-left - 1] if len(groups) > left else 0
        me = self.side("cp", *key)
        self.clocks[key][me] = max(self.clocks[key][me], upto)

    def release_token(self, bar, token: Token, key) -> None:
        np.maximum(bar.next_clock[0], token.clock, out=bar.next_clock[0])
        np.maximum(bar.next_clock[1], token.seen, out=bar.next_clock[1])
        me = self.side("cp", key[1], key[2])
        bar.next_clock[0][me] = max(bar.next_clock[0][me], token.serial)

    def stores_done(self, f, warp: int, transfers: list) -> None:
        key = (f.cta.rank, warp)
        me = self.side("store", *key)
        for t in transfers:
            self.clocks[key][me] = max(self.clocks[key][me], t.serial)

    def loaded(self, rank: int, warp: int, serial: int) -> None:
        """A tcgen05.ld of a warp, and those before it, have read tensor memory."""
        clock, me = self.clocks[rank, warp], self.side("ld", rank, warp)
        clock[me] = max(clock[me], serial)

    def tmem_waited(self, f, stores: bool) -> None:
        for key in self.warps(f):
            self.clocks[key][self.side("st" if stores else "ld", *key)] = self.serial

    # barriers
    def barrier_arrive(self, f, barrier, wait: bool) -> None:
        if getattr(barrier, "clock", None) is None:
            barrier.clock = [np.zeros(CAPACITY, np.int64), np.zeros(CAPACITY, np.int64)]
        for key in self.warps(f):
            self._publish(key, *barrier.clock)

    def barrier_release(self, barrier, sleepers: list) -> None:
        for f in sleepers:
            for key in self.warps(f):
                self._learn(key, *barrier.clock)
        barrier.clock = None

    def cluster_arrive(self, f, barrier, relaxed: bool) -> None:
        if self.cluster_clock is None:
            self.cluster_clock = [np.zeros(CAPACITY, np.int64), np.zeros(CAPACITY, np.int64)]
        for key in self.warps(f):
            self._publish(key, *self.cluster_clock)

    def cluster_release(self, barrier, sleepers: list) -> None:
        for f in sleepers:
            self.cluster_wait(f, barrier)

    def cluster_wait(self, f, barrier) -> None:
        for key in self.warps(f):
            self._learn(key, *self.cluster_clock)

    # tensor memory
    def tmem_access(self, f, i: int, warp: int, tm, rows, cols, write: bool) -> None:
        key = (f.cta.rank, warp)
        cells = _cells(rows, cols)
        shadow = self._tmem_shadow(tm)
        self.serial += 1
        if write:
            shadow.write(cells, self.side("st", *key), self.serial, self.clocks[key], i, f, own=self.side("ld", *key))
        else:
            shadow.read(cells, self.side("ld", *key), self.serial, self.clocks[key], None, i, f)

    def tmem_async(self, token: Token, i: int, f, tm, rows, cols, write: bool) -> None:
        cells = _cells(rows, cols)
        shadow, pipe = self._tmem_shadow(tm), self.pipe(token.rank)
        if write:
            shadow.write(cells, pipe, token.serial, token.clock, i, f)
        else:
            shadow.read(cells, pipe, token.serial, token.clock, None, i, f)

    def _tmem_shadow(self, tm) -> Words:
        if not hasattr(tm, "shadow"):
            tm.shadow = Words(self, tm.cta, 8 * 512, "tensor memory")
        return tm.shadow


def _cells(rows, cols) -> np.ndarray:
    """Tensor memory is watched in cells of 16 lanes by one column."""
    blocks = np.unique(np.asarray(rows) // 16)
    return (blocks[:, None] * 512 + np.unique(cols)[None, :]).ravel()


class Words:
    """Last writer and readers of every word of a memory."""

    def __init__(self, order: Order, cta, count: int, what: str) -> None:
        self.order, self.cta, self.what = order, cta, what
        self.writer = np.zeros(count, np.int16)
        self.epoch = np.zeros(count, np.int64)
        self.line = np.full(count, -1, np.int32)
        self.how = np.zeros(count, np.uint8)  # of the last write: bytes (low four bits), whether by an atomic
        self.readers: dict[int, np.ndarray] = {}
        self.read_bytes: dict[int, np.ndarray] = {}  # of readers that have read less than whole words
        self.read_line: dict[int, int] = {}

    def place(self, index: int) -> str:
        if self.what == "tensor memory":
            lane = index // 512 * 16
            return f"tensor-memory column {index % 512} (lanes {lane} to {lane + 15}) of CTA {self.cta.rank}"
        return f"shared offset {4 * index} of CTA {self.cta.rank}"

    def _at(self, line: int) -> str:
        if line < 0:
            return ""
        ins = self.cta.machine.program.instructions[line]
        return f" at PTX line {ins.line}" + (f" ({ins.source})" if ins.source else "")

    def _race(self, index: int, what: str, other: str, line: int, actor: int, i: int, f, why: str = "") -> None:
        names = self.order.names
        self.cta.machine.report(
            "race",
            f"{names[actor]} {what} {self.place(index)}, and nothing orders that after the {other}"
            f"{self._at(line)}{why}",
            f,
            i,
        )

    def read(
        self, index, actor: int, epoch: int, clock: np.ndarray, seen: np.ndarray | None, i: int, f, part=_WHOLE
    ) -> None:
        """A read by `actor` with clock `clock`; `seen` is its async-proxy clock when it reads through that proxy.

        `part` says which bytes of each word.
        """
        writer = self.writer[index]
        checks = self.cta.machine.checks
        if self.what != "tensor memory" and "uninitialised" in checks:
            nobody = writer == 0
            if np.count_nonzero(nobody):
                first = (
                    int(np.asarray(index)[nobody].flat[0])
                    if not isinstance(index, slice)
                    else index.start + int(nobody.argmax())
                )
                self.cta.machine.report(
                    "uninitialised", f"{self.order.names[actor]} reads {self.place(first)}, which nobody wrote", f, i
                )
        if "race" in checks:
            bad = (self.epoch[index] > clock[writer]) & (writer != actor)
            if np.count_nonzero(bad):
                bad &= (self.how[index] & part) != 0
            if np.count_nonzero(bad):
                n = self._first(index, bad)
                self._race(n, "reads", f"write by {self.order.names[self.writer[n]]}", int(self.line[n]), actor, i, f)
            elif seen is not None:
                bad = (self.epoch[index] > seen[writer]) & self.order.generic[writer]
                if np.count_nonzero(bad):
                    n = self._first(index, bad)
                    self._race(
                        n,
                        "reads",
                        f"write by {self.order.names[self.writer[n]]}",
                        int(self.line[n]),
                        actor,
                        i,
                        f,
                        ": no fence.proxy.async lies between them",
                    )
            rows = self.readers.get(actor)
            if rows is None:
                rows = self.readers[actor] = np.zeros(len(self.writer), np.int64)
            if part is not _WHOLE or actor in self.read_bytes:
                masks = self.read_bytes.setdefault(actor, np.full(len(self.writer), _WHOLE, np.uint8))
                masks[index] = np.where(rows[index] == epoch, masks[index], 0) | part
            rows[index] = epoch
            self.read_line[actor] = i

    def write(
        self,
        index,
        actor: int,
        epoch: int,
        clock: np.ndarray,
        i: int,
        f,
        own: int = -1,
        atomic: bool = False,
        part=_WHOLE,
    ) -> None:
        """A write by `actor` of the bytes `part` of each word; two atomics (`atomic`) are no race with each other."""
        if "race" in self.cta.machine.checks:
            writer = self.writer[index]
            bad = (self.epoch[index] > clock[writer]) & (writer != actor)
            if np.count_nonzero(bad):
                bad &= (self.how[index] & part) != 0
                if atomic:
                    bad &= self.how[index] & _ATOMIC == 0
            if np.count_nonzero(bad):
                n = self._first(index, bad)
                self._race(n, "writes", f"write by {self.order.names[self.writer[n]]}", int(self.line[n]), actor, i, f)
            for reader, rows in self.readers.items():
                if reader in (actor, own):
                    continue
                bad = rows[index] > clock[reader]
                if np.count_nonzero(bad) and reader in self.read_bytes:
                    bad &= (self.read_bytes[reader][index] & part) != 0
                if np.count_nonzero(bad):
                    n = self._first(index, bad)
                    self._race(n, "writes", f"read by {self.order.names[reader]}", self.read_line[reader], actor, i, f)
        self.how[index] = (
            part if part is _WHOLE else np.where(self.writer[index] == actor, self.how[index] & _WHOLE, 0) | part
        ) | (_ATOMIC if atomic else 0)
        self.writer[index] = actor
        self.epoch[index] = epoch
        self.line[index] = i

    @staticmethod
    def _first(index, bad: np.ndarray) -> int:
        if isinstance(index, slice):
            return index.start + int(bad.argmax())
        return int(np.asarray(index)[bad].flat[0])


def _parts(offsets: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """(words, bytes of each) that accesses of one or two bytes touch."""
    words, which = np.unique((offsets >> np.uint64(2)).astype(np.int64), return_inverse=True)
    part = np.zeros(len(words), np.uint8)
    np.bitwise_or.at(part, which, ((1 << size) - 1 << (offsets & np.uint64(3)).astype(np.int64)).astype(np.uint8))
    return words, part


class SharedShadow:
    """Shared memory of one CTA, word by word."""

    def __init__(self, order: Order, cta) -> None:
        self.order, self.cta = order, cta
        self.words = Words(order, cta, -(-cta.shared_bytes // 4) + 8, "shared memory")

    def access(self, f, i: int, offsets: np.ndarray, size: int, write: bool, lanes, atomic: bool = False) -> None:
        """An ordinary access of `size` bytes at `offsets`, one per lane of `lanes` (None: all of the fragment)."""
        order = self.order
        own = np.arange(f.n) if lanes is None else np.asarray(lanes)
        warps = (own + f.lo) // 32
        index = (offsets >> np.uint64(2)).astype(np.int64)
        if size > 4:
            index = index[:, None] + np.arange(size // 4)[None, :]
        for w in np.unique(warps):
            key = (f.cta.rank, int(w))
            me, clock = order.ids[key], order.clocks[key]
            at, part = index[warps == w].ravel(), _WHOLE
            if size < 4:
                at, part = _parts(offsets[warps == w], size)
            if write:
                self.words.write(at, me, int(clock[me]), clock, i, f, atomic=atomic, part=part)
            else:
                self.words.read(at, me, int(clock[me]), clock, None, i, f, part)

    def async_write(self, start: int, end: int, token: Token, i: int, barrier=None, generic: bool = False) -> None:
        """Bytes start..end written by a copy that signals `barrier`, or by a cp.async."""
        index = slice(start // 4, -(-end // 4))
        if barrier is not None:
            self.words.write(
                index,
                self.order.bar_actor(barrier),
                token.phases.get(id(barrier), barrier.phase + 1),
                token.clock,
                i,
                None,
            )
        else:
            self.words.write(index, self.order.side("cp", token.rank, token.warp), token.serial, token.clock, i, None)

    def async_read(self, start: int, end: int, token: Token, i: int, f) -> None:
        self.words.read(
            slice(start // 4, -(-end // 4)),
            self.order.side("store", token.rank, token.warp),
            token.serial,
            token.clock,
            token.seen,
            i,
            f,
        )

    def async_chunks(self, index: np.ndarray, token: Token, i: int, f, actor: int | None = None) -> None:
        """An MMA's operand, as 16-byte chunk numbers; `actor` is the tensor pipe of the token's CTA by default."""
        words = (index.reshape(-1, 1) * 4 + np.arange(4)).ravel()
        actor = self.order.pipe(token.rank) if actor is None else actor
        self.words.read(words, actor, token.serial, token.clock, token.seen, i, f)

    def barrier(self, offset: int) -> None:
        """Eight bytes became an mbarrier: what they held before is no data any more."""
        self.words.writer[offset // 4 : offset // 4 + 2] = 0
        self.words.epoch[offset // 4 : offset // 4 + 2] = 0


def attach(machine, ctas: list) -> None:
    """Give a new cluster its clocks and shadows."""
    machine.order = Order(machine, ctas)
    for c in ctas:
        c.shadow = SharedShadow(machine.order, c)
