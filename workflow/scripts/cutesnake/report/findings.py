"""Findings besides the verdicts: sentences that follow from the comparisons by fixed rules."""

from collections import Counter
from statistics import median
from typing import Any

from cutesnake.analysis.compare.insight import NOISE_PERCENT, number
from cutesnake.model.contract import OWN
from cutesnake.model.dsls import COMPARED
from cutesnake.model.records.arch import Arch
from cutesnake.model.records.compare import Compare, Coverage
from cutesnake.report.device_agreement import gpu_agreement
from cutesnake.report.formatting import DSL_NAMES, MOST_NAMED, listed, plural, short


def findings(arch: Arch, comparisons: list[Compare]) -> list[dict[str, Any]]:
    """Return the findings that no verdict shows, each with its heading."""
    timed = any(entry.cold and entry.warm for c in comparisons for entry in c.speedups)
    none = f"Not known: no GPU timed a workload in both DSLs. {_timed_alone(comparisons)}."
    return [
        *[{"question": "Speedup", "text": none}] * (not timed),
        {"question": "Confidence", "text": _sure(comparisons)},
        {"question": "Not run", "text": _not_run(arch, comparisons)},
        {"question": "Other GPUs", "text": gpu_agreement(comparisons)},
    ]


def _timed_alone(comparisons: list[Compare]) -> str:
    """Say which DSL was timed, and where, if no workload was timed in both."""
    gpus: dict[str, list[str]] = {}
    for table in (table for c in comparisons for table in c.times):
        for side in set(COMPARED) & set(table.kernels.values()):
            gpus.setdefault(side, []).append(short(table.device.device))
    if not gpus:
        return "Neither DSL has a measured time"
    alone = "Only " * (len(gpus) == 1)
    places = {side: listed(sorted(set(on))) for side, on in sorted(gpus.items())}
    return listed([f"{alone}{DSL_NAMES[side]} was timed, on {on}" for side, on in places.items()])


def _sure(comparisons: list[Compare]) -> str:
    times = [time for c in comparisons for table in c.times for row in table.rows for time in row.kernels.values()]
    sentences = []
    if times:
        spreads = [time.spread_percent for time in times]
        flagged = sum(bool(time.flags) for time in times)
        sentences += [
            f"Median spread of samples: {number(median(spreads))} % (maximum {number(max(spreads))} %)",
            f"Times count as equal if they differ by less than {number(NOISE_PERCENT)} % or their noise",
            f"{flagged} of {number(len(times))} times have a flag, such as a clock lowered by the power limit",
        ]
    return ". ".join([*sentences, *_checked(comparisons)]) + "."


def _checked(comparisons: list[Compare]) -> list[str]:
    rows = [row for c in comparisons for row in c.coverage]
    outcomes: dict[str, Counter[str]] = {}
    for row in rows:
        for gpu in row.gpus["correctness"]:
            outcomes.setdefault(short(gpu.device), Counter()).update({"ok": gpu.ok, "failed": gpu.failed})
    within = [
        f"{number(counts['ok'])} of {plural(counts['ok'] + counts['failed'], 'case')} on {gpu}"
        for gpu, counts in outcomes.items()
    ]
    sentences = [f"Results within tolerance: {listed(within)}"] if within else []
    if simulated := sum(row.correctness.simulated for row in rows):
        sentences.append(f"{plural(simulated, 'case')} passed in simulation (not a hardware result)")
    return [*sentences, *_failed(comparisons)] or ["No case was checked"]


def _failed(comparisons: list[Compare]) -> list[str]:
    """Count failed checks per kernel, and say whether any is a kernel of this project."""
    rows = [(c.operator, row) for c in comparisons for row in c.coverage if row.correctness.failed]
    failed = Counter[str]()
    for operator, row in rows:
        failed[f"{operator}/{row.kernel}"] += row.correctness.failed
    if not failed:
        return []
    most = [f"{kernel} {count}" for kernel, count in failed.most_common(MOST_NAMED)]
    more = f" and {plural(left, 'more kernel')}" if (left := len(failed) - len(most)) else ""
    third_party = "" if any(row.source == OWN for _, row in rows) else ", all of third-party kernels"
    return [
        f"{plural(failed.total(), 'case')} failed their check on this machine, GPU or simulated{third_party} "
        f"({', '.join(most)}{more})"
    ]


def _not_run(arch: Arch, comparisons: list[Compare]) -> str:
    rows = [(c.operator, row) for c in comparisons for row in c.coverage]
    device = next((d.name for d in arch.devices if d.index == arch.selected), None)
    sentences = [
        f"Cases of this machine ran on {short(device)}"
        if device
        else "This machine has no GPU in use; times and checks on GPUs are recorded ones"
    ]
    built = [(operator, row) for operator, row in rows if row.build.ok]
    untimed = Counter(row.target for _, row in built if not any(gpu.ok for gpu in row.gpus["timing"]))
    if untimed:
        kinds = (f"{count if len(untimed) > 1 else 'all'} {target}" for target, count in untimed.items())
        sentences.append(
            f"{untimed.total()} of {plural(len(built), 'kernel/target pair')} have no hardware timing "
            f"({', '.join(kinds)})"
        )
    if unchecked := sum(not _was_checked(row) for _, row in built):
        sentences.append(f"{plural(unchecked, 'pair')} not checked, neither on a GPU nor in simulation")
    failed = sum(row.build.failed for _, row in rows)
    if failed:
        sentences.append(f"{plural(failed, 'build')} did not compile")
    return ". ".join(sentences) + "."


def _was_checked(row: Coverage) -> bool:
    """Return whether any check of the kernel ended, on this machine or a recorded GPU."""
    done = row.correctness.ok + row.correctness.failed + row.correctness.simulated
    return done > 0 or any(gpu.ok or gpu.failed for gpu in row.gpus["correctness"])


def unsupported_inputs(comparisons: list[Compare]) -> list[dict[str, Any]]:
    """Return results of kernels on inputs that they do not support, failures first."""
    entries = [(c.operator, entry) for c in comparisons for entry in c.unsupported_inputs]
    return [
        {
            "operator": operator,
            "failed": bool(entry.failed),
            "text": f"{entry.kernel} ({DSL_NAMES[entry.dsl]}, {entry.target}) "
            + (
                f"fails {entry.failed} of {plural(entry.checks, 'check')}"
                if entry.failed
                else f"passes all {plural(entry.checks, 'check')}"
            )
            + f" with {entry.distribution.replace('_', ' ')}, an unsupported input ({entry.why})"
            + (f": {entry.reason}" if entry.reason else "")
            + f". Run on {listed([short(place) for place in entry.places])}.",
        }
        for operator, entry in sorted(entries, key=lambda item: not item[1].failed)
    ]
