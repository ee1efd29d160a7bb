"""What ran and what did not: the machine, counts over everything, and a row per kernel and target with its reasons."""

from __future__ import annotations

from typing import Any

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


def totals(comparisons: list[Record]) -> list[Record]:
    """One tile per stage: how many of how many, over all operators."""
    tiles = []
    for stage in STAGE_NAMES:
        counts = [row[stage] for comparison in comparisons for row in comparison["coverage"]]
        total = {key: sum(count[key] for count in counts) for key in ("expected", "ok", "failed", "simulated")}
        extra = []
        if total["failed"]:
            extra.append(f"{total['failed']} failed")
        if total["simulated"]:
            extra.append(f"{total['simulated']} checked by simulation")
        tiles.append({"words": TILES[stage], "extra": ", ".join(extra), **total, "state": state(total)})
    return tiles


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
            stages.setdefault(said, []).append(PARTICIPLES.get(stage, name))
    told = []
    for reason, names in stages.items():
        names = list(dict.fromkeys(names))
        if len(names) == 4:  # all of them
            told.append(f"Not built: {reason}")
        elif entry["build"]["failed"] and names == ["built"]:
            told.append(f"The compiler says: {reason}")
        else:
            told.append(f"Not {', '.join(names[:-1])}{' or ' * (len(names) > 1)}{names[-1]}: {reason}")
    if entry["not_simulated"]:
        told.append(f"Not checked by simulation: {entry['not_simulated']}")
    if entry["build"]["expected"]:
        told += [f"{plural(left['workloads'], 'workload')} left out: {left['reason']}" for left in entry["unsupported"]]
    return told
