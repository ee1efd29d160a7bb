"""Emitters of moves, packing and control flow (PTX ISA 9.7.9 and 9.7.12)."""

from __future__ import annotations

import numpy as np

from .syntax import Instruction, Reg, Vec
from .translate import TYPE_KIND, Generator, emits, runtime


@emits("mov")
def _mov(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a = ins.operands
    k = TYPE_KIND[kind]
    if isinstance(a, Vec):
        size = {"u4": 4, "i4": 4, "f4": 4, "u8": 8, "i8": 8, "f8": 8, "u2": 2, "q": 16}[k] // len(a.items)
        if k == "q":
            return g.line(
                f"pack128({g.target(dst, 'q')}, {g.read(a.items[0], 'u8')}, {g.read(a.items[1], 'u8')}, "
                f"{'m' if g.masked else 'None'})"
            )
        part, whole = f"u{size}", "u" + k[1]
        if size == 1:
            raise g.fail("packing of bytes is not simulated")
        words = [g.read(x, part) for x in a.items]
        t = g.temp()
        g.line(f"{t} = {g.target(dst, whole)}.view('{part}')")
        step = len(a.items)
        for i, w in enumerate(words):
            if g.masked:
                g.line(f"copyto({t}[{i}::{step}], {w}, where=m)")
            else:
                g.line(f"{t}[{i}::{step}] = {w}")
        return None
    if isinstance(dst, Vec):
        step = len(dst.items)
        if k == "q":
            g._view("q")
            t = g.temp()
            g.line(f"{t} = {g.target(a, 'q')}")
            for i, item in enumerate(dst.items):
                if item is not None:
                    g.write(item, "u8", f"{t}[:, {i}]")
            return None
        size = int(k[1]) // step
        t = g.temp()
        g.line(
            f"{t} = {g.read(a, 'u' + k[1])}.view('u{size}')"
            if isinstance(a, Reg)
            else f"{t} = full(f.n, {g.read(a, 'u' + k[1])}).view('u{size}')"
        )
        for i, item in enumerate(dst.items):
            if item is not None:
                g.write(item, f"u{size}", f"{t}[{i}::{step}]")
        return None
    if k == "q":
        return g.write(dst, "q", g.target(a, "q"))
    g.write(dst, k, g.read(a, k))


@runtime
def pack128(row, low, high, mask):
    where = True if mask is None else mask
    np.copyto(row[:, 0], low, where=where)
    np.copyto(row[:, 1], high, where=where)


@emits("bra")
def _bra(g: Generator, ins: Instruction) -> None:
    if set(ins.parts[1:]) - {"uni"}:
        raise g.fail(f"unknown opcode {ins.op}")
    target = g.program.block_of[ins.target] if hasattr(g.program, "block_of") else 0
    if ins.guard is None:
        return g.end(f"return {target}")
    p = f"{g._view('p')}[{ins.guard.slot}]"
    fall = g.block.next if g.block.next < len(g.program.blocks) else -1
    g.end(f"return f.branch({p}, {target}, {fall}, {ins.guard.negated})")


@emits("ret", "exit")
def _ret(g: Generator, ins: Instruction) -> None:
    g.mods(ins, {"uni"}, types=0)
    g.end("return f.exit()")


@emits("nop")
def _nop(g: Generator, ins: Instruction) -> None:
    g.mods(ins, set(), types=0)
