"""The tile of `async_copies` in CuTe DSL, which host and device code agree on."""

ROWS, COLUMNS = 32, 64  # of a CTA's tile
