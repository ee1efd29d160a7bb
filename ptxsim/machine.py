"""Runs one launch: clusters of CTAs, their fragments and the asynchronous work, in the order a schedule gives."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .counts import Counts
from .cta import CTA, ClusterBarrier
from .memory import Memory
from .parser import Module
from .schedule import Schedule
from .syntax import Kernel, PtxError
from .translate import Program
from .warp import RUNNING, RegisterFile


@dataclass(frozen=True)
class Finding:
    """Something wrong that a run met: kind, message, kernel, PTX line, source line, CTA, warp and lanes."""

    kind: str
    message: str
    kernel: str
    ptx_line: int | None = None
    source: str | None = None
    instruction: str | None = None
    cta: tuple[int, int, int] | None = None
    warp: int | None = None
    lanes: tuple[int, ...] = ()
    count: int = 1

    def __str__(self) -> str:
        where = f"{self.kernel[:48]}"
        if self.ptx_line is not None:
            where += f", PTX line {self.ptx_line}"
        if self.source:
            where += f", {self.source}"
        if self.cta is not None:
            where += f", CTA {self.cta}"
        if self.warp is not None:
            where += f", warp {self.warp}"
        return f"{self.kind}: {self.message} ({where})"


class Stuck(Exception):
    """No thread and no asynchronous work can go on."""


@dataclass
class Launch:
    """One kernel launch: the kernel, grid, block and cluster dimensions, dynamic shared bytes, parameter bytes."""

    module: Module
    kernel: Kernel
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    params: bytes
    dynamic_shared: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    attributes: dict[str, int] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    explicit_cluster: bool = False
    param_words: dict = field(default_factory=dict, repr=False)

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def name(self) -> str:
        return self.kernel.name


class Task:
    """A piece of asynchronous work, run once; `kind` is what schedules distinguish it by."""

    __slots__ = ("kind", "label", "run")

    def __init__(self, kind: str, run: Callable[[], None], label: str) -> None:
        self.kind, self.run, self.label = kind, run, label


_PROGRAMS: dict[int, tuple[Kernel, Program]] = {}


def program_of(module: Module, kernel: Kernel) -> Program:
    """The translated kernel, made once."""
    kept = _PROGRAMS.get(id(kernel))
    if kept is None or kept[0] is not kernel:
        kept = _PROGRAMS[id(kernel)] = (kernel, Program(module, kernel))
    return kept[1]


class Machine:
    """The state of one launch."""

    LIMIT = 400  # findings kept per launch

    def __init__(
        self,
        launch: Launch,
        schedule: Schedule,
        checks: frozenset[str] = frozenset(),
        trace=None,
        track: bool = False,
        sm_count: int = 148,
    ) -> None:
        self.launch, self.schedule, self.trace = launch, schedule, trace
        self.program = program_of(launch.module, launch.kernel)
        self.memory = launch.memory
        self.counts = Counts(tracking=track)
        self.sm_count, self.clock, self.progress, self.rest = sm_count, 0, 0, False
        self.checks, self.order = checks, None
        self.poison = True
        self.findings: dict[tuple, Finding] = {}
        self.fragments_changed = True
        self.visits: dict[int, int] = {}
        self._layout()
        if track:
            for a in self.memory.allocations:
                a.track()

    def _layout(self) -> None:
        """Places of the kernel's own variables: static shared first, dynamic shared after it, local per thread."""
        launch, kernel = self.launch, self.launch.kernel
        self._symbols: dict[str, tuple[str, int]] = {}
        self._globals: dict[str, np.ndarray] = {}
        offset = local = 0
        dynamic = []
        for var in [*launch.module.variables.values(), *kernel.variables.values()]:
            if var.space == "shared" and var.size == 0:
                dynamic.append(var)
            elif var.space == "shared":
                offset = -(-offset // var.align) * var.align
                self._symbols[var.name] = ("shared", offset)
                offset += var.size
            elif var.space == "local":
                local = -(-local // var.align) * var.align
                self._symbols[var.name] = ("local", local)
                local += var.size
            else:
                buffer = np.zeros(var.size + 256, np.uint8)
                start = -buffer.ctypes.data % 256
                if var.init:
                    buffer[start : start + len(var.init)] = np.frombuffer(var.init, np.uint8)
                self._globals[var.name] = buffer
                self.memory.add(f"{var.space} {var.name}", buffer.ctypes.data + start, var.size, buffer)
                self._symbols[var.name] = ("global", buffer.ctypes.data + start)
        for var in dynamic:
            offset = -(-offset // max(var.align, 16)) * max(var.align, 16)
            self._symbols[var.name] = ("shared", offset)
        self.shared_bytes = max(offset + launch.dynamic_shared, 16)
        self.local_bytes = -(-local // 16) * 16
        for p in kernel.params:
            self._symbols[p.name] = ("param", p.offset)
        words = np.zeros(-(-max(kernel.param_bytes, len(launch.params)) // 16) * 16 + 16, np.uint8)
        words[: len(launch.params)] = np.frombuffer(launch.params, np.uint8)
        launch.param_words = {k: words.view(f"u{k}") for k in (1, 2, 4, 8)}

    def symbol(self, name: str, cta: CTA) -> int:
        if name not in self._symbols:
            raise PtxError(f"kernel {self.launch.name[:80]}: unknown symbol {name}")
        space, offset = self._symbols[name]
        return (cta.rank << 24) + 1024 + offset if space == "shared" else offset

    def report(self, kind: str, message: str, f=None, i: int = -1, lanes=None) -> None:
        """Keep a finding; repeats of the same kind at the same instruction are counted."""
        ins = self.program.instructions[i] if i >= 0 else None
        key = (kind, i, message if i < 0 else "")
        if key in self.findings:
            old = self.findings[key]
            self.findings[key] = Finding(**{**old.__dict__, "count": old.count + 1})
            return
        if len(self.findings) >= self.LIMIT:
            return
        own = () if f is None or lanes is None else tuple(int(x) + f.lo for x in np.atleast_1d(lanes)[:8])
        warp = own[0] // 32 if own else (f.lo // 32 if f is not None else None)
        self.findings[key] = Finding(
            kind,
            message,
            self.launch.name,
            ins.line if ins else None,
            ins.source if ins else None,
            ins.text[:160] if ins else None,
            f.cta.index if f is not None else None,
            warp,
            tuple(x % 32 for x in own),
        )

    def post(self, key: object, task: Task) -> None:
        """Queue asynchronous work: in order after what is queued under the same key, unordered with the rest."""
        self.queues.setdefault(key, deque()).append(task)

    def run(self) -> None:
        """Run every cluster of the grid; findings and counts are left on the machine."""
        launch = self.launch
        threads = -(-launch.threads // 32) * 32
        size = launch.cluster[0] * launch.cluster[1] * launch.cluster[2]
        pool = [RegisterFile(launch.kernel.registers, threads) for _ in range(size)]
        with np.errstate(all="ignore"), one_thread():
            try:
                for ranks in _clusters(launch):
                    self._cluster(ranks, pool)
            except Stuck:
                pass
        self.counts.finish(self.program.blocks, self.visits, self.memory)

    def _cluster(self, indices: list[tuple[int, int, int]], pool: list[RegisterFile]) -> None:
        ctas: list[CTA] = []
        barrier = ClusterBarrier(self)
        for rank, index in enumerate(indices):
            ctas.append(CTA(self, index, rank, ctas, pool[rank], barrier))
        barrier.ctas = ctas
        self.ctas = ctas
        self.queues: dict[object, deque[Task]] = {}
        self.stores: dict = {}
        if self.checks:
            from .checks import attach

            attach(self, ctas)
        self._loop(ctas)
        for cta in ctas:
            if cta.tmem is not None:
                cta.tmem.finish()

    def _loop(self, ctas: list[CTA]) -> None:
        schedule, idle, busy, last = self.schedule, 0, 0, -1
        blocks = self.program.blocks
        while True:
            ready = [f for c in ctas for f in c.fragments if f.state == RUNNING and f.why is None]
            keys = list(self.queues)
            if not ready and not keys:
                if not any(c.fragments for c in ctas):
                    return
                self._stuck(ctas)
            if self.progress != last:
                idle, busy, last = 0, 0, self.progress
            elif self.rest:
                idle += 1
            else:
                busy += 1  # a turn of plain computation: it may yet lead somewhere
            if not keys and (idle > 50 + 8 * len(ready) + 8 * busy or busy > 20000):
                self._stuck(ctas)
            if keys and idle > 2 * len(ready) + 2:
                candidates = []  # threads only poll: let asynchronous work go on
            else:
                candidates = ready
            n = schedule.choose(candidates, [self.queues[k][0].kind for k in keys])
            if n >= len(candidates):
                self._task(keys[n - len(candidates)])
            else:
                self._run(ready[(n + idle + busy) % len(ready)], schedule.quantum(), blocks)

    def _task(self, key) -> None:
        queue = self.queues[key]
        task = queue.popleft()
        if not queue:
            del self.queues[key]
        self.progress += 1
        if self.trace is not None:
            self.trace(f"async {task.label}")
        task.run()

    def _run(self, f, quantum: int, blocks) -> None:
        """Run one fragment until it sleeps, yields, exits or has used its turn."""
        visits, trace = self.visits, self.trace
        self.rest = False
        while quantum:
            quantum -= 1
            if f.family is not None and not f.turn():
                f.family.sort(key=lambda g: g.pc)
                for g in f.family:
                    if g.state == RUNNING and g.why is None and g is not f and g.pc < f.pc:
                        f = g
                        break
                else:
                    return
                if not f.turn():
                    return
            pc = f.pc
            block = blocks[pc]
            if f.mask is None:
                fn = block.full or self.program.compile(block, False)
            else:
                if block.collective and not f.whole():
                    f.why = "whole"
                    return
                fn = block.masked or self.program.compile(block, True)
            visits[pc] = visits.get(pc, 0) + (f.n >> 5 if f.mask is None else len(f.warps()))
            if trace is not None:
                trace(
                    f"CTA {f.cta.index} threads {f.lo}..{f.hi - 1}{'' if f.mask is None else f' ({f.count} lanes)'}: "
                    f"line {self.program.instructions[block.first].line}"
                )
            nxt = fn(f)
            if nxt < 0:
                if f.state == RUNNING:
                    f.exit()
                return
            f.pc = nxt
            if f.state != RUNNING:
                return
            if f.family is not None:
                for g in f.family:
                    if g.why == "whole":
                        g.why = None
            if self.rest:
                return

    def _stuck(self, ctas: list[CTA]) -> None:
        """Report who waits for what, then give the launch up."""
        lines, first = [], None
        owed = [f for c in ctas for f in c.fragments if isinstance(f.why, tuple) and getattr(f.why[0], "tx", 0)]
        for f in owed + [
            f for c in ctas for f in c.fragments if f not in owed
        ]:  # an unpaid transaction is a likely cause
            c, what = f.cta, f.why
            ins = self.program.instructions[self.program.blocks[f.pc].first]
            if what == "whole":
                text = f"for the other lanes of its warp, at PTX line {ins.line}"
            elif isinstance(what, tuple):
                ins = self.program.instructions[what[1]]
                phase = f", waiting for the phase of parity {what[2]}" if len(what) > 3 and what[3] else ""
                text = f"for {what[0]}{phase}, at PTX line {ins.line}" + (f" ({ins.source})" if ins.source else "")
            else:
                text = f"polling near PTX line {ins.line}"
            first = first or (f, what[1] if isinstance(what, tuple) else self.program.blocks[f.pc].first)
            lines.append(f"CTA {c.index} warps {f.lo // 32}..{(f.hi - 1) // 32} {text}")
        shown = "; ".join(lines[:8]) + (f"; and {len(lines) - 8} more" if len(lines) > 8 else "")
        self.report("deadlock", shown, *(first or ()))
        raise Stuck


@contextlib.contextmanager
def one_thread():
    """One BLAS thread: the products are small, and a second thread that has to be waited for costs milliseconds."""
    lib = _blas()
    if lib is None:
        yield
        return
    before = lib.scipy_openblas_get_num_threads64_()
    lib.scipy_openblas_set_num_threads64_(1)
    try:
        yield
    finally:
        lib.scipy_openblas_set_num_threads64_(before)


@functools.cache
def _blas():
    """numpy's own OpenBLAS, or None where numpy was built with something else."""
    for path in (Path(np.__file__).parents[1] / "numpy.libs").glob("libscipy_openblas64_*"):
        lib = ctypes.CDLL(str(path))
        if hasattr(lib, "scipy_openblas_set_num_threads64_"):
            return lib
    return None


def _clusters(launch: Launch):
    """Lists of CTA indices, one list per cluster, ranks in order (x fastest)."""
    gx, gy, gz = launch.grid
    cx, cy, cz = launch.cluster
    for z in range(0, gz, cz):
        for y in range(0, gy, cy):
            for x in range(0, gx, cx):
                yield [(x + i, y + j, z + k) for k in range(cz) for j in range(cy) for i in range(cx)]
