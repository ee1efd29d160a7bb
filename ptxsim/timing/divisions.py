"""Divisions that take ptxas's slow-path subroutine, which depends on the data.

`div.rn.f32` has a fast path of some eight instructions for ordinary operands. One lane of a warp with a divisor
or quotient near the ends of the exponent range makes the warp call the subroutine. Where the divisor is 1 + e^x and x
a sum of many products (SiLU, the logistic function), most warps do.
"""

import numpy as np

from ..core.launch import Dim3, Launch
from ..core.machine import Machine
from ..core.schedule import Schedule
from ..core.warp import Fragment
from ..core.work import Pipe
from ..frontend.pending import results_and_sources
from ..frontend.program import Program
from ..frontend.registry import runtime
from ..frontend.syntax import Imm, Instruction, Kernel, Reg
from ..memory.bulk_store import ReadHalf, WriteHalf
from .engines import skip
from .scout import LIMIT, Scout, run_alone

_HIGHEST = np.float32(2.0**126)  # beyond it 1 / b is subnormal
_LOWEST = np.float32(2.0**-126)
_PRODUCTS = ("wgmma", "mma", "tcgen05")
_CARRY = ("mov", "mul", "neg", "cvt")  # operations whose result counts as an exponential


def numbers_matter(kernel: Kernel) -> bool:
    """Return whether run time depends on data: divisors 1 + e^x of sums of products."""
    if not any(ins.base in _PRODUCTS for ins in kernel.instructions):
        return False
    powers: set[tuple[int, int]] = set()
    divisors: set[tuple[int, int]] = set()
    for ins in kernel.instructions:
        results, sources = results_and_sources(ins)
        from_power = any((r.width, r.slot) in powers for r in sources)
        by = ins.operands[2] if _divides(ins) else None
        if isinstance(by, Reg) and (by.width, by.slot) in divisors:
            return True
        made = {(r.width, r.slot) for r in results}
        powers -= made
        divisors -= made
        if ins.base == "ex2" or (ins.base in _CARRY and from_power):
            powers |= made
        elif ins.base in ("add", "fma") and from_power and any(isinstance(x, Imm) for x in ins.operands):
            divisors |= made
    return False


def _divides(ins: Instruction) -> bool:
    return ins.base == "div" and "f32" in ins.parts and "rn" in ins.parts


def takes_slow_path(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return which float32 divisions a / b take the slow path.

    These have an operand or quotient that is zero, subnormal, infinite, NaN, or near the ends of the exponent range.
    """
    a, b = np.broadcast_arrays(np.asarray(a, np.float32), np.asarray(b, np.float32))
    size, quotient = np.abs(b), np.abs(np.divide(a, b))
    usual = (size >= _LOWEST) & (size <= _HIGHEST) & np.isfinite(a)
    return ~usual | ~((quotient >= _LOWEST) & (quotient <= _HIGHEST))


class _Program(Program):
    watches_divisions = True


class _Machine(Machine):
    def _program(self) -> Program:
        return _Program(self.launch.module, self.launch.kernel)


class _Cluster(Scout):
    """A cluster that computes, but leaves global memory unchanged by skipping bulk stores."""

    def complete(self, pipe: Pipe) -> None:
        task = self.pipes.take(pipe)
        self.progress += 1
        self.steps = 0
        if not (isinstance(task, ReadHalf | WriteHalf) and skip(task)):
            task.run()


@runtime
def divided(f: Fragment, at: int, a: np.ndarray, b: np.ndarray) -> None:
    """Count the warps of a fragment whose division a / b takes the slow path."""
    long = np.broadcast_to(takes_slow_path(a, b), f.n)
    if f.mask is not None:
        long = long & f.mask
    noted = f.cta.cluster.witness.divisions.setdefault(at, [0, 0])  # type: ignore[attr-defined]  # a _Cluster's
    noted[0] += int(np.add.reduceat(long, range(0, f.n, 32)).astype(bool).sum())
    noted[1] += len(f.warps())


def slow_divisions(launch: Launch, indices: list[Dim3]) -> dict[int, float]:
    """Return PTX line → slow-path share of its warp divisions, from one cluster."""
    machine = _Machine(launch, Schedule("eager"), step_limit=LIMIT)
    witness = run_alone(_Cluster, machine, indices)
    if witness is None:
        return {}
    lines = machine.program.instructions
    return {lines[at].line: long / every for at, (long, every) in witness.divisions.items() if long}
