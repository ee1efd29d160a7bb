"""How results are told: findings with short paths, launches, progress, JSON."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..core.coverage import Coverage
from ..core.finding import Finding
from ..core.launch import Dim3, Launch
from ..core.result import Result
from .compared import Difference
from .elements import Misuse

MISSED = 8  # source lines that did not run and are named
_PATH = re.compile(r"(?P<path>(?:/|\.{1,2}/)?[\w.+-]+(?:/[\w.+-]+)*\.\w+):(?P<line>\d+)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: what it found, and how the tensors that were to be compared differ."""

    result: Result
    differences: list[Difference]
    changed: list[str]
    nans: list[str]

    @property
    def found(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.result.findings) or any(x.wrong for x in self.differences)


def finding_lines(finding: Finding) -> list[str]:
    """A finding in a few lines, its source file named once and from here."""
    times = f" ({finding.count} times)" if finding.count > 1 else ""
    where = [finding.source or "", "" if finding.ptx_line is None else f"PTX line {finding.ptx_line}"]
    where += ["" if finding.cta is None else f"CTA {finding.cta}"]
    where += ["" if finding.warp is None else f"warp {finding.warp}"]
    lanes = ", ".join(map(str, finding.lanes))
    where += [f"lane{'s' if len(finding.lanes) > 1 else ''} {lanes}"] if 0 < len(finding.lanes) < 8 else []
    lines = [", ".join(x for x in where if x), finding.instruction or "", f"in {finding.kernel[:100]}"]
    text = "\n".join([f"{finding.kind}: {finding.message}{times}", *(f"    {x}" for x in lines if x)])
    return _short_paths(text).splitlines()


def _short_paths(text: str) -> str:
    """Paths relative to here; a file that was named already is only given by its line."""
    seen: set[str] = set()

    def short(m: re.Match[str]) -> str:
        path = m["path"]
        if path in seen:
            return f"its line {m['line']}"
        seen.add(path)
        near = os.path.relpath(path) if os.path.isabs(path) else path
        return f"{path if near.startswith('../..') else near}:{m['line']}"

    return _PATH.sub(short, text)


def launch_line(n: int, launch: Launch) -> str:
    shape = f"grid {launch.grid}, block {launch.block}, cluster {launch.cluster}"
    return f"launch {n}: {shape}, {launch.dynamic_shared} B shared, {launch.name[:72]}"


def outcome_lines(outcome: Outcome, told: set[tuple[str, str, int | None]]) -> Iterator[str]:
    """What a run found, but for findings that were told before, and the first time what it counted.

    `told` holds kind, kernel and PTX line of findings that were told; those of this run are added.
    """
    result, first = outcome.result, not told
    before = {("", "", None)} | told
    for finding in result.findings:
        key = (finding.kind, finding.kernel, finding.ptx_line)
        if key not in before:
            yield from finding_lines(finding)
        told.add(key)
    told.add(("", "", None))
    again = sum((f.kind, f.kernel, f.ptx_line) in before for f in result.findings)
    if first:
        for n, c in enumerate(result.counts):
            yield (
                f"launch {n}: {c.warp_instructions} warp instructions, {c.mma_flops} MMA FLOPs, {c.tma_bytes} TMA "
                f"bytes, {c.global_read_bytes} bytes read and {c.global_write_bytes} written, "
                f"{c.barrier_waits} barrier waits"
            )
    yield from map(str, outcome.differences)
    yield from outcome.nans
    count = f"{len(result.findings)} findings" if len(result.findings) != 1 else "1 finding"
    known = "" if not again else ", told above" if again == len(result.findings) else f", {again} of them told above"
    yield f"schedule {result.schedule}, seed {result.seed}, {result.seconds:.1f} s: {count}{known}"


def coverage_lines(n: int, coverage: Coverage) -> Iterator[str]:
    """What all runs of a launch exercised: blocks, source lines, and what was never put to the test."""
    found = coverage.as_dict()
    blocks, lines = found["blocks"], found["lines"]
    of_lines = f" and {lines['run']} of {lines['all']} source lines" if lines["all"] else ""
    yield f"launch {n}: {blocks['run']} of {blocks['all']} basic blocks{of_lines} ran"
    if lines["missed"]:
        more = f" and {lines['all'] - lines['run'] - MISSED} more" if lines["all"] - lines["run"] > MISSED else ""
        yield f"    not run: {', '.join(map(_short_paths, lines['missed'][:MISSED]))}{more}"
    for note in found["notes"]:
        yield f"    {note}"


def record(outcome: Outcome) -> dict[str, Any]:
    """A run as JSON."""
    result = outcome.result
    return {
        "schedule": result.schedule,
        "seed": result.seed,
        "seconds": result.seconds,
        "findings": [asdict(f) for f in result.findings],
        "counts": [c.as_dict() for c in result.counts],
        "differences": [asdict(x) for x in outcome.differences],
        "changed": outcome.changed,
        "nans": outcome.nans,
    }


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Written beside its place and moved there."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(json.dumps(content, indent=1, default=str) + "\n")
        partial.replace(path)
    except OSError as error:
        raise Misuse(f"--json {path}: {error.strerror}") from None


class _Watched(Launch):
    """A launch that tells whenever a cluster of it begins."""

    def tell(self, begun: Callable[[int, int], None]) -> _Watched:
        self._begun = begun
        return self

    def clusters(self) -> Iterator[list[Dim3]]:
        cx, cy, cz = self.cluster
        total = self.grid[0] * self.grid[1] * self.grid[2] // (cx * cy * cz)
        for n, indices in enumerate(super().clusters()):
            self._begun(n, total)
            yield indices


class Progress:
    """A line on stderr that says how far a run is: rewritten on a terminal, else a new one every few seconds."""

    def __init__(self, wanted: bool) -> None:
        self.terminal = sys.stderr.isatty()
        self.on = wanted or self.terminal
        self.last = time.monotonic()

    def watch(self, launches: list[Launch], what: str) -> list[Launch]:
        """The same launches, watched."""
        if not self.on:
            return launches
        return [
            self._watched(n, launch, f"{what}, launch {n + 1} of {len(launches)}") for n, launch in enumerate(launches)
        ]

    def _watched(self, n: int, launch: Launch, what: str) -> Launch:
        fields = {name: getattr(launch, name) for name in launch.__dataclass_fields__}
        return _Watched(**fields).tell(lambda done, total: self._tell(f"{what}: cluster {done + 1} of {total}"))

    def _tell(self, line: str) -> None:
        now = time.monotonic()
        if now - self.last < (0.2 if self.terminal else 2.0):
            return
        self.last = now
        print(
            f"\r\033[K{line}" if self.terminal else line, end="" if self.terminal else "\n", file=sys.stderr, flush=True
        )

    def end(self) -> None:
        if self.on and self.terminal:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
