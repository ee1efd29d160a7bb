"""Two numpy functions without their Python wrappers, which dominate the time on 32 lanes."""

import numpy as np

try:
    from numpy._core.multiarray import count_nonzero
except ImportError:  # other numpy versions
    count_nonzero = np.count_nonzero

__all__ = ["count_nonzero", "flatnonzero"]


def flatnonzero(array: np.ndarray) -> np.ndarray:
    """Return the indices of the nonzero elements of a one-dimensional array."""
    return array.nonzero()[0]
