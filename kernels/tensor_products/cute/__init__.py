"""`tensor_products` in CuTe DSL: what the kernels `cute_pair` and `cute_single` share, device code included."""
