"""Dynamic counts of a launch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .counting import count_nonzero, flatnonzero

if TYPE_CHECKING:
    from ..frontend.code import Block
    from ..memory.global_memory import Allocation, Memory


_WIDE = 1 << 16  # words; larger accesses are sorted instead of marked


@dataclass
class Counts:
    """Dynamic counts of one launch; a multiply-add is two FLOPs.

    `global_read_bytes` and `global_write_bytes` are totals over all accesses. The `unique` ones count each byte once
    and are filled only with byte tracking (`run(..., track=True)`). So are `shared_wavefronts`, the passes of ordinary
    shared loads and stores through the 32 banks of four bytes. `bank_conflicts` are the passes beyond the first of each
    group of lanes that access the banks in one pass: 32 lanes of 4 bytes, 16 of 8, 8 of 16.

    `instructions` counts warp instructions by class, `opcodes` by opcode as written. `products` counts tensor-memory
    products by kind, CTAs and M x N x K from the descriptor: `kind::f16 cta_group::2 256x256x16`.
    """

    instructions: dict[str, int] = field(default_factory=dict)
    opcodes: dict[str, int] = field(default_factory=dict)
    products: dict[str, int] = field(default_factory=dict)
    warp_instructions: int = 0
    mma_flops: int = 0
    mma_instructions: int = 0
    tma_bytes: int = 0
    tma_instructions: int = 0
    global_read_bytes: int = 0
    global_write_bytes: int = 0
    global_read_unique_bytes: int | None = None
    global_write_unique_bytes: int | None = None
    shared_wavefronts: int | None = None
    bank_conflicts: int | None = None
    barrier_waits: int = 0
    barrier_sleeps: int = 0
    tracking: bool = False

    def product(self, kind: str, group: int, shape: tuple[int, int, int]) -> None:
        """Count a tensor-memory product by `group` CTAs; `shape` is (M, N, K)."""
        m, n, k = shape
        self.mma_instructions += 1
        self.mma_flops += 2 * m * n * k
        name = f"kind::{kind} cta_group::{group} {m}x{n}x{k}"
        self.products[name] = self.products.get(name, 0) + 1

    def add(self, other: Counts) -> None:
        """Add the counts of other clusters, before `finish`."""
        self.products = dict(Counter(self.products) + Counter(other.products))
        for name, value in vars(other).items():
            if type(value) is int:
                setattr(self, name, getattr(self, name) + value)

    def global_copy(self, allocation: Allocation, address: int, size: int, write: bool) -> None:
        """Count a copy of contiguous bytes."""
        self._global_bytes(size, write)
        touched = allocation.write_map if write else allocation.read_map
        if self.tracking and touched is not None:
            touched[address - allocation.start : address - allocation.start + size] = 1

    def _global_bytes(self, size: int, write: bool) -> None:
        if write:
            self.global_write_bytes += size
        else:
            self.global_read_bytes += size

    def global_access(self, allocation: Allocation, offsets: np.ndarray, size: int, write: bool) -> None:
        """Count one access of `size` bytes per lane at `offsets` of an allocation."""
        self._global_bytes(size * len(offsets), write)
        touched = allocation.write_map if write else allocation.read_map
        if self.tracking and touched is not None:
            for k in range(0, size, 16):
                n = min(size - k, 16)
                at = (offsets + np.uint64(k)).astype(np.int64)
                for b in range(n):
                    touched[at + b] = 1

    def shared_access(self, offsets: np.ndarray, lanes: np.ndarray, size: int) -> None:
        """Count an ordinary access of `size` bytes per lane at shared `offsets`."""
        lanes_per_pass = 32 if size <= 4 else max(128 // size, 1)
        words = (offsets.astype(np.int64)[:, None] + np.arange(0, max(size, 4), 4)) // 4
        groups, low = lanes // lanes_per_pass, int(words.min()) // 32 * 32
        span = int(words.max()) + 1 - low
        number, count = groups - groups[0], int(groups[-1] - groups[0]) + 1
        if count * span > _WIDE:
            distinct = np.unique(number[:, None] * span + words - low)
        else:
            touched = np.zeros(count * span, bool)
            touched[(number[:, None] * span + words - low).ravel()] = True
            distinct = flatnonzero(touched)
        banks = distinct // span * 32 + distinct % span % 32
        passes = np.bincount(banks, minlength=32 * count).reshape(count, 32).max(axis=1)
        self.shared_wavefronts = (self.shared_wavefronts or 0) + int(passes.sum())
        self.bank_conflicts = (self.bank_conflicts or 0) + int(passes.sum()) - int(count_nonzero(passes))

    def finish(self, blocks: list[Block], visits: dict[int, int], memory: Memory) -> None:
        """Fold block visit counts into instruction classes, and the byte maps into unique bytes."""
        for block in blocks:
            n = visits.get(block.index, 0)
            if not n:
                continue
            for kind, k in block.counts.items():
                self.instructions[kind] = self.instructions.get(kind, 0) + k * n
                self.warp_instructions += k * n
            for written, k in block.opcodes.items():
                self.opcodes[written] = self.opcodes.get(written, 0) + k * n
        if self.tracking:
            self.shared_wavefronts, self.bank_conflicts = self.shared_wavefronts or 0, self.bank_conflicts or 0
            self.global_read_unique_bytes = sum(
                int(a.read_map.sum()) for a in memory.allocations if a.read_map is not None
            )
            self.global_write_unique_bytes = sum(
                int(a.write_map.sum()) for a in memory.allocations if a.write_map is not None
            )

    def as_dict(self) -> dict[str, object]:
        """Return the counts as plain values for a record."""
        out = {k: v for k, v in self.__dict__.items() if k != "tracking"}
        for name in ("instructions", "opcodes", "products"):
            out[name] = dict(sorted(getattr(self, name).items()))
        return out
