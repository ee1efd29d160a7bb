"""CTA and cluster barriers, fences, hints, addresses in other CTAs (PTX ISA 9.7.9, 9.7.13)."""

from dataclasses import dataclass

import numpy as np

from ..core.register_pool import RegisterPool, registers_at_launch
from ..core.warp import Fragment
from ..frontend.formats import TYPES, U32, U64
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction
from ..memory.address import OFFSET_MASK, RANK_SHIFT
from .tensor_map import map_fence


@emits("bar", "barrier", own_block=True, results=0)
def _bar(g: Generator, ins: Instruction) -> None:
    parts = [p for p in ins.parts[1:] if p not in ("cta", "aligned")]
    if "cluster" in parts:
        return _cluster_barrier(g, ins)
    if ins.parts[1:2] == ("warp",):
        g.collective()
        g.mods(ins, {"warp", "sync"}, types=0)
        g.line("f.cta.cluster.observer.warp_synchronised(f)")
        return None
    if parts not in (["sync"], ["arrive"]):
        raise g.unknown()
    g.collective()
    number, *rest = ins.operands
    count = g.read(rest[0], U32) if rest else "None"
    sleep = parts == ["sync"]
    spec = g.bind(BarrierSpec(g.at, sleep, g.block.index, g.block.next))
    return g.end(f"return cta_barrier(f, {spec}, {g.read(number, U32)}, {count})")


@dataclass(frozen=True, slots=True)
class BarrierSpec:
    """A bar.sync (sleeps) or bar.arrive; its block and the following block."""

    at: int
    sleep: bool
    block: int
    following: int


@runtime
def cta_barrier(f: Fragment, spec: BarrierSpec, number: np.ndarray, count: np.ndarray | None) -> int:
    """Arrive with a fragment's threads; warps with another barrier or count arrive separately."""
    at, sleep, following = spec.at, spec.sleep, spec.following
    for operand in (number, count):
        if operand is not None and np.ndim(operand):
            _split_by_value(f, spec, operand)
    f.pc = following  # where it is woken
    expected = None if count is None else f.value(count)
    f.cta.barrier(f.value(number)).arrive(f, at, expected, sleep)
    return following


def _split_by_value(f: Fragment, spec: BarrierSpec, operand: np.ndarray) -> None:
    """Keep the warps with the first lane's value; the others retry the barrier."""
    lanes = f.lanes()
    own = operand[lanes]
    if (own == own[0]).all():
        return
    equal = np.zeros(f.n, bool)
    for warp, members in f.lanes_by_warp(lanes).items():
        values = operand[members]
        if (values != values[0]).any():
            f.report(spec.at, "barrier", f"lanes of warp {warp} name different barriers or counts: {values[:32]}")
        equal[members] = values[0] == own[0]
    if not equal[lanes].all():
        f.branch(equal, spec.following, spec.block, negated=False)


def _cluster_barrier(g: Generator, ins: Instruction) -> None:
    parts = [p for p in ins.parts[1:] if p not in ("cluster", "aligned", "release", "relaxed", "acquire")]
    if parts not in (["arrive"], ["wait"]):
        raise g.unknown()
    if "aligned" in ins.parts:
        g.collective()
    g.end(f"return cluster_barrier(f, {g.at}, {parts == ['wait']}, {g.block.next})")


@runtime
def cluster_barrier(f: Fragment, at: int, wait: bool, following: int) -> int:
    f.pc = following  # where it is woken
    if wait:
        f.cta.cluster.barrier.wait(f, at)
    else:
        f.cta.cluster.barrier.arrive(f, at)
    return following


_FENCES = {
    "proxy",
    "alias",
    "acq_rel",
    "sc",
    "acquire",
    "release",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "mbarrier_init",
    "gl",
    "sync_restrict::shared::cta",
    "sync_restrict::shared::cluster",
}


@emits("membar", "fence", results=0)
def _fence(g: Generator, ins: Instruction) -> None:
    """Emit a fence: memory is sequentially consistent, so only the checks see it."""
    for part in ins.parts[1:]:
        if part not in _FENCES and part.split("::")[0] not in ("tensormap", "async", "shared", "global"):
            raise g.unknown(f".{part}")
    if any(p.startswith("tensormap") for p in ins.parts):
        return map_fence(g, ins)
    proxy = "proxy" in ins.parts and any(p.split("::")[0] == "async" for p in ins.parts)
    if proxy:
        g.line("f.cta.cluster.observer.proxy_fenced(f)")
    if proxy or "mbarrier_init" in ins.parts:
        g.line("f.cta.cluster.observer.init_fenced(f)")
    if not {"gpu", "sys", "gl"}.isdisjoint(ins.parts) and "proxy" not in ins.parts:
        g.line("f.cta.cluster.observer.memory_fenced(f)")


@emits("setmaxnreg", "griddepcontrol", "nanosleep", "pmevent", results=0)
def _hint(g: Generator, ins: Instruction) -> None:
    """Emit a hint, which has no effect on values."""
    known = {"inc", "dec", "sync", "aligned", "u32", "launch_dependents", "wait", "mask"}
    if set(ins.parts[1:]) - known:
        raise g.unknown()
    if ins.parts[:2] == ("griddepcontrol", "wait"):
        g.line("f.cta.cluster.observer.dependency_waited(f)")
    if ins.base == "nanosleep":
        g.line("f.cta.cluster.rest = True")
    if ins.base == "setmaxnreg":
        g.line(f"change_registers(f, {g.at}, {g.read(ins.operands[0], U32)}, {'inc' in ins.parts})")


@runtime
def change_registers(f: Fragment, at: int, count: int, more: bool) -> None:
    """Change the registers per thread of warps (setmaxnreg)."""
    cta = f.cta
    if cta.register_pool is None:
        per_thread = registers_at_launch(cta.launch)
        if per_thread is None:
            return
        cta.register_pool = RegisterPool(cta.launch, per_thread)
    cta.register_pool.change(f, at, int(count), more)


@emits("mapa")
def _mapa(g: Generator, ins: Instruction) -> None:
    """Emit the address of a shared variable in another CTA of the cluster."""
    dst, a, rank = ins.operands
    fmt = TYPES[ins.parts[-1]]
    spaced = "shared::cluster" in ins.parts
    if not spaced and fmt is not U64:
        raise g.unknown()
    keep = OFFSET_MASK if spaced else ~(0xFF << RANK_SHIFT)  # a generic address keeps its window
    moved = f"({g.read(rank, U32)}.astype('{fmt.numpy}') << {g.constant(RANK_SHIFT, fmt)})"
    g.write(dst, fmt, f"({g.read(a, fmt)} & {g.constant(keep, fmt)} | {moved})")


@emits("getctarank")
def _getctarank(g: Generator, ins: Instruction) -> None:
    dst, a = ins.operands
    if "shared::cluster" not in ins.parts:
        raise g.unknown()
    fmt = TYPES[ins.parts[-1]]
    g.write(dst, U32, f"({g.read(a, fmt)} >> {g.constant(RANK_SHIFT, fmt)}).astype('u4')")
