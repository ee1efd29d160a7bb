"""Choose small problems that show in the simulator how a build works."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.contract import Kernel, Workload
from cutesnake.planning import kernel_queries
from cutesnake.planning.matrix import Build

QUICK = 150_000_000  # FLOPs and bytes of a problem that takes about a second
MOST = 3
Known = dict[tuple[str, str, int], frozenset[str]]  # (kernel, target, id(workload)) -> the ids of its variants


def of_builds(
    builds: Sequence[Build], small: Sequence[Sequence[Workload]], every: Sequence[Workload]
) -> dict[str, dict[str, Any]]:
    """Return how each build of an operator is watched: `workloads`, `in_part`, `instead`.

    Builds with compile-time sizes that no small problem has are not watched: another build of the kernel and target
    is, whose key is `instead`. Where there is none, one build has the smallest workload of the sweep, of which only the
    first CTAs are run (`in_part`).

    small: lists of workloads that are quick to simulate, as of `chosen`; every: the operator's whole sweep.
    """
    result: dict[str, dict[str, Any]] = {}
    shown: dict[tuple[str, str], str] = {}
    known: Known = {}
    for build in builds:
        workloads = chosen(build.operator, build.kernel, build.target, build.variant.id, small, known)
        result[build.key] = {"workloads": workloads, "in_part": False, "instead": None}
        if workloads:
            shown.setdefault((build.kernel, build.target), build.key)
    for build in builds:
        if result[build.key]["workloads"]:
            continue
        instead = shown.setdefault((build.kernel, build.target), build.key)
        if instead == build.key:
            large = chosen(build.operator, build.kernel, build.target, build.variant.id, [every], known)
            result[build.key] |= {"workloads": large[:1], "in_part": bool(large)}
        else:
            result[build.key]["instead"] = instead
    return result


def chosen(
    operator: str,
    kernel: str,
    target: str,
    variant: str,
    small: Sequence[Sequence[Workload]],
    known: Known | None = None,
) -> list[dict[str, Any]]:
    """Return parameters of small problems for a build, the first one to run."""
    module, cost = load_kernel(operator, kernel), load_operator(operator).cost
    replies = {} if known is None else known

    def order(workload: Workload) -> tuple[bool, int]:
        work = cost(workload).flops + cost(workload).bytes
        return (True, work) if work > QUICK else (False, -work)

    result: dict[str, Workload] = {}
    for workloads in small:
        fitting = [workload for workload in workloads if variant in _ids(kernel, module, workload, target, replies)]
        result |= {workload.id: workload for workload in sorted(fitting, key=order) if workload.id not in result}
    return [asdict(workload) for workload in list(result.values())[:MOST]]


def _ids(kernel: str, module: Kernel, workload: Workload, target: str, known: Known) -> frozenset[str]:
    key = (kernel, target, id(workload))  # its name takes as long as the query
    if key not in known:
        takes = kernel_queries.supports(module, workload) is None
        known[key] = (
            frozenset(one.id for one in kernel_queries.variants(module, workload, target)) if takes else frozenset()
        )
    return known[key]
