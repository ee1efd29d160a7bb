"""Baseline of MLA decode in plain PyTorch.

`scaled_dot_product_attention` has no fused kernel for a head of 576: on an H200 its memory-efficient backend took
456 us and its math backend 1,712 us (batch 32, kv 4096, bf16). So this is what the baseline does: matrix product,
softmax, matrix product, in 313 us. Scores are float32; in 16 bits it would take 255 us, but a score of 9, which decides
whether one key has a third or a half of a head's weight, would be off by up to 0.03: too much where few heads count.

Where a request ends before its last page does, the cache is copied with zeros past the end: a NaN there, times a weight
of 0, would reach the output.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutesnake.model.contract import Build, Runner, not_baked
from kernels.mla_decode.operator import PAGE, Inputs, Outputs, Workload
from kernels.upstream.pytorch import SOURCE, TARGETS, compile, runner, variants

if TYPE_CHECKING:
    import torch

DSL = "torch"


def supports(workload: Workload) -> str | None:
    if workload.dtype == "fp8":
        return "PyTorch has no batched matrix product in fp8"
    return None


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Which kernels PyTorch's libraries choose is theirs: the runner names no launches."""
    import torch

    w, i, rows = workload, inputs, workload.query_tokens * workload.heads
    position = torch.arange(w.pages_per_request * PAGE, device=i.q.device)
    token = torch.arange(w.query_tokens, device=i.q.device)
    shortest = int(i.kv_lengths.min())
    padded = shortest < len(position)
    some_keyless = shortest < (w.query_tokens if w.causal else 1)

    def gathered() -> torch.Tensor:
        """Gather keys [batch, keys, latent + rope] from pages, zeros past a request's end."""
        cache = i.kv_cache
        past = position >= i.kv_lengths[:, None]  # [batch, keys]
        if w.paged:
            table = i.page_table[:, : w.pages_per_request]
            cache = cache[table.masked_fill(past[:, ::PAGE], 0).long()]  # past a request's pages anything may stand
        keys = cache.view(w.batch, -1, w.latent + w.rope)
        return keys.masked_fill(past[:, :, None], 0.0) if padded else keys

    def call() -> None:
        keys = gathered()
        q = i.q.view(w.batch, rows, w.latent + w.rope)
        limit = i.kv_lengths[:, None].expand(-1, w.query_tokens)
        if w.causal:
            limit = limit - (w.query_tokens - 1) + token
        hidden = position >= limit[:, :, None, None]  # [batch, query_tokens, 1, keys]
        mask = torch.zeros_like(hidden, dtype=torch.float32).masked_fill_(hidden, float("-inf"))
        mask = mask.expand(-1, -1, w.heads, -1).reshape(w.batch, rows, -1)
        scores = _scores(mask, q, keys.mT, i.softmax_scale)
        weights = torch.softmax(scores, dim=-1)
        # The largest weight is exp(largest score - lse): the log-sum-exp for two cheap reductions.
        lse = scores.amax(-1) - weights.amax(-1).log()
        if some_keyless:
            keyless = scores.amax(-1) == float("-inf")
            lse.masked_fill_(keyless, float("inf"))
            weights.masked_fill_(keyless[..., None], 0.0)
        outputs.lse.copy_(lse.view_as(outputs.lse))
        torch.bmm(weights.to(q.dtype), keys[:, :, : w.latent], out=outputs.out.view(w.batch, rows, w.latent))

    return runner(i.q, call)


@not_baked
def _scores(mask: torch.Tensor, q: torch.Tensor, keys: torch.Tensor, scale: float) -> torch.Tensor:
    """Return mask + scale * q @ keys in float32, on GPUs by one call."""
    import torch

    if q.is_cuda:
        return torch.baddbmm(mask, q, keys, torch.float32, alpha=scale)
    return torch.baddbmm(mask, q.float(), keys.float(), alpha=scale)
