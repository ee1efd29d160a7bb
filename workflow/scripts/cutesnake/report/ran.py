"""What ran and what did not: the machine, counts over everything, and a row per kernel and target with its reasons."""

from __future__ import annotations

from typing import Any

from cutesnake.contract import INSTALLED
from cutesnake.evidence.gather import Evidence
from cutesnake.report.words import DSL_NAMES, STAGE_NAMES, plural, slug, state

Record = dict[str, Any]

TILES = {
    "build": "builds compiled",
    "correctness": "cases checked on a GPU",
    "timing": "cases timed",
    "nsys": "cases profiled with nsys",
    "ncu": "cases profiled with ncu",
}
PARTICIPLES = {"nsys": "profiled", "ncu": "profiled"}  # in a sentence both profilers are one


def machine(plan: Record) -> Record:
    """The machine in sentences: devices, the one in use, tools and packages."""
    found = [
        f"{d['name']} (sm_{d['compute_capability'][0]}{d['compute_capability'][1]}, driver {d['driver']}, "
        f"{d['memory_bytes'] / 1e9:.0f} GB)"
        for d in plan["devices"]
    ]
    used = next((d["name"] for d in plan["devices"] if d["index"] == plan["selected"]), None)
    if not found:
        sentence = f"No GPU here: {plan['reason'] or 'none was found'}."
    elif used is None:
        sentence = f"{plural(len(found), 'GPU')} here, none in use: {plan['reason']}."
    else:
        sentence = f"{plural(len(found), 'GPU')} here: {'; '.join(found)}. In use: {used}."
    if plan.get("simulated"):
        sentence = f"This machine is a simulated one, for trying out the arch check. {sentence}"
    tools = [f"{name} {'found' if there else 'not found'}" for name, there in plan["tools"].items()]
    return {"sentence": sentence, "tools": ", ".join(tools), "readings": plan.get("readings") or {}}


def summary(plan: Record, evidences: list[Evidence], comparisons: list[Record]) -> str:
    """What was measured where, in plain words for a reader who has read nothing else."""
    said = []
    live = _timed(evidences, "live")
    used = next((d["name"] for d in plan["devices"] if d["index"] == plan["selected"]), None)
    if live:
        said += [f"Measured on this machine, on {device}: {what}." for device, what in live.items()]
    elif used:
        said.append(f"Nothing was timed here on the {used}.")
    else:
        said.append("Nothing was measured on this machine: it has no GPU in use.")
    build, checked = (_sum(comparisons, stage) for stage in ("build", "correctness"))
    ran = f"It compiled and inspected {build['ok']} of {plural(build['expected'], 'build')}"
    if checked["simulated"]:
        ran += f" and checked {plural(checked['simulated'], 'case')} by simulation on the CPU"
    said.append(f"{ran}.")
    for device, what in _timed(evidences, "recorded").items():
        said.append(
            f"{'Beside that stand' if live else 'The times below are'} measurements recorded on {device}: {what}."
        )
    if not live and len(said) == 2:
        said.append("No recorded device has these kernels either: all figures are static, or lower bounds.")
    return " ".join(said)


def _timed(evidences: list[Evidence], kind: str) -> dict[str, str]:
    """Device and date -> what was timed on it."""
    found: dict[str, list[str]] = {}
    for evidence in evidences:
        sources = [s for t in {t for _, t in evidence.decisions} for s in evidence.sources(t) if s.kind == kind]
        for source in dict.fromkeys(sources):
            cases = [entry["case"] for entry in evidence.records(source, "timing")]
            kernels, workloads = ({case[key] for case in cases} for key in ("kernel", "workload"))
            if cases:
                made = evidence.label(source)
                device = f"{source.device}, {made['date']}" if made["date"] else source.device
                found.setdefault(device, []).append(
                    f"{plural(len(kernels), 'kernel')} of {evidence.operator} on {plural(len(workloads), 'workload')}"
                )
    return {device: " and ".join(what) for device, what in found.items()}


def _sum(comparisons: list[Record], stage: str) -> Record:
    counts = [row[stage] for comparison in comparisons for row in comparison["coverage"]]
    return {key: sum(count[key] for count in counts) for key in ("expected", "ok", "failed", "simulated")}


def totals(comparisons: list[Record], evidences: list[Evidence]) -> list[Record]:
    """One tile per stage: how many of how many on this machine, over all operators, and how many recorded elsewhere."""
    tiles = []
    for stage in STAGE_NAMES:
        total = _sum(comparisons, stage)
        extra = []
        if total["failed"]:
            extra.append(f"{total['failed']} failed")
        if total["simulated"]:
            extra.append(f"{total['simulated']} checked by simulation")
        kept = sum(len(_recorded(evidence, stage)) for evidence in evidences)
        tiles.append(
            {
                **{"words": TILES[stage], "extra": ", ".join(extra), **total, "state": state(total)},
                "recorded": f"{kept} in recorded sets" if kept else "",
            }
        )
    return tiles


def _recorded(evidence: Evidence, stage: str) -> set[tuple[str, str, str]]:
    """(kernel, target, workload) of this experiment that a recorded set has, whichever the variant."""
    cases = [e["case"] for e in evidence.recorded.values() if (e["stage"], e["status"]) == (stage, "ok")]
    return {
        (case["kernel"], case["target"], case["workload"])
        for case in cases
        if (case["kernel"], case["target"]) in evidence.decisions and case["workload"] in evidence.workloads
    }


def coverage(comparison: Record) -> list[Record]:
    """A view of each kernel and target."""
    rows = []
    for entry in comparison["coverage"]:
        rows.append(
            {
                **{key: entry[key] for key in ("kernel", "target", "source")},
                "dsl": DSL_NAMES[entry["dsl"]],
                "anchor": slug("kernel", comparison["operator"], entry["kernel"]),
                "states": [state(entry[stage]) for stage in STAGE_NAMES],
                "reasons": _reasons(entry),
            }
        )
    return rows


def _reasons(entry: Record) -> list[str]:
    """Each reason once, with the stages that it keeps from running, and what the kernel cannot compute."""
    stages: dict[str, list[str]] = {}
    for stage, name in STAGE_NAMES.items():
        if reason := entry[stage]["reason"]:
            said = "did not compile" if reason == f"did not compile: {entry['build']['reason']}" else reason
            name = "checked on a GPU" if entry[stage]["simulated"] else PARTICIPLES.get(stage, name)
            stages.setdefault(said, []).append(name)
    told = []
    for reason, names in stages.items():
        names = list(dict.fromkeys(names))
        if len(names) == 4:  # all of them
            told.append(f"Not {'run' if entry['source'] == INSTALLED else 'built'}: {reason}")
        elif entry["build"]["failed"] and names == ["built"]:
            told.append(f"The compiler says: {reason}")
        else:
            told.append(f"Not {', '.join(names[:-1])}{' or ' * (len(names) > 1)}{names[-1]}: {reason}")
    if entry["not_simulated"]:
        told.append(f"Not checked by simulation: {entry['not_simulated']}")
    if entry["build"]["expected"]:
        told += [f"{plural(left['workloads'], 'workload')} left out: {left['reason']}" for left in entry["unsupported"]]
    return told
