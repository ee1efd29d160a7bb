"""Tensors after a run: comparison with expected values, and saving to files."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .call import Call
from .elements import Misuse
from .specs import file_part
from .tensors import HostTensor, load_array


@dataclass(frozen=True, slots=True)
class Expectation:
    """Expected values of a tensor; allowed difference: tolerance * (1 + |expected|)."""

    tensor: HostTensor
    values: np.ndarray
    source: str
    tolerance: float


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference between a tensor and its expected values; `at` is the worst wrong element."""

    tensor: str
    source: str
    tolerance: float
    wrong: int
    elements: int
    greatest: float
    at: tuple[int, ...] | None
    got: float | None
    wanted: float | None

    def __str__(self) -> str:
        against = f"{self.tensor} against {self.source}, tolerance {self.tolerance:g}"
        if not self.wrong:
            return f"{against}: all {self.elements} elements agree, the greatest difference is {self.greatest:.3g}"
        worst = f"the worst at {list(self.at or ())}: {self.got:.6g}, expected {self.wanted:.6g}"
        return f"{against}: {self.wrong} of {self.elements} elements are wrong, {worst}"


def compare(expected: Expectation) -> Difference:
    """Compare a tensor with expected values; NaN and each infinity equal only themselves."""
    got, expected_values = (x.astype(np.float64) for x in (expected.tensor.values(), expected.values))
    with np.errstate(invalid="ignore"):
        equal = (got == expected_values) | (np.isnan(got) & np.isnan(expected_values))
        distance = np.where(equal, 0.0, np.abs(got - expected_values))
        distance = np.where(np.isnan(distance), np.inf, distance)
        wrong = distance > expected.tolerance * (1 + np.abs(np.where(np.isfinite(expected_values), expected_values, 0)))
    name, source, tolerance = expected.tensor.name, expected.source, expected.tolerance
    greatest = float(distance.max(initial=0))
    if not wrong.any():
        return Difference(name, source, tolerance, 0, wrong.size, greatest, None, None, None)
    at = np.unravel_index(int(np.where(wrong, distance, -1).argmax()), wrong.shape)
    index = tuple(int(x) for x in at)
    return Difference(
        name,
        source,
        tolerance,
        int(wrong.sum()),
        wrong.size,
        greatest,
        index,
        float(got[at]),
        float(expected_values[at]),
    )


def expectations(texts: list[str], tolerance: float, call: Call) -> list[Expectation]:
    """Return the comparisons that --expect requests. Raises Misuse."""
    if not tolerance >= 0:
        raise Misuse(f"--tolerance {tolerance:g}: expected zero or more")
    out = []
    for text in texts:
        name, _, file = text.partition("=") if "=" in text else (call.last or "", "", text)
        what, part = f"--expect {text}", file_part(file)
        if part is None:
            raise Misuse(f"{what}: expected [NAME=]FILE with a .npy, .npz, .pt or .pth file")
        tensor, values = call.tensor(name, what), load_array(part, what)
        if values.shape != tensor.shape:
            raise Misuse(f"{what}: {list(values.shape)} is not the shape of {name}, {tensor}")
        out.append(Expectation(tensor, values, str(part.path), tolerance))
    return out


def targets(texts: list[str], call: Call) -> list[tuple[HostTensor, Path]]:
    """Return the tensors and files that --save names. Raises Misuse."""
    out = []
    for text in texts:
        name, _, file = text.partition("=")
        if not file.endswith(".npy"):
            raise Misuse(f"--save {text}: expected NAME=FILE.npy")
        out.append((call.tensor(name, f"--save {text}"), writable(Path(file), f"--save {text}")))
    return out


def writable(path: Path, what: str) -> Path:
    """Return `path` if a file can be written to it. Raises Misuse."""
    if not path.parent.is_dir():
        raise Misuse(f"{what}: no such folder: {path.parent}")
    if path.is_dir():
        raise Misuse(f"{what}: {path} is a folder; expected a file")
    if not os.access(path.parent, os.W_OK):
        raise Misuse(f"{what}: no write permission for the folder {path.parent}")
    return path


def save(tensor: HostTensor, path: Path) -> None:
    """Write a tensor's values; types that numpy lacks become float32."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with partial.open("wb") as file:
            np.save(file, tensor.values())
        partial.replace(path)
    except OSError as error:
        raise Misuse(f"--save {tensor.name}={path}: {error.strerror}") from None
