"""TMA descriptors, and box copies between global and shared memory.

The 128 bytes of a descriptor are undocumented; comparing what CuTe DSL's host code writes for known tensors revealed
the fields (docs/ptxsim/model.md). Swizzling follows PTX ISA 5.5.7: an exclusive or of address bits permutes 16-byte
chunks.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

DTYPE_BITS = {0: 8, 1: 16, 2: 32, 3: 32, 4: 64, 5: 64, 6: 16, 7: 32, 8: 32, 9: 64, 10: 16, 11: 4, 12: 4, 13: 6}
DTYPE_TYPES = dict(enumerate(["u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f32", "f64", "bf16"]))


@dataclass(frozen=True)
class TensorMap:
    """A decoded descriptor: address, element bits, and sizes, byte strides and box per dimension.

    Dimensions are innermost first. swizzle is 0 to 3 (none, 32, 64, 128 bytes).
    atom is 0, 1 or 3 (16-, 32-, 64-byte chunks kept whole).
    """

    address: int
    dtype: int
    bits: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    atom: int

    def at(self, coordinates: tuple[int, ...]) -> int:
        """Return the address of an element, modulo 2^64, since a map may wrap around."""
        rest = sum(at * stride for at, stride in zip(coordinates[1:], self.strides[1:], strict=True))
        return (self.address + coordinates[0] * self.bits // 8 + rest) % (1 << 64)

    def nearest(self, corner: Iterable[int]) -> int:
        """Return the address of the element inside the tensor nearest to a box's first one.

        It is used instead of the tensor's address, which may lie outside memory if no box reaches the first elements.
        """
        return self.at(tuple(min(max(at, 0), size - 1) for at, size in zip(corner, self.sizes, strict=True)))

    @property
    def padded(self) -> bool:
        """Whether 16 elements of 4 or 6 bits are padded to 16 shared bytes."""
        return self.dtype in (12, 13)

    @property
    def element(self) -> str:
        """The PTX type of the elements in a reduction."""
        return DTYPE_TYPES[self.dtype]

    @property
    def box_shape(self) -> tuple[int, ...]:
        """A box as an array of bytes, outermost dimension first."""
        return (*self.box[:0:-1], self.inner_bytes)

    @property
    def inner_bytes(self) -> int:
        """Return bytes of a box's row in global memory."""
        return self.box[0] * self.bits // 8

    @property
    def box_bytes(self) -> int:
        """Bytes of a box in shared memory, including the padding of `padded` elements."""
        return math.prod(self.box) if self.padded else self.transaction_bytes

    @property
    def transaction_bytes(self) -> int:
        """Bytes that a load's complete_tx counts: out-of-bounds elements included, padding not.

        PTX does not specify this. NVIDIA's kernels expect it: mixed_input_fmha_decode, and CUTLASS's collectives, where
        `float_e2m1_unpacksmem_t` has four bits and the 6-bit types six.
        """
        return math.prod(self.box[1:]) * self.inner_bytes


def _bits(value: int, at: int, width: int) -> int:
    return value >> at & ((1 << width) - 1)


@lru_cache(maxsize=4096)
def decode(raw: bytes) -> TensorMap:
    """Decode a 128-byte descriptor. Raises ValueError for unknown fields."""
    v = int.from_bytes(raw[:64], "little")
    rank, dtype = _bits(v, 68, 3) + 1, _bits(v, 71, 4)
    if dtype not in DTYPE_BITS or rank > 5:
        raise ValueError(f"TMA descriptor with element type {dtype} and rank {rank}")
    sizes = tuple(_bits(v, 256 + 32 * k, 32) + 1 for k in range(rank))
    box = tuple(_bits(v, 440 + 8 * k, 8) + 1 for k in range(rank))
    if dtype == 13 and (box[0] != 128 or sizes[0] % 128 or _bits(v, 77, 2) not in (0, 3)):
        raise ValueError(
            f"TMA descriptor of 6-bit elements with a box of {box[0]}, a row of {sizes[0]} and swizzle "
            f"{_bits(v, 77, 2)}: the driver takes boxes of 128 in rows of multiples, without swizzle or over 128 bytes"
        )
    strides = [_bits(v, 96 + 32 * k, 32) | _bits(v, 224 + 4 * k, 4) << 32 for k in range(4)]
    return TensorMap(
        address=_bits(v, 0, 64),
        dtype=dtype,
        bits=DTYPE_BITS[dtype],
        sizes=sizes,
        strides=(0, *(16 * s for s in strides[: rank - 1])),
        box=box,
        swizzle=_bits(v, 77, 2),
        atom=_bits(v, 83, 2),
    )


@dataclass(slots=True)
class ChangedMap:
    """A descriptor in global memory that a kernel changed: CTA, location, visibility.

    `released`: released to the tensor-map proxy since; `acquired`: the CTAs that have acquired it.
    """

    cta: tuple[int, int, int]
    location: str
    released: bool
    acquired: set[tuple[int, int, int]] = field(default_factory=set)

    def unseen(self, cta: tuple[int, int, int]) -> str:
        """Return why a CTA's copies may still use the old descriptor, or ""."""
        if not self.released:
            return "and released by no fence.proxy.tensormap::generic.release or tensormap.cp_fenceproxy"
        return "" if cta in self.acquired else "and acquired by no fence.proxy.tensormap::generic.acquire of this CTA"


def set_bits(raw: np.ndarray, at: int, width: int, value: int) -> None:
    """Set a field of a descriptor (64-bit words); the field lies within one word."""
    word, low = divmod(at, 64)
    mask = ((1 << width) - 1) << low
    raw[word] = int(raw[word]) & ~mask & (2**64 - 1) | (value << low) & mask


def replace_field(raw: np.ndarray, name: str, ordinal: int, value: int) -> None:
    """Apply tensormap.replace to a descriptor (64-bit words); strides are in bytes."""
    if name == "global_address":
        set_bits(raw, 0, 64, value)
    elif name == "rank":
        set_bits(raw, 68, 3, value)  # the operand is the rank less one
    elif name == "global_dim":
        set_bits(raw, 256 + 32 * ordinal, 32, value - 1)
    elif name == "global_stride":
        set_bits(raw, 96 + 32 * ordinal, 32, value >> 4)
        set_bits(raw, 224 + 4 * ordinal, 4, value >> 36)
    else:
        raise ValueError(f"tensormap.replace of {name}")


@lru_cache(maxsize=4096)
def swizzled_chunks(start: int, nbytes: int, swizzle: int, atom: int) -> np.ndarray | None:
    """Return the index of each 16-byte chunk of a box; None if linear.

    Indices count from `start` rounded down to 1024 bytes. start: shared offset of the box modulo 1024.
    """
    if swizzle == 0:
        return None
    chunk = (start >> 4) + np.arange(-(-nbytes // 16))
    if atom == 0:
        mask = (1 << swizzle) - 1
        return chunk ^ (chunk >> 3 & mask)
    if atom == 1 and swizzle == 3:  # 32-byte atoms: bits 5 and 6 against bits 7 and 8
        return chunk ^ ((chunk >> 3 & 3) << 1)
    if atom == 3 and swizzle == 3:
        return chunk ^ ((chunk >> 3 & 1) << 2)
    raise ValueError(f"TMA swizzle {swizzle} with atom {atom}")


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a box inside the tensor, innermost dimension first.

    `first` are its first coordinates in the tensor, `extent` its sizes, `slices` its position in the box in elements.
    """

    first: tuple[int, ...]
    extent: tuple[int, ...]
    slices: tuple[slice, ...]
    bits: int

    @property
    def in_box(self) -> tuple[slice, ...]:
        """The position in the box as a byte array, outermost dimension first."""
        inner = self.slices[0]
        return (*self.slices[:0:-1], slice(inner.start * self.bits // 8, inner.stop * self.bits // 8))


def window(tm: TensorMap, coords: tuple[int, ...]) -> Window | None:
    """Return a box's part inside the tensor; None if it is empty."""
    slices, first, extent = [], [], []
    for c, n, b in zip(coords, tm.sizes, tm.box, strict=True):
        lo, hi = max(0, -c), min(b, n - c)
        if lo >= hi:
            return None
        slices.append(slice(lo, hi))
        first.append(c + lo)
        extent.append(hi - lo)
    return Window(tuple(first), tuple(extent), tuple(slices), tm.bits)


def region(tm: TensorMap, buffer: np.ndarray, base: int, inside: Window) -> np.ndarray:
    """Return a window as bytes, outermost dimension first, `base` being buffer[0]'s address."""
    shape, start, strides = strided(tm, base, inside)
    return np.ndarray(shape, np.uint8, buffer, start, strides)


def strided(tm: TensorMap, base: int, inside: Window) -> tuple[tuple[int, ...], int, tuple[int, ...]]:
    """Return shape, first byte from `base`, and strides of a window's byte view."""
    start, _ = last_byte(tm, inside)
    shape = (*inside.extent[:0:-1], inside.extent[0] * tm.bits // 8)
    return shape, start - base, (*tm.strides[:0:-1], 1)


def last_byte(tm: TensorMap, inside: Window) -> tuple[int, int]:
    """Return (first address, one past the last address) of a window."""
    strides = tm.strides[1:]
    start = tm.at(inside.first)
    reach = sum((n - 1) * s for n, s in zip(inside.extent[1:], strides, strict=True))
    return start, start + reach + inside.extent[0] * tm.bits // 8


def scatter_box(shared: np.ndarray, tm: TensorMap, offset: int, box: np.ndarray) -> None:
    """Write a box's bytes, in linear order, to their swizzled addresses in shared memory."""
    index = swizzled_chunks(offset % 1024, box.size, tm.swizzle, tm.atom)  # shared offset 0 is at a multiple of 1024
    if index is None:
        shared[offset : offset + box.size] = box
    else:
        chunks = shared.view(np.uint64).reshape(-1, 2)
        chunks[(offset - offset % 1024) // 16 + index] = box.view(np.uint64).reshape(-1, 2)


def gather_box(shared: np.ndarray, tm: TensorMap, offset: int) -> np.ndarray:
    """Return a box's bytes from shared memory in linear order."""
    n = tm.box_bytes
    index = swizzled_chunks(offset % 1024, n, tm.swizzle, tm.atom)
    if index is None:
        return shared[offset : offset + n].copy()
    chunks = shared.view(np.uint64).reshape(-1, 2)
    return chunks[(offset - offset % 1024) // 16 + index].view(np.uint8).reshape(-1)[:n]
