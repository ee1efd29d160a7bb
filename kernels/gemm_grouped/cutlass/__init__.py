"""NVIDIA's grouped GEMM examples in CuTe DSL: what the kernels `cutlass_sm100` and `cutlass_blockscaled` share."""
