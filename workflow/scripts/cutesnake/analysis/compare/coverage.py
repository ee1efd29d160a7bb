"""Coverage: cases planned for each kernel and target, and their outcome."""

from collections import Counter
from typing import Literal

from cutesnake.analysis.evidence.gather import Evidence, Source, first_line
from cutesnake.model.kept_builds import is_kept
from cutesnake.model.records.compare import Counts, Coverage, DeviceCounts, LeftOut
from cutesnake.model.records.measurement import Measurement, device_name, variant_id
from cutesnake.model.records.plan import Decision
from cutesnake.model.stages import GPU_STAGES, NOT_RUN

NONE_TO_SIMULATE = (
    "the configured list of simulated checks has no workload of this kernel; such lists are under `simulation` in "
    "sweep.yaml"
)

LIVE: Literal["live"] = "live"
RECORDED: Literal["recorded"] = "recorded"


def coverage(evidence: Evidence, kernel: str, target: str) -> Coverage:
    """Return the outcome of each stage for a kernel and target on this machine."""
    decision = evidence.decisions[kernel, target]
    variants = {v for (k, t, _), ids in evidence.variants.items() if (k, t) == (kernel, target) for v in ids}
    builds = (b for b in evidence.plan.builds if (b.kernel, b.target) == (kernel, target))
    variants |= {b.variant.id for b in builds}  # includes builds for simulated checks only
    return Coverage(
        kernel=decision.kernel,
        dsl=decision.dsl,
        source=decision.source,
        target=decision.target,
        build=_built(evidence, kernel, target, variants),
        correctness=_ran(evidence, "correctness", kernel, target),
        timing=_ran(evidence, "timing", kernel, target),
        nsys=_ran(evidence, "nsys", kernel, target),
        ncu=_ran(evidence, "ncu", kernel, target),
        gpus={stage: _gpus(evidence, stage, kernel, target) for stage in GPU_STAGES},
        not_simulated=_not_simulated(evidence, decision),
        unsupported=_left_out(evidence, kernel, target),
        stood_for=sum(evidence.standing_for(kernel, target, variant) != variant for variant in variants),
    )


def _built(evidence: Evidence, kernel: str, target: str, variants: set[str]) -> Counts:
    variants = {v for v in variants if evidence.standing_for(kernel, target, v) == v}
    built = [build for v in sorted(variants) if (build := evidence.build(kernel, target, v))]
    failed = [entry for _, entry in built if entry.status != "ok"]
    recorded = sum(is_kept(path) and entry.status == "ok" for path, entry in built)
    decision = evidence.decisions[kernel, target].build
    reason = decision.reason
    if failed:
        reason = first_line(failed[0].reason)
    elif decision.ok and not variants:
        reason = "the kernel supports no workload of the experiment"
    elif decision.ok and len(built) < len(variants):
        reason = evidence.not_built
    expected = len(variants) if decision.ok else 0
    return Counts(expected, len(built) - len(failed) - recorded, len(failed), 0, reason, recorded)


def _ran(evidence: Evidence, stage: str, kernel: str, target: str) -> Counts:
    profiled = evidence.plan.profiled if stage in ("nsys", "ncu") else evidence.workloads
    wanted = [
        (w, v)
        for (k, t, w), ids in evidence.variants.items()
        if (k, t) == (kernel, target) and w in profiled
        for v in ids
    ]
    paths = list(evidence.cases(stage, kernel, target))
    records = [entry for _, entry in paths]
    recorded = sum(is_kept(path) and entry.status == "ok" for path, entry in paths)
    fine = [entry for entry in records if entry.status == "ok"]
    skipped = [entry for entry in records if _skipped(entry)]
    failed = [entry for entry in records if entry.status != "ok" and not _skipped(entry)]
    simulated = sum(entry.backend == "ptxsim" for entry in fine)
    reason = None
    if failed:
        reason = first_line(failed[0].reason)
    elif skipped:
        variant = variant_id(skipped[0].case)
        reason = evidence.why_no_build(kernel, target, variant) or first_line(skipped[0].reason)
    elif not wanted:
        reason = evidence.decisions[kernel, target].build.reason or "no case is planned"
    elif len(fine) - simulated < len(wanted):
        live = Source("live")
        reason = evidence.why_no_case(live, stage, kernel, target, wanted[0][0])
    return Counts(len(wanted), len(fine) - simulated, len(failed), simulated - recorded, reason, recorded)


def _skipped(entry: Measurement) -> bool:
    """Return whether a case was skipped, after a failed build or a wrong result."""
    return entry.status != "ok" and (entry.reason or "").startswith(NOT_RUN)


def _gpus(evidence: Evidence, stage: str, kernel: str, target: str) -> list[DeviceCounts]:
    """Count outcomes of a stage per GPU, this machine first."""
    counts: dict[Source, Counter[str]] = {}
    for kind, entries in ((LIVE, evidence.measured), (RECORDED, evidence.recorded)):
        for entry in entries.values():
            case = entry.case
            mine = (entry.stage, case.kernel, case.target) == (stage, kernel, target)
            if mine and entry.backend == "cuda" and case.workload in evidence.workloads and not _skipped(entry):
                counts.setdefault(Source(kind, device_name(entry)), Counter())[entry.status] += 1
    return [
        DeviceCounts(place.kind, place.device, outcomes["ok"], outcomes["failed"]) for place, outcomes in counts.items()
    ]


def _not_simulated(evidence: Evidence, decision: Decision) -> str | None:
    """Return why ptxsim does not replace the missing GPU, or None."""
    if not decision.build.ok or decision.run.ok:
        return None
    mine = f"{decision.operator}/{decision.kernel}/{decision.target}/"
    if decision.simulate.ok and not any(c.build.startswith(mine) for c in evidence.plan.simulated_cases):
        return NONE_TO_SIMULATE
    return decision.simulate.reason


def _left_out(evidence: Evidence, kernel: str, target: str) -> list[LeftOut]:
    """Count the workloads that the kernel cannot compute, by reason."""
    reasons = [evidence.unsupported.get((kernel, workload)) for workload in evidence.asked(target)]
    counts = Counter(reason for reason in reasons if reason)
    return [LeftOut(reason, count) for reason, count in counts.items()]
