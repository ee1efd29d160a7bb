"""The register file of a CTA, and numpy views of thread ranges."""

from __future__ import annotations

import numpy as np

from ..frontend.formats import FORMATS, UNSIGNED, Format


class _Lazy(dict[int, np.ndarray]):
    """Views of a range's lanes by register slot, made on first use."""

    def __init__(self, array: np.ndarray, fmt: Format, lo: int, hi: int) -> None:
        super().__init__()
        seen = array if fmt.bits in (1, 128) else array.view(fmt.dtype)
        elements = seen.shape[1] // max(array.shape[1], 1)  # of a packed format, in a register of a lane
        self.array, self.lanes = seen, slice(elements * lo, elements * hi)

    def __missing__(self, slot: int) -> np.ndarray:
        view = self[slot] = self.array[slot, self.lanes]
        return view


class Views:
    """The register file for one range of threads: an attribute per format, slot → array."""

    def __init__(self, file: RegisterFile, lo: int, hi: int) -> None:
        for fmt in FORMATS:
            if fmt.bits != 8:  # there are no registers of that width
                setattr(self, fmt.name, _Lazy(file.arrays[fmt.bits], fmt, lo, hi))
        self.special: dict[str, np.ndarray] = {}


class RegisterFile:
    """All registers of a CTA, `threads` lanes wide; reused for later CTAs."""

    def __init__(self, counts: dict[int, int], threads: int) -> None:
        self.threads = threads
        self.arrays = {w: np.zeros((counts[w], threads), UNSIGNED[w].dtype) for w in (1, 16, 32, 64)}
        self.arrays[128] = np.zeros((counts[128], threads, 2), np.uint64)
        self._views: dict[tuple[int, int], Views] = {}

    def views(self, lo: int, hi: int) -> Views:
        views = self._views.get((lo, hi))
        if views is None:
            views = self._views[lo, hi] = Views(self, lo, hi)
        return views

    def ranges(self) -> set[tuple[int, int]]:
        """Return (first, last) warp of every range of threads that has run in step."""
        return {(lo // 32, (hi - 1) // 32) for lo, hi in self._views}

    def forget_specials(self) -> None:
        """Discard cached special registers, which differ between CTAs."""
        for views in self._views.values():
            views.special.clear()
