"""`run`: execute captured launches (public entry point)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from ..frontend.program import program_of
from .counts import Counts
from .coverage import Coverage
from .finding import Finding
from .launch import Launch
from .machine import Machine
from .progress import STEP_LIMIT
from .result import Result
from .schedule import Schedule
from .search import search

_OF_MEMORY = ("uninitialised", "race", "read-fence", "global", "exit")
_OF_CODE = ("unwaited", "unfenced", "unwritten", "repeated", "inactive")
DEFAULT_CHECKS = (*_OF_MEMORY, *_OF_CODE)
CHECKS = (
    *DEFAULT_CHECKS,
    "unwaited-ld",
    "unwritten-lanes",
    "outside",
    "outside-any",
    "tensor-fence",
    "tensor-lanes",
)


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

    Stops after the first launch that deadlocks. Raises PtxError for what cannot be simulated, ValueError for an
    unknown schedule or check and for a `hold:…` that matches nothing.
    """
    launches = [launches] if isinstance(launches, Launch) else list(launches)
    enabled = frozenset(checks)
    if enabled - set(CHECKS):
        raise ValueError(f"unknown check {sorted(enabled - set(CHECKS))[0]!r}: one of {', '.join(CHECKS)}")
    if schedule == "timed":
        from ..timing.run_timed import run_timed  # imported late: most runs have no clock

        return run_timed(
            launches, device, checks=enabled, trace=trace, track=track, progress=progress, step_limit=step_limit
        )
    if schedule == "search":
        again = {"checks": enabled, "trace": trace, "track": track, "progress": progress, "step_limit": step_limit}
        return search(launches, run, seed, runs=runs, seconds=seconds, judge=judge, **again)
    start = time.perf_counter()
    findings: list[Finding] = []
    counts: list[Counts] = []
    coverage: list[Coverage] = []
    plan = Schedule(schedule, seed)
    delay = plan.delay
    if delay is not None and not any(delay.matches(x, program_of(x.module, x.kernel)) for x in launches):
        raise ValueError(f"schedule {schedule!r}: nothing in these launches matches")
    history = None
    for n, launch in enumerate(launches):
        machine = Machine(launch, plan, enabled, trace, track, before=history, step_limit=step_limit)
        machine.run()
        history = machine.history
        findings += machine.findings
        counts.append(machine.counts)
        coverage.append(machine.coverage)
        if progress is not None:
            progress(n + 1, len(launches))
        if any(f.kind == "deadlock" for f in machine.findings):
            break
    seconds = time.perf_counter() - start
    return Result(findings, counts, schedule, seed, seconds, [x.name for x in launches], coverage=coverage)
