"""Cases in batches: one job measures many cases of a build, one after the other, each with a record of its own.

A job of Snakemake costs its main process tens of milliseconds and a place in the graph, and an executor more: with
thousands of cases that is most of the time. Simulated checks are in batches always. A batch has a record that names
those of its cases. Which of them have to be measured is decided in the job, by what each record says that it was made
from: a killed job loses the case under way, and a batch of which one case is stale measures one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from cutesnake.planning.matrix import PlannedCase

MANY = 2000  # checks and timings: with more, Snakemake's graph alone takes seconds of every start
TOGETHER = 50  # of them in a job then


@dataclass(frozen=True)
class Batch:
    """Cases of one stage, in one job; `key` is the name of its record below results/batch/, without its end."""

    stage: str
    key: str
    cases: tuple[PlannedCase, ...]

    @property
    def path(self) -> str:
        return f"results/batch/{self.key}.json"

    def records(self) -> list[str]:
        return [case.id.path(self.stage) for case in self.cases]


def cases_per_job(asked: int | None, measured: int) -> int:
    """How many cases a job measures: as asked for, or by how many there are to measure in all."""
    return asked or (TOGETHER if measured > MANY else 1)


def make_batches(stage: str, cases: Iterable[PlannedCase], size: int) -> list[Batch]:
    """The cases in their order, `size` to a batch, batches named by number."""
    found: dict[tuple[str, str], list[PlannedCase]] = {}
    for case in cases:
        found.setdefault((case.build.key, case.place), []).append(case)
    return [
        Batch(
            stage, f"{stage}/{build}/b{start // size}{'@' if place else ''}{place}", tuple(those[start : start + size])
        )
        for (build, place), those in found.items()
        for start in range(0, len(those), size)
    ]


def make_simulated(cases: Iterable[PlannedCase], live: Collection[str]) -> list[Batch]:
    """Batches of simulated checks of a kernel for a target: of the builds in `live`, and of the others."""
    found: dict[str, list[PlannedCase]] = {}
    for case in cases:
        build = case.build
        part = "simulated" if build.key in live else "simulated_rest"
        found.setdefault(f"{part}/{build.operator}/{build.kernel}/{build.target}", []).append(case)
    return [Batch("correctness", key, tuple(those)) for key, those in found.items()]
