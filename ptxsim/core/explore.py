"""Search schedules within a budget."""

from collections.abc import Callable, Iterable
from datetime import timedelta

from .adversarial import RUNS
from .launch import Launch
from .result import Result
from .run import DEFAULT_CHECKS, run


def explore(
    launches: Launch | Iterable[Launch],
    budget: int | timedelta = RUNS,
    *,
    checks: Iterable[str] = DEFAULT_CHECKS,
    judge: Callable[[], str | None] | None = None,
    seed: int = 0,
) -> Result:
    """Run launches under one adversarial schedule after another until something is wrong.

    budget: how many runs, or how long. judge: looks at the outputs after each run and returns what is wrong, or None.
    `Result.schedule` names the schedule of the failing run, `Result.tried` all of them. Each run starts with the same
    memory. Raises ValueError for a budget that is not positive.
    """
    runs, seconds = (budget, None) if isinstance(budget, int) else (None, budget.total_seconds())
    if (runs if runs is not None else seconds or 0) <= 0:
        raise ValueError(f"budget {budget}: right would be a number of runs or a timedelta above zero")
    return run(launches, "search", seed, checks=checks, judge=judge, runs=runs, seconds=seconds)
