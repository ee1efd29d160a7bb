"""tcgen05.mma, cp and commit: fifth-generation tensor cores (PTX ISA 9.7.16; descriptors: CUTLASS, BSD headers).

Products are exact in float32 for every input format but tf32 and fp16 pairs whose sum of products rounds; sums are
taken in float32 by the CPU's matrix product. NVIDIA documents neither order nor precision of the accumulation.
"""

from __future__ import annotations

import numpy as np

from .access import SHARED_BASE
from .convert import SHARED_WINDOW
from .descriptor import Descriptor, instruction, operand_values, values
from .machine import Task
from .numeric import TABLES
from .operand import gather, matrix
from .syntax import Imm, Instruction, Mem, Vec
from .tmem import LANES, tensor_memory
from .translate import Generator, emits, runtime

_KINDS = {"kind::f16", "kind::tf32", "kind::f8f6f4", "kind::i8", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"}


@emits("tcgen05.mma")
def _mma(g: Generator, ins: Instruction) -> None:
    parts = ins.parts[2:]
    kind = next((p for p in parts if p in _KINDS), None)
    known = _KINDS | {
        "cta_group::1",
        "cta_group::2",
        "block_scale",
        "scale_vec::1X",
        "scale_vec::2X",
        "scale_vec::4X",
        "block16",
        "block32",
    }
    if kind is None or any(p not in known and not p.startswith("collector::") for p in parts):
        raise g.fail(f"unknown opcode {ins.op}")
    d, a, b, idesc, *rest = ins.operands
    da, do = g.address(d)
    if isinstance(a, Mem):
        base, off = g.address(a)
        av, at = f"({base} + {g.constant(off, 'u4')})" if off else base, True
    else:
        av, at = g.read(a, "u8"), False
    off_lanes, scales, shift = "()", "None", 0
    if rest and isinstance(rest[0], Vec):
        off_lanes = f"({', '.join(g.read(x, 'u4') for x in rest.pop(0).items)},)"
    if "block_scale" in parts:
        sa, sb = rest.pop(0), rest.pop(0)
        (xa, oa), (xb, ob) = g.address(sa), g.address(sb)
        scales = f"({xa}, {oa}, {xb}, {ob})"
    enable = g.read(rest.pop(0), "p")
    if rest:
        if not isinstance(rest[0], Imm):
            raise g.fail("scale-input-d that is no constant")
        shift = rest[0].value
    vec = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4, "block32": 32, "block16": 16}
    per = next((vec[p] for p in parts if p in vec), 0)
    name = kind.removeprefix("kind::")
    if per in (16, 32):
        per = {"mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}[name] // per
    elif not per and "block_scale" in parts:
        per = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}[name]
    g.line(
        f"tc_mma(f, {g.at}, '{name}', {2 if 'cta_group::2' in parts else 1}, {da}, {do}, {av}, {at}, "
        f"{g.read(b, 'u8')}, {g.read(idesc, 'u4')}, {off_lanes}, {scales}, {per}, {enable}, {shift})"
    )


@runtime
def tc_mma(f, i, kind, group, d, doff, a, a_tmem, b, idesc, off_lanes, scales, per, enable, shift) -> None:
    """Queue one MMA per active lane (one elected lane, ordinarily)."""
    cta = f.cta
    machine = cta.machine

    def at(x, lane):
        x = np.asarray(x)
        return int(x[lane]) if x.ndim else int(x)

    for lane in f.lanes():
        try:
            what = instruction(kind, at(idesc, lane))
        except ValueError as error:
            from .syntax import PtxError

            raise PtxError(
                f"kernel {machine.launch.name[:80]}, line {machine.program.instructions[i].line}: {error}"
            ) from None
        off = [at(x, lane) for x in off_lanes]
        sc = None if scales is None else (at(scales[0], lane) + scales[1], at(scales[2], lane) + scales[3])
        args = (
            at(d, lane) + doff,
            at(a, lane),
            a_tmem,
            at(b, lane),
            off if any(off) else None,
            sc,
            per,
            bool(at(enable, lane)),
            shift,
        )
        token = machine.order.issue(f, i, (f.lo + int(lane)) // 32) if machine.order is not None else None
        machine.counts.mma_instructions += 1
        machine.counts.mma_flops += 2 * what.m * what.n * what.k
        machine.post(
            ("mma", cta.rank),
            Task(
                "mma",
                lambda w=what, x=args, t=token: _run(cta, f, i, w, group, x, t),
                f"MMA, line {machine.program.instructions[i].line}",
            ),
        )


def _run(cta, f, i: int, w: Descriptor, group: int, args, token) -> None:
    d, a, a_tmem, b, off, scales, per, enable, shift = args
    machine = cta.machine
    pair = [cta] if group == 1 else [cta.peer(cta.rank & ~1), cta.peer(cta.rank | 1)]
    if None in pair:
        return machine.report("barrier", "cta_group::2 without a peer CTA", f, i)
    m, n = w.m // group, w.n // group
    try:
        bs = [operand_values(c, b, True, w.b_mn, n, w.k, w.bits, w.b) for c in pair]
        for c, (_, index) in zip(pair, bs, strict=False):
            if c.shadow is not None:
                c.shadow.async_chunks(index, token, i, f)
        bmat = bs[0][0] if group == 1 else np.concatenate([x for x, _ in bs])
        for c in pair:
            amat = _a_operand(c, f, i, w, a, a_tmem, m, token)
            _accumulate(c, f, i, w, group, d, m, amat, bmat, off, scales, per, enable, shift, token)
    except (IndexError, ValueError) as error:
        machine.report("out-of-bounds", f"tcgen05.mma: {error}", f, i)


def _a_operand(c, f, i: int, w: Descriptor, a: int, a_tmem: bool, m: int, token) -> np.ndarray:
    if not a_tmem:
        amat, index = operand_values(c, a, True, w.a_mn, m, w.k, w.bits, w.a)
        if c.shadow is not None:
            c.shadow.async_chunks(index, token, i, f)
        return amat
    tm, column = tensor_memory(c), a & 0xFFFF
    cols = w.k * w.bits // 32
    rows = np.arange(m) if m == 128 else sparse_rows(m, a)
    tm.check(f, i, column, column + cols, "tcgen05.mma reads")
    cells = (rows[:, None], np.arange(column, column + cols)[None, :])
    if "uninitialised" in c.machine.checks and not tm.written[cells].all():
        c.machine.report(
            "uninitialised",
            f"tcgen05.mma reads matrix A from tensor-memory columns {column} to {column + cols}, which nobody wrote",
            f,
            i,
        )
    if c.machine.order is not None:
        c.machine.order.tmem_async(token, i, f, tm, *cells, False)
    return values(np.ascontiguousarray(tm.words[cells]).view(np.uint8), "e2m1x2" if w.bits == 4 else w.a)


def sparse_rows(m: int, address: int) -> np.ndarray:
    """Lanes of the rows of a 64-row matrix: 16 in each quarter, above or below as the address's lane says."""
    rows = np.arange(m)
    return rows % 16 + rows // 16 * 32 + (address >> 16 & 16)


def _scale(c, f, i: int, column: int, rows: int, ident: int, per: int, fmt: str, k: int) -> np.ndarray:
    """(rows, k) scale factors: row r in lane r % 32 of column r // 32, `per` of them in the bytes from `ident`."""
    tm = tensor_memory(c)
    r = np.arange(rows)
    col = (column & 0xFFFF) + r // 32
    tm.check(f, i, int(col.min()), int(col.max()) + 1, "tcgen05.mma reads scale factors in")
    words = tm.words[r % 32, col % 512]
    if "uninitialised" in c.machine.checks and not tm.written[r % 32, col % 512].all():
        c.machine.report(
            "uninitialised", f"tcgen05.mma reads scale factors from column {int(col.min())}, which nobody wrote", f, i
        )
    codes = words[:, None] >> (np.uint32(8) * (np.uint32(ident) + np.arange(per, dtype=np.uint32))) & np.uint32(255)
    return np.repeat(TABLES[fmt][codes], k // per, axis=1)


def _accumulate(c, f, i, w, group, d, m, amat, bmat, off, scales, per, enable, shift, token) -> None:
    """D of one CTA: rows of A times all of B, into its tensor memory."""
    machine, tm, column = c.machine, tensor_memory(c), d & 0xFFFF
    if w.a_negate:
        amat = -amat
    if w.b_negate:
        bmat = -bmat
    if scales is not None:
        amat = amat * _scale(c, f, i, scales[0], m, w.a_id, per, w.scale, w.k)
        bmat = bmat * _scale(c, f, i, scales[1], w.n, w.b_id, per, w.scale, w.k)
    product = amat @ bmat.T
    if group == 2 and m == 64:  # columns split over the lanes: first half above, second half below
        cols = w.n // 2
        product = np.concatenate([product[:, :cols], product[:, cols:]])
        rows = slice(0, LANES)
    else:
        cols, rows = w.n, slice(0, m) if m == 128 else sparse_rows(m, d)
    tm.check(f, i, column, column + cols, "tcgen05.mma writes")
    if column + cols > 512:
        return
    where = slice(column, column + cols)
    if enable and "uninitialised" in machine.checks and not tm.written[rows, where].all():
        machine.report(
            "uninitialised",
            f"tcgen05.mma accumulates onto columns {column} to {column + cols}, which nobody wrote",
            f,
            i,
        )
    old = tm.words[rows, where]
    if w.d == "s32":
        new = product.astype(np.int64) + (old.view(np.int32) if enable else 0)
        if w.saturate:
            new = new.clip(-(2**31), 2**31 - 1)
        new = new.astype(np.int32).view(np.uint32)
    elif w.d == "f16":
        base = (
            (old & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float32) if enable else np.float32(0)
        )
        new = (product + base).astype(np.float16).view(np.uint16).astype(np.uint32)
    else:
        if enable:
            base = np.ascontiguousarray(old).view(np.float32)
            product += base * np.float32(2.0**-shift) if shift else base
        new = product.astype(np.float32, copy=False).view(np.uint32)
    if off is not None:
        words = off if group == 1 else off[:4] if c.rank % 2 == 0 else off[4:]
        keep = np.unpackbits(np.array(words, "<u4").view(np.uint8), bitorder="little")[:LANES].astype(bool)
        keep = keep[rows] if not isinstance(rows, slice) else keep[: len(new)]
        new = np.where(keep[:, None], old, new)
    tm.words[rows, where] = new
    tm.written[rows, where] = True
    if machine.order is not None:
        index = np.arange(LANES)[rows] if isinstance(rows, slice) else rows
        machine.order.tmem_async(token, i, f, tm, index[:, None], np.arange(column, column + cols)[None, :], True)


_CP = {"128x256b": (128, 8), "128x128b": (128, 4), "4x256b": (4, 8), "64x128b": (64, 4), "32x128b": (32, 4)}


@emits("tcgen05.cp")
def _cp(g: Generator, ins: Instruction) -> None:
    parts = ins.parts[2:]
    shape = next((p for p in parts if p in _CP), None)
    spread = next((p for p in parts if p.startswith("warpx")), "")
    if shape is None or set(parts) - {shape, spread, "cta_group::1", "cta_group::2"} or shape == "4x256b":
        raise g.fail(f"unknown opcode {ins.op}")
    addr, off = g.address(ins.operands[0])
    g.line(
        f"tc_cp(f, {g.at}, {2 if 'cta_group::2' in parts else 1}, '{shape}', '{spread}', {addr}, {off}, "
        f"{g.read(ins.operands[1], 'u8')})"
    )


@runtime
def tc_cp(f, i: int, group: int, shape: str, spread: str, addr, off: int, desc) -> None:
    cta = f.cta
    machine = cta.machine
    rows, cols = _CP[shape]
    for lane in f.lanes():
        a, s = np.asarray(addr), np.asarray(desc)
        to, d = (int(a[lane]) if a.ndim else int(a)) + off, int(s[lane]) if s.ndim else int(s)
        token = machine.order.issue(f, i, (f.lo + int(lane)) // 32) if machine.order is not None else None

        def go(to=to, d=d, token=token) -> None:
            for c in [cta] if group == 1 else [cta.peer(cta.rank & ~1), cta.peer(cta.rank | 1)]:
                raw, index = gather(c, matrix(d, True), False, rows, cols * 4, 8)
                if c.shadow is not None:
                    c.shadow.async_chunks(index, token, i, f)
                words = np.ascontiguousarray(raw).view(np.uint32)
                tm, column = tensor_memory(c), to & 0xFFFF
                tm.check(f, i, column, column + cols, "tcgen05.cp writes")
                repeat = {32: 4, 64: 2}.get(rows, 1)
                order = np.tile(words, (repeat, 1))
                if spread == "warpx2::02_13":  # warps 0 and 2 take the first half, 1 and 3 the second
                    order = np.concatenate([words[:32], words[32:], words[:32], words[32:]])
                elif spread == "warpx2::01_23":
                    order = np.concatenate([words[:32], words[:32], words[32:], words[32:]])
                tm.words[:, column : column + cols] = order
                tm.written[:, column : column + cols] = True
                if machine.order is not None:
                    machine.order.tmem_async(
                        token, i, f, tm, np.arange(LANES)[:, None], np.arange(column, column + cols)[None, :], True
                    )

        machine.post(("mma", cta.rank), Task("mma", go, "tcgen05.cp"))


@emits("tcgen05.commit")
def _commit(g: Generator, ins: Instruction) -> None:
    known = {"cta_group::1", "cta_group::2", "mbarrier::arrive::one", "shared::cluster", "multicast::cluster", "b64"}
    if set(ins.parts[2:]) - known:
        raise g.fail(f"unknown opcode {ins.op}")
    addr, off = g.address(ins.operands[0])
    mask = g.read(ins.operands[1], "u2") if "multicast::cluster" in ins.parts else "None"
    g.line(f"tc_commit(f, {g.at}, {addr}, {off}, {mask})")


@runtime
def tc_commit(f, i: int, addr, off: int, mask) -> None:
    """An arrival on an mbarrier once everything queued before it has run."""
    cta = f.cta
    machine = cta.machine
    for lane in f.lanes():
        a = np.asarray(addr)
        where = ((int(a[lane]) if a.ndim else int(a)) + off) & (SHARED_WINDOW - 1)
        ranks = [where >> 24]
        if mask is not None:
            v = np.asarray(mask)
            bits = int(v[lane]) if v.ndim else int(v)
            ranks = [r for r in range(16) if bits >> r & 1]

        token = machine.order.issue(f, i, (f.lo + int(lane)) // 32) if machine.order is not None else None

        def arrive(where=where, ranks=ranks, token=token) -> None:
            for r in ranks:
                bar = cta.mbarrier(r << 24 | where & 0xFFFFFF)
                if bar is None:
                    machine.report(
                        "barrier",
                        f"tcgen05.commit to shared offset {(where & 0xFFFFFF) - SHARED_BASE} of CTA rank "
                        f"{r}, where no mbarrier is",
                        f,
                        i,
                    )
                    continue
                if machine.order is not None:
                    machine.order.commit(bar, token, ("mma", cta.rank))
                bar.arrive(1, f, i)

        machine.post(("mma", cta.rank), Task("mma", arrive, f"commit, line {machine.program.instructions[i].line}"))
