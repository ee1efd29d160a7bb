"""What the baselines in plain PyTorch share: nothing is compiled, and they run on every target.

A baseline's contract module imports these names and adds its DSL and `bind`; one that refuses workloads has a
`supports` of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cutesnake.contract import Variant, Workload, not_baked
from cutesnake.targets import TARGETS as KNOWN

SOURCE = "ours"
TARGETS: dict[str, tuple[str, ...]] = dict.fromkeys(KNOWN, ())


@not_baked
def supports(workload: Workload) -> str | None:
    """Everything."""
    return None


@not_baked
def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    """Nothing is baked in: one build for everything."""
    return (Variant("eager", {}),)


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    """Nothing to compile: PyTorch brings its kernels."""
    return {"symbols": [], "launch": {}, "function": None, "compilers": {}, "notes": ["PyTorch's own kernels"]}
