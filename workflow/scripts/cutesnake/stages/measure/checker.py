"""Checks of one computed result: error against a reference, poison, guard bands, inputs left alone.

Works on any operator whose inputs and outputs are dataclasses of tensors, on any torch device. Rows are the last
dimension of a tensor: for attention one head's vector of one request, so that one wrong head cannot hide in the norm
of a large batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

GUARD_BYTES = 1 << 16  # on each side of a tensor; a multiple of every alignment that a kernel may ask for
POISON = 0xFF  # as bytes: NaN in fp32, fp16, bf16 and both fp8 formats, -1 in integers
SLACK = 2.0  # allowed error, in errors of the same computation done by PyTorch in the workload's dtype


class GuardError(RuntimeError):
    """Memory outside a tensor, or an input, was written."""


@dataclass(frozen=True)
class FieldError:
    """How one output differs from its reference. Errors are norms relative to the reference's norm."""

    relative_error: float
    same_precision_error: float
    limit: float
    worst_absolute_error: float
    worst_index: tuple[int, ...]
    worst_row_error: float
    row_limit: float
    unwritten: int  # elements that are NaN where the reference is not

    @property
    def passed(self) -> bool:
        """Return whether all errors are within their limits."""
        return self.unwritten == 0 and self.relative_error <= self.limit and self.worst_row_error <= self.row_limit

    def as_dict(self) -> dict[str, Any]:
        """Return the errors as JSON-like data."""
        plain = {**dataclasses.asdict(self), "worst_index": list(self.worst_index), "passed": self.passed}
        # JSON has no NaN and no infinity: null says that there is no number
        return {key: None if isinstance(value, float) and not _finite(value) else value for key, value in plain.items()}


def _finite(value: float) -> bool:
    return value == value and abs(value) != float("inf")


def tensors(group: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Name and value of the fields of a dataclass that are tensors."""
    for field in dataclasses.fields(group):
        value = getattr(group, field.name)
        if hasattr(value, "data_ptr"):
            yield field.name, value


class Guarded:
    """Copy a dataclass of tensors, each between two patterned bands in its buffer.

    `values` is the copy; its tensors are contiguous and 256-byte aligned. Other fields are carried over.
    """

    def __init__(self, group: Any) -> None:
        import torch

        self._buffers: dict[str, torch.Tensor] = {}
        replaced = {}
        for name, tensor in tensors(group):
            size = tensor.numel() * tensor.element_size()
            padded = -(-size // 256) * 256  # the band behind starts at the last byte; the rest keeps alignment
            buffer = torch.empty(padded + 2 * GUARD_BYTES, dtype=torch.uint8, device=tensor.device)
            buffer.fill_(POISON)
            self._buffers[name] = buffer
            inside = buffer[GUARD_BYTES : GUARD_BYTES + size]
            replaced[name] = inside.view(tensor.dtype).view(tensor.shape)
            replaced[name].copy_(tensor)
        self.values = dataclasses.replace(group, **replaced)

    def poison(self) -> None:
        """Fill every tensor with NaN (integers with -1), so that what is not written shows."""
        import torch

        for _, tensor in tensors(self.values):
            tensor.view(torch.uint8).fill_(POISON)

    def fits(self, group: Any) -> bool:
        """Whether `assign` would take the tensors of `group`: the same shapes and dtypes."""
        pairs = zip(tensors(self.values), tensors(group), strict=True)
        return all(mine.shape == new.shape and mine.dtype == new.dtype for (_, mine), (_, new) in pairs)

    def assign(self, group: Any) -> None:
        """Copy new values into the same memory; ValueError if shapes or dtypes differ."""
        for field in dataclasses.fields(group):
            new, old = getattr(group, field.name), getattr(self.values, field.name)
            if not hasattr(old, "data_ptr"):
                if new != old:
                    raise ValueError(f"{field.name} is {new!r} but was bound as {old!r}")
            elif new.shape != old.shape or new.dtype != old.dtype:
                raise ValueError(
                    f"{field.name} is {new.dtype} {tuple(new.shape)}, bound as {old.dtype} {tuple(old.shape)}"
                )
            else:
                old.copy_(new)

    def check_bands(self, what: str) -> None:
        """Raise GuardError if a byte before or after a tensor changed."""
        for name, tensor in tensors(self.values):
            size = tensor.numel() * tensor.element_size()
            buffer = self._buffers[name]
            for band, where in ((buffer[:GUARD_BYTES], "before"), (buffer[GUARD_BYTES + size :], "behind")):
                changed = int((band != POISON).sum())
                if changed:
                    raise GuardError(f"{changed} bytes {where} {what} {name} were overwritten")

    def check_same(self, group: Any, what: str) -> None:
        """Raise GuardError if a tensor no longer holds the values of `group` bit for bit."""
        import torch

        for (name, mine), (_, theirs) in zip(tensors(self.values), tensors(group), strict=True):
            if not torch.equal(mine.view(torch.uint8), theirs.contiguous().view(torch.uint8)):
                raise GuardError(f"the {what} {name} was changed by the kernel")


def snapshot(group: Any) -> dict[str, torch.Tensor]:
    """Return copies of all tensors of a dataclass."""
    return {name: tensor.clone() for name, tensor in tensors(group)}


def equal_bits(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    """Whether two snapshots agree bit for bit (two NaN of one pattern agree)."""
    import torch

    return all(torch.equal(one[name].view(torch.uint8), other[name].view(torch.uint8)) for name in one)


def compare_field(
    computed: torch.Tensor, reference: torch.Tensor, same_precision: torch.Tensor, tolerance: float
) -> FieldError:
    """Return the errors of one output and their limits.

    The limit is the larger of SLACK errors of PyTorch's own computation in that precision and of the dtype's tolerance,
    for the whole tensor and for its worst row.

    Equal infinities are equal, and any other value is infinitely far from an infinite one. Norms of the reference are
    of its finite values.
    """
    import torch

    result, true, same = (t.detach().to(torch.float32) for t in (computed, reference, same_precision))
    difference, same_difference = _distance(result, true), _distance(same, true)
    unwritten = int((result.isnan() & ~true.isnan()).sum())
    true = torch.where(true.isinf(), 0.0, true)
    worst = int(torch.nan_to_num(difference, nan=torch.inf).argmax())
    same_error = _norm_ratio(same_difference, true)
    same_row = _worst_row(same_difference, true)
    return FieldError(
        relative_error=_norm_ratio(difference, true),
        same_precision_error=same_error,
        limit=max(SLACK * same_error, tolerance),
        worst_absolute_error=float(difference.flatten()[worst]),
        worst_index=_unravel(worst, tuple(difference.shape)),
        worst_row_error=_worst_row(difference, true),
        row_limit=SLACK * max(same_row, tolerance),
        unwritten=unwritten,
    )


def _distance(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.where(one == other, 0.0, (one - other).abs())


def _unravel(position: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Index of a position in a row-major tensor (torch.unravel_index imports sympy, which takes seconds)."""
    index = []
    for extent in reversed(shape):
        position, coordinate = divmod(position, extent)
        index.append(coordinate)
    return tuple(reversed(index))


def _norm_ratio(difference: torch.Tensor, true: torch.Tensor) -> float:
    """Return the float64 norm of the difference over the true, 1 if 0."""
    import torch

    size = float(torch.linalg.vector_norm(true, dtype=torch.float64))
    return float(torch.linalg.vector_norm(difference, dtype=torch.float64)) / (size or 1.0)


def _worst_row(difference: torch.Tensor, true: torch.Tensor) -> float:
    """Return the largest norm ratio over rows; tiny rows use a tenth of the typical."""
    import torch

    sizes = torch.linalg.vector_norm(true, dim=-1)
    floor = 0.1 * sizes.mean() if sizes.numel() else sizes
    sizes = torch.maximum(sizes, floor)
    sizes = torch.where(sizes > 0, sizes, torch.ones_like(sizes))
    ratios = torch.linalg.vector_norm(difference, dim=-1) / sizes
    return float(torch.nan_to_num(ratios, nan=torch.inf).max())


def compare_outputs(computed: Any, reference: Any, same_precision: Any, tolerance: float) -> dict[str, FieldError]:
    """`compare_field` for every output of an operator, in the order of its dataclass."""
    return {
        name: compare_field(value, getattr(reference, name), getattr(same_precision, name), tolerance)
        for name, value in tensors(computed)
    }
