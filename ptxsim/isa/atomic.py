"""Atomics: atom and red (PTX ISA 9.7.13)."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.warp import Fragment
from ..frontend.formats import B128, TYPES, Format
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction, Vec
from ..memory.address_check import reach
from ..memory.global_memory import Access
from .memory import is_acquire, is_release, scope_of, state_space, value_type, without_policy
from .numeric import bf16_to_f32, f32_to_bf16, ftz


@dataclass(frozen=True, slots=True)
class Atomic:
    """An atomic operation `op` on elements of `fmt`; bf16 elements are handled as bits."""

    access: Access
    fmt: Format
    bf16: bool
    op: str


Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]
OPERATIONS: dict[str, Combine] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, new: new,
    "inc": lambda old, top: np.where(old >= top, old.dtype.type(0), old + old.dtype.type(1)),
    "dec": lambda old, top: np.where((old == 0) | (old > top), top, old - old.dtype.type(1)),
}


@emits("atom", "red")
def _atom(g: Generator, ins: Instruction) -> None:
    op = next((p for p in ins.parts if p in OPERATIONS or p == "cas"), None)
    kind = value_type(g, ins, frozenset({*OPERATIONS, "cas", "noftz"}))
    fmt = TYPES[kind]
    if op is None or fmt is B128:
        raise g.unknown()
    operands = without_policy(ins)
    dst, mem, *rest = operands if ins.base == "atom" else (None, *operands)
    vector = rest[0] if rest else None
    if isinstance(vector, Vec):
        if dst is not None or op == "cas":
            raise g.unknown()
        sources = [[item] for item in vector.items]
    else:
        sources = [rest]
    addr, offset = g.address(mem)
    for j, values in enumerate(sources):
        at = offset + j * fmt.bits // 8
        access = Access.of(
            *(g.at, state_space(ins), fmt.dtype, 1, at),
            packed=fmt.elements,
            write=True,
            atomic=True,
            releases=is_release(ins),
            acquires=is_acquire(ins),
            scope=scope_of(ins),
        )
        spec = g.bind(Atomic(access, fmt, kind.startswith("bf16"), op))
        g.write(dst, fmt, f"atomic(f, {spec}, {addr}, {g.reads(tuple(values), fmt)})")


@runtime
def atomic(f: Fragment, spec: Atomic, addr: np.ndarray, values: tuple[np.ndarray, ...]) -> np.ndarray:
    """Apply an atomic lane by lane; return the old values (PTX leaves the order open)."""
    dtype, elements = spec.fmt.dtype, spec.fmt.elements
    out = np.zeros((f.n, elements), dtype)
    lanewise = [np.broadcast_to(np.asarray(v).reshape(-1, elements), (f.n, elements)) for v in values]
    changed = False  # who polls with an atomic that changes nothing makes no progress
    shared = {id(cta.words[spec.access.item]) for cta in f.cta.cluster.ctas}
    for words, index, lanes in reach(f, spec.access, addr):
        cells = words.view(dtype).reshape(-1, elements)
        flushed = spec.fmt.name == "f32" and id(words) not in shared  # in global memory only (PTX ISA, atom)
        for lane, at in zip(range(f.n) if lanes is None else lanes, index, strict=True):
            old = out[lane] = cells[at].copy()
            new = cells[at] = _combined(spec, old, [v[lane] for v in lanewise], flushed)
            changed = changed or bool((new != old).any())
    f.cta.cluster.progress += changed
    return out.reshape(-1)


def _combined(spec: Atomic, old: np.ndarray, operands: list[np.ndarray], flushed: bool) -> np.ndarray:
    """Return the value that one lane stores."""
    if spec.op == "cas":
        return np.where(old == operands[0], operands[1], old)
    if spec.op == "add" and spec.bf16:
        return f32_to_bf16(bf16_to_f32(old) + bf16_to_f32(operands[0]))
    if spec.op == "add" and flushed:
        return ftz(ftz(old) + ftz(operands[0]))
    return OPERATIONS[spec.op](old, operands[0])
