"""Group cases into batches: one job measures many cases of a build.

A job of Snakemake costs its main process tens of milliseconds and a place in the graph, and an executor more. With
thousands of cases this is most of the time. Simulated checks are always in batches. The record of a batch names the
records of its cases. The job decides by each record's provenance which cases to measure: a killed job loses only the
running case, and a batch with one stale case measures one.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from cutesnake.planning.matrix import PlannedCase

MANY = 2000  # checks and timings: with more, Snakemake's graph alone takes seconds of every start
TOGETHER = 50  # of them in a job then


@dataclass(frozen=True)
class Batch:
    """Cases of one stage in one job; `key` names its record below results/batch/."""

    stage: str
    key: str
    cases: tuple[PlannedCase, ...]

    @property
    def path(self) -> str:
        """Return the path of the batch's record."""
        return f"results/batch/{self.key}.json"

    def records(self) -> list[str]:
        """Return the paths of the cases' records."""
        return [case.id.path(self.stage) for case in self.cases]


def cases_per_job(asked: int | None, measured: int) -> int:
    """Return the number of cases of a job: as configured, or by their total."""
    return asked or (TOGETHER if measured > MANY else 1)


def make_batches(stage: str, cases: Iterable[PlannedCase], size: int) -> list[Batch]:
    """Return the cases in their order, `size` to a batch, batches numbered."""
    result: dict[tuple[str, str], list[PlannedCase]] = {}
    for case in cases:
        result.setdefault((case.build.key, case.place), []).append(case)
    return [
        Batch(
            stage, f"{stage}/{build}/b{start // size}{'@' if place else ''}{place}", tuple(those[start : start + size])
        )
        for (build, place), those in result.items()
        for start in range(0, len(those), size)
    ]


def make_simulated(cases: Iterable[PlannedCase], checking: Collection[str]) -> list[Batch]:
    """Return batches of simulated checks; cases outside `checking` get their own batches."""
    result: dict[str, list[PlannedCase]] = {}
    for case in cases:
        part = "simulated" if case.key in checking else "simulated_rest"
        result.setdefault(f"{part}/{case.id.family}", []).append(case)
    return [Batch("correctness", key, tuple(those)) for key, those in result.items()]
