"""Detection of kernels that distribute work at run time, which the clock cannot follow."""

from ..core.launch import Launch
from ..frontend.pending import results_and_sources
from ..frontend.syntax import Instruction, PtxError


def check_static_work(launch: Launch) -> None:
    """Raise PtxError if several clusters distribute work among themselves at run time.

    Groups of clusters are simulated one after another. The first to request work would get all of it, and one that
    counts its predecessors would find none.
    """
    (gx, gy, gz), (cx, cy, cz) = launch.grid, launch.cluster
    if gx * gy * gz == cx * cy * cz:
        return
    instructions = launch.kernel.instructions
    for ins in instructions:
        if ins.op.startswith("clusterlaunchcontrol.try_cancel"):
            raise PtxError(
                f"{launch.name} takes further work by cluster launch control (PTX line {ins.line}), which the clock "
                "does not follow: the first simulated cluster would take all work"
            )
        if _returns_to_use(ins, instructions):
            raise PtxError(
                f"{launch.name} depends on what an atomic on global memory returns (PTX line {ins.line}), such as a "
                "tile counter: the clock does not simulate all clusters concurrently"
            )


def _returns_to_use(ins: Instruction, instructions: list[Instruction]) -> bool:
    """Return whether an instruction is a global atomic whose result is read."""
    if ins.base != "atom" or any(part.startswith("shared") for part in ins.parts):
        return False
    returned = {(register.width, register.slot) for register in results_and_sources(ins)[0]}
    for other in instructions:
        read = results_and_sources(other)[1] + ([other.guard] if other.guard is not None else [])
        if other is not ins and any((register.width, register.slot) in returned for register in read):
            return True
    return False
