"""Short lists by coverage: the fewest workloads that reach every basic block that any workload of a full list reaches.

`python -m cutesnake.simulate.short_list OPERATOR KERNEL TARGET` (with PYTHONPATH=workflow/scripts:.) compiles what the
lists of the operator's sweep.yaml need into a temporary folder, simulates each case of the full list once, and says
which cases would do, and which blocks the present short list does not reach.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from cutesnake.build.compile import compile_build
from cutesnake.catalog import load_kernel
from cutesnake.contract import Variant, Workload
from cutesnake.measure.case import Case
from cutesnake.measure.correctness import check_case
from cutesnake.plan.sweep import EXTENTS, Sweep, make_sweep, read_sweep
from cutesnake.simulate.simulation import NotSimulatedError, SimulatorBackend

FEW = 3  # so many cases are chosen by trying all sets of them, more by taking what reaches most next
SETTINGS = {"seeds": [0], "schedules": ["random"], "processors": 4}

Block = tuple[str, str, int]  # variant, device function, number of the block


@dataclass(frozen=True)
class Candidate:
    """A case of a list: a workload and what its inputs are drawn from."""

    workload: Workload
    distribution: str

    def __str__(self) -> str:
        return f"{self.workload.id}, {self.distribution}"


def smallest(reached: Mapping[Candidate, frozenset[Block]]) -> list[Candidate]:
    """The fewest cases that together reach all that any reaches; of sets as small, the first in the order given."""
    everything = union(reached.values())
    for size in range(FEW + 1):
        for chosen in itertools.combinations(reached, size):
            if union(reached[case] for case in chosen) == everything:
                return list(chosen)
    taken: list[Candidate] = []
    missing = set(everything)
    while missing:
        taken.append(max(reached, key=lambda case: len(reached[case] & missing)))
        missing -= reached[taken[-1]]
    for case in list(taken):
        if union(reached[other] for other in taken if other != case) == everything:
            taken.remove(case)
    return taken


def union(parts: Iterable[frozenset[Block]]) -> frozenset[Block]:
    return frozenset(itertools.chain.from_iterable(parts))


def reach(
    operator: str, kernel: str, target: str, case: Candidate, folder_of: Callable[[Variant], Path]
) -> frozenset[Block]:
    """The blocks that a case reaches under one schedule. Raises NotSimulatedError where it cannot be simulated."""
    variant = load_kernel(operator, kernel).variants(case.workload, target)[0]
    asked = Case(
        stage="correctness",
        operator=operator,
        kernel=kernel,
        target=target,
        variant={"id": variant.id, "params": dict(variant.params)},
        parameters=asdict(case.workload),
        build=str(folder_of(variant)),
        settings={**SETTINGS, "distributions": [case.distribution]},
    )
    backend = SimulatorBackend(asked)
    check_case(asked, backend)
    return frozenset((variant.id, name, n) for name, covered in backend.coverage.items() for n in covered.visited)


def candidates(sweep: Sweep, kernel: str, target: str, extent: str) -> list[Candidate]:
    """The cases of a list of the sweep that the kernel takes."""
    module = load_kernel(sweep.operator, kernel)
    dtypes = sweep.dtypes_for(target)
    workloads = [w for w in sweep.simulated(extent) if w.dtype in dtypes and module.supports(w) is None]
    names = sweep.simulation.get(extent, {}).get("distributions", sweep.distributions)
    return [Candidate(w, name) for w in workloads for name in names]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("operator", "kernel", "target"):
        parser.add_argument(name)
    asked = parser.parse_args()
    where = (asked.operator, asked.kernel, asked.target)
    sweep = make_sweep(asked.operator, read_sweep(asked.operator, {}))
    with tempfile.TemporaryDirectory() as folder:

        def folder_of(variant: Variant) -> Path:
            place = Path(folder, "compile", *where, variant.id)
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                compile_build(*where, variant, place)
            return place

        lists = {extent: _reached(sweep, where, extent, folder_of) for extent in EXTENTS}
    everything = union(part for found in lists.values() for part in found.values())
    for case in (chosen := smallest(lists["full"])):
        print(f"{case}: {len(lists['full'][case])} blocks")
    missed = everything - union(lists["short"].values())
    print(
        f"{len(chosen)} of {len(lists['full'])} cases of the full list reach all blocks that it reaches; "
        f"the short list misses {len(missed)} of {len(everything)}"
    )


def _reached(
    sweep: Sweep, where: tuple[str, str, str], extent: str, folder_of: Callable[[Variant], Path]
) -> dict[Candidate, frozenset[Block]]:
    """Every case of a list with what it reaches; those that cannot be simulated are left out, and said."""
    found = {}
    for case in candidates(sweep, *where[1:], extent):
        try:
            found[case] = reach(*where, case, folder_of)
        except NotSimulatedError as error:
            print(f"{case}: {error}", file=sys.stderr)
    return found


if __name__ == "__main__":
    main()
