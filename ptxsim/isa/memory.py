"""Loads, stores and prefetches in every state space (PTX ISA 9.7.9)."""

from functools import lru_cache
from typing import Any

import numpy as np

from ..core.warp import Fragment
from ..frontend.formats import B128, TYPES, U64, Format
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction, Mem, Operand, Sym, items
from ..memory.address_check import reach
from ..memory.global_memory import Access

_ORDER = {
    "weak",
    "volatile",
    "relaxed",
    "acquire",
    "release",
    "acq_rel",
    "mmio",
    "cta",
    "cluster",
    "gpu",
    "sys",
    "nc",
    "unified",
}
_CACHE = {"ca", "cg", "cs", "lu", "cv", "wb", "wt"}  # performance hints: they order nothing (PTX ISA 9.7.9.1)
_SPACES = ("global", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry", "const")
_HINTS = ("L1::", "L2::", "level::")


def state_space(ins: Instruction) -> str:
    return next((part.split("::")[0] for part in ins.parts[1:] if part in _SPACES), "generic")


def is_ordered(ins: Instruction) -> bool:
    """Return whether other threads may access the same word at the same time."""
    return not {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio"}.isdisjoint(ins.parts)


def is_release(ins: Instruction) -> bool:
    """Return whether an acquiring reader of this write learns what the thread did before."""
    return not {"release", "acq_rel"}.isdisjoint(ins.parts)


def is_acquire(ins: Instruction) -> bool:
    """Return whether this read learns what the thread that released the value did before."""
    return not {"acquire", "acq_rel"}.isdisjoint(ins.parts)


def scope_of(ins: Instruction) -> str:
    """Return the scope of an ordered access: cta, cluster, or gpu for every wider one."""
    return next((part for part in ("cta", "cluster") if part in ins.parts[1:]), "gpu")


def value_type(g: Generator, ins: Instruction, extra: frozenset[str] = frozenset()) -> str:
    """Return the PTX type of a load, store or atomic; reject unknown modifiers."""
    known = _ORDER | _CACHE | set(_SPACES) | {"v2", "v4", "v8"} | extra
    kinds = []
    for part in ins.parts[1:]:
        if part in TYPES:
            kinds.append(part)
        elif part not in known and not part.startswith(_HINTS):
            raise g.unknown(f".{part}")
    if len(kinds) != 1:
        raise g.unknown()
    return kinds[0]


def without_policy(ins: Instruction) -> tuple[Operand, ...]:
    """Return the operands without the cache policy, which changes no value."""
    return ins.operands[:-1] if "L2::cache_hint" in ins.parts else ins.operands


def _moved_as(kind: str) -> tuple[Format, int]:
    """Return the (format, count) in which a load or store moves a value."""
    fmt = TYPES[kind]
    if fmt is B128:
        return U64, 2
    return (fmt.unsigned if fmt.elements > 1 else fmt), 1


@emits("ld", "ldu")
def _ld(g: Generator, ins: Instruction) -> None:
    fmt, each = _moved_as(value_type(g, ins))
    dst, mem = without_policy(ins)
    space, t, count = state_space(ins), g.temp(), len(items(dst)) * each
    if space == "param" and isinstance(mem, Mem) and isinstance(mem.base, Sym):
        g.line(f"{t} = parameter(f, {_parameter_offset(g, mem, mem.base)}, {g.bind(fmt.dtype)}, {count})")
    else:
        addr, offset = g.address(mem)
        order = {"ordered": is_ordered(ins), "acquires": is_acquire(ins)}
        access = Access.of(g.at, space, fmt.dtype, count, offset, **order, scope=scope_of(ins))
        g.line(f"{t} = load(f, {g.bind(access)}, {addr})")
    for j, item in enumerate(items(dst)):
        if item is None:
            continue
        if each == 2:
            where = "m" if g.masked else "True"
            g.line(f"pack128({g.target(item, B128)}, {t}[{2 * j}], {t}[{2 * j + 1}], {where})")
        else:
            g.write(item, fmt, f"{t}[{j}]")


def _parameter_offset(g: Generator, mem: Mem, symbol: Sym) -> int:
    for parameter in g.program.kernel.params:
        if parameter.name == symbol.name:
            return parameter.offset + symbol.offset + mem.offset
    raise g.fail(f"unknown parameter {symbol.name}")


@emits("st", results=0)
def _st(g: Generator, ins: Instruction) -> None:
    fmt, each = _moved_as(value_type(g, ins))
    mem, src = without_policy(ins)
    if each == 2:
        words = [f"{g.target(x, B128)}[:, {j}]" for x in items(src) for j in (0, 1)]
        values = f"({', '.join(words)},)"
    else:
        fmt = fmt.unsigned
        values = g.reads(items(src), fmt)
    addr, offset = g.address(mem)
    count, order = each * len(items(src)), {"ordered": is_ordered(ins), "releases": is_release(ins)}
    access = Access.of(g.at, state_space(ins), fmt.dtype, count, offset, write=True, **order, scope=scope_of(ins))
    g.line(f"store(f, {g.bind(access)}, {addr}, {values})")


@runtime
def parameter(f: Fragment, offset: int, dtype: np.dtype[Any], count: int) -> np.ndarray:
    """Return values from the parameter bytes, equal for all lanes."""
    return np.frombuffer(f.cta.launch.params, dtype, count, offset)


@runtime
def load(f: Fragment, access: Access, addr: np.ndarray) -> np.ndarray:
    """Load an array (count, lanes); inactive lanes hold zeros."""
    count, dtype = access.count, access.dtype
    out = np.zeros((count, f.n), dtype)
    for words, index, lanes in reach(f, access, addr):
        got = words[index].view(dtype) if count == 1 else words[index[None, :] + _steps(count)].view(dtype)
        if lanes is None:
            out[...] = got
        else:
            out[:, lanes] = got
    return out


@lru_cache
def _steps(count: int) -> np.ndarray:
    return np.arange(count)[:, None]


@runtime
def store(f: Fragment, access: Access, addr: np.ndarray, values: tuple[np.ndarray, ...]) -> None:
    f.cta.cluster.progress += 1
    for words, index, lanes in reach(f, access, addr):
        for j, value in enumerate(values):
            words[index + j if j else index] = value if lanes is None or np.ndim(value) == 0 else value[lanes]
        if f.cta.cluster.observer.doubtful:
            _settle(f, words, index, lanes, values)


def _settle(
    f: Fragment, words: np.ndarray, index: np.ndarray, lanes: np.ndarray | None, values: tuple[np.ndarray, ...]
) -> None:
    """Tell the observer whether every lane finds what it has written."""
    agree = all(
        np.array_equal(words[index + j], np.broadcast_to(value, (f.n,))[slice(None) if lanes is None else lanes])
        for j, value in enumerate(values)
    )
    for cta in f.cta.cluster.ctas:
        if any(view is words for view in cta.words.values()):
            return f.cta.cluster.observer.shared_written(cta, agree)
    f.cta.cluster.observer.global_written(agree)


@emits("createpolicy")
def _createpolicy(g: Generator, ins: Instruction) -> None:
    """Emit a policy of zero: no value depends on it (PTX ISA 9.7.9.17)."""
    if ins.parts[1] not in ("fractional", "range", "cvt") or not any(part.startswith("L2") for part in ins.parts):
        raise g.unknown()
    g.write(ins.operands[0], U64, g.constant(0, U64))


@emits("prefetch", "prefetchu", "applypriority", "discard", results=0)
def _prefetch(g: Generator, ins: Instruction) -> None:
    """Emit nothing: prefetches have no effect on values."""
    first: Operand = ins.operands[0] if ins.operands else None
    if not isinstance(first, Mem):
        raise g.unknown()
