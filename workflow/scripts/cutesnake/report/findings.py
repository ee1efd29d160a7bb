"""Front page findings: five sentences that follow from the comparisons by fixed rules.

Order: which DSL is faster and by how much; confidence; what did not run; other kernels; other GPUs.
"""

from collections import Counter
from statistics import median
from typing import Any, NamedTuple

from cutesnake.analysis.compare.insight import NOISE_PERCENT, number
from cutesnake.model.contract import OWN
from cutesnake.model.records.arch import Arch
from cutesnake.model.records.compare import Compare, Coverage, Speed
from cutesnake.report.device_agreement import gpu_agreement
from cutesnake.report.formatting import DSL_NAMES, MOST_NAMED, first_few, listed, plural, short


class Both(NamedTuple):
    """Speed of CuTe over cuTile on a GPU that timed both."""

    device: str | None
    target: str
    cold: Speed
    warm: Speed


class Other(NamedTuple):
    """Speed of the better of both DSLs over another kernel."""

    kernel: str
    dsl: str
    cold: Speed
    warm: Speed


Rival = tuple[str, str, Other]  # operator, GPU, speed over the rival
SIDES = {name: DSL_NAMES[name] for name in ("cute", "cutile")}
TIMES = "\N{MULTIPLICATION SIGN}"


def findings(arch: Arch, comparisons: list[Compare]) -> list[dict[str, Any]]:
    """Return the five findings, each with its heading; `boxed`: a page's verdicts show it too."""
    return [
        {"question": "Speedup", "boxed": True, "text": _faster(comparisons)},
        {"question": "Confidence", "boxed": False, "text": _sure(comparisons)},
        {"question": "Not run", "boxed": False, "text": _not_run(arch, comparisons)},
        {"question": "Other kernels", "boxed": True, "text": _others(comparisons)},
        {"question": "Other GPUs", "boxed": False, "text": gpu_agreement(comparisons)},
    ]


def _timed(comparisons: list[Compare]) -> list[tuple[str, Both]]:
    """Return (operator, speedup) per operator, target and GPU that timed both DSLs."""
    return [
        (c.operator, Both(entry.device.device, entry.target, entry.cold, entry.warm))
        for c in comparisons
        for entry in c.speedups
        if entry.cold and entry.warm
    ]


def _faster(comparisons: list[Compare]) -> str:
    timed = _timed(comparisons)
    if not timed:
        return f"Not known: no GPU timed a workload in both DSLs. {_timed_alone(comparisons)}."
    places: dict[tuple[str, str], list[tuple[str, Both]]] = {}
    for operator, entry in timed:
        places.setdefault((entry.device or "", entry.target), []).append((operator, entry))
    sentences: list[str] = []
    first: list[tuple[str, Both]] = []
    main = comparisons[0].operator
    for (gpu, _), entries in places.items():
        if len(entries) == 1:
            sentences.append(_one_operator(short(gpu), *entries[0]))
        elif first and _sides(entries) == _sides(first):
            sentences.append(f"On {short(gpu)}, the same DSL leads each operator ({_figures(entries, main)}).")
        else:
            sentences.append(_several(short(gpu), entries, len(comparisons), main))
            first = first or entries
    return " ".join(sentences)


def _timed_alone(comparisons: list[Compare]) -> str:
    """Say which DSL was timed, and where, if no workload was timed in both."""
    gpus: dict[str, list[str]] = {}
    for table in (table for c in comparisons for table in c.times):
        for side in set(SIDES) & set(table.kernels.values()):
            gpus.setdefault(side, []).append(short(table.device.device))
    if not gpus:
        return "Neither DSL has a measured time"
    alone = "Only " * (len(gpus) == 1)
    places = {side: listed(sorted(set(on))) for side, on in sorted(gpus.items())}
    return listed([f"{alone}{SIDES[side]} was timed, on {on}" for side, on in places.items()])


def _one_operator(gpu: str, operator: str, entry: Both) -> str:
    lead = _leader(entry) or ("cute" if entry.warm.mean >= 1 else "cutile")
    other = next(name for side, name in SIDES.items() if side != lead)
    warm, cold = _speed_text(entry.warm, lead), _speed_text(entry.cold, lead)
    return f"{gpu}, {operator}, best {SIDES[lead]} vs best {other} kernel: warm {warm}; cold {cold}."


def _speed_text(speed: Speed, lead: str) -> str:
    """Format a speedup from the leader's side: mean, range, and workloads by outcome."""
    ahead, behind = _ahead(speed, lead)
    ratios = [speed.mean, speed.least, speed.most]
    mean, least, most = ratios if lead == "cute" else [1 / ratios[0], 1 / ratios[2], 1 / ratios[1]]
    counts = f"faster on {ahead} of {plural(speed.workloads, 'workload')}"
    counts += f", equal on {speed.equal}" * bool(speed.equal)
    counts += f", slower on {behind}" * bool(behind)
    return f"{mean:.2f}{TIMES} ({least:.2f}{TIMES} to {most:.2f}{TIMES}; {counts})"


def _ahead(speed: Speed, lead: str) -> tuple[int, int]:
    """Return on how many workloads the leader is faster, and slower."""
    return (speed.faster, speed.slower) if lead == "cute" else (speed.slower, speed.faster)


def _leader(entry: Both) -> str | None:
    """Return the DSL that leads beyond the noise both cold and warm, or None."""
    means = [entry.cold.mean, entry.warm.mean]
    limit = 1 + NOISE_PERCENT / 100
    if all(mean > limit for mean in means):
        return "cute"
    return "cutile" if all(mean < 1 / limit for mean in means) else None


def _sides(entries: list[tuple[str, Both]]) -> dict[str, str | None]:
    return {operator: _leader(entry) for operator, entry in entries}


def _figures(entries: list[tuple[str, Both]], main: str) -> str:
    """Format the leaders' speedups, main operator first, then by size of the lead."""
    ratios = []
    for operator, entry in entries:
        warm, cold = entry.warm.mean, entry.cold.mean
        lead = _leader(entry)
        speedups = (1 / warm, 1 / cold) if lead == "cutile" else (warm, cold)
        ratios.append((operator, *speedups, _but(entry, lead) if lead else ""))
    ratios.sort(key=lambda ratio: (ratio[0] != main, -abs(1 - ratio[1])))
    return first_few(
        [f"{operator} {warm:.2f}{TIMES} warm, {cold:.2f}{TIMES} cold{but}" for operator, warm, cold, but in ratios]
    )


def _but(entry: Both, lead: str) -> str:
    """Return a qualifier if the leader is slower on as many workloads as faster."""
    for kind, speed in (("warm", entry.warm), ("cold", entry.cold)):
        ahead, behind = _ahead(speed, lead)
        if behind >= ahead:
            return f", but {kind} faster on {ahead} and slower on {behind} of {plural(speed.workloads, 'workload')}"
    return ""


def _several(gpu: str, entries: list[tuple[str, Both]], operators: int, main: str) -> str:
    """Say which DSL leads each operator on one GPU, with the main operator first."""
    sides = _sides(entries)
    parts = []
    for lead, name in SIDES.items():
        if mine := [item for item in entries if sides[item[0]] == lead]:
            parts.append(f"{name} is faster for {len(mine)} ({_figures(mine, main)}).")
    if neither := [operator for operator, lead in sides.items() if lead is None]:
        parts.append(f"For {len(neither)}, neither leads both cold and warm ({', '.join(neither)}).")
    timed = f"{len(entries)} of {operators}" if len(entries) < operators else f"all {operators}"
    return f"On {gpu}, {timed} operators were timed in both DSLs. {' '.join(parts)}"


def _others(comparisons: list[Compare]) -> str:
    """Compare the better DSL with the strongest other kernel of each operator."""
    rivals = [rival for c in comparisons if (rival := _strongest(c))]
    if not rivals:
        return "No other kernel was timed."
    (operator, gpu, other), *rest = rivals
    sentences = [
        f"Strongest other kernel of {operator}: {other.kernel} ({DSL_NAMES[other.dsl]}). The better of the two DSLs is "
        f"{other.warm.mean:.2f}{TIMES} as fast warm and {other.cold.mean:.2f}{TIMES} cold (geometric mean of "
        f"{plural(other.warm.workloads, 'workload')} on {gpu}; worst workload "
        f"{min(other.warm.least, other.cold.least):.2f}{TIMES})."
    ]
    groups: dict[str, list[Rival]] = {"leads": [], "trails": []}
    for rival in rest:
        groups["leads" if _slower_figure(rival[2]) >= 1 else "trails"].append(rival)
    named = [f"{name} in {len(group)} ({_rivals(group)})" for name, group in groups.items() if group]
    if named:
        sentences.append(f"In {plural(len(rest), 'other operator')}, it {listed(named)}.")
    return " ".join(sentences)


def _rivals(rivals: list[Rival]) -> str:
    """Format the speedups over rivals, the smallest first."""
    ordered = sorted(rivals, key=lambda rival: _slower_figure(rival[2]))
    return first_few(
        [
            f"{operator} {other.warm.mean:.2f}{TIMES} {other.kernel} warm, {other.cold.mean:.2f}{TIMES} cold"
            for operator, _, other in ordered
        ]
    )


def _strongest(comparison: Compare) -> Rival | None:
    """Return (operator, GPU, speedup) of the strongest rival, on the GPU with most rows."""
    timed = [
        (other.warm.workloads, Other(other.kernel, other.dsl, other.cold, other.warm), short(entry.device.device))
        for entry in comparison.speedups
        for other in entry.others
        if other.warm and other.cold
    ]
    most = max((rows for rows, *_ in timed), default=0)
    fullest = next((gpu for rows, _, gpu in timed if rows == most), "")
    there = [other for _, other, gpu in timed if gpu == fullest]
    return (comparison.operator, fullest, min(there, key=_slower_figure)) if there else None


def _slower_figure(other: Other) -> float:
    return min(other.warm.mean, other.cold.mean)


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
