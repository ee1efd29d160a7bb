"""Correctness stage: a build against the operator's float32 reference, on every distribution, seed and related size.

Inputs change in place between launches of one binding, so that a launch that is not made, or a stale result, cannot
pass. Only the operator's PLANNED inputs (lengths, from which a schedule may be made) ask for a new binding when they
change. How a launch is made is the backend's: a GPU here, a simulator elsewhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from cutesnake import checker
from cutesnake.case import Case
from cutesnake.contract import Workload, load_kernel, load_operator

RELATIVE_DISTRIBUTIONS = ("randn", "ragged")  # on related sizes, with the first seed only


class Backend(Protocol):
    """Where a build runs. `device` is the torch device of its tensors, `name` goes into the record."""

    name: str
    device: str

    def bind(self, case: Case, workload: Workload, inputs: Any, outputs: Any) -> Callable[[], None]:
        """A call that computes outputs from inputs and returns when they are there.

        Raises ValueError where the kernel does not take such inputs (requests of unequal length, say).
        """


class CudaBackend:
    """The first visible GPU; launches go to a stream of their own."""

    name = "cuda"
    device = "cuda"

    def __init__(self) -> None:
        self._loaded: tuple[str, Any] | None = None

    def bind(self, case: Case, workload: Workload, inputs: Any, outputs: Any) -> Callable[[], None]:
        import torch

        if self._loaded is None or self._loaded[0] != case.build:
            self._loaded = (case.build, case.load())
        stream = torch.cuda.Stream()
        runner = self._loaded[1].bind(workload, inputs, outputs)
        finish = getattr(runner, "finish", None)  # completes what an upstream kernel leaves undone, untimed

        def run() -> None:
            torch.cuda.synchronize()  # inputs and poison are written on the default stream
            runner(stream.cuda_stream)
            stream.synchronize()
            if finish is not None:
                finish()
                torch.cuda.synchronize()

        return run


def check_case(case: Case, backend: Backend) -> tuple[dict[str, Any], str | None]:
    """Metrics of the case, and None or in one sentence what failed first."""
    checks: list[dict[str, Any]] = []
    skipped: list[dict[str, str]] = []
    for workload, distributions, seeds in _problems(case, skipped):
        problem = _Problem(case, workload, backend)
        for distribution in distributions:
            for seed in seeds:
                try:
                    checks.append(problem.check(distribution, seed))
                except _NotTakenError as error:
                    skipped.append({"workload": workload.id, "distribution": distribution, "reason": str(error)})
                    break
                if problem.broken:
                    return _metrics(checks, skipped), _first_reason(checks)
    return _metrics(checks, skipped), _first_reason(checks)


def _problems(case: Case, skipped: list[dict[str, str]]) -> Iterator[tuple[Workload, list[str], list[int]]]:
    """The workload itself, then the sizes its operator relates to it as far as this very build supports them."""
    operator, kernel = load_operator(case.operator), load_kernel(case.operator, case.kernel)
    seeds = list(case.settings["seeds"])
    wanted = [name for name in case.settings["distributions"] if name in operator.DISTRIBUTIONS]
    yield case.workload, wanted, seeds
    for workload in getattr(operator, "relatives", lambda _: ())(case.workload):
        reason = kernel.supports(workload)
        if reason is None and case.variant["id"] not in {v.id for v in kernel.variants(workload, case.target)}:
            reason = "needs a build of its own"
        if reason is not None:
            skipped.append({"workload": workload.id, "distribution": None, "reason": reason})
            continue
        yield workload, [name for name in RELATIVE_DISTRIBUTIONS if name in wanted] or wanted[:1], seeds[:1]


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
        self._inputs: checker.Guarded | None = None
        self._outputs: checker.Guarded | None = None
        self._run: Callable[[], None] | None = None
        self.broken = False

    def check(self, distribution: str, seed: int) -> dict[str, Any]:
        """One entry of the record's `checks`."""
        entry: dict[str, Any] = {
            "workload": self._workload.id,
            "distribution": distribution,
            "seed": seed,
            **dict.fromkeys(("relative_error", "same_precision_error", "worst_absolute_error"), None),
            **{"lse_absolute_error": None, "deterministic": None, "passed": False, "reason": None, "outputs": {}},
        }
        try:
            inputs = self._operator.make_inputs(self._workload, seed, self._backend.device, distribution)
            first, deterministic = self._compute(inputs)
            errors = self._errors(inputs, first)
        except _NotTakenError:
            raise
        except checker.GuardError as error:
            return {**entry, "reason": str(error)}
        except Exception as error:
            self.broken = True
            return {**entry, "reason": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
        return {**entry, **_entry(errors), "deterministic": deterministic}

    def _compute(self, inputs: Any) -> tuple[dict[str, Any], bool]:
        """Outputs of a poisoned launch, and whether a second one gave the same bits."""
        if self._inputs is None:
            self._inputs = checker.Guarded(inputs)
            self._outputs = checker.Guarded(self._operator.make_outputs(self._workload, self._backend.device))
        else:
            if not self._planned_alike(inputs):
                self._run = None
            self._inputs.assign(inputs)
        if self._run is None:
            try:
                self._run = self._backend.bind(self._case, self._workload, self._inputs.values, self._outputs.values)
            except ValueError as error:
                raise _NotTakenError(str(error)) from error
        snapshots = []
        for _ in range(2):
            self._outputs.poison()
            self._run()
            snapshots.append(checker.snapshot(self._outputs.values))
        self._outputs.check_bands("the output")
        self._inputs.check_bands("the input")
        self._inputs.check_same(inputs, "input")
        return snapshots[0], checker.equal_bits(*snapshots)

    def _planned_alike(self, inputs: Any) -> bool:
        """Whether the inputs that a binding may have looked at are those that it saw."""
        names = getattr(self._operator, "PLANNED", ())
        return all(bool((getattr(inputs, n) == getattr(self._inputs.values, n)).all()) for n in names)

    def _errors(self, inputs: Any, computed: dict[str, Any]) -> dict[str, checker.FieldError]:
        operator, workload = self._operator, self._workload
        reference = operator.reference(inputs, workload)
        same = operator.same_precision(inputs, workload)
        tolerance = operator.tolerance(workload.dtype)
        return checker.compare_outputs(operator.Outputs(**computed), reference, same, tolerance)


def _entry(errors: dict[str, checker.FieldError]) -> dict[str, Any]:
    plain = {name: error.as_dict() for name, error in errors.items()}
    main = next(iter(plain.values()))
    failed = next((name for name, error in errors.items() if not error.passed), None)
    return {
        "relative_error": main["relative_error"],
        "same_precision_error": main["same_precision_error"],
        "worst_absolute_error": main["worst_absolute_error"],
        "lse_absolute_error": plain["lse"]["worst_absolute_error"] if "lse" in plain else None,
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


def _metrics(checks: list[dict[str, Any]], skipped: list[dict[str, str]]) -> dict[str, Any]:
    known = [c["relative_error"] for c in checks if c["relative_error"] is not None]
    return {
        "checks": checks,
        "skipped": skipped,
        "passed": sum(c["passed"] for c in checks),
        "failed": sum(not c["passed"] for c in checks),
        "worst_relative_error": max(known, default=None),
        "deterministic": all(c["deterministic"] for c in checks if c["deterministic"] is not None),
    }


def _first_reason(checks: list[dict[str, Any]]) -> str | None:
    failed = next((c for c in checks if not c["passed"]), None)
    if failed is None:
        return None if checks else "no distribution of the configuration is one that the operator has"
    return f"{failed['workload']}, {failed['distribution']}, seed {failed['seed']}: {failed['reason']}"


def measure(case: Case) -> tuple[dict[str, Any], str | None]:
    """The stage in a GPU worker."""
    import torch

    torch.cuda.synchronize()  # makes the context: the workflow's cost, not the measurement's
    started = time.monotonic()
    metrics, reason = check_case(case, CudaBackend())
    return {**metrics, "measuring_seconds": round(time.monotonic() - started, 3)}, reason
