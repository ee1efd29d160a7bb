"""tcgen05.ld, st, wait and fences: thread accesses of tensor memory (PTX ISA 9.7.16)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..core.cta import CTA
from ..core.warp import Fragment
from ..core.work import Pipe
from ..frontend.formats import U32
from ..frontend.generator import Generator
from ..frontend.pending import is_load
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction, Operand, items
from ..memory.address_check import check_columns
from ..memory.tensor_memory import COLUMNS, LANES, shape_index
from .tensor_product import TensorProduct

_SPLIT = "16x32bx2"
_SHAPES = ("32x32b", "16x64b", "16x128b", "16x256b", _SPLIT)


@dataclass(frozen=True, slots=True)
class Transfer:
    """A tcgen05.ld or st: a shape repeated `count` times; `packed`: two 16-bit columns a register.

    `split` is the distance in columns between the two halves of 16x32bx2.
    """

    at: int
    shape: str
    count: int
    packed: bool
    split: int
    offset: int
    write: bool

    @property
    def span(self) -> int:
        """The number of tensor-memory lanes that a warp accesses."""
        return 32 if self.shape == "32x32b" else 16

    @property
    def verb(self) -> str:
        return "store" if self.write else "load"

    @lru_cache(maxsize=1024)  # noqa: B019  # few kernels have more such places, and nothing but numbers is kept
    def cells(self, lane: int, column: int) -> tuple[np.ndarray, np.ndarray, int]:
        """Return cells' rows and columns, read-only and cached, and the columns spanned."""
        rows, cols = self.index()
        return (rows + lane) % LANES, (cols + column) % COLUMNS, int(cols.max()) + 1

    def index(self) -> tuple[np.ndarray, np.ndarray]:
        """Return (row, column) of each cell, (cells per lane, 32); packed registers have two."""
        count = self.count * (2 if self.packed else 1)
        if self.shape != _SPLIT:
            return shape_index(self.shape, count)
        t, r = np.arange(32)[None, :], np.arange(count)[:, None]
        return np.broadcast_to(t % 16, (count, 32)), r + np.where(t < 16, 0, self.split)


@dataclass(frozen=True, slots=True)
class Reduction:
    """The .red of a tcgen05.ld: min or max of each lane's words."""

    op: str
    type: str
    magnitude: bool
    nan: bool


@emits("tcgen05.ld", own_block=True)
def _ld(g: Generator, ins: Instruction) -> None:
    reduction = _reduction(ins)
    dst, *rest = ins.operands
    if reduction is not None:
        raise g.unknown()
    _emit_load(g, ins, dst, None, rest, None)


@emits("tcgen05.ld.red", own_block=True, results=2)
def _ld_red(g: Generator, ins: Instruction) -> None:
    reduction = _reduction(ins)
    if reduction is None:
        raise g.unknown()
    dst, reduced, *rest = ins.operands
    _emit_load(g, ins, dst, reduced, rest, reduction)


def _reduction(ins: Instruction) -> Reduction | None:
    op = next((p for p in ins.parts if p in ("min", "max")), None)
    kind = next((p for p in ins.parts if p in ("f32", "u32", "s32")), None)
    if op is None or kind is None:
        return None
    return Reduction(op, kind, "abs" in ins.parts, "NaN" in ins.parts)


def _emit_load(
    g: Generator, ins: Instruction, dst: Operand, reduced: Operand, rest: list[Operand], reduction: Reduction | None
) -> None:
    known = {"red", "min", "max", "f32", "u32", "s32", "abs", "NaN"} if reduction is not None else set()
    spec, addr = _transfer(g, ins, rest[0], rest[1] if len(rest) > 1 else None, known, write=False)
    if reduction is not None and spec.shape not in ("32x32b", _SPLIT):
        raise g.unknown()
    t = g.temp()
    g.line(f"{t} = tmem_ld(f, {g.bind(spec)}, {addr})")
    for j, item in enumerate(items(dst)):
        if item is not None:
            g.write(item, U32, f"{t}[{j}]")
    if reduction is not None:
        g.write(reduced, U32, f"reduce_words({t}, {g.bind(reduction)})")


@emits("tcgen05.st", own_block=True, results=0)
def _st(g: Generator, ins: Instruction) -> None:
    mem, *split, values = ins.operands
    spec, addr = _transfer(g, ins, mem, split[0] if split else None, set(), write=True)
    g.line(f"tmem_st(f, {g.bind(spec)}, {addr}, {g.reads(items(values), U32)})")


def _transfer(
    g: Generator, ins: Instruction, mem: Operand, split: Operand, known: set[str], write: bool
) -> tuple[Transfer, str]:
    """Return the transfer of an opcode, and its address expression."""
    g.collective()
    parts = ins.parts[2:]
    shape = next((p for p in parts if p in _SHAPES), None)
    count = next((int(p[1:]) for p in parts if p[0] == "x" and p[1:].isdigit()), None)
    pack = next((p for p in parts if p in ("pack::16b", "unpack::16b")), "")
    if shape is None or count is None or set(parts) - {"sync", "aligned", "b32", shape, f"x{count}", pack} - known:
        raise g.unknown()
    distance = g.number(split, "the split of 16x32bx2") if shape == _SPLIT else 0
    addr, offset = g.address(mem)
    return Transfer(g.at, shape, count, bool(pack), distance, offset, write), addr


class Part(NamedTuple):
    """One warp's part of a transfer: lanes, rows and columns of its cells."""

    warp: int
    lanes: slice
    rows: np.ndarray
    cols: np.ndarray


def _parts(f: Fragment, spec: Transfer, addr: np.ndarray) -> Iterator[Part]:
    """Yield each warp's part; report lanes and columns out_of_range its reach."""
    addr = np.asarray(addr)
    for warp in f.warps():
        first = 32 * warp - f.lo
        packed_address = (int(addr[first]) if addr.ndim else int(addr)) + spec.offset
        named, column, quarter = packed_address >> 16 & 0xFFFF, packed_address & 0xFFFF, warp % 4
        out_of_range = named % 32 + spec.span > 32 or named >= LANES
        if out_of_range or (named // 32 != quarter and "tensor-lanes" in f.machine.checks):
            what = (
                f"{spec.verb} of tensor-memory lanes {named} to {named + spec.span - 1} by warp {warp}, "
                f"which owns lanes {32 * quarter} to {32 * quarter + 31}"
            )
            f.report(spec.at, "tensor-lanes", what)
        lane = 32 * quarter + named % 32  # a GPU takes a warp's quarter from its number, not from the address
        rows, cols, columns = spec.cells(lane, column)
        check_columns(f, spec.at, f.cta.tensor_memory, column, column + columns, spec.verb)
        yield Part(warp, slice(first, first + 32), rows, cols)


@runtime
def reduce_words(words: np.ndarray, spec: Reduction) -> np.ndarray:
    """Reduce the words of each lane to one."""
    v = words.view({"f32": np.float32, "u32": np.uint32, "s32": np.int32}[spec.type])
    v = np.abs(v) if spec.magnitude else v
    plain = {"min": np.minimum, "max": np.maximum}[spec.op]
    chosen = plain if spec.nan or spec.type != "f32" else {"min": np.fmin, "max": np.fmax}[spec.op]
    return np.ascontiguousarray(chosen.reduce(v, axis=0)).view(np.uint32)


@runtime
def tmem_ld(f: Fragment, spec: Transfer, addr: np.ndarray) -> np.ndarray:
    """Load words (registers, lanes) of tensor memory."""
    cta, observer, tm = f.cta, f.cta.cluster.observer, f.cta.tensor_memory
    watched = spec.at in f.machine.program.watched
    out: np.ndarray | None = None
    for warp, lanes, rows, cols in _parts(f, spec, addr):
        words = tm.words[rows, cols]
        if tm.unwritten(rows, cols):
            bad = ~tm.written[rows, cols]
            where = f"lane {int(rows[bad][0])}, column {int(cols[bad][0])}"
            f.report(
                spec.at, "uninitialised", f"tcgen05.ld of tensor memory nobody wrote: {where}{_products_in_flight(cta)}"
            )
        observer.tmem_access(f, spec.at, warp, tm, rows, cols, False)
        if spec.packed:
            words = (words[0::2] & np.uint32(0xFFFF)) | (words[1::2] << np.uint32(16))
        if out is None:
            out = np.zeros((len(words), f.n), np.uint32)
        out[:, lanes] = words
        if watched:
            cta.unfinished[warp, spec.at] = observer.serial
    assert out is not None  # a fragment has an active lane
    return out


def _products_in_flight(cta: CTA) -> str:
    """Return a CTA's queued product, as the end of a sentence."""
    queue = cta.cluster.pipes.queues.get(Pipe("tcgen05", cta.rank), ())
    product = next((task for task in queue if isinstance(task, TensorProduct)), None)
    return "" if product is None else f"; the product at {product.origin.location} has not been waited for"


@runtime
def tmem_st(f: Fragment, spec: Transfer, addr: np.ndarray, values: tuple[np.ndarray, ...]) -> None:
    data = np.empty((len(values), f.n), np.uint32)
    for n, value in enumerate(values):
        data[n] = value
    tm, observer = f.cta.tensor_memory, f.cta.cluster.observer
    f.cta.cluster.progress += 1
    for warp, lanes, rows, cols in _parts(f, spec, addr):
        words = data[:, lanes]
        if spec.packed:
            wide = np.empty((2 * len(words), 32), np.uint32)
            wide[0::2], wide[1::2] = words & np.uint32(0xFFFF), words >> np.uint32(16)
            words = wide
        tm.write(rows, cols, words)
        observer.tmem_access(f, spec.at, warp, tm, rows, cols, True)


@emits("tcgen05.wait::ld", "tcgen05.wait::st", results=0)
def _wait(g: Generator, ins: Instruction) -> None:
    """Emit a wait for the checks only: loads and stores complete at once."""
    if set(ins.parts[2:]) - {"sync", "aligned"}:
        raise g.unknown()
    g.line(f"tmem_wait(f, {ins.parts[1] == 'wait::st'})")


@runtime
def tmem_wait(f: Fragment, stores: bool) -> None:
    if not stores and f.cta.unfinished:
        warps = f.warps()
        for key in [k for k in f.cta.unfinished if is_load(k[1]) and k[0] in warps]:
            del f.cta.unfinished[key]
    f.cta.cluster.observer.tmem_waited(f, stores)


@emits("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync", results=0)
def _fence(g: Generator, ins: Instruction) -> None:
    if ins.parts[2:]:
        raise g.unknown()
    g.line(f"f.cta.cluster.observer.tensor_fenced(f, {ins.parts[1] == 'fence::after_thread_sync'})")
