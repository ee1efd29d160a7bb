"""Architectures that kernels are compiled for: every fact about a target, once."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """One architecture.

    The `a` of a target ties its code to exactly one compute capability (CUDA C++ programming guide, 5.1.2.2).
    """

    capability: tuple[int, int]
    gpus: str  # examples of it
    # Multiprocessors of the GPU that ptxsim models there: an H200, or a B200 for both its target and the unpublished
    # Rubin; None where ptxsim models none.
    simulated_processors: int | None = None
    # Whether anything is known of such a GPU: without, no occupancy is computed and a prediction has no band.
    published: bool = True


TARGETS = {
    "sm_90a": Target((9, 0), "H100, H200, GH200, H20", 132),
    "sm_100a": Target((10, 0), "B200, GB200", 148),
    "sm_103a": Target((10, 3), "B300, GB300"),
    "sm_107a": Target((10, 7), "Rubin", 148, published=False),  # CuTe DSL compiles for it with its cu13 libraries alone
    "sm_110a": Target((11, 0), "Thor"),
    "sm_120a": Target((12, 0), "RTX 5090, RTX PRO 6000"),
    "sm_121a": Target((12, 1), "GB10"),
}
LOCAL_TARGET = "here"  # in a configuration: the target of this machine's GPU

# Compute capability -> the features that kernels ask for by name (PTX ISA 9.x, target notes of each instruction).
FEATURES: dict[tuple[int, int], frozenset[str]] = {
    (8, 0): frozenset({"mma"}),
    (8, 6): frozenset({"mma"}),
    (8, 9): frozenset({"mma"}),
    (9, 0): frozenset({"mma", "clusters", "TMA", "wgmma"}),
    (10, 0): frozenset({"mma", "clusters", "TMA", "tcgen05", "tensor memory"}),
    (10, 3): frozenset({"mma", "clusters", "TMA", "tcgen05", "tensor memory"}),
    (10, 7): frozenset({"mma", "clusters", "TMA", "tcgen05", "tensor memory"}),
    (11, 0): frozenset({"mma", "clusters", "TMA", "tcgen05", "tensor memory"}),
    (12, 0): frozenset({"mma", "clusters", "TMA"}),
    (12, 1): frozenset({"mma", "clusters", "TMA"}),
}
KNOWN_FEATURES = frozenset().union(*FEATURES.values())


def resolve_local_target(targets: Sequence[str], capability: tuple[int, int] | None) -> list[str]:
    """Replace `here` among `targets` by this GPU's target; drop duplicates.

    Without a GPU, or for a compute capability without a target, `here` is dropped.
    """
    local = next((name for name, target in TARGETS.items() if target.capability == capability), None)
    named = (local if name == LOCAL_TARGET else name for name in targets)
    return list(dict.fromkeys(name for name in named if name is not None))
