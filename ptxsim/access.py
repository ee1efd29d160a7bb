"""Loads, stores and atomics in every state space (PTX ISA 9.7.9 and 9.7.13).

Addresses: shared ones carry the CTA's rank in the cluster from bit 24 up; generic ones name their space in bits 56
and up (see convert.py); global ones are host addresses.
"""

from __future__ import annotations

import numpy as np

from .convert import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW
from .syntax import Instruction, Mem, Sym, Vec
from .translate import KIND_DTYPE, TYPE_KIND, Generator, emits, runtime

_ORDER = {"weak", "volatile", "relaxed", "acquire", "release", "mmio", "cta", "cluster", "gpu", "sys", "nc", "unified"}
_SPACES = ("global", "shared", "shared::cta", "shared::cluster", "local", "param", "const")
_RANK, _OFFSET = np.uint64(24), np.uint64(0xFFFFFF)
SHARED_BASE = 1024  # the first KiB of shared memory belongs to the system; offsets below are past it
_BASE = np.uint64(SHARED_BASE)


def _space(ins: Instruction) -> str:
    for part in ins.parts[1:]:
        if part in _SPACES:
            return part.split("::")[0]
        if part in ("param::entry",):
            return "param"
    return "generic"


def _checked(g: Generator, ins: Instruction, extra: set[str] = frozenset()) -> str:
    """The type of a load or store whose other modifiers are all known."""
    kind = None
    for part in ins.parts[1:]:
        if part in TYPE_KIND:
            if kind:
                raise g.fail(f"unknown opcode {ins.op}")
            kind = part
        elif not (
            part in _ORDER
            or part in _SPACES
            or part in ("v2", "v4", "v8", "param::entry")
            or part in extra
            or part.startswith(("L1::", "L2::", "level::"))
        ):
            raise g.fail(f"unknown opcode {ins.op} (.{part})")
    if kind is None:
        raise g.fail(f"unknown opcode {ins.op}")
    return kind


def element(kind: str) -> tuple[str, int]:
    """(numpy kind, elements) a memory type is moved as."""
    if kind == "b128":
        return "u8", 2
    k = TYPE_KIND[kind]
    return {"h4": "u4", "w4": "u4", "s8": "u8"}.get(k, k), 1


@emits("ld", "ldu")
def _ld(g: Generator, ins: Instruction) -> None:
    kind = _checked(g, ins)
    k, per = element(kind)
    dst, mem = ins.operands
    items = dst.items if isinstance(dst, Vec) else (dst,)
    space = _space(ins)
    t = g.temp()
    count = len(items) * per
    if space == "param" and isinstance(mem.base, Sym):
        offset = next((p.offset for p in g.program.kernel.params if p.name == mem.base.name), None)
        if offset is None:
            raise g.fail(f"unknown parameter {mem.base.name}")
        g.line(f"{t} = ld_param(f, {offset + mem.base.offset + mem.offset}, '{k}', {count})")
    else:
        addr, offset = g.address(mem)
        g.line(f"{t} = load(f, {g.at}, '{space}', {addr}, {offset}, '{k}', {count})")
    for j, item in enumerate(items):
        if item is None:
            continue
        if per == 2:
            g.line(f"pack128({g.target(item, 'q')}, {t}[{2 * j}], {t}[{2 * j + 1}], {'m' if g.masked else 'None'})")
        else:
            g.write(item, k, f"{t}[{j}]")


@emits("st")
def _st(g: Generator, ins: Instruction) -> None:
    kind = _checked(g, ins)
    k, per = element(kind)
    mem, src = ins.operands
    items = src.items if isinstance(src, Vec) else (src,)
    addr, offset = g.address(mem)
    if per == 2:
        values = [f"{g.target(x, 'q')}[:, {j}]" for x in items for j in (0, 1)]
    else:
        k = "u" + k[1]
        values = [g.read(x, k) for x in items]
    g.line(f"store(f, {g.at}, '{_space(ins)}', {addr}, {offset}, '{k}', ({', '.join(values)},))")


@runtime
def ld_param(f, offset: int, kind: str, count: int):
    raw = f.cta.launch.params[offset : offset + np.dtype(KIND_DTYPE[kind]).itemsize * count]
    return np.frombuffer(raw, KIND_DTYPE[kind])


@runtime
def load(f, i: int, space: str, addr, offset: int, kind: str, count: int) -> np.ndarray:
    """A (count, lanes) array; inactive lanes hold zeros."""
    dtype = np.dtype(KIND_DTYPE[kind])
    size = dtype.itemsize * count
    out = np.zeros((count, f.n), dtype)
    for words, index, lanes, _ in _targets(f, i, space, addr, offset, dtype.itemsize, count, size, False):
        got = words[index].view(dtype) if count == 1 else words[index[None, :] + _steps(count)].view(dtype)
        if lanes is None:
            out[...] = got
        else:
            out[:, lanes] = got
    return out


_STEPS: dict[int, np.ndarray] = {}


def _steps(count: int) -> np.ndarray:
    if count not in _STEPS:
        _STEPS[count] = np.arange(count)[:, None]
    return _STEPS[count]


@runtime
def store(f, i: int, space: str, addr, offset: int, kind: str, values: tuple) -> None:
    dtype = np.dtype(KIND_DTYPE[kind])
    count = len(values)
    f.cta.machine.progress += 1
    for words, index, lanes, _ in _targets(
        f, i, space, addr, offset, dtype.itemsize, count, dtype.itemsize * count, True
    ):
        for j, value in enumerate(values):
            words[index + j if j else index] = value if lanes is None or np.ndim(value) == 0 else value[lanes]


def _targets(f, i, space, addr, offset, item, count, size, write, atomic=False):
    """Yields (words, index of each lane's first word, lanes or None for all, byte offsets) per memory reached."""
    addr = np.asarray(addr)
    if addr.ndim == 0:
        addr = np.full(f.n, addr)
    lanes = None
    if f.mask is not None:
        lanes = np.flatnonzero(f.mask)
        addr = addr[lanes]
    addr = addr.astype(np.uint64)
    if offset:
        addr += np.uint64(offset % (1 << 64))
        if space == "shared":
            addr &= np.uint64(0xFFFFFFFF)
    if space in ("global", "const"):
        yield from _global(f, i, addr, lanes, item, size, write)
    elif space == "shared":
        yield from _shared(f, i, addr, lanes, item, size, write, atomic)
    elif space == "local":
        yield from _local(f, i, addr, lanes, item, size, write)
    elif space == "param":
        yield from _param(f, i, addr, lanes, item, size, write)
    else:
        window = addr >> np.uint64(56)
        first = window[0]
        if (window == first).all():
            groups = [(int(first), lanes, addr)]
        else:
            own = np.arange(f.n) if lanes is None else lanes
            groups = [(int(w), own[window == w], addr[window == w]) for w in np.unique(window)]
        for w, where, a in groups:
            if w == 0:
                yield from _global(f, i, a, where, item, size, write)
            elif w == 1:
                yield from _shared(f, i, a - np.uint64(SHARED_WINDOW), where, item, size, write, atomic)
            elif w == 2:
                yield from _local(f, i, a - np.uint64(LOCAL_WINDOW), where, item, size, write)
            elif w == 3:
                yield from _param(f, i, a - np.uint64(PARAM_WINDOW), where, item, size, write)
            else:
                f.cta.machine.report("out-of-bounds", f"generic address {int(a[0]):#x} lies in no window", f, i)


def _global(f, i, addr, lanes, item, size, write):
    machine = f.cta.machine
    memory = machine.memory
    a = memory.last
    if a is not None:
        o = addr - a.start8
        top = int(np.bitwise_or.reduce(o))
        easy = top + size <= a.limit and top & (size - 1) == 0 and a.slack == 0
        if not easy and (int(o.max()) + size > a.limit or int(o.min()) < a.slack or top & (size - 1)):
            a = None
    if a is None:
        yield from _global_slow(f, i, addr, lanes, item, size, write)
        return
    machine.counts.global_access(a, o, item, size, write)
    yield a.views[item], (o >> np.uint64(item.bit_length() - 1)).view(np.int64), lanes, o


def _global_slow(f, i, addr, lanes, item, size, write):
    """Lanes in several allocations, or outside all, or misaligned."""
    machine = f.cta.machine
    own = np.arange(f.n) if lanes is None else lanes
    todo = np.ones(len(addr), bool)
    misaligned = addr & np.uint64(size - 1) != 0
    if misaligned.any():
        bad = int(addr[misaligned][0])
        machine.report(
            "misaligned",
            f"{size}-byte {'store to' if write else 'load from'} global address {bad:#x} ({machine.memory.place(bad)})",
            f,
            i,
            own[misaligned],
        )
        todo &= ~misaligned
    while todo.any():
        first = int(addr[todo][0])
        a = machine.memory.find(first, size)
        if a is None:
            low = addr == np.uint64(first)
            machine.report(
                "out-of-bounds",
                f"{size}-byte {'store' if write else 'load'} at {first:#x}: {machine.memory.place(first)}",
                f,
                i,
                own[low],
            )
            todo &= ~low
            continue
        inside = todo & (addr >= np.uint64(a.address)) & (addr + np.uint64(size) <= np.uint64(a.address + a.size))
        o = addr[inside] - a.start8
        machine.counts.global_access(a, o, item, size, write)
        machine.memory.last = a
        yield a.views[item], (o >> np.uint64(item.bit_length() - 1)).view(np.int64), own[inside], o
        todo &= ~inside


def _shared(f, i, addr, lanes, item, size, write, atomic):
    cta = f.cta
    rank = addr >> _RANK
    r = int(rank[0])
    if (rank == rank[0]).all():
        groups = [(r, lanes, addr)]
    else:
        own = np.arange(f.n) if lanes is None else lanes
        groups = [(int(x), own[rank == x], addr[rank == x]) for x in np.unique(rank)]
    for r, where, a in groups:
        target = cta.peer(r)
        if target is None:
            cta.machine.report(
                "out-of-bounds",
                f"shared address {int(a[0]):#x} names CTA rank {r} of a cluster of {len(cta.cluster)}",
                f,
                i,
                where,
            )
            continue
        o = (a & _OFFSET) - _BASE  # below the base this wraps to a huge number
        top = int(np.bitwise_or.reduce(o))
        if top & (size - 1) or top + size > target.shared_bytes:
            ok = (o & np.uint64(size - 1) == 0) & (o.astype(np.int64) + size <= target.shared_bytes)
            ok &= o.astype(np.int64) >= 0
            if not ok.all():
                own = np.arange(f.n) if where is None else where
                bad = int(o[~ok][0])
                kind = "misaligned" if bad & (size - 1) else "out-of-bounds"
                cta.machine.report(
                    kind,
                    f"{size}-byte {'store' if write else 'load'} at shared offset "
                    f"{int(np.int64(np.uint64(bad)))} of {target.shared_bytes}",
                    f,
                    i,
                    own[~ok],
                )
                o, where = o[ok], own[ok]
                if not len(o):
                    continue
        if cta.machine.counts.tracking:
            cta.machine.counts.shared_access(o, f.lo + (np.arange(f.n) if where is None else where), size)
        if target.shadow is not None:
            target.shadow.access(f, i, o, size, write, where, atomic)
        yield target.words[item], (o >> np.uint64(item.bit_length() - 1)).view(np.int64), where, o


def _local(f, i, addr, lanes, item, size, write):
    cta = f.cta
    own = np.arange(f.n) if lanes is None else lanes
    per = cta.local_bytes
    ok = addr + np.uint64(size) <= np.uint64(per)
    if not ok.all():
        cta.machine.report("out-of-bounds", f"local offset {int(addr[~ok][0])} of {per} bytes", f, i, own[~ok])
        own, addr = own[ok], addr[ok]
    o = addr + (own + f.lo).astype(np.uint64) * np.uint64(per)
    yield cta.local[item], (o >> np.uint64(item.bit_length() - 1)).view(np.int64), own, o


def _param(f, i, addr, lanes, item, size, write):
    params = f.cta.launch.param_words
    if write or int(addr.max()) + size > len(params[1]):
        f.cta.machine.report("out-of-bounds", f"parameter byte {int(addr.max())} of {len(params[1])}", f, i, lanes)
        return
    yield params[item], (addr >> np.uint64(item.bit_length() - 1)).view(np.int64), lanes, addr


_ATOMS = {"add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"}


@emits("atom", "red")
def _atom(g: Generator, ins: Instruction) -> None:
    op = next((p for p in ins.parts if p in _ATOMS), None)
    kind = _checked(g, ins, _ATOMS | {"noftz"})
    if op is None:
        raise g.fail(f"unknown opcode {ins.op}")
    dst, mem, *rest = ins.operands if ins.base == "atom" else (None, *ins.operands)
    addr, offset = g.address(mem)
    k = TYPE_KIND[kind]
    if k == "q":
        raise g.fail(f"unknown opcode {ins.op}")
    if rest and isinstance(rest[0], Vec):
        if dst is not None or op == "cas":
            raise g.fail(f"unknown opcode {ins.op}")
        width = np.dtype(KIND_DTYPE[k]).itemsize * (2 if k in ("h4", "w4", "s8") else 1)
        for j, item in enumerate(rest[0].items):
            g.line(
                f"atomic(f, {g.at}, '{_space(ins)}', {addr}, {offset + j * width}, '{k}', '{kind}', '{op}', "
                f"({g.read(item, k)},))"
            )
        return
    values = ", ".join(g.read(x, k) for x in rest)
    call = f"atomic(f, {g.at}, '{_space(ins)}', {addr}, {offset}, '{k}', '{kind}', '{op}', ({values},))"
    g.write(dst, k, call)


@runtime
def atomic(f, i: int, space: str, addr, offset: int, k: str, kind: str, op: str, values: tuple):
    """Lane after lane; returns what was there before (PTX leaves the order of lanes open)."""
    from .numeric import bf16_to_f32, f32_to_bf16, ftz

    dtype = np.dtype(KIND_DTYPE[k])
    pack = 2 if k in ("h4", "w4", "s8") else 1
    item = dtype.itemsize * pack
    out = np.zeros((f.n, pack), dtype)
    lanewise = [np.broadcast_to(np.asarray(v).reshape(-1, pack), (f.n, pack)) for v in values]
    f.cta.machine.progress += 1
    shared = {id(c.words[item]) for c in f.cta.cluster}
    for words, index, lanes, _ in _targets(f, i, space, addr, offset, item, 1, item, True, True):
        cells = words.view(dtype).reshape(-1, pack)
        own = range(f.n) if lanes is None else lanes
        for lane, at in zip(own, index, strict=False):
            old = cells[at].copy()
            out[lane] = old
            b = lanewise[0][lane]
            if op == "add":
                if kind.startswith("bf16"):
                    new = f32_to_bf16(bf16_to_f32(old) + bf16_to_f32(b))
                elif (
                    k == "f4" and id(words) not in shared
                ):  # subnormals are flushed in global memory only (PTX ISA, atom)
                    new = ftz(ftz(old) + ftz(b))
                else:
                    new = old + b
            elif op in ("min", "max"):
                new = (np.minimum if op == "min" else np.maximum)(old, b)
            elif op in ("and", "or", "xor"):
                new = {"and": old & b, "or": old | b, "xor": old ^ b}[op] if dtype.kind in "ui" else None
            elif op == "exch":
                new = b
            elif op == "cas":
                new = np.where(old == b, lanewise[1][lane], old)
            elif op == "inc":
                new = np.where(old >= b, dtype.type(0), old + dtype.type(1))
            else:
                new = np.where((old == 0) | (old > b), b, old - dtype.type(1))
            cells[at] = new
    return out.reshape(-1)


@emits("prefetch", "prefetchu", "applypriority", "discard")
def _prefetch(g: Generator, ins: Instruction) -> None:
    """Hints: no effect on values."""
    if len(ins.operands) < 1 or not isinstance(ins.operands[0], Mem):
        raise g.fail(f"unknown opcode {ins.op}")
