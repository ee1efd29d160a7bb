"""Architectures that kernels are compiled for: every fact about a target, once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """One architecture.

    The `a` of a target ties its code to exactly one compute capability (CUDA C++ programming guide, 5.1.2.2).
    """

    capability: tuple[int, int]
    cards: str  # examples of it
    # Multiprocessors of the card that ptxsim stands for there, an H200 or a B200; None where ptxsim has no such card.
    simulated_processors: int | None = None


TARGETS = {
    "sm_90a": Target((9, 0), "H100, H200, GH200, H20", 132),
    "sm_100a": Target((10, 0), "B200, GB200", 148),
    "sm_103a": Target((10, 3), "B300, GB300"),
    "sm_110a": Target((11, 0), "Thor"),
    "sm_120a": Target((12, 0), "RTX 5090, RTX PRO 6000"),
    "sm_121a": Target((12, 1), "GB10"),
}
HERE = "here"  # in a configuration: the target of the card at hand

# Compute capability -> the features that kernels ask for by name (PTX ISA 9.x, target notes of each instruction).
FEATURES: dict[tuple[int, int], frozenset[str]] = {
    (8, 0): frozenset({"mma"}),
    (8, 6): frozenset({"mma"}),
    (8, 9): frozenset({"mma"}),
    (9, 0): frozenset({"mma", "clusters", "TMA", "wgmma"}),
    (10, 0): frozenset({"mma", "clusters", "TMA", "tcgen05", "tensor memory"}),
    (10, 3): frozenset({"mma", "clusters", "TMA", "tcgen05", "tensor memory"}),
    (11, 0): frozenset({"mma", "clusters", "TMA", "tcgen05", "tensor memory"}),
    (12, 0): frozenset({"mma", "clusters", "TMA"}),
    (12, 1): frozenset({"mma", "clusters", "TMA"}),
}
KNOWN_FEATURES = frozenset().union(*FEATURES.values())


def with_target_here(targets: Sequence[str], capability: tuple[int, int] | None) -> list[str]:
    """`targets` with the target of a card of this compute capability for `here`, each once; without a card, or for
    one that nothing is compiled for, `here` stands for no target."""
    here = next((name for name, target in TARGETS.items() if target.capability == capability), None)
    named = (here if name == HERE else name for name in targets)
    return list(dict.fromkeys(name for name in named if name is not None))
