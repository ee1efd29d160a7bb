"""The running side of the kernel `cutile`: tiling, splits, workspace, grid and arguments. No cuTile here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cutesnake.contract import Build, Runner
from cutesnake.load.cutile import TileLaunch, multiprocessors, sequence
from kernels.mla_decode.cutile import COMBINE_TILES, SYMBOLS
from kernels.mla_decode.operator import Inputs, Outputs, Workload

LOG2_E = 1.0 / math.log(2.0)
# Microseconds on an H200, fitted to the runs that README.md tells of; elsewhere only their proportions count.
TILE_US, TILE_PRODUCT_US = 0.35, 0.31e-6  # a KV tile: barriers and latencies, and per multiplication
BLOCK_US, BLOCK_BYTE_US = 4.6, 12.5e-6  # a block: launch and pipeline fill, and per byte of queries and results
COMBINE_US, COMBINE_SPLIT_US, COMBINE_BYTE_US = 2.5, 0.1, 0.4e-6  # the second launch; per split or per byte, the larger
MANY_SPLITS, FEW_ROWS = 8, 512  # `combine_many` is the faster one for more splits than this of fewer rows than this


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
        """Blocks per request and split, for `rows` query rows."""
        return math.ceil(rows / self.rows) * self.parts


@dataclass(frozen=True)
class Plan:
    """What to launch: `stem` names the device function, `splits` counts the blocks that share a request's keys."""

    stem: str
    tiling: Tiling
    splits: int


@dataclass(frozen=True)
class Problem:
    """Sizes that a plan depends on: `length` is the longest request in tokens."""

    batch: int
    rows: int
    length: int
    latent: int
    rope: int


def choose_plan(problem: Problem, wide: Tiling, narrow: Tiling, multiprocessors: int) -> Plan:
    """The plan of the least estimated time, by `estimate_us`; the fewer splits of two alike."""
    plans = candidates(problem, wide, narrow, multiprocessors)
    return min(plans, key=lambda plan: (estimate_us(problem, plan, multiprocessors), plan.splits))


def candidates(problem: Problem, wide: Tiling, narrow: Tiling, multiprocessors: int) -> Iterator[Plan]:
    """No split, or splits up to two waves of blocks and never more than tiles, in either tiling."""
    for suffix, tiling in (("", wide), ("_narrow", narrow)):
        yield Plan(f"whole{suffix}", tiling, 1)
        tiles = math.ceil(problem.length / tiling.keys)
        most = 2 * multiprocessors // (tiling.blocks(problem.rows) * problem.batch)
        for splits in range(2, min(tiles, most) + 1):
            yield Plan(f"kernel{suffix}", tiling, splits)


def estimate_us(problem: Problem, plan: Plan, multiprocessors: int) -> float:
    """Waves of one block per multiprocessor, each as long as the longest share, and the combine if there is one."""
    tiling, latent = plan.tiling, problem.latent
    width = latent // tiling.parts
    products = tiling.rows * tiling.keys * (latent + problem.rope + width)
    block_bytes = tiling.rows * (2 * (latent + problem.rope) + (2 if plan.splits == 1 else 4) * width)
    waves = math.ceil(tiling.blocks(problem.rows) * problem.batch * plan.splits / multiprocessors)
    tiles = math.ceil(math.ceil(problem.length / tiling.keys) / plan.splits)
    attention = waves * (BLOCK_US + BLOCK_BYTE_US * block_bytes + tiles * (TILE_US + TILE_PRODUCT_US * products))
    if plan.splits == 1:
        return attention
    partial_bytes = 4 * problem.batch * plan.splits * problem.rows * latent
    return attention + COMBINE_US + max(COMBINE_SPLIT_US * plan.splits, COMBINE_BYTE_US * partial_bytes)


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs, plan: Plan | None = None) -> Runner:
    """One launch if no request is split, two otherwise. `plan` overrides `choose_plan`, for tuning."""
    import torch

    batch, tokens, heads, width = inputs.q.shape
    rows, latent = tokens * heads, build.params["latent"]
    if plan is None:
        problem = Problem(batch, rows, workload.kv_length, latent, build.params["rope"])
        tilings = Tiling.of(build.params, "wide"), Tiling.of(build.params, "narrow")
        plan = choose_plan(problem, *tilings, multiprocessors())
    arrays = [inputs.q.view(batch, rows, width), inputs.kv_cache, inputs.page_table, inputs.kv_lengths]
    out = [outputs.out.view(batch, rows, latent), outputs.lse.view(batch, rows)]
    numbers = [inputs.softmax_scale * LOG2_E, heads, tokens if workload.causal else 1]
    grid = (plan.tiling.blocks(rows), batch, plan.splits)
    if plan.splits == 1:
        return sequence(_launch(build, plan.stem, grid, arrays + out + numbers))
    partial = [
        torch.empty(batch, plan.splits, rows, latent, dtype=torch.float32, device=inputs.q.device),
        torch.empty(batch, plan.splits, rows, dtype=torch.float32, device=inputs.q.device),
    ]
    many = plan.splits > MANY_SPLITS and batch * rows < FEW_ROWS
    combine = "combine_many" if many else "combine"
    _, tile_rows, tile_columns = COMBINE_TILES[combine]
    combine_grid = (math.ceil(rows / tile_rows), batch, math.ceil(latent / tile_columns))
    return sequence(
        _launch(build, plan.stem, grid, arrays + partial + numbers),
        _launch(build, combine, combine_grid, partial + out, overlap=True),
    )


def _launch(
    build: Build, stem: str, grid: tuple[int, int, int], values: list[Any], overlap: bool = False
) -> TileLaunch:
    return TileLaunch(build.cubin_function(stem, SYMBOLS[stem]), SYMBOLS[stem], grid, values, overlap)
