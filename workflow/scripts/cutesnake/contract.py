"""What an operator and a kernel promise, and how they are found by name.

An *operator* is a package `kernels/<operator>/` whose `operator.py` holds the only copy of its workload, inputs,
reference, cost and tolerance. A *kernel* is a module `kernels/<operator>/<kernel>.py`. Both are imported while the
workflow graph is built and on machines that have neither DSL nor torch, so at import they may only touch the standard
library and this package; device code lives in `<kernel>_kernel.py`, which only `compile` imports.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from cutesnake.places import ROOT

OURS = "ours"
INSTALLED = "installed"  # SOURCE of a kernel that a Python package of the machine brings along: see Kernel.NEEDS

Scalar = int | float | str | bool


@dataclass(frozen=True)
class Variant:
    """What is baked into one build.

    `id` names the folder of the build (letters, digits, `_`, `.` and `-` only) and is unique within a kernel and
    target; `params` are the values handed to the compiler.
    """

    id: str
    params: Mapping[str, Scalar] = field(hash=False)


@dataclass(frozen=True)
class Cost:
    """Work that a workload cannot avoid: floating-point operations, and bytes each read or written once."""

    flops: int
    bytes_read: int
    bytes_written: int

    @property
    def bytes(self) -> int:
        return self.bytes_read + self.bytes_written


class Workload(Protocol):
    """One problem size. A frozen dataclass that raises ValueError for values that make no sense."""

    dtype: str

    @property
    def id(self) -> str: ...


@dataclass(frozen=True)
class Launch:
    """One kernel launch of a bound runner, as given to the driver (threads and bytes)."""

    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_shared_bytes: int = 0


class Runner(Protocol):
    """Inputs and outputs bound to a loaded build; calling it enqueues the whole operator on `stream`.

    Everything that depends only on shapes (workspace, schedule, grid) is done before the first call, so that a call
    is launches and nothing else and may be captured in a CUDA graph. A runner may have a method `finish()` that brings
    outputs into the operator's terms (a base-2 LSE to base e, say): the checker calls it after the launches, the timing
    stage leaves it out.

    A runner whose schedule depends on what the inputs hold (lengths of requests, say) may have a method `plan(stream)`
    that makes the schedule anew, on `stream`, for the values that are on the card now. It writes the new schedule where
    the launches read it, without moving or resizing anything, so that later calls, and CUDA graphs captured before, go
    by it. The timing stage times it apart from the calls: a plan that only enqueues work is replayed as a CUDA graph;
    one that must read the lengths on the host waits for the stream itself, and its wall time counts.
    """

    launches: tuple[Launch, ...]

    def __call__(self, stream: int) -> None: ...


class Executable(Protocol):
    """A loaded build."""

    def bind(self, workload: Workload, inputs: Any, outputs: Any) -> Runner: ...


class Kernel(Protocol):
    """The contract of `kernels/<operator>/<kernel>.py`, a module with these names."""

    DSL: str  # "cute", "cutile", or what a kernel to compare with is made of: "torch", "cuda" (CUDA C++)
    TARGETS: Mapping[str, str]  # target -> hardware it needs there, in words: "tcgen05 and tensor memory"
    SOURCE: str  # OURS, INSTALLED, or the key of kernels/upstream.yaml that it comes from
    # Only where SOURCE is INSTALLED: Python packages that cases import, import name -> name of the distribution.
    NEEDS: Mapping[str, str]
    # Optional: distributions of inputs beyond what the kernel promises, and in one sentence each why. They are checked
    # and their outcome is recorded, but it fails no record.
    OUTSIDE: Mapping[str, str]

    def supports(self, workload: Workload) -> str | None:
        """None, or in one sentence why this kernel cannot compute the workload."""

    def variants(self, workload: Workload, target: str) -> tuple[Variant, ...]:
        """Candidate builds for a workload that `supports` takes, the default first."""

    def compile(self, variant: Variant, target: str, folder: Path) -> dict[str, Any]:
        """Build ahead of time, with no GPU, into an existing empty folder.

        Returns what goes into build.json beyond what the compile stage adds itself: `symbols`, `launch`, `function`,
        `compilers` (name -> version). Raises whatever the compiler raises.
        """

    def load(self, folder: Path) -> Executable:
        """Load a build on a GPU machine that has neither DSL nor compiler."""


def needs(module: Any) -> Mapping[str, str]:
    """Python packages that the cases of a kernel import, by import name; most kernels have none."""
    return getattr(module, "NEEDS", {})


def outside(module: Any) -> Mapping[str, str]:
    """Distributions beyond what a kernel promises, with the reason; most kernels have none."""
    return getattr(module, "OUTSIDE", {})


def _import(name: str) -> ModuleType:
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    return importlib.import_module(name)


def load_operator(operator: str) -> ModuleType:
    """Import `kernels/<operator>/operator.py`; ModuleNotFoundError if there is none."""
    return _import(f"kernels.{operator}.operator")


def load_kernel(operator: str, kernel: str) -> ModuleType:
    """Import `kernels/<operator>/<kernel>.py`; ModuleNotFoundError if there is none."""
    return _import(f"kernels.{operator}.{kernel}")
