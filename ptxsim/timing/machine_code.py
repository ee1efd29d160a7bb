"""Machine instructions of each basic block, with their costs.

With a cubin these are ptxas's instructions, with stall counts and scoreboards, assigned by PTX line. Without one they
are estimated from the PTX: one instruction each, less those that ptxas folds away, with registers as scoreboards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..frontend.code import Block
from ..frontend.pending import results_and_sources
from ..frontend.syntax import Instruction
from .device import DeviceConstants
from .sass import Code, SassOp, Slot

if TYPE_CHECKING:
    from ..frontend.program import Program

Register = tuple[int, int]  # width and slot of a PTX register
FREE = (
    "mov",
    "cvta",
    "elect",
    "ret",
    "exit",
    "bra",
    "setmaxnreg",
    "nop",
    "fence",
    "membar",
    "prefetch",
    "griddepcontrol",
)
_SPECIAL = ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh", "div")
_FLOAT_ON_FMA = ("add", "sub", "mul", "fma", "mad")
_BARRIERS = ("mbarrier", "bar", "barrier")
_DISTINCTIVE = ("global", "shared", "special", "shuffle")  # units that occur in machine code only if the PTX has them
_MIN_MATCHING = 0.5  # least share of such instructions at PTX lines of their unit


class Op(NamedTuple):
    """One machine instruction in the timing model.

    It occupies `pipe` for `cycles`. Its result is ready after `latency`, unless the memory system sets the time (units
    "shared", "global" and "tensor", by PTX line). `waits` are scoreboards it waits for, `sets` the one
    for its result and `frees` the one for its operands (-1: none). `reads` and `writes` are PTX registers, used without
    machine code. `address` is its code address (-1: unknown). `slot` is the target of a local-memory access, else None.
    """

    unit: str
    pipe: str
    cycles: float
    latency: float
    stall: int
    waits: tuple[int, ...]
    sets: int
    frees: int
    line: int
    address: int
    reads: tuple[Register, ...] = ()
    writes: tuple[Register, ...] = ()
    slot: Slot | None = None


class Costs:
    """Pipe, cycles and latency of each unit on a device."""

    def __init__(self, constants: DeviceConstants) -> None:
        f = constants
        self.pipes: dict[str, tuple[str, float, float]] = {  # unit → pipe, cycles, latency
            "fma": ("fma", f.fma_pipe_cycles, f.fma_latency),
            "packed": ("fma", f.packed_fma_pipe_cycles, f.fma_latency),
            "half": ("fma", f.half_pipe_cycles, f.fma_latency),
            "alu": ("alu", f.alu_pipe_cycles, f.alu_latency),
            "conversion": ("conversion", f.conversion_pipe_cycles, f.conversion_latency),
            "special": ("special", f.sfu_pipe_cycles, f.sfu_latency),
            "double": ("double", f.double_pipe_cycles, f.double_latency),
            "uniform": ("uniform", f.uniform_pipe_cycles, f.alu_latency),
            "constant": ("", 1, f.constant_latency),
            "register": ("", 1, f.special_register_latency),
            "shuffle": ("memory", f.memory_pipe_cycles, f.shuffle_latency),
            "shared": ("memory", f.memory_pipe_cycles, f.shared_load_latency),
            "local": ("memory", f.memory_pipe_cycles, f.l1_latency),
            "global": ("memory", f.memory_pipe_cycles, f.l2_latency),
            "tensor": ("memory", f.memory_pipe_cycles, f.tmem_load_latency),
            "barrier": ("memory", f.memory_pipe_cycles, f.mbarrier_test_latency),
            "branch": ("", 1, 0),
            "copy": ("", 1, f.special_register_latency),
            "product": ("", 1, f.special_register_latency),
            "fence": ("memory", f.memory_pipe_cycles, f.fence_latency),
            "sleep": ("", 1, 0),
        }

    def of_sass(self, op: SassOp) -> Op:
        pipe, cycles, latency = self.pipes[op.unit]
        waits = tuple(k for k in range(6) if op.waits >> k & 1)
        stall = max(op.stall, 1)
        return Op(op.unit, pipe, cycles, latency, stall, waits, op.sets, op.frees, op.line, op.address, slot=op.slot)

    def of_ptx(self, ins: Instruction, unit: str) -> Op:
        pipe, cycles, latency = self.pipes[unit]
        results, sources = results_and_sources(ins)
        reads = tuple((r.width, r.slot) for r in sources)
        if ins.guard is not None:
            reads += ((1, ins.guard.slot),)
        writes = tuple((r.width, r.slot) for r in results)
        return Op(unit, pipe, cycles, latency, 1, (), -1, -1, ins.line, -1, reads, writes)


def block_costs(program: Program, code: Code | None, constants: DeviceConstants) -> list[tuple[Op, ...]]:
    """Return the machine instructions of each block."""
    costs = Costs(constants)
    if code is None or not belongs(program.instructions, code):
        return [tuple(_estimated(program, block, costs)) for block in program.blocks]
    home: dict[int, int] = {}  # PTX line → block
    for block in program.blocks:
        for ins in program.instructions[block.first : block.last]:
            home.setdefault(ins.line, block.index)
    by_block: list[list[SassOp]] = [[] for _ in program.blocks]
    for op in code.ops[: code.hot_length]:
        if op.line in home:
            by_block[home[op.line]].append(op)
    return [
        tuple(costs.of_sass(op) for op in _one_pass(program, block, by_block[block.index])) for block in program.blocks
    ]


def belongs(instructions: Sequence[Instruction], code: Code) -> bool:
    """Return whether the machine code's PTX lines match this PTX text.

    They do not if the text was edited after assembly: one removed blank line is enough.
    """
    units = {ins.line: ptx_unit(ins) for ins in instructions}
    distinctive = [op for op in code.ops if op.unit in _DISTINCTIVE]
    matching = sum(units.get(op.line) == op.unit for op in distinctive)
    return any(op.line for op in code.ops) and matching >= _MIN_MATCHING * len(distinctive)


def _one_pass(program: Program, block: Block, ops: list[SassOp]) -> list[SassOp]:
    """Return the instructions of one pass over a block, without slow paths and copies."""
    first = program.instructions[block.first]
    if first.parts[0] == "mbarrier" and first.parts[1] in ("try_wait", "test_wait"):
        return _up_to_test(ops)
    ops = [op for op in ops if op.unit != "sleep"]
    if first.base in ("bra", "ret", "exit"):
        ends = [n for n, op in enumerate(ops) if op.unit == "branch"]
        return ops[: ends[0] + 1] if ends else ops
    copies = _copies(program, block, ops)
    if copies < 2:
        return ops
    by_line: dict[int, list[SassOp]] = {}
    for op in ops:
        by_line.setdefault(op.line, []).append(op)
    selected = [op for ops_of_line in by_line.values() for op in ops_of_line[: -(-len(ops_of_line) // copies)]]
    return sorted(selected)


def _up_to_test(ops: list[SassOp]) -> list[SassOp]:
    """Return a wait's first test and its branch, without the sleep code after them."""
    out: list[SassOp] = []
    for n, op in enumerate(ops):
        out.append(op)
        if op.unit == "barrier":
            out += [x for x in ops[n + 1 : n + 2] if x.unit == "branch"]
            break
    return out


_SINGLE = ("fma", "half", "special", "shared", "global", "shuffle", "tensor", "copy", "conversion")


def _copies(program: Program, block: Block, ops: list[SassOp]) -> int:
    """Return how many copies of a block ptxas emitted, from lines that make one instruction."""
    units = {ins.line: ptx_unit(ins) for ins in program.instructions[block.first : block.last]}
    counts = Counter(op.line for op in ops if op.unit in _SINGLE and op.unit == units.get(op.line))
    ordered = sorted(counts.values())
    return ordered[len(ordered) // 2] if ordered else 1


def _estimated(program: Program, block: Block, costs: Costs) -> list[Op]:
    out = []
    for ins in program.instructions[block.first : block.last]:
        unit = ptx_unit(ins)
        if unit:
            out.append(costs.of_ptx(ins, unit))
    return out


def ptx_unit(ins: Instruction) -> str:
    """Return the unit of a PTX instruction, "" if it costs nothing."""
    base, parts = ins.base, ins.parts
    if base == "bra":  # a branch inserted for a guard does not exist in machine code
        return "branch" if ins.guard is not None and " bra" in f" {ins.text}" else ""
    if base in ("ld", "ldu", "st", "atom", "red", "ldmatrix", "stmatrix"):
        spaces = {p.split("::")[0] for p in parts}
        if "param" in spaces:
            return "constant"
        if base in ("ldmatrix", "stmatrix") or "shared" in spaces:
            return "copy" if "async" in spaces else "shared"
        return "local" if "local" in spaces else "global"
    if base in ("wgmma", "mma"):
        return "product" if parts[1] != "fence" else ""
    if base == "tcgen05":
        return {"ld": "tensor", "st": "tensor"}.get(parts[1], "product")
    if base in ("cp", "tensormap"):
        return "global" if parts[:2] == ("cp", "async") and len(parts) > 2 and parts[2] in ("ca", "cg") else "copy"
    if base in _BARRIERS:
        return "barrier"
    if base in FREE:
        return ""
    if base in ("shfl", "redux", "match", "movmatrix", "vote"):
        return "shuffle" if base != "vote" else "alu"
    return _arithmetic(ins)


def _arithmetic(ins: Instruction) -> str:
    base, parts = ins.base, ins.parts
    if "f64" in parts:
        return "double"
    if base in _SPECIAL:
        return "special"
    if base == "cvt":
        return "conversion"
    if base in _FLOAT_ON_FMA:
        if "f32x2" in parts:
            return "packed"
        if "f32" in parts:
            return "fma"
        if any(p in parts for p in ("f16", "f16x2", "bf16", "bf16x2")):
            return "half"
        return "fma" if base in ("mul", "mad") else "alu"
    return "alu"
