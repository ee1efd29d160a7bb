"""PTX as data: modules, kernels, instructions, operands, basic blocks (public)."""

from .frontend.code import Block, Code, unguarded
from .frontend.parser import Module
from .frontend.syntax import Imm, Instruction, Kernel, Mem, Operand, Pair, PtxError, Reg, Special, Sym, Vec

__all__ = [
    "Block",
    "Code",
    "Imm",
    "Instruction",
    "Kernel",
    "Mem",
    "Module",
    "Operand",
    "Pair",
    "PtxError",
    "Reg",
    "Special",
    "Sym",
    "Vec",
    "unguarded",
]
