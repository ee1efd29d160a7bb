"""Model a CTA's tensor memory: 128 lanes of 512 32-bit columns.

sm_107a has 576 columns (PTX ISA 9.7.16).
"""

from functools import lru_cache

import numpy as np

from ..core.counting import count_nonzero

COLUMNS, LANES = 576, 128
SHARED_COLUMNS = 512  # what an alloc that is not exclusive may have
UNWRITTEN = 0xFF  # each byte: NaN in every format

Index = np.ndarray | slice


class TensorMemory:
    """Words, a map of written words, and allocated columns.

    Two CTAs that allocate as a pair (cta_group::2) count their calls: `arrived` have begun, `done` are served.
    `granted` are columns that the peer CTA's call has already taken for this one.
    """

    def __init__(self, rank: int, checked: bool, fill: int = UNWRITTEN) -> None:
        self.rank = rank  # of its CTA
        self.checked = checked  # whether reads of unwritten cells are checked
        self.words = np.full((LANES, COLUMNS), fill * 0x01010101, np.uint32)
        self.written = np.zeros((LANES, COLUMNS), bool)
        self.owned = np.zeros(COLUMNS, bool)
        self.blocks: dict[int, int] = {}  # first column → columns of an allocation
        self.locations: dict[int, str] = {}  # first column → location of its alloc
        self.freeing: dict[int, str] = {}  # first column → warp and location of a dealloc that waits for the peer's
        self.permit = True
        self.arrived = self.done = 0
        self.granted: list[int] = []
        self.freed: list[tuple[int, int, str]] = []  # freed columns: first, end, by which warp and where

    def allocate(self, columns: int) -> int | None:
        """Allocate an aligned run of columns; return the first, or None.

        The hardware's granularity and order of placement are unknown; this allocator has its own.
        """
        room = COLUMNS if columns > SHARED_COLUMNS else SHARED_COLUMNS
        for start in range(0, room - columns + 1, max(columns, 32)):
            if not self.owned[start : start + columns].any():
                self.owned[start : start + columns] = True
                self.blocks[start] = columns
                self.written[:, start : start + columns] = False
                self.freed = [x for x in self.freed if x[1] <= start or x[0] >= start + columns]
                return start
        return None

    def release(self, start: int) -> None:
        """Free an allocation that is `freeing`."""
        columns = self.blocks.pop(start)
        self.owned[start : start + columns] = False
        self.freed.append((start, start + columns, self.freeing.pop(start)))

    def freed_note(self, first: int, end: int) -> str:
        """Return where and by which warp columns were freed, as a sentence end."""
        released = [x for x in self.freed if x[0] < end and x[1] > first]
        return "".join(f"; columns {a} to {b} were freed {by}" for a, b, by in released)

    def unallocated_note(self, first: int, end: int) -> str:
        """Return a sentence end on unallocated columns, "" if all are allocated."""
        if first >= 0 and end <= COLUMNS and count_nonzero(self.owned[first:end]) == end - first:
            return ""
        return f"tensor-memory columns {first} to {end}, not all of them allocated{self.freed_note(first, end)}"

    def unwritten(self, rows: Index, cols: Index) -> bool:
        """Return whether cells are unwritten; False if that check is disabled."""
        if not self.checked:
            return False
        written = self.written[rows, cols]
        return bool(count_nonzero(written) < written.size)

    def write(self, rows: Index, cols: Index, words: np.ndarray) -> None:
        self.words[rows, cols] = words
        self.written[rows, cols] = True

    def unreleased(self) -> str:
        """Describe the allocations that were never freed."""
        kept = [(at, n) for at, n in self.blocks.items() if at not in self.freeing]
        return ", ".join(f"{n} columns at {at}, by {self.locations[at]}" for at, n in kept)


@lru_cache(maxsize=64)
def shape_index(shape: str, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (row, column) per register and lane of an ld or st shape.

    The shape is repeated `count` times. Raises KeyError for an unknown shape.
    """
    t = np.arange(32)[None, :]
    if shape == "32x32b":
        r = np.arange(count)[:, None]
        return np.broadcast_to(t, (count, 32)), np.broadcast_to(r, (count, 32))
    if shape == "16x64b":
        r = np.arange(count)[:, None]
        return np.broadcast_to(t // 4 + 8 * (t % 2), (count, 32)), t // 2 % 2 + 2 * r
    if shape == "16x128b":
        r = np.arange(2 * count)[:, None]
        return t // 4 + 8 * (r % 2), t % 4 + 4 * (r // 2)
    if shape == "16x256b":
        r = np.arange(4 * count)[:, None]
        return t // 4 + 8 * (r // 2 % 2), 2 * (t % 4) + r % 2 + 8 * (r // 4)
    raise KeyError(shape)
