"""`tensor_products` in CuTe DSL by a pair of CTAs, 256 rows of D."""

from functools import partial

from kernels.tensor_products.cute import adapter
from kernels.tensor_products.cute.adapter import TARGETS, bind, compile, supports

DSL = "cute"
SOURCE = "ours"
variants = partial(adapter.variants, 2)
