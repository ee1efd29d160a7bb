"""Correctness stage: compare a build with the float32 reference over inputs and sizes.

Inputs change in place between launches of one binding, so that a launch that is not made, or a stale result, cannot
pass. Only the operator's PLANNED inputs (lengths, from which a schedule may be made) ask for a new binding when they
change; where a runner can plan, every other such change is planned for in the old binding instead. How a launch is made
is the backend's: a GPU here, a simulator (`cutesnake.stages.simulate.simulation`) elsewhere.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.contract import Workload
from cutesnake.runtime.machine_faults import MachineFaultError, machine_fault
from cutesnake.stages.load.build import LoadedBuild
from cutesnake.stages.measure import checker
from cutesnake.stages.measure.case import Case


@dataclass(frozen=True)
class Bound:
    """A bound call.

    `run` computes outputs from inputs in the order of events that a schedule and a seed stand for, where the backend
    can choose it; it returns when they are there, with what the backend found wrong on the way, in sentences. `plan`
    makes the kernel's schedule again for the PLANNED inputs as they are now, where its runner can.
    """

    run: Callable[[str | None, int], Sequence[str] | None]
    plan: Callable[[], None] | None = None


class Backend(Protocol):
    """Where a build runs: `device` of its tensors, and `name` for the record.

    Every check launches once for each of `schedules`; a GPU has none, and None twice. `relatives` says whether sizes
    that the operator relates to a case's are checked with it.
    """

    name: str
    device: str
    schedules: tuple[str | None, ...]
    relatives: bool

    def bind(self, case: Case, workload: Workload, inputs: Any, outputs: Any) -> Bound:
        """Return a call that computes outputs from inputs.

        Raises ValueError where the kernel does not take such inputs (requests of unequal length, say).
        """


class CudaBackend:
    """The first visible GPU; launches go to a stream of their own."""

    name = "cuda"
    device = "cuda"
    schedules: tuple[str | None, ...] = (None, None)
    relatives = True

    def __init__(self) -> None:
        self._build: LoadedBuild | None = None

    def bind(self, case: Case, workload: Workload, inputs: Any, outputs: Any) -> Bound:
        """Return a call that computes outputs from inputs on the GPU."""
        import torch

        if self._build is None or self._build.folder != Path(case.build):
            self._build = LoadedBuild(Path(case.build))
        stream = torch.cuda.Stream()
        runner = case.bind(workload, inputs, outputs, self._build)

        def run(schedule: str | None, seed: int) -> None:
            torch.cuda.synchronize()  # inputs and poison are written on the default stream
            runner(stream.cuda_stream)
            stream.synchronize()
            runner.finish()
            torch.cuda.synchronize()

        def plan() -> None:
            torch.cuda.synchronize()
            if runner.plan is not None:
                runner.plan(stream.cuda_stream)
            stream.synchronize()

        return Bound(run, plan if runner.plan else None)


def check_case(case: Case, backend: Backend) -> tuple[dict[str, Any], str | None]:
    """Metrics of the case, and None or in one sentence what failed first."""
    checks: list[dict[str, Any]] = []
    skipped: list[dict[str, str | None]] = []
    for workload, distributions, seeds in _problems(case, backend, skipped):
        problem = _Problem(case, workload, backend)
        for distribution in distributions:
            for seed in seeds:
                try:
                    checks.append(problem.check(distribution, seed))
                except _NotTakenError as error:
                    skipped.append({"workload": workload.id, "distribution": distribution, "reason": str(error)})
                    break
                if problem.broken:
                    return _metrics(checks, skipped), _first_reason(checks, skipped)
    return _metrics(checks, skipped), _first_reason(checks, skipped)


def _problems(
    case: Case, backend: Backend, skipped: list[dict[str, str | None]]
) -> Iterator[tuple[Workload, list[str], list[int]]]:
    """Yield the workload, then related sizes that this build supports, with the first seed.

    Last, on the workload itself, the distributions beyond what the kernel promises: what they break cannot be checked.
    """
    operator, kernel = load_operator(case.operator), load_kernel(case.operator, case.kernel)
    seeds = list(case.settings["seeds"])
    known = [name for name in case.settings["distributions"] if name in operator.DISTRIBUTIONS]
    wanted = [name for name in known if name not in kernel.UNSUPPORTED]
    yield case.workload, wanted, seeds
    for workload in operator.relatives(case.workload) if backend.relatives else ():
        reason = kernel.supports(workload)
        if reason is None and case.variant["id"] not in {v.id for v in kernel.variants(workload, case.target)}:
            reason = "needs a build of its own"
        if reason is not None:
            skipped.append({"workload": workload.id, "distribution": None, "reason": reason})
            continue
        yield workload, [name for name in operator.RELATED if name in wanted] or wanted[:1], seeds[:1]
    yield case.workload, [name for name in known if name in kernel.UNSUPPORTED], seeds


class _NotTakenError(Exception):
    """The kernel says that it does not take these inputs."""


class _Problem:
    """One problem size, bound as seldom as its inputs allow.

    `broken` after an exception: the context may be lost, nothing more can run.
    """

    def __init__(self, case: Case, workload: Workload, backend: Backend) -> None:
        self._case = case
        self._workload = workload
        self._backend = backend
        self._operator = load_operator(case.operator)
        self._unsupported = load_kernel(case.operator, case.kernel).UNSUPPORTED
        self._inputs: checker.Guarded | None = None
        self._outputs: checker.Guarded | None = None
        self._bound: Bound | None = None
        self._planned = False  # whether the last change of PLANNED inputs was planned for, not bound
        self.broken = False

    def check(self, distribution: str, seed: int) -> dict[str, Any]:
        """One entry of the record's `checks`."""
        entry: dict[str, Any] = {
            "workload": self._workload.id,
            "distribution": distribution,
            "seed": seed,
            **dict.fromkeys(("relative_error", "same_precision_error", "worst_absolute_error"), None),
            **{"deterministic": None, "passed": False, "reason": None, "outputs": {}},
        }
        if distribution in self._unsupported:
            entry["outside"] = self._unsupported[distribution]
        try:
            inputs = self._operator.make_inputs(self._workload, seed, self._backend.device, distribution)
            computed, result = self._compute(inputs, seed)
            errors = self._worst_errors(inputs, computed)
        except _NotTakenError:
            raise
        except checker.GuardError as error:
            return {**entry, "reason": str(error)}
        except Exception as error:
            if fault := machine_fault(error):
                raise MachineFaultError(fault) from error
            self.broken = True
            reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            return {**entry, "reason": reason, "unknown_opcode": getattr(error, "unknown_opcode", None)}
        deterministic = len(computed) == 1 if len(self._backend.schedules) > 1 else None
        return {**entry, **_entry(errors), "deterministic": deterministic, **self._problem(result)}

    def _problem(self, result: dict[str, list[str]]) -> dict[str, Any]:
        """Return an entry's findings where launches have schedules: any fails it."""
        if None in self._backend.schedules:
            return {}
        message = [f"schedule {schedule}: {finding}" for schedule, findings in result.items() for finding in findings]
        extra = {"schedules": list(self._backend.schedules), "findings": message}
        return {**extra, "passed": False, "reason": message[0]} if message else extra

    def _compute(self, inputs: Any, seed: int) -> tuple[list[dict[str, Any]], dict[str, list[str]]]:
        """Return the distinct outputs of poisoned launches, and findings by schedule."""
        supplied, outputs = self._take(inputs)
        if self._bound is None:
            try:
                self._bound = self._backend.bind(self._case, self._workload, supplied.values, outputs.values)
            except ValueError as error:
                raise _NotTakenError(str(error)) from error
        distinct: list[dict[str, Any]] = []
        result: dict[str, list[str]] = {}
        for schedule in self._backend.schedules:
            outputs.poison()
            result[str(schedule)] = list(self._bound.run(schedule, seed) or ())
            snapshot = checker.snapshot(outputs.values)
            if not any(checker.equal_bits(snapshot, other) for other in distinct):
                distinct.append(snapshot)
        outputs.check_bands("the output")
        supplied.check_bands("the input")
        supplied.check_same(inputs, "input")
        return distinct, result

    def _take(self, inputs: Any) -> tuple[checker.Guarded, checker.Guarded]:
        """Return guarded copies to launch on; earlier copies are changed in place if possible."""
        if self._inputs is None or self._outputs is None or not self._inputs.fits(inputs):
            self._bound = None
            self._inputs = checker.Guarded(inputs)
            self._outputs = checker.Guarded(self._operator.make_outputs(self._workload, self._backend.device))
        else:
            equivalent = self._equal_plans(inputs, self._inputs.values)
            self._inputs.assign(inputs)
            if not equivalent:
                self._plan_or_unbind()
        return self._inputs, self._outputs

    def _plan_or_unbind(self) -> None:
        """Alternate between `plan` and a new binding when PLANNED inputs change."""
        if self._bound is not None and self._bound.plan is not None and not self._planned:
            self._bound.plan()
            self._planned = True
        else:
            self._bound, self._planned = None, False

    def _equal_plans(self, inputs: Any, known: Any) -> bool:
        """Return whether the PLANNED inputs equal those seen by the binding, `known`."""
        return all(bool((getattr(inputs, name) == getattr(known, name)).all()) for name in self._operator.PLANNED)

    def _worst_errors(self, inputs: Any, computed: list[dict[str, Any]]) -> dict[str, checker.FieldError]:
        """Errors of the launch that is furthest off: launches whose bits differ are judged each."""
        operator, workload = self._operator, self._workload
        reference = operator.reference(inputs, workload)
        same = operator.same_precision(inputs, workload)
        tolerance = operator.tolerance(workload.dtype)
        compared = (checker.compare_outputs(operator.Outputs(**c), reference, same, tolerance) for c in computed)
        return max(compared, key=_badness)


def _badness(errors: dict[str, checker.FieldError]) -> tuple[bool, float]:
    """Failed before passed, then by the first output's error; no number is the worst."""
    error = next(iter(errors.values())).relative_error
    return not all(e.passed for e in errors.values()), error if error == error else float("inf")


def _entry(errors: dict[str, checker.FieldError]) -> dict[str, Any]:
    plain = {name: error.as_dict() for name, error in errors.items()}
    main = next(iter(plain.values()))
    failed = next((name for name, error in errors.items() if not error.passed), None)
    return {
        "relative_error": main["relative_error"],
        "same_precision_error": main["same_precision_error"],
        "worst_absolute_error": main["worst_absolute_error"],
        "passed": failed is None,
        "reason": None if failed is None else _why(failed, errors[failed]),
        "outputs": plain,
    }


def _why(name: str, error: checker.FieldError) -> str:
    if error.unwritten:
        return f"{error.unwritten} elements of {name} are NaN: never written, or computed from NaN"
    if not error.relative_error <= error.limit:
        return f"error of {name} is {error.relative_error:.2e}, allowed {error.limit:.2e}"
    return f"error of the worst row of {name} is {error.worst_row_error:.2e}, allowed {error.row_limit:.2e}"


def _metrics(checks: list[dict[str, Any]], skipped: list[dict[str, str | None]]) -> dict[str, Any]:
    promised = [c for c in checks if "outside" not in c]
    known = [c["relative_error"] for c in promised if c["relative_error"] is not None]
    return {
        "checks": checks,
        "skipped": skipped,
        "passed": sum(c["passed"] for c in promised),
        "failed": sum(not c["passed"] for c in promised),
        "worst_relative_error": max(known, default=None),
        "deterministic": all(c["deterministic"] for c in promised if c["deterministic"] is not None),
    }


def _first_reason(checks: list[dict[str, Any]], skipped: list[dict[str, Any]]) -> str | None:
    promised = [c for c in checks if "outside" not in c]
    failed = next((c for c in promised if not c["passed"]), None)
    if failed is None and promised:
        return None
    if failed is None:
        refused = next(
            (s["reason"] for s in skipped), "no distribution of the configuration is one that the operator has"
        )
        return f"nothing could be checked: {refused}"
    return f"{failed['workload']}, {failed['distribution']}, seed {failed['seed']}: {failed['reason']}"


def measure(case: Case) -> tuple[dict[str, Any], str | None]:
    """Run the stage in a GPU worker."""
    import torch

    torch.cuda.synchronize()  # makes the context: the workflow's cost, not the measurement's
    started = time.monotonic()
    metrics, reason = check_case(case, CudaBackend())
    return {**metrics, "measuring_seconds": round(time.monotonic() - started, 3)}, reason
