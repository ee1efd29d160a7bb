"""NVIDIA's dense GEMM examples in CuTe DSL: what the kernels `cutlass_dense` to `cutlass_sm90_persistent` share."""
