"""Parser for argument specifications such as `c=f16[128,64]:0,1=zeros`."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from ..host.linking import nearest
from .elements import ELEMENTS, Element, Misuse

FILLS = ("random", "uniform", "integers", "arange", "identity", "zeros", "ones", "nan")
FILES = (".npy", ".npz", ".pt", ".pth")
_NAME = re.compile(r"([A-Za-z_]\w*)=(?=[*\w./~-])")
_TENSOR = re.compile(
    r"(?P<pointer>\*?)(?P<type>\w+)\[(?P<shape>[^\]]*)\](?::(?P<order>[\d,]+))?(?:@(?P<strides>[-\d,]+))?"
    r"(?:%(?P<align>\d+))?(?:=(?P<fill>.+))?$"
)
_SCALAR = re.compile(r"(int|float|bool):(.*)$")


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file of values, and the entry within an archive or dictionary."""

    path: Path
    key: str | None = None


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """A tensor to make: element type (None: from the file), shape, strides, alignment, contents.

    Strides count elements, the alignment bytes. `contents` is one of FILLS, a number, a file, or names of tensors whose
    addresses it holds.
    """

    element: Element | None
    shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    align: int
    contents: str | float | FilePart | tuple[str, ...]
    pointer: bool = False


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream argument; any stream works, since launches run in order."""


@dataclass(frozen=True, slots=True)
class Spec:
    """An argument: its name if any, its text, its parsed value."""

    name: str | None
    text: str
    value: TensorSpec | Stream | int | float | bool | None = field(default=None)


def parse(text: str) -> Spec:
    """Parse an argument. Raises Misuse that names the argument and a correct form."""
    named = _NAME.match(text)
    name, rest = (named[1], text[named.end() :]) if named else (None, text)
    return Spec(name, text, _value(rest, text))


def _value(rest: str, text: str) -> TensorSpec | Stream | int | float | bool | None:
    if rest == "none":
        return None
    if rest == "stream":
        return Stream()
    scalar = _SCALAR.match(rest)
    if scalar:
        return _scalar(scalar[1], scalar[2], text)
    tensor = _TENSOR.match(rest)
    if tensor:
        return _tensor(tensor, text)
    pointer, path = rest.startswith("*"), rest.removeprefix("*")
    part = file_part(path)
    if part is not None:
        return TensorSpec(None, None, None, 0, part, pointer)
    raise Misuse(
        f"argument «{text}»: not understood; expected a tensor (f16[128,64]), a file ({', '.join(FILES)}), "
        "int:4, float:0.5, bool:true, none or stream"
    )


def _scalar(kind: str, digits: str, text: str) -> int | float | bool:
    try:
        if kind == "int":
            return int(digits, 0)
        if kind == "float":
            return float(digits)
        return {"true": True, "1": True, "false": False, "0": False}[digits.lower()]
    except (ValueError, KeyError):
        right = {"int": "int:4 or int:0x10", "float": "float:0.5", "bool": "bool:true or bool:false"}[kind]
        raise Misuse(f"argument «{text}»: «{digits}» is no {kind}; expected {right}") from None


def _tensor(m: re.Match[str], text: str) -> TensorSpec:
    element = ELEMENTS.get(m["type"])
    if element is None:
        known = ", ".join(ELEMENTS)
        raise Misuse(f"argument «{text}»: no element type {m['type']}{nearest(m['type'], ELEMENTS)}; known are {known}")
    try:
        shape = tuple(int(n) for n in m["shape"].split(",") if n.strip())
    except ValueError:
        raise Misuse(f"argument «{text}»: the shape [{m['shape']}] is not numbers between commas") from None
    if m["order"] and m["strides"]:
        raise Misuse(f"argument «{text}»: an order of dimensions (:) and strides (@) cannot both be given")
    strides = _explicit_strides(m["strides"], shape, text) if m["strides"] else _compact(m["order"], shape, text)
    align = int(m["align"] or 0)
    if align & (align - 1):
        raise Misuse(f"argument «{text}»: an alignment of {align} bytes; expected a power of two")
    return TensorSpec(element, shape, strides, align, _contents(m["fill"], text), bool(m["pointer"]))


def _explicit_strides(strides_text: str, shape: tuple[int, ...], text: str) -> tuple[int, ...]:
    strides = tuple(int(n) for n in strides_text.split(",") if n)
    if len(strides) != len(shape):
        raise Misuse(f"argument «{text}»: {len(strides)} strides for {len(shape)} dimensions")
    return strides


def _compact(order: str | None, shape: tuple[int, ...], text: str) -> tuple[int, ...]:
    """Return strides without gaps; `order` lists the dimensions, fastest first."""
    dims = [int(d) for d in order.split(",") if d] if order else list(range(len(shape)))[::-1]
    if sorted(dims) != list(range(len(shape))):
        raise Misuse(f"argument «{text}»: the order :{order} has to name each of {len(shape)} dimensions once, from 0")
    strides, step = [0] * len(shape), 1
    for d in dims:
        strides[d], step = step, step * shape[d]
    return tuple(strides)


def _contents(fill: str | None, text: str) -> str | float | FilePart | tuple[str, ...]:
    if fill is None:
        return "random"
    if fill in FILLS:
        return fill
    if fill.startswith("&"):
        return tuple(name.strip().removeprefix("&") for name in fill.split(","))
    part = file_part(fill)
    if part is not None:
        return part
    try:
        return float(int(fill, 0)) if fill[:2].lower() == "0x" else float(fill)
    except ValueError:
        raise Misuse(
            f"argument «{text}»: it cannot be filled with «{fill}»{nearest(fill, FILLS)}; expected one of "
            f"{', '.join(FILLS)}, a number, a file ({', '.join(FILES)}) or addresses (&name,…)"
        ) from None


def file_part(text: str) -> FilePart | None:
    """Parse PATH or PATH:KEY with a known file ending; return None for anything else."""
    for ending in FILES:
        if text.endswith(ending):
            return FilePart(Path(text))
        path, separator, key = text.partition(ending + ":")
        if separator and ending in (".npz", ".pt", ".pth"):
            return FilePart(Path(path + ending), key)
    return None
