"""A launch under the clock: its timed program, and saved memory if stores are undone."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from ..core.launch import Launch
from ..core.machine import Machine
from ..core.schedule import Schedule
from ..frontend.program import Program
from ..frontend.recent import Recent
from ..memory.global_memory import Allocation
from .device import DeviceModel
from .sass import Code
from .timed_program import TimedProgram

_PROGRAMS: Recent[TimedProgram] = Recent()


class OneWarp(Schedule):
    """A schedule of single warps, one block at a time, as the clock's calendar needs."""

    def __init__(self) -> None:
        super().__init__("warps")

    def quantum(self) -> int:
        return 1


class TimedMachine(Machine):
    """The state of one launch under the clock.

    Without `numerics` copies and products are only timed, and stores are undone.
    `slow_divisions` is, by PTX line, the share of a warp's divisions on the slow path.
    """

    def __init__(
        self,
        launch: Launch,
        device: DeviceModel,
        code: Code | None,
        numerics: bool,
        checks: frozenset[str] = frozenset(),
        trace: Callable[[str], None] | None = None,
        track: bool = False,
        slow_divisions: Mapping[int, float] = MappingProxyType({}),
    ) -> None:
        self.device, self.code, self.numerics = device, code, numerics
        self.saved: list[tuple[Allocation, np.ndarray, np.ndarray]] = []
        super().__init__(launch, OneWarp(), checks, trace, track, sm_count=int(device.constants.sm_count))
        self.slow = [0.0] * len(self.program.blocks)  # slow-path divisions per block
        for block in self.program.blocks if slow_divisions else ():
            lines = (ins.line for ins in self.program.instructions[block.first : block.last] if ins.base == "div")
            self.slow[block.index] = sum(slow_divisions.get(line, 0.0) for line in lines)

    def _program(self) -> Program:
        kernel, code, constants = self.launch.kernel, self.code, self.device.constants
        self.timed_program = _PROGRAMS.get(
            (id(kernel), constants, id(code)),
            lambda cached: cached.kernel is kernel and cached.code is code,
            lambda: TimedProgram(self.launch.module, kernel, code, constants),
        )
        return self.timed_program

    def save_for_undo(self, allocation: Allocation, offsets: np.ndarray, size: int) -> None:
        """Save the memory that a store will overwrite."""
        if not self.numerics:
            at = offsets.astype(np.int64)[:, None] + np.arange(size)
            self.saved.append((allocation, at, allocation.words[1][at]))

    def undo_stores(self) -> None:
        """Undo the stores, the latest first."""
        for allocation, at, before in reversed(self.saved):
            allocation.words[1][at] = before
        self.saved.clear()
