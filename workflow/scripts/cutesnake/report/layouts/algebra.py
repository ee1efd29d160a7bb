"""CuTe's layout algebra for static layouts: composition, complement, divisions and swizzles.

A layout is a shape and a stride of equal nesting. It maps an index or a coordinate to an offset, the first mode
fastest. Definitions: CUTLASS documentation, «CuTe Layout Algebra».
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

IntTuple: TypeAlias = "int | tuple[IntTuple, ...]"


@dataclass(frozen=True)
class Layout:
    """Layout shape:stride; raise ValueError for different nesting or an extent below 1."""

    shape: IntTuple
    stride: IntTuple

    def __post_init__(self) -> None:
        if _profile(self.shape) != _profile(self.stride):
            raise ValueError(f"shape {self.shape} and stride {self.stride} have different nesting")
        if min(flat(self.shape), default=0) < 1:
            raise ValueError(f"shape {self.shape}: extents must be integers of at least 1")

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(flat(self.shape))

    @property
    def cosize(self) -> int:
        """One more than the largest offset."""
        return 1 + sum((n - 1) * d for n, d in zip(flat(self.shape), flat(self.stride), strict=True))

    @property
    def modes(self) -> list[Layout]:
        """Top-level modes as layouts."""
        if isinstance(self.shape, int):
            return [self]
        assert isinstance(self.stride, tuple)
        return [Layout(n, d) for n, d in zip(self.shape, self.stride, strict=True)]

    def __call__(self, *coordinate: IntTuple) -> int:
        """Return the offset of an index, or of a coordinate with an entry per mode."""
        return _offset(coordinate[0] if len(coordinate) == 1 else coordinate, self.shape, self.stride)

    def __str__(self) -> str:
        return f"{_text(self.shape)}:{_text(self.stride)}"


@dataclass(frozen=True)
class Swizzle:
    """S<bits,base,shift>: XOR `bits` bits from `base` on with the bits `shift` above."""

    bits: int
    base: int
    shift: int

    def __call__(self, offset: int) -> int:
        """Return the swizzled offset."""
        mask = ((1 << self.bits) - 1) << (self.base + self.shift)
        return offset ^ (offset & mask) >> self.shift

    def __str__(self) -> str:
        return f"S<{self.bits},{self.base},{self.shift}>"


def flat(value: IntTuple) -> list[int]:
    """Return the numbers of a nested tuple in order."""
    return [value] if isinstance(value, int) else [leaf for part in value for leaf in flat(part)]


def _profile(value: IntTuple) -> object:
    if not isinstance(value, int | tuple):
        raise ValueError(f"{value!r} is not part of a static layout; expected integers in brackets")
    return None if isinstance(value, int) else tuple(_profile(part) for part in value)


def _text(value: IntTuple) -> str:
    return str(value) if isinstance(value, int) else f"({','.join(map(_text, value))})"


def _offset(coordinate: IntTuple, shape: IntTuple, stride: IntTuple) -> int:
    if isinstance(shape, int):
        if not isinstance(coordinate, int) or not isinstance(stride, int):
            raise ValueError(f"coordinate {coordinate} for a mode of shape {shape}")
        return coordinate * stride
    assert isinstance(stride, tuple)
    if isinstance(coordinate, int):
        split = []
        for part in shape:
            size = math.prod(flat(part))
            split.append(coordinate % size)
            coordinate //= size
        coordinate = tuple(split)
    if len(coordinate) != len(shape):
        raise ValueError(f"coordinate {coordinate} has {len(coordinate)} entries, the layout {len(shape)} modes")
    return sum(_offset(c, n, d) for c, n, d in zip(coordinate, shape, stride, strict=True))


def parse(text: str) -> Layout:
    """Parse a layout as the DSL prints it, such as «(4,(2,2)):(1,(4,8))».

    A tile of layouts, «[16:1;128:1]», becomes one layout with a mode per part. Raises ValueError for text that is not
    static.
    """
    text = text.strip().strip('"')
    if text.startswith("["):
        parts = [parse(part) for part in text[1:-1].split(";")]
        return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
    shape, colon, stride = text.partition(":")
    try:
        shape_and_stride = ast.literal_eval(shape), ast.literal_eval(stride)
    except (SyntaxError, ValueError):
        colon = ""
    if not colon:
        raise ValueError(f"{text!r} is no static layout; expected shape:stride, such as (4,8):(8,1)")
    return Layout(*shape_and_stride)


def make_layout(shape: IntTuple) -> Layout:
    """Return the compact layout with the first mode fastest."""
    return _ordered(shape, list(range(len(flat(shape)))))


def make_ordered_layout(shape: IntTuple, order: Sequence[int]) -> Layout:
    """Return the compact layout with the mode of order 0 fastest."""
    return _ordered(shape, list(order))


def _ordered(shape: IntTuple, order: list[int]) -> Layout:
    sizes, strides, step = flat(shape), [0] * len(order), 1
    for place in sorted(range(len(order)), key=lambda place: order[place]):
        strides[place] = step
        step *= sizes[place]
    return Layout(shape, _like(shape, iter(strides)))


def _like(shape: IntTuple, values: Iterator[int]) -> IntTuple:
    return next(values) if isinstance(shape, int) else tuple(_like(part, values) for part in shape)


def coalesce(layout: Layout) -> Layout:
    """Return an equal layout function with the fewest modes."""
    shape, stride = [1], [0]
    for n, d in zip(flat(layout.shape), flat(layout.stride), strict=True):
        if n == 1:
            continue
        if shape[-1] == 1:
            shape[-1], stride[-1] = n, d
        elif shape[-1] * stride[-1] == d:
            shape[-1] *= n
        else:
            shape.append(n)
            stride.append(d)
    return Layout(shape[0], stride[0]) if len(shape) == 1 else Layout(tuple(shape), tuple(stride))


def composition(a: Layout, b: Layout) -> Layout:
    """Return R(c) = A(B(c)); ValueError where B's stride does not divide A's shape."""
    if not isinstance(b.shape, int):
        parts = [composition(a, mode) for mode in b.modes]
        return Layout(tuple(p.shape for p in parts), tuple(p.stride for p in parts))
    assert isinstance(b.stride, int)
    return _pick(coalesce(a), b.shape, b.stride)


def _pick(a: Layout, size: int, step: int) -> Layout:
    """Return A at every `step`-th index, `size` of them."""
    shape, stride, sizes, strides = [], [], flat(a.shape), flat(a.stride)
    for place, (n, d) in enumerate(zip(sizes, strides, strict=True)):
        if place == len(sizes) - 1:
            shape.append(size)
            stride.append(d * step)
            size = 1
            break
        if n % step and step % n:
            raise ValueError(f"a step of {step} does not fit a mode of {n} in {a}")
        left = -(-n // step)
        taken = min(left, size)
        if size % taken:
            raise ValueError(f"{size} elements do not fit modes of {left} in {a}")
        if taken > 1:
            shape.append(taken)
            stride.append(d * step)
        size //= taken
        step = -(-step // n)
        if size == 1:
            break
    picked = coalesce(Layout(tuple(shape), tuple(stride))) if shape else Layout(1, 0)
    return picked


def complement(layout: Layout, size: int) -> Layout:
    """Return the layout of the offsets below `size` that `layout` leaves out."""
    pairs = sorted((d, n) for n, d in zip(flat(layout.shape), flat(layout.stride), strict=True) if n > 1 and d)
    shape, stride, at = [], [], 1
    for d, n in pairs:
        if d % at:
            raise ValueError(f"{layout} has no complement: stride {d} overlaps")
        shape.append(d // at)
        stride.append(at)
        at = d * n
    shape.append(-(-size // at))
    stride.append(at)
    return coalesce(Layout(tuple(shape), tuple(stride)))


def logical_divide(layout: Layout, tiler: Layout) -> Layout:
    """Return ((tile), (rest)) of a one-mode layout."""
    rest = complement(tiler, layout.size)
    return composition(layout, Layout((tiler.shape, rest.shape), (tiler.stride, rest.stride)))


def zipped_divide(layout: Layout, tiler: Sequence[Layout | int]) -> Layout:
    """Return ((tile per mode), (rest per mode)): offsets in a tile, then tiles."""
    tilers = [Layout(t, 1) if isinstance(t, int) else t for t in tiler]
    parts = [logical_divide(mode, t) for mode, t in zip(layout.modes, tilers, strict=True)]
    tiles, rest = [p.modes[0] for p in parts], [p.modes[1] for p in parts]
    return Layout(
        (tuple(t.shape for t in tiles), tuple(r.shape for r in rest)),
        (tuple(t.stride for t in tiles), tuple(r.stride for r in rest)),
    )


def make_layout_tv(threads: Layout, values: Layout) -> tuple[tuple[int, ...], Layout]:
    """Return (tiler, thread-value layout) as `cute.make_layout_tv` does.

    The layout maps (thread, value) to the column-major offset in the tile. threads, values: layouts with equal numbers
    of modes; a thread's values are adjacent in the tile.
    """
    tiler = tuple(t.size * v.size for t, v in zip(threads.modes, values.modes, strict=True))
    steps = [math.prod(tiler[:mode]) for mode in range(len(tiler))]
    thread = _inverse(threads, [step * v.size for step, v in zip(steps, values.modes, strict=True)])
    value = _inverse(values, steps)
    return tiler, Layout((thread.shape, value.shape), (thread.stride, value.stride))


def _inverse(layout: Layout, steps: Sequence[int]) -> Layout:
    """Return the layout from a compact layout's numbers to offsets, `steps` apart per mode."""
    sizes, strides = flat(layout.shape), flat(layout.stride)
    inner: list[int] = []
    for mode, step in zip(layout.modes, steps, strict=True):
        for n in flat(mode.shape):
            inner.append(step)
            step *= n
    order = sorted(range(len(sizes)), key=lambda place: strides[place])
    return Layout(tuple(sizes[p] for p in order), tuple(inner[p] for p in order))
