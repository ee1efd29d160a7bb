"""The groups of benchmarks, each a module with `NAME`, `kernels()` and `benchmarks()`."""
