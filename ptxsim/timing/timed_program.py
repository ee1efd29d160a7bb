"""A kernel cut into blocks for the clock: whatever has an effect on others at a moment of its own stands alone."""

from __future__ import annotations

from ..parser import Module
from ..program import Program
from ..syntax import Instruction, Kernel
from .device import Figures
from .machine_code import Op, block_costs
from .sass import Code

ACQUIRE = "fence.proxy.tensormap::generic.acquire"  # of a TMA descriptor that has been changed
_ALONE = (
    ACQUIRE,
    "mbarrier",
    "cp",
    "st.async",
    "red.async",
    "tcgen05",
    "griddepcontrol",
    "clusterlaunchcontrol",
    "nanosleep",
)


class TimedProgram(Program):
    """The program with the cost of each block in machine instructions."""

    def __init__(self, module: Module, kernel: Kernel, code: Code | None, figures: Figures) -> None:
        super().__init__(module, kernel)
        self.code = code
        self.costs: list[tuple[Op, ...]] = block_costs(self, code, figures)
        self.asynchronous = [self._acts(self.instructions[b.first]) for b in self.blocks]

    def stands_alone(self, ins: Instruction) -> bool:
        return super().stands_alone(ins) or self._acts(ins)

    @staticmethod
    def _acts(ins: Instruction) -> bool:
        """Whether an instruction starts, signals or waits for something: its block runs when its cost is paid."""
        return ins.base in _ALONE or ins.op.startswith(_ALONE) or ins.base in ("bar", "barrier", "wgmma")
