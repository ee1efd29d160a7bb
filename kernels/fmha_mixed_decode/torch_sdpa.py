"""PyTorch's `scaled_dot_product_attention` on the dequantized cache: the baseline a user has without own kernels.

A call dequantizes the whole cache to bf16 first, as there is no call that reads it as it is.
"""

from kernels.fmha_mixed_decode.operator import Inputs, Outputs, Workload, dequantized
from kernels.upstream.pytorch import SOURCE, TARGETS, baseline, compile, supports, variants

DSL = "torch"


@baseline
def bind(workload: Workload, inputs: Inputs, outputs: Outputs) -> None:
    from torch.nn.functional import scaled_dot_product_attention

    i, gqa = inputs, workload.group > 1
    k, v = (dequantized(*cache).to(i.q.dtype) for cache in ((i.k, i.k_scale), (i.v, i.v_scale)))
    result = scaled_dot_product_attention(i.q[:, :, None], k, v, scale=i.softmax_scale, enable_gqa=gqa)
    outputs.out.copy_(result[:, :, 0])
