"""The tile of `tensor_products` in CuTe DSL, which host and device code agree on."""

ROWS, COLUMNS = 128, 256  # of D, per CTA and of its tile
STAGE_BYTES = 128  # of K
