"""Hardware operations that kernels use, from builds and simulated launches."""
