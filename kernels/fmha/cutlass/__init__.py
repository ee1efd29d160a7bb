"""NVIDIA's CUTLASS attention examples: what the kernels `cutlass_sm90` and `cutlass_sm100` share."""
