"""tcgen05 products, from shared and tensor memory into tensor memory (PTX ISA 9.7.16).

Products are exact in float32 for every input format but tf32, and but for fp16 pairs whose sum of products rounds. Sums
use float32 in the CPU's matrix product. NVIDIA documents neither order nor precision of the accumulation.
"""

from dataclasses import dataclass

import numpy as np

from ..core.cta import CTA
from ..core.work import Kind, Origin, Task
from ..memory.address_check import check_columns
from ..memory.tensor_memory import COLUMNS, LANES, Index
from .descriptor import Descriptor, operand_values, values
from .numeric import TABLES


@dataclass(frozen=True, slots=True)
class Form:
    """A tcgen05.mma as written: kind, CTAs in the group, memory of A.

    `scales` is the number of scale factors per row and instruction (0 without block scaling). `shift` divides the old
    accumulator by that power of two.
    """

    at: int
    kind: str
    group: int
    a_in_tensor_memory: bool
    scales: int
    shift: int


def working_ctas(origin: Origin, group: int) -> list[CTA]:
    """Return the CTAs of a group; report a missing peer and return none."""
    ctas = [origin.cta] if group == 1 else origin.cta.pair()
    present = [cta for cta in ctas if cta is not None]
    if len(present) < group:
        origin.report("barrier", "cta_group::2 without a peer CTA")
        return []
    return present


@dataclass(slots=True, eq=False)
class TensorProduct(Task):
    """A queued product D = A B^T (+ D if `accumulate`).

    A is (m, k), B is (n, k), D is (m, n). `d`, `scale_a`, `scale_b` and an `a` in tensor memory are tensor-memory
    addresses; `b` and an `a` in shared memory are descriptors. `disabled` are words of a mask of lanes that D
    keeps.
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
        """Rows of A and D per CTA."""
        return self.descriptor.m // self.form.group

    @property
    def halved(self) -> bool:
        """Whether D's columns are split over the lanes: first half above, second half below."""
        return self.form.group == 2 and self.rows == 64

    def run(self) -> None:
        w, group = self.descriptor, self.form.group
        ctas = working_ctas(self.origin, group)
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
        check_columns(f, at, tm, column, end, "tcgen05.mma reads")
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
            b = b * self._scale_factors(cta, self.scale_b, w.n, w.b_id, self.halved)
        product: np.ndarray = a @ b.T
        return product

    def _scale_factors(self, cta: CTA, address: int, rows: int, first_byte: int, halved: bool = False) -> np.ndarray:
        """Return scale factors (rows, k) from 32 lanes per column of tensor memory.

        `halved`: scale factors of D's second half of columns lie in lanes from 64 on, as NVIDIA's Primitives example
        2cta_mma_blockscale_m128 copies them (64x128b.warpx2::01_23).
        """
        w, tm, per = self.descriptor, cta.tensor_memory, self.form.scales
        r = np.arange(rows)
        half, r = np.divmod(r, rows // 2 if halved else rows)
        lane, column = 64 * half + r % 32, (address & 0xFFFF) + r // 32
        first, end = int(column.min()), int(column.max()) + 1
        check_columns(self.origin.fragment, self.origin.at, tm, first, end, "tcgen05.mma reads scale factors in")
        if tm.unwritten(lane, column % COLUMNS):
            what = f"tcgen05.mma reads scale factors from column {first}, which nobody wrote"
            self.origin.report("uninitialised", what)
        shift = np.uint32(8) * (np.uint32(first_byte) + np.arange(per, dtype=np.uint32))
        codes = tm.words[lane, column % COLUMNS][:, None] >> shift & np.uint32(255)
        return np.repeat(TABLES[w.scale][codes], w.k // per, axis=1)


class _Accumulator:
    """One CTA's part of D in its tensor memory."""

    def __init__(self, task: TensorProduct, cta: CTA) -> None:
        self.task, self.cta, self.tm = task, cta, cta.tensor_memory
        self.column = task.d & 0xFFFF
        self.rows: Index
        if task.halved:
            self.rows, width = slice(0, LANES), task.descriptor.n // 2
        else:
            full = task.rows == 128
            self.rows, width = slice(0, LANES) if full else sparse_rows(task.rows, task.d), task.descriptor.n
        self.end = self.column + width
        self.cols = slice(self.column, self.end)

    def add(self, product: np.ndarray) -> None:
        """Add the product of B and this CTA's rows of A to tensor memory."""
        task, origin = self.task, self.task.origin
        if task.halved:
            half = task.descriptor.n // 2
            product = np.concatenate([product[:, :half], product[:, half:]])
        check_columns(origin.fragment, origin.at, self.tm, self.column, self.end, "tcgen05.mma writes")
        if self.end > COLUMNS:
            return
        if task.accumulate and self.tm.unwritten(self.rows, self.cols):
            what = f"accumulates onto columns {self.column} to {self.end}, which nobody wrote"
            origin.report("uninitialised", f"tcgen05.mma {what}")
        old = self.tm.words[self.rows, self.cols]
        new = self._sum(old, product)
        if task.disabled is not None:
            new = np.where(self._kept_rows(task.disabled)[:, None], old, new)
        self.tm.write(self.rows, self.cols, new)
        rows, cols = np.arange(LANES)[self.rows], np.arange(self.column, self.end)
        origin.cluster.observer.tmem_worked(origin, self.tm, rows[:, None], cols[None, :], True)

    def _sum(self, old: np.ndarray, product: np.ndarray) -> np.ndarray:
        """Return the words of old plus product in the accumulator's format."""
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

    def _kept_rows(self, words: list[int]) -> np.ndarray:
        """Return the rows of D that a disable mask keeps (even CTA: first half)."""
        if self.task.form.group == 2:
            words = words[:4] if self.cta.rank % 2 == 0 else words[4:]
        keep = np.unpackbits(np.array(words, "<u4").view(np.uint8), bitorder="little")[:LANES].astype(bool)
        return keep[self.rows]


def sparse_rows(m: int, address: int) -> np.ndarray:
    """Return the lanes of a 64-row matrix: 16 per quarter."""
    rows = np.arange(m)
    return rows % 16 + rows // 16 * 32 + (address >> 16 & 16)
