"""Emitters of warp-wide and CTA-wide instructions: shuffles, votes, elect, barriers, fences (PTX ISA 9.7.9, 9.7.13)."""

from __future__ import annotations

import numpy as np

from .syntax import Imm, Instruction, Pair
from .translate import TYPE_KIND, Generator, emits, runtime


def gather_warp(g: Generator, member=None) -> None:
    """The block may only run with its warps whole, unless an explicit member mask names fewer lanes."""
    if member is None or (isinstance(member, Imm) and member.value & 0xFFFFFFFF == 0xFFFFFFFF):
        g.block.collective = True


@emits("shfl", boundary=True)
def _shfl(g: Generator, ins: Instruction) -> None:
    mods, _ = g.mods(ins, {"sync", "up", "down", "bfly", "idx"})
    dst, a, b, c, member = ins.operands
    gather_warp(g, member)
    mode = next(iter(mods - {"sync"}))
    first, second = (dst.first, dst.second) if isinstance(dst, Pair) else (dst, None)
    t = g.temp()
    fixed = f"({b.value}, {c.value})" if isinstance(b, Imm) and isinstance(c, Imm) else "None"
    g.line(f"{t} = shuffle(f, '{mode}', {g.read(b, 'u4')}, {g.read(c, 'u4')}, {fixed})")
    if isinstance(a, Imm) or not hasattr(a, "slot"):
        g.write(first, "u4", g.read(a, "u4"))
    else:
        g.write(first, "u4", f"{g.read(a, 'u4')}[{t}[0]]")
    if second is not None:
        g.write(second, "p", f"{t}[1]")


_SHUFFLES: dict[tuple, tuple] = {}


@runtime
def shuffle(f, mode: str, b, c, fixed):
    """(source lane within the range, in-range predicate) of a shuffle, per lane."""
    key = (mode, fixed, f.n)
    if fixed is not None and key in _SHUFFLES:
        return _SHUFFLES[key]
    index = np.arange(f.n)
    lane = index & 31
    b = np.asarray(b).astype(np.int64) & 31
    c = np.asarray(c).astype(np.int64)
    clamp, seg = c & 31, (c >> 8) & 31
    top = (lane & seg) | (clamp & ~seg)
    if mode == "up":
        j = lane - b
        ok = j >= top
    elif mode == "down":
        j = lane + b
        ok = j <= top
    elif mode == "bfly":
        j = lane ^ b
        ok = j <= top
    else:
        j = (lane & seg) | (b & ~seg & 31)
        ok = j <= top
    j = np.where(ok, j, lane)
    result = (np.minimum((index & ~31) + j, f.n - 1), np.broadcast_to(ok, (f.n,)))
    if fixed is not None:
        _SHUFFLES[key] = result
    return result


@emits("vote", boundary=True)
def _vote(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"sync", "all", "any", "uni", "ballot"})
    dst, p, member = ins.operands
    gather_warp(g, member)
    mode = next(iter(mods - {"sync"}))
    g.write(dst, TYPE_KIND[kind], f"vote(f, {g.read(p, 'p')}, '{mode}')")


def _by_warp(f, p) -> tuple[np.ndarray, np.ndarray]:
    """Predicate and activity as (warps, 32), padded with inactive lanes."""
    n = -(-f.n // 32) * 32
    pad = np.zeros(n, bool)
    pad[: f.n] = p
    active = np.zeros(n, bool)
    active[: f.n] = f.cta.alive[f.lo : f.hi] if f.mask is None else f.mask
    return pad.reshape(-1, 32), active.reshape(-1, 32)


@runtime
def vote(f, p, mode: str):
    p, active = _by_warp(f, p)
    if mode == "ballot":
        words = np.packbits(p & active, axis=1, bitorder="little").view(np.uint32)
        return np.repeat(words.ravel(), 32)[: f.n]
    if mode == "all":
        r = (p | ~active).all(1)
    elif mode == "any":
        r = (p & active).any(1)
    else:
        r = (p | ~active).all(1) | ~(p & active).any(1)
    return np.repeat(r, 32)[: f.n]


@emits("activemask")
def _activemask(g: Generator, ins: Instruction) -> None:
    g.mods(ins, set())
    g.write(ins.operands[0], "u4", "vote(f, True, 'ballot')")


@emits("elect", boundary=True)
def _elect(g: Generator, ins: Instruction) -> None:
    g.mods(ins, {"sync"}, types=0)
    dst, member = ins.operands
    gather_warp(g, member)
    first, second = (dst.first, dst.second) if isinstance(dst, Pair) else (None, dst)
    g.write(second, "p", "elect(f)")
    if first is not None:
        g.write(first, "u4", "vote_leader(f)")


_LEADERS: dict[int, np.ndarray] = {}


@runtime
def elect(f):
    """True in one lane per warp: the lowest active one (PTX leaves the choice open)."""
    if f.mask is None:
        if f.n not in _LEADERS:
            _LEADERS[f.n] = np.arange(f.n) % 32 == 0
        return _LEADERS[f.n]
    _, active = _by_warp(f, False)
    first = active & (np.cumsum(active, 1) == 1)
    return first.ravel()[: f.n]


@runtime
def vote_leader(f):
    _, active = _by_warp(f, False)
    return np.repeat(active.argmax(1).astype(np.uint32), 32)[: f.n]


@emits("match", boundary=True)
def _match(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"any", "all", "sync"})
    dst, a, member = ins.operands
    gather_warp(g, member)
    if "all" in mods:
        raise g.fail(f"unknown opcode {ins.op}")
    g.write(dst, "u4", f"match_any(f, {g.read(a, TYPE_KIND[kind])})")


@runtime
def match_any(f, a):
    _, active = _by_warp(f, False)
    a = np.broadcast_to(a, (f.n,)).reshape(-1, 32)
    same = (a[:, :, None] == a[:, None, :]) & active[:, None, :]
    return np.packbits(same, axis=2, bitorder="little").view(np.uint32).reshape(-1)


@emits("redux", boundary=True)
def _redux(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"sync", "add", "min", "max", "and", "or", "xor", "abs", "NaN"})
    dst, a, member = ins.operands
    gather_warp(g, member)
    op = next(iter(mods - {"sync", "abs", "NaN"}))
    k = TYPE_KIND[kind]
    g.write(dst, k, f"redux(f, {g.read(a, k)}, '{op}', {'abs' in mods}, {'NaN' in mods})")


@runtime
def redux(f, a, op: str, magnitude: bool, nan: bool):
    _, active = _by_warp(f, False)
    a = np.broadcast_to(a, (f.n,)).reshape(-1, 32)
    a = np.abs(a) if magnitude else a
    out = np.zeros(len(a), a.dtype)
    fns = {
        "add": np.add,
        "min": np.minimum if nan else np.fmin,
        "max": np.maximum if nan else np.fmax,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    for w in range(len(a)):
        if active[w].any():
            out[w] = fns[op].reduce(a[w][active[w]], dtype=a.dtype)
    return np.repeat(out, 32)


@emits("bar", "barrier", boundary=True)
def _bar(g: Generator, ins: Instruction) -> None:
    parts = [p for p in ins.parts[1:] if p not in ("cta", "aligned")]
    if "cluster" in parts:
        return _cluster_barrier(g, ins)
    if ins.parts[1:2] == ("warp",):
        g.block.collective = True
        return g.mods(ins, {"warp", "sync"}, types=0)
    gather_warp(g)
    number, *rest = ins.operands
    if parts == ["sync"] or parts == ["arrive"]:
        count = g.read(rest[0], "u4") if rest else "None"
        nxt = g.block.next
        g.end(f"return cta_barrier(f, {g.at}, {g.read(number, 'u4')}, {count}, {parts[0] == 'sync'}, {nxt})")
        return None
    raise g.fail(f"unknown opcode {ins.op}")


@runtime
def cta_barrier(f, i: int, number, count, wait: bool, nxt: int) -> int:
    """bar.sync and bar.arrive: a fragment's threads arrive at once; with `wait` it sleeps until all have."""
    lane = 0 if f.mask is None else int(np.flatnonzero(f.mask)[0])
    number = int(np.broadcast_to(number, (f.n,))[lane])
    expected = None if count is None else int(np.broadcast_to(count, (f.n,))[lane])
    f.cta.barrier(number).arrive(f, i, expected, wait, nxt)
    return nxt


def _cluster_barrier(g: Generator, ins: Instruction) -> None:
    parts = [p for p in ins.parts[1:] if p not in ("cluster", "aligned", "release", "relaxed", "acquire")]
    if parts not in (["arrive"], ["wait"]):
        raise g.fail(f"unknown opcode {ins.op}")
    if "aligned" in ins.parts:
        gather_warp(g)
    nxt = g.block.next
    g.end(f"return cluster_barrier(f, {g.at}, {parts[0] == 'wait'}, {'relaxed' in ins.parts}, {nxt})")


@runtime
def cluster_barrier(f, i: int, wait: bool, relaxed: bool, nxt: int) -> int:
    barrier = f.cta.cluster_barrier
    if wait:
        barrier.wait(f, i, nxt)
    else:
        barrier.arrive(f, i, relaxed)
    return nxt


@emits("membar", "fence", boundary=False)
def _fence(g: Generator, ins: Instruction) -> None:
    """Memory is sequentially consistent here; a proxy fence only matters to the checks."""
    known = {
        "proxy",
        "async",
        "alias",
        "tensormap",
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
        "async::generic",
        "sync_restrict::shared::cta",
        "sync_restrict::shared::cluster",
    }
    for part in ins.parts[1:]:
        if part not in known and part.split("::")[0] not in ("tensormap", "async", "shared", "global"):
            raise g.fail(f"unknown opcode {ins.op} (.{part})")
    proxy = "proxy" in ins.parts and any(p.split("::")[0] == "async" for p in ins.parts)
    if proxy:
        g.line(f"proxy_fence(f, {g.at})")
    if proxy or "mbarrier_init" in ins.parts:
        g.line("mbarrier_fence(f)")


@runtime
def mbarrier_fence(f) -> None:
    if f.cta.machine.order is not None:
        f.cta.machine.order.init_fence(f)


@runtime
def proxy_fence(f, i: int) -> None:
    order = f.cta.machine.order
    if order is not None:
        order.proxy_fence(f)


@emits("setmaxnreg", "griddepcontrol", "nanosleep", "pmevent", boundary=False)
def _hint(g: Generator, ins: Instruction) -> None:
    """No effect on values: launches run one after another, and the register file is virtual."""
    known = {"inc", "dec", "sync", "aligned", "u32", "launch_dependents", "wait", "mask"}
    if set(ins.parts[1:]) - known:
        raise g.fail(f"unknown opcode {ins.op}")
    if ins.base == "nanosleep":
        g.line("f.cta.machine.rest = True")


@emits("mapa")
def _mapa(g: Generator, ins: Instruction) -> None:
    """The address of the same shared variable in another CTA of the cluster."""
    dst, a, rank = ins.operands
    k = TYPE_KIND[ins.parts[-1]]
    spaced = "shared::cluster" in ins.parts
    if not spaced and k != "u8":
        raise g.fail(f"unknown opcode {ins.op}")
    keep = 0xFFFFFF if spaced else ~0xFF000000  # a generic address keeps its window
    g.write(
        dst,
        k,
        f"({g.read(a, k)} & {g.constant(keep, k)} | ({g.read(rank, 'u4')}.astype('{k}') << {g.constant(24, k)}))",
    )


@emits("getctarank")
def _getctarank(g: Generator, ins: Instruction) -> None:
    dst, a = ins.operands
    if "shared::cluster" not in ins.parts:
        raise g.fail(f"unknown opcode {ins.op}")
    k = TYPE_KIND[ins.parts[-1]]
    g.write(dst, "u4", f"({g.read(a, k)} >> {g.constant(24, k)}).astype('u4')")
