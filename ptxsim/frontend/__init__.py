"""PTX text to Python: reading, code generation, data-flow analyses, and the cache of translated kernels."""
