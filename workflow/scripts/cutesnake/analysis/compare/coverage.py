"""What was asked of each kernel on each target, and what came of it."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from cutesnake.analysis.evidence.gather import Evidence, Source, first_line
from cutesnake.model.kept_builds import is_kept
from cutesnake.model.records.compare import Counts, Coverage, DeviceCounts, LeftOut
from cutesnake.model.records.measurement import Measurement, device_name, variant_id
from cutesnake.model.records.plan import Decision
from cutesnake.model.stages import GPU_STAGES, NOT_RUN

NONE_TO_SIMULATE = (
    "no workload of it is in the list of simulated checks that the configuration chooses: such lists of small "
    "workloads stand under simulation in sweep.yaml"
)

LIVE: Literal["live"] = "live"
RECORDED: Literal["recorded"] = "recorded"


def coverage(evidence: Evidence, kernel: str, target: str) -> Coverage:
    """What was asked of a kernel on a target and what came of it, stage by stage, on this machine."""
    decision = evidence.decisions[kernel, target]
    variants = {v for (k, t, _), found in evidence.variants.items() if (k, t) == (kernel, target) for v in found}
    builds = (b for b in evidence.plan.builds if (b.kernel, b.target) == (kernel, target))
    variants |= {b.variant.id for b in builds}  # those for simulated checks alone, too
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
        cards={stage: _cards(evidence, stage, kernel, target) for stage in GPU_STAGES},
        not_simulated=_not_simulated(evidence, decision),
        unsupported=_left_out(evidence, kernel, target),
        stood_for=sum(evidence.standing_for(kernel, target, variant) != variant for variant in variants),
    )


def _built(evidence: Evidence, kernel: str, target: str, variants: set[str]) -> Counts:
    variants = {v for v in variants if evidence.standing_for(kernel, target, v) == v}
    found = [build for v in sorted(variants) if (build := evidence.build(kernel, target, v))]
    failed = [entry for _, entry in found if entry.status != "ok"]
    recorded = sum(is_kept(path) and entry.status == "ok" for path, entry in found)
    decision = evidence.decisions[kernel, target].build
    reason = decision.reason
    if failed:
        reason = first_line(failed[0].reason)
    elif decision.ok and not variants:
        reason = "no workload of the experiment is one that this kernel supports"
    elif decision.ok and len(found) < len(variants):
        reason = "not built yet: no build record"
    expected = len(variants) if decision.ok else 0
    return Counts(expected, len(found) - len(failed) - recorded, len(failed), 0, reason, recorded)


def _ran(evidence: Evidence, stage: str, kernel: str, target: str) -> Counts:
    profiled = evidence.plan.profiled if stage in ("nsys", "ncu") else evidence.workloads
    wanted = [
        (w, v)
        for (k, t, w), found in evidence.variants.items()
        if (k, t) == (kernel, target) and w in profiled
        for v in found
    ]
    paths = list(evidence.cases(stage, kernel, target))
    found = [entry for _, entry in paths]
    recorded = sum(is_kept(path) and entry.status == "ok" for path, entry in paths)
    fine = [entry for entry in found if entry.status == "ok"]
    skipped = [entry for entry in found if _skipped(entry)]
    failed = [entry for entry in found if entry.status != "ok" and not _skipped(entry)]
    simulated = sum(entry.backend == "ptxsim" for entry in fine)
    reason = None
    if failed:
        reason = first_line(failed[0].reason)
    elif skipped:
        variant = variant_id(skipped[0].case)
        reason = evidence.why_no_build(kernel, target, variant) or first_line(skipped[0].reason)
    elif not wanted:
        reason = evidence.decisions[kernel, target].build.reason or "no case was asked for"
    elif len(fine) - simulated < len(wanted):
        live = Source("live")
        reason = evidence.why_no_case(live, stage, kernel, target, wanted[0][0])
    return Counts(len(wanted), len(fine) - simulated, len(failed), simulated - recorded, reason, recorded)


def _skipped(entry: Measurement) -> bool:
    """Whether a case was not run for what came before it: a build that failed, or a result that was wrong."""
    return entry.status != "ok" and (entry.reason or "").startswith(NOT_RUN)


def _cards(evidence: Evidence, stage: str, kernel: str, target: str) -> list[DeviceCounts]:
    """Per place that ran a stage on workloads of this experiment, this machine first: how many came out well or not."""
    counts: dict[Source, Counter[str]] = {}
    for kind, entries in ((LIVE, evidence.measured), (RECORDED, evidence.recorded)):
        for entry in entries.values():
            case = entry.case
            mine = (entry.stage, case.kernel, case.target) == (stage, kernel, target)
            if mine and entry.backend == "cuda" and case.workload in evidence.workloads and not _skipped(entry):
                counts.setdefault(Source(kind, device_name(entry)), Counter())[entry.status] += 1
    return [DeviceCounts(place.kind, place.device, found["ok"], found["failed"]) for place, found in counts.items()]


def _not_simulated(evidence: Evidence, decision: Decision) -> str | None:
    """Why a simulator does not stand in for the card that is missing; None where it does, or need not."""
    if not decision.build.ok or decision.run.ok:
        return None
    mine = f"{decision.operator}/{decision.kernel}/{decision.target}/"
    if decision.simulate.ok and not any(c.build.startswith(mine) for c in evidence.plan.simulated_cases):
        return NONE_TO_SIMULATE
    return decision.simulate.reason


def _left_out(evidence: Evidence, kernel: str, target: str) -> list[LeftOut]:
    """Workloads that the kernel cannot compute, by reason."""
    reasons = [evidence.unsupported.get((kernel, workload)) for workload in evidence.asked(target)]
    counts = Counter(reason for reason in reasons if reason)
    return [LeftOut(reason, count) for reason, count in counts.items()]
