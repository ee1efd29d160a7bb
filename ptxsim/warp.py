"""Registers and control flow of the threads of a CTA.

Threads run as fragments: a range [lo, hi) of whole warps at one program counter, with a mask where not all its
lanes are there. A branch that splits along warps makes ranges, one that splits inside a warp makes two masked
fragments of a family (same range). Inside a family the fragment with the lowest block runs first and fragments that
meet are merged, which reconverges them; a collective instruction waits until its warps are whole. Ranges join
again when a barrier releases them side by side.
"""

from __future__ import annotations

import itertools

import numpy as np

from .translate import KIND_DTYPE, runtime

RUNNING, WAITING, DONE = 0, 1, 2
_WIDTH_OF = {
    "p": 1,
    "u2": 16,
    "i2": 16,
    "f2": 16,
    "u4": 32,
    "i4": 32,
    "f4": 32,
    "h4": 32,
    "w4": 32,
    "u8": 64,
    "i8": 64,
    "f8": 64,
    "s8": 64,
    "w8": 64,
    "q": 128,
}


class _Lazy(dict):
    """slot → the view of that register's lanes, made when first used."""

    def __init__(self, array: np.ndarray, kind: str, lo: int, hi: int) -> None:
        super().__init__()
        self.array, self.kind, self.lo, self.hi = array, kind, lo, hi

    def __missing__(self, slot: int) -> np.ndarray:
        row = self.array[slot, self.lo : self.hi]
        view = row if self.kind in ("p", "q") else row.view(KIND_DTYPE[self.kind])
        self[slot] = view
        return view


class Views:
    """The register file seen through one range of threads: an attribute per kind, each slot → array."""

    def __init__(self, file: RegisterFile, lo: int, hi: int) -> None:
        for kind, width in _WIDTH_OF.items():
            setattr(self, kind, _Lazy(file.arrays[width], kind, lo, hi))
        self.special: dict[str, np.ndarray] = {}


class RegisterFile:
    """All registers of a CTA, `threads` lanes wide; reused for one CTA after another."""

    def __init__(self, counts: dict[int, int], threads: int) -> None:
        self.threads = threads
        self.arrays = {
            1: np.zeros((counts[1], threads), np.bool_),
            16: np.zeros((counts[16], threads), np.uint16),
            32: np.zeros((counts[32], threads), np.uint32),
            64: np.zeros((counts[64], threads), np.uint64),
            128: np.zeros((counts[128], threads, 2), np.uint64),
        }
        self._views: dict[tuple[int, int], Views] = {}

    def views(self, lo: int, hi: int) -> Views:
        v = self._views.get((lo, hi))
        if v is None:
            v = self._views[lo, hi] = Views(self, lo, hi)
        return v


class Fragment:
    """Threads [lo, hi) of a CTA at block `pc`; `mask` is None when all of them are here."""

    __slots__ = (
        "_m2",
        "_m4",
        "alive",
        "count",
        "cta",
        "family",
        "hi",
        "lo",
        "local",
        "mask",
        "n",
        "pc",
        "polled",
        "stamp",
        "state",
        "v",
        "wake",
        "why",
    )

    def __init__(self, cta, lo: int, hi: int, pc: int, mask: np.ndarray | None = None) -> None:
        self.cta, self.lo, self.hi, self.n, self.pc = cta, lo, hi, hi - lo, pc
        self.v = cta.registers.views(lo, hi)
        self.state, self.family, self.why = RUNNING, None, None
        self.polled, self.stamp, self.wake = None, -1, None
        self.alive = None
        self.set_mask(mask)

    def set_mask(self, mask: np.ndarray | None) -> None:
        self.mask = mask
        self.count = self.n if mask is None else int(np.count_nonzero(mask))
        self._m2 = self._m4 = None

    @property
    def m2(self) -> np.ndarray:
        if self._m2 is None:
            self._m2 = np.repeat(self.mask, 2)
        return self._m2

    @property
    def m4(self) -> np.ndarray:
        if self._m4 is None:
            self._m4 = np.repeat(self.mask, 4)
        return self._m4

    def lanes(self) -> np.ndarray:
        """Indices, within the range, of the active lanes."""
        return np.arange(self.n) if self.mask is None else np.flatnonzero(self.mask)

    def warps(self) -> range | list[int]:
        """Numbers, within the CTA, of the warps with an active lane."""
        if self.mask is None:
            return range(self.lo // 32, -(-self.hi // 32))
        m = self.mask
        return [self.lo // 32 + w for w in range(-(-self.n // 32)) if m[32 * w : 32 * w + 32].any()]

    def whole(self) -> bool:
        """Whether every warp with an active lane has all its living lanes here."""
        if self.mask is None:
            return True
        live = self.cta.alive[self.lo : self.hi]
        missing = live & ~self.mask
        if not missing.any():
            return True
        return all(
            not missing[32 * w : 32 * w + 32].any()
            for w in range(-(-self.n // 32))
            if self.mask[32 * w : 32 * w + 32].any()
        )

    def special(self, name: str) -> np.ndarray:
        """A special register's value in each lane of the range (uint32; uint64 for clocks)."""
        value = self.v.special.get(name)
        if value is None or name in self.cta.VOLATILE:
            value = self.cta.special(name, self.lo, self.hi)
            self.v.special[name] = value
        return value

    def symbol(self, name: str, offset: int, kind: str) -> np.ndarray:
        return np.array(self.cta.symbol(name) + offset).astype(kind)

    def branch(self, p: np.ndarray, target: int, fall: int, negated: bool) -> int:
        """The block to go on with; splits the fragment where its lanes disagree."""
        taken = int(np.count_nonzero(p if self.mask is None else p & self.mask))
        if negated:
            taken = self.count - taken
        if taken == 0:
            return fall
        if taken == self.count:
            return target
        return self._split(~p if negated else p, target, fall)

    def _split(self, p: np.ndarray, target: int, fall: int) -> int:
        cta = self.cta
        if self.mask is None and self.n > 32:
            warps = [p[i : i + 32] for i in range(0, self.n, 32)]
            status = [0 if not w.any() else 1 if w.all() else 2 for w in warps]
            if len(set(status)) > 1:
                pieces, start = [], 0
                for i in range(1, len(status) + 1):
                    if i == len(status) or status[i] != status[start]:
                        pieces.append((status[start], 32 * start, min(32 * i, self.n)))
                        start = i
                for kind, a, b in pieces[1:]:
                    piece = Fragment(cta, self.lo + a, self.lo + b, fall if kind == 0 else target)
                    cta.add(piece)
                    if kind == 2:
                        piece.pc = piece._split(p[a:b].copy(), target, fall)
                kind, a, b = pieces[0]
                p = p[a:b].copy()
                self.hi = self.lo + b
                self.n = b - a
                self.v = cta.registers.views(self.lo, self.hi)
                self.set_mask(None)
                if kind != 2:
                    return fall if kind == 0 else target
        here = np.ones(self.n, bool) if self.mask is None else self.mask
        other = Fragment(cta, self.lo, self.hi, 0, here & ~p)
        if self.family is None:
            self.family = [self]
        other.family = self.family
        self.family.append(other)
        self.set_mask(here & p)
        cta.add(other)
        other.pc = fall
        return target

    def exit(self) -> int:
        """The active lanes leave the kernel."""
        cta = self.cta
        if self.mask is None:
            cta.alive[self.lo : self.hi] = False
        else:
            cta.alive[self.lo : self.hi] &= ~self.mask
        self.state = DONE
        if self.family is not None:
            self.family.remove(self)
            if not self.family:
                self.family = None
        cta.exited(self)
        return -1

    def turn(self) -> bool:
        """Merge with fragments of the family at this block; False when another of them has to run first."""
        family = self.family
        if family is None:
            return True
        if len(family) > 1:
            for other in list(family):
                if other is self:
                    continue
                if other.pc == self.pc and other.state == self.state == RUNNING:
                    self.absorb(other)
        if len(family) == 1 and self.count == self.n:
            self.family = None
            self.set_mask(None)
            return True
        return not any(o.pc < self.pc and o.state == RUNNING and o.why is None for o in family if o is not self)

    def absorb(self, other: Fragment) -> None:
        self.set_mask(self.mask | other.mask)
        other.state = DONE
        self.family.remove(other)
        self.why = None
        self.cta.remove(other)


@runtime
def join_ranges(fragments: list[Fragment]) -> None:
    """Join whole, adjacent fragments at the same block into one; the others are left as they are."""
    fragments = sorted((f for f in fragments if f.mask is None and f.family is None), key=lambda f: f.lo)
    for a, b in itertools.pairwise(fragments):
        if a.hi == b.lo and a.pc == b.pc and a.state == b.state and a.state != DONE:
            b.lo, b.n = a.lo, b.hi - a.lo
            b.v = b.cta.registers.views(b.lo, b.hi)
            b.set_mask(None)
            a.state = DONE
            a.cta.remove(a)
