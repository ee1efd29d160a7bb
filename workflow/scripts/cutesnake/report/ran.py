"""What ran and what did not: the machine, counts over everything, and a row per kernel and target with its reasons."""

from __future__ import annotations

from typing import Any

from cutesnake.contract import INSTALLED
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


def machine(arch: Record) -> Record:
    """The machine in sentences: devices, the one in use, tools and packages."""
    found = [
        f"{d['name']} (sm_{d['compute_capability'][0]}{d['compute_capability'][1]}, driver {d['driver']}, "
        f"{d['memory_bytes'] / 1e9:.0f} GB)"
        for d in arch["devices"]
    ]
    used = next((d["name"] for d in arch["devices"] if d["index"] == arch["selected"]), None)
    if not found:
        sentence = f"No GPU here: {arch['reason'] or 'none was found'}."
    elif used is None:
        sentence = f"{plural(len(found), 'GPU')} here, none in use: {arch['reason']}."
    else:
        sentence = f"{plural(len(found), 'GPU')} here: {'; '.join(found)}. In use: {used}."
    if arch.get("simulated"):
        sentence = f"This machine is a simulated one, for trying out the arch check. {sentence}"
    tools = [f"{name} {'found' if there else 'not found'}" for name, there in arch["tools"].items()]
    return {"sentence": sentence, "tools": ", ".join(tools), "readings": arch.get("readings") or {}}


def summary(arch: Record, comparisons: list[Record]) -> str:
    """What was measured where, in plain words for a reader who has read nothing else."""
    said = []
    live = _timed(comparisons, "live")
    used = next((d["name"] for d in arch["devices"] if d["index"] == arch["selected"]), None)
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
    for device, what in _timed(comparisons, "recorded").items():
        said.append(
            f"{'Beside that stand' if live else 'The times below are'} measurements recorded on {device}: {what}."
        )
    if not live and len(said) == 2:
        said.append("No recorded device has these kernels either: all figures are static, or lower bounds.")
    return " ".join(said)


def _timed(comparisons: list[Record], kind: str) -> dict[str, str]:
    """Device and date -> what was timed on it."""
    found: dict[str, list[str]] = {}
    for comparison in comparisons:
        tables = [table for table in comparison["times"] if table["device"]["kind"] == kind]
        for name in dict.fromkeys(table["device"]["device"] for table in tables):
            mine = [table for table in tables if table["device"]["device"] == name]
            kernels = {kernel for table in mine for kernel in table["kernels"]}
            workloads = {row["workload"] for table in mine for row in table["rows"]}
            date = mine[0]["device"]["date"]
            found.setdefault(f"{name}, {date}" if date else name, []).append(
                f"{plural(len(kernels), 'kernel')} of {comparison['operator']} on {plural(len(workloads), 'workload')}"
            )
    return {device: " and ".join(what) for device, what in found.items()}


def _sum(comparisons: list[Record], stage: str) -> Record:
    counts = [row[stage] for comparison in comparisons for row in comparison["coverage"]]
    return {key: sum(count[key] for count in counts) for key in ("expected", "ok", "failed", "simulated")}


def totals(comparisons: list[Record]) -> list[Record]:
    """One tile per stage: how many of how many on this machine, over all operators, and how many recorded elsewhere."""
    tiles = []
    for stage in STAGE_NAMES:
        total = _sum(comparisons, stage)
        extra = []
        if total["failed"]:
            extra.append(f"{total['failed']} failed")
        if total["simulated"]:
            extra.append(f"{total['simulated']} checked by simulation")
        kept = _recorded(comparisons, stage)
        tiles.append(
            {
                **{"words": TILES[stage], "extra": ", ".join(extra), **total, "state": state(total)},
                "recorded": f"{kept} in recorded sets" if kept else "",
            }
        )
    return tiles


def _recorded(comparisons: list[Record], stage: str) -> int:
    """Cases of this experiment that recorded sets have, each variant and card counted."""
    rows = [row for comparison in comparisons for row in comparison["coverage"]]
    cards = [card for row in rows for card in row["cards"].get(stage, [])]
    return sum(card["ok"] for card in cards if card["kind"] == "recorded")


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
