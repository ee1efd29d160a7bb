"""Schedule search with a budget: run adversarial schedules until one finds a fault."""

import time
from collections.abc import Callable, Sequence
from typing import Any

from .adversarial import RUNS, orders
from .coverage import Coverage
from .finding import Finding
from .launch import Launch
from .result import Result
from .snapshot import Snapshot


def search(
    launches: Sequence[Launch],
    run: Callable[..., Result],
    seed: int = 0,
    *,
    runs: int | None = None,
    seconds: float | None = None,
    judge: Callable[[], str | None] | None = None,
    **options: Any,
) -> Result:
    """Return the first faulty Result of `run`, else the first, with all coverage.

    The budget is `runs` or `seconds` (default 24 runs). Memory holds what the faulty run, or the last one, wrote.
    `judge` is called after each run and returns a sentence if the outputs are wrong.
    """
    if runs is None and seconds is None:
        runs = RUNS
    start, before = time.perf_counter(), Snapshot(launches)
    covered: list[Coverage] = []
    tried: list[tuple[str, int]] = []
    first: Result | None = None
    for name, number in orders(covered, seed):
        if tried:
            before.restore()
        result = run(launches, name, number, **options)
        tried.append((name, number))
        verdict = judge() if judge is not None else None
        if verdict is not None:
            result.findings.append(Finding("wrong", verdict, launches[-1].name if launches else ""))
        if first is None:
            first = result
            covered += result.coverage
        else:
            for known, more in zip(covered, result.coverage, strict=False):
                known.merge(more)
        spent = time.perf_counter() - start
        over = (runs is not None and len(tried) >= runs) or (seconds is not None and spent >= seconds)
        if result.findings or over:
            chosen = result if result.findings else first
            chosen.tried, chosen.coverage, chosen.seconds = tried, covered, spent
            return chosen
    raise AssertionError("orders have no end")
