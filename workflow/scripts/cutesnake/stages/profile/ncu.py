"""ncu stage: hardware counters of one call, read with the package ncu-report.

The flat metrics describe the main kernel (the longest one of the call); `kernels` has them for every kernel. ncu
runs kernels one at a time, replays each for every group of counters, and flushes the caches before: durations differ
from the timing stage. Clocks are left alone.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cutesnake.model.catalog import load_operator
from cutesnake.stages.measure.case import Case
from cutesnake.stages.profile import bottleneck
from cutesnake.stages.profile.profiled import ProfilerError, find_tool, last_output, run_under

SECTIONS = (
    "SpeedOfLight",
    "MemoryWorkloadAnalysis",
    "ComputeWorkloadAnalysis",
    "LaunchStats",
    "Occupancy",
    "SchedulerStats",
    "WarpStateStats",
)
EXTRA_METRICS = ("dram__bytes_read.sum", "dram__bytes_write.sum")
MOST_OPPORTUNITIES = 5
NOT_PERMITTED = "ERR_NVGPUCTRPERM"
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")

# metric of the record -> names in the report, the first that is there counts (they differ between architectures)
METRICS: dict[str, tuple[str, ...]] = {
    "tensor_core_percent": (
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_elapsed",
    ),
    "dram_percent": (
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    "l2_hit_percent": ("lts__t_sector_hit_rate.pct",),
    "occupancy_achieved_percent": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "occupancy_theoretical_percent": ("sm__maximum_warps_per_active_cycle_pct",),
    "registers_per_thread": ("launch__registers_per_thread",),
    "waves": ("launch__waves_per_multiprocessor",),
    "eligible_warps": ("smsp__warps_eligible.avg.per_cycle_active",),
    "issue_active_percent": ("smsp__issue_active.avg.pct_of_peak_sustained_active",),
    "sm_throughput_percent": ("sm__throughput.avg.pct_of_peak_sustained_elapsed",),
    "spill_instructions": ("sass__inst_executed_register_spilling",),
}
LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
    "blocks": "launch__occupancy_limit_blocks",
    "barriers": "launch__occupancy_limit_barriers",
}


def profile(case: Case, folder: Path, gpu: str, limit_s: float) -> tuple[dict[str, Any], str | None]:
    """Run one call under ncu, keep the report; return metrics, and a reason or None."""
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "report.ncu-rep"
    report.unlink(missing_ok=True)
    command = [find_tool("ncu"), "--clock-control", "none", "--profile-from-start", "off", "--nvtx"]
    command += [part for section in SECTIONS for part in ("--section", section)]
    command += ["--metrics", ",".join(EXTRA_METRICS), "--force-overwrite", "--export", str(report)]
    try:
        output, seconds = run_under(command, case, 1, gpu, limit_s, alone=True)
    except ProfilerError as error:
        if NOT_PERMITTED in error.output:
            raise ProfilerError(f"reading GPU counters is not permitted here ({NOT_PERMITTED})", error.output) from None
        raise
    if NOT_PERMITTED in output:
        raise ProfilerError(f"reading GPU counters is not permitted here ({NOT_PERMITTED})", output)
    if not report.exists():
        raise ProfilerError(f"ncu wrote no report: {last_output(output)}", output)
    metrics = read_report(report, load_operator(case.operator).cost(case.workload))
    return {**metrics, "measuring_seconds": round(seconds, 3)}, None


def read_report(path: Path, cost: Any) -> dict[str, Any]:
    """Return the stage's metrics from an .ncu-rep file; `cost`: of the workload."""
    import ncu_report

    context = ncu_report.load_report(str(path))
    actions = [
        action
        for index in range(context.num_ranges())
        for action in (context[index][i] for i in range(context[index].num_actions()))
    ]
    if not actions:
        raise ProfilerError("the ncu report holds no kernel")
    kernels = [read_kernel(action) for action in actions]
    main = max(range(len(kernels)), key=lambda i: kernels[i]["duration_us"])
    total_us = sum(k["duration_us"] for k in kernels)
    moved = [k["dram_bytes"] for k in kernels]
    dram_bytes = None if None in moved else sum(moved)
    metrics = {
        **{key: value for key, value in kernels[main].items() if key not in ("dram_bytes", "name")},
        "main_kernel": kernels[main]["name"],
        "total_duration_us": round(total_us, 3),
        "achieved_tflops": cost.flops / total_us / 1e6,
        "achieved_gb_per_s": None if dram_bytes is None else dram_bytes / total_us / 1e3,
        "dram_bytes": dram_bytes,
        "cost_bytes": cost.bytes,
        "dram_over_cost": None if dram_bytes is None else dram_bytes / cost.bytes,
        "kernels": kernels,
    }
    metrics["notes"] = bottleneck.traffic_notes(metrics)
    metrics["bottleneck"] = bottleneck.classify(metrics)
    metrics["opportunities"] = opportunities(actions[main])
    return metrics


def read_kernel(action: Any) -> dict[str, Any]:
    """Return the figures of one kernel; null where the report lacks one."""
    value = _reader(action)
    result = {name: _first(value, names) for name, names in METRICS.items()}
    nanoseconds = value("gpu__time_duration.sum")
    read, written = value("dram__bytes_read.sum"), value("dram__bytes_write.sum")
    shared = [value(f"launch__shared_mem_per_block_{part}") for part in ("static", "dynamic")]
    limiter, blocks = _limiter(value)
    return {
        "name": action.name(),
        "duration_us": None if nanoseconds is None else nanoseconds / 1000,
        **result,
        "shared_bytes_per_block": None if None in shared else int(sum(map(float, filter(None, shared)))),
        "occupancy_limiter": limiter,
        "blocks_per_sm": blocks,
        "spill_bytes": _spill_bytes(value),
        "grid": [int(value(f"launch__grid_dim_{axis}") or 0) for axis in "xyz"],
        "block": [int(value(f"launch__block_dim_{axis}") or 0) for axis in "xyz"],
        "cluster_size": int(value("launch__cluster_size") or 0) or None,
        "sm_clock_mhz": _scaled(value("gpc__cycles_elapsed.avg.per_second"), 1e-6),
        "dram_bytes": None if read is None or written is None else int(read + written),
        "stalls": _stalls(action, value),
    }


def _reader(action: Any) -> Callable[[str], float | None]:
    names = set(action.metric_names())

    def value(name: str) -> float | None:
        result = action[name].value() if name in names else None
        return result if isinstance(result, int | float) and result == result else None

    return value


def _first(value: Callable[[str], float | None], names: tuple[str, ...]) -> float | None:
    return next((result for name in names if (result := value(name)) is not None), None)


def _scaled(number: float | None, factor: float) -> float | None:
    return None if number is None else number * factor


def _limiter(value: Callable[[str], float | None]) -> tuple[str | None, int | None]:
    """Return what allows the fewest blocks per SM (all on ties), and the number."""
    result = {name: limit for name, metric in LIMITS.items() if (limit := value(metric)) is not None}
    if not result:
        return None, None
    fewest = min(result.values())
    return ", ".join(name for name, limit in result.items() if limit == fewest), int(fewest)


def _spill_bytes(value: Callable[[str], float | None]) -> int | None:
    """Return bytes of executed spills to local and shared memory."""
    if value("sass__inst_executed_register_spilling") == 0:
        return 0
    parts = [value(f"sass__inst_executed_register_spilling_mem_{place}") for place in ("local", "shared")]
    return None if parts == [None, None] else int(sum(part or 0 for part in parts))


def _stalls(action: Any, value: Callable[[str], float | None]) -> dict[str, float]:
    """Return cycle shares between a warp's instructions by reason; `selected` is issuing."""
    result = {
        match[1]: value(name) or 0.0 for name in action.metric_names() if (match := STALL.fullmatch(name)) is not None
    }
    total = sum(result.values())
    shares = {name: cycles / total for name, cycles in result.items() if total and cycles / total >= 0.001}
    return {name: round(share, 4) for name, share in sorted(shares.items(), key=lambda item: -item[1])}


def opportunities(action: Any) -> list[dict[str, Any]]:
    """Return the advice of Nsight Compute's rules, largest speed-up first."""
    result = []
    for rule in action.rule_results_as_dicts():
        focus = rule.get("focus_metrics") or []
        if not focus or rule["rule_message"]["type"] != 2:  # 2: an optimisation; 1 and 3: all is well, a remark
            continue
        result.append(
            {
                "rule": rule["rule_identifier"],
                "text": _plain(rule["rule_message"]),
                "metric": focus[0]["name"],
                "value": focus[0]["value"],
                "estimated_speedup_percent": (rule.get("speedup_estimation") or {}).get("speedup"),
            }
        )
    return sorted(result, key=lambda o: -(o["estimated_speedup_percent"] or 0.0))[:MOST_OPPORTUNITIES]


def _plain(message: dict[str, Any]) -> str:
    """Title and first sentence without the report's markup (`@section:Id:Text@`)."""
    body = re.sub(
        r"@(?:section|url|source):([^@]*)@", lambda m: re.sub(r":?https?:.*$|^[^:]*:", "", m[1]), message["message"]
    )
    first = re.split(r"(?<=[a-z)])\. ", body, maxsplit=1)[0].rstrip(".")
    return f"{message['title']}: {first}." if message["title"] else f"{first}."
