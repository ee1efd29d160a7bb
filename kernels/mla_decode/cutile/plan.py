"""How the kernel `cutile` cuts ragged requests: the cheapest plan by estimated time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from kernels.mla_decode.cutile import MOST_ITEMS
from kernels.mla_decode.cutile.schedule import chunk_sizes, makespan, split_count, split_sizes

# Microseconds on an H100 and an H200, fitted to the plans of benchmarks/mla_cutile/tried_plans_*.json; elsewhere only
# their proportions count.
TILE_US, TILE_PRODUCT_US = 0.453, 0.341e-6  # a KV tile: barriers and latencies, and per multiplication
UNDIVIDED_TILE_US = 0.366  # a KV tile more, where one block has the whole width: its products wait for each other
BLOCK_US, BLOCK_BYTE_US = 1.4, 12.5e-6  # a block: launch and pipeline fill, and per byte of queries and results
REST_BLOCK_US = 0.36  # a block more, of whole requests that are launched together with splits of other requests
REST_US = 2.7  # and the launch of these
REMAINDER_US = 3.0  # splits of one length and what remains: docs/decisions/mla_cutile.md
COMBINE_US, COMBINE_BYTE_US = 1.62, 0.37e-6  # the last launch, and per byte of the partial results
COMBINE_ROW_US = 0.46e-3  # and per row of the output
COMBINE_STEPS = {False: (4, 0.26), True: (16, 0.62)}  # of `combine` and `combine_many`: splits at a time, and for these
COMBINE_AFTER_US = 0.3  # more where it is launched after the blocks, not during them
# Merging, as measured on an H100 and an H200 (docs/decisions/mla_cutile.md). `combine_many` is the faster one for more
# splits than this of fewer rows than this (in blocks over the whole latent width, and else).
MANY_SPLITS, FEW_ROWS = 8, (800, 512)
# Blocks over the whole width let `combine` start during them. Where they leave few multiprocessors free, its blocks
# crowd these, and many splits are then read by few.
CROWDING_SPLITS, CROWDED = 16, 0.6


@dataclass(frozen=True)
class Tiling:
    """Query rows x keys per tile, and how many blocks share the latent width."""

    rows: int
    keys: int
    parts: int

    @classmethod
    def undivided(cls, params: Mapping[str, Any]) -> Tiling | None:
        """Return the cost of `undivided`, where the build has it."""
        return cls.of(params, "undivided") if "undivided_rows" in params else None

    @classmethod
    def of(cls, params: Mapping[str, Any], prefix: str) -> Tiling:
        return cls(*(params[f"{prefix}_{key}"] for key in ("rows", "keys", "parts")))

    def blocks(self, rows: int) -> int:
        """Blocks per item, for `rows` query rows."""
        return math.ceil(rows / self.rows) * self.parts


@dataclass(frozen=True)
class Plan:
    """How to cut the requests: into items of at most `chunk` KV tiles.

    Where some requests are split, the others store their result themselves if `direct`, in a launch of their own, and
    else leave a partial result to the combine: one launch fewer, for more partial results. The splits of a request are
    about equal if `even`; else all but its last have `chunk` tiles. See `make_schedule`.
    """

    tiling: Tiling
    chunk: int
    direct: bool = True
    even: bool = True


@dataclass(frozen=True)
class Problem:
    """What a plan depends on: kv lengths in tokens, query rows, latent, rope width."""

    lengths: tuple[int, ...]
    rows: int
    latent: int
    rope: int

    def tiles(self, keys: int) -> Counter[int]:
        """How many requests have so many KV tiles of `keys` tokens."""
        return _tiles(self.lengths, keys)


@lru_cache(maxsize=2)  # the two tilings of the problem in hand
def _tiles(lengths: tuple[int, ...], keys: int) -> Counter[int]:
    return Counter(-(-length // keys) for length in lengths)


class Merging(NamedTuple):
    """How partial results are merged, by `combine_many` or `combine`.

    It is launched next to the blocks, or after them.
    """

    many: bool
    overlapped: bool

    @classmethod
    def of(cls, tiling: Tiling, rows: int, most: int, splits: int, merges: int, whole: int, processors: int) -> Merging:
        """Choose how to merge the `splits` of `merges` requests.

        One request has at most `most`; `whole` ones are computed meanwhile.
        """
        undivided = tiling.parts == 1
        many = most > MANY_SPLITS and merges * rows < FEW_ROWS[not undivided]
        blocks = splits * tiling.blocks(rows)
        crowded = undivided and not whole and most > CROWDING_SPLITS and blocks > CROWDED * processors
        return cls(many, not crowded)


@dataclass(frozen=True)
class Estimate:
    """Time of a plan in microseconds: blocks in list scheduling, and what further launches cost."""

    problem: Problem
    plan: Plan
    multiprocessors: int

    @property
    def us(self) -> float:
        return makespan(self._blocks, self.multiprocessors) + self._further_us

    @property
    def least_us(self) -> float:
        """Return a lower bound of `us`: the longest block, or all shared evenly."""
        total = sum(duration * count for duration, count in self._blocks)
        return max(max(self._blocks)[0], total / self.multiprocessors) + self._further_us

    @cached_property
    def items(self) -> int:
        return self._splits.total() + self._whole.total()

    @cached_property
    def _merges(self) -> Counter[int]:
        """How many requests of each size in tiles leave their result to the combine."""
        requests, chunk = self.problem.tiles(self.plan.tiling.keys), self.plan.chunk
        least = chunk + 1 if self.plan.direct or max(requests) <= chunk else 0
        return Counter({tiles: count for tiles, count in requests.items() if tiles >= least})

    @cached_property
    def _splits(self) -> Counter[int]:
        """How many splits there are of each size in tiles."""
        return split_sizes(self._merges, self.plan.chunk, self.plan.even)

    @cached_property
    def _whole(self) -> Counter[int]:
        """How many requests of each size in tiles store their result themselves."""
        requests = self.problem.tiles(self.plan.tiling.keys)
        return Counter({tiles: count for tiles, count in requests.items() if tiles not in self._merges})

    @cached_property
    def _blocks(self) -> list[tuple[float, int]]:
        """Return the durations and numbers of blocks, in the order in which they start."""
        per_item = self.plan.tiling.blocks(self.problem.rows)
        extra = REST_BLOCK_US if self._merges else 0.0
        return [
            (self._block_us(size, result_bytes) + more, per_item * count)
            for sizes, result_bytes, more in ((self._splits, self._partial_bytes, 0.0), (self._whole, 2, extra))
            for size, count in sorted(sizes.items(), reverse=True)
        ]

    @property
    def _partial_bytes(self) -> int:
        """Of a number of a partial result: see `split_undivided` in kernel.py."""
        return 2 if self.plan.tiling.parts == 1 else 4

    def _block_us(self, tiles: int, result_bytes: int) -> float:
        tiling, latent, rope = self.plan.tiling, self.problem.latent, self.problem.rope
        width = latent // tiling.parts
        products = tiling.rows * tiling.keys * (latent + rope + width)
        block_bytes = tiling.rows * (2 * (latent + rope) + result_bytes * width)
        tile_us = TILE_US + TILE_PRODUCT_US * products + (UNDIVIDED_TILE_US if tiling.parts == 1 else 0.0)
        return BLOCK_US + BLOCK_BYTE_US * block_bytes + tiles * tile_us

    @cached_property
    def merging(self) -> Merging | None:
        """None if no request is split."""
        if not self._merges:
            return None
        counts = (self._most_splits, self._splits.total(), self._merges.total(), self._whole.total())
        return Merging.of(self.plan.tiling, self.problem.rows, *counts, self.multiprocessors)

    @cached_property
    def _most_splits(self) -> int:
        """Of one request that is split."""
        return split_count(max(self._merges), self.plan.chunk)

    @cached_property
    def _further_us(self) -> float:
        if self.merging is None:
            return 0.0
        at_a_time, step_us = COMBINE_STEPS[self.merging.many]
        more = 0.0 if self.plan.even else REMAINDER_US
        more += 0.0 if self.merging.overlapped else COMBINE_AFTER_US
        more += REST_US if self._whole else 0.0
        rows, row_bytes = self._merges.total() * self.problem.rows, self._partial_bytes * self.problem.latent
        more += COMBINE_ROW_US * rows + COMBINE_BYTE_US * row_bytes * self._splits.total() * self.problem.rows
        return COMBINE_US + math.ceil(self._most_splits / at_a_time) * step_us + more


def choose_plan(
    problem: Problem, wide: Tiling, narrow: Tiling, multiprocessors: int, undivided: Tiling | None = None
) -> Plan:
    """Return the plan of least estimated time, then of fewest items."""
    plans = candidates(problem, undivided or wide, narrow, multiprocessors)
    estimates = [Estimate(problem, plan, multiprocessors) for plan in plans]
    best, best_us = None, math.inf
    for estimate in sorted(estimates, key=lambda estimate: (estimate.least_us, estimate.items)):
        if estimate.least_us >= best_us:
            break  # and so are all that follow
        if estimate.us < best_us:
            best, best_us = estimate.plan, estimate.us
    assert best is not None
    return best


def candidates(problem: Problem, wide: Tiling, narrow: Tiling, multiprocessors: int) -> Iterator[Plan]:
    """Yield plans with the longest request whole or split, in up to two waves."""
    for tiling in (wide, narrow):
        most = max(1, 2 * multiprocessors // tiling.blocks(problem.rows))
        tiles = problem.tiles(tiling.keys)
        for chunk in chunk_sizes(max(tiles), most):
            if sum(split_count(size, chunk) * count for size, count in tiles.items()) > MOST_ITEMS:
                break
            for even in (True, False) if len(tiles) > 1 and chunk < max(tiles) else (True,):
                yield Plan(tiling, chunk, direct=False, even=even)
                if tiling == wide and min(tiles) <= chunk < max(tiles):  # some are split, some are not
                    yield Plan(tiling, chunk, direct=True, even=even)
