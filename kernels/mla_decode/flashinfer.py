"""FlashInfer's MLA decode (github.com/flashinfer-ai/flashinfer), where its package `flashinfer` is installed.

`BatchMLAPagedAttentionWrapper` with the backend fa3, CUDA C++ for Hopper, which its own policy prefers there. For
SM100 the wrapper chooses among other backends, some of which fetch binaries; none could be tried, so none is adapted.
"""

from __future__ import annotations

import os
import pwd
from functools import partial
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import INSTALLED, Build, Runner, not_baked
from kernels.mla_decode.operator import PAGE, Inputs, Outputs, Workload
from kernels.upstream.installed import import_package, nothing_built, on_stream, variants

if TYPE_CHECKING:
    import torch

DSL = "cuda"
SOURCE = INSTALLED
NEEDS = {"flashinfer": "flashinfer-python"}
TARGETS = {"sm_90a": ("wgmma", "TMA")}
UNSUPPORTED = {
    "nan_padding": "FlashInfer's documentation says nothing of NaN in the cache past a request's end",
    "empty_requests": "FlashInfer's documentation says nothing of requests without keys",
}
BACKEND = "fa3"
WORKSPACE_BYTES = 128 << 20  # what the wrapper's documentation advises
COMPILED = "FLASHINFER_WORKSPACE_BASE"  # below it, in .cache/flashinfer, the package keeps what it has compiled
# It compiles its kernel when it is first asked for it, or brings it along.
compile = partial(nothing_built, "flashinfer")


def supports(workload: Workload) -> str | None:
    w = workload
    if w.dtype in ("bf16", "fp16") and (w.latent, w.rope) == (512, 64):
        return None
    return (
        "FlashInfer's fa3 MLA decode takes bf16 and fp16, latent 512 and rope 64, "
        "with any number of heads, query tokens and tokens per page"
    )


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind; ValueError for several query tokens of lengths that the package refuses."""
    # A profiler's process has a HOME of its own; what the package has compiled is in the user's.
    os.environ.setdefault(COMPILED, pwd.getpwuid(os.getuid()).pw_dir)
    return Runner(_Attention(import_package("flashinfer.mla"), workload, inputs, outputs))


@not_baked
class _Attention:
    """One decode step; the launches are the package's own.

    The package reads page indices without the unused ends of the table's rows. Where no row has one the table itself
    serves; else the first thing that a call does is to gather them.
    """

    def __init__(self, package: Any, workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
        import torch

        w = workload
        device = inputs.q.device
        used = -(-inputs.kv_lengths // PAGE)  # pages of each request
        self._table = inputs.page_table.view(-1)
        self._places: torch.Tensor | None = None
        self._indices = self._table
        if int(used.min()) < inputs.page_table.shape[1]:
            column = torch.arange(inputs.page_table.shape[1], device=device)
            self._places = (column < used[:, None]).view(-1).nonzero().view(-1)
            self._indices = self._table[self._places]
        queries = torch.arange(w.batch + 1, dtype=torch.int32, device=device) * w.query_tokens
        pages = torch.cat([used.new_zeros(1), used.cumsum(0)]).to(torch.int32)
        reserved = {"qo_indptr": queries, "kv_indptr": pages, "kv_len_arr": inputs.kv_lengths.clone()}
        reserved["kv_indices"] = self._indices
        self._wrapper = package.BatchMLAPagedAttentionWrapper(
            torch.empty(WORKSPACE_BYTES, dtype=torch.int8, device=device),
            **{"backend": BACKEND, "use_cuda_graph": True, **reserved},  # it then reads these very tensors
        )
        self._wrapper.plan(
            metadata=package.MLAPlanMetadata.csr(**reserved),
            **{"num_heads": w.heads, "head_dim_ckv": w.latent, "head_dim_kpe": w.rope, "page_size": PAGE},
            **{"causal": w.causal and w.query_tokens > 1, "sm_scale": inputs.softmax_scale},
            **{"q_data_type": inputs.q.dtype, "kv_data_type": inputs.q.dtype, "lse_mode": "basee"},
        )
        rows = w.batch * w.query_tokens
        self._arguments = {
            **{"query": inputs.q.view(rows, w.heads, -1), "kv_cache": inputs.kv_cache},
            **{"out": outputs.out.view(rows, w.heads, -1), "lse": outputs.lse.view(rows, w.heads)},
            **{"return_lse": True, "return_lse_base_on_e": True},
        }

    def __call__(self, stream: int) -> None:
        import torch

        with on_stream(self._table, stream):
            if self._places is not None:
                torch.index_select(self._table, 0, self._places, out=self._indices)
            self._wrapper.run(**self._arguments)
