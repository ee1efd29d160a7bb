"""A small kernel with a shipped bug and its fix, in one text."""

from __future__ import annotations

import re
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ptxsim.core.finding import Finding
from ptxsim.core.launch import Launch
from ptxsim.core.run import run
from ptxsim.core.schedule import DEFAULT as SCHEDULES
from ptxsim.frontend.parser import Module
from ptxsim.host.direct import launch

CHECKED = ("ordering", "fence", "hang", "bounds")  # areas of bugs that default checks should find
AREAS = (*CHECKED, "numbers", "machine code")

HEAD = """.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 dyn[];
.visible .entry kernel(PARAMS) ATTRIBUTES {
.reg .pred %p<20>; .reg .b16 %h<20>; .reg .b32 %r<40>; .reg .b64 %d<20>; .reg .b128 %q<4>;
.reg .b32 %thread, %warp, %lane, %cta, %smem; .reg .b64 %g<8>;
mov.u32 %thread, %tid.x; shr.u32 %warp, %thread, 5; and.b32 %lane, %thread, 31; mov.u32 %cta, %cluster_ctarank;
mov.u32 %smem, dyn; ARGUMENTS"""
FIRST = HEAD.count("\n") + 2  # number of the first line of an exhibit's PTX in its module
WAIT = re.compile(r"WAIT (\S+), (\w+|%\w+);")  # spins until the phase with this parity of an mbarrier is complete
SPIN = r"{ .reg .pred %ok; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 %ok, [\1], \2; @!%ok bra AGAIN; }"


def numbers(runs: str) -> np.ndarray:
    """Return uint32 from runs: `0..3` counts, `2 * 7` repeats; commas join."""
    out: list[int] = []
    for part in runs.split(","):
        first, counts, last = part.partition("..")
        times, _, value = part.rpartition("*")
        out += range(int(first), int(last) + 1) if counts else [int(value, 0)] * int(times or 1)
    return np.array(out, np.uint32)


@dataclass(frozen=True)
class Exhibit:
    """A kernel before and after a fix.

    ptx: the body; lines that begin with - exist only before the fix, lines that begin with + only after it. Registers:
    %thread, %warp, %lane, %cta (rank in the cluster), %smem (dynamic shared memory), %g0, %g1, ... (the arguments),
    and %p, %h, %r, %d, %q with numbers. `WAIT address, parity;` waits for an mbarrier.
    note: its first line is the title.
    upstream: addresses of the fix or report. file: the kernel that had the bug. area: one of AREAS.
    args: whole numbers of 64 bits; arrays of uint32 as runs, see `numbers`; `&1 - 8`: 8 bytes before argument 1.
    expected: what these arrays hold afterwards, empty for those that are not compared.
    attributes: directives of the entry, such as .maxntid. missed: why default checks miss the bug, if they do.
    """

    note: str
    upstream: Sequence[str]
    file: str
    area: str
    ptx: str
    args: Sequence[str | int] = ()
    expected: Sequence[str] = ()
    grid: int = 1
    cluster: int = 1
    threads: int = 32
    shared: int = 1024
    attributes: str = ""
    missed: str = ""

    @property
    def title(self) -> str:
        """Return the first line of the note, without its period."""
        return self.note.split("\n")[0].rstrip(".")

    @classmethod
    def read(cls, path: Path) -> Exhibit:
        """Read a file of bugs/, whose keys are the fields; TypeError for another key."""
        return cls(**tomllib.loads(path.read_text()))

    def arguments(self) -> list[Any]:
        """Return new arguments of a launch: arrays and whole numbers."""
        out: list[Any] = [numbers(x) if isinstance(x, str) and x[0] != "&" else x for x in self.args]
        for n, x in enumerate(out):
            if isinstance(x, str):
                other, less = x[1:].split("-")
                out[n] = out[int(other)].ctypes.data - int(less)
        return out

    def text(self, faulty: bool) -> str:
        """Return the module's PTX; lines have equal numbers before and after the fix."""
        params = ", ".join(f".param .u64 p{n}" for n in range(len(self.args)))
        load = "".join(f"ld.param.u64 %g{n}, [p{n}];" for n in range(len(self.args)))
        head = HEAD.replace("PARAMS", params).replace("ATTRIBUTES", self.attributes).replace("ARGUMENTS", load)
        return "\n".join([head, *(self._kept(line, faulty) for _, line in self.lines), "ret; }\n"])

    @property
    def lines(self) -> list[tuple[int, str]]:
        """The lines of `ptx`, with their numbers in the module."""
        return list(enumerate(self.ptx.split("\n"), FIRST))

    @staticmethod
    def _kept(line: str, faulty: bool) -> str:
        if line[:1] == ("+" if faulty else "-"):
            return ""
        return WAIT.sub(SPIN, line[1:] if line[:1] in ("+", "-") else line)

    @property
    def fixed_lines(self) -> list[int]:
        """Numbers of the lines that the fix changes."""
        return [n for n, line in self.lines if line[:1] in ("+", "-")]

    def launch(self, faulty: bool, args: list[Any]) -> Launch:
        """Return the launch of one version."""
        module = Module.from_text(self.text(faulty))
        return launch(
            module, "kernel", (self.grid,), (self.threads,), args, dynamic_shared=self.shared, cluster=(self.cluster,)
        )

    def findings(self, faulty: bool, schedule: str, seed: int = 0) -> list[Finding]:
        """Run one version with default checks; wrong numbers are a finding of kind `wrong`."""
        args = self.arguments()
        findings = run(self.launch(faulty, args), schedule=schedule, seed=seed).findings
        for n, (arg, want) in enumerate(zip(args, self.expected, strict=False)):
            if want and not np.array_equal(arg, numbers(want)):
                findings.append(Finding("wrong", f"argument {n} differs from the expected values", "kernel"))
        return findings

    def record(self) -> dict[str, Any]:
        """Run both versions under all default schedules; return what docs/bugs.md shows of it."""
        start = time.perf_counter()
        first: list[Finding] = []
        used = ""
        for schedule, seed in SCHEDULES:
            first = self.findings(True, schedule, seed)
            if first:
                used = schedule
                break
        seconds = time.perf_counter() - start
        after = {str(f) for schedule, seed in SCHEDULES for f in self.findings(False, schedule, seed)}
        checked = [f for f in first if f.kind != "wrong"]
        lines = [f.ptx_line for f in checked if f.ptx_line is not None]
        distances = [min(abs(line - n) for n in self.fixed_lines) for line in lines]
        return {
            "title": self.title,
            "upstream": list(self.upstream),
            "file": self.file,
            "area": self.area,
            "from": "small kernel",
            "found": bool(checked),
            "missed": self.missed,
            "kinds": sorted({f.kind for f in first}),
            "schedule": used,
            "distance": min(distances, default=None),
            "seconds": round(seconds, 2),
            "after": sorted(after),
        }
