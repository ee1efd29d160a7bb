"""What the adapters of NVIDIA's CUTLASS MLA decode examples share: `cutlass_fp16` and `cutlass_fp8`."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cutesnake.contract import Executable, Launch, Runner, Variant
from kernels.mla_decode.operator import Inputs, Outputs, Workload

SOURCE = "flashinfer-python"  # the wheel that carries the examples
EXAMPLES = "flashinfer/data/cutlass/examples/python/CuTeDSL"
TARGETS = {
    "sm_100a": "tcgen05 and tensor memory",
    "sm_103a": "tcgen05 and tensor memory",
}
OUTSIDE = {
    "nan_padding": "NVIDIA's example says nothing of NaN in the cache past a request's end",
    "empty_requests": "NVIDIA's example says nothing of requests without keys",
    "bad_table": "NVIDIA's example says nothing of page-table entries past a request's pages",
}
FUNCTION = "mla_decode"
MAX_ACTIVE_CLUSTERS = 74  # pairs of the 148 SMs of a B200; NVIDIA's example asks the device, which compiling cannot
KEYS_PER_TILE = 128
MAX_SPLITS = 32


def supports(workload: Workload, dtype: str) -> str | None:
    w = workload
    if w.dtype != dtype:
        return f"NVIDIA's example computes in {dtype} only"
    if (w.heads, w.latent, w.rope) != (128, 512, 64):
        return "NVIDIA's example is made for 128 heads, latent 512 and rope 64"
    if w.query_tokens > 4:
        return "NVIDIA's example takes 1 to 4 query tokens"
    if w.causal and w.query_tokens > 1:
        return "NVIDIA's example does not mask among several query tokens"
    return None


def split_count(batch: int, query_tokens: int, kv_length: int) -> int:
    """Splits of the keys by the examples' own rule, `get_split_kv`, whose blocks are single CTAs of clusters of two."""
    tiles = -(-kv_length // KEYS_PER_TILE)
    blocks_per_request = max(1, MAX_ACTIVE_CLUSTERS * 2 // batch // (query_tokens * 2))
    waves = -(-tiles // min(tiles, blocks_per_request))
    return min(-(-tiles // waves), MAX_SPLITS)


def variants(workload: Workload) -> tuple[Variant, ...]:
    """Two builds, as in NVIDIA's own runner: through a workspace where the keys are split, else directly."""
    split = split_count(workload.batch, workload.query_tokens, workload.kv_length) > 1
    return tuple(
        Variant(
            f"{workload.dtype}_{'split' if split else 'direct'}{'' if persistent else '_static'}",
            {
                "dtype": workload.dtype,
                "split": split,
                "persistent": persistent,
                "max_active_clusters": MAX_ACTIVE_CLUSTERS,
            },
        )
        for persistent in (True, False)
    )


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.build import cute as cute_build
    from cutesnake.build.fetch import fetched

    examples = (fetched(SOURCE) / EXAMPLES).resolve()

    def program() -> tuple[Any, tuple[Any, ...]]:
        from kernels.mla_decode.cutlass import program as cutlass_program

        return cutlass_program.program(examples, **variant.params)

    return cute_build.build(program, FUNCTION, target, folder, options="--opt-level 2")  # as NVIDIA's runner does


def load(folder: Path) -> Executable:
    from cutesnake import record
    from cutesnake.load import cute as cute_load

    build = record.read("compile", folder / "build.json")
    return Loaded(cute_load.open_function(folder), build)


class Loaded:
    """The build's function, and what its launches are computed from."""

    def __init__(self, function: Callable[..., None], build: dict[str, Any]) -> None:
        self._function = function
        self._build = build

    def bind(self, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
        """Split count by NVIDIA's rule from the longest request; the workspace is allocated here, once.

        The tensors go in as they are: row-major, 16-byte aligned. The examples return the log-sum-exp to base 2;
        `finish` brings it to base e. Raises ValueError for a page table that the FP8 example would over-read.
        """
        import torch

        from cutesnake.load.cute import Call

        w, params = workload, self._build["variant"]["params"]
        if w.dtype == "fp8" and inputs.page_table.shape[1] % 2:
            raise ValueError(
                "NVIDIA's FP8 example reads page tables two entries at a time: "
                f"their width must be even, not {inputs.page_table.shape[1]}"
            )
        splits = split_count(w.batch, w.query_tokens, w.kv_length) if params["split"] else 1
        workspace = None
        if params["split"]:  # float32, per row and split: the output and its log-sum-exp
            size = w.batch * w.query_tokens * w.heads * splits * (w.latent + 1) * 4
            workspace = torch.empty(size, dtype=torch.int8, device=inputs.q.device)
        tensors = (inputs.q, inputs.kv_cache, inputs.page_table, inputs.kv_lengths, outputs.out, outputs.lse)
        arguments = (*tensors, workspace, splits, inputs.softmax_scale)
        return Call(self._function, arguments, self._launches(w, splits), lambda: outputs.lse.mul_(math.log(2.0)))

    def _launches(self, w: Workload, splits: int) -> tuple[Launch, ...]:
        params = self._build["variant"]["params"]
        rows = w.batch * w.query_tokens
        if params["persistent"]:
            attention = (2 * min(params["max_active_clusters"], rows * splits), 1, 1)
        else:
            attention = (2, rows, splits)
        reduction = (w.heads, w.query_tokens, w.batch)
        grids = [attention, reduction] if params["split"] else [attention]
        return tuple(
            Launch(symbol, grid, tuple(facts["block"]), tuple(facts["cluster"]), facts["dynamic_shared_bytes"])
            for (symbol, grid) in zip(self._build["symbols"], grids, strict=True)
            for facts in [self._build["launch"][symbol]]
        )
