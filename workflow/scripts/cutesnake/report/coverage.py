"""What ran and what did not: the machine, and counts over all operators."""

from typing import Any

from cutesnake.model.records.arch import Arch, NodeClass
from cutesnake.model.records.compare import Compare, Counts
from cutesnake.report.formatting import MOST_NAMED, STAGE_NAMES, listed, plural, span, state

View = dict[str, Any]  # data of a template

TILES = {
    "build": "builds compiled",
    "correctness": "cases checked on a GPU",
    "timing": "cases timed",
    "nsys": "cases profiled with nsys",
    "ncu": "cases profiled with ncu",
}


MOCKED = "Mocked machine (CUTESNAKE_MACHINE): no value of this machine was measured on a GPU."


def machine(arch: Arch) -> View:
    """Describe the machine: GPUs, the GPU in use, tools and readings of the arch check."""
    gpus = [
        f"{d.name} (sm_{d.compute_capability[0]}{d.compute_capability[1]}, driver {d.driver}, "
        f"{d.memory_bytes / 1e9:.0f} GB)"
        for d in arch.devices
    ]
    used = next((d.name for d in arch.devices if d.index == arch.selected), None)
    if not gpus:
        sentence = f"No GPU on this machine: {arch.reason or 'none was detected'}."
    elif used is None:
        sentence = f"{plural(len(gpus), 'GPU')} on this machine, none in use: {arch.reason}."
    else:
        sentence = f"{plural(len(gpus), 'GPU')} on this machine: {'; '.join(gpus)}. In use: {used}."
    if classes := arch.classes:
        sentence = f"Cases run on node classes: {'; '.join(map(_class, classes))}."
    if arch.mocked:
        sentence = f"{MOCKED} {sentence}"
    tools = [f"{name} {'available' if available else 'missing'}" for name, available in arch.tools.items()]
    return {"sentence": sentence, "tools": ", ".join(tools), "readings": arch.readings}


def _class(entry: NodeClass) -> str:
    if entry.device is None:
        return f"{entry.name} (no GPU: {entry.reason})"
    sm = "sm_{}{}".format(*(entry.compute_capability or ()))
    return f"{entry.name} ({entry.device}, {sm}, driver {entry.driver})"


def summary(arch: Arch, comparisons: list[Compare]) -> str:
    """Summarize what was measured, where and when, without assuming earlier sections."""
    sentences = [MOCKED] if arch.mocked else []
    live = _timed(comparisons, "live")
    used = next((d.name for d in arch.devices if d.index == arch.selected), None)
    if live:
        sentences += [f"Measured on this machine, on {device}: {what}." for device, what in live.items()]
    elif used:
        sentences.append(f"Nothing was timed on the {used} of this machine.")
    else:
        sentences.append("Nothing was measured on this machine: it has no GPU in use.")
    build, checked = (_sum(comparisons, stage) for stage in ("build", "correctness"))
    ran = f"This machine compiled and inspected {build['ok']} of {plural(build['expected'], 'build')}"
    ran += f" ({build['recorded']} more are shown from records of the same sources)" * bool(build["recorded"])
    if checked["simulated"]:
        ran += f" and checked {plural(checked['simulated'], 'case')} in simulation on the CPU"
    sentences.append(f"{ran}.")
    recorded = _timed(comparisons, "recorded")
    if recorded:
        places = "; on ".join(f"{device}: {what}" for device, what in recorded.items())
        sentences.append(f"{'Also shown: times' if live else 'The times below were'} recorded on {places}.")
    if not live and not recorded:
        sentences.append("No recorded set has these kernels: all values are static or lower bounds.")
    return " ".join(sentences)


def _timed(comparisons: list[Compare], kind: str) -> dict[str, str]:
    """Return what was timed, per device and date range."""
    counts_of: dict[str, list[tuple[str, int, int]]] = {}
    days: dict[str, set[str]] = {}
    for comparison in comparisons:
        tables = [table for table in comparison.times if table.device.kind == kind]
        for name in dict.fromkeys(table.device.device or "" for table in tables):
            mine = [table for table in tables if (table.device.device or "") == name]
            kernels = {kernel for table in mine for kernel in table.kernels}
            workloads = {row.workload for table in mine for row in table.rows}
            days.setdefault(name, set()).update(day for table in mine for day in table.device.dates)
            counts_of.setdefault(name, []).append((comparison.operator, len(kernels), len(workloads)))
    return {", ".join(filter(None, (name, span(days[name])))): _counted(counts) for name, counts in counts_of.items()}


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
    """Return a tile per stage: counts on this machine and in recorded sets."""
    tiles = []
    for stage in STAGE_NAMES:
        total = _sum(comparisons, stage)
        failed = _failed_live(comparisons, stage)
        simulated = [f"{total['simulated']} passed"] * bool(total["simulated"])
        simulated += [f"{total['failed'] - failed} failed"] * (stage == "correctness" and total["failed"] > failed)
        extra = [f"{failed} failed"] * bool(failed)
        extra += [f"{' and '.join(simulated)} in simulation"] * bool(simulated)
        kept = _recorded(comparisons, stage)
        went = state(Counts(**total, reason=None))
        tiles.append(
            {
                **{"text": TILES[stage], "extra": ", ".join(extra), **total, "state": went},
                "recorded": _recorded_text(kept, total["recorded"]),
            }
        )
    return tiles


def _recorded_text(measured: int, builds: int) -> str:
    """Count cases of recorded sets, and builds or simulated checks recorded without a GPU."""
    parts = [f"{measured} in recorded sets"] * bool(measured) + [f"{builds} recorded without a GPU"] * bool(builds)
    return ", ".join(parts)


def _failed_live(comparisons: list[Compare], stage: str) -> int:
    """Count a stage's failures on this machine; checks count only if a GPU ran them."""
    rows = [row for comparison in comparisons for row in comparison.coverage]
    if stage != "correctness":
        return sum(row.counts(stage).failed for row in rows)
    return sum(gpu.failed for row in rows for gpu in row.gpus[stage] if gpu.kind == "live")


def _recorded(comparisons: list[Compare], stage: str) -> int:
    """Count recorded cases of this experiment, per variant and GPU."""
    rows = [row for comparison in comparisons for row in comparison.coverage]
    gpus = [gpu for row in rows for gpu in row.gpus.get(stage, [])]
    return sum(gpu.ok for gpu in gpus if gpu.kind == "recorded")
