"""`tensor_products` in CuTe DSL by single CTAs, 128 rows of D.

The kernel is this project's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutesnake.model.contract import Variant
from kernels.tensor_products.cute.adapter import TARGETS, bind, compile, supports

if TYPE_CHECKING:
    from kernels.tensor_products.operator import Workload

DSL = "cute"
SOURCE = "ours"
CTAS = 1  # that make a product together


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Return a build per kind of product, which serves every size."""
    return (Variant(f"{workload.dtype}_cta{CTAS}", {"dtype": workload.dtype, "ctas": CTAS}),)
