"""Moves, packing and control flow (PTX ISA 9.7.9 and 9.7.12)."""

from typing import Any

import numpy as np

from ..frontend.formats import B128, PRED, TYPES, U64, UNSIGNED, Format
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction, Operand, Reg, Vec


def same_register(a: Operand, b: Operand) -> bool:
    return isinstance(a, Reg) and isinstance(b, Reg) and a.slot == b.slot


@emits("mov")
def _mov(g: Generator, ins: Instruction) -> None:
    _, (kind,) = g.mods(ins, set())
    dst, a = ins.operands
    fmt = TYPES[kind]
    if isinstance(a, Vec):
        _pack(g, fmt.unsigned, dst, a)
    elif isinstance(dst, Vec):
        _unpack(g, fmt.unsigned, dst, a)
    elif fmt is B128:
        g.write(dst, B128, g.target(a, B128))
    else:
        g.write(dst, fmt, g.read(a, fmt))


def _pack(g: Generator, whole: Format, dst: Operand, source: Vec) -> None:
    """Emit mov dst, {a, b, ...}; the first source goes into the lowest bits."""
    if whole is B128:
        low, high = (g.read(x, U64) for x in source.items)
        return g.line(f"pack128({g.target(dst, B128)}, {low}, {high}, {'m' if g.masked else 'True'})")
    step = len(source.items)
    part = UNSIGNED[whole.bits // step]
    words = [g.read(x, part) for x in source.items]
    t, first = g.temp(), len(g.lines)
    g.line(f"{t} = {g.target(dst, whole)}.view('{part.numpy}')")
    for i, word in enumerate(words):
        g.line(f"copyto({t}[{i}::{step}], {word}, where=m)" if g.masked else f"{t}[{i}::{step}] = {word}")
    return g.join(first)


def _unpack(g: Generator, whole: Format, dst: Vec, source: Operand) -> None:
    """Emit mov {a, b, ...}, source."""
    t, step, first = g.temp(), len(dst.items), len(g.lines)
    if whole is B128:
        g.line(f"{t} = {g.target(source, B128)}")
        parts, part = [f"{t}[:, {i}]" for i in range(step)], U64
    else:
        part = UNSIGNED[whole.bits // step]
        value = g.read(source, whole) if isinstance(source, Reg) else f"full(f.n, {g.read(source, whole)})"
        g.line(f"{t} = {value}.view('{part.numpy}')")
        parts = [f"{t}[{i}::{step}]" for i in range(step)]
    for item, value_of_part in zip(dst.items, parts, strict=True):
        if item is not None:
            g.write(item, part, value_of_part)
    g.join(first)


@runtime
def pack128(row: np.ndarray, low: np.ndarray, high: np.ndarray, where: Any) -> None:
    """Write two 64-bit words into each lane's 128-bit register."""
    np.copyto(row[:, 0], low, where=where)
    np.copyto(row[:, 1], high, where=where)


@emits("bra", results=0)
def _bra(g: Generator, ins: Instruction) -> None:
    if set(ins.parts[1:]) - {"uni"}:
        raise g.unknown()
    target = g.program.block_of[ins.target]
    if ins.guard is None:
        return g.end(f"return {target}")
    taken, fall = g.target(Reg(ins.guard.slot, 1, ins.guard.name), PRED), g.program.after(g.block)
    return g.end(f"return f.branch({taken}, {target}, {fall}, {ins.guard.negated})")


@emits("ret", "exit", results=0)
def _ret(g: Generator, ins: Instruction) -> None:
    g.mods(ins, {"uni"}, types=0)
    g.end("return f.exit()")


@emits("nop", results=0)
def _nop(g: Generator, ins: Instruction) -> None:
    g.mods(ins, set(), types=0)
