"""What ran and what did not: the machine, and counts over everything."""

from __future__ import annotations

from typing import Any

from cutesnake.model.records.arch import Arch, NodeClass
from cutesnake.model.records.compare import Compare, Counts
from cutesnake.report.formatting import MOST_NAMED, STAGE_NAMES, listed, plural, span, state

View = dict[str, Any]  # what a template shows

TILES = {
    "build": "builds compiled",
    "correctness": "cases checked on a GPU",
    "timing": "cases timed",
    "nsys": "cases profiled with nsys",
    "ncu": "cases profiled with ncu",
}


MOCKED = "Mocked machine (CUTESNAKE_MACHINE): no figure of this machine was measured on a GPU."


def machine(arch: Arch) -> View:
    """The machine in sentences: devices, the one in use, tools and packages."""
    found = [
        f"{d.name} (sm_{d.compute_capability[0]}{d.compute_capability[1]}, driver {d.driver}, "
        f"{d.memory_bytes / 1e9:.0f} GB)"
        for d in arch.devices
    ]
    used = next((d.name for d in arch.devices if d.index == arch.selected), None)
    if not found:
        sentence = f"No GPU here: {arch.reason or 'none was found'}."
    elif used is None:
        sentence = f"{plural(len(found), 'GPU')} here, none in use: {arch.reason}."
    else:
        sentence = f"{plural(len(found), 'GPU')} here: {'; '.join(found)}. In use: {used}."
    if classes := arch.classes:
        sentence = f"Cases run on classes of nodes: {'; '.join(map(_class, classes))}."
    if arch.pretended:
        sentence = f"{MOCKED} {sentence}"
    tools = [f"{name} {'found' if there else 'not found'}" for name, there in arch.tools.items()]
    return {"sentence": sentence, "tools": ", ".join(tools), "readings": arch.readings}


def _class(entry: NodeClass) -> str:
    if entry.device is None:
        return f"{entry.name} (no card: {entry.reason})"
    sm = "sm_{}{}".format(*(entry.compute_capability or ()))
    return f"{entry.name} ({entry.device}, {sm}, driver {entry.driver})"


def summary(arch: Arch, comparisons: list[Compare]) -> str:
    """What was measured where, in plain words for a reader who has read nothing else."""
    said = [MOCKED] if arch.pretended else []
    live = _timed(comparisons, "live")
    used = next((d.name for d in arch.devices if d.index == arch.selected), None)
    if live:
        said += [f"Measured on this machine, on {device}: {what}." for device, what in live.items()]
    elif used:
        said.append(f"Nothing was timed here on the {used}.")
    else:
        said.append("Nothing was measured on this machine: it has no GPU in use.")
    build, checked = (_sum(comparisons, stage) for stage in ("build", "correctness"))
    ran = f"It compiled and inspected {build['ok']} of {plural(build['expected'], 'build')}"
    ran += f" ({build['recorded']} more are shown from records of the same sources)" * bool(build["recorded"])
    if checked["simulated"]:
        ran += f" and checked {plural(checked['simulated'], 'case')} by simulation on the CPU"
    said.append(f"{ran}.")
    recorded = _timed(comparisons, "recorded")
    if recorded:
        places = "; on ".join(f"{device}: {what}" for device, what in recorded.items())
        said.append(f"{'Beside that stand' if live else 'The times below are'} measurements recorded on {places}.")
    if not live and not recorded:
        said.append("No recorded device has these kernels either: all figures are static, or lower bounds.")
    return " ".join(said)


def _timed(comparisons: list[Compare], kind: str) -> dict[str, str]:
    """Device and days -> what was timed on it: each operator by name where they are few."""
    found: dict[str, list[tuple[str, int, int]]] = {}
    days: dict[str, set[str]] = {}
    for comparison in comparisons:
        tables = [table for table in comparison.times if table.device.kind == kind]
        for name in dict.fromkeys(table.device.device or "" for table in tables):
            mine = [table for table in tables if (table.device.device or "") == name]
            kernels = {kernel for table in mine for kernel in table.kernels}
            workloads = {row.workload for table in mine for row in table.rows}
            days.setdefault(name, set()).update(day for table in mine for day in table.device.dates)
            found.setdefault(name, []).append((comparison.operator, len(kernels), len(workloads)))
    return {", ".join(filter(None, (name, span(days[name])))): _counted(counts) for name, counts in found.items()}


def _counted(counts: list[tuple[str, int, int]]) -> str:
    if len(counts) > MOST_NAMED:
        kernels, workloads = (sum(column) for column in list(zip(*counts, strict=True))[1:])
        return f"{plural(kernels, 'kernel')} of {len(counts)} operators on {plural(workloads, 'workload')}"
    return listed([f"{plural(k, 'kernel')} of {operator} on {plural(w, 'workload')}" for operator, k, w in counts])


def _sum(comparisons: list[Compare], stage: str) -> dict[str, int]:
    counts = [row.counts(stage) for comparison in comparisons for row in comparison.coverage]
    return {
        "expected": sum(count.expected for count in counts),
        "ok": sum(count.ok for count in counts),
        "failed": sum(count.failed for count in counts),
        "simulated": sum(count.simulated for count in counts),
        "recorded": sum(count.recorded for count in counts),
    }


def totals(comparisons: list[Compare]) -> list[View]:
    """One tile per stage: how many of how many on this machine, over all operators, and how many recorded elsewhere."""
    tiles = []
    for stage in STAGE_NAMES:
        total = _sum(comparisons, stage)
        failed = _failed_here(comparisons, stage)
        simulated = [f"{total['simulated']} right"] * bool(total["simulated"])
        simulated += [f"{total['failed'] - failed} failed"] * (stage == "correctness" and total["failed"] > failed)
        extra = [f"{failed} failed"] * bool(failed)
        extra += [f"{' and '.join(simulated)} by simulation"] * bool(simulated)
        kept = _recorded(comparisons, stage)
        went = state(Counts(**total, reason=None))
        tiles.append(
            {
                **{
                    "words": TILES[stage],
                    "extra": ", ".join(extra),
                    **total,
                    "state": went,
                },
                "recorded": _recorded_text(kept, total["recorded"]),
            }
        )
    return tiles


def _recorded_text(measured: int, builds: int) -> str:
    """How many cases recorded sets have, and how many builds or simulated checks are shown from the repository."""
    parts = [f"{measured} in recorded sets"] * bool(measured) + [f"{builds} recorded without a GPU"] * bool(builds)
    return ", ".join(parts)


def _failed_here(comparisons: list[Compare], stage: str) -> int:
    """How many failed of what the tile of a stage counts: of checks those on this machine's cards."""
    rows = [row for comparison in comparisons for row in comparison.coverage]
    if stage != "correctness":
        return sum(row.counts(stage).failed for row in rows)
    return sum(card.failed for row in rows for card in row.cards[stage] if card.kind == "live")


def _recorded(comparisons: list[Compare], stage: str) -> int:
    """Cases of this experiment that recorded sets have, each variant and card counted."""
    rows = [row for comparison in comparisons for row in comparison.coverage]
    cards = [card for row in rows for card in row.cards.get(stage, [])]
    return sum(card.ok for card in cards if card.kind == "recorded")
