"""What the adapters of TileGym's MLA decode kernels support, and views of inputs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cutesnake.model.contract import not_baked
from kernels.mla_decode.operator import Inputs, Workload

if TYPE_CHECKING:
    import torch

LN_2 = math.log(2.0)


@not_baked
def supports(workload: Workload) -> str | None:
    """One query token, 16-bit values and a contiguous cache of equal lengths."""
    w = workload
    if w.dtype == "fp8":
        return "TileGym's MLA decode is written for 16-bit types"
    if w.paged:
        return "TileGym's MLA decode reads a contiguous cache, not a paged one"
    if w.lengths != "full":
        return "TileGym's MLA decode takes requests of one length"
    if w.query_tokens != 1:
        return "TileGym's MLA decode takes one query token"
    if w.heads % 16:
        return "TileGym's MLA decode takes heads in tiles of 16"
    for name in ("latent", "rope"):
        if getattr(w, name) & (getattr(w, name) - 1):
            return f"{name} is {getattr(w, name)}: TileGym's MLA decode takes powers of two"
    return None


@not_baked
def views(workload: Workload, inputs: Inputs) -> tuple[torch.Tensor, ...]:
    """View q, q_rope [batch, heads, ...] and latent and rope [batch, kv_length, ...].

    Latent and rope are columns of the cache; nothing is copied. Pages in order make the cache contiguous; the rows that
    pad the last page of a request are cut off. Raises ValueError if requests differ in length or pages are out of
    order.
    """
    import torch

    w = workload
    pages = torch.arange(inputs.page_table.numel(), device=inputs.page_table.device)
    if bool((inputs.page_table.flatten() != pages).any()):
        raise ValueError("TileGym's kernels need the pages of the cache in order")
    if bool((inputs.kv_lengths != w.kv_length).any()):
        raise ValueError(f"TileGym's kernels need every request to be {w.kv_length} tokens long")
    q = inputs.q[:, 0]
    cache = inputs.kv_cache.view(w.batch, -1, w.latent + w.rope)[:, : w.kv_length]
    return q[..., : w.latent], q[..., w.latent :], cache[..., : w.latent], cache[..., w.latent :]
