"""Decoders for TMA descriptors and for matrix descriptors of operands (public)."""

from .memory.matrix_operand import matrix
from .memory.tensor_map import TensorMap, decode

__all__ = ["TensorMap", "decode", "matrix"]
