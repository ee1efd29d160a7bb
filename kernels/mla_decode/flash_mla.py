"""FlashMLA, DeepSeek's CUDA C++ for Hopper (github.com/deepseek-ai/FlashMLA), where its package is installed.

Its dense decode is for SM90 alone: on SM100 the package has sparse decode only (the support matrix of its README).
"""

from functools import partial

from cutesnake.model.contract import INSTALLED, Build, Runner
from kernels.mla_decode.operator import PAGE, Inputs, Outputs, Workload
from kernels.upstream.installed import copying_runner, import_package, nothing_built, variants

DSL = "cuda"
SOURCE = INSTALLED
NEEDS = {"flash_mla": "flash_mla"}
TARGETS = {"sm_90a": ("wgmma", "TMA")}
PAGE_SIZE = 64  # the only one that its dense decode takes
compile = partial(nothing_built, "flash_mla")


def supports(workload: Workload) -> str | None:
    w = workload
    if w.dtype in ("bf16", "fp16") and (w.latent, w.rope, PAGE) == (512, 64, PAGE_SIZE):
        return None
    return (
        f"FlashMLA's dense decode takes bf16 and fp16, latent 512, rope 64 and pages of {PAGE_SIZE} tokens, "
        "with any number of heads and query tokens"
    )


def bind(build: Build, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
    """Bind the split-KV kernel and the combine, whose launches are the package's own.

    The first call, which is made here, makes the schedule, from the lengths.
    """
    package, w, i = import_package("flash_mla"), workload, inputs
    metadata, splits = package.get_mla_metadata(i.kv_lengths, w.query_tokens * w.heads, 1)
    arguments = {
        **{"q": i.q, "k_cache": i.kv_cache.unsqueeze(2), "block_table": i.page_table, "cache_seqlens": i.kv_lengths},
        **{"head_dim_v": w.latent, "tile_scheduler_metadata": metadata, "num_splits": splits},
        **{"softmax_scale": i.softmax_scale, "causal": w.causal and w.query_tokens > 1},
    }
    lse = outputs.lse.transpose(1, 2)  # the package's is [batch, heads, query_tokens], natural logarithm
    return copying_runner(i.q, lambda: package.flash_mla_with_kvcache(**arguments), outputs.out, lse, warm=True)
