"""A kernel launch, and the layout of the kernel's variables in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..frontend.parser import Module
from ..frontend.syntax import Kernel, PtxError, Variable
from ..memory.address import RANK_SHIFT, SHARED_BASE
from ..memory.global_memory import Memory, WordViews, word_views

Dim3 = tuple[int, int, int]
PREFERRED = "attribute_11"  # cudaLaunchAttributePreferredClusterDimension
EARLY = "attribute_6"  # cudaLaunchAttributeProgrammaticStreamSerialization


makers: dict[str, Callable[..., Any]] = {}  # of Launch.from_*, by name; ptxsim.host.makers puts them here


@dataclass
class Launch:
    """One launch: kernel, grid, block and cluster dimensions, dynamic shared bytes, parameters."""

    module: Module
    kernel: Kernel
    grid: Dim3
    block: Dim3
    params: bytes
    dynamic_shared: int = 0
    cluster: Dim3 = (1, 1, 1)
    attributes: dict[str, Any] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    explicit_cluster: bool = False
    cta_memory: tuple[int, int] = (0, 0)  # private global memory of CTAs: address of the first, bytes per CTA

    @staticmethod
    def from_object(
        obj: str | Path,
        function: str,
        args: Sequence[Any],
        ptx: str | Path | Module | None = None,
        *,
        sm_count: int = 148,
        pointees: Sequence[Any] = (),
    ) -> list[Launch]:
        """Return the launches that a function of an exported CuTe DSL object makes.

        ptx: the PTX of the same compilation; default: the object's name with .ptx. The rest is as in ptxsim.capture.
        """
        launches: list[Launch] = makers["object"](obj, function, args, ptx, sm_count=sm_count, pointees=pointees)
        return launches

    @staticmethod
    def from_ptx(
        ptx: str | Path | Module,
        kernel: str | None,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        args: Sequence[Any],
        *,
        dynamic_shared: int = 0,
        cluster: tuple[int, ...] = (1, 1, 1),
        pointees: Sequence[Any] = (),
    ) -> Launch:
        """Return a launch of a kernel in PTX with explicit dimensions.

        `ptx` is a path, PTX text or a Module. The rest is as in ptxsim.launch.
        """
        options = {"dynamic_shared": dynamic_shared, "cluster": cluster, "pointees": pointees}
        launch: Launch = makers["ptx"](ptx, kernel, grid, block, args, **options)
        return launch

    @staticmethod
    def from_cubin(
        cubin: str | Path,
        kernel: str,
        grid: tuple[int, ...],
        args: Sequence[Any],
        ptx: str | Path | Module | None = None,
        *,
        pointees: Sequence[Any] = (),
        early: bool = False,
    ) -> Launch:
        """Return a launch of a kernel in a cuTile cubin.

        ptx: the PTX of the same compilation; default: the cubin's name with .ptx. The rest is as in ptxsim.tile_launch.
        """
        launch: Launch = makers["cubin"](cubin, kernel, grid, args, ptx, pointees=pointees, early=early)
        return launch

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def early(self) -> bool:
        """Whether it may begin before the previous launch ends (programmatic dependent launch)."""
        return bool(self.attributes.get(EARLY, (0,))[0])

    @property
    def preferred_cluster(self) -> Dim3:
        """The cluster dimensions that it prefers; only check "small-grid" runs them."""
        x, y, z = self.attributes.get(PREFERRED, self.cluster)
        return x, y, z

    @property
    def warps(self) -> int:
        """Warps per CTA; the last one may be partial."""
        return -(-self.threads // 32)

    @property
    def name(self) -> str:
        return self.kernel.name

    def memory_of(self, index: Dim3) -> int:
        """Return the address of a CTA's private global memory (%perctamemoryoffset), 0 without."""
        address, size = self.cta_memory
        x, y, z = index
        return address + size * (x + self.grid[0] * (y + self.grid[1] * z)) if size else 0

    def clusters(self) -> Iterator[list[Dim3]]:
        """Yield the CTA indices of each cluster in rank order, x fastest."""
        gx, gy, gz = self.grid
        cx, cy, cz = self.cluster
        for z in range(0, gz, cz):
            for y in range(0, gy, cy):
                for x in range(0, gx, cx):
                    yield [(x + i, y + j, z + k) for k in range(cz) for j in range(cy) for i in range(cx)]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A variable's or parameter's offset in its state space (global: host address)."""

    space: str
    offset: int

    def address(self, rank: int) -> int:
        """Return the address in the symbol's own space, for the CTA of a rank."""
        return (rank << RANK_SHIFT) + SHARED_BASE + self.offset if self.space == "shared" else self.offset


class Layout:
    """Offsets of a kernel's variables: static shared, then dynamic shared; local per thread."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.symbols: dict[str, Symbol] = {p.name: Symbol("param", p.offset) for p in launch.kernel.params}
        self._buffers: list[np.ndarray] = []  # of .global and .const variables, kept alive
        shared = local = 0
        dynamic: list[Variable] = []
        for var in [*launch.module.variables.values(), *launch.kernel.variables.values()]:
            if var.space == "shared" and var.size == 0:
                dynamic.append(var)
            elif var.space == "shared":
                shared = self._put(var, shared)
            elif var.space == "local":
                local = self._put(var, local)
            else:
                self._allocate(var)
        for var in dynamic:
            shared = _up(shared, max(var.align, 16))
            self.symbols[var.name] = Symbol("shared", shared)
        self.shared_bytes = max(shared + launch.dynamic_shared, 16)
        self.local_bytes = _up(local, 16)
        self.param_words = self._parameters()

    def _put(self, var: Variable, end: int) -> int:
        start = _up(end, var.align)
        self.symbols[var.name] = Symbol(var.space, start)
        return start + var.size

    def _allocate(self, var: Variable) -> None:
        buffer = np.zeros(var.size + 256, np.uint8)
        start = -buffer.ctypes.data % 256
        if var.init:
            buffer[start : start + len(var.init)] = np.frombuffer(var.init, np.uint8)
        self._buffers.append(buffer)
        address = buffer.ctypes.data + start
        self.launch.memory.add(f"{var.space} {var.name}", address, var.size, buffer)
        self.symbols[var.name] = Symbol("global", address)

    def _parameters(self) -> WordViews:
        raw = self.launch.params
        words = np.zeros(_up(max(self.launch.kernel.param_bytes, len(raw)), 16) + 16, np.uint8)
        words[: len(raw)] = np.frombuffer(raw, np.uint8)
        return word_views(words)

    def symbol(self, name: str) -> Symbol:
        """Return a symbol. Raises PtxError if it is not declared."""
        if name not in self.symbols:
            raise PtxError(f"kernel {self.launch.name[:80]}: unknown symbol {name}")
        return self.symbols[name]


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple
