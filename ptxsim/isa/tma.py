"""TMA loads, stores and reductions: cp.async.bulk.tensor (PTX ISA 9.7.9.27).

Every copy is a task that the schedule runs at any time; a wait that needs it runs it at the latest.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.barriers import MBarrier
from ..core.cta import CTA
from ..core.warp import Address, Fragment
from ..core.work import Kind, Origin, Task
from ..frontend.registry import runtime
from ..frontend.syntax import PtxError
from ..memory.address import PARAM_WINDOW, WINDOW_SHIFT, WINDOWS, SharedAddress, ranks_of
from ..memory.bulk_store import Store, combine
from ..memory.global_memory import Part
from ..memory.tensor_map import TensorMap, decode, gather_box, last_byte, region, scatter_box, strided, window
from .tensor_map import check_map

Coordinates = tuple[int, ...]  # of a box's first element, innermost first
StoreOperands = tuple[int, int, Coordinates]  # shared address of the box, address of the descriptor, coordinates


class Target(NamedTuple):
    """The target of a load: a CTA, and the mbarrier that counts its bytes."""

    cta: CTA
    bar: MBarrier


@dataclass(frozen=True, slots=True)
class TensorLoad:
    """cp.async.bulk.tensor to shared memory; `pair` (cta_group::2) may signal the peer CTA."""

    at: int
    pair: bool


@dataclass(frozen=True, slots=True)
class TensorStore:
    """cp(.reduce).async.bulk.tensor from shared to global memory; `op` "" stores."""

    at: int
    op: str


@dataclass(slots=True, eq=False)
class BoxLoad(Task):
    """A load of one box to one CTA, or by multicast to several."""

    origin: Origin
    tensor: TensorMap
    corner: Coordinates
    offset: int
    targets: list[Target]
    kind: Kind = "copy"

    @property
    def label(self) -> str:
        return f"TMA load, line {self.origin.line}"

    def brings(self, cta: CTA, offset: int) -> bool:
        targeted = any(target is cta for target, _ in self.targets)
        return targeted and self.offset <= offset < self.offset + self.tensor.transaction_bytes

    def run(self) -> None:
        box = fetch_box(self.origin, self.tensor, self.corner)
        end = self.offset + box.size
        for cta, bar in self.targets:
            scatter_box(cta.shared, self.tensor, self.offset, box)
            self.origin.cluster.observer.shared_copied(cta, self.offset, end, self.origin, bar)
            bar.complete_tx(self.tensor.transaction_bytes, self.origin.at)


@dataclass(slots=True, eq=False)
class BoxStore(Store):
    """A store of one box from shared to global memory."""

    tensor: TensorMap
    corner: Coordinates
    offset: int
    op: str

    @property
    def label(self) -> str:
        return f"TMA store, line {self.origin.line}"

    def read(self) -> np.ndarray:
        cta = self.origin.cta
        end = self.offset + self.tensor.box_bytes
        self.origin.cluster.observer.shared_stored(cta, self.offset, end, self.origin)
        return gather_box(cta.shared, self.tensor, self.offset)

    def write(self, data: np.ndarray) -> None:
        put_box(self.origin, self.tensor, self.corner, data, self.op, len(self.threads))


def _signed(values: list[int]) -> list[int]:
    return [v - (1 << 32) if v >> 31 & 1 else v for v in values]


def _corners(f: Fragment, coords: tuple[np.ndarray, ...]) -> list[Coordinates]:
    """Return the box coordinates of each active lane."""
    return list(zip(*(_signed(f.values(c)) for c in coords), strict=True))


def tensor_map(f: Fragment, at: int, address: int) -> TensorMap | None:
    """Return the TMA descriptor at a generic, global or parameter address, or PtxError."""
    machine = f.machine
    if machine.changed_maps:
        check_map(f, at, address)
    if address >> WINDOW_SHIFT == WINDOWS["param"]:
        raw = f.cta.launch.params[address - PARAM_WINDOW : address - PARAM_WINDOW + 128]
    else:
        allocation = machine.memory.find(address, 128)
        raw = b"" if allocation is None else allocation.span(address, 128).tobytes()
    if len(raw) < 64:
        f.report(at, "out-of-bounds", f"no TMA descriptor at {address:#x}")
        return None
    try:
        return decode(bytes(raw))
    except ValueError as error:
        raise PtxError(f"kernel {f.cta.launch.name[:80]}: {error}") from None


def _aligned_start(f: Fragment, at: int, tensor: TensorMap, corner: Coordinates) -> bool:
    """Return whether a box begins at 16 bytes of its row, as an H200 requires."""
    byte = corner[0] * tensor.bits // 8
    if byte % 16 == 0:
        return True
    f.report(at, "misaligned", f"a TMA box at {corner} begins at byte {byte} of its row: no multiple of 16")
    return False


def _check_shared_box(f: Fragment, at: int, tensor: TensorMap, offset: int, verb: str, multiple: int) -> bool:
    """Return whether a box fits into shared memory at a sufficiently aligned offset."""
    cta = f.cta
    if offset >= 0 and offset + tensor.box_bytes <= cta.shared_bytes and offset % multiple == 0:
        return True
    kind = "misaligned" if offset % 128 else "out-of-bounds"
    where = f"{'to' if verb == 'load' else 'from'} shared offset {offset} of {cta.shared_bytes}"
    f.report(at, kind, f"a TMA {verb} of {tensor.box_bytes} bytes {where}")
    return False


@runtime
def tma_load(
    f: Fragment,
    spec: TensorLoad,
    to: Address,
    tensor: Address,
    coords: tuple[np.ndarray, ...],
    bar: Address,
    mask: np.ndarray | None,
) -> None:
    masks: list[int | None] = [None] * f.count if mask is None else [*f.values(mask)]
    operands = [*zip(f.addresses(to), f.addresses(tensor), _corners(f, coords), f.addresses(bar), masks, strict=True)]
    f.report_repeats(spec.at, "copy", operands)
    for lane, (shared_address, descriptor, corner, signal, bits) in zip(f.lanes(), operands, strict=True):
        decoded = tensor_map(f, spec.at, descriptor)
        if decoded is None:
            continue
        if len(decoded.sizes) != len(corner):
            what = f"{len(corner)} coordinates for a tensor map of rank {len(decoded.sizes)}"
            f.report(spec.at, "out-of-bounds", what)
            continue
        _begin_load(
            f, spec, decoded, corner, SharedAddress.of(shared_address), SharedAddress.of(signal), bits, int(lane)
        )


def _begin_load(
    f: Fragment,
    spec: TensorLoad,
    tensor: TensorMap,
    corner: Coordinates,
    to: SharedAddress,
    signal: SharedAddress,
    mask: int | None,
    lane: int,
) -> None:
    """Queue one load, if its addresses are valid."""
    cluster = f.cta.cluster
    f.machine.counts.tma_instructions += 1
    f.machine.counts.tma_bytes += tensor.box_bytes
    origin = f.issue(spec.at, f.warp_of(lane))
    targets = _targets(f, spec, to, signal, mask)
    multiple = 128 if tensor.swizzle or len(tensor.sizes) > 1 else 16
    if not _check_shared_box(f, spec.at, tensor, to.offset, "load", multiple):
        return
    if not _aligned_start(f, spec.at, tensor, corner):
        return
    if mask is not None and f.machine.memory.find(tensor.address) is None:
        where = f"a multicast load by a tensor map that begins at {tensor.address:#x}"
        f.report(spec.at, "out-of-bounds", f"{where}, where no memory is: an H200 touches that, whatever box is loaded")
        return
    for target in targets:
        cluster.observer.copy_expected(target.bar, origin, target.cta)
    cluster.post(cluster.pipes.own(f.cta.rank), BoxLoad(origin, tensor, corner, to.offset, targets))


def _targets(f: Fragment, spec: TensorLoad, to: SharedAddress, signal: SharedAddress, mask: int | None) -> list[Target]:
    """Return the targets of a load; a multicast signals each CTA's mbarrier at one offset.

    With cta_group::2 the signalled CTA is the one of the pair whose parity the address names.
    """
    out = []
    for rank in [to.rank] if mask is None else ranks_of(mask):
        if mask is None:
            bar_rank = signal.rank
        else:
            bar_rank = (rank & ~1) | (signal.rank & 1) if spec.pair else rank
        target, bar = f.cta.peer(rank), f.cta.mbarrier(signal.at(bar_rank))
        if target is None or bar is None:
            missing = f"mbarrier at shared address {signal.raw:#x} of CTA rank {bar_rank}"
            what = f"CTA rank {rank}" if target is None else missing
            f.report(spec.at, "barrier", f"a TMA load names {what}, which does not exist")
        else:
            out.append(Target(target, bar))
    return out


def fetch_box(origin: Origin, tensor: TensorMap, corner: Coordinates) -> np.ndarray:
    """Return a box as bytes in linear order, with zeros outside the tensor."""
    machine = origin.machine
    box = np.zeros(tensor.box_shape, np.uint8)
    inside = window(tensor, corner)
    if inside is None:
        _check_corner(origin, tensor, corner)
    else:
        start, end = last_byte(tensor, inside)
        allocation = machine.memory.find(start, end - start)
        if allocation is None:
            where = machine.memory.location(start, end - start)
            origin.report("out-of-bounds", f"a TMA box at {corner} reads bytes {start:#x} to {end:#x}: {where}")
        else:
            source = region(tensor, allocation.bytes, allocation.address, inside)
            machine.counts.global_read_bytes += source.size
            if allocation.read_map is not None:
                region(tensor, allocation.read_map, allocation.start, inside)[...] = 1
            part = Part(*strided(tensor, allocation.start, inside))
            origin.cluster.observer.global_copied(allocation, origin, part, write=False)
            if inside.extent == tensor.box:
                box = np.ascontiguousarray(source)
            else:
                box[inside.in_box] = source
    box = box.reshape(-1)
    if tensor.padded:
        packed = 16 * tensor.bits // 8
        wide = np.zeros((box.size // packed, 16), np.uint8)
        wide[:, :packed] = box.reshape(-1, packed)
        box = wide.reshape(-1)
    return box


@runtime
def tma_store(f: Fragment, spec: TensorStore, source: Address, tensor: Address, coords: tuple[np.ndarray, ...]) -> None:
    operands = [*zip(f.addresses(source), f.addresses(tensor), _corners(f, coords), strict=True)]
    if spec.op:
        f.report_repeats(spec.at, "reduction", operands)
        askers = [([int(lane)], request) for lane, request in zip(f.lanes(), operands, strict=True)]
    else:  # storing a box twice is harmless: in NVIDIA's kernels all lanes of a warp store it
        askers = _requesters(f, operands)
    for lanes, (shared_address, descriptor, corner) in askers:
        decoded = tensor_map(f, spec.at, descriptor)
        if decoded is None:
            continue
        if decoded.padded:
            raise PtxError(f"kernel {f.cta.launch.name[:80]}: a TMA store of elements that are padded")
        _begin_store(f, spec, decoded, corner, SharedAddress.of(shared_address).offset, lanes)


def _requesters(f: Fragment, operands: Iterable[StoreOperands]) -> list[tuple[list[int], StoreOperands]]:
    """Return the distinct stores of each warp, each with the lanes that request it."""
    lanes_by_request: dict[tuple[int, StoreOperands], list[int]] = {}
    for lane, request in zip(f.lanes(), operands, strict=True):
        lanes_by_request.setdefault((f.warp_of(lane), request), []).append(int(lane))
    return [(lanes, request) for (_, request), lanes in lanes_by_request.items()]


def _begin_store(
    f: Fragment, spec: TensorStore, tensor: TensorMap, corner: Coordinates, offset: int, lanes: list[int]
) -> None:
    """Queue one store, if its address is valid; counts include every requesting lane."""
    if not _check_shared_box(f, spec.at, tensor, offset, "store", 128):
        return
    counts = f.machine.counts
    counts.tma_instructions += len(lanes)
    counts.tma_bytes += tensor.box_bytes * len(lanes)
    if _aligned_start(f, spec.at, tensor, corner):
        origin = f.issue(spec.at, f.warp_of(lanes[0]))
        threads = tuple(lane + f.lo for lane in lanes)
        BoxStore(origin, threads, tensor, corner, offset, spec.op).begin()


def _check_corner(origin: Origin, tensor: TensorMap, corner: Coordinates) -> None:
    """Report a box that lies completely outside its tensor, if that check is enabled.

    Tiles that round a tensor up may lie outside. A dimension in which the box has one element is an index.
    """
    checks = origin.machine.checks
    extents = zip(tensor.box, corner, tensor.sizes, strict=True)
    wrong = [k for k, (box, at, size) in enumerate(extents) if box == 1 and not 0 <= at < size]
    if "outside-any" in checks or (wrong and "outside" in checks):
        which = f": its index {corner[wrong[0]]} is none of the {tensor.sizes[wrong[0]]} there are" if wrong else ""
        what = f"a TMA box of {tensor.box} elements at {corner} lies outside its tensor of {tensor.sizes}"
        origin.report("outside", f"{what} as a whole{which}; it is read as zeros")


def put_box(origin: Origin, tensor: TensorMap, corner: Coordinates, box: np.ndarray, op: str, times: int = 1) -> None:
    """Write a box to global memory except outside the tensor; count its bytes `times` times."""
    machine = origin.machine
    inside = window(tensor, corner)
    if inside is None:
        return
    start, end = last_byte(tensor, inside)
    allocation = machine.memory.find(start, end - start)
    if allocation is None:
        where = machine.memory.location(start, end - start)
        return origin.report("out-of-bounds", f"a TMA box at {corner} writes bytes {start:#x} to {end:#x}: {where}")
    target = region(tensor, allocation.bytes, allocation.address, inside)
    data = box.reshape(tensor.box_shape)[inside.in_box]
    machine.counts.global_write_bytes += data.size * times
    if allocation.write_map is not None:
        region(tensor, allocation.write_map, allocation.start, inside)[...] = 1
    part = Part(*strided(tensor, allocation.start, inside))
    origin.cluster.observer.global_copied(allocation, origin, part, write=True, combines=bool(op))
    target[...] = data if not op else combine(target, data, tensor.element, op)
