"""tcgen05 instructions that CuTe DSL has no function for."""
