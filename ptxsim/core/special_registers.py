"""Special registers (PTX ISA, chapter 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..frontend.syntax import PtxError

if TYPE_CHECKING:
    from .cta import CTA

CLOCKS = frozenset({"clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo"})
WIDE_CLOCKS = frozenset({"clock64", "globaltimer"})
AXES = {"x": 0, "y": 1, "z": 2}

# Registers equal in all threads of a CTA; `axis` is 0 for registers without axes.
UNIFORM: dict[str, Callable[[CTA, int], int]] = {
    "ntid": lambda cta, axis: cta.launch.block[axis],
    "ctaid": lambda cta, axis: cta.index[axis],
    "nctaid": lambda cta, axis: cta.launch.grid[axis],
    "cluster_ctaid": lambda cta, axis: cta.index[axis] % cta.launch.cluster[axis],
    "cluster_nctaid": lambda cta, axis: cta.launch.cluster[axis],
    "clusterid": lambda cta, axis: cta.index[axis] // cta.launch.cluster[axis],
    "nclusterid": lambda cta, axis: cta.launch.grid[axis] // cta.launch.cluster[axis],
    "cluster_ctarank": lambda cta, axis: cta.rank,
    "cluster_nctarank": lambda cta, axis: len(cta.cluster.ctas),
    "nwarpid": lambda cta, axis: cta.launch.warps,
    "smid": lambda cta, axis: 0,
    "nsmid": lambda cta, axis: cta.machine.sm_count,
    "gridid": lambda cta, axis: 0,
    "dynamic_smem_size": lambda cta, axis: cta.launch.dynamic_shared,
    "total_smem_size": lambda cta, axis: cta.shared_bytes,
    "is_explicit_cluster": lambda cta, axis: int(cta.launch.explicit_cluster),
}


def special_register(cta: CTA, name: str, lo: int, hi: int) -> np.ndarray:
    """Return a special register in threads lo..hi. Raises PtxError for an unknown one."""
    base, _, axis = name[1:].partition(".")
    threads = np.arange(lo, hi, dtype=np.uint32)
    if base == "tid":
        bx, by, _ = cta.launch.block
        return (threads % bx, threads // bx % by, threads // (bx * by))[AXES[axis]].astype(np.uint32)
    if base == "laneid":
        return threads % np.uint32(32)
    if base == "warpid":
        return threads // np.uint32(32)
    if base.startswith("lanemask_"):
        return _lane_mask(base[-2:], threads)
    if base in CLOCKS:
        machine = cta.machine
        machine.ticks += 1
        return np.full(hi - lo, machine.ticks, np.uint64 if base in WIDE_CLOCKS else np.uint32)
    if base == "perctamemoryoffset":
        return np.full(hi - lo, cta.launch.memory_of(cta.index), np.uint64)
    if base not in UNIFORM:
        raise PtxError(f"kernel {cta.launch.name[:80]}: unknown special register {name}")
    return np.full(hi - lo, UNIFORM[base](cta, AXES.get(axis, 0)), np.uint32)


def _lane_mask(which: str, threads: np.ndarray) -> np.ndarray:
    """Return per lane the mask of lanes eq, lt, le, gt or ge it."""
    one = np.uint64(1)
    own = one << (threads % 32).astype(np.uint64)
    below = own - one
    masks = {"eq": own, "lt": below, "le": below | own, "gt": ~(below | own), "ge": ~below}
    return (masks[which] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
