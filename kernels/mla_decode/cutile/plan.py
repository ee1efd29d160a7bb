"""How the kernel `cutile` cuts ragged requests into items: the cheapest of a few plans, by estimated time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kernels.mla_decode.cutile import MOST_ITEMS
from kernels.mla_decode.cutile.schedule import chunk_sizes, makespan, piece_count, piece_sizes

# Microseconds on an H200, fitted to the runs that README.md tells of; elsewhere only their proportions count.
TILE_US, TILE_PRODUCT_US = 0.35, 0.31e-6  # a KV tile: barriers and latencies, and per multiplication
BLOCK_US, BLOCK_BYTE_US = 4.6, 12.5e-6  # a block: launch and pipeline fill, and per byte of queries and results
COMBINE_US, COMBINE_SPLIT_US, COMBINE_BYTE_US = 2.5, 0.1, 0.4e-6  # the second launch; per piece or per byte, the larger


@dataclass(frozen=True)
class Tiling:
    """Query rows x keys per tile, and how many blocks share the latent width."""

    rows: int
    keys: int
    parts: int

    @classmethod
    def of(cls, params: Mapping[str, Any], prefix: str) -> Tiling:
        return cls(*(params[f"{prefix}_{key}"] for key in ("rows", "keys", "parts")))

    def blocks(self, rows: int) -> int:
        """Blocks per item, for `rows` query rows."""
        return math.ceil(rows / self.rows) * self.parts


@dataclass(frozen=True)
class Plan:
    """How to cut the requests: into items of at most `chunk` KV tiles of this tiling.

    Without `direct` a request in one piece leaves its result to the combine, as split ones do.
    """

    tiling: Tiling
    chunk: int
    direct: bool = True


@dataclass(frozen=True)
class Problem:
    """What a plan depends on: kv lengths in tokens, query rows of a request, latent and rope width."""

    lengths: tuple[int, ...]
    rows: int
    latent: int
    rope: int

    def tiles(self, keys: int) -> Counter[int]:
        """How many requests have so many KV tiles of `keys` tokens."""
        return Counter(-(-length // keys) for length in self.lengths)


@dataclass(frozen=True)
class Estimate:
    """Time of a plan in microseconds: blocks in list scheduling, and the combine if there is one."""

    problem: Problem
    plan: Plan
    multiprocessors: int

    @property
    def us(self) -> float:
        blocks = self.plan.tiling.blocks(self.problem.rows)
        longest_first = [(self._block_us(size), blocks * count) for size, count in sorted(self._sizes.items())[::-1]]
        return makespan(longest_first, self.multiprocessors) + self._combine_us

    @property
    def least_us(self) -> float:
        """What `us` cannot be less than, at no cost: the longest block, and all blocks shared evenly."""
        blocks = self.plan.tiling.blocks(self.problem.rows)
        total = sum(self._block_us(size) * blocks * count for size, count in self._sizes.items())
        return max(self._block_us(max(self._sizes)), total / self.multiprocessors) + self._combine_us

    @cached_property
    def items(self) -> int:
        return sum(self._sizes.values())

    @cached_property
    def _requests(self) -> Counter[int]:
        return self.problem.tiles(self.plan.tiling.keys)

    @cached_property
    def _sizes(self) -> Counter[int]:
        return piece_sizes(self._requests, self.plan.chunk)

    @cached_property
    def _partials(self) -> Counter[int]:
        """How many requests have their result in so many pieces for the combine."""
        found: Counter[int] = Counter()
        for tiles, count in self._requests.items():
            pieces = piece_count(tiles, self.plan.chunk)
            if pieces > 1 or not self.plan.direct:
                found[pieces] += count
        return found

    @cached_property
    def _empty_block_us(self) -> float:
        tiling, latent, rope = self.plan.tiling, self.problem.latent, self.problem.rope
        partials = sum(pieces * count for pieces, count in self._partials.items())
        bytes_of_result = 2 if not partials else 4 if partials == self.items else 6
        block_bytes = tiling.rows * (2 * (latent + rope) + bytes_of_result * (latent // tiling.parts))
        return BLOCK_US + BLOCK_BYTE_US * block_bytes

    def _block_us(self, tiles: int) -> float:
        tiling, latent, rope = self.plan.tiling, self.problem.latent, self.problem.rope
        products = tiling.rows * tiling.keys * (latent + rope + latent // tiling.parts)
        return self._empty_block_us + tiles * (TILE_US + TILE_PRODUCT_US * products)

    @cached_property
    def _combine_us(self) -> float:
        if not self._partials:
            return 0.0
        partials = sum(pieces * count for pieces, count in self._partials.items())
        partial_bytes = 4 * partials * self.problem.rows * self.problem.latent
        return COMBINE_US + max(COMBINE_SPLIT_US * max(self._partials), COMBINE_BYTE_US * partial_bytes)


def choose_plan(problem: Problem, wide: Tiling, narrow: Tiling, multiprocessors: int) -> Plan:
    """The plan of the least estimated time; of two alike, the one of fewer items."""
    estimates = [
        Estimate(problem, plan, multiprocessors) for plan in candidates(problem, wide, narrow, multiprocessors)
    ]
    best, best_us = None, math.inf
    for estimate in sorted(estimates, key=lambda estimate: (estimate.least_us, estimate.items)):
        if estimate.least_us >= best_us:
            break  # and so are all that follow
        if estimate.us < best_us:
            best, best_us = estimate.plan, estimate.us
    assert best is not None
    return best


def candidates(problem: Problem, wide: Tiling, narrow: Tiling, multiprocessors: int) -> Iterator[Plan]:
    """In either tiling: the longest request in one piece, or in up to as many as make two waves of blocks."""
    for tiling in (wide, narrow):
        most = max(1, 2 * multiprocessors // tiling.blocks(problem.rows))
        tiles = problem.tiles(tiling.keys)
        for chunk in chunk_sizes(max(tiles), most):
            if sum(piece_sizes(tiles, chunk).values()) > MOST_ITEMS:
                break
            yield Plan(tiling, chunk)
            if chunk < max(tiles) and chunk >= min(tiles):  # some are split, some are not
                yield Plan(tiling, chunk, direct=False)
