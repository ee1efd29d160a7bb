"""NVIDIA's CUTLASS example `mla_decode_fp16` for SM100, in CuTe DSL: unmodified, from the fetched wheel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Variant, not_baked
from kernels.mla_decode.cutlass import adapter
from kernels.mla_decode.cutlass.adapter import TARGETS, UNSUPPORTED, bind
from kernels.upstream.examples import SOURCE

if TYPE_CHECKING:
    from kernels.mla_decode.operator import Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "UNSUPPORTED", "bind", "compile", "supports", "variants"]

DSL = "cute"


@not_baked
def supports(workload: Workload) -> str | None:
    return adapter.supports(workload, "fp16")


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return adapter.variants(workload)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    return adapter.compile(variant, target, folder)
