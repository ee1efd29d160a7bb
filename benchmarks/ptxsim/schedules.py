"""Planted bugs found per second of CPU: the search for a schedule beside the seven default ones, on all mutants.

`python benchmarks/ptxsim/schedules.py [--kernels WORD…]` plants the bugs of tests/test_planted_in_ours.py and
tests/test_catalogue_mutants.py, one at a time, and runs each under both lists until it is found, once with ptxsim's
checks and once with none of them but for deadlocks, bounds and misused barriers, where wrong numbers count as found.
A line per mutant, then totals; the kernels are compiled first, and their time is not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / part) for part in ("", "tests", "workflow/scripts")]

import ptxsim  # noqa: E402
from cutesnake.simulate import simulation  # noqa: E402

RUNS = 7  # of a search: as many as there are default schedules
LISTS = ("defaults", "search")
Edit = Callable[[str], str]


@dataclass
class Tally:
    """What a list of schedules came to: bugs found, runs made until then, seconds of CPU."""

    found: int = 0
    runs: int = 0
    seconds: float = 0.0
    schedule: str = ""

    def add(self, other: Tally) -> None:
        self.found += other.found
        self.runs += other.runs
        self.seconds += other.seconds


def mutants() -> Iterator[tuple[str, Any, Edit]]:
    """(name, kernel, edit) of each."""
    import test_catalogue_mutants as catalogue
    import test_planted_in_ours as ours

    for name, mutant in ours.MUTANTS.items():
        yield name, mutant.kernel, mutant.edit
    for name, (pattern, new, words) in catalogue.MUTANTS.items():
        for kernel in words:
            yield f"{kernel}: {name}", catalogue.KERNELS[kernel], lambda text, p=pattern, n=new: re.sub(p, n, text)


def until_found(kernel: Any, edit: Edit, which: str) -> Tally:
    """One list of schedules, run by run, until something is wrong."""
    from planted import check

    kernel.folder()  # compiled, if it was not
    modules: dict[str, ptxsim.Module] = {}
    covered: list[Any] = []
    orders = iter(ptxsim.DEFAULT_SCHEDULES) if which == "defaults" else ptxsim.search_orders(covered)
    tally, start = Tally(), time.process_time()
    with contextlib.redirect_stderr(io.StringIO()):
        while tally.runs < RUNS and not tally.found:
            name, seed = next(orders)
            try:
                outcome = check(kernel, edit, [name], seed=seed, modules=modules)
                tally.found = int(outcome.caught)
                covered += [] if covered else outcome.backend.coverage.values()
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
    totals = {which: Tally() for which in LISTS}
    count = 0
    with mock.patch.object(ptxsim, "DEFAULT_CHECKS", checks), mock.patch.object(simulation, "MORE_CHECKS", ()):
        for name, kernel, edit in mutants():
            if not any(word in name for word in options.kernels):
                continue
            count += 1
            for which in LISTS[:: -1 if count % 2 else 1]:
                tally = until_found(kernel, edit, which)
                totals[which].add(tally)
                how = (
                    f"found in run {tally.runs}, {tally.schedule}" if tally.found else f"not found in {tally.runs} runs"
                )
                print(f"{name} | {which} | {how} | {tally.seconds:.1f} s", flush=True)
    for which, total in totals.items():
        spent = f"{total.runs} runs, {total.seconds:.0f} s of CPU, {total.found / total.seconds:.2f} a second"
        print(f"{which}: {total.found} of {count} found in {spent}")


if __name__ == "__main__":
    main()
