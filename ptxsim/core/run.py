"""Running captured launches: the call the outside makes."""

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

_OF_MEMORY = ("uninitialised", "race", "global", "exit")
_OF_CODE = ("unwaited", "unfenced", "unwritten", "repeated", "inactive")
DEFAULT_CHECKS = (*_OF_MEMORY, *_OF_CODE)
CHECKS = (*DEFAULT_CHECKS, "unwaited-ld", "unwritten-lanes", "outside", "outside-any", "tensor-fence")


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
    """Execute launches in order; results appear in the host memory the launches were captured with.

    schedule, seed: see ptxsim.SCHEDULES. checks: names of docs/ptxsim.md («Checks»); out-of-bounds and misaligned
    accesses, barrier misuse and deadlocks are always reported. trace: called with a line per basic block and per
    asynchronous completion.
    track: count the global bytes touched once (slow). progress: called with (launches done, launches).
    The schedule "search" runs them under one adversarial schedule after another (`hold:…`), on the same
    memory each, until something is wrong or the budget of `runs` or `seconds` is spent; `judge` is asked after each and
    says in a sentence what is wrong with the outputs. The result is that of the run that is wrong, or of the first.
    The schedule "timed" goes by a clock: that of `device`, a card in ptxsim/devices, whose prediction is in the result.
    A cluster that runs more than `step_limit` basic blocks while no thread exits and no asynchronous work completes is
    a deadlock that names where its threads loop.
    Stops after the first launch that deadlocks. Raises PtxError for what cannot be simulated, ValueError for an
    unknown schedule or check and for a `hold:…` that matches nothing.
    """
    launches = [launches] if isinstance(launches, Launch) else list(launches)
    wanted = frozenset(checks)
    if wanted - set(CHECKS):
        raise ValueError(f"unknown check {sorted(wanted - set(CHECKS))[0]!r}: one of {', '.join(CHECKS)}")
    if schedule == "timed":
        from ..timing.run_timed import run_timed  # only here: most runs have no clock

        return run_timed(
            launches, device, checks=wanted, trace=trace, track=track, progress=progress, step_limit=step_limit
        )
    if schedule == "search":
        again = {"checks": wanted, "trace": trace, "track": track, "progress": progress, "step_limit": step_limit}
        return search(launches, run, seed, runs=runs, seconds=seconds, judge=judge, **again)
    start = time.perf_counter()
    findings: list[Finding] = []
    counts: list[Counts] = []
    coverage: list[Coverage] = []
    plan = Schedule(schedule, seed)
    delay = plan.delay
    if delay is not None and not any(delay.matches(x, program_of(x.module, x.kernel)) for x in launches):
        raise ValueError(f"schedule {schedule!r}: nothing in these launches is of this kind and at this place")
    history = None
    for n, launch in enumerate(launches):
        machine = Machine(launch, plan, wanted, trace, track, before=history, step_limit=step_limit)
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
