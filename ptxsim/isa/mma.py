"""mma.sync, ldmatrix, stmatrix and movmatrix: matrix operations of one warp (PTX ISA 9.7.14).

ldmatrix is section 9.7.14.5.15, including formats that unpack 4- and 6-bit elements; stmatrix is 9.7.14.5.16,
movmatrix 9.7.14.5.17.
Shapes are m16n8k4 to m16n8k32 of f16, bf16, tf32, e4m3, e5m2, s8 and u8. Fragments are as for wgmma, for one warp.
"""

import re
from dataclasses import dataclass, replace

import numpy as np

from ..core.warp import Fragment
from ..frontend.batching import Rows, product_line
from ..frontend.formats import U8, U16, U32
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction, Reg, items
from ..memory.global_memory import Access
from .accumulator import ELEMENT_BITS, fragment, from_registers, integer_product, to_registers
from .hopper_product import Sums, multiply, prepare
from .memory import load, store

_LANES = 4096  # of which a product fits the caches

Words = tuple[np.ndarray, ...]  # one array of lanes per register


@dataclass(frozen=True, slots=True)
class WarpProduct:
    """D (16, 8) = A (16, k) B (k, 8) + C, with PTX types."""

    k: int
    d_type: str
    a_type: str
    b_type: str
    saturate: bool


@emits("mma")
def _mma(g: Generator, ins: Instruction) -> None:
    parts = ins.parts[1:]
    shape = next((m for p in parts if (m := re.fullmatch(r"m16n8k(\d+)", p))), None)
    types = [p for p in parts if p in ("f32", "s32", *ELEMENT_BITS)]
    known = {"sync", "aligned", "row", "col", "satfinite"}
    if shape is None or len(types) != 4 or set(parts) - known - {shape[0], *types} or types[0] != types[3]:
        raise g.unknown()
    d_type, a_type, b_type, _ = types
    k, bits = int(shape[1]), ELEMENT_BITS[a_type]
    chunks = k * bits // 128  # 16-byte pieces of a row: one or two
    d, *sources = (items(x) for x in ins.operands)
    accumulator_words = 2 if d_type == "f16" else 4
    counts = [len(x) for x in (d, *sources)]
    if (
        bits != ELEMENT_BITS[b_type]
        or counts != [accumulator_words, 2 * chunks, chunks, accumulator_words]
        or chunks not in (1, 2)
    ):
        raise g.unknown()
    g.collective()
    spec = g.bind(WarpProduct(k, d_type, a_type, b_type, "satfinite" in parts))
    slots = [x.slot for group in (d, *sources) for x in group if isinstance(x, Reg) and x.width == 32]
    if not g.masked and len(slots) == sum(counts):
        g.target(d[0], U32)
        return g.line(product_line(spec, slots[: len(d)], slots[len(d) :]))
    t = g.temp()
    g.line(f"{t} = warp_product(f, {spec}, {', '.join(g.reads(x, U32) for x in sources)})")
    for j, item in enumerate(d):
        g.write(item, U32, f"{t}[{j}]")


def _words(registers: Words, lanes: int) -> np.ndarray:
    out = np.empty((len(registers), lanes), np.uint32)
    for n, register in enumerate(registers):
        out[n] = register
    return out


@runtime
def warp_product(f: Fragment, spec: WarpProduct, a: Words, b: Words, c: Words) -> np.ndarray:
    """Return the words of D: (registers, lanes)."""
    aw, bw, cw = (_words(x, 32 * -(-f.n // 32)) for x in (a, b, c))
    return _product(f, spec, aw[:, None], bw[:, None], cw)[:, 0, : f.n]


@runtime
def warp_products(f: Fragment, spec: WarpProduct, view: Rows, results: np.ndarray, sources: np.ndarray) -> None:
    """Compute products of one kind in chains, as one product of many warps.

    Register slots: (registers, levels, instructions). A level adds to the results of the one before.
    """
    words = view.array[sources, view.lanes].reshape(*sources.shape[:2], -1)
    b = len(sources) - len(results)
    a, levels = b * 2 // 3, sources.shape[1]
    step = max(_LANES // levels // 32, 1) * 32
    parts = (words[:, :, n : n + step] for n in range(0, words.shape[2], step))
    d = np.concatenate([_product(f, spec, x[:a], x[a:b], x[b:, 0]) for x in parts], 2)
    for n in range(levels):
        view.array[results[:, n], view.lanes] = d[:, n].reshape(*results[:, n].shape, f.n)


def _product(f: Fragment, spec: WarpProduct, aw: np.ndarray, bw: np.ndarray, cw: np.ndarray) -> np.ndarray:
    """Return the words of D: (registers, levels, lanes).

    Each level adds to the one before, the first to C.
    """
    _, levels, lanes = aw.shape
    warps = lanes // 32
    am = fragment(aw.reshape(len(aw), -1), 2, spec.a_type).reshape(levels, warps, 16, -1)
    bm = fragment(bw.reshape(len(bw), -1), 1, spec.b_type).reshape(levels, warps, 8, -1)
    c = from_registers(cw, 8, spec.d_type).reshape(warps, 16, 8)
    f.machine.counts.mma_instructions += levels * warps
    f.machine.counts.mma_flops += 2 * 16 * 8 * spec.k * levels * warps
    prepared = prepare(am, bm, spec.a_type) if levels > 1 and spec.a_type in ("f16", "bf16") else None
    out = []
    for n in range(levels):
        if spec.d_type == "s32":
            d = integer_product(am[n], bm[n], c, spec.saturate)
        elif spec.a_type in ("e4m3", "e5m2"):
            d = _through_f16(am[n], bm[n], c, spec.d_type)
        else:
            sums = None if prepared is None else Sums(*(x[n] for x in prepared))
            d = multiply(am[n], bm[n], c, spec.a_type, spec.d_type, sums)
        out.append(d)
        c = d.astype(np.float32) if spec.d_type == "f16" else d
    return to_registers(np.concatenate(out).reshape(16 * warps * levels, 8), spec.d_type).reshape(-1, levels, lanes)


def _through_f16(a: np.ndarray, b: np.ndarray, c: np.ndarray, kind: str) -> np.ndarray:
    """Multiply 8-bit floats as Hopper does, through f16 products of column pairs."""
    first = np.arange(a.shape[-1]) % 4 < 2
    if a.shape[-1] == 16:  # one f16 product would suffice; not measured
        return multiply(a, b, c, "f16", kind)
    t = multiply(a[..., first], b[..., first], None, "f16", kind)
    t = multiply(a[..., ~first], b[..., ~first], t.astype(np.float32), "f16", kind)
    dtype = np.float16 if kind == "f16" else np.float32
    with np.errstate(over="ignore"):
        return t.astype(dtype) + c.astype(dtype)


@dataclass(frozen=True, slots=True)
class Matrices:
    """ldmatrix or stmatrix of `count` matrices, a register each.

    Matrices have 8 x 8 16-bit or 16 x 8 8-bit elements. `whole` accesses a register's four bytes. With `trans` its
    elements are apart and accessed by `part`.
    """

    count: int
    trans: bool
    whole: Access
    part: Access


@dataclass(frozen=True, slots=True)
class PackedMatrices:
    """ldmatrix of `count` matrices whose rows pack 16 elements of `bits` bits into 16 bytes.

    A register holds four elements, each in the low bits of a byte. `part` accesses the memory of four elements:
    a word of 8-bit, a half of 4-bit, and three separate bytes of 6-bit elements.
    """

    count: int
    bits: int
    trans: bool
    part: Access


# Source formats of ldmatrix with shapes m8n16 and m16n16 -> bits of an element, view of a part of four
PACKED = {"b8": (8, U32), "b6x16_p32": (6, U8), "b4x16_p64": (4, U16)}


@emits("ldmatrix", own_block=True)
def _ldmatrix(g: Generator, ins: Instruction) -> None:
    if "m8n8" not in ins.parts:
        return _ldmatrix_packed(g, ins)
    regs, mem = ins.operands
    t = g.temp()
    spec = _matrices(g, ins, write=False)
    addr, _ = g.address(mem)
    g.line(f"{t} = matrix_load(f, {spec}, {addr})")
    for j, item in enumerate(items(regs)):
        g.write(item, U32, f"{t}[{j}]")


def _ldmatrix_packed(g: Generator, ins: Instruction) -> None:
    """Emit loads of 8 x 16 matrices or of transposed 16 x 16 ones."""
    g.collective()
    trans, source = "m16n16" in ins.parts, ins.parts[-1]
    count = next((int(p[1]) for p in ins.parts if p in (("x1", "x2") if trans else ("x1", "x2", "x4"))), 0)
    if not count or source not in PACKED or (source == "b8" and not trans):
        raise g.unknown()
    shape = ["m16n16", f"x{count}", "trans"] if trans else ["m8n16", f"x{count}"]
    formats = [source] if source == "b8" else ["b8x16", source]
    if [p for p in ins.parts[1:] if p not in ("shared", "shared::cta")] != ["sync", "aligned", *shape, *formats]:
        raise g.unknown()
    regs, mem = ins.operands
    addr, offset = g.address(mem)
    bits, fmt = PACKED[source]
    spec = g.bind(PackedMatrices(count, bits, trans, Access.of(g.at, "shared", fmt.dtype, 1, offset)))
    t = g.temp()
    g.line(f"{t} = packed_matrix_load(f, {spec}, {addr})")
    for j, item in enumerate(items(regs)):
        g.write(item, U32, f"{t}[{j}]")


@emits("stmatrix", own_block=True, results=0)
def _stmatrix(g: Generator, ins: Instruction) -> None:
    mem, regs = ins.operands
    spec = _matrices(g, ins, write=True)
    addr, _ = g.address(mem)
    g.line(f"matrix_store(f, {spec}, {addr}, {g.reads(items(regs), U32)})")


@emits("movmatrix", own_block=True)
def _movmatrix(g: Generator, ins: Instruction) -> None:
    if ins.parts[1:] != ("sync", "aligned", "m8n8", "trans", "b16"):
        raise g.unknown()
    g.collective()
    dst, a = ins.operands
    g.write(dst, U32, f"transposed(f, {g.read(a, U32)})")


@runtime
def transposed(f: Fragment, a: np.ndarray) -> np.ndarray:
    """Transpose each warp's matrix of 8 x 8 16-bit elements; lanes hold them by rows."""
    rows = np.ascontiguousarray(np.broadcast_to(a, (f.n,))).view(np.uint16).reshape(-1, 8, 8)
    return np.ascontiguousarray(rows.transpose(0, 2, 1)).view(np.uint32).ravel()


def _matrices(g: Generator, ins: Instruction, write: bool) -> str:
    g.collective()
    parts = ins.parts[1:]
    count = next((int(p[1]) for p in parts if p in ("x1", "x2", "x4")), 0)
    bytes_wide = write and "m16n8" in parts
    form = {"m16n8", "b8"} if bytes_wide else {"m8n8", "b16"}
    known = {"sync", "aligned", f"x{count}", "trans", "shared", "shared::cta"} | form
    if not count or set(parts) - known or not form <= set(parts) or (bytes_wide and "trans" not in parts):
        raise g.unknown()
    _, offset = g.address(ins.operands[0 if write else 1])
    formats = (U32, U8 if bytes_wide else U16)
    whole, part = (Access.of(g.at, "shared", fmt.dtype, 1, offset, write=write) for fmt in formats)
    return g.bind(Matrices(count, "trans" in parts, whole, part))


def _addresses(spec: Matrices, addr: np.ndarray, j: int) -> list[np.ndarray]:
    """Return lanes' addresses in matrix j: one, or with `trans` one per element."""
    a = np.asarray(addr).astype(np.uint64).reshape(-1, 32)[:, 8 * j : 8 * j + 8]
    t = np.arange(32)
    if not spec.trans:
        return [(a[:, t // 4] + np.uint64(4) * (t % 4).astype(np.uint64)).ravel()]
    size = spec.part.item
    down = (size * (t // 4)).astype(np.uint64)
    return [(a[:, t % 4 * 2 + n % 2] + down + np.uint64(8 * (n // 2))).ravel() for n in range(4 // size)]


def _rows_of_bytes(register: np.ndarray) -> np.ndarray:
    """Return a register's matrix of bytes, transposed, as words: four a row."""
    t, n = np.arange(32)[:, None], np.arange(4)
    elements = np.ascontiguousarray(register).view(np.uint8).reshape(-1, 32, 4)
    rows = np.empty((len(elements), 8, 16), np.uint8)
    rows[:, t % 4 * 2 + n % 2, t // 4 + 8 * (n // 2)] = elements
    return rows.view(np.uint32).ravel()


@runtime
def matrix_store(f: Fragment, spec: Matrices, addr: np.ndarray, registers: Words) -> None:
    for j in range(spec.count):
        if spec.part.item == 1:  # as whole words of the rows, for speed
            store(f, spec.whole, _addresses(replace(spec, trans=False), addr, j)[0], (_rows_of_bytes(registers[j]),))
            continue
        places = _addresses(spec, addr, j)
        if not spec.trans:
            store(f, spec.whole, places[0], (registers[j],))
            continue
        for n, place in enumerate(places):
            element = registers[j] >> np.uint32(8 * spec.part.item * n)
            store(f, spec.part, place, (element.astype(spec.part.dtype),))  # its low bits


@runtime
def matrix_load(f: Fragment, spec: Matrices, addr: np.ndarray) -> list[np.ndarray]:
    out = []
    for j in range(spec.count):
        places = _addresses(spec, addr, j)
        if spec.trans:
            lo, hi = (load(f, spec.part, x)[0].astype(np.uint32) for x in places)
            out.append(lo | hi << np.uint32(16))
        else:
            out.append(load(f, spec.whole, places[0])[0])
    return out


@runtime
def packed_matrix_load(f: Fragment, spec: PackedMatrices, addr: np.ndarray) -> list[np.ndarray]:
    """Load matrices by rows; a lane's address is a row of its matrix.

    A lane gets, per matrix, elements 4 (t % 4) to 4 (t % 4) + 3 of row t // 4. Transposed, it gets rows 4 (t % 4) to
    4 (t % 4) + 3 of column t // 4, then of column t // 4 + 8.
    """
    rows = np.asarray(addr).astype(np.uint64).reshape(-1, 32)
    t = np.arange(32)
    if not spec.trans:
        return [_four(f, spec, rows[:, 8 * j + t // 4], t % 4) for j in range(spec.count)]
    out = []
    for j in range(spec.count):
        for column in (t // 4, t // 4 + 8):
            down = np.resize(8 * (column % 4), f.n).astype(np.uint32)
            word = np.zeros(f.n, np.uint32)
            for n in range(4):
                four = _four(f, spec, rows[:, 16 * j + t % 4 * 4 + n], column // 4)
                word |= (four >> down & np.uint32(0xFF)) << np.uint32(8 * n)
            out.append(word)
    return out


def _four(f: Fragment, spec: PackedMatrices, row: np.ndarray, group: np.ndarray) -> np.ndarray:
    """Return four consecutive bytes per lane of rows (warps, 32), by lane's `group`."""
    size = spec.part.item
    start = row + (group * spec.bits // 2).astype(np.uint64)
    packed = np.zeros(f.n, np.uint32)
    for n in range(0, spec.bits // 2, size):
        packed |= load(f, spec.part, (start + np.uint64(n)).ravel())[0].astype(np.uint32) << np.uint32(8 * n)
    if spec.bits == 8:
        return packed
    mask, word = np.uint32((1 << spec.bits) - 1), np.zeros(f.n, np.uint32)
    for n in range(4):
        word |= (packed >> np.uint32(spec.bits * n) & mask) << np.uint32(8 * n)
    return word
