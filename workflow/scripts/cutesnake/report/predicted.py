"""Times that ptxsim's clock predicts for GPUs without measurements, with error bands."""

from collections import Counter
from typing import Any

from cutesnake.analysis.compare.speedup import CACHE_STATES, CacheState
from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.model.dsls import COMPARED, DSLS
from cutesnake.model.records.predict import Bounds, Predict, PredictedLaunch, PredictMetrics
from cutesnake.model.records.verdict import Verdicts
from cutesnake.report.formatting import Notes, plural, slug
from cutesnake.report.plot.timeline import short_name

View = dict[str, Any]  # data of a template


def predicted(evidence: Evidence, notes: Notes) -> list[View]:
    """Return a table per GPU: a row per case with times, bands and busy units.

    Reasons for bands and for failed predictions are numbered by `notes`, the page's list.
    """
    entries = list(evidence.predicted.values())
    devices = evidence.plan.predicted.devices
    tables = []
    for target in devices:
        mine = [entry for entry in entries if entry.case.target == target]
        fine = [entry.metrics for entry in mine if entry.status == "ok" and entry.metrics]
        if mine:
            tables.append(
                {
                    "target": target,
                    "gpu": fine[0].device if fine else devices[target],
                    "clock_mhz": fine[0].sm_clock_mhz if fine else None,
                    "parameters": fine[0].parameters if fine else None,
                    "rows": [_row(entry, evidence, notes) for entry in sorted(mine, key=_order(evidence))],
                }
            )
    return tables


def absent(evidence: Evidence, verdicts: Verdicts | None) -> list[str]:
    """Return a sentence per GPU that is predicted for but has no verdict."""
    decided = {one.target for one in (verdicts.targets if verdicts else ()) if one.warm or one.cold}
    devices = {target: gpu for target, gpu in (evidence.plan.predicted.devices or {}).items() if target not in decided}
    return [f"No verdict for {gpu.upper()}: {_why_absent(evidence, target)}." for target, gpu in devices.items()]


def _why_absent(evidence: Evidence, target: str) -> str:
    """Return the most frequent reason why cases of a target have no prediction."""
    kernels = {k: one.dsl for (k, where), one in evidence.decisions.items() if where == target and one.build.ok}
    if lacking := [DSLS[dsl].label for dsl in COMPARED if dsl not in kernels.values()]:
        return f"no kernel in {' or '.join(lacking)} is built for it"
    reasons: Counter[str] = Counter()
    for (kernel, where, workload), variants in evidence.variants.items():
        if where == target and kernels.get(kernel) in COMPARED:
            for variant in variants[:1]:
                why = evidence.why_no_build(kernel, target, variant)
                why = why or evidence.why_not_predicted(kernel, target, variant, workload)
                reasons.update([why] if why else [])
    if not reasons:
        return "no workload has predictions of both DSLs"
    ((why, count),) = reasons.most_common(1)
    return f"{plural(count, 'prediction')} missing, {why}"


def _order(evidence: Evidence) -> Any:
    """Return a sort key: workload, then kernel, in plan order; unknown names last."""
    workloads = {name: place for place, name in enumerate(evidence.workloads)}
    kernels = {name: place for place, name in enumerate(dict.fromkeys(kernel for kernel, _ in evidence.decisions))}
    return lambda entry: (
        workloads.get(entry.case.workload, len(workloads)),
        kernels.get(entry.case.kernel, len(kernels)),
    )


def _row(entry: Predict, evidence: Evidence, notes: Notes) -> View:
    case, metrics = entry.case, entry.metrics
    times = evidence.foreseen(case.kernel, case.target, case.workload)
    place = slug("predicted", case.target, case.kernel, case.variant.id, case.workload)
    row = {"id": place, "workload": case.workload, "kernel": case.kernel, "variant": case.variant.id}
    if entry.status != "ok" or metrics is None:
        return {**row, "failed": notes.mark(entry.reason or ""), "chosen": False}
    return {
        **row,
        "failed": None,
        "chosen": len(times) > 1 and next(iter(times)) == case.variant.id,
        "times": [_time(metrics, cache, notes) for cache in CACHE_STATES],
        "bound": _bound(metrics.bounds),
        "busy": [metrics.tensor_percent, metrics.dram_percent, metrics.l2_percent],
        "launches": ", ".join(_launch(launch) for launch in metrics.launches.cold),
    }


def _bound(bounds: Bounds) -> str:
    """Format the bottleneck, once if cold and warm share it."""
    return bounds.cold if bounds.cold == bounds.warm else f"{bounds.cold} (cold), {bounds.warm} (warm)"


def _time(metrics: PredictMetrics, cache: CacheState, notes: Notes) -> View:
    cold = cache == "cold"
    band = metrics.bands.cold if cold else metrics.bands.warm
    us = metrics.cold_us if cold else metrics.warm_us
    return {"us": us, "percent": band.percent, "note": notes.mark(f"Error band: {band.text}.")}


def _launch(launch: PredictedLaunch) -> str:
    share = launch.waves
    waves = f"{100 * share:.0f} % of a wave" if share < 1 else plural(round(share, 1), "wave")
    return f"{short_name(launch.name)} {launch.end_us - launch.start_us:.1f} µs, {waves}"
