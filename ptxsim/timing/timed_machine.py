"""A launch under the clock: its program cut for it, and what memory held before, where nothing is to be changed."""

from __future__ import annotations

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
    """Each warp by itself, a block at a time: what the clock's calendar asks for."""

    def __init__(self) -> None:
        super().__init__("warps")

    def quantum(self) -> int:
        return 1


class TimedMachine(Machine):
    """The state of one launch. Without `numerics` copies and products are only timed, and stores are taken back.

    `slow_divisions` says by PTX line what part of a warp's divisions go the long way.
    """

    def __init__(
        self,
        launch: Launch,
        card: DeviceModel,
        code: Code | None,
        numerics: bool,
        checks: frozenset[str] = frozenset(),
        trace: Callable[[str], None] | None = None,
        track: bool = False,
        slow_divisions: Mapping[int, float] = MappingProxyType({}),
    ) -> None:
        self.card, self.code, self.numerics = card, code, numerics
        self.kept: list[tuple[Allocation, np.ndarray, np.ndarray]] = []
        super().__init__(launch, OneWarp(), checks, trace, track, sm_count=int(card.figures.sm_count))
        self.slow = [0.0] * len(self.program.blocks)  # of a block's divisions, how many go the long way
        for block in self.program.blocks if slow_divisions else ():
            lines = (ins.line for ins in self.program.instructions[block.first : block.last] if ins.base == "div")
            self.slow[block.index] = sum(slow_divisions.get(line, 0.0) for line in lines)

    def _program(self) -> Program:
        kernel, code, figures = self.launch.kernel, self.code, self.card.figures
        self.timed_program = _PROGRAMS.get(
            (id(kernel), figures, id(code)),
            lambda kept: kept.kernel is kernel and kept.code is code,
            lambda: TimedProgram(self.launch.module, kernel, code, figures),
        )
        return self.timed_program

    def keep(self, allocation: Allocation, offsets: np.ndarray, size: int) -> None:
        """Remember what stands where a block is about to store, to put it back in the end."""
        if not self.numerics:
            at = offsets.astype(np.int64)[:, None] + np.arange(size)
            self.kept.append((allocation, at, allocation.words[1][at]))

    def take_back(self) -> None:
        """Undo the stores, the latest first."""
        for allocation, at, before in reversed(self.kept):
            allocation.words[1][at] = before
        self.kept.clear()
