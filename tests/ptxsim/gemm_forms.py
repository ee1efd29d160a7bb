"""Forms of NVIDIA's GEMM examples that exercise the simulator.

Builds of the catalogue with parameters of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


def _params(
    dtype: str,
    output: str,
    tile: tuple[int, int],
    pair: bool = False,
    sums: str = "fp32",
    mn: bool = False,
    tma_store: bool = True,
    cluster: tuple[int, int] = (1, 1),
) -> dict[str, Any]:
    """Parameters of a variant of `gemm`; `mn` for operands whose M and N are contiguous.

    Four clusters at most, so that the persistent kernels give each several tiles at small sizes.
    """
    majors = {"a_major": "m" if mn else "k", "b_major": "n" if mn else "k"}
    along_m, along_n = (2, 1) if pair else cluster
    clusters = {"cluster_m": along_m, "cluster_n": along_n, "most_clusters": 4}
    types = {"dtype": dtype, "output": output, "sums": sums}
    return {**types, **majors, "tile_m": tile[0], "tile_n": tile[1], "pair": pair, "tma_store": tma_store, **clusters}


PERSISTENT = {
    "pair": _params("bf16", "bf16", (256, 128), pair=True),
    "single": _params("bf16", "bf16", (128, 64), tma_store=False),
    "mn": _params("fp16", "fp16", (256, 128), pair=True, mn=True),
    "half": _params("fp16", "fp16", (128, 128), sums="fp16"),
    "tf32": _params("tf32", "fp32", (128, 64)),
    "tf32_mn": _params("tf32", "fp32", (128, 64), mn=True),
    "int8": _params("int8", "int32", (64, 64), sums="int32"),
    "fp8_mn": _params("e5m2", "fp16", (128, 128), pair=True, mn=True),
}
HOPPER = {
    "f16": _params("fp16", "fp16", (128, 128)),
    "f16_wide": _params("fp16", "fp32", (128, 256)),
    "f16_mn_cluster": _params("fp16", "fp16", (128, 128), mn=True, cluster=(2, 1)),
    "f16_half": _params("fp16", "fp16", (64, 64), sums="fp16", cluster=(1, 2)),
    "e4m3": _params("fp8", "fp16", (128, 64)),
    "e5m2_cluster": _params("e5m2", "fp32", (64, 128), cluster=(2, 2)),
    "s8": _params("int8", "int32", (128, 128), sums="int32"),
}
STEPS = {"": {"most_clusters": 4}}
# name -> operator, kernel, target, forms
FORMS: dict[str, tuple[str, str, str, dict[str, dict[str, Any]]]] = {
    "persistent_gemm": ("gemm", "cutlass_persistent", "sm_100a", PERSISTENT),
    "hopper_gemm": ("gemm", "cutlass_sm90", "sm_90a", HOPPER),
    **{f"fp16_gemm_{step}": ("tutorial_gemm", f"cutlass_{step}", "sm_100a", STEPS) for step in ("0", "1", "2", "3")},
}


def built(name: str, part: str) -> Path:
    """Folder of the build of a form.

    The test is skipped where the catalogue is not.
    """
    needed = "these kernels are built by the stages of cutesnake, whose catalogue is not here"
    build = pytest.importorskip("builds", reason=needed).build
    variant = pytest.importorskip("cutesnake.model.contract", reason=needed).Variant
    operator, kernel, target, forms = FORMS[name]
    return build(operator, kernel, target, variant(f"form_{part}", forms[part]))
