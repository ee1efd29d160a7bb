"""Compute theoretical occupancy: blocks per SM, and the limiting resource.

The rules are from CUDA's occupancy calculator (CUDA C++ Programming Guide, «Multiprocessor Level»); a test compares
with NVIDIA's own cuda_occupancy.h. The rule for tensor memory is this project's: a block waits in `tcgen05.alloc` for
columns that others hold (PTX ISA), so blocks that can have theirs at once are counted.
"""

import math
from dataclasses import dataclass

from cutesnake.planning.devices import Limits

WARP = 32  # threads
REGISTER_UNIT = 256  # registers are given to a warp in units of 256
SHARED_UNIT = 128  # bytes
PARTITIONS = 4  # of an SM, each with a quarter of the registers


@dataclass(frozen=True)
class Usage:
    """What one block takes. `registers_per_thread` at launch: setmaxnreg later only moves them within the block."""

    threads: int
    registers_per_thread: int
    shared_bytes: int  # static and dynamic
    named_barriers: int = 0
    tensor_memory_columns: int = 0


@dataclass(frozen=True)
class Occupancy:
    """Blocks per SM that each resource allows; None for an unused resource."""

    blocks_per_sm: int
    warps_per_sm: int
    percent: float  # of the warps that an SM can hold
    limiter: str  # the resource that runs out first; several, joined by a comma, where they tie
    limits: dict[str, int | None]


def occupancy(usage: Usage, limits: Limits) -> Occupancy:
    """Return occupancy of `usage` on an SM; 0 blocks if one is too large."""
    warps = math.ceil(usage.threads / WARP)
    allowed = {
        "shared_memory": _shared(usage, limits),
        "registers": _registers(usage, warps, limits),
        "tensor_memory": _share(limits.tensor_memory_columns, usage.tensor_memory_columns),
        "named_barriers": _share(limits.named_barriers, usage.named_barriers),
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
    }
    blocks = min(count for count in allowed.values() if count is not None)
    return Occupancy(
        blocks_per_sm=blocks,
        warps_per_sm=blocks * warps,
        percent=round(100 * blocks * warps / limits.warps, 2),
        limiter=", ".join(name for name, count in allowed.items() if count == blocks),
        limits=allowed,
    )


def _share(available: int | None, used: int) -> int | None:
    return available // used if used and available is not None else None


def _shared(usage: Usage, limits: Limits) -> int:
    """Return shared bytes in units, with the SM's largest shared-memory configuration."""
    if usage.shared_bytes > limits.shared_bytes_per_block:
        return 0
    block = math.ceil((usage.shared_bytes + limits.shared_bytes_reserved) / SHARED_UNIT) * SHARED_UNIT
    return limits.shared_bytes // block if block else limits.blocks


def _registers(usage: Usage, warps: int, limits: Limits) -> int | None:
    """Return blocks that registers allow; warps are rounded up to all partitions."""
    if usage.registers_per_thread == 0:
        return None
    warp = math.ceil(usage.registers_per_thread * WARP / REGISTER_UNIT) * REGISTER_UNIT
    if warp * math.ceil(warps / PARTITIONS) * PARTITIONS > limits.registers_per_block:
        return 0
    return (limits.registers // PARTITIONS // warp) * PARTITIONS // warps
