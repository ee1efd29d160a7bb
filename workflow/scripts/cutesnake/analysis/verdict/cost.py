"""What each kernel costs: lines of Python, compile time, resources, variants and author."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.analysis.verdict.authors import author
from cutesnake.analysis.verdict.python_lines import count_lines, recorded_lines
from cutesnake.model.catalog import ContractError, load_kernel, make_workload
from cutesnake.model.contract import INSTALLED, OWN
from cutesnake.model.dsls import COMPARED
from cutesnake.model.records.autotune import Autotune
from cutesnake.model.records.inspect import Function, Inspect
from cutesnake.model.records.measurement import Measurement, variant_id
from cutesnake.model.records.ncu import Ncu
from cutesnake.model.records.timing import Timing
from cutesnake.model.records.verdict import KernelCost, Lines, Pairing

FETCHED = Path("results/fetch")
MOST_WORKLOADS = 16  # whose variants are counted, evenly spread


def costs(evidence: Evidence, fetched: Path = FETCHED, shown: Mapping[str, Pairing] | None = None) -> list[KernelCost]:
    """Return the cost of every kernel of both DSLs, per target it supports.

    `shown` has a pair of kernels per target: theirs are the builds of the pair, all others are default builds.
    """
    return [
        _cost(evidence, kernel, target, fetched, (shown or {}).get(target))
        for (kernel, target), decision in evidence.decisions.items()
        if decision.dsl in COMPARED and decision.build.ok
    ]


def spills(evidence: Evidence, kernel: str, target: str) -> tuple[list[int], list[str]]:
    """Return least and most spilled bytes per thread, and the spilling builds' files."""
    result = {
        path: max(f.spill_bytes for f in entry.functions if f.spill_bytes is not None)
        for path, entry in _inspected(evidence, kernel, target)
        if any(f.spill_bytes is not None for f in entry.functions)
    }
    if not result:
        return [], []
    return [min(result.values()), max(result.values())], [path for path, spilled in result.items() if spilled]


def variants_timed(evidence: Evidence, kernel: str, target: str, at: str | None = None) -> int:
    """Return the number of variants that some GPU timed on one workload, in searches too.

    The workload is `at`, or that with the most.
    """
    timed: dict[str, set[str]] = {}
    for entry in _measured(evidence, kernel, target):
        of = timed.setdefault(entry.case.workload, set())
        if isinstance(entry, Timing):
            of.add(variant_id(entry.case))
        elif isinstance(entry, Autotune) and entry.metrics:
            of.update(one.variant for one in entry.metrics.variants if one.status == "ok")
    return max((len(of) for workload, of in timed.items() if workload == (at or workload)), default=0)


def variants_offered(evidence: Evidence, kernel: str, target: str, at: str | None = None) -> int | None:
    """Return how many candidates a kernel's contract offers for a workload; None if unknown.

    The workload is `at`, or that of some with the most.
    """
    counts = [0]
    try:
        module = load_kernel(evidence.operator, kernel)
        every = list(evidence.workloads.values())
        some = [evidence.workloads[at]] if at else every[:: -(-len(every) // MOST_WORKLOADS) or 1]
        for parameters in some:
            workload = make_workload(evidence.operator, parameters)
            if module.supports(workload) is None:
                counts.append(len(module.variants(workload, target)))
    except (ContractError, ValueError, KeyError):
        return None
    return max(counts)


def _cost(evidence: Evidence, kernel: str, target: str, fetched: Path, pair: Pairing | None) -> KernelCost:
    decision = evidence.decisions[kernel, target]
    of_pair = {pair.cute: pair.cute_variant, pair.cutile: pair.cutile_variant} if pair else {}
    at = pair.workload if pair and kernel in of_pair else None
    variant, built, inspected = _chosen(evidence, kernel, target, of_pair.get(kernel))
    functions = ran(evidence, kernel, target, variant, at, inspected[1].functions) if inspected else []
    occupancies = [one.occupancy.percent for one in functions if one.occupancy]
    missing: dict[str, str] = {}
    lines = _lines(evidence.operator, kernel, decision.source, fetched, missing)
    profiled = [
        entry.metrics.occupancy_achieved_percent
        for entry in _measured(evidence, kernel, target)
        if isinstance(entry, Ncu) and entry.metrics and entry.metrics.occupancy_achieved_percent is not None
        if (variant_id(entry.case), entry.case.workload) == (variant, at or entry.case.workload)
    ]
    if not profiled:
        missing["achieved_occupancy_percent"] = f"variant {variant} was not profiled with ncu" + f" on {at}" * bool(at)
    if not functions:
        missing["registers_per_thread"] = evidence.why_no_build(kernel, target, variant) or "no static figures"
    spilled, _ = spills(evidence, kernel, target)
    return KernelCost(
        kernel=kernel,
        dsl=decision.dsl,
        target=target,
        author=author(evidence.operator, kernel, decision.dsl, decision.source),
        variant=variant,
        functions=len(functions),
        lines=lines,
        compile_seconds=built[1].seconds if built and built[1].status == "ok" else None,
        registers_per_thread=_most(one.registers_per_thread for one in functions),
        shared_bytes_per_block=_most(map(_shared, functions)),
        theoretical_occupancy_percent=min(occupancies, default=None),
        achieved_occupancy_percent=profiled[0] if profiled else None,
        at=at,
        spill_bytes=spilled,
        tensor_memory_columns=_most(one.tensor_memory_columns for one in functions),
        variants_offered=variants_offered(evidence, kernel, target, at),
        variants_timed=variants_timed(evidence, kernel, target, at),
        missing=missing,
        evidence=[result[0] for result in (built, inspected) if result],
    )


def _chosen(evidence: Evidence, kernel: str, target: str, wanted: str | None):  # type: ignore[no-untyped-def]  # variant, build, static figures
    """Return the wanted variant, or the first requested with (a stand-in's) static figures."""
    planned = [v for (k, t, _), result in evidence.variants.items() if (k, t) == (kernel, target) for v in result]
    asked = [*([wanted] if wanted in planned else []), *planned]
    first = asked[0] if asked else None
    for variant in dict.fromkeys(asked):
        built = evidence.build(kernel, target, variant)
        inspected = evidence.inspect(kernel, target, evidence.standing_for(kernel, target, variant))
        if inspected:
            return variant, built or evidence.build(kernel, target, inspected[1].variant.id), inspected
    return first, None, None


def ran(
    evidence: Evidence, kernel: str, target: str, variant: str | None, at: str | None, functions: list[Function]
) -> list[Function]:
    """Return functions that ran on the workload `at`, else on any, else all."""
    build = kernel, target, variant
    names: dict[str, set[str]] = {}  # by workload
    for entry in _measured(evidence, kernel, target):
        if isinstance(entry, Ncu) and entry.metrics and variant_id(entry.case) == variant:
            names.setdefault(entry.case.workload, set()).update(one.name for one in entry.metrics.kernels)
    for guess in evidence.predicted.values():
        if guess.metrics and (guess.case.kernel, guess.case.target, guess.case.variant.id) == build:
            names.setdefault(guess.case.workload, set()).update(one.name for one in guess.metrics.launches.cold)
    wanted = names.get(at or "") or set().union(*names.values())
    return [one for one in functions if one.symbol in wanted] or functions


def _most(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)


def _shared(function: Function) -> int | None:
    if function.dynamic_shared_bytes is None:
        return None
    return function.static_shared_bytes + function.dynamic_shared_bytes


def _lines(operator: str, kernel: str, source: str, fetched: Path, missing: dict[str, str]) -> Lines | None:
    if source == INSTALLED:
        missing["lines"] = "the kernel is in an installed package"
        return None
    folder = None if source == OWN else fetched / source
    try:
        if folder is None or folder.is_dir():
            result = count_lines(operator, kernel, folder)
        elif not (result := recorded_lines(operator, kernel, source)):
            missing["lines"] = f"the package {source} is not fetched"
            return None
    except (SyntaxError, OSError) as error:
        missing["lines"] = str(error)
        return None
    if result is None:
        missing["lines"] = "the source file is not known"
    return result


def _inspected(evidence: Evidence, kernel: str, target: str) -> Iterator[tuple[str, Inspect]]:
    for path, entry in evidence.inspected.items():
        if (entry.kernel, entry.target, entry.status) == (kernel, target, "ok") and entry.functions:
            yield path, entry


def _measured(evidence: Evidence, kernel: str, target: str) -> Iterator[Measurement]:
    for entry in (*evidence.measured.values(), *evidence.recorded.values()):
        if entry.status == "ok" and (entry.case.kernel, entry.case.target) == (kernel, target):
            yield entry
