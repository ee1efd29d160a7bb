"""Control flow of the threads of a CTA.

Threads run as fragments: a range [lo, hi) of whole warps at one program counter, with a mask if some lanes are
elsewhere. A branch that splits along warps makes ranges. One that splits inside a warp makes two masked
fragments of a family (same range). The fragment of a family at the lowest block runs first. Fragments at one block are
merged, which reconverges them. A collective instruction waits until its warps are whole. Ranges join
again when a barrier releases adjacent ones.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .counting import count_nonzero, flatnonzero
from .work import Origin

if TYPE_CHECKING:
    from .barriers import Wait
    from .cta import CTA
    from .protocols import Machine

Address = tuple[np.ndarray, int]  # a memory operand: lanes' base addresses (0-d if shared), byte offset


class State(Enum):
    RUNNING = "running"
    PARTED = "waiting for the other lanes of its warp"
    WAITING = "waiting at a barrier"
    DONE = "done"


RUNNING, PARTED, WAITING, DONE = State  # module globals, since every slice looks them up


class Poll(NamedTuple):
    """A failed wait: its instruction, and what must change before it can succeed."""

    at: int
    address_pair: int
    phase: int


class Fragment:
    """Threads [lo, hi) of a CTA at block `pc`; `mask`: active lanes (None: all)."""

    __slots__ = (
        "_lanes",
        "_mask_of_pairs",
        "count",
        "cta",
        "family",
        "hi",
        "lo",
        "machine",
        "mask",
        "n",
        "pc",
        "poll",
        "stamp",
        "state",
        "views",
        "wait",
    )

    def __init__(self, cta: CTA, lo: int, hi: int, pc: int, mask: np.ndarray | None = None) -> None:
        self.cta, self.lo, self.hi, self.n, self.pc = cta, lo, hi, hi - lo, pc
        self.machine: Machine = cta.machine
        self.views = cta.registers.views(lo, hi)
        self.state = RUNNING
        self.wait: Wait | None = None  # of a fragment that is WAITING
        self.family: list[Fragment] | None = None
        self.poll: Poll | None = None
        self.stamp = -1  # the cluster's progress at that poll
        self.set_mask(mask)

    # active lanes
    def set_mask(self, mask: np.ndarray | None) -> None:
        self.mask = mask
        self.count = self.n if mask is None else int(count_nonzero(mask))
        self._lanes: np.ndarray | None = None
        self._mask_of_pairs: np.ndarray | None = None

    @property
    def mask_of_pairs(self) -> np.ndarray:
        """The mask for registers of two elements per lane; for masked fragments only."""
        if self._mask_of_pairs is None:
            assert self.mask is not None
            self._mask_of_pairs = np.repeat(self.mask, 2)
        return self._mask_of_pairs

    def lanes(self) -> np.ndarray:
        """Return the indices, within the range, of the active lanes."""
        if self._lanes is None:
            self._lanes = np.arange(self.n) if self.mask is None else flatnonzero(self.mask)
        return self._lanes

    def warps(self) -> range | list[int]:
        """Return the numbers, within the CTA, of the warps with an active lane."""
        if self.mask is None:
            return range(self.lo // 32, -(-self.hi // 32))
        m = self.mask
        return [self.lo // 32 + w for w in range(-(-self.n // 32)) if count_nonzero(m[32 * w : 32 * w + 32])]

    def warp_of(self, lane: int) -> int:
        """Return the number, within the CTA, of the warp of a lane of the range."""
        return (self.lo + int(lane)) // 32

    def lanes_by_warp(self, lanes: np.ndarray) -> dict[int, list[int]]:
        """Group lanes of the range by warp."""
        out: dict[int, list[int]] = {}
        for lane in lanes:
            out.setdefault(self.warp_of(lane), []).append(int(lane))
        return out

    def whole(self) -> bool:
        """Return whether all living lanes of its warps are in this fragment."""
        if self.mask is None:
            return True
        missing = self.cta.alive[self.lo : self.hi] & ~self.mask
        if not count_nonzero(missing):
            return True
        return all(not missing[32 * w - self.lo : 32 * w - self.lo + 32].any() for w in self.warps())

    # values of operands
    def values(self, operand: np.ndarray) -> list[int]:
        """Return an operand in each active lane."""
        operand = np.asarray(operand)
        if operand.ndim:
            return (operand if self.mask is None else operand[self.lanes()]).tolist()
        return [int(operand)] * self.count

    def value(self, operand: np.ndarray) -> int:
        """Return an operand in the first active lane."""
        operand = np.asarray(operand)
        if operand.ndim == 0:
            return int(operand)
        return int(operand[0 if self.mask is None else int(self.mask.argmax())])

    def addresses(self, address_pair: Address) -> list[int]:
        """Return a memory operand's address in each active lane."""
        base, offset = address_pair
        return [x + offset for x in self.values(base)]

    def address(self, address_pair: Address) -> int:
        """Return a memory operand's address in the first active lane."""
        return self.value(address_pair[0]) + address_pair[1]

    def special(self, name: str) -> np.ndarray:
        """Return a special register's value in each lane of the range (uint32; uint64 for clocks)."""
        value = self.views.special.get(name)
        if value is None or name in self.cta.VOLATILE:
            value = self.views.special[name] = self.cta.special(name, self.lo, self.hi)
        return value

    def symbol(self, name: str, offset: int, numpy: str) -> Any:
        """Return the address of a variable plus an offset, as the integer type `numpy`."""
        return np.array(self.cta.symbol(name) + offset).astype(numpy)

    # findings and asynchronous work
    def report(self, at: int, kind: str, message: str, lanes: np.ndarray | None = None) -> None:
        """Report a finding at an instruction, for lanes of this fragment's range."""
        self.machine.report(kind, message, at, self, lanes)

    def report_repeats(self, at: int, what: str, operands: Sequence[Hashable]) -> None:
        """Report lanes of a warp that request identical work; `operands` has one per active lane."""
        if self.count == 1 or "repeated" not in self.machine.checks:
            return
        requests = Counter((self.warp_of(lane), key) for lane, key in zip(self.lanes(), operands, strict=True))
        for (warp, _), times in requests.items():
            if times > 1:
                why = "use one lane, such as the one elect.sync chooses"
                return self.report(at, "repeated", f"{times} lanes of warp {warp} each request the same {what}: {why}")

    def issue(self, at: int, warp: int) -> Origin:
        """Return the origin of asynchronous work that a warp issues now."""
        return Origin(self, at, warp, self.cta.cluster.observer.issued(self, at, warp))

    def sleep(self, wait: Wait) -> None:
        self.state, self.wait = WAITING, wait

    def wake(self) -> None:
        self.state, self.wait = RUNNING, None

    # control flow
    def branch(self, p: np.ndarray, target: int, fall: int, negated: bool) -> int:
        """Return the next block; split the fragment if its lanes disagree."""
        taken = int(count_nonzero(p if self.mask is None else p & self.mask))
        if negated:
            taken = self.count - taken
        if taken == 0:
            return fall
        if taken == self.count:
            return target
        return self._split(~p if negated else p, target, fall)

    def _split(self, p: np.ndarray, target: int, fall: int) -> int:
        """Split along warps where whole warps agree, else into two masks; return the next block."""
        if self.mask is None and self.n > 32:
            runs = _runs(p)
            if len(runs) > 1:
                for run in runs:
                    for warp in range((self.lo + run.start) // 32, (self.lo + run.end) // 32):
                        if warp not in self.cta.barrier_users:
                            self.cta.parted[warp] = target if run.taken else fall
                for run in runs[1:]:
                    part = Fragment(self.cta, self.lo + run.start, self.lo + run.end, target if run.taken else fall)
                    self.cta.fragments.append(part)
                    if run.taken is None:
                        part.pc = part._mask_apart(p[run.start : run.end].copy(), target, fall)
                mine = runs[0]
                p = p[: mine.end].copy()
                self._set_range(self.lo, self.lo + mine.end)
                if mine.taken is not None:
                    return target if mine.taken else fall
        return self._mask_apart(p, target, fall)

    def _mask_apart(self, p: np.ndarray, target: int, fall: int) -> int:
        """Keep the lanes of `p`, which branch; move the others to a new fragment."""
        active = np.ones(self.n, bool) if self.mask is None else self.mask
        other = type(self)(self.cta, self.lo, self.hi, fall, active & ~p)
        if self.family is None:
            self.family = [self]
        other.family = self.family
        self.family.append(other)
        self.set_mask(active & p)
        self.cta.fragments.append(other)
        return target

    def _set_range(self, lo: int, hi: int) -> None:
        self.lo, self.hi, self.n = lo, hi, hi - lo
        self.views = self.cta.registers.views(lo, hi)
        self.set_mask(None)

    def exit(self) -> int:
        """Remove the active lanes from the kernel."""
        alive = self.cta.alive[self.lo : self.hi]
        alive &= False if self.mask is None else ~self.mask
        self.state = DONE
        if self.family is not None:
            self.family.remove(self)
        self.cta.exited(self)
        return -1

    def reconverge(self) -> bool:
        """Merge with the family's fragments at this block; return False if another must run first."""
        family = self.family
        if family is None:
            return True
        for other in list(family):
            if other is not self and other.pc == self.pc and other.state in (RUNNING, PARTED):
                self._absorb(other)
        if len(family) == 1 and self.count == self.n:
            self.family = None
            self.set_mask(None)
            return True
        return not any(other.pc < self.pc and other.state is RUNNING for other in family if other is not self)

    def earlier(self) -> Fragment | None:
        """Return the first runnable fragment of the family at an earlier block."""
        family = self.family or []
        family.sort(key=lambda other: other.pc)
        for other in family:
            if other is not self and other.state is RUNNING and other.pc < self.pc:
                return other
        return None

    def _absorb(self, other: Fragment) -> None:
        assert self.family is not None and self.mask is not None and other.mask is not None
        self.set_mask(self.mask | other.mask)
        other.state = DONE
        self.family.remove(other)
        self.cta.fragments.remove(other)

    def unpart(self) -> None:
        """Let a collective block be tried again, after lanes have moved."""
        if self.state is PARTED:
            self.state = RUNNING


class _WarpRun(NamedTuple):
    """Threads start..end whose warps all branch, all fall through, or (None) diverge."""

    taken: bool | None
    start: int
    end: int


def _runs(p: np.ndarray) -> list[_WarpRun]:
    """Group adjacent warps with equal branch outcome."""
    runs: list[_WarpRun] = []
    for start in range(0, len(p), 32):
        warp = p[start : start + 32]
        count = count_nonzero(warp)
        taken = None if 0 < count < len(warp) else bool(count)
        end = start + len(warp)
        if runs and runs[-1].taken is taken:
            runs[-1] = _WarpRun(taken, runs[-1].start, end)
        else:
            runs.append(_WarpRun(taken, start, end))
    return runs


def join_ranges(fragments: list[Fragment]) -> None:
    """Join whole, adjacent fragments at the same block into one."""
    whole = sorted((f for f in fragments if f.mask is None and f.family is None), key=lambda f: f.lo)
    for a, b in itertools.pairwise(whole):
        if a.hi == b.lo and a.pc == b.pc and a.state is b.state and a.state is not DONE:
            b._set_range(a.lo, b.hi)
            a.state = DONE
            a.cta.fragments.remove(a)
