"""Merge independent instructions of one kind in a block into one call on several registers.

numpy takes longer to be called than to compute on the lanes of a few warps. Only elementwise helpers that make many
such calls are merged, and mma.sync. An instruction moves past others only if no register connects them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from .formats import FORMATS
from .registry import RUNTIME, runtime

LEAST = 4  # instructions that are worth merging
_HELPERS = {"fma32", "ftz", "minmax", "funnel", "pack_pair", "exp2", "f32_to_f16", "f32_to_bf16", "True", "False"}
_BITS = {fmt.name: fmt.bits for fmt in FORMATS if fmt.bits != 8}
_REGISTER = re.compile(rf"\b({'|'.join(_BITS)})\[(\d+)\]")
_ASSIGNMENT = re.compile(rf"((?:{'|'.join(_BITS)})\[\d+\])\[\.\.\.\] = (.+)")
_CALL = re.compile(rf"(\w+)\((.+), ((?:{'|'.join(_BITS)})\[\d+\])\)")
_SELECT = re.compile(rf"copyto\(((?:{'|'.join(_BITS)})\[\d+\]), (.+), where=(pred\[\d+\])\)")
_ROUNDED = re.compile(r"\b(f32_to_b?f16\([^()]*), 'rn'\)(?:\.view\('u2'\))?")
_NAME = re.compile(r"[A-Za-z_]\w*")
_OTHER = re.compile(r"\b(?:[fm]|t\d+|lambda)\b|:=")  # the fragment, its mask, or a temporary, which may be a view
_PRODUCT = re.compile(r"warp_products\(f, (K\d+), u32, \(([\d, ]+)\), \(([\d, ]+)\)\)")
_PACKING = re.compile(rf"t\d+ = ({'|'.join(_BITS)})\[\d+\]\.view\('\w+'\); [^fm]*")  # or unpacking: mov of a vector
_PLAIN = re.compile(r"[\w\s(),\[\]]+")

Register = tuple[int, int]  # its bits and slot
Slots = tuple[object, ...]  # numbers of registers, nested
Constant = Callable[[Slots], str]


class Rows(Protocol):
    """The registers of one format, and the elements of a range of threads in each."""

    array: np.ndarray
    lanes: slice


@dataclass(eq=False, slots=True)
class _Line:
    """A line that only reads and writes registers; `kind` groups lines that can be merged."""

    text: str
    reads: set[Register]
    writes: set[Register]
    kind: str | None
    operands: list[tuple[str, int]]  # registers as written, the destination first


def merged(lines: Sequence[str], constant: Constant) -> list[str]:
    """Return a block's lines merged; `constant` names arrays of register slots."""
    out: list[str] = []
    run: list[_Line] = []
    for text in lines:
        if text.startswith("use_registers("):  # depends on no register's value
            out.append(text)
            continue
        line = _parse(text)
        if line is not None:
            run.append(line)
            continue
        out += _scheduled(run, constant)
        run = []
        out.append(text)
    return out + _scheduled(run, constant)


def _parse(text: str) -> _Line | None:
    """Return a line's effect on registers, None if it may have others."""
    if product := _PRODUCT.fullmatch(text):
        results, sources = ([("u32", int(x)) for x in part.split(",")] for part in product.groups()[1:])
        reads, writes = ({(32, slot) for _, slot in part} for part in (sources, results))
        return _Line(text, reads, writes, f"{product[1]} {len(results)}", results + sources)
    if _PACKING.fullmatch(text):
        registers = [(_BITS[name], int(slot)) for name, slot in _REGISTER.findall(text)]
        unpacks = "[...] = " in text
        first, others = set(registers[:1]), set(registers[1:])
        return _Line(text, first if unpacks else others, others if unpacks else first, None, [])
    if _OTHER.search(text):
        return None
    kind = None
    if assignment := _ASSIGNMENT.fullmatch(text):
        target, value = assignment.groups()
        plain = _ROUNDED.sub(r"\1)", value)
        if (
            "(" in value
            and _PLAIN.fullmatch(plain)
            and all(x in _HELPERS or x[0] == "K" or x in _BITS for x in _NAME.findall(plain))
        ):
            kind = _REGISTER.sub(r"\1[]", text)
    elif (call := _CALL.fullmatch(text)) and isinstance(RUNTIME.get(call[1]), np.ufunc):
        value, target = call[2], call[3]
    elif select := _SELECT.fullmatch(text):
        target, value = select[1], f"{select[1]}, {select[2]}, {select[3]}"
    else:
        return None
    operands = [(name, int(slot)) for name, slot in _REGISTER.findall(f"{target} {value}")]
    registers = [(_BITS[name], slot) for name, slot in operands]
    return _Line(text, set(registers[1:]), {registers[0]}, kind, operands)


def _scheduled(run: list[_Line], constant: Constant) -> list[str]:
    """Return a run of lines reordered, with lines of one kind merged."""
    left = Counter(line.kind for line in run if line.kind is not None)
    if not any(count >= LEAST or kind.startswith("K") for kind, count in left.items()):
        return [line.text for line in run]
    waits, followers = _order(run)
    out: list[str] = []
    ready = [n for n, count in enumerate(waits) if not count]
    while ready:
        plain = [n for n in ready if run[n].kind is None]
        if plain:
            chosen = plain
            out += [run[n].text for n in chosen]
        else:
            by_kind: dict[str, list[int]] = {}
            for n in ready:
                by_kind.setdefault(run[n].kind or "", []).append(n)
            kind = max(by_kind, key=lambda kind: (len(by_kind[kind]) == left[kind], len(by_kind[kind])))
            chosen = by_kind[kind]
            if kind.startswith("K"):
                levels = _chains(run, chosen, waits, followers)
                chosen = [n for level in levels for n in level]
                out.append(_products([[run[n] for n in level] for level in levels], constant))
            else:
                out += _together([run[n] for n in chosen], constant)
            left[kind] -= len(chosen)
        done = set(chosen)
        ready = [n for n in ready if n not in done]
        for n in chosen:
            for follower in followers[n]:
                waits[follower] -= 1
                if not waits[follower] and follower not in done:
                    ready.append(follower)
        ready.sort()
    return out


def _order(run: list[_Line]) -> tuple[list[int], list[set[int]]]:
    """Return for each line how many lines it waits for, and which wait for it."""
    followers: list[set[int]] = [set() for _ in run]
    waits = [0] * len(run)
    written: dict[Register, int] = {}
    read: dict[Register, list[int]] = {}
    for n, line in enumerate(run):
        before = {written[x] for x in line.reads | line.writes if x in written}
        before.update(*(read.get(x, ()) for x in line.writes))
        before.discard(n)
        waits[n] = len(before)
        for other in before:
            followers[other].add(n)
        for x in line.reads:
            read.setdefault(x, []).append(n)
        for x in line.writes:
            written[x] = n
            read[x] = []
    return waits, followers


def _chains(run: list[_Line], products: list[int], waits: list[int], followers: list[set[int]]) -> list[list[int]]:
    """Return independent products, then those that each add to one of these, and so on."""
    levels = [products]
    while len(products) < 8:  # more are large enough by themselves
        level = []
        for n in levels[-1]:
            adding = [x for x in followers[n] if waits[x] == 1 and _only_adds(run[x], run[n])]
            if len(adding) != 1:
                return levels
            level += adding
        levels.append(level)
    return levels


def _only_adds(line: _Line, to: _Line) -> bool:
    """Return whether a product depends on another one by its C alone."""
    results = to.operands[: len(to.writes)]
    factors = {(32, slot) for _, slot in line.operands[len(results) : -len(results)]}
    return line.kind == to.kind and line.operands[-len(results) :] == results and not to.writes & factors


def _products(levels: list[list[_Line]], constant: Constant) -> str:
    """Return chains of products as one line; slots are (registers, levels, instructions)."""
    spec, count = (levels[0][0].kind or "").split()
    by_level = [zip(*([slot for _, slot in line.operands] for line in level), strict=True) for level in levels]
    slots = tuple(zip(*by_level, strict=True))
    return f"warp_products(f, {spec}, u32, {constant(slots[: int(count)])}, {constant(slots[int(count) :])})"


def _together(lines: list[_Line], constant: Constant) -> list[str]:
    """Return lines of one kind, which are independent, as one line."""
    if len(lines) < LEAST:
        return [line.text for line in lines]
    columns = list(zip(*(line.operands for line in lines), strict=True))

    def operand(column: tuple[tuple[str, int], ...]) -> str:
        name, slot = column[0]
        if len(set(column)) == 1:
            return f"{name}[{slot}]"
        return f"rows({name}, {constant(tuple(slot for _, slot in column))})"

    value = lines[0].text.split(" = ", 1)[1]
    sources = iter(columns[1:])
    value = _REGISTER.sub(lambda _: operand(next(sources)), value)
    return [f"put_rows({columns[0][0][0]}, {constant(tuple(slot for _, slot in columns[0]))}, {value})"]


def product_line(spec: str, results: Sequence[int], sources: Sequence[int]) -> str:
    """Return a line that `merged` replaces, of an mma.sync on slots of 32-bit registers."""
    return f"warp_products(f, {spec}, u32, {tuple(results)}, {tuple(sources)})"


@runtime
def rows(view: Rows, slots: np.ndarray) -> np.ndarray:
    """Return several registers of a range of threads, one a row."""
    return view.array[slots, view.lanes]


@runtime
def put_rows(view: Rows, slots: np.ndarray, values: np.ndarray) -> None:
    """Write several registers of a range of threads."""
    view.array[slots, view.lanes] = values
