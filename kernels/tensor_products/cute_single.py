"""`tensor_products` in CuTe DSL by single CTAs, 128 rows of D."""

from functools import partial

from kernels.tensor_products.cute import adapter
from kernels.tensor_products.cute.adapter import TARGETS, bind, compile, supports

DSL = "cute"
SOURCE = "ours"
variants = partial(adapter.variants, 1)
