"""Which operations of the hardware the catalogue's kernels use: read off builds, counted in simulated launches."""
