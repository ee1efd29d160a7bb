"""What the steps `cutlass_0` to `cutlass_6` of NVIDIA's SM100 GEMM tutorial share."""
