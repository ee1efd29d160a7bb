"""NVIDIA's CUTLASS example `mla_decode_fp8` for SM100, in CuTe DSL: unmodified, from the fetched wheel."""

from pathlib import Path
from typing import Any

from cutesnake.contract import Variant
from kernels.mla_decode.cutlass import adapter as cutlass_adapter
from kernels.mla_decode.cutlass.adapter import OUTSIDE, SOURCE, TARGETS, load
from kernels.mla_decode.operator import Workload

__all__ = ["DSL", "OUTSIDE", "SOURCE", "TARGETS", "compile", "load", "supports", "variants"]

DSL = "cute"


def supports(workload: Workload) -> str | None:
    return cutlass_adapter.supports(workload, "fp8")


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return cutlass_adapter.variants(workload)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    return cutlass_adapter.compile(variant, target, folder)
