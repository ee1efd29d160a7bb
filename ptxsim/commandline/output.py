"""Output: findings with short paths, launches, progress, records."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from ..core.coverage import Coverage
from ..core.finding import Finding
from ..core.launch import Dim3, Launch
from ..core.result import Result
from .compared import Difference

MISSED = 8  # listed source lines that did not run
_PATH = re.compile(r"(?P<path>(?:/|\.{1,2}/)?[\w.+-]+(?:/[\w.+-]+)*\.\w+):(?P<line>\d+)")


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: its result, and how compared tensors differ."""

    result: Result
    differences: list[Difference]
    changed: list[str]
    nans: list[str]

    @property
    def failed(self) -> bool:
        """Whether the run has findings or wrong elements."""
        return bool(self.result.findings) or any(x.wrong for x in self.differences)


def finding_lines(finding: Finding) -> list[str]:
    """Return a finding as lines, with paths as relative ones."""
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
    """Shorten paths to relative ones; a path that was named before becomes its file name."""
    seen: set[str] = set()

    def short(m: re.Match[str]) -> str:
        path = m["path"]
        if path in seen:
            return f"{os.path.basename(path)}:{m['line']}"
        seen.add(path)
        near = os.path.relpath(path) if os.path.isabs(path) else path
        return f"{path if near.startswith('../..') else near}:{m['line']}"

    return _PATH.sub(short, text)


def launch_line(n: int, launch: Launch) -> str:
    shape = f"grid {launch.grid}, block {launch.block}, cluster {launch.cluster}"
    return f"launch {n}: {shape}, {launch.dynamic_shared} B shared, {launch.name[:72]}"


def outcome_lines(outcome: Outcome, reported: set[tuple[str, str, int | None]]) -> Iterator[str]:
    """Yield the new findings of a run, and on the first run its counts.

    `reported` holds (kind, kernel, PTX line) of findings already printed; findings of this run are added.
    """
    result, first = outcome.result, not reported
    before = {("", "", None)} | reported
    for finding in result.findings:
        key = (finding.kind, finding.kernel, finding.ptx_line)
        if key not in before:
            yield from finding_lines(finding)
        reported.add(key)
    reported.add(("", "", None))
    for finding, reason in result.waived:
        key = ("waived", finding.kernel, finding.ptx_line)
        if key not in before:
            yield from finding_lines(replace(finding, kind=f"waived ({reason}): {finding.kind}"))
        reported.add(key)
    repeats = sum((f.kind, f.kernel, f.ptx_line) in before for f in result.findings)
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
    suffix = (
        ""
        if not repeats
        else ", reported above"
        if repeats == len(result.findings)
        else f", {repeats} of them reported above"
    )
    yield f"schedule {result.schedule}, seed {result.seed}, {result.seconds:.1f} s: {count}{suffix}"


def coverage_lines(n: int, coverage: Coverage) -> Iterator[str]:
    """Yield what all runs of a launch exercised: blocks, source lines, untested behaviour."""
    exercised = coverage.as_dict()
    blocks, lines = exercised["blocks"], exercised["lines"]
    of_lines = f" and {lines['run']} of {lines['all']} source lines" if lines["all"] else ""
    yield f"launch {n}: {blocks['run']} of {blocks['all']} basic blocks{of_lines} ran"
    if lines["missed"]:
        more = f" and {lines['all'] - lines['run'] - MISSED} more" if lines["all"] - lines["run"] > MISSED else ""
        yield f"    not run: {', '.join(map(_short_paths, lines['missed'][:MISSED]))}{more}"
    for note in exercised["notes"]:
        yield f"    {note}"


def record(outcome: Outcome) -> dict[str, Any]:
    """Return a run as a JSON object."""
    result = outcome.result
    return {
        "schedule": result.schedule,
        "seed": result.seed,
        "seconds": result.seconds,
        "findings": [asdict(f) for f in result.findings],
        "waived": [{**asdict(f), "reason": reason} for f, reason in result.waived],
        "counts": [c.as_dict() for c in result.counts],
        "differences": [asdict(x) for x in outcome.differences],
        "changed": outcome.changed,
        "nans": outcome.nans,
    }


class _ObservedLaunch(Launch):
    """A launch that calls back when one of its clusters begins."""

    def on_start(self, begun: Callable[[int, int], None]) -> _ObservedLaunch:
        self._begun = begun
        return self

    def clusters(self) -> Iterator[list[Dim3]]:
        cx, cy, cz = self.cluster
        total = self.grid[0] * self.grid[1] * self.grid[2] // (cx * cy * cz)
        for n, indices in enumerate(super().clusters()):
            self._begun(n, total)
            yield indices


class Progress:
    """Progress on stderr: one rewritten line on a terminal, else a line every two seconds."""

    def __init__(self, enabled: bool) -> None:
        self.terminal = sys.stderr.isatty()
        self.on = enabled or self.terminal
        self.last = time.monotonic()

    def observe(self, launches: list[Launch], what: str) -> list[Launch]:
        """Return the launches, wrapped to show progress."""
        if not self.on:
            return launches
        return [
            self._observed(n, launch, f"{what}, launch {n + 1} of {len(launches)}") for n, launch in enumerate(launches)
        ]

    def _observed(self, n: int, launch: Launch, what: str) -> Launch:
        fields = {name: getattr(launch, name) for name in launch.__dataclass_fields__}
        return _ObservedLaunch(**fields).on_start(
            lambda done, total: self._show(f"{what}: cluster {done + 1} of {total}")
        )

    def _show(self, line: str) -> None:
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


def abandon() -> int:
    """Drop further output, as the reader of stdout has exited; return the exit status."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 2
