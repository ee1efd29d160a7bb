"""Addresses: windows of generic addresses, and CTA ranks in shared addresses.

A generic address names its space in bits 56 and up; global addresses are the host's own. A shared address carries the
CTA's rank in its cluster from bit 24 up. The first KiB of a CTA's shared memory belongs to the system.
"""

from __future__ import annotations

from typing import NamedTuple

WINDOW_SHIFT = 56
WINDOWS = {"global": 0, "const": 0, "shared": 1, "local": 2, "param": 3}
SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW = (WINDOWS[space] << WINDOW_SHIFT for space in ("shared", "local", "param"))
RANK_SHIFT = 24
OFFSET_MASK = (1 << RANK_SHIFT) - 1
SHARED_BASE = 1024


class SharedAddress(NamedTuple):
    """A CTA's rank and a byte offset in its shared array."""

    rank: int
    offset: int

    @classmethod
    def of(cls, address: int) -> SharedAddress:
        """Split a shared address, or a generic one within the shared window."""
        address &= SHARED_WINDOW - 1
        return cls(address >> RANK_SHIFT, (address & OFFSET_MASK) - SHARED_BASE)

    @property
    def raw(self) -> int:
        """The address as the kernel writes it."""
        return self.rank << RANK_SHIFT | (self.offset + SHARED_BASE) & OFFSET_MASK

    def at(self, rank: int) -> SharedAddress:
        """Return this offset in another CTA of the cluster."""
        return SharedAddress(rank, self.offset)


def ranks_of(mask: int) -> list[int]:
    """Return the CTA ranks of a multicast mask."""
    return [rank for rank in range(16) if mask >> rank & 1]
