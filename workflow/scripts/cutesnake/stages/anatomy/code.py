"""Analyze the code of one PTX entry: kinds of instructions, loops, dependences of branches."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import networkx

from ptxsim.ptx import Imm, Instruction, Kernel, Mem, Operand, Pair, Reg, Special, Sym, Vec, unguarded

_LEAVES = ("bra", "ret", "exit", "trap")
_SHARED = ("shared", "shared::cta", "shared::cluster")
_BY_SECOND: dict[tuple[str, ...], str] = {
    ("tcgen05", "mma"): "product",
    ("tcgen05", "ld"): "tmem_load",
    ("tcgen05", "st"): "tmem_store",
    ("tcgen05", "cp"): "tmem_copy",
    ("tcgen05", "commit"): "commit",
    ("tcgen05", "alloc"): "tmem_alloc",
    ("wgmma", "mma_async"): "product",
    ("wgmma", "wait_group"): "wgmma_wait",
    ("mbarrier", "init"): "barrier_init",
    ("mbarrier", "arrive"): "arrive",
    ("mbarrier", "expect_tx"): "arrive",
    ("mbarrier", "try_wait"): "wait",
    ("mbarrier", "test_wait"): "wait",
    ("st", "async"): "remote_store",
}
_BY_FIRST = {
    "mma": "product",
    "ldmatrix": "shared_load",
    "stmatrix": "shared_store",
    "ex2": "exponential",
    "mapa": "remote_address",
    "clusterlaunchcontrol": "launch_control",
    "setmaxnreg": "setmaxnreg",
    "griddepcontrol": "grid_dependency",
    "fence": "fence",
    "membar": "fence",
}
INDEX = frozenset({"%ctaid", "%nctaid", "%clusterid", "%nclusterid"})  # special registers that tell CTAs apart


def what(ins: Instruction) -> str | None:
    """Return the kind of an instruction; None for arithmetic and control flow."""
    parts, base = ins.parts, ins.parts[0]
    if base == "cp":
        return _copy(parts)
    if base in ("bar", "barrier"):
        return _barrier(parts)
    if base in ("ld", "st", "red", "atom") and parts[1:2] != ("async",):
        return _access(base, parts)
    if base == "max" or (base == "redux" and "max" in parts):
        return "maximum" if any(p.startswith(("f", "bf")) and p != "ftz" for p in parts[1:]) else None
    return _BY_SECOND.get((base, *parts[1:2])) or _BY_FIRST.get(base)


def _copy(parts: tuple[str, ...]) -> str | None:
    if "bulk" not in parts:
        if "wait_group" in parts or "wait_all" in parts:
            return "cp_async_wait"
        return None if "commit_group" in parts else "arrive" if "mbarrier" in parts else "cp_async"
    if "commit_group" in parts:
        return None
    if "wait_group" in parts:
        return "store_wait"
    if "prefetch" in parts:
        return "prefetch"
    space = next((p for p in parts if p == "global" or p in _SHARED), "")
    tensor = "tensor" in parts
    if space != "global":
        return "tma_load" if tensor else "bulk_load"
    return "tma_reduce" if "reduce" in parts else "tma_store" if tensor else "bulk_store"


def _barrier(parts: tuple[str, ...]) -> str | None:
    if "warp" in parts:
        return None
    if "cluster" in parts:
        return "cluster_wait" if "wait" in parts else "cluster_arrive"
    return "named_arrive" if "arrive" in parts else "named_sync"


def _access(base: str, parts: tuple[str, ...]) -> str | None:
    if "param" in parts or "local" in parts or "const" in parts:
        return None
    verb = {"ld": "load", "st": "store"}.get(base, "atomic")
    if "shared::cluster" in parts:
        return f"remote_{verb}"
    return f"{'shared' if any(p in _SHARED for p in parts) else 'global'}_{verb}"


@dataclass(frozen=True)
class Loop:
    """A natural loop: its header and its blocks. `spins` says that it only waits."""

    header: int
    blocks: frozenset[int]
    spins: bool


@dataclass
class Depends:
    """Sources of a value: special registers, parameters, memory, and `counter`, an atomic in global memory."""

    specials: set[str] = field(default_factory=set)
    params: bool = False
    global_memory: bool = False
    shared_memory: bool = False
    counter: bool = False


class Code:
    """Blocks, loops and dependences of one entry; instructions are indices into `instructions`, as in ptxsim."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.instructions = unguarded(kernel.instructions)
        self.kinds = [what(ins) for ins in self.instructions]
        self.blocks = self._split()
        self.block_of = [n for n, block in enumerate(self.blocks) for _ in block]
        self.successors = [self._successors(n) for n in range(len(self.blocks))]

    def places(self, *kinds: str) -> list[int]:
        """Return the instructions of these kinds."""
        return sorted(at for kind in set(kinds) for at in self._of_kind.get(kind, ()))

    @cached_property
    def _of_kind(self) -> dict[str | None, list[int]]:
        result: dict[str | None, list[int]] = {}
        for at, kind in enumerate(self.kinds):
            result.setdefault(kind, []).append(at)
        return result

    def source(self, at: int) -> str | None:
        """Return file and line of the source, from the line table."""
        return self.instructions[at].source

    def sources(self, places: Iterable[int]) -> list[str]:
        """Return the distinct source lines of instructions, in order, without line 0."""
        result = {source for at in places if (source := self.source(at)) is not None and not source.endswith(":0")}
        return sorted(result, key=lambda text: (text.rpartition(":")[0], int(text.rpartition(":")[2])))

    def _split(self) -> list[range]:
        code = self.instructions
        leaders = {0}
        for at, ins in enumerate(code):
            if ins.base in _LEAVES:
                leaders.add(at + 1)
                if ins.base == "bra":
                    leaders.add(ins.target)
        starts = sorted(at for at in leaders if 0 <= at < len(code))
        return [range(a, b) for a, b in zip(starts, [*starts[1:], len(code)], strict=True)]

    def _successors(self, n: int) -> list[int]:
        last = self.instructions[self.blocks[n][-1]]
        out = [self.block_of[last.target]] if last.base == "bra" else []
        if (last.base not in _LEAVES or last.guard is not None) and n + 1 < len(self.blocks):
            out.append(n + 1)
        return out

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """Return the indices of the blocks before each block."""
        out: list[list[int]] = [[] for _ in self.blocks]
        for n, following in enumerate(self.successors):
            for m in following:
                out[m].append(n)
        return out

    @cached_property
    def dominators(self) -> dict[int, int]:
        """Return the immediate dominator of each block that the first one reaches, but of itself."""
        return _dominators(self.successors, 0)

    @cached_property
    def loops(self) -> list[Loop]:
        """Return natural loops, the largest first; loops with one header are merged."""
        bodies: dict[int, set[int]] = {}
        for n, following in enumerate(self.successors):
            for header in following:
                if self._dominates(header, n):
                    bodies.setdefault(header, {header}).update(self._reaching(n, header))
        loops = [Loop(header, frozenset(body), self._spins(body)) for header, body in bodies.items()]
        return sorted(loops, key=lambda loop: -len(loop.blocks))

    def _dominates(self, above: int, below: int) -> bool:
        n = below
        while n != above and n in self.dominators:  # code can lie before the block that dominates it
            n = self.dominators[n]
        return n == above

    def _reaching(self, n: int, header: int) -> set[int]:
        result, queue = {n}, [n] if n != header else []
        while queue:
            for m in self.predecessors[queue.pop()]:
                if m not in result and m != header:
                    result.add(m)
                    queue.append(m)
        return result

    def _spins(self, body: Iterable[int]) -> bool:
        """Return whether a loop only polls a barrier or a memory location."""
        inside = [at for n in body for at in self.blocks[n]]
        return len(inside) <= 24 and not any(
            self.kinds[at] not in (None, "wait", "fence", "global_load", "shared_load") for at in inside
        )

    def loops_around(self, at: int) -> list[Loop]:
        """Return the loops around an instruction, outermost first, without polling loops."""
        return [loop for loop in self.loops if self.block_of[at] in loop.blocks and not loop.spins]

    def within(self, loop: Loop, *kinds: str) -> list[int]:
        """Return the instructions of these kinds in a loop."""
        return [at for at in self.places(*kinds) if self.block_of[at] in loop.blocks]

    def exits(self, loop: Loop) -> list[int]:
        """Return the branches that leave a loop."""
        return [
            self.blocks[n][-1]
            for n in sorted(loop.blocks)
            if any(m not in loop.blocks for m in self.successors[n]) and self.instructions[self.blocks[n][-1]].guard
        ]

    @cached_property
    def controls(self) -> list[set[int]]:
        """Return control dependences: block -> deciding blocks (Ferrante, Ottenstein, Warren 1987)."""
        leaving = [n for n, following in enumerate(self.successors) if not following]
        end = len(self.blocks)  # one block behind all that leave
        forward = [[*following, *([end] if n in leaving else [])] for n, following in enumerate(self.successors)]
        above = _dominators([*forward, []], end, backward=True)
        out: list[set[int]] = [set() for _ in self.blocks]
        for n, following in enumerate(forward):
            if len(following) < 2:
                continue
            for m in following:
                runner: int | None = m
                while runner is not None and runner not in (above.get(n), end):
                    out[runner].add(n)
                    runner = above.get(runner)
        return out

    @cached_property
    def _definitions(self) -> dict[tuple[int, int], list[int]]:
        """Return (width, slot) of a register -> the instructions that write it."""
        result: dict[tuple[int, int], list[int]] = {}
        for at, ins in enumerate(self.instructions):
            if ins.operands and ins.base not in ("st", "bra", "bar", "fence"):
                for reg in _registers(ins.operands[0]):
                    result.setdefault((reg.width, reg.slot), []).append(at)
        return result

    def depends(self, at: int, loop: Loop | None = None, feeds: Mapping[int, Iterable[int]] | None = None) -> Depends:
        """Trace the guard of a branch back through all definitions of its registers.

        loop: within it, also follow the branches that decide which definition counts.
        feeds: load from shared memory -> the stores whose values it reads.
        """
        ends = set(self.exits(loop)) if loop else set()
        result = Depends()
        queue: list[Reg] = []
        seen: set[tuple[int, int]] = set()

        def follow(registers: Iterable[Reg]) -> None:
            fresh = [reg for reg in registers if (reg.width, reg.slot) not in seen]
            seen.update((reg.width, reg.slot) for reg in fresh)
            queue.extend(fresh)

        follow(self._guard(at))
        while queue:
            reg = queue.pop()
            for place in self._definitions.get((reg.width, reg.slot), []):
                ins, kind = self.instructions[place], self.kinds[place]
                if ins.base in ("ld", "atom"):
                    result.params |= kind is None
                    result.global_memory |= kind is not None and kind.startswith("global")
                    result.shared_memory |= kind is not None and not kind.startswith("global")
                    result.counter |= kind == "global_atomic"
                for operand in ins.operands[1:]:
                    result.specials |= {x.name.split(".")[0] for x in _leaves(operand) if isinstance(x, Special)}
                    follow(_registers(operand))
                for store in (feeds or {}).get(place, ()):
                    follow(_registers(self.instructions[store].operands[1]))
                if loop and self.block_of[place] in loop.blocks:
                    follow(self._guard(place))
                    inside = self.controls[self.block_of[place]] & loop.blocks
                    follow(r for n in inside if (last := self.blocks[n][-1]) not in ends for r in self._guard(last))
        return result

    def _guard(self, at: int) -> list[Reg]:
        guard = self.instructions[at].guard
        return [] if guard is None else [guard]

    def deciding(self, at: int) -> list[int]:
        """Return the branches that decide whether an instruction runs, directly or indirectly."""
        result: set[int] = set()
        queue = [self.block_of[at]]
        while queue:
            new = self.controls[queue.pop()] - result
            result |= new
            queue += new
        return [self.blocks[n][-1] for n in sorted(result)]


def _dominators(successors: list[list[int]], root: int, backward: bool = False) -> dict[int, int]:
    graph = networkx.DiGraph((n, m) for n, following in enumerate(successors) for m in following)
    graph.add_node(root)
    above = networkx.immediate_dominators(graph.reverse() if backward else graph, root)
    return {n: m for n, m in above.items() if n != root}


def _leaves(operand: Operand) -> Iterator[Reg | Imm | Sym | Special]:
    if isinstance(operand, Mem):
        yield from _leaves(operand.base)
        for coordinate in operand.coords:
            yield from _leaves(coordinate)
    elif isinstance(operand, Vec):
        for item in operand.items:
            yield from _leaves(item)
    elif isinstance(operand, Pair):
        yield from _leaves(operand.first)
        yield from _leaves(operand.second)
    elif operand is not None:
        yield operand


def _registers(operand: Operand) -> list[Reg]:
    return [leaf for leaf in _leaves(operand) if isinstance(leaf, Reg)]


def number(operand: Operand) -> int | None:
    """Return the value of an immediate integer operand."""
    return operand.value if isinstance(operand, Imm) and isinstance(operand.value, int) else None
