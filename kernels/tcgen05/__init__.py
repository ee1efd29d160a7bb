"""What kernels for Blackwell's tensor cores share: tcgen05 instructions that CuTe DSL has no function for."""
