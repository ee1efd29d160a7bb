"""All sentences about verdicts, flags, causes and costs, from typed data only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cutesnake.model.dsls import DSLS
from cutesnake.model.records.verdict import (
    Accuracy,
    Author,
    Decision,
    Flag,
    KernelCost,
    Rival,
    TargetVerdict,
    WarmSlower,
)

NAMES = {side: DSLS[side].label for side in ("cute", "cutile")}

CAUSES = {
    "second_launch": (
        "{slow} needs {launches} launches a call, {fast} {fewer}. Beyond its main kernel, {slow} spends {us:.1f} µs "
        "({second})."
    ),
    "second_launch_cluster": (
        "{slow} needs {launches} launches a call: {second} takes {us:.1f} µs. {fast} needs {fewer}: the CTAs of its "
        "clusters ({cluster}) exchange data inside the kernel."
    ),
    "second_launch_predicted": (
        "{slow} needs {launches} launches a call, {fast} {fewer}. The rest beyond the longest kernel costs {us:.1f} "
        "µs; the longest kernels take {slow_us:.1f} and {fast_us:.1f} µs."
    ),
    "cold_start": (
        "With cold caches {slow} loses {slow_start:.1f} µs, {fast} {fast_start:.1f} µs. Its code is {slow_kb:.0f} KB, "
        "not {fast_kb:.0f} KB, and is fetched again after an L2 flush. At {profiled}, {slow_wait:.0f} % of its stalls "
        "are waits for instructions, vs {fast_wait:.0f} %."
    ),
    "spills": (
        "{slow} spills {bytes} B of registers per thread to local memory ({registers} registers per thread); {fast} "
        "spills {fewer} B."
    ),
    "single_stage": (
        "Each load of {slow} has a single buffer, so the next tile waits until the last is used. {fast} has up to "
        "{stages} pipeline stages."
    ),
    "loads_in_flight": "{slow} holds {slow_kb:.0f} KB of loads in flight per SM, {fast} {fast_kb:.0f} KB.",
    "consumer_groups": (
        "All {warps} multiplying warps of {slow} run the same steps and wait at the same barriers ({slow_wait:.0f} % "
        "of their stalls). {fast} has {groups} groups with different steps, which wait less there ({fast_wait:.0f} %)."
    ),
    "product_width": (
        "The widest product of {slow} has {narrow} columns, that of {fast} {wide}. Per percent of tensor-core use, "
        "{slow} fills {issued:.2f} % of the issue slots, {fast} {fewer:.2f} %."
    ),
    "idle_processors": (
        "{slow} has {slow_ctas} output tiles of {slow_tile} for {processors} SMs. "
        "{fast} has {fast_ctas} of {fast_tile}. The tile is a choice of the variant, not a limit of the DSL."
    ),
    "tile_traffic": (
        "{slow} computes {slow_tile} output tiles, {fast} {fast_tile}. Per FLOP, {slow} loads {ratio:.2f} times the "
        "bytes into shared memory."
    ),
    "register_share": (
        "{fast} accumulates in {fast_warps} warps of {fast_registers} registers per thread, {slow} in {slow_warps} of "
        "{slow_registers}. Its output tile is {fast_tile}, not {slow_tile}."
    ),
    "tail": (
        "The CTAs of {slow} make {waves:.2f} waves, so {lost:.0f} % of the SM time is left empty at the end. For "
        "{fast} it is {fewer:.0f} %."
    ),
    "not_persistent": (
        "{slow} starts {ctas} CTAs one after another ({waves:.1f} waves), each with its own set-up. {fast} loops in "
        "{fewer} persistent CTAs."
    ),
    "dram_traffic": (
        "{slow} moves {slow_mb:.0f} MB through DRAM, {fast} {fast_mb:.0f} MB, and DRAM is its bottleneck "
        "({percent:.0f} % of the peak)."
    ),
    "few_warps": (
        "{slow} has too few warps to hide DRAM latency: achieved occupancy {slow_occupancy:.0f} %, vs "
        "{fast_occupancy:.0f} %. It uses {registers} registers per thread, and {wait:.0f} % of its stalls are waits "
        "for memory."
    ),
    "instructions": (
        "{slow} issues {ratio:.1f} times the instructions of {fast} for the same DRAM traffic. Its warps spend "
        "{slow_busy:.0f} % of their time issuing or waiting to issue, vs {fast_busy:.0f} % for {fast}."
    ),
    "row_clusters": (
        "There are {rows} rows for {processors} SMs. {fast} spreads its work over clusters of {cluster} CTAs, {slow} "
        "over clusters of {other}."
    ),
    "bound": (
        "{fast} is bound by {resource} ({percent:.0f} %). {slow} is bound by latency: tensor cores {tensor:.0f} %, "
        "DRAM {dram:.0f} %, and its warps wait most for {stall} ({wait:.0f} %)."
    ),
    "clock": (
        "The power limit lowered the SM clock further for {slow}: {slow_mhz:.0f} MHz, vs {fast_mhz:.0f} MHz for {fast}."
    ),
    "serial_chain": (
        "In {slow}, loads, products and softmax wait for each other: its load warps wait {load_wait:.0f} % of the "
        "time, its multiply warps {multiply_wait:.0f} %, its softmax warps {softmax_wait:.0f} %. Nothing is busy for "
        "more than {busy:.0f} %."
    ),
    "tensor_memory_traffic": (
        "{slow} carries its accumulators through registers: its code has {slow_moves} loads and stores of tensor "
        "memory, that of {fast} {fast_moves}."
    ),
}


STALLS = {  # ncu's name of a stall -> what the warps wait for
    "long_scoreboard": "global memory",
    "short_scoreboard": "shared memory",
    "barrier": "a barrier",
    "no_instruction": "instructions",
    "math_pipe_throttle": "a full arithmetic pipe",
    "gmma": "matrix products",
}


def cause(rule: str, values: Mapping[str, Any]) -> str:
    """Return the sentence of a rule that fired."""
    stall = str(values.get("stall"))
    return CAUSES[rule].format(**{**values, "stall": STALLS.get(stall, stall)})


def share(percent: float, kind: str) -> str:
    """Return a cause's share of a timed, profiled or predicted difference."""
    if round(percent) == 100:
        return f"That explains all of the {kind} difference."
    return f"That explains {percent:.0f} % of the {kind} difference."


def elsewhere(workloads: list[str], gpus: list[str]) -> str:
    """Return that counters are of another workload or GPU."""
    at = f" at {', '.join(workloads)}" if workloads else ""
    on = f" on {', '.join(gpus)}" if gpus else ""
    return f"Profiled{at}{on}."


def headline(verdict: TargetVerdict) -> str:
    """Return the first sentence of a target's verdict: warm if there is a warm one.

    Where a kernel in neither DSL beats both, that comes first.
    """
    decision = verdict.warm or verdict.cold
    best = verdict.rival(decision.figure if decision else "warm")
    first = f"{rival(best)} " if best and best.beats_both else ""
    if decision is None:
        return f"{first}{verdict.gpu}: no workload has a time from both DSLs."
    return f"{first}{decided(decision, verdict.gpu)}"


def decided(decision: Decision, gpu: str) -> str:
    """Return who wins on a GPU, by how much, with interval, range, count and basis."""
    basis = "predicted" if decision.basis == "predicted" else "measured"
    if decision.winner == "depends":
        split = decision.split
        on = f"depends on {split.parameter}" if split else "no clear winner"
        return f"{gpu}: {on} ({decision.figure}, {basis}). {_why_not(decision)}"
    flip = decision.winner == "cutile"
    loser = NAMES["cute" if flip else "cutile"]
    mean, ends = _turned(decision.mean, flip), _ends(decision.low, decision.high, flip)
    least, most = sorted((_turned(decision.least, flip), _turned(decision.most, flip)))
    interval = f", 95 % interval {ends[0]:.2f} to {ends[1]:.2f}" if ends else ""
    wins = decision.cutile_wins if flip else decision.cute_wins
    other = decision.cute_wins if flip else decision.cutile_wins
    rest = f", behind on {len(other)}" * bool(other) + f", equal on {len(decision.equal)}" * bool(decision.equal)
    if basis == "predicted":
        interval += f". Expected error of both times together: {decision.noise_percent:.0f} %"
    return (
        f"{gpu}: {NAMES[decision.winner]} is {mean:.2f} times as fast as {loser} ({decision.figure}, {basis}). "
        f"{_workloads(decision.workloads)}: ahead on {len(wins)}{rest}; range {least:.2f} to {most:.2f}{interval}."
    )


def _why_not(decision: Decision) -> str:
    mean = decision.mean
    lead = NAMES["cute" if mean > 1 else "cutile"]
    by = max(mean, 1 / mean)
    counts = (
        f"CuTe DSL wins {len(decision.cute_wins)}, cuTile {len(decision.cutile_wins)}, equal {len(decision.equal)} of "
        f"{_workloads(decision.workloads)}"
    )
    if decision.reason == "noise":
        kind = "expected error" if decision.basis == "predicted" else "noise"
        return (
            f"The mean favours {lead} by {100 * (by - 1):.1f} %, within the {kind} of {decision.noise_percent:.0f} %."
        )
    if decision.reason == "majority":
        one = f" {decision.decided_by} alone decides the mean." if decision.decided_by else ""
        return f"The mean favours {lead} ({by:.2f} times as fast), but most workloads do not: {counts}.{one}"
    if decision.reason == "one_workload":
        return f"The mean favours {lead} ({by:.2f} times as fast) by {decision.decided_by} alone: {counts}."
    return f"The mean favours {lead} ({by:.2f} times as fast), but its interval includes 1: {counts}."


def sides(decision: Decision) -> list[str]:
    """Return which workloads favour which DSL, a sentence per side that has any."""
    named = ((NAMES["cute"], decision.cute_wins), (NAMES["cutile"], decision.cutile_wins), ("Neither", decision.equal))
    return [f"{name}: {', '.join(found)}." for name, found in named if found]


def rival(other: Rival) -> str:
    """Return how the best other kernel compares with the faster DSL of each workload."""
    name = f"{other.kernel} ({DSLS[other.dsl].label})" if other.dsl in DSLS else other.kernel
    alone = NAMES[other.against[0]] if len(other.against) == 1 else None
    ahead = f"{other.figure}, faster on {len(other.faster)} of {_workloads(other.workloads)}"
    if other.beats_both:
        whom, better = (alone, alone) if alone else ("both DSLs", "the better one")
        return f"{name} beats {whom}: {1 / other.mean:.2f} times as fast as {better} ({ahead})."
    better = alone or "the better DSL"
    if 100 * (max(other.mean, 1 / other.mean) - 1) <= other.noise_percent:
        return f"{name}, the best other kernel, and {better} take the same time within the noise ({ahead})."
    if other.mean > 1:
        return f"{_capital(better)} is {other.mean:.2f} times as fast as the best other kernel, {name} ({ahead})."
    return (
        f"{name}, the best other kernel, is {1 / other.mean:.2f} times as fast as {better} on average, but not on "
        f"most workloads ({ahead})."
    )


def accuracy(known: Accuracy) -> str:
    """Return how often such predictions held."""
    if not known.cases:
        return "No prediction of this kind was compared with a GPU."
    where = " and ".join(known.devices)
    return (
        f"On GPUs with measurements ({where}) such predictions had a median error of "
        f"{known.median_error_percent:.0f} % in {known.cases} cases. Of {known.pairs} pairs of kernels, {known.right} "
        f"were ordered correctly; of {known.clear} pairs predicted more "
        f"than {known.clear_percent:.0f} % apart, {known.clear_right}."
    )


def author(found: Author) -> str:
    """Return who wrote and tuned a kernel."""
    versions = f", {found.versions} design versions" if found.versions else ""
    return f"{found.name} ({found.work}{versions})"


def flag(found: Flag) -> str:
    """Return the sentence of a flag."""
    texts = {
        "few_workloads": "Only {count} with a time from both DSLs.",
        "one_workload_decides": "Without {workload} the mean would not name this DSL ({figure}).",
        "spills": "Builds of {kernel} spill {spilled} B of registers per thread: its time may be less without.",
        "untuned": "{kernel} was timed in {timed} variant of {offered} candidates.",
        "different_authors": "CuTe DSL: {cute}. cuTile: {cutile}. Part of the difference may be tuning.",
        "different_hosts": "The DSLs of {count} were timed on different hosts.",
        "power_limit": "The power limit lowered the clock in {records} of {timed} warm times.",
        "not_on_this_gpu": "Predictions for {target} were never checked on such a GPU.",
    }
    count = _workloads(int(found.values["workloads"])) if "workloads" in found.values else ""
    spilled = _range(found.values["least"], found.values["most"]) if found.id == "spills" else ""
    return texts[found.id].format(kernel=found.kernel, count=count, spilled=spilled, **found.values)


def warm_slower(found: WarmSlower) -> str:
    """Return why a warm time is longer than the cold one."""
    why = {
        "power limit": "The GPU reported its power limit",
        "clock": "The clock fell without a reported reason",
        "unknown": "No record says why",
    }[found.cause]
    warm = f"{found.warm_mhz:.0f} MHz" if found.warm_mhz else "not recorded"
    rested = f" On a rested GPU, warm calls take {found.rested_us:.1f} µs." if found.rested_us else ""
    return (
        f"{found.kernel}, {found.workload}: warm {found.warm_us:.1f} µs, cold {found.cold_us:.1f} µs. "
        f"{why}: SM clock {found.cold_mhz:.0f} MHz cold, {warm} warm.{rested}"
    )


def cost(found: KernelCost) -> str:
    """Return what a kernel costs, without unknown parts, in one line."""
    spilled = found.spill_bytes
    parts = [
        f"{found.lines.host} host and {found.lines.device} device lines" if found.lines else None,
        f"compiles in {found.compile_seconds:.1f} s of processor time" if found.compile_seconds is not None else None,
        f"{found.registers_per_thread} registers" if found.registers_per_thread is not None else None,
        f"{found.shared_bytes_per_block / 1024:.0f} KB SMEM" if found.shared_bytes_per_block is not None else None,
        f"theoretical occupancy {found.theoretical_occupancy_percent:.0f} %"
        if found.theoretical_occupancy_percent is not None
        else None,
        f"achieved occupancy {found.achieved_occupancy_percent:.0f} %"
        if found.achieved_occupancy_percent is not None
        else None,
        f"spills {_range(*spilled)} B" if spilled and spilled[1] else "no spills" if spilled else None,
        f"{found.tensor_memory_columns} columns of tensor memory" if found.tensor_memory_columns else None,
        f"{found.variants_offered} variant{'s' * (found.variants_offered != 1)}" if found.variants_offered else None,
        f"by {author(found.author)}",
    ]
    return f"{found.kernel} ({found.target}): {', '.join(part for part in parts if part)}."


def _range(least: Any, most: Any) -> str:
    return f"{least}" if least == most else f"{least} to {most}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _turned(ratio: float, flip: bool) -> float:
    return 1 / ratio if flip else ratio


def _ends(low: float | None, high: float | None, flip: bool) -> tuple[float, float] | None:
    if low is None or high is None:
        return None
    return (1 / high, 1 / low) if flip else (low, high)


def _workloads(count: int) -> str:
    return f"{count} workload{'s' * (count != 1)}"
