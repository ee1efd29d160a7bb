"""NVIDIA's CUTLASS MLA decode examples: what the kernels `cutlass_fp16` and `cutlass_fp8` share."""
