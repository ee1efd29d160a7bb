"""What NVIDIA's grouped GEMM for Hopper (CUTLASS 4.5) lacks under CuTe DSL 4.8.1.

It imports an enumeration that has another name since, and calls an operation of the compiler's with an argument that is
no more. It calls it in one of two ways to load tiles; the other one, by `cute.copy`, is chosen by a switch of its own.
The choice is a branch whose both sides are traced, so that the side not taken must be one that can be.
"""

from typing import Any


def give_names_back() -> None:
    """Let the example be imported."""
    from cutlass._mlir.dialects import _nvvm_enum_gen as names

    if not hasattr(names, "CpAsyncBulkTensorLoadMode"):
        names.CpAsyncBulkTensorLoadMode = names.TMALoadMode


def load_by_copies(example: Any) -> None:
    """Set the example's switch to `cute.copy`, and leave the other side empty."""
    example._ENABLE_NVVM_NON_MCAST_LOAD = False
    example._tma_load_ab_nvvm_no_mcast = lambda *_, **__: None
