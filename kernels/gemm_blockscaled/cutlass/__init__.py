"""NVIDIA's block-scaled GEMM examples in CuTe DSL: what the kernels `cutlass_persistent` to `cutlass_nvfp4_1` share."""
