"""The L1 data cache of an SM, for ordinary loads and cp.async.ca.

A line has 128 bytes in four sectors of 32, each valid or not. A miss fetches only the requested sectors, and the tag
stage looks up four lines a cycle (Greg Smith of NVIDIA about Volta,
https://forums.developer.nvidia.com/t/pascal-l1-cache/49571/14; Nsight Compute's profiling guide, glossary, «sector»).
Assumptions, as nothing is published: a load of a sector in flight waits for it without another request. Replacement is
LRU. Lanes that read scattered addresses have no bank conflicts.
"""

LINE_BYTES = 128
SECTOR_BYTES = 32
LINES_PER_CYCLE = 4  # tag lookups
_SECTORS = range(LINE_BYTES // SECTOR_BYTES)

Lines = dict[int, int]  # line of global memory (address over 128) → mask of its sectors


def bytes_of(lines: Lines) -> int:
    """Return the bytes in the sectors of lines."""
    return SECTOR_BYTES * sum(mask.bit_count() for mask in lines.values())


class L1Cache:
    """Lines with the time at which each sector is valid (None: not requested)."""

    def __init__(self, size: float) -> None:
        """Make an empty cache of `size` bytes."""
        self.capacity = int(size) // LINE_BYTES
        self.lines: dict[int, list[float | None]] = {}  # least recently used first; local memory has negative lines
        self.fetched: Lines = {}  # all sectors ever requested

    def lookup(self, requested: Lines) -> tuple[Lines, float]:
        """Return the missing sectors, and when the last other is valid (0: now)."""
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
        """Insert sectors that become valid at a time."""
        for line, mask in lines.items():
            sectors = self.lines.setdefault(line, [None] * len(_SECTORS))
            for k in _SECTORS:
                if mask >> k & 1:
                    sectors[k] = at
        self._make_room()

    def put(self, line: int, at: float) -> None:
        """Insert a whole line that becomes valid at a time."""
        self.lines.pop(line, None)
        self.lines[line] = [at] * len(_SECTORS)
        self._make_room()

    def read_line(self, line: int, keep: bool) -> float | None:
        """Return when a whole line is valid, None if missing; drop the line unless `keep`."""
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
        """Invalidate lines, since atomics execute in L2."""
        for line in lines:
            self.lines.pop(line, None)

    def reloaded_bytes(self, lines: Lines) -> int:
        """Return the bytes of sectors that this SM requested before; record them all as requested."""
        reloaded = 0
        for line, mask in lines.items():
            before = self.fetched.get(line, 0)
            reloaded += (before & mask).bit_count()
            self.fetched[line] = before | mask
        return SECTOR_BYTES * reloaded
