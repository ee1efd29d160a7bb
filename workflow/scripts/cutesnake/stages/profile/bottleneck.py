"""Find a kernel's bottleneck by rules on counters, and check its DRAM traffic."""

from typing import Any

HIGH = 60.0  # percent of a peak from which on a resource counts as the bound (Nsight Compute's own threshold)
LOW_L2_HIT = 50.0
REREAD = 1.25  # DRAM bytes over the operator's own count from which on data is read more than once

# The first rule that holds decides. Every condition names only figures that are given with it.
RULES = (
    ("compute", f"tensor cores >= {HIGH:g} % and at least as busy as DRAM"),
    (
        "locality",
        f"DRAM >= {HIGH:g} %, L2 hits < {LOW_L2_HIT:g} % and DRAM bytes >= {REREAD:g} of what the operator must move",
    ),
    ("memory", f"DRAM >= {HIGH:g} % and busier than the tensor cores"),
    ("latency", f"neither tensor cores nor DRAM reach {HIGH:g} %: neither resource is waited for long enough"),
)


def classify(metrics: dict[str, Any]) -> dict[str, Any]:
    """{class, rule, numbers} of a kernel; class `unknown` where a counter is missing."""
    numbers = {
        name: None if metrics.get(name) is None else round(metrics[name], 2)
        for name in ("tensor_core_percent", "dram_percent", "l2_hit_percent", "dram_over_cost")
    }
    tensor, dram, hit, ratio = numbers.values()
    if tensor is None or dram is None:
        return {"class": "unknown", "rule": "a counter that the rules need is missing", "numbers": numbers}
    holds = {
        "compute": tensor >= HIGH and tensor >= dram,
        "locality": dram >= HIGH and hit is not None and hit < LOW_L2_HIT and (ratio or 0.0) >= REREAD,
        "memory": dram >= HIGH,
        "latency": True,
    }
    name, rule = next((name, rule) for name, rule in RULES if holds[name])
    return {"class": name, "rule": rule, "numbers": numbers}


def traffic_notes(metrics: dict[str, Any]) -> list[str]:
    """Compare counted bytes with the operator's `cost`."""
    ratio = metrics["dram_over_cost"]
    if ratio is None:
        return ["the report has no DRAM bytes: cost() could not be cross-checked"]
    if ratio >= REREAD:
        return [f"DRAM moved {ratio:.2f} times the bytes of cost(): data is moved more than once, or cost() is too low"]
    if ratio <= 0.8:
        return [
            f"DRAM moved {ratio:.2f} of the bytes of cost(): part of the data stayed in L2 "
            "(written data may not have left it yet), or cost() is too high"
        ]
    return []
