"""NVIDIA's CUTLASS examples of attention over int8 keys and values: what `cutlass_d256` and `cutlass_d512` share."""
