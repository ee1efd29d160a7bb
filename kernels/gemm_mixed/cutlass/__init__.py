"""NVIDIA's mixed-input GEMMs in CuTe DSL: what the kernels of `gemm_mixed` and `gemm_mixed_grouped` share."""
