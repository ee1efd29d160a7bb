"""tcgen05.mma, cp and commit: fifth-generation tensor cores (PTX ISA 9.7.16; descriptors: CUTLASS, BSD headers).

Products are exact in float32 for every input format but tf32 and fp16 pairs whose sum of products rounds; sums are
taken in float32 by the CPU's matrix product. NVIDIA documents neither order nor precision of the accumulation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..address import SharedAddress, ranks_of
from ..cta import CTA
from ..descriptor import Descriptor, instruction, operand_values, values
from ..formats import PRED, U16, U32, U64
from ..generator import Generator
from ..numeric import TABLES
from ..operand import gather, matrix
from ..registry import emits, runtime
from ..syntax import Instruction, Mem, PtxError, Vec
from ..tmem import COLUMNS, LANES, Index
from ..warp import Fragment, Place
from ..work import Kind, Origin, Pipe, Task

_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
_BLOCKS = {"block32": 32, "block16": 16}  # elements of K that share a scale factor
_VECTORS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}  # scale factors per row and instruction
_VECTORS_BY_KIND = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}
_K_BY_KIND = {"mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}


@dataclass(frozen=True, slots=True)
class Form:
    """A tcgen05.mma as written: its kind, how many CTAs work together, whether A lies in tensor memory.

    `scales` is how many scale factors a row has per instruction (0 without block scaling); `shift` divides the old
    accumulator by that power of two.
    """

    at: int
    kind: str
    group: int
    a_in_tensor_memory: bool
    scales: int
    shift: int


@emits("tcgen05.mma", results=0)
def _mma(g: Generator, ins: Instruction) -> None:
    parts = ins.parts[2:]
    kind = next((k for k in _KINDS if f"kind::{k}" in parts), None)
    known = {f"kind::{kind}", "cta_group::1", "cta_group::2", "block_scale", *_VECTORS, *_BLOCKS}
    if kind is None or any(p not in known and not p.startswith("collector::") for p in parts):
        raise g.unknown()
    d, a, b, idesc, *rest = ins.operands
    disabled, scaled = "()", "None"
    if rest and isinstance(rest[0], Vec):
        disabled = g.reads(rest[0].items, U32)
        rest = rest[1:]
    if "block_scale" in parts:
        scaled = f"({g.place(rest[0])}, {g.place(rest[1])})"
        rest = rest[2:]
    enable, *more = rest
    form = Form(
        at=g.at,
        kind=kind,
        group=_cta_group(ins),
        a_in_tensor_memory=isinstance(a, Mem),
        scales=_scale_factors(kind, parts),
        shift=g.number(more[0], "scale-input-d") if more else 0,
    )
    source = g.place(a) if isinstance(a, Mem) else f"({g.read(a, U64)}, 0)"
    g.line(
        f"tcgen05_mma(f, {g.bind(form)}, {g.place(d)}, {source}, {g.read(b, U64)}, {g.read(idesc, U32)}, "
        f"{g.read(enable, PRED)}, {scaled}, {disabled})"
    )


def _cta_group(ins: Instruction) -> int:
    return 2 if "cta_group::2" in ins.parts else 1


def _scale_factors(kind: str, parts: tuple[str, ...]) -> int:
    if "block_scale" not in parts:
        return 0
    for part in parts:
        if part in _BLOCKS:
            return _K_BY_KIND[kind] // _BLOCKS[part]
        if part in _VECTORS:
            return _VECTORS[part]
    return _VECTORS_BY_KIND[kind]


@runtime
def tcgen05_mma(
    f: Fragment,
    form: Form,
    d: Place,
    a: Place,
    b: np.ndarray,
    idesc: np.ndarray,
    enable: np.ndarray,
    scaled: tuple[Place, Place] | None,
    disabled: tuple[np.ndarray, ...],
) -> None:
    """Queue one product per active lane (one elected lane, ordinarily)."""
    cluster = f.cta.cluster
    columns = [f.addresses(d), f.addresses(a), f.values(b), f.values(idesc), f.values(enable)]
    factors = [f.addresses(place) for place in scaled or ()]
    masks = [f.values(word) for word in disabled]
    for n, lane in enumerate(f.lanes()):
        to, source_a, source_b, bits, accumulate = (column[n] for column in columns)
        descriptor = _decoded(f, form, bits)
        words = [mask[n] for mask in masks]
        task = TensorProduct(
            origin=f.issue(form.at, f.warp_of(lane)),
            form=form,
            descriptor=descriptor,
            d=to,
            a=source_a,
            b=source_b,
            accumulate=bool(accumulate),
            scale_a=factors[0][n] if factors else None,
            scale_b=factors[1][n] if factors else None,
            disabled=words if any(words) else None,
        )
        cluster.machine.counts.mma_instructions += 1
        cluster.machine.counts.mma_flops += 2 * descriptor.m * descriptor.n * descriptor.k
        cluster.post(Pipe("tcgen05", f.cta.rank), task)


def _decoded(f: Fragment, form: Form, bits: int) -> Descriptor:
    try:
        return instruction(form.kind, bits)
    except ValueError as error:
        line = f.cta.cluster.program.instructions[form.at].line
        raise PtxError(f"kernel {f.cta.launch.name[:80]}, line {line}: {error}") from None


def _working(origin: Origin, group: int) -> list[CTA]:
    """The CTAs whose tensor cores work together; none, with a finding, where the peer is missing."""
    ctas = [origin.cta] if group == 1 else origin.cta.pair()
    there = [cta for cta in ctas if cta is not None]
    if len(there) < group:
        origin.report("barrier", "cta_group::2 without a peer CTA")
        return []
    return there


@dataclass(slots=True, eq=False)
class TensorProduct(Task):
    """A product on its way: D (m, n) = A (m, k) times B (n, k) transposed, plus the old D if `accumulate`.

    `d`, `scale_a`, `scale_b` and an `a` in tensor memory are tensor-memory addresses; `b` and an `a` in shared memory
    are descriptors. `disabled` are words of a mask of lanes that D keeps.
    """

    origin: Origin
    form: Form
    descriptor: Descriptor
    d: int
    a: int
    b: int
    accumulate: bool
    scale_a: int | None
    scale_b: int | None
    disabled: list[int] | None
    kind: Kind = "mma"

    @property
    def label(self) -> str:
        return f"MMA, line {self.origin.line}"

    @property
    def rows(self) -> int:
        """Rows of A, and of D, that each CTA has."""
        return self.descriptor.m // self.form.group

    def run(self) -> None:
        w, group = self.descriptor, self.form.group
        ctas = _working(self.origin, group)
        try:
            parts = [self._from_shared(cta, self.b, w.b_mn, w.n // group, w.b) for cta in ctas]
            if not parts:
                return
            b = parts[0] if group == 1 else np.concatenate(parts)
            for cta in ctas:
                product = self._product(cta, self._operand_a(cta), b)
                _Accumulator(self, cta).add(product)
        except (IndexError, ValueError) as error:
            self.origin.report("out-of-bounds", f"tcgen05.mma: {error}")

    def _from_shared(self, cta: CTA, descriptor: int, mn_major: bool, extent: int, element: str) -> np.ndarray:
        w = self.descriptor
        operand = operand_values(cta.shared, descriptor, True, mn_major, extent, w.k, w.bits, element)
        self.origin.cluster.observer.operand_read(cta, operand.chunks, self.origin)
        return operand.values

    def _operand_a(self, cta: CTA) -> np.ndarray:
        w, f, at = self.descriptor, self.origin.fragment, self.origin.at
        if not self.form.a_in_tensor_memory:
            return self._from_shared(cta, self.a, w.a_mn, self.rows, w.a)
        tm, column = cta.tensor_memory, self.a & 0xFFFF
        end = column + w.k * w.bits // 32
        rows = np.arange(self.rows) if self.rows == 128 else sparse_rows(self.rows, self.a)
        tm.check(f, at, column, end, "tcgen05.mma reads")
        cells = (rows[:, None], np.arange(column, end)[None, :])
        if tm.unwritten(*cells):
            what = f"reads matrix A from tensor-memory columns {column} to {end}, which nobody wrote"
            self.origin.report("uninitialised", f"tcgen05.mma {what}")
        self.origin.cluster.observer.tmem_worked(self.origin, tm, *cells, False)
        return values(np.ascontiguousarray(tm.words[cells]).view(np.uint8), "e2m1x2" if w.bits == 4 else w.a)

    def _product(self, cta: CTA, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        w = self.descriptor
        a, b = -a if w.a_negate else a, -b if w.b_negate else b
        if self.scale_a is not None and self.scale_b is not None:
            a = a * self._scale_factors(cta, self.scale_a, self.rows, w.a_id)
            b = b * self._scale_factors(cta, self.scale_b, w.n, w.b_id)
        product: np.ndarray = a @ b.T
        return product

    def _scale_factors(self, cta: CTA, address: int, rows: int, first_byte: int) -> np.ndarray:
        """(rows, k) scale factors: row r in lane r % 32 of column r // 32, in the bytes from `first_byte`."""
        w, tm, per = self.descriptor, cta.tensor_memory, self.form.scales
        r = np.arange(rows)
        lane, column = r % 32, (address & 0xFFFF) + r // 32
        first, end = int(column.min()), int(column.max()) + 1
        tm.check(self.origin.fragment, self.origin.at, first, end, "tcgen05.mma reads scale factors in")
        if tm.unwritten(lane, column % COLUMNS):
            what = f"tcgen05.mma reads scale factors from column {first}, which nobody wrote"
            self.origin.report("uninitialised", what)
        shift = np.uint32(8) * (np.uint32(first_byte) + np.arange(per, dtype=np.uint32))
        codes = tm.words[lane, column % COLUMNS][:, None] >> shift & np.uint32(255)
        return np.repeat(TABLES[w.scale][codes], w.k // per, axis=1)


class _Accumulator:
    """Where one CTA's part of D lies in its tensor memory."""

    def __init__(self, task: TensorProduct, cta: CTA) -> None:
        self.task, self.cta, self.tm = task, cta, cta.tensor_memory
        self.column = task.d & 0xFFFF
        self.halved = task.form.group == 2 and task.rows == 64
        self.rows: Index
        if self.halved:  # columns split over the lanes: first half above, second half below
            self.rows, width = slice(0, LANES), task.descriptor.n // 2
        else:
            full = task.rows == 128
            self.rows, width = slice(0, LANES) if full else sparse_rows(task.rows, task.d), task.descriptor.n
        self.end = self.column + width
        self.cols = slice(self.column, self.end)

    def add(self, product: np.ndarray) -> None:
        """The product of all of B and this CTA's rows of A, into tensor memory."""
        task, origin = self.task, self.task.origin
        if self.halved:
            half = task.descriptor.n // 2
            product = np.concatenate([product[:, :half], product[:, half:]])
        self.tm.check(origin.fragment, origin.at, self.column, self.end, "tcgen05.mma writes")
        if self.end > COLUMNS:
            return
        if task.accumulate and self.tm.unwritten(self.rows, self.cols):
            what = f"accumulates onto columns {self.column} to {self.end}, which nobody wrote"
            origin.report("uninitialised", f"tcgen05.mma {what}")
        old = self.tm.words[self.rows, self.cols]
        new = self._sum(old, product)
        if task.disabled is not None:
            new = np.where(self._kept(task.disabled)[:, None], old, new)
        self.tm.write(self.rows, self.cols, new)
        rows, cols = np.arange(LANES)[self.rows], np.arange(self.column, self.end)
        origin.cluster.observer.tmem_worked(origin, self.tm, rows[:, None], cols[None, :], True)

    def _sum(self, old: np.ndarray, product: np.ndarray) -> np.ndarray:
        """The words of old plus product in the accumulator's format."""
        w, accumulate, shift = self.task.descriptor, self.task.accumulate, self.task.form.shift
        if w.d == "s32":
            total = product.astype(np.int64) + (old.view(np.int32) if accumulate else 0)
            if w.saturate:
                total = total.clip(-(2**31), 2**31 - 1)
            return total.astype(np.int32).view(np.uint32)
        if w.d == "f16":
            if accumulate:
                product = product + (old & np.uint32(0xFFFF)).astype(np.uint16).view(np.float16).astype(np.float32)
            return product.astype(np.float16).view(np.uint16).astype(np.uint32)
        if accumulate:
            base = np.ascontiguousarray(old).view(np.float32)
            product += base * np.float32(2.0**-shift) if shift else base
        return product.astype(np.float32, copy=False).view(np.uint32)

    def _kept(self, words: list[int]) -> np.ndarray:
        """Which rows keep what they have; of a pair the mask's first half is for the even CTA."""
        if self.task.form.group == 2:
            words = words[:4] if self.cta.rank % 2 == 0 else words[4:]
        keep = np.unpackbits(np.array(words, "<u4").view(np.uint8), bitorder="little")[:LANES].astype(bool)
        return keep[self.rows]


def sparse_rows(m: int, address: int) -> np.ndarray:
    """Lanes of the rows of a 64-row matrix: 16 in each quarter, above or below as the address's lane says."""
    rows = np.arange(m)
    return rows % 16 + rows // 16 * 32 + (address >> 16 & 16)


@dataclass(frozen=True, slots=True)
class CopyForm:
    """A tcgen05.cp as written: rows and columns that it reads, and to which warps' lanes it spreads fewer than 128."""

    at: int
    group: int
    rows: int
    columns: int
    spread: str


_CP = {"128x256b": (128, 8), "128x128b": (128, 4), "64x128b": (64, 4), "32x128b": (32, 4)}  # rows, columns


@emits("tcgen05.cp", results=0)
def _cp(g: Generator, ins: Instruction) -> None:
    parts = ins.parts[2:]
    shape = next((p for p in parts if p in _CP), None)
    spread = next((p for p in parts if p.startswith("warpx")), "")
    if shape is None or set(parts) - {shape, spread, "cta_group::1", "cta_group::2"}:
        raise g.unknown()
    form = g.bind(CopyForm(g.at, _cta_group(ins), *_CP[shape], spread))
    g.line(f"tcgen05_cp(f, {form}, {g.place(ins.operands[0])}, {g.read(ins.operands[1], U64)})")


@runtime
def tcgen05_cp(f: Fragment, form: CopyForm, to: Place, descriptor: np.ndarray) -> None:
    operands = zip(f.addresses(to), f.values(descriptor), strict=True)
    for lane, (address, source) in zip(f.lanes(), operands, strict=True):
        origin = f.issue(form.at, f.warp_of(lane))
        f.cta.cluster.post(Pipe("tcgen05", f.cta.rank), TensorCopy(origin, form, address & 0xFFFF, source))


@dataclass(slots=True, eq=False)
class TensorCopy(Task):
    """A copy from shared memory (by descriptor) to tensor memory, from a column on."""

    origin: Origin
    form: CopyForm
    column: int
    source: int
    kind: Kind = "mma"

    @property
    def label(self) -> str:
        return "tcgen05.cp"

    def run(self) -> None:
        for cta in _working(self.origin, self.form.group):
            self._copy(cta)

    def _copy(self, cta: CTA) -> None:
        origin, form, tm, observer = self.origin, self.form, cta.tensor_memory, self.origin.cluster.observer
        end = self.column + form.columns
        raw, chunks = gather(cta.shared, matrix(self.source, True), False, form.rows, form.columns * 4, 8)
        observer.operand_read(cta, chunks, origin)
        words = np.ascontiguousarray(raw).view(np.uint32)
        tm.check(origin.fragment, origin.at, self.column, end, "tcgen05.cp writes")
        tm.write(slice(None), slice(self.column, end), self._spread(words))
        rows, cols = np.arange(LANES)[:, None], np.arange(self.column, end)[None, :]
        observer.tmem_worked(origin, tm, rows, cols, True)

    def _spread(self, words: np.ndarray) -> np.ndarray:
        """The words of all 128 lanes."""
        if self.form.spread == "warpx2::02_13":  # warps 0 and 2 take the first half, 1 and 3 the second
            return np.concatenate([words[:32], words[32:], words[:32], words[32:]])
        if self.form.spread == "warpx2::01_23":
            return np.concatenate([words[:32], words[:32], words[32:], words[32:]])
        return np.tile(words, (LANES // len(words), 1))


@emits("tcgen05.commit", results=0)
def _commit(g: Generator, ins: Instruction) -> None:
    known = {"cta_group::1", "cta_group::2", "mbarrier::arrive::one", "shared::cluster", "multicast::cluster", "b64"}
    if set(ins.parts[2:]) - known:
        raise g.unknown()
    mask = g.read(ins.operands[1], U16) if "multicast::cluster" in ins.parts else "None"
    g.line(f"tcgen05_commit(f, {g.at}, {g.place(ins.operands[0])}, {mask})")


@runtime
def tcgen05_commit(f: Fragment, at: int, place: Place, mask: np.ndarray | None) -> None:
    masks = [None] * f.count if mask is None else f.values(mask)
    for lane, address, bits in zip(f.lanes(), f.addresses(place), masks, strict=True):
        bar = SharedAddress.of(address)
        ranks = [bar.rank] if bits is None else ranks_of(bits)
        commit = Commit(f.issue(at, f.warp_of(lane)), [bar.at(rank) for rank in ranks])
        f.cta.cluster.post(Pipe("tcgen05", f.cta.rank), commit)


@dataclass(slots=True, eq=False)
class Commit(Task):
    """An arrival on mbarriers once everything queued before it has run."""

    origin: Origin
    bars: list[SharedAddress]
    kind: Kind = "mma"

    @property
    def label(self) -> str:
        return f"commit, line {self.origin.line}"

    def run(self) -> None:
        origin = self.origin
        for address in self.bars:
            bar = origin.cta.mbarrier(address)
            if bar is None:
                where = f"shared offset {address.offset} of CTA rank {address.rank}"
                origin.report("barrier", f"tcgen05.commit to {where}, where no mbarrier is")
                continue
            origin.cluster.observer.products_committed(bar, origin)
            bar.arrive(1, origin.fragment, origin.at)
