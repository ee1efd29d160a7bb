"""FlashMLA, DeepSeek's CUDA C++ for Hopper (github.com/deepseek-ai/FlashMLA), where its package is installed.

Its dense decode is for SM90 alone: on SM100 the package has sparse decode only (the support matrix of its README).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cutesnake.model.contract import INSTALLED, Build, Runner, Variant, not_baked
from kernels.mla_decode.operator import PAGE, Inputs, Outputs, Workload
from kernels.upstream.installed import VARIANTS, import_package, nothing_built, on_stream

DSL = "cuda"
SOURCE = INSTALLED
NEEDS = {"flash_mla": "flash_mla"}
TARGETS = {"sm_90a": ("wgmma", "TMA")}
PAGE_SIZE = 64  # the only one that its dense decode takes


@not_baked
def supports(workload: Workload) -> str | None:
    w = workload
    if w.dtype in ("bf16", "fp16") and (w.latent, w.rope, PAGE) == (512, 64, PAGE_SIZE):
        return None
    return (
        f"FlashMLA's dense decode takes bf16 and fp16, latent 512, rope 64 and pages of {PAGE_SIZE} tokens, "
        "with any number of heads and query tokens"
    )


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return VARIANTS


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    return nothing_built("flash_mla")


@not_baked
def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind; ask the package for its schedule once."""
    attention = _Attention(import_package("flash_mla"), workload, inputs, outputs)
    return Runner(attention, finish=attention.finish)


@not_baked
class _Attention:
    """One decode step: the split-KV kernel and the combine; the launches are the package's own.

    The package allocates its outputs itself. `finish` copies them to where the operator wants them, and spoils its
    own: if the next call did not write, that would show.
    """

    def __init__(self, package: Any, workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
        w = workload
        self._decode = package.flash_mla_with_kvcache
        self._inputs = inputs
        self._outputs = outputs
        metadata, splits = package.get_mla_metadata(inputs.kv_lengths, w.query_tokens * w.heads, 1)
        self._arguments = {
            **{"head_dim_v": w.latent, "tile_scheduler_metadata": metadata, "num_splits": splits},
            **{"softmax_scale": inputs.softmax_scale, "causal": w.causal and w.query_tokens > 1},
        }
        self._result = self._call()  # this first call makes the schedule, from the lengths
        self._spoil()

    def __call__(self, stream: int) -> None:
        with on_stream(self._inputs.q, stream):
            self._result = self._call()

    def finish(self) -> None:
        out, lse = self._result
        self._outputs.out.copy_(out)
        self._outputs.lse.copy_(lse.transpose(1, 2))  # [batch, heads, query_tokens], natural logarithm
        self._spoil()

    def _call(self) -> tuple[Any, Any]:
        i = self._inputs
        cache = i.kv_cache.unsqueeze(2)  # [pages, PAGE, one head, latent + rope]
        return self._decode(
            q=i.q, k_cache=cache, block_table=i.page_table, cache_seqlens=i.kv_lengths, **self._arguments
        )

    def _spoil(self) -> None:
        for tensor in self._result:
            tensor.fill_(float("nan"))
