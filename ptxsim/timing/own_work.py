"""Kernels whose clusters find out while they run what they have to do: a few simulated ones do not stand for all."""

from __future__ import annotations

from ..core.launch import Launch
from ..frontend.pending import results_and_sources
from ..frontend.syntax import Instruction, PtxError


def check_static_work(launch: Launch) -> None:
    """Raise PtxError where clusters share out their work among each other, unless there is only one.

    Clusters are simulated group after group: the first to ask would be given the work of all the others, and one that
    counts how many have come before it would find none.
    """
    (gx, gy, gz), (cx, cy, cz) = launch.grid, launch.cluster
    if gx * gy * gz == cx * cy * cz:
        return
    instructions = launch.kernel.instructions
    for ins in instructions:
        if ins.op.startswith("clusterlaunchcontrol.try_cancel"):
            raise PtxError(
                f"{launch.name} takes further work by cluster launch control (PTX line {ins.line}), which the clock "
                "does not follow: of a few simulated clusters one would get the work of all others"
            )
        if _returns_to_use(ins, instructions):
            raise PtxError(
                f"{launch.name} goes by what an atomic on global memory returns (PTX line {ins.line}), a counter of "
                "tiles perhaps, which the clock does not follow: it does not simulate all clusters at the same time"
            )


def _returns_to_use(ins: Instruction, instructions: list[Instruction]) -> bool:
    """Return whether this is an atomic of global memory whose result another instruction reads."""
    if ins.base != "atom" or any(part.startswith("shared") for part in ins.parts):
        return False
    returned = {(register.width, register.slot) for register in results_and_sources(ins)[0]}
    for other in instructions:
        read = results_and_sources(other)[1] + ([other.guard] if other.guard is not None else [])
        if other is not ins and any((register.width, register.slot) in returned for register in read):
            return True
    return False
