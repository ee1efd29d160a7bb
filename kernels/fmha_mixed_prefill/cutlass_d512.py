"""NVIDIA's CUTLASS example `blackwell/mixed_input_fmha/mixed_input_fmha_prefill_d512.py`: unmodified."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutesnake.model.contract import Variant, not_baked
from kernels.fmha_mixed_prefill.cutlass import adapter
from kernels.fmha_mixed_prefill.cutlass.adapter import TARGETS, bind
from kernels.upstream.examples import SOURCE

if TYPE_CHECKING:
    from kernels.fmha_mixed_prefill.operator import Workload

__all__ = ["DSL", "SOURCE", "TARGETS", "bind", "compile", "supports", "variants"]

DSL = "cute"
WIDTH = 512
PATH = "blackwell.mixed_input_fmha.mixed_input_fmha_prefill_d512"
NAME = "MixedInputFusedMultiHeadAttentionPrefillD512"


@not_baked
def supports(workload: Workload) -> str | None:
    return adapter.supports(workload, WIDTH)


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return adapter.variants(workload, WIDTH)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    return adapter.compile(PATH, NAME, variant, target, folder)
