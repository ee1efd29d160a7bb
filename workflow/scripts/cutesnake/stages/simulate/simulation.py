"""Check correctness without a GPU: a build executed by ptxsim on a CPU.

Every launch of a CuTe build is captured from the build's own object; a cuTile build's launches are the binding's, with
TMA descriptors by the host code in its cubins. Each runs under each of the schedules asked for; a finding of the
simulator (a race, a read of what nobody wrote, a deadlock, …) fails a case like a wrong number.
"""

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.contract import OWN, Workload
from cutesnake.model.dsls import DSLS
from cutesnake.model.targets import TARGETS
from cutesnake.runtime.errors import describe
from cutesnake.runtime.machine_faults import MachineFaultError, machine_fault
from cutesnake.stages.measure import checker
from cutesnake.stages.measure.case import Case, make_record
from cutesnake.stages.measure.correctness import Bound, check_case
from cutesnake.stages.simulate.capture import Catcher

NAME = "ptxsim"
LIMIT_SECONDS = 1800.0  # of one case; cases of the configuration take seconds
AGAIN_S = 5.0  # between two attempts to end a case that has reached its limit, at most
# More than ptxsim makes by itself: a page's index past the cache, read by TMA as zeros. For this project's CuTe kernels
# only: cuTile's loads with padding mean just that, and NVIDIA's block-scaled products round their scales up so.
MORE_CHECKS = ("outside",)
SEARCH, SEARCH_RUNS = "search", 8  # as a schedule of the configuration, and how many runs it then stands for


class NotSimulatedError(RuntimeError):
    """What ptxsim does not execute, or the time limit, in one sentence."""

    unknown_opcode: str | None = None


class SimulatorBackend:
    """ptxsim in this process, on one core. `say` is given a line after each launch."""

    name = NAME
    device = "cpu"
    catcher = Catcher
    relatives = False  # every size that is wanted is in the configuration: a simulated launch takes seconds

    def __init__(self, case: Case, say: Callable[[str], None] = lambda line: None) -> None:
        import ptxsim

        self.schedules: tuple[str | None, ...] = tuple(_schedules(case.settings))
        self.launches = 0
        self.counts: list[dict[str, Any]] | None = None  # of the first run of the case, one per launch
        self.coverage: dict[str, Any] = {}  # kernel → what all runs of the case have exercised of it
        self._orders: list[tuple[str, int]] = []  # the schedules that a search has come to
        self._more_orders = ptxsim.search_orders(self.coverage.values())
        processors = case.settings.get("processors") or TARGETS[case.target].simulated_processors
        assert processors is not None  # the plan simulates no other target
        self.processors: int = processors
        self._folder = Path(case.build)
        self._say = say
        self._caught: Catcher | None = None

    def keep_translations(self) -> None:
        """Leave what was made of the case's PTX to other jobs of the run."""
        if self._caught is not None:
            self._caught.keep_translations()

    def bind(self, case: Case, workload: Workload, inputs: Any, outputs: Any) -> Bound:
        """Return a call that simulates the build's launches."""
        import ptxsim

        names = {tensor.data_ptr(): name for group in (inputs, outputs) for name, tensor in checker.tensors(group)}
        order: dict[str, Any] = {"planned": []}
        module = load_kernel(case.operator, case.kernel)
        more = MORE_CHECKS if module.DSL == "cute" and module.SOURCE == OWN else ()
        checks = tuple(c for c in (*ptxsim.DEFAULT_CHECKS, *more) if c not in DSLS[module.DSL].unchecked)
        self._caught = self.catcher(case, lambda launches: self._run(launches, order, checks), self.processors, names)
        with self._caught.opened():
            runner = case.bind(workload, inputs, outputs)

        def simulated(call: Callable[[int], Any]) -> None:
            try:
                call(0)
            except (ptxsim.PtxError, ptxsim.CaptureError) as error:
                refused = NotSimulatedError(_plain(f"ptxsim cannot run it: {error}"))
                refused.unknown_opcode = getattr(error, "opcode", None)
                raise refused from error

        def run(schedule: str | None, seed: int) -> list[str]:
            name, drawn = self._order(str(schedule), seed)
            order.update(schedule=name, seed=drawn, results=order["planned"], first=self.counts is None, planned=[])
            simulated(runner)
            runner.finish()
            findings = [finding for result in order["results"] for finding in result.findings]
            seconds = sum(result.seconds for result in order["results"])
            count = f"{len(findings)} finding{'s' * (len(findings) != 1)}"
            under = name if name == schedule else f"{schedule} ({name}, seed {drawn})"
            self._say(f"{workload.id}, seed {seed}, schedule {under}: {count}, {seconds:.1f} s")
            return [_plain(str(finding) + ("" if name == schedule else f" under {name}")) for finding in findings]

        def plan() -> None:
            """Plan; findings count for the call after it."""
            name, drawn = self._order(str(self.schedules[0]), 0)
            order.update(schedule=name, seed=drawn, results=[], first=False)
            if runner.plan is not None:
                simulated(runner.plan)
            order["planned"] = order["results"]

        return Bound(run, plan if runner.plan else None)

    def _order(self, schedule: str, seed: int) -> tuple[str, int]:
        """Return ptxsim's name and seed of a schedule; of a search, by run."""
        if not schedule.startswith(SEARCH):
            return schedule, seed
        number = int(schedule.removeprefix(SEARCH))
        while len(self._orders) < number:  # one is asked for when those before it have run: they say what to aim at
            self._orders.append(next(self._more_orders))
        name, drawn = self._orders[number - 1]
        return name, seed + drawn

    def _run(self, launches: list[Any], order: dict[str, Any], checks: Sequence[str]) -> None:
        import ptxsim

        # counting unique bytes takes a little time
        result = ptxsim.run(
            launches, order["schedule"], order["seed"], checks=checks, track=order["first"], processes=1
        )
        order["results"].append(result)
        self.launches += len(launches)
        for covered in result.coverage:
            self.coverage.setdefault(covered.kernel, covered).merge(covered)
        if order["first"]:
            matches = zip(launches, result.counts, strict=False)  # fewer counts after a deadlock
            counts = [{"kernel": launch.kernel.name, **counts.as_dict()} for launch, counts in matches]
            self.counts = [*(self.counts or []), *counts]


def _schedules(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the schedules of a case, a search run by run."""
    for name in settings["schedules"]:
        runs = settings.get("search_runs", SEARCH_RUNS)
        yield from [f"{SEARCH} {n + 1}" for n in range(runs)] if name == SEARCH else [name]


def simulate(case: Case, log: Path | str | None = None, limit_s: float = LIMIT_SECONDS) -> dict[str, Any]:
    """Return the record of a case; progress goes to `log` and stderr, per launch."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = "1"  # a job takes one core, and the products here are small
    import torch

    torch.set_num_threads(1)
    began = time.monotonic()
    with _progress(case, log) as say:
        backend = SimulatorBackend(case, say)
        try:
            with time_limit(limit_s):
                metrics, reason = check_case(case, backend)
        except NotSimulatedError as error:
            if fault := machine_fault(error):
                raise MachineFaultError(fault) from error
            metrics, reason = None, str(error)
        backend.keep_translations()
        seconds = time.monotonic() - began
        if metrics is not None:
            metrics["simulated"] = _simulated(case, backend)
            metrics["measuring_seconds"] = round(seconds, 3)
            for warning in metrics["simulated"]["warnings"]:
                say(f"warning: {warning}")
        say(f"{'failed: ' + reason if reason else 'right under every schedule'}, {seconds:.1f} s in all")
    return make_record(case, metrics, reason, backend=NAME, seconds=seconds)


def _simulated(case: Case, backend: SimulatorBackend) -> dict[str, Any]:
    """Return ptxsim's counts of the first run and the operator's cost."""
    launches = backend.counts or []
    cost = load_operator(case.operator).cost(case.workload)
    covered = [{**covered.as_dict(), "kernel": name} for name, covered in backend.coverage.items()]
    return {
        "launches_run": backend.launches,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "launches": launches,
        "cost": {"flops": cost.flops, "bytes_read": cost.bytes_read, "bytes_written": cost.bytes_written},
        "processors": backend.processors,
        "coverage": covered,
        "warnings": [f"{kernel['kernel']}: {note}" for kernel in covered for note in kernel["notes"]],
    }


def _plain(text: str) -> str:
    """Without this machine's part of paths."""
    return describe(RuntimeError(text))


@contextmanager
def _progress(case: Case, log: Path | str | None) -> Iterator[Callable[[str], None]]:
    if log is not None:
        Path(log).parent.mkdir(parents=True, exist_ok=True)
        Path(log).write_text("")

    def say(line: str) -> None:
        print(f"{NAME}: {case.operator}/{case.kernel}/{case.target}: {line}", file=sys.stderr, flush=True)
        if log is not None:
            with Path(log).open("a") as stream:
                stream.write(f"{line}\n")

    yield say


@contextmanager
def time_limit(seconds: float, processor: bool = False) -> Iterator[None]:
    """Raise NotSimulatedError in the body after `seconds`. In the main thread only, as signals are.

    `processor`: count the process's processor time, which other jobs do not lengthen, instead of wall time.
    It is raised again and again until the body ends: Python drops what is raised in a finalizer.
    """

    def ring(number: int, frame: Any) -> None:
        kind = "processor time" if processor else "time"
        raise NotSimulatedError(f"ended by the {kind} limit of {seconds:g} s: the case is too large to simulate")

    timer, number = (signal.ITIMER_PROF, signal.SIGPROF) if processor else (signal.ITIMER_REAL, signal.SIGALRM)
    before = signal.signal(number, ring)
    signal.setitimer(timer, seconds, min(seconds, AGAIN_S))
    try:
        yield
    finally:
        signal.setitimer(timer, 0)
        signal.signal(number, before)
