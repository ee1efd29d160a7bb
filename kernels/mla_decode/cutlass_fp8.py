"""NVIDIA's CUTLASS example `mla_decode_fp8` for SM100, in CuTe DSL: unmodified, from the fetched wheel."""

from functools import partial

from kernels.mla_decode.cutlass import adapter
from kernels.mla_decode.cutlass.adapter import TARGETS, UNSUPPORTED, bind, compile, variants
from kernels.upstream.examples import SOURCE

DSL = "cute"
supports = partial(adapter.supports, "fp8")
