"""A kernel compiled to one Python function per basic block, over numpy register views.

A block function takes a fragment (core/warp.py). It returns the next block's index, or -1 when its lanes have exited.
One version serves fully active ranges, one masked ranges; each is compiled on first run.
"""

import marshal
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from types import CodeType
from typing import Any

from .code import Block, BlockFunction, Code, outer_loops
from .garbage import without_collection
from .generator import Generator
from .independent import has_independent_ctas, has_separate_clusters
from .parser import Module
from .pending import Touch, touches
from .recent import Recent
from .registry import RUNTIME
from .syntax import Kernel
from .uninitialized import unwritten
from .wgmma_fences import unfenced
from .work_items import reads_global_in_order, strided_axes


class Program(Code):
    """Code with a Python function per block, and the results of register analyses."""

    @without_collection
    def __init__(self, module: Module, kernel: Kernel) -> None:
        super().__init__(module, kernel)
        self.namespace.update(RUNTIME)
        self.codes: dict[str, CodeType] = {}  # compiled functions
        self.pending: dict[int, list[Touch]] = touches(self)
        self.watched = {origin for uses in self.pending.values() for use in uses for origin in use.origins}
        self.unfenced = unfenced(self)
        self.loops = outer_loops(self)
        self.noted = {first for uses in self.unfenced.values() for first in uses}  # writes to record for such products
        self.unwritten = unwritten(self)
        self.cluster_seconds: float | None = None  # processor time of a cluster in an earlier launch (core/shares.py)
        self.dependent = False  # the order of its CTAs may have mattered in a launch (core/wide.py)
        for block in self.blocks:
            block.source = Generator(self, block, masked=False).source(f"b{block.index}")

    @cached_property
    def polls(self) -> bool:
        """Whether it has relaxed, acquiring, volatile or atomic reads of global memory."""
        return any(reads_global_in_order(ins) for ins in self.instructions)

    @cached_property
    def has_independent_ctas(self) -> bool:
        """Whether its CTAs share nothing but ordinary accesses of global memory."""
        return has_independent_ctas(self.instructions)

    @cached_property
    def has_separate_clusters(self) -> bool:
        """Whether its clusters share nothing but ordinary accesses and copies of global memory."""
        return has_separate_clusters(self.instructions)

    @cached_property
    def strided_axes(self) -> frozenset[int]:
        """The axes of the grid by whose sizes work items are strided."""
        return strided_axes(self.instructions)

    def calls_before(self, at: int) -> Sequence[str]:
        touched, used = at in self.pending, at in self.unwritten
        return [f"touch(f, {at})"] * touched + [f"use_registers(f, {at})"] * used

    def calls_after(self, at: int) -> Sequence[str]:
        return [f"note_write(f, {at})"] * (at in self.noted)

    def __getstate__(self) -> dict[str, Any]:
        """Drop functions for pickling (translations.py); they are rebuilt from their code."""
        constants = {name: self.namespace[name] for name in self.bound.values()}
        blocks = [replace(block, full=None, masked=None) for block in self.blocks]
        return {**self.__dict__, "namespace": constants, "blocks": blocks, "codes": marshal.dumps(self.codes)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.namespace = {**RUNTIME, **state["namespace"]}
        self.codes = marshal.loads(state["codes"])

    def compile(self, block: Block, masked: bool) -> BlockFunction:
        """Return the function of a block; `masked` selects the version for masked ranges."""
        name = f"b{block.index}{'m' if masked else ''}"
        code = self.codes.get(name)
        if code is None:
            source = Generator(self, block, masked).source(name) if masked or not block.source else block.source
            code = self.codes[name] = compile(source, f"<ptx {self.kernel.name[:40]}>", "exec")
        exec(code, self.namespace)
        function: BlockFunction = self.namespace[name]  # type: ignore[assignment]  # what exec has just put there
        if masked:
            block.masked = function
        else:
            block.full, block.source = function, ""
        return function


_PROGRAMS: Recent[Program] = Recent()


def program_of(module: Module, kernel: Kernel) -> Program:
    """Return the compiled kernel, from the cache of recent ones if possible."""
    return _PROGRAMS.get(id(kernel), lambda cached: cached.kernel is kernel, lambda: Program(module, kernel))


def remembered(kernel: Kernel) -> Program | None:
    """Return the compiled kernel if it is in the cache."""
    return _PROGRAMS.find(id(kernel), lambda cached: cached.kernel is kernel)


def remember(program: Program) -> None:
    """Add a compiled kernel to the cache."""
    _PROGRAMS.get(id(program.kernel), lambda cached: cached is program, lambda: program)
