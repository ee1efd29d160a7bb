"""Warp-wide instructions: shuffles, votes, elect, match, redux (PTX ISA 9.7.9 and 9.7.13)."""

from functools import lru_cache

import numpy as np

from ..core.warp import Fragment
from ..frontend.formats import PRED, TYPES, U32
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Imm, Instruction, Reg, pair

Shuffled = tuple[np.ndarray, np.ndarray]  # per lane: the source lane within the range, whether it was in range


@emits("shfl", own_block=True)
def _shfl(g: Generator, ins: Instruction) -> None:
    mods, _ = g.mods(ins, {"sync", "up", "down", "bfly", "idx"})
    dst, a, b, c, member = ins.operands
    g.collective(member)
    mode = next(iter(mods - {"sync"}))
    value, in_range = pair(dst)
    t = g.temp()
    if isinstance(b, Imm) and isinstance(c, Imm):
        g.line(f"{t} = fixed_shuffle('{mode}', {b.value}, {c.value}, f.n)")
    else:
        g.line(f"{t} = shuffle('{mode}', {g.read(b, U32)}, {g.read(c, U32)}, f.n)")
    g.write(value, U32, f"{g.read(a, U32)}[{t}[0]]" if isinstance(a, Reg) else g.read(a, U32))
    if in_range is not None:
        g.write(in_range, PRED, f"{t}[1]")
    if g.masked or not (isinstance(member, Imm) and int(member.value) & 0xFFFFFFFF == 0xFFFFFFFF):
        g.line(f"check_sources(f, {g.at}, {t}[0], {g.read(member, U32)})")


@runtime
def shuffle(mode: str, b: np.ndarray, c: np.ndarray, n: int) -> Shuffled:
    """Return the source lane of each of n lanes, and whether it is in range."""
    index = np.arange(n)
    lane = index & 31
    b = np.asarray(b).astype(np.int64) & 31
    c = np.asarray(c).astype(np.int64)
    clamp, segment = c & 31, (c >> 8) & 31
    top = (lane & segment) | (clamp & ~segment)
    if mode == "up":
        source = lane - b
        ok = source >= top
    else:
        source = {"down": lane + b, "bfly": lane ^ b, "idx": (lane & segment) | (b & ~segment & 31)}[mode]
        ok = source <= top
    source = np.where(ok, source, lane)
    return np.minimum((index & ~31) + source, n - 1), np.broadcast_to(ok, (n,))


@runtime
def check_sources(f: Fragment, at: int, source: np.ndarray, member: np.ndarray) -> None:
    """Report lanes that read from an exited lane or from one outside the member mask."""
    if "inactive" not in f.machine.checks:
        return
    lanes = f.lanes()
    of = source[lanes]
    masks = np.broadcast_to(member, (f.n,))[lanes]
    valid = f.cta.alive[f.lo : f.hi][of] & (masks >> (of & 31).astype(np.uint32) & 1).astype(bool)
    bad = ~valid & (of != lanes)
    left_out = (masks >> (lanes & 31).astype(np.uint32) & 1) == 0
    if left_out.any():
        subject = f"lane {int(lanes[left_out][0]) % 32} shuffles, and"
        f.report(
            at, "inactive", f"{subject} the member mask {int(masks[left_out][0]):#x} leaves it out", lanes[left_out]
        )
    elif bad.any():
        lane, other = int(lanes[bad][0]) % 32, int(of[bad][0])
        why = "has exited" if not f.cta.alive[f.lo + other] else f"is not in the member mask {int(masks[bad][0]):#x}"
        f.report(at, "inactive", f"lane {lane} takes its value from lane {other % 32}, which {why}", lanes[bad])


@runtime
@lru_cache(maxsize=256)
def fixed_shuffle(mode: str, b: int, c: int, n: int) -> Shuffled:
    return shuffle(mode, np.array(b), np.array(c), n)


@emits("vote", own_block=True)
def _vote(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"sync", "all", "any", "uni", "ballot"})
    dst, p, member = ins.operands
    g.collective(member)
    mode = next(iter(mods - {"sync"}))
    g.write(dst, TYPES[kind], f"vote(f, {g.read(p, PRED)}, '{mode}')")


def _by_warp(f: Fragment, p: np.ndarray | bool) -> tuple[np.ndarray, np.ndarray]:
    """Return a predicate and the active lanes as (warps, 32), padded with inactive lanes."""
    n = -(-f.n // 32) * 32
    padded, active = np.zeros(n, bool), np.zeros(n, bool)
    padded[: f.n] = p
    active[: f.n] = f.cta.alive[f.lo : f.hi] if f.mask is None else f.mask
    return padded.reshape(-1, 32), active.reshape(-1, 32)


def _spread(f: Fragment, per_warp: np.ndarray) -> np.ndarray:
    """Broadcast one value per warp to all its lanes."""
    return np.repeat(per_warp, 32)[: f.n]


@runtime
def vote(f: Fragment, p: np.ndarray | bool, mode: str) -> np.ndarray:
    p, active = _by_warp(f, p)
    if mode == "ballot":
        return _spread(f, np.packbits(p & active, axis=1, bitorder="little").view(np.uint32).ravel())
    everyone, anyone = (p | ~active).all(1), (p & active).any(1)
    return _spread(f, {"all": everyone, "any": anyone, "uni": everyone | ~anyone}[mode])


@emits("activemask")
def _activemask(g: Generator, ins: Instruction) -> None:
    g.mods(ins, set())
    g.write(ins.operands[0], U32, "vote(f, True, 'ballot')")


@emits("elect", own_block=True)
def _elect(g: Generator, ins: Instruction) -> None:
    g.mods(ins, {"sync"}, types=0)
    dst, member = ins.operands
    g.collective(member)
    first, second = pair(dst)
    leader, chosen = (first, second) if second is not None else (None, first)
    g.write(chosen, PRED, "elect(f)")
    if leader is not None:
        g.write(leader, U32, "elected(f)")


@lru_cache
def _first_lanes(n: int) -> np.ndarray:
    return np.arange(n) % 32 == 0


@runtime
def elect(f: Fragment) -> np.ndarray:
    """Return True in the lowest active lane of each warp (PTX leaves the choice open)."""
    if f.mask is None:
        return _first_lanes(f.n)
    _, active = _by_warp(f, False)
    first = active & (np.cumsum(active, 1) == 1)
    return first.ravel()[: f.n]


@runtime
def elected(f: Fragment) -> np.ndarray:
    """Return the number of the elected lane."""
    _, active = _by_warp(f, False)
    return _spread(f, active.argmax(1).astype(np.uint32))


@emits("match", own_block=True)
def _match(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"any", "all", "sync"})
    dst, a, member = ins.operands
    g.collective(member)
    if "all" in mods:
        raise g.unknown()
    g.write(dst, U32, f"match_any(f, {g.read(a, TYPES[kind])})")


@runtime
def match_any(f: Fragment, a: np.ndarray) -> np.ndarray:
    _, active = _by_warp(f, False)
    a = np.broadcast_to(a, (f.n,)).reshape(-1, 32)
    same = (a[:, :, None] == a[:, None, :]) & active[:, None, :]
    masks: np.ndarray = np.packbits(same, axis=2, bitorder="little").view(np.uint32).reshape(-1)
    return masks


@emits("redux", own_block=True)
def _redux(g: Generator, ins: Instruction) -> None:
    mods, (kind,) = g.mods(ins, {"sync", "add", "min", "max", "and", "or", "xor", "abs", "NaN"})
    dst, a, member = ins.operands
    g.collective(member)
    op = next(iter(mods - {"sync", "abs", "NaN"}))
    fmt = TYPES[kind]
    g.write(dst, fmt, f"redux(f, {g.read(a, fmt)}, '{op}', {'abs' in mods}, {'NaN' in mods})")


@runtime
def redux(f: Fragment, a: np.ndarray, op: str, magnitude: bool, nan: bool) -> np.ndarray:
    """Return the sum, extremum or bitwise combination over the active lanes of each warp."""
    _, active = _by_warp(f, False)
    a = np.broadcast_to(a, (f.n,)).reshape(-1, 32)
    a = np.abs(a) if magnitude else a
    combine: dict[str, np.ufunc] = {
        "add": np.add,
        "min": np.minimum if nan else np.fmin,
        "max": np.maximum if nan else np.fmax,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    out = np.zeros(len(a), a.dtype)
    for w in range(len(a)):
        if active[w].any():
            out[w] = combine[op].reduce(a[w][active[w]], dtype=a.dtype)
    return np.repeat(out, 32)
