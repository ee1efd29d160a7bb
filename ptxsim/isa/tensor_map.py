"""TMA descriptors changed by a kernel: tensormap.replace, cp_fenceproxy, fences (PTX ISA 9.7.9).

A copy with a changed descriptor in global memory is a race unless two conditions hold: the change was released to the
tensor-map proxy, and a thread of the copying CTA has acquired it since.
"""

from dataclasses import dataclass

import numpy as np

from ..core.warp import Address, Fragment
from ..frontend.formats import U64
from ..frontend.generator import Generator
from ..frontend.registry import emits, runtime
from ..frontend.syntax import Imm, Instruction, Operand
from ..memory.address import SHARED_WINDOW, WINDOW_SHIFT, SharedAddress
from ..memory.address_check import reach
from ..memory.global_memory import Access
from ..memory.tensor_map import ChangedMap, replace_field
from .memory import load, state_space

BYTES = 128
USED = 64  # bytes in use; the others are often unwritten
_FIELDS = {
    "global_address": False,
    "rank": False,
    "global_dim": True,
    "global_stride": True,
}  # whether the field has a dimension

_SCOPES = {"cta", "cluster", "gpu", "sys"}
_COPY = {"global", "shared::cta", "tensormap::generic", "release", "sync", "aligned"} | _SCOPES


def _map_access(g: Generator, ins: Instruction, operand: Operand, write: bool) -> tuple[str, Access]:
    """Return (addresses, access to the whole descriptor) of an operand."""
    addr, offset = g.address(operand)
    return addr, Access.of(g.at, state_space(ins), U64.dtype, BYTES // 8, offset, write=write)


@dataclass(frozen=True, slots=True)
class Replacement:
    """tensormap.replace of a field; `ordinal` is its dimension, 0 for a field without one."""

    access: Access
    field: str
    ordinal: int


@emits("tensormap.replace", results=0)
def _replace(g: Generator, ins: Instruction) -> None:
    mode, name, *_ = ins.parts[2:]
    if mode != "tile" or name not in _FIELDS:
        raise g.unknown(f".{name}")
    where, *ordinal, value = ins.operands
    addr, access = _map_access(g, ins, where, write=True)
    dimension = 0
    if _FIELDS[name]:
        if not isinstance(ordinal[0], Imm):
            raise g.fail("a dimension that is not a constant")
        dimension = int(ordinal[0].value)
    spec = g.bind(Replacement(access, name, dimension))
    g.line(f"tensormap_replace(f, {spec}, {addr}, {g.read(value, U64)})")


@runtime
def tensormap_replace(f: Fragment, spec: Replacement, addr: np.ndarray, value: np.ndarray) -> None:
    """Change the descriptor of each active lane."""
    values = np.broadcast_to(np.asarray(value), (f.n,))
    f.cta.cluster.progress += 1
    for words, index, lanes in reach(f, spec.access, addr):
        for lane, first in zip(range(f.n) if lanes is None else lanes, index, strict=True):
            replace_field(words[first : first + BYTES // 8], spec.field, spec.ordinal, int(values[lane]))
        if f.cta.cluster.observer.doubtful:
            f.cta.cluster.observer.shared_written(f.cta, False)
    for address in f.addresses((addr, spec.access.offset)):
        if address >> WINDOW_SHIFT == 0 and spec.access.space in ("global", "generic"):
            _changed(f, spec.access.at, address, released=False)


def _changed(f: Fragment, at: int, address: int, released: bool) -> None:
    machine = f.machine
    location = machine.program.instructions[at].location
    machine.changed_maps[address] = ChangedMap(f.cta.index, location, released)


@dataclass(frozen=True, slots=True)
class MapCopy:
    """tensormap.cp_fenceproxy: copy a descriptor from shared to global memory and release it."""

    at: int
    access: Access


@emits("tensormap.cp_fenceproxy", own_block=True, results=0)
def _copy(g: Generator, ins: Instruction) -> None:
    to, source, size = ins.operands
    if set(ins.parts[2:]) - _COPY or g.number(size, "a size") != BYTES:
        raise g.unknown()
    g.collective()
    addr, offset = g.address(source)
    spec = g.bind(MapCopy(g.at, Access.of(g.at, "shared", U64.dtype, USED // 8, offset)))
    g.line(f"tensormap_copy(f, {spec}, {g.address_tuple(to)}, {addr})")


@runtime
def tensormap_copy(f: Fragment, spec: MapCopy, to: Address, source: np.ndarray) -> None:
    """Copy a descriptor once per warp; all lanes name one source and one target."""
    f.cta.cluster.progress += 1
    data = load(f, spec.access, source & np.uint64(SHARED_WINDOW - 1) if source.dtype.itemsize == 8 else source)
    addresses, offset = f.addresses(to), SharedAddress.of(f.address((source, spec.access.offset))).offset
    for lanes in f.lanes_by_warp(f.lanes()).values():
        address = addresses[int(np.searchsorted(f.lanes(), lanes[0]))]
        target = f.machine.write_global(address, BYTES)
        if target is None or address % BYTES or offset % BYTES or not 0 <= offset <= f.cta.shared_bytes - BYTES:
            where = f.machine.memory.location(address)
            f.report(spec.at, "misaligned" if target is not None else "out-of-bounds", f"a tensor map to {where}")
            continue
        f.cta.cluster.observer.descriptor_copied(f, spec.at, np.array(lanes), offset)
        target[:USED] = np.ascontiguousarray(data[:, lanes[0]]).view(np.uint8)
        target[USED:] = f.cta.shared[offset + USED : offset + BYTES]
        _changed(f, spec.at, address, released=True)


def map_fence(g: Generator, ins: Instruction) -> None:
    """Emit fence.proxy.tensormap::generic: .release of this CTA's changes, .acquire of a descriptor."""
    if "acquire" in ins.parts:
        g.line(f"tensormap_acquire(f, {g.address_tuple(ins.operands[0])})")
    if "release" in ins.parts:
        g.line("tensormap_release(f)")


@runtime
def tensormap_acquire(f: Fragment, operand: Address) -> None:
    for address in f.addresses(operand):
        changed = f.machine.changed_maps.get(address)
        if changed is not None:
            changed.acquired.add(f.cta.index)


@runtime
def tensormap_release(f: Fragment) -> None:
    for changed in f.machine.changed_maps.values():
        if changed.cta == f.cta.index:
            changed.released = True


def check_map(f: Fragment, at: int, address: int) -> None:
    """Report a copy that may use a descriptor from before the kernel changed it."""
    machine = f.machine
    changed = machine.changed_maps.get(address)
    why = "" if changed is None else changed.unseen(f.cta.index)
    if changed is not None and why and "race" in machine.checks:
        f.report(at, "race", f"a TMA copy uses a descriptor changed at {changed.location} {why}")
