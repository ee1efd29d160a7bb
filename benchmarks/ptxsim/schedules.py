"""Planted bugs found per second of CPU: the search for a schedule beside the seven default ones, on all mutants.

`python benchmarks/ptxsim/schedules.py [--kernels WORD…] [--without-checks]` plants the bugs of
tests/test_planted_in_ours.py, tests/test_catalogue_mutants.py, tests/ptxsim/test_mutants.py and
tests/test_cute_sm100_mutants.py, one at a time, and runs each under both lists until it is found: with ptxsim's checks,
or with none of them but for deadlocks, bounds and misused barriers, where wrong numbers count as found. A line per
mutant, then totals, by the file that the mutants stand in, too; the kernels are compiled first, and their time is not
counted. NVIDIA's examples have to be there (`snakemake compiled`, or CUTESNAKE_UPSTREAM).
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import runpy
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("", "tests", "tests/ptxsim", "workflow/scripts")]

import ptxsim  # noqa: E402
from cutesnake.stages.simulate import simulation  # noqa: E402

RUNS = 7  # of a search: as many as there are default schedules
LISTS = ("defaults", "search")
# runs a mutant under a schedule and a seed; whether anything is wrong then, and what the run has covered
Run = Callable[[str, int], tuple[bool, list[Any]]]


@dataclass(frozen=True)
class Mutant:
    """A planted bug. `prepare` builds what has to be built, in a folder that may be used, and says how to run it."""

    file: str
    name: str
    prepare: Callable[[Path], Run]


@dataclass
class Tally:
    """What a list of schedules came to: bugs, those found, runs made until then, seconds of CPU."""

    bugs: int = 0
    found: int = 0
    runs: int = 0
    seconds: float = 0.0
    schedule: str = ""

    def add(self, other: Tally) -> None:
        self.bugs += other.bugs
        self.found += other.found
        self.runs += other.runs
        self.seconds += other.seconds

    def __str__(self) -> str:
        rate = self.found / self.seconds if self.seconds else 0.0
        found, spent = f"{self.found} of {self.bugs} found", f"{self.runs} runs, {self.seconds:.1f} s of CPU"
        return f"{found} in {spent}, {rate:.2f} a second"


def mutants(checks: tuple[str, ...]) -> Iterator[Mutant]:
    """All of them, run with these checks."""
    yield from of_the_catalogue()
    yield from of_examples(checks)
    yield from of_cute_sm100(checks)


def of_the_catalogue() -> Iterator[Mutant]:
    """Edits of the PTX of catalogue builds, run as the workflow's stage runs them."""
    import test_catalogue_mutants as catalogue
    import test_planted_in_ours as ours
    from planted import check

    def run_of(kernel: Any, edit: Callable[[str], str]) -> Callable[[Path], Run]:
        def prepare(_: Path) -> Run:
            kernel.folder()
            modules: dict[str, ptxsim.Module] = {}

            def run(schedule: str, seed: int) -> tuple[bool, list[Any]]:
                outcome = check(kernel, edit, [schedule], seed=seed, modules=modules)
                return outcome.caught, list(outcome.backend.coverage.values())

            return run

        return prepare

    for name, mutant in ours.MUTANTS.items():
        yield Mutant("test_planted_in_ours", name, run_of(mutant.kernel, mutant.edit))
    for name, (pattern, new, words) in catalogue.MUTANTS.items():
        for kernel in words:
            edit = run_of(catalogue.KERNELS[kernel], lambda text, p=pattern, n=new: re.sub(p, n, text))
            yield Mutant("test_catalogue_mutants", f"{kernel}: {name}", edit)


def of_examples(checks: tuple[str, ...]) -> Iterator[Mutant]:
    """Edits of the PTX of NVIDIA's examples, with wrong outputs told by their own references."""
    import test_mutants as examples

    found = runpy.run_path(str(ROOT / "tests/ptxsim/conftest.py"))  # there is another module of that name in tests
    built = partial(found["build"], found["find_examples"]())
    families = [
        ("tutorial GEMM", lambda: built("fp16_gemm_0"), examples.gemm_0, examples.GEMM_0),
        ("persistent GEMM", lambda: built("persistent_gemm", "pair"), examples.persistent, examples.PERSISTENT),
        ("rmsnorm", lambda: examples.test_examples.rmsnorm(16384), examples.rmsnorm, examples.RMSNORM),
        ("MLA decode", lambda: built("mla_fp16"), examples.mla, examples.MLA),
        ("Hopper GEMM", lambda: built("hopper_gemm", "f16"), examples.hopper, examples.HOPPER),
    ]

    def run_of(folder_of: Callable[[], Path], inputs: Any, edit: Callable[[str], str]) -> Callable[[Path], Run]:
        def prepare(_: Path) -> Run:
            folder = folder_of()
            make = inputs(folder)

            def run(schedule: str, seed: int) -> tuple[bool, list[Any]]:
                launches, wrong = make()
                launches = examples.mutant(folder, launches, edit)
                result = ptxsim.run(launches, schedule, seed, checks=checks)
                fresh = [f for f in result.findings if not re.search(examples.EXCHANGE, f.message)]
                return bool(fresh) or bool(wrong()), list(result.coverage)

            return run

        return prepare

    for kernel, folder_of, inputs, edits in families:
        for name, edit in edits.items():
            yield Mutant("ptxsim/test_mutants", f"{kernel}: {name}", run_of(folder_of, inputs, edit))
    late = run_of(families[1][1], lambda folder: examples.persistent(folder, 1024), examples.released_behind_the_load)
    yield Mutant("ptxsim/test_mutants", "persistent GEMM: an accumulator released before its load is there", late)


def of_cute_sm100(checks: tuple[str, ...]) -> Iterator[Mutant]:
    """Edits of the source of cute_sm100, each of which is a build."""
    import sm100_runs
    import test_cute_sm100_mutants as ours
    from kernels.mla_decode.operator import Workload

    def run_of(file: str, edit: tuple[str, str]) -> Callable[[Path], Run]:
        def prepare(place: Path) -> Run:
            folder = ours.build_edited(place, file, *edit)

            def wrong(lengths: tuple[int, ...], processors: int, order: tuple[str, int]) -> bool:
                workload = Workload(len(lengths), max(lengths), ours.dtype_of(file), paged=True)
                found = sm100_runs.faults(folder, workload, [order], lengths, processors, distribution="large")
                return next(found, None) is not None

            def run(schedule: str, seed: int) -> tuple[bool, list[Any]]:
                covered: list[Any] = []
                real = ptxsim.run

                def noted(*given: Any, **options: Any) -> Any:
                    result = real(*given, **{**options, "checks": checks})
                    covered.extend(result.coverage)
                    return result

                with mock.patch.object(ptxsim, "run", noted):
                    return any(wrong(*given, (schedule, seed)) for given in ours.tried(file)), covered

            return run

        return prepare

    for name, (file, *edit) in ours.MUTANTS.items():
        yield Mutant("test_cute_sm100_mutants", f"cute_sm100: {name}", run_of(file, tuple(edit)))


def until_found(run: Run, which: str) -> Tally:
    """One list of schedules, run by run, until something is wrong."""
    covered: list[Any] = []
    orders = iter(ptxsim.DEFAULT_SCHEDULES) if which == "defaults" else ptxsim.search_orders(covered)
    tally, start = Tally(bugs=1), time.process_time()
    with contextlib.redirect_stderr(io.StringIO()):
        while tally.runs < RUNS and not tally.found:
            name, seed = next(orders)
            try:
                wrong, seen = run(name, seed)
                tally.found = int(wrong)
                covered += [] if covered else seen
            except (ptxsim.PtxError, simulation.NotSimulatedError):
                tally.found = 1
            tally.runs += 1
            tally.schedule = f"{name} {seed}"
    tally.seconds = time.process_time() - start
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", nargs="*", default=[""], help="words of a mutant's name")
    parser.add_argument("--without-checks", action="store_true", help="without the checks that can be left out")
    options = parser.parse_args()
    checks = () if options.without_checks else ptxsim.DEFAULT_CHECKS
    totals: dict[tuple[str, str], Tally] = defaultdict(Tally)
    count = 0
    with mock.patch.object(ptxsim, "DEFAULT_CHECKS", checks), mock.patch.object(simulation, "MORE_CHECKS", ()):
        for mutant in mutants(checks):
            if not any(word in mutant.name for word in options.kernels):
                continue
            count += 1
            with tempfile.TemporaryDirectory() as place:
                run = mutant.prepare(Path(place))
                for which in LISTS[:: -1 if count % 2 else 1]:
                    tally = until_found(run, which)
                    for group in ("all", mutant.file):
                        totals[group, which].add(tally)
                    how = f"run {tally.runs}, {tally.schedule}" if tally.found else f"not in {tally.runs} runs"
                    print(f"{mutant.name} | {which} | found: {how} | {tally.seconds:.1f} s", flush=True)
    for (group, which), total in sorted(totals.items()):
        print(f"{group}, {which}: {total}")


if __name__ == "__main__":
    main()
