"""The data cache of an SM, for ordinary loads and cp.async.ca: which bytes are there, and when.

A line has 128 bytes in four sectors of 32, each of which may be there or not: on a miss only the sectors that were
asked for are fetched, and the tag stage looks up four lines a cycle (Greg Smith of NVIDIA about Volta,
https://forums.developer.nvidia.com/t/pascal-l1-cache/49571/14; Nsight Compute's profiling guide, glossary, «sector»).
What is not published is assumed: a load that asks for a sector on its way waits for it and does not ask for it again,
the line that was used the longest ago goes first, and lanes that read apart from each other have no bank conflicts.
"""

from __future__ import annotations

LINE_BYTES = 128
SECTOR_BYTES = 32
LINES_PER_CYCLE = 4  # whose tags are looked up
_SECTORS = range(LINE_BYTES // SECTOR_BYTES)

Lines = dict[int, int]  # line of global memory (address over 128) → mask of its sectors


def bytes_of(lines: Lines) -> int:
    """Return bytes in the sectors of some lines."""
    return SECTOR_BYTES * sum(mask.bit_count() for mask in lines.values())


class L1Cache:
    """Lines with the time from which each sector's bytes are there (None: not even asked for)."""

    def __init__(self, size: float) -> None:
        """`size` in bytes."""
        self.capacity = int(size) // LINE_BYTES
        self.lines: dict[int, list[float | None]] = {}  # the least recently used stands first; local ones are negative
        self.fetched: Lines = {}  # everything that was ever asked for, kept or not

    def lookup(self, requested: Lines) -> tuple[Lines, float]:
        """Return the sectors that have to be fetched, and when the last of the others is there (0: all are)."""
        missing: Lines = {}
        ready = 0.0
        for line, mask in requested.items():
            sectors = self.lines.get(line)
            if sectors is None:
                missing[line] = mask
                continue
            del self.lines[line]
            self.lines[line] = sectors
            for k in _SECTORS:
                if mask >> k & 1:
                    since = sectors[k]
                    if since is None:
                        missing[line] = missing.get(line, 0) | 1 << k
                    elif since > ready:
                        ready = since
        return missing, ready

    def fill(self, lines: Lines, at: float) -> None:
        """Sectors will be there at a time."""
        for line, mask in lines.items():
            sectors = self.lines.setdefault(line, [None] * len(_SECTORS))
            for k in _SECTORS:
                if mask >> k & 1:
                    sectors[k] = at
        self._make_room()

    def put(self, line: int, at: float) -> None:
        """Return a whole line is there from a time on."""
        self.lines.pop(line, None)
        self.lines[line] = [at] * len(_SECTORS)
        self._make_room()

    def read_line(self, line: int, keep: bool) -> float | None:
        """When a whole line that is read is there, None if it has to be fetched; it may be the last time."""
        sectors = self.lines.pop(line, None)
        if sectors is None:
            return None
        if keep:
            self.lines[line] = sectors
        return sectors[0]

    def _make_room(self) -> None:
        while len(self.lines) > self.capacity:
            del self.lines[next(iter(self.lines))]

    def drop(self, lines: Lines) -> None:
        """Atomics are done in L2, and the line is no longer valid here."""
        for line in lines:
            self.lines.pop(line, None)

    def reloaded_bytes(self, lines: Lines) -> int:
        """Return how many bytes of these sectors this SM has asked L2 for before; from now on it has for all."""
        reloaded = 0
        for line, mask in lines.items():
            before = self.fetched.get(line, 0)
            reloaded += (before & mask).bit_count()
            self.fetched[line] = before | mask
        return SECTOR_BYTES * reloaded
