"""Find the fewest workloads that reach every basic block of a full list.

`python -m cutesnake.stages.simulate.short_list OPERATOR [KERNEL [TARGET]]` simulates each
case of both lists of the operator's sweep.yaml once, for each of its kernels, and says which cases would do for all of
them together, and how many blocks the present short list does not reach. It takes builds from results/compile, and
compiles what is not there into a temporary folder. Blocks of builds that only the full list needs are left out, and
counted.
"""

import argparse
import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from cutesnake.model.catalog import ContractError, load_kernel, load_operator
from cutesnake.model.contract import Variant, Workload
from cutesnake.model.dsls import DSLS
from cutesnake.model.targets import TARGETS
from cutesnake.planning.sweep import EXTENTS, Sweep, make_sweep, read_sweep
from cutesnake.stages.compile.compile import RECORD, compile_build
from cutesnake.stages.measure.case import Case
from cutesnake.stages.measure.correctness import check_case
from cutesnake.stages.simulate.simulation import NotSimulatedError, SimulatorBackend

FEW = 3  # so many cases are chosen by trying all sets of them, more by taking what reaches most next
SETTINGS = {"seeds": [0], "schedules": ["random"], "processors": 4}

Block = tuple[str, str, int]  # variant, device function, number of the block
Place = tuple[str, str]  # kernel, target
Reached = TypeVar("Reached", bound=Hashable)  # a block, or one with its kernel
WITHOUT = {"cutile": ("sm_90a",)}  # targets that the short list of the configuration leaves out


@dataclass(frozen=True)
class Candidate:
    """A case of a list: a workload and what its inputs are drawn from."""

    workload: Workload
    distribution: str

    def __str__(self) -> str:
        return f"{self.workload.id}, {self.distribution}"


def smallest(reached: Mapping[Candidate, frozenset[Reached]]) -> list[Candidate]:
    """Return the fewest cases that reach all blocks; first in order on ties."""
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


def union(parts: Iterable[frozenset[Reached]]) -> frozenset[Reached]:
    """Return all blocks that any part reaches."""
    return frozenset(itertools.chain.from_iterable(parts))


def reach(
    operator: str, kernel: str, target: str, case: Candidate, folder_of: Callable[[Variant], Path]
) -> frozenset[Block]:
    """Return a case's blocks under one schedule; NotSimulatedError if not possible."""
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
    """Return the cases of a list of the sweep that the kernel takes."""
    module = load_kernel(sweep.operator, kernel)
    dtypes = sweep.dtypes_for(target)
    workloads = [w for w in sweep.simulated(extent) if w.dtype in dtypes and module.supports(w) is None]
    return [Candidate(w, name) for w in workloads for name in sweep.simulated_distributions(extent, w)]


def places(sweep: Sweep, kernel: str | None, target: str | None) -> list[Place]:
    """Return the kernels and targets with simulated checks, or the requested ones."""
    result = []
    for name in sweep.kernels if kernel is None else [kernel]:
        module = load_kernel(sweep.operator, name)
        if DSLS[module.DSL].not_simulated is None:
            targets = [t for t in module.TARGETS if TARGETS[t].simulated_processors and sweep.dtypes_for(t)]
            left_out = WITHOUT.get(module.DSL, ())
            result += [(name, t) for t in targets if t == target or (target is None and t not in left_out)]
    return result


def of_default_builds(sweep: Sweep, place: Place, extents: Iterable[str] = ("short",)) -> frozenset[str]:
    """Return a kernel's variants built for the sweep and simulated lists."""
    kernel, target = place
    module = load_kernel(sweep.operator, kernel)
    wanted = [*sweep.workloads(), *(w for extent in extents for w in sweep.simulated(extent))]
    taken = [w for w in wanted if w.dtype in sweep.dtypes_for(target) and module.supports(w) is None]
    return frozenset(module.variants(w, target)[0].id for w in taken)


def names(cases: Iterable[Candidate]) -> str:
    """Return the names of cases, joined."""
    return " and ".join(map(str, cases))


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operator")
    parser.add_argument("kernel", nargs="?")
    parser.add_argument("target", nargs="?")
    asked = parser.parse_args()
    try:
        load_operator(asked.operator)
        if asked.kernel:
            load_kernel(asked.operator, asked.kernel)
    except ContractError as error:
        parser.error(str(error))
    if asked.target not in (None, *TARGETS):
        parser.error(f"there is no target {asked.target!r}; one of {', '.join(TARGETS)}")
    sweep = make_sweep(asked.operator, read_sweep(asked.operator, {}))
    lists: dict[str, dict[Candidate, set[tuple[Place, Block]]]] = {extent: {} for extent in EXTENTS}
    unsupported = 0
    with tempfile.TemporaryDirectory() as folder:
        for place in places(sweep, asked.kernel, asked.target):
            result = _reached(sweep, place, Path(folder))
            known = of_default_builds(sweep, place)
            everything = union(part for cases in result.values() for part in cases.values())
            unsupported += sum(block[0] not in known for block in everything)
            for extent, cases in result.items():
                for case, blocks in cases.items():
                    lists[extent].setdefault(case, set()).update((place, b) for b in blocks if b[0] in known)
    both = {case: frozenset(blocks) for extent in reversed(EXTENTS) for case, blocks in lists[extent].items()}
    for case in (chosen := smallest(both)):
        print(f"{case}: {len(both[case])} blocks")
    missed = union(both.values()) - union(map(frozenset, lists["short"].values()))
    for where, count in sorted(Counter(place for place, _ in missed).items()):
        there = {case: frozenset(b for b in blocks & missed if b[0] == where) for case, blocks in both.items()}
        print(f"the short list misses {count} blocks of {'/'.join(where)}, which {names(smallest(there))} would reach")
    print(
        f"{len(chosen)} of {len(both)} cases reach all blocks that both lists reach; "
        f"the short list misses {len(missed)} of {len(union(both.values()))}"
        + (f"; {unsupported} more are in builds that only the full list needs" if unsupported else "")
    )


def _reached(sweep: Sweep, place: Place, folder: Path) -> dict[str, dict[Candidate, frozenset[Block]]]:
    """Return every case with its blocks; print cases that cannot be simulated."""
    where = (sweep.operator, *place)

    def folder_of(variant: Variant) -> Path:
        """Return a build's folder, made now if missing."""
        there = Path("results/compile", *where, variant.id)
        made = Path(folder, "compile", *where, variant.id)
        if (there / RECORD).exists() or made.exists():
            return made if made.exists() else there
        made.parent.mkdir(parents=True, exist_ok=True)
        compile_build(*where, variant, made)
        return made

    result: dict[str, dict[Candidate, frozenset[Block]]] = {extent: {} for extent in EXTENTS}
    for extent in EXTENTS:
        for case in candidates(sweep, *place, extent):
            try:
                earlier = next((cases[case] for cases in result.values() if case in cases), None)
                result[extent][case] = reach(*where, case, folder_of) if earlier is None else earlier
            except NotSimulatedError as error:
                print(f"{case}: {error}", file=sys.stderr)
    return result


if __name__ == "__main__":
    main()
