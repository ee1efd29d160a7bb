"""Two functions of numpy without the Python code around them, which takes several times as long on 32 lanes."""

from __future__ import annotations

import numpy as np

try:
    from numpy._core.multiarray import count_nonzero
except ImportError:  # a numpy that has it elsewhere
    count_nonzero = np.count_nonzero

__all__ = ["count_nonzero", "flatnonzero"]


def flatnonzero(array: np.ndarray) -> np.ndarray:
    """Return the places of what is not zero in an array of one dimension."""
    return array.nonzero()[0]
