"""`async_copies` in CuTe DSL: what the kernels `cute_l2` and `cute_descriptor` share, device code included."""
