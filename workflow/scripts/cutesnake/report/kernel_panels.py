"""A panel per kernel: source, builds, static values, checks, profiles and artifacts."""

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec.structs import asdict

from cutesnake.analysis.compare.comparison import shared_kb
from cutesnake.analysis.compare.insight import number
from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.model.catalog import users_own
from cutesnake.model.contract import INSTALLED, OWN
from cutesnake.model.kept_builds import is_kept
from cutesnake.model.records.compile import Compile
from cutesnake.model.records.correctness import Check, Correctness, Simulated
from cutesnake.model.records.inspect import Function, Occupancy
from cutesnake.model.records.measurement import device_name
from cutesnake.model.records.ncu import Ncu
from cutesnake.report.choices import WHERE, choices
from cutesnake.report.formatting import DSL_NAMES, Notes, big, named, plural, slug

View = dict[str, Any]  # data of a template
Upstream = Mapping[str, Mapping[str, str]]  # kernels/upstream.yaml
MIX = ("tensor_core", "tma_load", "tma_multicast", "tma_store", "tma_reduce", "barrier", "special_function")
MEMORY = ("global_memory", "shared_memory", "tensor_memory", "local_memory", "other")
MOST_STALLS = 3
NOTHING = ("0", "none", "none detected")  # values that only some figures are shown with
ALWAYS = ("spills per thread, bytes", "pipeline stages")
NAME = 60  # characters of a device function's name that are shown


def panels(evidence: Evidence, upstream: Upstream, base: str, notes: Notes, anatomy: Path | None = None) -> list[View]:
    """Return the panels of an operator's kernels.

    base: folder of the page, for relative links. anatomy: folder with the kernels' pages of anatomy, or None.
    """
    views = []
    for kernel in dict.fromkeys(kernel for kernel, _ in evidence.decisions):
        decisions = [d for (k, _), d in evidence.decisions.items() if k == kernel]
        builds = [(path, entry) for path, entry in sorted(evidence.builds.items()) if entry.kernel == kernel]
        views.append(
            {
                "id": slug("kernel", evidence.operator, kernel),
                "kernel": kernel,
                "dsl": DSL_NAMES[decisions[0].dsl],
                "anatomy": _anatomy(anatomy, kernel, base),
                "source": _source(decisions[0].source, upstream, evidence.operator, kernel),
                "targets": [d.target for d in decisions if d.build.ok],
                "without": [(d.target, notes.mark(d.build.reason or "")) for d in decisions if not d.build.ok],
                "builds": [_build(evidence, path, entry, base) for path, entry in builds if entry.status == "ok"],
                "failed": [_build(evidence, path, entry, base) for path, entry in builds if entry.status != "ok"],
                "checks": _checks(evidence, kernel),
                "profiles": _profiles(evidence, kernel),
                "choices": choices(evidence, kernel),
            }
        )
    return views


def _anatomy(folder: Path | None, kernel: str, base: str) -> str | None:
    """Return the link to a kernel's page of anatomy, or None."""
    page = folder / f"{kernel}.html" if folder else None
    return os.path.relpath(page, base) if page and page.exists() else None


def _source(source: str, upstream: Upstream, operator: str, kernel: str) -> View:
    if source == OWN:
        if users_own(operator, kernel):
            theirs = "a folder outside this repository (kernel_paths)"
            return {"text": theirs, "url": None, "licence": "not stated here: see its author"}
        return {"text": "this project", "url": None, "licence": "this repository's"}
    if source == INSTALLED:
        return {"text": "an installed Python package", "url": None, "licence": "the package's own"}
    entry = upstream.get(source)
    if entry is None:
        return {"text": source, "url": None, "licence": "not stated in kernels/upstream.yaml"}
    return {"text": f"{source} {entry['version']}", "url": entry["homepage"], "licence": entry["licence"]}


def _build(evidence: Evidence, path: str, entry: Compile, base: str) -> View:
    folder = PurePosixPath(path).parent
    static = evidence.inspect(entry.kernel, entry.target, entry.variant.id)
    failed = entry.status != "ok"
    return {
        "target": entry.target,
        "variant": entry.variant.id,
        "params": ", ".join(f"{key} {value}" for key, value in entry.variant.params.items()),
        "failed": failed,
        "reason": entry.reason,
        "log": entry.log_tail if failed and entry.log_tail.strip() != (entry.reason or "").strip() else "",
        "seconds": number(entry.seconds),
        "files": [{"name": name, "href": os.path.relpath(folder / name, base)} for name in sorted(entry.files)],
        "record": None if is_kept(path) else os.path.relpath(path, base),
        "glance": _glance(static[1].functions[0]) if static else "",
        "functions": [_function(f) for f in static[1].functions] if static else [],
        "notes": [*entry.notes, *(static[1].notes if static else [])],
    }


def _glance(f: Function) -> str:
    """Summarize the main device function in a line."""
    shared = shared_kb(f)
    return ", ".join(
        [
            f"{f.registers_per_thread} registers",
            "shared memory not known" if shared is None else f"{number(round(shared, 1))} KB shared",
            "spills not known" if f.spill_bytes is None else f"{number(f.spill_bytes)} B spills",
        ]
    )


def _known(value: Any) -> str:
    if value is None:
        return "not known"
    return number(value) if isinstance(value, int | float) else str(value)


def _several(values: list[int] | None, nothing: str) -> str:
    return "not known" if values is None else ", ".join(map(str, values)) or nothing


def _function(f: Function) -> View:
    mix: dict[str, int] = asdict(f.instructions) if f.instructions else {}
    shared = (f.static_shared_bytes, f.dynamic_shared_bytes)
    return {
        "symbol": f.symbol,
        "figures": [
            (name, value)
            for name, value in (
                ("registers per thread", _known(f.registers_per_thread)),
                ("spills per thread, bytes", _known(f.spill_bytes)),
                ("stack per thread, bytes", _known(f.stack_bytes)),
                ("shared memory per block, bytes", f"{_known(shared[0])} static, {_known(shared[1])} dynamic"),
                ("threads per block", _known(f.threads_per_block)),
                ("blocks per cluster", _known(f.cluster_size)),
                ("tensor-memory columns", _known(f.tensor_memory_columns)),
                ("setmaxnreg", _several(f.setmaxnreg, "none")),
                ("pipeline stages", _several(f.pipeline_stages, "none detected")),
                ("theoretical occupancy", _occupancy(f.occupancy)),
            )
            if value not in NOTHING or name in ALWAYS
        ],
        "mix": [
            (key.replace("_", " ").replace("tma", "TMA"), number(mix[key])) for key in (*MIX, *MEMORY) if mix.get(key)
        ],
    }


def _occupancy(room: Occupancy | None) -> str:
    if room is None:
        return "not known"
    limiter = room.limiter.replace("_", " ")
    blocks = plural(room.blocks_per_sm, "block")
    return f"{number(room.percent)} %: {blocks} per SM, limited by {limiter}"


def _checks(evidence: Evidence, kernel: str) -> list[View]:
    """Return a sentence per target and location; simulated checks are never called hardware results."""
    groups: dict[tuple[str, str, str, str], dict[str, Correctness]] = {}
    kept = [(path, entry) for path, entry in evidence.recorded.items() if isinstance(entry, Correctness)]
    for target in dict.fromkeys(t for k, t in evidence.decisions if k == kernel):
        live = [("", *item) for item in evidence.cases("correctness", kernel, target)]
        mine = [(path, e) for path, e in kept if (e.case.kernel, e.case.target) == (kernel, target)]
        for kind, path, entry in live + [("recorded: ", *item) for item in mine]:
            device = device_name(entry) or ""
            groups.setdefault((target, kind, entry.backend, device), {})[path] = entry
    return [_check(*key, records) for key, records in groups.items()]


def _check(target: str, kind: str, backend: str, device: str, records: dict[str, Correctness]) -> View:
    """Return a group of checks by path; a failed simulated one has its command."""
    entries = list(records.values())
    made = [check for entry in entries if entry.metrics for check in entry.metrics.checks]
    checks = [check for check in made if check.unsupported is None]
    good = sum(bool(check.passed) for check in checks)
    errors = [check.relative_error for check in checks if check.relative_error is not None]
    seeds = ", ".join(map(str, sorted({check.seed for check in checks})))
    kinds = ", ".join(dict.fromkeys(check.distribution for check in checks))
    workloads = {entry.case.workload for entry in entries}
    worst = f"; largest relative error {max(errors):.1e}" if errors else ""
    within = "within tolerance" + " and without findings" * (backend == "ptxsim")
    done = f"{good} of {plural(len(checks), 'check')} {within}, {plural(len(workloads), 'workload')}{worst}"
    if backend == "ptxsim":
        names = list(dict.fromkeys(name for check in checks for name in check.schedules or []))
        schedules = f"{plural(len(names), 'schedule')}: {', '.join(names)}" if names else "schedules not stated"
        how = f"checked in simulation (ptxsim, no GPU; {schedules}; seeds {seeds})"
        mark = ("◐", "part")
    else:
        mark = ("✓", "good")
        how = f"{kind}checked on {device} (seeds {seeds})"
    bad = {path: entry for path, entry in records.items() if entry.status != "ok"}
    failed = [named(entry.case.workload, entry.reason or "") for entry in bad.values()]
    live = [path for path in bad if backend == "ptxsim" and not is_kept(path)]
    none = f"{kind}not checked" + (f" on {device}" if device else "")
    counted = [_counted(e, simulated) for e in entries if (simulated := _simulated(e)) and simulated.launches]
    mark = ("✕", "bad") if failed else mark
    return {
        "target": target,
        "text": " ".join([f"{how}: {done}. Inputs: {kinds}.", *_outputs(checks), *_unsupported(made)])
        if made
        else none,
        "failed": failed,
        "again": f"snakemake --cores 1 --force {live[0]}" if live else None,
        "mark": mark,
        "counted": counted,
        "untested": untested(entries),
    }


def untested(entries: list[Correctness]) -> list[str]:
    """Return warnings about code that no simulated case of a build exercised.

    A warning is dropped if another case of the build does not have it. A warning names its subject, a kernel and its
    mbarriers, before the last colon.
    """
    by_build: dict[str, list[list[str]]] = {}
    for entry in entries:
        if (simulated := _simulated(entry)) and simulated.warnings is not None:
            by_build.setdefault(entry.case.variant.id, []).append(simulated.warnings)
    lines = []
    for variant, cases in by_build.items():
        by_subject = [{warning.rpartition(": ")[0]: warning for warning in warnings} for warnings in cases]
        lasting = [text for what, text in by_subject[0].items() if all(what in other for other in by_subject)]
        lines += [f"{variant}, {text.partition(': ')[0][:NAME]}: {text.partition(': ')[2]}" for text in lasting]
    return lines


def _simulated(entry: Correctness) -> Simulated | None:
    """Return the simulator's counts of a record, or None."""
    return entry.metrics.simulated if entry.metrics else None


def _outputs(checks: list[Check]) -> list[str]:
    """Return a sentence on the largest errors of each output."""
    worst: dict[str, dict[str, float]] = {}
    for check in checks:
        for name, output in check.outputs.items():
            for kind in ("relative", "absolute"):
                error = output.relative_error if kind == "relative" else output.worst_absolute_error
                if error is not None:
                    errors = worst.setdefault(name, {})
                    errors[kind] = max(error, errors.get(kind, 0.0))
    parts = (
        f"{name} {' and '.join(f'{error:.1e} {kind}' for kind, error in errors.items())}"
        for name, errors in worst.items()
    )
    text = "; ".join(parts)
    return [f"Largest errors per output: {text}."] if text else []


def _unsupported(checks: list[Check]) -> list[str]:
    """Return a sentence that names the unsupported inputs; the findings list their results."""
    kinds = dict.fromkeys(check.distribution for check in checks if check.unsupported is not None)
    return [f"Unsupported inputs, listed under findings: {', '.join(kinds)}."] if kinds else []


def _counted(entry: Correctness, simulated: Simulated) -> View:
    """Format the simulator's counts of a case, and notes on the operator's cost."""

    def total(key: str) -> int:
        return sum(getattr(launch, key) or 0 for launch in simulated.launches)

    read, written = big(total("global_read_bytes"), "B"), big(total("global_write_bytes"), "B")
    parts = [
        plural(len(simulated.launches), "launch", "launches"),
        f"{number(total('warp_instructions'))} warp instructions",
        f"{read} read and {written} written in global memory",
    ]
    if matrix := total("mma_instructions"):
        parts.append(f"{big(total('mma_flops'), 'FLOP')} in {plural(matrix, 'matrix instruction')}")
    if copies := total("tma_instructions"):
        parts.append(f"{big(total('tma_bytes'), 'B')} by TMA in {plural(copies, 'instruction')}")
    if waits := total("barrier_waits"):
        parts.append(plural(waits, "barrier wait"))
    return {"workload": entry.case.workload, "text": ", ".join(parts), "notes": compare_cost(simulated)}


def compare_cost(simulated: Simulated) -> list[str]:
    """Compare counts with the operator's minimum work; FLOPs only with matrix products."""

    def times(key: str, needed: int) -> str:
        counted = sum(getattr(launch, key) or 0 for launch in simulated.launches)
        if counted < needed:
            return "fewer than the operator says are unavoidable"
        return f"{counted / needed:.2f} times" if needed else "the operator needs none"  # one that only writes, say

    cost = simulated.cost
    products = any(launch.mma_flops for launch in simulated.launches)
    return [
        *[f"FLOPs of matrix products {times('mma_flops', cost.flops)}"] * products,
        f"bytes read {times('global_read_unique_bytes', cost.bytes_read)}",
        f"bytes written {times('global_write_unique_bytes', cost.bytes_written)}",
    ]


def _profiles(evidence: Evidence, kernel: str) -> list[View]:
    """Return a kernel's ncu results on workloads that the configuration profiles."""
    profiles = []
    for target in dict.fromkeys(t for k, t in evidence.decisions if k == kernel):
        for source in evidence.sources(target):
            for entry in evidence.records(source, "ncu"):
                case = entry.case
                if (case.kernel, case.target) == (kernel, target) and case.workload in evidence.plan.profiled:
                    profiles.append(_profile(source.kind, source.device, entry))
    return profiles


def _profile(kind: str, device: str | None, entry: Ncu) -> View:
    m = entry.metrics
    assert m is not None  # since the record is ok
    stalls = sorted(m.stalls.items(), key=lambda item: -item[1])[:MOST_STALLS]
    return {
        "where": f"{device}, {WHERE[kind]}",
        "target": entry.case.target,
        "workload": entry.case.workload,
        "class": m.bottleneck.kind,
        "rule": m.bottleneck.rule,
        "figures": [
            (name, _known(getattr(m, key)))
            for name, key in (
                ("tensor cores, %", "tensor_core_percent"),
                ("DRAM, %", "dram_percent"),
                ("L2 hits, %", "l2_hit_percent"),
                ("occupancy achieved, %", "occupancy_achieved_percent"),
                ("waves", "waves"),
                ("eligible warps", "eligible_warps"),
            )
        ],
        "stalls": ", ".join(f"{name.replace('_', ' ')} {number(share)}" for name, share in stalls),
        "opportunities": [f"{o.text} ({o.metric} = {_known(o.value)})" for o in m.opportunities],
    }
