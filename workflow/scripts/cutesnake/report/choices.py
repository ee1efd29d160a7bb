"""Variants chosen per workload: by measured time, or by predicted time without a GPU."""

from collections.abc import Iterator
from typing import Any

from cutesnake.analysis.compare.insight import number
from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.model.records.autotune import Autotune

View = dict[str, Any]  # data of a template
WHERE = {"live": "measured on this machine", "recorded": "recorded"}


def choices(evidence: Evidence, kernel: str) -> list[View]:
    """Return the chosen variant and its margin per workload, by measurement or prediction."""
    rows = []
    for target in dict.fromkeys(t for k, t in evidence.decisions if k == kernel):
        for source in evidence.sources(target):
            for entry in evidence.records(source, "autotune"):
                if (entry.case.kernel, entry.case.target) == (kernel, target):
                    rows.append(_choice(f"{source.device}, {WHERE[source.kind]}", entry))
        if evidence.sources(target)[0].kind == "none":
            rows += _foreseen_choices(evidence, kernel, target)
    return rows


def _foreseen_choices(evidence: Evidence, kernel: str, target: str) -> Iterator[View]:
    """Yield choices by ptxsim's predicted times, for a target that no GPU measured."""
    for workload in evidence.workloads:
        times = evidence.foreseen(kernel, target, workload)
        if len(times) < 2:
            continue
        (chosen, first), (_, second), *_ = times.items()
        entry = evidence.prediction(kernel, target, chosen, workload)
        assert entry is not None and entry[1].metrics is not None  # it has a time
        yield {
            "where": f"predicted for an {entry[1].metrics.device}, not measured",
            "target": target,
            "workload": workload,
            "chosen": chosen,
            "margin": f"≈ {number(100 * (second / first - 1))} % faster by prediction",
            "decided": True,  # a prediction has an error band instead of a spread
            "variants": [f"{variant}: ≈ {number(us)} µs" for variant, us in times.items()],
        }


def _choice(where: str, entry: Autotune) -> View:
    m = entry.metrics
    margin = m.margin_percent
    return {
        "where": where,
        "target": entry.case.target,
        "workload": entry.case.workload,
        "chosen": m.chosen or "none: every variant failed",
        "margin": "the only variant" if margin is None else f"{number(margin)} % faster than the next variant",
        "decided": m.decided,
        "variants": [
            f"{v.variant}: {number(v.cold_us)} µs"
            if v.status == "ok" and v.cold_us is not None
            else f"{v.variant} failed: {v.reason}"
            for v in m.variants
        ],
    }
