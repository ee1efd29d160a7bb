"""A kernel split into blocks for the clock: externally visible actions are blocks alone."""

from ..frontend.parser import Module
from ..frontend.program import Program
from ..frontend.syntax import Instruction, Kernel
from .device import DeviceConstants
from .machine_code import Op, block_costs
from .sass import Code

ACQUIRE = "fence.proxy.tensormap::generic.acquire"  # of a changed TMA descriptor
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
    """A program with the machine instructions of each block."""

    def __init__(self, module: Module, kernel: Kernel, code: Code | None, constants: DeviceConstants) -> None:
        super().__init__(module, kernel)
        self.code = code
        self.costs: list[tuple[Op, ...]] = block_costs(self, code, constants)
        self.asynchronous = [self._acts(self.instructions[b.first]) for b in self.blocks]
        self.afterwards: dict[int, tuple[Op, ...]] = {}  # block → instructions issued after its product completes
        if code is not None and code.one_product_at_a_time:
            self._put_off()

    def stands_alone(self, ins: Instruction) -> bool:
        return super().stands_alone(ins) or self._acts(ins) or ins.base == "mma"  # warps share the tensor core

    def _put_off(self) -> None:
        """Delay code that ptxas moved behind a serialised product, mostly spills."""
        for index, ops in enumerate(self.costs):
            if self.instructions[self.blocks[index].first].base == "wgmma":
                upto = 1 + max((n for n, op in enumerate(ops) if op.unit == "product"), default=len(ops))
                self.costs[index], self.afterwards[index] = ops[:upto], ops[upto:]

    @staticmethod
    def _acts(ins: Instruction) -> bool:
        """Return whether an instruction starts, signals or awaits something outside its warp."""
        return ins.base in _ALONE or ins.op.startswith(_ALONE) or ins.base in ("bar", "barrier", "wgmma")
