"""NVIDIA's tutorial on GEMM for SM100 in CuTe DSL: what its steps, `cutlass_0` to `cutlass_6`, share."""
