"""What the adapters of NVIDIA's CUTLASS MLA decode examples share: `cutlass_fp16` and `cutlass_fp8`."""

import math

from cutesnake.model.contract import Build, Launch, Runner, Variant, not_baked
from kernels.mla_decode.operator import Inputs, Outputs, Workload
from kernels.programs import compile_program
from kernels.targets import BLACKWELL as TARGETS

UNSUPPORTED = {
    "nan_padding": "NVIDIA's example says nothing of NaN in the cache past a request's end",
    "empty_requests": "NVIDIA's example says nothing of requests without keys",
    "bad_table": "NVIDIA's example says nothing of page-table entries past a request's pages",
}
MAX_ACTIVE_CLUSTERS = 74  # pairs of the 148 SMs of a B200; NVIDIA's example asks the device, which compiling cannot
KEYS_PER_TILE = 128
MAX_SPLITS = 32
# Options as in NVIDIA's runner.
compile = compile_program("kernels.mla_decode.cutlass.program:program", "mla_decode", options="--opt-level 2")


@not_baked
def supports(dtype: str, workload: Workload) -> str | None:
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


def split_count(batch: int, query_tokens: int, kv_length: int, clusters: int = MAX_ACTIVE_CLUSTERS) -> int:
    """Return the number of splits by the examples' rule `get_split_kv`.

    Its blocks are single CTAs of clusters of two. `clusters` is how many of them run at once on the GPU.
    """
    tiles = -(-kv_length // KEYS_PER_TILE)
    blocks_per_request = max(1, clusters * 2 // batch // (query_tokens * 2))
    waves = -(-tiles // min(tiles, blocks_per_request))
    return min(-(-tiles // waves), MAX_SPLITS)


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a persistent and a static build; split keys go through a workspace."""
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


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind with a split count by NVIDIA's rule, at least one pair of CTAs.

    The rule takes the longest request and the GPU's multiprocessors. The workspace is allocated here, once.

    The tensors go in as they are: row-major, 16-byte aligned. The examples return the log-sum-exp to base 2;
    `finish` brings it to base e. Raises ValueError for a page table that the FP8 example would over-read.
    """
    import torch

    from cutesnake.stages.load.cute import Call, multiprocessors

    w, device = workload, inputs.q.device
    if w.dtype == "fp8" and inputs.page_table.shape[1] % 2:
        raise ValueError(
            "NVIDIA's FP8 example reads page tables two entries at a time: "
            f"their width must be even, not {inputs.page_table.shape[1]}"
        )
    clusters = max(1, multiprocessors(device) // 2)
    splits = split_count(w.batch, w.query_tokens, w.kv_length, clusters) if build.params["split"] else 1
    workspace = None
    if build.params["split"]:  # float32, per row and split: the output and its log-sum-exp
        size = w.batch * w.query_tokens * w.heads * splits * (w.latent + 1) * 4
        workspace = torch.empty(size, dtype=torch.int8, device=device)
    tensors = (inputs.q, inputs.kv_cache, inputs.page_table, inputs.kv_lengths, outputs.out, outputs.lse)
    values = (*tensors, workspace, splits, inputs.softmax_scale)
    return Runner(Call(build.function(), values), _launches(build, w, splits), lambda: outputs.lse.mul_(math.log(2.0)))


@not_baked
def _launches(build: Build, w: Workload, splits: int) -> tuple[Launch, ...]:
    params = build.params
    rows = w.batch * w.query_tokens
    if params["persistent"]:
        attention = (2 * min(params["max_active_clusters"], rows * splits), 1, 1)
    else:
        attention = (2, rows, splits)
    reduction = (w.heads, w.query_tokens, w.batch)
    grids = [attention, reduction] if params["split"] else [attention]
    return tuple(build.launch(symbol, grid) for symbol, grid in zip(build.symbols, grids, strict=True))
