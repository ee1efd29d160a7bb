"""Timing stage: NVBench on cold and hot L2, a second source beside it, and what the card did meanwhile.

What is timed is a CUDA graph that holds the whole operator, captured from the stream the runner was given: the number
of its kernel nodes proves that the launches are on the timed stream. Host time to enqueue launches is thereby left out.

- cold: NVBench's isolated samples, L2 flushed before each; throttled samples are discarded by NVBench and counted.
- hot: NVBench's batches of a graph that holds `calls_per_graph` operators one after the other, per call.
- burst: a few replays of that graph before anything else has run, so before power or heat can hold the card back: what
  a short benchmark reports. The other figures are of a card that works on and on.
- second source: CUDA events around replays of a graph with another number of operators, on a stream of our own.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cutesnake.contract import Cost, load_operator
from cutesnake.measure import checker
from cutesnake.measure.case import Case
from cutesnake.measure.telemetry import Telemetry
from cutesnake.places import ROOT
from cutesnake.plan.devices import Device, read_devices

DIFFERENCE_LIMIT_PERCENT = 5.0
GRAPH_MICROSECONDS = 200.0  # of work in a hot graph, so that the gap between two graphs (about 1 us) vanishes
REPLAYS = 15
BURST_REPLAYS = 7
HOT_SECONDS = 0.2
MINIMUM_SECONDS = 0.1  # of device time in cold samples
TIMING_SLACK = 1.02  # clocks may exceed the boost clock that data-sheet peaks are stated at by about this


class TimingError(RuntimeError):
    """The case cannot be timed honestly. One sentence."""


def measure(case: Case) -> tuple[dict[str, Any], str | None]:
    """The stage in a GPU worker: metrics, and None or why the row is rejected."""
    import torch

    torch.cuda.synchronize()  # makes the context: the workflow's cost, not the measurement's
    started = time.monotonic()
    operator, workload = load_operator(case.operator), case.workload
    inputs = operator.make_inputs(workload, 0, "cuda")
    outputs = checker.Guarded(operator.make_outputs(workload, "cuda"))
    stream = torch.cuda.Stream()
    runner = case.load().bind(workload, inputs, outputs.values)
    torch.cuda.synchronize()
    for _ in range(3):
        runner(stream.cuda_stream)
    single = capture(runner, stream, 1)
    kernels = check_graph(single, runner, outputs, stream)
    calls = calls_per_graph(replay_us(single, stream, 1, 5))
    hot = single if calls == 1 else capture(runner, stream, calls)
    burst_us = replay_us(hot, stream, calls, BURST_REPLAYS)
    with Telemetry() as telemetry:
        measured = run_nvbench(single, hot, case.settings)
        second = capture(runner, stream, calls + max(1, calls // 2))
        second_us = replay_us(second, stream, calls + max(1, calls // 2), REPLAYS)
    metrics = {
        **summary(measured, calls, second_us),
        "burst_us": burst_us,
        **telemetry.summary(),
        "kernels_per_call": kernels,
        "calls_per_graph": calls,
        "measuring_seconds": round(time.monotonic() - started, 3),
    }
    metrics |= rates(operator.cost(workload), metrics)
    metrics["flags"] = flags(metrics, case.settings)
    device = read_devices(ROOT / "config" / "devices.yaml").find(torch.cuda.get_device_name())
    return metrics, impossible(operator.cost(workload), workload.dtype, metrics, device)


def capture(runner: Any, stream: Any, calls: int) -> Any:
    """A torch CUDA graph of `calls` operators, captured from `stream` alone."""
    import torch

    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(calls):
            runner(stream.cuda_stream)
    graph.instantiate()
    return graph


def kernel_nodes(graph: Any) -> int:
    """Kernel launches in a captured graph."""
    from cuda.bindings import driver

    handle = driver.CUgraph(graph.raw_cuda_graph())
    _, _, count = driver.cuGraphGetNodes(handle)
    _, nodes, count = driver.cuGraphGetNodes(handle, count)
    types = [driver.cuGraphNodeGetType(node)[1] for node in nodes[:count]]
    return sum(kind == driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL for kind in types)


def check_graph(graph: Any, runner: Any, outputs: checker.Guarded, stream: Any) -> int:
    """Number of kernels of one call. TimingError unless the graph holds what the runner says it launches, and a replay
    of it alone writes every output."""
    import torch

    found, stated = kernel_nodes(graph), len(runner.launches)
    if found == 0 or (stated and found != stated):
        raise TimingError(
            f"the timed stream received {found} kernels of a call that makes {stated or 'some'}: "
            "a launch went to another stream"
        )
    finish = getattr(runner, "finish", None)
    # A runner that fills outputs in `finish` spoils what it copied them from: only the second replay proves its own.
    for _ in range(1 if finish is None else 2):
        outputs.poison()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            graph.replay()
        stream.synchronize()
        if finish is not None:
            finish()
    for name, tensor in checker.tensors(outputs.values):
        if bool(tensor.float().isnan().any()):
            raise TimingError(f"a replay of the timed graph left parts of {name} unwritten")
    return found


def calls_per_graph(one_us: float) -> int:
    return max(1, min(32, math.ceil(GRAPH_MICROSECONDS / max(one_us, 1.0))))


def replay_us(graph: Any, stream: Any, calls: int, replays: int) -> float:
    """Median time of a call in microseconds, by CUDA events around each of `replays` replays, L2 hot."""
    import torch

    times = []
    with torch.cuda.stream(stream):
        for _ in range(3):
            graph.replay()
        for _ in range(replays):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            times.append((begin, end))
    stream.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in times) * 1000 / calls


def run_nvbench(single: Any, hot: Any, settings: Any) -> dict[str, Any]:
    """NVBench's summaries of the benchmarks `cold` (one call) and `hot` (batches of the larger graph).

    NVBench runs once per process. Returns {"cold": {tag: value}, "hot": {…}, "log": its output}.
    """
    import cuda.bench as bench
    from cuda.bindings import driver

    def register(name: str, graph: Any, batched: bool) -> None:
        executable = driver.CUgraphExec(graph.raw_cuda_graph_exec())

        def launch(launch: Any) -> None:
            status = driver.cuGraphLaunch(executable, launch.get_stream().__cuda_stream__()[1])[0]
            if status != driver.CUresult.CUDA_SUCCESS:
                raise TimingError(f"cuGraphLaunch: {status}")

        bench.register(lambda state: state.exec(launch, batched=batched)).set_name(name)

    register("cold", single, False)
    register("hot", hot, True)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "nvbench.json"
        with _captured_stdout(Path(folder) / "log") as log:
            bench.run_all_benchmarks(["cutesnake", *nvbench_arguments(report, settings)])
        data = json.loads(report.read_text())
        return {**{b["name"]: _tags(b) for b in data["benchmarks"]}, "log": log.read_text()}


def nvbench_arguments(report: Path, settings: Any) -> list[str]:
    """Command line of NVBench; options after --benchmark are that benchmark's own."""
    timeout, noise = str(settings["max_seconds"]), str(settings["max_noise_percent"])
    cold = ["--min-samples", "20", "--min-time", str(MINIMUM_SECONDS), "--max-noise", noise, "--timeout", timeout]
    # The isolated part of `hot` is not used: let it end at once.
    hot = ["--min-samples", "1", "--min-time", "0.000001", "--max-noise", "100000", "--timeout", timeout]
    hot += ["--batch-target-time", str(HOT_SECONDS)]
    return ["--json", str(report), "--devices", "0", "--benchmark", "cold", *cold, "--benchmark", "hot", *hot]


@contextlib.contextmanager
def _captured_stdout(path: Path) -> Iterator[Path]:
    """What native code prints, in a file."""
    sys.stdout.flush()
    kept = os.dup(1)
    with path.open("w") as stream:
        os.dup2(stream.fileno(), 1)
        try:
            yield path
        finally:
            os.dup2(kept, 1)
            os.close(kept)


def _tags(benchmark: dict[str, Any]) -> dict[str, Any]:
    state = benchmark["states"][0]
    if state.get("is_skipped"):
        raise TimingError(f"NVBench skipped the benchmark {benchmark['name']}: {state.get('skip_reason')}")
    values = {}
    for entry in state["summaries"]:
        for data in entry.get("data") or ():
            if data["name"] == "value":
                values[entry["tag"]] = float(data["value"])
    return values


def summary(measured: dict[str, Any], calls: int, second_us: float) -> dict[str, Any]:
    """Medians and their spread, times in microseconds. Spread: interquartile range over median."""
    cold, hot = measured["cold"], measured["hot"]
    gpu = {part: cold[f"nv/cold/time/gpu/{part}"] * 1e6 for part in ("min", "q1", "median", "q3", "max")}
    hot_us = hot["nv/batch/time/gpu/mean"] * 1e6 / calls
    return {
        "cold_us": gpu["median"],
        "cold_min_us": gpu["min"],
        "cold_max_us": gpu["max"],
        "spread_percent": 100 * (gpu["q3"] - gpu["q1"]) / gpu["median"],
        "samples": int(cold["nv/cold/sample_size"]),
        "throttled_samples": measured["log"].count("throttled below threshold"),
        "hot_us": hot_us,
        "hot_samples": int(hot["nv/batch/sample_size"]) * calls,
        "second_source_us": second_us,
        "difference_percent": 100 * abs(second_us - hot_us) / hot_us,
        "sm_clock_mhz": cold["nv/cold/sm_clock_rate/mean"] / 1e6,
    }


def rates(cost: Cost, metrics: dict[str, Any]) -> dict[str, float]:
    """Work of `cost` over time: cold without prefix, as the duration a report shows first; hot with it."""
    return {
        "tflops": cost.flops / metrics["cold_us"] / 1e6,
        "bandwidth_gb_per_s": cost.bytes / metrics["cold_us"] / 1e3,
        "hot_tflops": cost.flops / metrics["hot_us"] / 1e6,
        "hot_bandwidth_gb_per_s": cost.bytes / metrics["hot_us"] / 1e3,
    }


def flags(metrics: dict[str, Any], settings: Any) -> list[str]:
    """What a reader should know before trusting the row, in words."""
    found = []
    if metrics["difference_percent"] > DIFFERENCE_LIMIT_PERCENT:
        found.append(
            f"the two sources differ by {metrics['difference_percent']:.1f} %: NVBench {metrics['hot_us']:.2f} us, "
            f"graph replay {metrics['second_source_us']:.2f} us"
        )
    if metrics["throttled_samples"]:
        found.append(f"{metrics['throttled_samples']} throttled samples were discarded")
    if metrics["throttle_reasons"]:
        found.append(f"the card reported: {', '.join(metrics['throttle_reasons'])}")
    if metrics["spread_percent"] > 10 * settings["max_noise_percent"]:
        found.append(f"cold samples spread by {metrics['spread_percent']:.1f} %")
    return found


def impossible(cost: Cost, dtype: str, metrics: dict[str, Any], device: Device | None) -> str | None:
    """None, or why no such device could be this fast: more than its tensor peak, or more than its DRAM can move.

    Hot rows count as DRAM traffic only where the data is at least four times the L2 cache.
    """
    if device is None:
        return None
    peak = device.peak_tflops.get(dtype)
    fastest = max(metrics["tflops"], metrics["hot_tflops"])
    if peak is not None and fastest > peak * TIMING_SLACK:
        return f"impossible: {fastest:.0f} TFLOP/s, above the {peak:g} TFLOP/s of {dtype} on {device.name}"
    checked = {"cold": metrics["bandwidth_gb_per_s"]}
    if device.l2_mb is not None and cost.bytes >= 4 * device.l2_mb * 2**20:
        checked["hot"] = metrics["hot_bandwidth_gb_per_s"]
    for name, rate in checked.items():
        if rate > device.memory_gb_per_s * TIMING_SLACK:
            limit = f"the {device.memory_gb_per_s:g} GB/s of {device.name}"
            return f"impossible: {rate:.0f} GB/s with {name} L2, above {limit}"
    return None
