"""The command: parse arguments, run the schedules, report the results."""

import argparse
import contextlib
import importlib.util
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..core.adversarial import PREFIX, RUNS, orders
from ..core.coverage import Coverage
from ..core.finding import Finding
from ..core.launch import Launch
from ..core.processes import count_of, in_order
from ..core.run import CHECKS, check_waivers, run
from ..core.schedule import DEFAULT, NAMES, Schedule
from ..frontend.program import program_of
from ..frontend.syntax import PtxError
from ..host.capture import signature
from ..host.linking import CaptureError, nearest
from ..timing import DeviceError, DeviceModel, Prediction, code_of, predict
from ..timing.early_arrivals import early_arrivals
from . import build, output, reports
from .call import Call, described, prepare
from .compared import Expectation, compare, expectations, save, targets, writable
from .elements import Misuse
from .options import parser
from .output import Outcome

REPORTS = ("json", "sarif", "junit")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    options = parser().parse_args(argv)
    try:
        return _main(options)
    except (Misuse, CaptureError, PtxError, DeviceError, NotImplementedError) as error:
        print(f"ptxsim: {error}", file=sys.stderr)
        _write_error(options, str(error))
        return 2
    except KeyboardInterrupt:
        print("ptxsim: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        return output.abandon()


def _main(options: argparse.Namespace) -> int:
    compiled = build.find(options.folder, options.ptx, options.function)
    if options.signature:
        print(described(compiled, signature(compiled.object, compiled.function)))
        return 0
    checks = [c for c in options.checks.split(",") if c]
    unknown = [c for c in checks if c not in CHECKS]
    if unknown:
        raise Misuse(f"--checks: no check {unknown[0]}{nearest(unknown[0], CHECKS)}; choose from {', '.join(CHECKS)}")
    _check_schedule(options)
    try:
        check_waivers(dict(options.waive))
    except ValueError as error:
        raise Misuse(f"--{error}") from None
    _check_prediction(options)
    if options.sass and compiled.cubin is None:
        raise Misuse(f"--sass: no single .cubin lies next to {compiled.object}")
    if options.sass and importlib.util.find_spec("elftools") is None:
        raise Misuse("--sass reads cubins with pyelftools, which is not installed: pip install pyelftools")
    for option in REPORTS:
        path = getattr(options, option)
        if path:
            writable(path, f"--{option} {path}")
    call = prepare(compiled, options)
    expected = expectations(options.expect, options.tolerance, call)
    files = targets(options.save, call)
    launches = call.launches(compiled, options.sm_count)
    for n, launch in enumerate(launches):
        print(output.launch_line(n, launch))
    coverages: list[Coverage] = []
    early = _of_machine_code(launches, compiled) if options.sass else []
    outcomes = _run_all(launches, call, expected, checks, options, coverages)
    outcomes[0].result.findings.extend(early)
    for n, coverage in enumerate(coverages):
        for line in output.coverage_lines(n, coverage):
            print(line)
    for tensor, path in files:
        save(tensor, path)
        print(f"{tensor.name} saved to {path}")
    time = _predicted(launches, call, compiled, options)
    status = int(any(outcome.failed for outcome in outcomes))
    if options.json:
        reports.write(options.json, _record(status, launches, outcomes, coverages, time), "--json")
    problems = reports.problems(outcomes, compiled.ptx)
    if options.sarif:
        reports.write(options.sarif, reports.sarif(problems, status), "--sarif")
    if options.junit:
        reports.write(options.junit, reports.junit(compiled.function, outcomes), "--junit")
    if options.annotations and problems:
        print(*reports.github_commands(problems), sep="\n")
    return status


def _of_machine_code(launches: list[Launch], compiled: build.Build) -> list[Finding]:
    """Return findings in the cubin, and print them."""
    findings = []
    for kernel in {launch.name: launch.kernel for launch in launches}.values():
        code = code_of(kernel.name, compiled.cubin)
        assert code is not None  # --sass needs the cubin
        moved = early_arrivals(kernel, code)
        print(f"machine code of {kernel.name[:80]}, {len(code.ops)} instructions: {len(moved)} early arrivals")
        for finding in moved:
            print(*output.finding_lines(finding), sep="\n")
        findings += moved
    return findings


def _write_error(options: argparse.Namespace, error: str) -> None:
    """Write the reports of a failed run, except a report that is the error."""
    contents: dict[str, str | dict[str, Any]] = {
        "json": {"status": 2, "error": error},
        "sarif": reports.sarif([], 2, error),
        "junit": reports.junit(options.folder.name, [], error),
    }
    for option, content in contents.items():
        path = getattr(options, option)
        if path and not error.startswith(f"--{option}"):
            with contextlib.suppress(Misuse):  # one message is enough
                reports.write(path, content, f"--{option}")
    if options.annotations:
        print(*reports.github_commands([], error), sep="\n")


def _run_all(
    launches: list[Launch],
    call: Call,
    expected: list[Expectation],
    checks: list[str],
    options: argparse.Namespace,
    coverages: list[Coverage],
) -> list[Outcome]:
    """Run every schedule on the same inputs; `coverages` accumulates coverage per launch."""
    progress = output.Progress(options.progress)
    trace = (lambda line: print(line, file=sys.stderr)) if options.trace else None
    processes = _processes(options)

    def run_one(plan: tuple[str, int]) -> tuple[Outcome, dict[str, np.ndarray]]:
        """Return the outcome and tensors to save."""
        name, seed = plan
        call.restore()
        observed = progress.observe(launches, f"schedule {name}, seed {seed}")
        try:
            result = run(
                observed,
                name,
                seed,
                checks=checks,
                trace=trace,
                track=options.track,
                waive=dict(options.waive),
                processes=options.processes if processes == 1 else 1,
            )
        except ValueError as error:
            if not name.startswith(PREFIX):
                raise
            raise Misuse(f"--schedule: {error}") from None
        progress.end()
        outcome = Outcome(result, [compare(x) for x in expected], call.changed(), call.nans())
        return outcome, {x: call.tensors[x].raw.copy() for x in outcome.changed if options.save}

    start, searches = time.monotonic(), options.schedule == "search"
    plans = _plans(options, coverages)
    outcomes: list[Outcome] = []
    reported: set[tuple[str, str, int | None]] = set()
    tensors: dict[str, np.ndarray] = {}
    for launch in launches if processes > 1 else ():
        program = program_of(launch.module, launch.kernel)
        for block in program.blocks:  # here once, not in every process
            program.compile(block, masked=False)
    with contextlib.closing(in_order(run_one, plans, processes)) as others:
        # the coverage of a search's first run names its other schedules
        for outcome, changed in itertools.chain(map(run_one, itertools.islice(plans, int(searches))), others):
            tensors = changed
            outcomes.append(outcome)
            for launch, more in zip(launches, outcome.result.coverage, strict=False):
                more.instructions = program_of(launch.module, launch.kernel).instructions
            for total, more in zip(coverages, outcome.result.coverage, strict=False):
                total.merge(more)
            coverages += outcome.result.coverage[len(coverages) :]
            progress.end()
            for line in output.outcome_lines(outcome, reported):
                print(line, flush=True)
            over = options.seconds is not None and time.monotonic() - start >= options.seconds
            if searches and (over or outcome.failed):
                break
    call.restore()
    for name, raw in tensors.items():
        call.tensors[name].raw[...] = raw
    if not any(outcome.changed for outcome in outcomes):
        print("no tensor was changed by any run")
    return outcomes


def _check_schedule(options: argparse.Namespace) -> None:
    if options.schedule not in ("all", "search"):
        try:
            Schedule(options.schedule)
        except ValueError as error:
            if options.schedule.startswith("hold:"):
                raise Misuse(f"--schedule: {error}") from None
            names = (*NAMES, "all", "search")
            reported = f"unknown schedule {options.schedule}{nearest(options.schedule, names)}"
            raise Misuse(f"--schedule: {reported}; choose from {', '.join(names)}") from None
    if options.schedule != "search" and (options.runs is not None or options.seconds is not None):
        raise Misuse("--runs and --seconds are the budget of --schedule search")
    if options.runs is not None and options.runs < 1:
        raise Misuse(f"--runs {options.runs}: expected one or more")
    if options.seconds is not None and not options.seconds > 0:
        raise Misuse(f"--seconds {options.seconds:g}: expected more than zero")


def _check_prediction(options: argparse.Namespace) -> None:
    """Check --predict and its options before anything runs. Raises Misuse or DeviceError."""
    if options.predict is None:
        if options.cold or options.clock_mhz is not None:
            raise Misuse("--clock-mhz and --cold belong to --predict DEVICE")
        return
    if options.clock_mhz is not None and not options.clock_mhz > 0:
        raise Misuse(f"--clock-mhz {options.clock_mhz:g}: expected more than zero")
    if importlib.util.find_spec("yaml") is None:
        raise Misuse("--predict reads device files with PyYAML, which is not installed: pip install PyYAML")
    DeviceModel.load(options.predict)  # raises if it does not exist


def _plans(options: argparse.Namespace, coverages: Sequence[Coverage]) -> Iterator[tuple[str, int]]:
    """Yield each (schedule, seed) to run, without end for a budget of seconds."""
    if options.schedule == "search":
        runs = RUNS if options.runs is None and options.seconds is None else options.runs
        return itertools.islice(orders(coverages, options.seed), runs)
    return iter(DEFAULT if options.schedule == "all" else ((options.schedule, options.seed),))


def _processes(options: argparse.Namespace) -> int:
    """Return how many processes run schedules; 1 means none."""
    try:
        wanted = count_of(options.processes, name="--processes")
    except ValueError as error:
        raise Misuse(str(error)) from None
    if options.trace or options.schedule not in ("all", "search"):
        return 1
    return min(wanted, len(DEFAULT) if options.schedule == "all" else max((options.runs or RUNS) - 1, 1))


def _predicted(
    launches: list[Launch], call: Call, compiled: build.Build, options: argparse.Namespace
) -> Prediction | None:
    """Return the predicted time; None without --predict."""
    if options.predict is None:
        return None
    call.restore()
    time = predict(
        launches,
        options.predict,
        clock_mhz=options.clock_mhz,
        cache="cold" if options.cold else "warm",
        code=compiled.cubin,
    )
    print(f"predicted, not measured: {time.microseconds:.1f} µs on {time.device} at {time.sm_clock_mhz:.0f} MHz")
    for note in time.notes:
        print(f"    {note}")
    if time.assumed:
        print(f"    unmeasured parameters: {', '.join(time.assumed)}")
    return time


def _record(
    status: int, launches: list[Launch], outcomes: list[Outcome], coverages: list[Coverage], time: Prediction | None
) -> dict[str, Any]:
    shapes = [
        {"kernel": x.name, "grid": x.grid, "block": x.block, "cluster": x.cluster, "shared": x.dynamic_shared}
        for x in launches
    ]
    predicted = None if time is None else {"microseconds": time.microseconds, "device": time.device}
    runs = [output.record(outcome) for outcome in outcomes]
    coverage = [x.as_dict() for x in coverages]
    return {"status": status, "launches": shapes, "runs": runs, "coverage": coverage, "predicted": predicted}
