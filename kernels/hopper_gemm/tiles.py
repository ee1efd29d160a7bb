"""What host and device code of the Hopper products agree on."""

BAND = 8  # rows of tiles that neighbouring CTAs share, so that what they load stays in L2
BLOCK = 128  # elements along K, and along N of B, that share a scale
ROW_BYTES = 128  # of a stage's rows, along K, unless weights have fewer bits
WARPGROUP_ROWS = 64
SHARED_BYTES = 232_448  # of a multiprocessor, for all its CTAs
RESERVED_BYTES = 2_048  # of a CTA: mbarriers, alignment, the system's own
MOST_STAGES = 8


def stages(stage_bytes: int, occupancy: int) -> int:
    """Return how many stages of a ring fit."""
    return min(MOST_STAGES, (SHARED_BYTES // occupancy - RESERVED_BYTES) // stage_bytes)
