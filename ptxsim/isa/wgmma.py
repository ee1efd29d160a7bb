"""wgmma: Hopper's asynchronous warpgroup matrix products (PTX ISA 9.7.15).

A product is a task of its warpgroup. It runs in order when the schedule picks it, at the latest when a wait_group
needs it; only then do its registers change. hopper_product.py computes the sums.
"""

import re
from dataclasses import dataclass

import numpy as np

from ..core.warp import Fragment
from ..core.work import Kind, Origin, Pipe, Task
from ..frontend.formats import PRED, U64
from ..frontend.generator import Generator
from ..frontend.pending import product_origin
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction, Operand, Reg, Vec
from ..memory.matrix_operand import quarter
from .accumulator import ELEMENT_BITS, fragment, from_registers, integer_product, to_registers
from .descriptor import operand_values
from .hopper_product import multiply
from .register_checks import check_fence


@emits("wgmma.fence", "wgmma.commit_group", "wgmma.wait_group", own_block=True, results=0)
def _group(g: Generator, ins: Instruction) -> None:
    if set(ins.parts[2:]) - {"sync", "aligned"}:
        raise g.unknown()
    g.collective()
    if ins.parts[1] == "commit_group":
        g.line("wgmma_commit(f)")
    elif ins.parts[1] == "fence":
        g.line("wgmma_fence(f)")
    elif ins.parts[1] == "wait_group":
        left = g.number(ins.operands[0], "a wait_group count")
        g.line(f"if not wgmma_wait(f, {left}): return {g.block.index}")


@dataclass(slots=True, eq=False)
class GroupEnd(Task):
    """The end of a wgmma group: its number per warp, from 1."""

    ordinals: dict[int, int]
    kind: Kind = "mma"

    @property
    def label(self) -> str:
        return "wgmma group"

    def run(self) -> None:
        """Do nothing; the task only marks the end of a group."""


def _warpgroups(f: Fragment) -> dict[int, list[int]]:
    """Group the fragment's warps by warpgroup."""
    out: dict[int, list[int]] = {}
    for warp in f.warps():
        out.setdefault(warp // 4, []).append(warp)
    return out


@runtime
def wgmma_commit(f: Fragment) -> None:
    commits = f.cta.wgmma_commits
    for group, warps in _warpgroups(f).items():
        for warp in warps:
            commits[warp] = commits.get(warp, 0) + 1
        f.cta.cluster.post(Pipe("wgmma", f.cta.rank, group), GroupEnd({warp: commits[warp] for warp in warps}))
    f.cta.cluster.progress += 1


@runtime
def wgmma_wait(f: Fragment, left: int) -> bool:
    """Complete all but the newest `left` groups; return False to wait for other warps.

    A product is one instruction of four warps: it is not complete before all have issued it.
    """
    cta, cluster, commits = f.cta, f.cta.cluster, f.cta.wgmma_commits
    groups = _warpgroups(f)
    upto = {group: max(commits.get(warp, 0) for warp in warps) - left for group, warps in groups.items()}
    for group in groups:
        members = range(4 * group, min(4 * group + 4, cta.launch.warps))
        if any(cta.alive[32 * warp] and commits.get(warp, 0) < upto[group] for warp in members):
            cluster.rest = True
            return False
    for group, warps in groups.items():
        pipe = Pipe("wgmma", cta.rank, group)
        while any(
            isinstance(task, GroupEnd) and min(task.ordinals.values()) <= upto[group]
            for task in cluster.pipes.queues.get(pipe, ())
        ):
            cluster.complete(pipe)
        for warp in warps:
            cluster.observer.wgmma_waited(cta.rank, warp, group)
    return True


@dataclass(frozen=True, slots=True)
class Product:
    """A wgmma.mma_async as written: D (64, n) += A (64, k) times B (k, n).

    `d` and, if A is in registers, `a` are register slots. Types are PTX names. `a_mn` and `b_mn` say that M or N
    runs along the rows of the operand in shared memory.
    """

    at: int
    n: int
    k: int
    d_type: str
    a_type: str
    b_type: str
    d: tuple[int, ...]
    a: tuple[int, ...] | None
    a_negate: bool
    b_negate: bool
    a_mn: bool
    b_mn: bool
    saturate: bool


@emits("wgmma.mma_async", own_block=True)
def _mma(g: Generator, ins: Instruction) -> None:
    g.collective()
    parts = ins.parts[2:]
    shape = next((m for p in parts if (m := re.fullmatch(r"m64n(\d+)k(\d+)", p))), None)
    types = [p for p in parts if p in ("f32", "s32", *ELEMENT_BITS)]
    if shape is None or len(types) != 3 or set(parts) - {"sync", "aligned", "satfinite", shape[0], *types}:
        raise g.unknown()
    d, a, b, scale, *constants = ins.operands
    flags = [g.number(x, "a scale or transpose operand of wgmma") for x in constants]
    negate, transposed = ([1, 1], []) if types[0] == "s32" else (flags[:2], flags[2:])
    in_registers = isinstance(a, Vec)
    a_mn, b_mn = [0, *transposed[:1], 0][:2] if in_registers else [*transposed, 0, 0][:2]
    product = Product(
        at=g.at,
        n=int(shape[1]),
        k=int(shape[2]),
        d_type=types[0],
        a_type=types[1],
        b_type=types[2],
        d=_slots(g, d),
        a=_slots(g, a) if in_registers else None,
        a_negate=negate[0] == -1,
        b_negate=negate[1] == -1,
        a_mn=bool(a_mn),
        b_mn=bool(b_mn),
        saturate="satfinite" in parts,
    )
    source = "None" if in_registers else g.read(a, U64)
    g.line(f"wgmma(f, {g.bind(product)}, {source}, {g.read(b, U64)}, {g.read(scale, PRED)})")


def _slots(g: Generator, operand: Operand) -> tuple[int, ...]:
    """Return the register slots of a vector operand."""
    slots = [x.slot for x in operand.items if isinstance(x, Reg)] if isinstance(operand, Vec) else []
    if not isinstance(operand, Vec) or len(slots) != len(operand.items):
        raise g.fail("wgmma needs registers here")
    return tuple(slots)


@runtime
def wgmma(f: Fragment, spec: Product, a: np.ndarray | None, b: np.ndarray, accumulate: np.ndarray) -> None:
    """Queue the product of each warpgroup's warps in this fragment."""
    cta, cluster = f.cta, f.cta.cluster
    watched = product_origin(spec.at) in f.machine.program.watched
    if "unfenced" in f.machine.checks:
        check_fence(f, spec.at, f.warps())
    for group, warps in _warpgroups(f).items():
        if watched:
            for warp in warps:
                key = (warp, product_origin(spec.at))
                cta.unfinished[key] = cta.unfinished.get(key, 0) + 1
        lane = 32 * warps[0] - f.lo
        others = [] if a is None else [f.issue(spec.at, warp) for warp in warps[1:]]
        task = WarpgroupProduct(
            origin=f.issue(spec.at, warps[0]),  # the last serial: its end covers the reads of all warps
            others=others,
            spec=spec,
            warps=warps,
            a=None if a is None else _in_lane(a, lane),
            b=_in_lane(b, lane),
            accumulate=bool(_in_lane(accumulate, lane)),
        )
        if warps[0] % 4 == 0:
            f.machine.counts.mma_instructions += 1
        f.machine.counts.mma_flops += 2 * 16 * len(warps) * spec.n * spec.k
        cluster.post(Pipe("wgmma", cta.rank, group), task)


def _in_lane(operand: np.ndarray, lane: int) -> int:
    operand = np.asarray(operand)
    return int(operand[lane]) if operand.ndim else int(operand)


@dataclass(slots=True, eq=False)
class WarpgroupProduct(Task):
    """A product as issued by warps of one warpgroup; `a` and `b` are shared-memory descriptors.

    `others` are the origins of the warps after the first, if A is in shared memory: each warp reads its rows of A.
    """

    origin: Origin
    others: list[Origin]
    spec: Product
    warps: list[int]
    a: int | None
    b: int
    accumulate: bool
    kind: Kind = "mma"

    @property
    def label(self) -> str:
        return f"wgmma, line {self.origin.line}"

    @property
    def group(self) -> int:
        return self.warps[0] // 4

    @property
    def threads(self) -> slice:
        return slice(32 * self.warps[0], 32 * self.warps[-1] + 32)

    def run(self) -> None:
        spec, cta = self.spec, self.origin.cta
        for warp in self.warps:
            key = (warp, product_origin(spec.at))
            if key in cta.unfinished:
                cta.unfinished[key] -= 1
        try:
            a, b = self._operands()
        except (IndexError, ValueError) as error:
            return self.origin.report("out-of-bounds", f"wgmma: {error}")
        self.origin.cluster.observer.wgmma_started(self.origin, self.group)
        self._accumulate(-a if spec.a_negate else a, -b if spec.b_negate else b)
        return None

    def _operands(self) -> tuple[np.ndarray, np.ndarray]:
        """Return A (16 rows per warp, k), B (n, k); IndexError or ValueError if unreadable."""
        spec = self.spec
        cta, bits = self.origin.cta, ELEMENT_BITS[spec.a_type]
        read = self.origin.cluster.observer.operand_read
        b = operand_values(cta.shared, self.b, False, spec.b_mn, spec.n, spec.k, ELEMENT_BITS[spec.b_type], spec.b_type)
        read(cta, b.chunks, self.origin, self.group)
        if self.a is None:
            words = cta.registers.arrays[32][list(spec.a or ()), self.threads]
            return fragment(words, 2, spec.a_type), b.values
        a = operand_values(cta.shared, self.a, False, spec.a_mn, 64, spec.k, bits, spec.a_type)
        for origin in (self.origin, *self.others):
            read(cta, quarter(a.chunks, origin.warp % 4, spec.a_mn), origin, self.group)
        return a.values[16 * (self.warps[0] % 4) : 16 * (self.warps[-1] % 4) + 16], b.values

    def _accumulate(self, a: np.ndarray, b: np.ndarray) -> None:
        spec, file = self.spec, self.origin.cta.registers.arrays[32]
        slots, c = np.array(spec.d), None
        if self.accumulate:
            c = from_registers(np.ascontiguousarray(file[slots, self.threads]), spec.n, spec.d_type)
        if spec.d_type == "s32":
            d = integer_product(a, b, c, spec.saturate)
        else:
            d = multiply(a, b, c, spec.a_type, spec.d_type)
        file[slots, self.threads] = to_registers(d, spec.d_type)
