"""tcgen05.mma, cp and commit: issue of fifth-generation tensor-core work (PTX ISA 9.7.16).

Descriptors follow CUTLASS's BSD headers; tensor_product.py computes products.
"""

from dataclasses import dataclass

import numpy as np

from ..core.cta import CTA
from ..core.warp import Address, Fragment
from ..core.work import Kind, Origin, Pipe, Task
from ..frontend.formats import PRED, U16, U32, U64
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Instruction, Mem, PtxError, Vec
from ..memory.address import SharedAddress, ranks_of
from ..memory.address_check import check_columns
from ..memory.matrix_operand import gather, matrix
from ..memory.tensor_memory import LANES
from .descriptor import Descriptor, instruction
from .tensor_product import Form, TensorProduct, working_ctas

_KINDS = ("f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4")
_BLOCKS = {"block32": 32, "block16": 16}  # elements of K that share a scale factor
_VECTORS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}  # scale factors per row and instruction
_VECTORS_BY_KIND = {"mxf8f6f4": 1, "mxf4": 2, "mxf4nvf4": 4}
_K_BY_KIND = {"mxf8f6f4": 32, "mxf4": 64, "mxf4nvf4": 64}


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
        scaled = f"({g.address_tuple(rest[0])}, {g.address_tuple(rest[1])})"
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
    source = g.address_tuple(a) if isinstance(a, Mem) else f"({g.read(a, U64)}, 0)"
    g.line(
        f"tcgen05_mma(f, {g.bind(form)}, {g.address_tuple(d)}, {source}, {g.read(b, U64)}, {g.read(idesc, U32)}, "
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
    d: Address,
    a: Address,
    b: np.ndarray,
    idesc: np.ndarray,
    enable: np.ndarray,
    scaled: tuple[Address, Address] | None,
    disabled: tuple[np.ndarray, ...],
) -> None:
    """Queue one product per active lane (normally one elected lane)."""
    if f.count > 1:
        f.report_repeats(form.at, "product", list(zip(f.addresses(d), f.addresses(a), f.values(b), strict=True)))
    products = zip(
        f.lanes(),
        f.addresses(d),
        f.addresses(a),
        f.values(b),
        [_decoded(f, form, bits) for bits in f.values(idesc)],
        f.values(enable),
        f.addresses(scaled[0]) if scaled else [None] * f.count,
        f.addresses(scaled[1]) if scaled else [None] * f.count,
        zip(*(f.values(word) for word in disabled), strict=True) if disabled else [()] * f.count,
        strict=True,
    )
    for lane, to, source_a, source_b, descriptor, accumulate, scale_a, scale_b, mask in products:
        origin = f.issue(form.at, f.warp_of(lane))
        kept = list(mask) if any(mask) else None
        shape = (descriptor.m, descriptor.n, descriptor.k)
        f.cta.uncommitted = form.at
        f.machine.counts.product(form.kind, form.group, shape)
        work = TensorProduct(
            origin, form, descriptor, to, source_a, source_b, bool(accumulate), scale_a, scale_b, disabled=kept
        )
        f.cta.cluster.post(Pipe("tcgen05", f.cta.rank), work)


def _decoded(f: Fragment, form: Form, bits: int) -> Descriptor:
    try:
        return instruction(form.kind, bits)
    except ValueError as error:
        line = f.machine.program.instructions[form.at].line
        raise PtxError(f"kernel {f.cta.launch.name[:80]}, line {line}: {error}") from None


@dataclass(frozen=True, slots=True)
class CopyForm:
    """A tcgen05.cp as written: rows and columns read, multicast of fewer rows."""

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
    g.line(f"tcgen05_cp(f, {form}, {g.address_tuple(ins.operands[0])}, {g.read(ins.operands[1], U64)})")


@runtime
def tcgen05_cp(f: Fragment, form: CopyForm, to: Address, descriptor: np.ndarray) -> None:
    operands = zip(f.addresses(to), f.values(descriptor), strict=True)
    for lane, (address, source) in zip(f.lanes(), operands, strict=True):
        origin = f.issue(form.at, f.warp_of(lane))
        f.cta.cluster.post(Pipe("tcgen05", f.cta.rank), TensorCopy(origin, form, address & 0xFFFF, source))


@dataclass(slots=True, eq=False)
class TensorCopy(Task):
    """A copy from shared memory (by descriptor) to tensor memory, starting at a column."""

    origin: Origin
    form: CopyForm
    column: int
    source: int
    kind: Kind = "mma"

    @property
    def label(self) -> str:
        return "tcgen05.cp"

    def run(self) -> None:
        for cta in working_ctas(self.origin, self.form.group):
            self._copy(cta)

    def _copy(self, cta: CTA) -> None:
        origin, form, tm, observer = self.origin, self.form, cta.tensor_memory, self.origin.cluster.observer
        end = self.column + form.columns
        raw, chunks = gather(cta.shared, matrix(self.source, True), False, form.rows, form.columns * 4, 8)
        observer.operand_read(cta, chunks, origin)
        words = np.ascontiguousarray(raw).view(np.uint32)
        check_columns(origin.fragment, origin.at, tm, self.column, end, "tcgen05.cp writes")
        tm.write(slice(None), slice(self.column, end), self._spread(words))
        rows, cols = np.arange(LANES)[:, None], np.arange(self.column, end)[None, :]
        observer.tmem_worked(origin, tm, rows, cols, True)

    def _spread(self, words: np.ndarray) -> np.ndarray:
        """Return the words of all 128 lanes."""
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
    g.line(f"tcgen05_commit(f, {g.at}, {g.address_tuple(ins.operands[0])}, {mask})")


@runtime
def tcgen05_commit(f: Fragment, at: int, operand: Address, mask: np.ndarray | None) -> None:
    masks = [None] * f.count if mask is None else f.values(mask)
    f.report_repeats(at, "commit", f.addresses(operand))
    f.cta.uncommitted = -1
    for lane, address, bits in zip(f.lanes(), f.addresses(operand), masks, strict=True):
        bar = SharedAddress.of(address)
        ranks = [bar.rank] if bits is None else ranks_of(bits)
        commit = Commit(f.issue(at, f.warp_of(lane)), [bar.at(rank) for rank in ranks])
        f.cta.cluster.post(Pipe("tcgen05", f.cta.rank), commit)


@dataclass(slots=True, eq=False)
class Commit(Task):
    """An arrival on mbarriers once all work queued before it has run."""

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
