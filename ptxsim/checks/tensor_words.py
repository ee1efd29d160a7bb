"""The shadow of tensor memory, in cells of 16 lanes by one column."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..core.counting import flatnonzero
from ..memory.tensor_memory import COLUMNS
from .shadow import WHOLE, Event, Index, Words
from .vector_clock import Actors

if TYPE_CHECKING:
    from ..core.cta import CTA

CELL_LANES = 16
CELLS = 128 // CELL_LANES  # of a column
SMALL = 640  # most row and column numbers per cached call


class TensorWords(Words):
    """The shadow of a CTA's tensor memory."""

    def __init__(self, clocks: Actors, cta: CTA) -> None:
        super().__init__(clocks, cta, CELLS * COLUMNS)

    def location(self, index: int) -> str:
        lane = index % CELLS * CELL_LANES
        lanes = f"lanes {lane} to {lane + CELL_LANES - 1}"
        return f"tensor-memory column {index // CELLS} ({lanes}) of CTA {self.cta.rank}"

    def access_kind(self, index: int) -> str:
        at = int(self.at[index])
        freed = at >= 0 and self.clocks.machine.program.instructions[at].parts[1] == "dealloc"
        return "tcgen05.dealloc" if freed else "write"

    def free(self, first: int, end: int, event: Event) -> None:
        """Record a deallocation as a write of all cells that must follow every access."""
        if "race" not in self.checks:
            return
        index = slice(CELLS * first, CELLS * end)
        self._after_writer(index, event, self.last[index], "frees")
        self._after_readers(index, event, "frees")
        self._note_write(index, event, WHOLE)

    def forget(self, first: int, end: int) -> None:
        """Clear the record of newly allocated columns."""
        index = slice(CELLS * first, CELLS * end)
        self.last[index] = 0
        for rows in self.readers.values():
            rows[index] = 0


def cells(rows: np.ndarray, cols: np.ndarray) -> Index:
    """Return the cells that rows and columns touch: a slice for whole columns."""
    if rows.size + cols.size <= SMALL and rows.dtype == cols.dtype == np.int64:
        return _cells(rows.tobytes(), cols.tobytes())
    return _join(_distinct(np.asarray(rows) // CELL_LANES), _distinct(cols))


@lru_cache(maxsize=256)
def _cells(rows: bytes, cols: bytes) -> Index:
    """Return the cells of rows and columns, given as int64 bytes (cached)."""
    return _join(_distinct(np.frombuffer(rows, np.int64) // CELL_LANES), _distinct(np.frombuffer(cols, np.int64)))


def _join(blocks: np.ndarray, columns: np.ndarray) -> Index:
    first, end = int(columns[0]), int(columns[-1]) + 1
    if len(blocks) == CELLS and len(columns) == end - first:
        return slice(CELLS * first, CELLS * end)
    joined: np.ndarray = (columns[:, None] * CELLS + blocks[None, :]).ravel()
    return joined


def _distinct(numbers: np.ndarray) -> np.ndarray:
    """Return the distinct small integers in order; np.unique takes three times as long."""
    return flatnonzero(np.bincount(np.asarray(numbers).ravel()))
