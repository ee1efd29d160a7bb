"""Check values of workloads, and map element types to torch's, for operators.

Like operators and `contract.py`, this module touches only the standard library at import.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

TORCH = {  # names of element types in workloads -> attributes of torch
    "fp32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
    "fp8": "float8_e4m3fn",
    "int8": "int8",
    "int32": "int32",
}


def require_sizes(workload: object, *names: str) -> None:
    """Raise ValueError unless each named field is a whole number from 1 up."""
    for name in names:
        value = getattr(workload, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} is {value!r}; it must be a whole number from 1 up")


def require_multiple(workload: object, name: str, of: str) -> None:
    """Raise ValueError unless field `name` is a multiple of field `of`."""
    value, unit = getattr(workload, name), getattr(workload, of)
    if value % unit:
        raise ValueError(f"{name} is {value}; it must be a multiple of {of}, {unit}")


def require_choice(name: str, value: object, allowed: Iterable[str]) -> None:
    """Raise ValueError unless `value`, which the message calls `name`, is one of those allowed."""
    allowed = tuple(allowed)
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; allowed: {', '.join(allowed)}")


def differing(workload: Any, **prefixes: str) -> list[str]:
    """Return `<prefix><value>` of the named fields that are not at their defaults, for an id."""
    defaults = {field.name: field.default for field in dataclasses.fields(workload)}
    values = {name: getattr(workload, name) for name in prefixes}
    return [f"{prefixes[name]}{value}" for name, value in values.items() if value != defaults[name]]


def torch_dtype(name: str) -> torch.dtype:
    """Return torch's type of elements called `name`; KeyError for an unknown name."""
    import torch

    dtype: torch.dtype = getattr(torch, TORCH[name])
    return dtype


def poisoned(shape: tuple[int, ...], dtype: str, device: torch.device | str = "cpu") -> torch.Tensor:
    """Return a tensor of NaN, or of the smallest integer: an unwritten element cannot pass."""
    import torch

    kind = torch_dtype(dtype)
    poison = float("nan") if kind.is_floating_point else torch.iinfo(kind).min
    return torch.full(shape, poison, dtype=kind, device=device)
