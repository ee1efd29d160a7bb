"""`run`: execute captured launches (public entry point)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..frontend.program import program_of
from .counts import Counts
from .coverage import Coverage
from .finding import Finding
from .launch import Launch
from .machine import Machine
from .processes import count_of
from .progress import STEP_LIMIT
from .result import Result
from .schedule import Schedule
from .search import search
from .small_grid import SCHEDULE, SMALL_GRID, SmallGrid
from .unwritten_use import UnwrittenUse
from .wide import run_machine

if TYPE_CHECKING:
    from ..checks.access_history import AccessHistory

_OF_MEMORY = ("uninitialised", "race", "read-fence", "global", "exit")
_OF_CODE = ("unwaited", "unfenced", "unwritten", "repeated", "inactive")
MOST = 4  # processes by default
DEFAULT_CHECKS = (*_OF_MEMORY, *_OF_CODE, SMALL_GRID)
CHECKS = (*DEFAULT_CHECKS, "unwaited-ld", "unwritten-lanes", "outside", "outside-any", "tensor-fence", "tensor-lanes")


def run(
    launches: Launch | Iterable[Launch],
    schedule: str = "random",
    seed: int = 0,
    *,
    checks: Iterable[str] = DEFAULT_CHECKS,
    trace: Callable[[str], None] | None = None,
    track: bool = False,
    progress: Callable[[int, int], None] | None = None,
    device: str = "h200",
    runs: int | None = None,
    seconds: float | None = None,
    judge: Callable[[], str | None] | None = None,
    step_limit: int = STEP_LIMIT,
    waive: Mapping[str, str] | None = None,
    processes: int | None = None,
) -> Result:
    """Execute launches in order; results appear in the host memory they were captured with.

    schedule, seed: see ptxsim.SCHEDULES.
    checks: names from docs/ptxsim/checks.md. Out-of-bounds and misaligned accesses, barrier misuse and deadlocks
    are always reported.
    trace: called with a line per basic block and per asynchronous completion.
    track: count unique global bytes and bank conflicts (slow).
    progress: called with (launches done, launches).
    device: a device of ptxsim/devices, for the schedule "timed", whose result carries a prediction.
    runs, seconds, judge: for the schedule "search", which runs one adversarial schedule (`hold:…`) after another on
    the same input. It stops at the first fault, or after `runs` runs or `seconds`. `judge` is called after each run
    and returns a sentence if the outputs are wrong. The result is that of the faulty run, else of the first.
    step_limit: basic blocks that a cluster may run without an exit or a completion, before it counts as a deadlock.
    waive: regular expressions of findings (their text) that do not count, each with the reason: `Result.waived`.
    processes: how many run the clusters of a launch, with equal results. The default is PTXSIM_PROCESSES, else one per
    available CPU, at most 4. Only Linux has more than one.

    Stops after the first launch that deadlocks. Raises PtxError for what cannot be simulated, ValueError for an
    unknown schedule or check, a waiver without a reason, fewer processes than one, and a `hold:…` that matches nothing.
    """
    launches = [launches] if isinstance(launches, Launch) else list(launches)
    enabled = frozenset(checks)
    if enabled - set(CHECKS):
        raise ValueError(f"unknown check {sorted(enabled - set(CHECKS))[0]!r}: one of {', '.join(CHECKS)}")
    check_waivers(waive or {})
    options: dict[str, Any] = {
        "checks": enabled,
        "trace": trace,
        "track": track,
        "progress": progress,
        "step_limit": step_limit,
    }
    if schedule == "timed":
        from ..timing.run_timed import run_timed  # imported late: most runs have no clock

        timed = run_timed(launches, device, **options)
        timed.findings, timed.waived = _waived(timed.findings, waive or {})
        return timed
    if schedule == "search":
        options |= {"waive": waive, "processes": processes}
        return search(launches, run, seed, runs=runs, seconds=seconds, judge=judge, **options)
    start = time.perf_counter()
    plan = Schedule(schedule, seed)
    delay = plan.delay
    if delay is not None and not any(delay.matches(x, program_of(x.module, x.kernel)) for x in launches):
        raise ValueError(f"schedule {schedule!r}: nothing in these launches matches")
    use = UnwrittenUse(launches) if "uninitialised" in enabled else None

    def machine_of(launch: Launch, before: AccessHistory | None) -> Machine:
        return Machine(launch, plan, enabled, trace, track, before=before, step_limit=step_limit)

    def small_grid(launch: Launch) -> SmallGrid:
        def other(launch: Launch) -> Machine:
            return Machine(launch, Schedule(schedule, seed), enabled, trace, step_limit=step_limit)

        return SmallGrid(launch, other, lambda findings: bool(_waived(findings, waive or {})[0]), in_small_grids)

    in_small_grids: list[Finding] = []
    again_small = SMALL_GRID in enabled and schedule == SCHEDULE
    many = count_of(processes, MOST)
    findings, counts, coverage = _run(launches, machine_of, progress, small_grid if again_small else None, many)
    if use is not None:

        def again(fill: int) -> list[Counts]:
            second = Schedule(schedule, seed)

            def other(launch: Launch, before: AccessHistory | None) -> Machine:
                machine = Machine(launch, second, step_limit=step_limit)
                machine.fill = fill
                return machine

            return _run(launches, other)[1]

        findings = use.explain(findings, counts, again)
    kept, waived = _waived(findings + in_small_grids, waive or {})
    seconds = time.perf_counter() - start
    names = [x.name for x in launches]
    return Result(kept, counts, schedule, seed, seconds, names, coverage=coverage, waived=waived)


def _run(
    launches: list[Launch],
    machine_of: Callable[[Launch, AccessHistory | None], Machine],
    progress: Callable[[int, int], None] | None = None,
    small_grid: Callable[[Launch], SmallGrid] | None = None,
    processes: int = 1,
) -> tuple[list[Finding], list[Counts], list[Coverage]]:
    """Run launches until one deadlocks, each again in a small grid if asked."""
    findings: list[Finding] = []
    counts: list[Counts] = []
    coverage: list[Coverage] = []
    history = None
    for n, launch in enumerate(launches):
        small = small_grid(launch) if small_grid is not None else None
        machine = machine_of(launch, history)
        run_machine(machine, processes)
        history = machine.history
        findings += machine.findings
        if small is not None:
            small.run(machine)
        counts.append(machine.counts)
        coverage.append(machine.coverage)
        if progress is not None:
            progress(n + 1, len(launches))
        if any(f.kind == "deadlock" for f in machine.findings):
            break
    return findings, counts, coverage


def check_waivers(waive: Mapping[str, str]) -> None:
    """Raise ValueError for a waiver that is no regular expression or has no reason."""
    for pattern, reason in waive.items():
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"waive: {pattern!r} is no regular expression: {error}") from None
        if not reason.strip():
            raise ValueError(f"waive: {pattern!r} has no reason")


def _waived(findings: list[Finding], waive: Mapping[str, str]) -> tuple[list[Finding], list[tuple[Finding, str]]]:
    """Return the findings that no pattern waives, and the others with the reason."""
    kept: list[Finding] = []
    waived: list[tuple[Finding, str]] = []
    for finding in findings:
        reasons = [reason for pattern, reason in waive.items() if re.search(pattern, str(finding))]
        if reasons:
            waived.append((finding, reasons[0]))
        else:
            kept.append(finding)
    return kept, waived
