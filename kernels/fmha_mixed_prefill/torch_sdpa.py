"""PyTorch's `scaled_dot_product_attention` on dequantized keys and values: the baseline without own kernels.

A call dequantizes both to bf16 first, as there is no call that reads them as they are.
"""

from kernels.fmha_mixed_decode.operator import dequantized
from kernels.fmha_mixed_prefill.operator import Inputs, Outputs, Workload
from kernels.upstream.pytorch import SOURCE, TARGETS, baseline, compile, supports, variants

DSL = "torch"


@baseline
def bind(workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
    from torch.nn.functional import scaled_dot_product_attention

    w, i = workload, inputs
    k, v = (dequantized(*pair).to(i.q.dtype) for pair in ((i.k, i.k_scale), (i.v, i.v_scale)))
    result = scaled_dot_product_attention(i.q, k, v, is_causal=w.causal, scale=i.softmax_scale, enable_gqa=w.group > 1)
    outputs.out.copy_(result)
