"""The running side of `mla_decode/cutile.py`: how many splits, workspace, grid and arguments. No cuTile here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cutesnake.contract import Runner
from cutesnake.cutile_load import Sequential, TileLaunch, multiprocessors

from kernels.mla_decode.operator import Inputs, Outputs, Workload

# Costs in units of the time that one block takes for one KV tile, fitted to runs on an H200 (README.md).
BLOCK_OVERHEAD = 2.0  # loading the queries, filling the pipeline, writing the result
COMBINE_OVERHEAD = 2.0  # launching the second kernel
COMBINE_PER_SPLIT = 0.05  # reading one more partial result per row
FEW_SPLITS = 8  # up to here `combine` reads share after share; beyond, `combine_many` reads many at a time
LOG2_E = 1.0 / math.log(2.0)


def choose_splits(blocks: int, tiles: int, multiprocessors: int) -> int:
    """How many blocks share the KV tiles of one request: the smallest number of the least estimated time.

    `blocks` is the number of blocks without splitting, `tiles` the KV tiles of the longest request. One block runs on a
    multiprocessor at a time, so the time is the number of waves times the tiles of the longest share; more than one
    split costs the combine as well.
    """

    def time(splits: int) -> float:
        waves = -(-blocks * splits // multiprocessors)
        combine = COMBINE_OVERHEAD + COMBINE_PER_SPLIT * splits if splits > 1 else 0.0
        return waves * (-(-tiles // splits) + BLOCK_OVERHEAD) + combine

    most = max(1, min(tiles, 2 * multiprocessors // blocks))
    return min(range(1, most + 1), key=time)


class Loaded:
    """A build's functions by name of their files, their symbols, the build's parameters, and `combine`'s tile."""

    def __init__(
        self,
        functions: Mapping[str, Any],
        symbols: Mapping[str, str],
        params: Mapping[str, Any],
        combine_tile: tuple[int, int],
    ) -> None:
        self._functions = functions
        self._symbols = symbols
        self._params = params
        self._combine_tile = combine_tile

    def bind(self, workload: Workload, inputs: Inputs, outputs: Outputs, splits: int | None = None) -> Runner:
        """One launch if no request is split, two otherwise. `splits` overrides the rule, for tuning."""
        import torch

        p = self._params
        batch, tokens, heads, width = inputs.q.shape
        rows = tokens * heads
        blocks = -(-rows // p["tile_h"]) * p["parts"]
        if splits is None:
            tiles = -(-workload.kv_length // p["tile_n"])
            splits = choose_splits(blocks * batch, tiles, multiprocessors())
        arrays = [inputs.q.view(batch, rows, width), inputs.kv_cache, inputs.page_table, inputs.kv_lengths]
        out = [outputs.out.view(batch, rows, p["latent"]), outputs.lse.view(batch, rows)]
        numbers = [inputs.softmax_scale * LOG2_E, heads, tokens if workload.causal else 1]
        if splits == 1:
            return Sequential(self._launch("whole", (blocks, batch, 1), arrays + out + numbers))
        device = inputs.q.device
        partial = [
            torch.empty(batch, splits, rows, p["latent"], dtype=torch.float32, device=device),
            torch.empty(batch, splits, rows, dtype=torch.float32, device=device),
        ]
        tile_rows, tile_columns = self._combine_tile
        combine, row_tiles = ("combine", -(-rows // tile_rows)) if splits <= FEW_SPLITS else ("combine_many", rows)
        columns = -(-p["latent"] // tile_columns)
        return Sequential(
            self._launch("kernel", (blocks, batch, splits), arrays + partial + numbers),
            self._launch(combine, (row_tiles, batch, columns), partial + out),
        )

    def _launch(self, stem: str, grid: tuple[int, int, int], values: list[Any]) -> TileLaunch:
        return TileLaunch(self._functions[stem], self._symbols[stem], grid, values)
