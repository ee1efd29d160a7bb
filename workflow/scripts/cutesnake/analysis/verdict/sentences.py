"""All sentences about verdicts, flags, causes and costs, from typed data only."""

from collections.abc import Mapping
from typing import Any

from cutesnake.model.dsls import DSLS
from cutesnake.model.records.verdict import Accuracy, Author, Decision, Rival, WarmSlower

NAMES = {side: DSLS[side].label for side in ("cute", "cutile")}

CAUSES = {
    "second_launch": (
        "{slow} needs {launches} launches a call, {fast} {fewer}. Beyond its main kernel, {slow} spends {most}{us:.1f} "
        "µs more than {fast} ({second})."
    ),
    "second_launch_cluster": (
        "{slow} needs {launches} launches a call: beyond its main kernel, it spends {most}{us:.1f} µs ({second}). "
        "{fast} needs {fewer}: its {cluster}-CTA clusters exchange data."
    ),
    "second_launch_predicted": (
        "{slow} needs {launches} launches a call, {fast} {fewer}. The rest beyond the longest kernel costs {us:.1f} "
        "µs; the longest kernels take {slow_us:.1f} and {fast_us:.1f} µs."
    ),
    "other_launches": (
        "Beyond its longest kernel, {slow} spends {slow_us:.1f} µs in {launches} launches, {fast} {fast_us:.1f} µs in "
        "{more}."
    ),
    "cold_start": (
        "With cold caches {slow} loses {slow_start:.1f} µs, {fast} {fast_start:.1f} µs. Code is fetched again after an "
        "L2 flush: {slow_kb:.0f} KB vs {fast_kb:.0f} KB. At {profiled}, {slow_wait:.0f} % of the stalls of {slow} are "
        "waits for instructions, vs {fast_wait:.0f} %."
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
        "All {warps} multiplying warps of {slow} wait at the same barriers ({slow_wait:.0f} % of their stalls). {fast} "
        "has {groups} groups with different steps, which wait less there ({fast_wait:.0f} %)."
    ),
    "product_width": (
        "The widest product of {slow} has {narrow} columns, that of {fast} {wide}. Per percent of tensor-core use, "
        "{slow} fills {issued:.2f} % of the issue slots, {fast} {fewer:.2f} %."
    ),
    "tensor_time": (
        "In the longest launch of {slow}, tensor cores are busy for {slow_us:.1f} µs, in that of {fast} for "
        "{fast_us:.1f} µs.{why}"
    ),
    "idle_processors": (
        "{slow} has {slow_ctas} output tiles of {slow_tile} for {processors} SMs, {fast} {fast_ctas} of {fast_tile}. "
        "The tile is a choice of the variant, not of the DSL."
    ),
    "few_ctas": "{slow} runs {slow_ctas} CTAs on {processors} SMs, {fast} {fast_ctas}.",
    "tile_traffic": (
        "{slow} computes {slow_tile} output tiles, {fast} {fast_tile}. Per FLOP, {slow} loads {ratio:.2f} times the "
        "bytes into shared memory."
    ),
    "equal_tiles": (
        "The tile alone is no cause: with {tile} tiles in both{on}, {equal_slow} takes {slow_us:.1f} µs, {equal_fast} "
        "{fast_us:.1f} µs."
    ),
    "equal_tiles_elsewhere": (
        "It may not be the tile alone: with {tile} in both{on}, {equal_slow} takes {slow_us:.1f} µs, {equal_fast} "
        "{fast_us:.1f} µs."
    ),
    "same_tiles": (
        "The tile is no cause: both compute {tiles} output tiles of {tile} on {processors} SMs ({waves:.2f} per SM). "
        "No other cause is known.{other}"
    ),
    "same_tiles_profiled": (
        "The tile is no cause: both compute {tiles} output tiles of {tile} on {processors} SMs, {fast} in {fast_ctas} "
        "CTAs, {slow} in {slow_ctas}. No other cause is known.{other}"
    ),
    "same_tiles_memory": (
        "The tile is no cause: both compute {tiles} output tiles of {tile} on {processors} SMs. "
        "{fast} moves {fast_mb:.0f} MB at {fast_dram:.0f} % of the DRAM peak, {slow} {slow_mb:.0f} MB at "
        "{slow_dram:.0f} %; waits for memory are {fast_wait:.0f} and {slow_wait:.0f} % of their stalls.{other}"
    ),
    "other_order": (
        "A profile with cold caches shows the other order, so it does not tell why: {fast} {fast_us:.1f} µs, {slow} "
        "{slow_us:.1f} µs."
    ),
    "register_share": (
        "{slow} multiplies in {slow_warps} warps of {slow_registers} registers per thread, {fast} in {fast_warps} of "
        "{fast_registers}: room for an output tile of {slow_tile}, not {fast_tile}."
    ),
    "tail": (
        "The CTAs of {slow} make {waves:.2f} waves, so {lost:.0f} % of the SM time is left empty at the end. For "
        "{fast} it is {fewer:.0f} %."
    ),
    "not_persistent": (
        "{slow} starts {ctas} CTAs one after another ({waves:.1f} waves), each with its own set-up. {fast} loops in "
        "{fewer} persistent CTAs."
    ),
    "not_persistent_predicted": (
        "{slow} starts {ctas} CTAs in {waves:.1f} waves, each with its own set-up. {fast} starts {fewer}, all at once."
    ),
    "dram_traffic": (
        "{slow} moves {slow_mb:.0f} MB through DRAM, {fast} {fast_mb:.0f} MB, and DRAM is its bottleneck "
        "({percent:.0f} % of the peak)."
    ),
    "few_warps": (
        "{slow} has too few warps to hide latency: achieved occupancy {slow_occupancy:.0f} %, vs "
        "{fast_occupancy:.0f} %, with {ctas} CTAs of {threads} threads and {registers} registers each. {wait:.0f} % of "
        "its stalls are waits for memory or earlier results."
    ),
    "instructions": (
        "{slow} issues {ratio:.1f} times the instructions of {fast} for the same DRAM traffic. Its warps spend "
        "{slow_busy:.0f} % of their time issuing or waiting to issue, vs {fast_busy:.0f} % for {fast}."
    ),
    "tensor_instructions": (
        "{slow} issues {ratio:.1f} times the instructions of {fast} for the same matrix products, and its tensor cores "
        "work {slow_tensor:.0f} % of the time, vs {fast_tensor:.0f} %."
    ),
    "barriers": (
        "{slow_wait:.0f} % of the stalls of {slow} are at barriers within its CTAs, vs {fast_wait:.0f} % for {fast}."
    ),
    "row_clusters": (
        "There are {rows} rows for {processors} SMs. {fast} spreads its work over clusters of {cluster} CTAs, {slow} "
        "over clusters of {other}."
    ),
    "bound": (
        "{fast} is bound by {resource} ({percent:.0f} %). {slow} is bound by latency: tensor cores {tensor:.0f} %, "
        "DRAM {dram:.0f} %, and its warps wait most for {stall} ({wait:.0f} % of stalls)."
    ),
    "predicted_bound": (
        "{fast} is bound by {resource}, busy {percent:.0f} % of the time. {slow} keeps no unit busy, "
        "{resource} {less:.0f} % of the time."
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
    "wait": "earlier results",
    "mio_throttle": "the queue of shared-memory instructions",
    "lg_throttle": "the queue of global-memory instructions",
    "drain": "writes to finish",
    "imc_miss": "constants",
    "branch_resolving": "branches",
}


LABELS = {  # rule -> its cause in a few words
    "second_launch": "Second launch.",
    "other_launches": "Slow further launches.",
    "cold_start": "Large code, fetched again.",
    "spills": "Register spills.",
    "loads_in_flight": "Fewer loads in flight.",
    "consumer_groups": "One role for all warps.",
    "product_width": "Narrow products.",
    "tensor_time": "More tensor-core time.",
    "idle_processors": "Too few tiles.",
    "few_ctas": "Few CTAs.",
    "tile_traffic": "Smaller tile, more traffic.",
    "register_share": "Fewer multiplying warps.",
    "tail": "Empty last wave.",
    "not_persistent": "Many waves.",
    "dram_traffic": "More DRAM traffic.",
    "few_warps": "Few warps.",
    "instructions": "More instructions.",
    "tensor_instructions": "More instructions.",
    "barriers": "Waits at barriers.",
    "row_clusters": "Small clusters.",
    "bound": "Latency.",
    "predicted_bound": "No unit is busy.",
    "clock": "Lower clock.",
    "serial_chain": "Serial steps.",
    "tensor_memory_traffic": "Tensor-memory traffic.",
}


def cause(rule: str, values: Mapping[str, Any]) -> str:
    """Return the sentence of a rule that fired."""
    stall = str(values.get("stall"))
    return CAUSES[rule].format(**{**values, "stall": STALLS.get(stall, stall)})


def not_the_dsl(other: str, fast: str, us: float) -> str:
    """Return that another kernel of the faster kernel's DSL is the slower one."""
    return f" Nor is the DSL alone: {other}, in the DSL of {fast} and with this tile, takes {us:.1f} µs."


def tensor_time(slow: str, products: tuple[str, str] | None, half: bool, work: float | None) -> str:
    """Return why a kernel's tensor cores are busy for longer.

    `products`: shape of its largest product, if smaller, and of the other kernel's. `half`: it fills half of a tensor
    core. `work`: matrix FLOPs over the other kernel's, if more.
    """
    texts = [f" {slow} computes {work:.2f} times the matrix FLOPs."] if work else []
    if products:
        texts.append(f" Its largest product is {products[0]}, vs {products[1]}, by choice of the variant.")
    if half:
        texts.append(" One CTA with 64 rows fills half of its tensor core; a pair with 64 rows per CTA fills both.")
    return "".join(texts)


def share(percent: float, kind: str) -> str:
    """Return a cause's share of a difference of a kind (`Fired.kind`)."""
    of = "the difference in the profile" if kind == "profiled" else "the difference"
    most = "at most " * (kind == "most")
    return f"That explains {most}{'all' if round(percent) == 100 else f'{percent:.0f} %'} of {of}."


def elsewhere(workloads: list[str], gpus: list[str]) -> str:
    """Return that counters are of another workload or GPU."""
    at = f" at {', '.join(workloads)}" if workloads else ""
    on = f" on {', '.join(gpus)}" if gpus else ""
    return f"Profiled{at}{on}."


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


def beaten(other: Rival) -> str:
    """Return how much faster a kernel that beats both DSLs is."""
    name = f"{other.kernel} ({DSLS[other.dsl].label})" if other.dsl in DSLS else other.kernel
    whom, better = ("both DSLs", "the better one") if len(other.against) > 1 else [NAMES[other.against[0]]] * 2
    ahead = f"{other.figure}, faster on {len(other.faster)} of {_workloads(other.workloads)}"
    return f"{name} beats {whom}: {1 / other.mean:.2f} times as fast as {better} ({ahead})."


def accuracy(known: Accuracy, decision: Decision) -> str:
    """Return how often such predictions held, and what the mean is without their bias."""
    if not known.cases:
        return "No prediction of this kind was compared with a GPU."
    bias = ""
    if known.leaning:
        side, by = favoured(known.leaning)
        bias = (
            f" In {known.leaning_cases} comparisons of both DSLs here, fitted kernels included, predictions favoured "
            f"{side} by {by:.2f} (median)"
        )
        if decision.winner != "depends":
            side, by = favoured(decision.mean / known.leaning)
            bias += f"; corrected for that, the mean is {side} {by:.2f}\N{MULTIPLICATION SIGN} {decision.figure}"
        bias += "."
    return (
        f"At the highest clock, half of {known.cases} {decision.figure} times of unfitted kernels on "
        f"{' and '.join(known.devices)} were predicted within {known.median_error_percent:.0f} %, nine in ten within "
        f"{known.nine_in_ten_percent:.0f} %; the faster kernel in {known.right} of {known.pairs} pairs.{bias} Errors "
        "above: both times', added."
    )


def favoured(ratio: float) -> tuple[str, float]:
    """Return the DSL that a ratio of cuTile to CuTe times favours, and the factor."""
    return (NAMES["cute"], ratio) if ratio > 1 else (NAMES["cutile"], 1 / ratio)


def author(kernel: Author) -> str:
    """Return who wrote and tuned a kernel."""
    versions = f", {kernel.versions} design versions" if kernel.versions else ""
    return f"{kernel.name} ({kernel.work}{versions})"


def warm_slower(case: WarmSlower) -> str:
    """Return why a warm time is longer than the cold one."""
    why = {
        "power limit": "The GPU reported its power limit",
        "clock": "The clock fell without a reported reason",
        "unknown": "No record says why",
    }[case.cause]
    warm = f"{case.warm_mhz:.0f} MHz" if case.warm_mhz else "not recorded"
    rested = f" On a rested GPU, warm calls take {case.rested_us:.1f} µs." if case.rested_us else ""
    return (
        f"{case.kernel}, {case.workload}: warm {case.warm_us:.1f} µs, cold {case.cold_us:.1f} µs. "
        f"{why}: SM clock {case.cold_mhz:.0f} MHz cold, {warm} warm.{rested}"
    )


def _turned(ratio: float, flip: bool) -> float:
    return 1 / ratio if flip else ratio


def _ends(low: float | None, high: float | None, flip: bool) -> tuple[float, float] | None:
    if low is None or high is None:
        return None
    return (1 / high, 1 / low) if flip else (low, high)


def _workloads(count: int) -> str:
    return f"{count} workload{'s' * (count != 1)}"
