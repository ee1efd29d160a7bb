"""Matrix of kernels and targets: built, checked and timed, on which GPU, and why not."""

from typing import Any

from cutesnake.model.contract import INSTALLED
from cutesnake.model.records.compare import Compare, Counts, Coverage, DeviceCounts
from cutesnake.report.formatting import DSL_NAMES, STAGE_NAMES, Notes, listed, plural, short, slug

View = dict[str, Any]  # data of a template

STOOD_FOR = (
    "without a GPU of their target, only a few builds that differ in compile-time sizes are compiled; "
    "--config 'compile={baked_sizes: all}' compiles all"
)
PARTICIPLES = {"nsys": "profiled", "ncu": "profiled"}  # sentences do not distinguish the profilers


def matrix(comparison: Compare, notes: Notes, page: str) -> View:
    """Return an operator's rows and sums; `page` is the link to the operator's page."""
    rows = comparison.coverage
    return {
        "operator": comparison.operator,
        "page": page,
        "kernels": plural(len({row.kernel for row in rows}), "kernel"),
        "sums": _sums(rows),
        "rows": [
            {
                **{"kernel": row.kernel, "target": row.target},
                "dsl": DSL_NAMES[row.dsl],
                "link": f"{page}#{slug('kernel', comparison.operator, row.kernel)}",
                "states": [_built(row.build), *(_ran(row, stage) for stage in list(STAGE_NAMES)[1:])],
                "why": _why(row, notes),
            }
            for row in rows
        ],
    }


def _state(mark: str, kind: str, text: str, value: float) -> View:
    """Return mark, CSS class, text and sort value of a cell."""
    return {"mark": mark, "class": kind, "text": text, "value": value}


def _built(count: Counts) -> View:
    expected, ok, failed = count.expected, count.ok, count.failed
    if failed:
        return _state("✕", "bad", f"{failed} of {expected} failed", -failed)
    if expected == 0:
        return _state("\N{EN DASH}", "none", "no", -1)
    text = f"{ok} of {expected}" + f", {count.recorded} recorded" * bool(count.recorded)
    there = ok + count.recorded
    return _state(*(("✓", "good") if there >= expected else ("○", "none")), text, there)


def _ran(row: Coverage, stage: str) -> View:
    """Return where a stage ran and on how many cases, GPU and simulation apart."""
    count, gpus = row.counts(stage), row.gpus[stage]
    done = [gpu for gpu in gpus if gpu.ok]
    failed = [gpu for gpu in gpus if gpu.failed]
    parts = [f"{gpu.ok} on {_gpu_name(gpu)}" for gpu in done]
    parts += [f"{count.simulated} in simulation"] * bool(count.simulated)
    parts += [f"{count.recorded} in simulation, recorded"] * bool(count.recorded)
    parts += [f"{gpu.failed} failed on {_gpu_name(gpu)}" for gpu in failed]
    broken = count.failed - sum(gpu.failed for gpu in failed if gpu.kind == "live")
    if broken > 0:
        parts.append(f"{broken} failed in simulation")
    total = sum(gpu.ok for gpu in done)
    if broken > 0 or failed:
        return _state("✕", "bad", ", ".join(parts), -1)
    if any(gpu.ok >= count.expected for gpu in done):
        return _state("✓", "good", ", ".join(parts), total)
    if parts:
        return _state("◐", "part", ", ".join(parts), total or count.simulated + count.recorded)
    if count.expected == 0:
        return _state("\N{EN DASH}", "none", "no", -1)
    return _state("○", "none", f"0 of {count.expected}", 0)


def _gpu_name(gpu: DeviceCounts) -> str:
    return f"{short(gpu.device)}{' (this machine)' * (gpu.kind == 'live')}"


def _sums(rows: list[Coverage]) -> list[str]:
    """Summarize an operator: builds, and cases checked and timed per location."""
    built = sum(row.build.ok for row in rows)
    recorded = sum(row.build.recorded for row in rows)
    parts = [f"{built} of {plural(sum(row.build.expected for row in rows), 'build')}"]
    parts += [f"{recorded} recorded"] * bool(recorded)
    for stage, word in (("correctness", "checked"), ("timing", "timed")):
        places: dict[str, int] = {}
        for row in rows:
            for gpu in row.gpus[stage]:
                places[_gpu_name(gpu)] = places.get(_gpu_name(gpu), 0) + gpu.ok
        places_text = [f"{count} on {place}" for place, count in places.items() if count]
        simulated = sum(row.counts(stage).simulated for row in rows)
        places_text += [f"{simulated} in simulation"] * bool(simulated)
        kept = sum(row.counts(stage).recorded for row in rows)
        places_text += [f"{kept} in simulation, recorded"] * bool(kept)
        parts.append(f"{word} {listed(places_text)}" if places_text else f"not {word}")
    return parts


def _why(entry: Coverage, notes: Notes) -> list[View]:
    """Return what did not happen, each with the number of its reason."""
    reasons: dict[str, list[str]] = {}
    built = entry.build.reason
    for stage in STAGE_NAMES:
        if reason := entry.counts(stage).reason:
            key = built if built and reason == f"did not compile: {built}" else reason
            reasons.setdefault(key, []).append(stage)
    views = [{"text": _missed(entry, stages, reason), "note": notes.mark(reason)} for reason, stages in reasons.items()]
    if count := entry.stood_for:
        views.append({"text": f"{plural(count, 'more build')} not compiled", "note": notes.mark(STOOD_FOR)})
    if entry.not_simulated:
        views.append({"text": "not simulated", "note": notes.mark(entry.not_simulated)})
    if entry.build.expected:
        views += [
            {"text": f"{plural(left.workloads, 'workload')} not supported", "note": notes.mark(left.reason)}
            for left in entry.unsupported
        ]
    return views


def _missed(entry: Coverage, stages: list[str], reason: str) -> str:
    """Say what `stages` of one reason did not do; failed checks count as run."""
    if entry.build.failed and reason == entry.build.reason:
        return "did not compile"
    if "build" in stages:
        return "not run" if entry.source == INSTALLED else "not built"
    if stages == ["correctness"] and entry.correctness.failed:
        return "failed its check"
    names = {stage: PARTICIPLES.get(stage, name) for stage, name in STAGE_NAMES.items()}
    if entry.correctness.simulated:
        names["correctness"] = "checked on a GPU"
    *others, last = dict.fromkeys(names[stage] for stage in stages)
    place = " on this machine" if any(entry.gpus[stage] for stage in stages) else ""
    return f"not {' or '.join(filter(None, (', '.join(others), last)))}{place}"
