"""NVIDIA's CUTLASS example `blackwell/mixed_input_fmha/mixed_input_fmha_prefill_d256.py`: unmodified."""

from kernels.fmha_mixed_prefill.cutlass.adapter import TARGETS, Example
from kernels.upstream.examples import SOURCE

DSL = "cute"
EXAMPLE = Example(
    "blackwell.mixed_input_fmha.mixed_input_fmha_prefill_d256", "MixedInputFusedMultiHeadAttentionPrefillD256", 256
)
supports, variants, compile, bind = EXAMPLE.supports, EXAMPLE.variants, EXAMPLE.compile, EXAMPLE.bind
