"""Timing stage: NVBench on cold and warm L2, a second source, and the GPU's state.

What is timed is a CUDA graph that holds the whole operator, captured from the stream the runner was given: the number
of its kernel nodes proves that the launches are on the timed stream. Host time to enqueue launches is thereby left out.

- cold: NVBench's isolated samples, L2 flushed before each; throttled samples are discarded by NVBench and counted.
- empty launch: isolated samples of an empty kernel, with the host's part; predictions of cold samples need it.
- hot: NVBench's batches of a graph that holds `calls_per_graph` operators one after the other, per call.
- burst: a few replays of that graph before anything else has run, so before power or heat can hold the GPU back: what
  a short benchmark reports; the median of three, taken at moments apart. The other figures are of a GPU that works on
  and on.
- second source: CUDA events around replays of a graph with another number of operators, on a separate stream, for
  longer than the GPU may be in another mode (`replay.MODE_SECONDS`).

Each kind has the SM clock of its own samples: at its power limit a GPU may run them up to 15 % apart.

- plan: where a runner can make its schedule again, that step alone, warm and cold.
"""

import contextlib
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cutesnake.model.catalog import load_operator
from cutesnake.model.contract import Cost, Runner
from cutesnake.model.paths import ROOT
from cutesnake.planning.devices import DeviceModel, read_devices
from cutesnake.planning.machine import probe
from cutesnake.stages.measure import checker
from cutesnake.stages.measure.case import Case
from cutesnake.stages.measure.clock import Span, Stamper
from cutesnake.stages.measure.empty_kernel import Nothing
from cutesnake.stages.measure.plan_time import time_plan
from cutesnake.stages.measure.replay import (
    MOMENTS,
    SUSTAINED_SECONDS,
    Replays,
    at_moments,
    capture,
    filled,
    kernel_nodes,
    replay,
    sustained,
)
from cutesnake.stages.measure.telemetry import Telemetry

DIFFERENCE_LIMIT_PERCENT = 5.0
RANGE_LIMIT_PERCENT = 2.5  # how far bursts may lie apart; the other mode that was seen is 2.6 to 7.9 % faster
CLOCK_LIMIT_PERCENT = 5.0  # kinds of samples whose SM clocks differ by less count as equal
# Kind of samples -> where its SM clock stands. Records from before 2026-11-22 have the cold one alone.
SM_CLOCKS = {
    "cold": "sm_clock_mhz",
    "hot": "hot_sm_clock_mhz",
    "graph": "second_source_sm_clock_mhz",
    "burst": "burst_sm_clock_mhz",
}
BURST_REPLAYS = 7
LIMITED_SECONDS = 0.5  # of replays at the power limit: the clock swings by a tenth there, for a tenth of a second
THROTTLED = "throttled below threshold"  # what NVBench logs of a sample that it discards
HOT_SECONDS = 0.2
MINIMUM_SECONDS = 0.1  # of device time in cold samples
EMPTY_SAMPLES = 200  # some 15 ms
STAMP_MICROSECONDS = 10_000.0  # of hot work between two stamps of the clock, which then cost 0.02 % of it
TIMING_SLACK = 1.02  # clocks may exceed the boost clock that data-sheet peaks are stated at by about this


class TimingError(RuntimeError):
    """The case cannot be timed honestly. One sentence."""


def measure(case: Case) -> tuple[dict[str, Any], str | None]:
    """Run the stage in a GPU worker; return metrics, and a reason or None."""
    import torch

    torch.cuda.synchronize()  # makes the context: the workflow's cost, not the measurement's
    started = time.monotonic()
    operator, workload = load_operator(case.operator), case.workload
    inputs = operator.make_inputs(workload, 0, "cuda")
    outputs = checker.Guarded(operator.make_outputs(workload, "cuda"))
    stream, stamper = torch.cuda.Stream(), Stamper()
    runner = case.bind(workload, inputs, outputs.values)
    torch.cuda.synchronize()
    for _ in range(3):
        runner(stream.cuda_stream)
    single = capture(runner, stream, 1)
    kernels = check_graph(single, runner, outputs, stream)
    metrics = {**_samples(runner, single, stream, stamper, case.settings), "kernels_per_call": kernels}
    metrics |= time_plan(runner, stream, stamper)
    if metrics["plan_us"] is not None:
        check_graph(single, runner, outputs, stream, "after plan()")
    metrics["measuring_seconds"] = round(time.monotonic() - started, 3)
    metrics |= rates(operator.cost(workload), metrics)
    metrics["flags"] = flags(metrics, case.settings)
    device = read_devices(ROOT / "config" / "devices.yaml").at_hand(probe().device)
    return metrics, impossible(operator.cost(workload), workload.dtype, metrics, device)


def _samples(runner: Any, single: Any, stream: Any, stamper: Stamper, settings: Any) -> dict[str, Any]:
    """Return all kinds of samples of a call, the burst first; `single`: its graph."""
    hot, calls = filled(runner, single, stream, stamper)
    burst = at_moments(lambda: replay(hot, stream, calls, BURST_REPLAYS, stamper))
    hot_clock = HotClock(stamper.span(), burst.us * calls)
    with Telemetry() as telemetry:
        measured = run_nvbench(single, hot, capture(Nothing(), stream, 1), settings, hot_clock)
        more = calls + max(1, calls // 2)
        seconds = LIMITED_SECONDS if telemetry.is_limited() else SUSTAINED_SECONDS
        second = sustained(capture(runner, stream, more), stream, more, burst.us, stamper, seconds)
    return {
        **summary(measured, calls, second),
        "burst_us": burst.us,
        "burst_range_percent": burst.range_percent,
        "burst_sm_clock_mhz": burst.sm_clock_mhz,
        "hot_sm_clock_mhz": hot_clock.span.mhz(),
        **telemetry.summary(),
        "calls_per_graph": calls,
    }


class HotClock:
    """Stamp a span around NVBench's hot batches, every STAMP_MICROSECONDS of work.

    NVBench does not say when a batch begins or ends, so the stamps lie among the launches; one takes about 2 us.
    """

    def __init__(self, span: Span, graph_us: float) -> None:
        self.span = span
        self._every = max(1, math.ceil(STAMP_MICROSECONDS / graph_us))
        self._launches = 0

    def __call__(self, stream: int) -> None:
        """Before a launch on `stream`."""
        if self._launches == 0:
            self.span.begin(stream)
        elif self._launches % self._every == 0:
            self.span.end(stream)
        self._launches += 1


def check_graph(graph: Any, runner: Any, outputs: checker.Guarded, stream: Any, when: str = "") -> int:
    """Return a call's number of kernels; TimingError unless the graph holds all launches.

    A replay of it must write every output. `when` says in the error what came before.
    """
    import torch

    result = kernel_nodes(graph)
    if not result and not runner.launches:
        result = kernel_nodes(graph, copies=True)  # PyTorch's copy of an array is no kernel
    require_kernels(result, runner)
    # A runner that fills outputs in `finish` spoils what it copied them from: only the second replay proves its own.
    for _ in range(2):
        outputs.poison()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            graph.replay()
        stream.synchronize()
        runner.finish()
    for name, tensor in checker.tensors(outputs.values):
        if bool(tensor.float().isnan().any()):
            raise TimingError(f"a replay of the timed graph left parts of {name} unwritten {when}".rstrip())
    return result


def require_kernels(result: int, runner: Runner) -> None:
    """Raise TimingError unless `result` kernels can include all of the runner's own."""
    stated = len(runner.launches)
    too_many = stated and result > stated and not runner.with_torch
    if result < max(stated, 1) or too_many:
        raise TimingError(
            f"the timed stream received {result} kernels of a call that makes {stated or 'some'}: "
            "a launch went to another stream"
        )


def run_nvbench(single: Any, hot: Any, nothing: Any, settings: Any, hot_clock: HotClock) -> dict[str, Any]:
    """Return NVBench's summaries of a call (cold and hot) and of an empty kernel.

    NVBench runs once per process; `hot_clock` is called before every hot launch. Returns {"cold": {tag: value}, …},
    and with "log" its output.
    """
    import cuda.bench as bench
    from cuda.bindings import driver

    def register(name: str, graph: Any, batched: bool, before: Callable[[int], None] | None = None) -> None:
        executable = driver.CUgraphExec(graph.raw_cuda_graph_exec())

        def launch(launch: Any) -> None:
            stream = launch.get_stream().__cuda_stream__()[1]
            if before is not None:
                before(stream)
            status = driver.cuGraphLaunch(executable, stream)[0]
            if status != driver.CUresult.CUDA_SUCCESS:
                raise TimingError(f"cuGraphLaunch: {status}")

        bench.register(lambda state: state.exec(launch, batched=batched)).set_name(name)

    register("cold", single, False)
    register("hot", hot, True, hot_clock)
    register("lone", nothing, False)
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
    empty_launch = [
        "--min-samples",
        str(EMPTY_SAMPLES),
        "--min-time",
        "0.000001",
        "--max-noise",
        "100000",
        "--timeout",
        timeout,
    ]
    named = ["--benchmark", "cold", *cold, "--benchmark", "hot", *hot, "--benchmark", "lone", *empty_launch]
    return ["--json", str(report), "--devices", "0", *named]


@contextlib.contextmanager
def _captured_stdout(path: Path) -> Iterator[Path]:
    """Capture what native code prints, in a file."""
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


def summary(measured: dict[str, Any], calls: int, second: Replays) -> dict[str, Any]:
    """Medians and their spread, times in microseconds. Spread: interquartile range over median.

    Raises TimingError where NVBench has discarded every sample of a single call, as it does below 75 % of the SM clock.
    """
    cold, hot = measured["cold"], measured["hot"]
    throttled = measured["log"].count(THROTTLED)
    if "nv/cold/time/gpu/median" not in cold:
        raise TimingError(
            f"NVBench kept no sample of a single call: the SM clock was too low in {throttled} (power or heat); "
            "it would have to be timed on a GPU that is cooler, or alone on its host"
        )
    gpu = {part: cold[f"nv/cold/time/gpu/{part}"] * 1e6 for part in ("min", "q1", "median", "q3", "max")}
    hot_us = hot["nv/batch/time/gpu/mean"] * 1e6 / calls
    empty_launch = measured["lone"].get("nv/cold/time/gpu/median")
    return {
        "cold_us": gpu["median"],
        "cold_min_us": gpu["min"],
        "cold_max_us": gpu["max"],
        "spread_percent": 100 * (gpu["q3"] - gpu["q1"]) / gpu["median"],
        "samples": int(cold["nv/cold/sample_size"]),
        "throttled_samples": throttled,
        "lone_us": None if empty_launch is None else empty_launch * 1e6,
        "hot_us": hot_us,
        "hot_samples": int(hot["nv/batch/sample_size"]) * calls,
        "second_source_us": second.us,
        "second_source_range_percent": second.range_percent,
        "second_source_sm_clock_mhz": second.sm_clock_mhz,
        "difference_percent": 100 * abs(second.us - hot_us) / hot_us,
        "sm_clock_mhz": cold["nv/cold/sm_clock_rate/mean"] / 1e6,
    }


def rates(cost: Cost, metrics: dict[str, Any]) -> dict[str, float]:
    """Return work over time: cold without prefix, warm with it."""
    return {
        "tflops": cost.flops / metrics["cold_us"] / 1e6,
        "bandwidth_gb_per_s": cost.bytes / metrics["cold_us"] / 1e3,
        "hot_tflops": cost.flops / metrics["hot_us"] / 1e6,
        "hot_bandwidth_gb_per_s": cost.bytes / metrics["hot_us"] / 1e3,
    }


def flags(metrics: dict[str, Any], settings: Any) -> list[str]:
    """Return what a reader should know before trusting the row."""
    result = []
    if metrics["difference_percent"] > DIFFERENCE_LIMIT_PERCENT:
        result.append(
            f"the two sources differ by {metrics['difference_percent']:.1f} %: NVBench {metrics['hot_us']:.2f} us, "
            f"graph replay {metrics['second_source_us']:.2f} us"
        )
    if differing := differing_clocks(metrics):
        result.append(differing)
    if metrics["throttled_samples"]:
        result.append(f"{metrics['throttled_samples']} throttled samples were discarded")
    if metrics["throttle_reasons"]:
        result.append(f"the GPU reported: {', '.join(metrics['throttle_reasons'])}")
    if (metrics.get("burst_range_percent") or 0.0) > RANGE_LIMIT_PERCENT:
        result.append(f"bursts at {MOMENTS} moments lie {metrics['burst_range_percent']:.1f} % apart")
    if metrics["spread_percent"] > 10 * settings["max_noise_percent"]:
        result.append(f"cold samples spread by {metrics['spread_percent']:.1f} %")
    return result


def differing_clocks(metrics: dict[str, Any]) -> str | None:
    """Describe SM clocks that differ by CLOCK_LIMIT_PERCENT or more, else None."""
    clocks = {kind: metrics.get(key) for kind, key in SM_CLOCKS.items()}
    known = {kind: clock for kind, clock in clocks.items() if clock is not None}
    if not known or max(known.values()) <= min(known.values()) * (1 + CLOCK_LIMIT_PERCENT / 100):
        return None
    return "the SM clock was not the same: " + ", ".join(f"{kind} {clock:.0f} MHz" for kind, clock in known.items())


def impossible(cost: Cost, dtype: str, metrics: dict[str, Any], device: DeviceModel | None) -> str | None:
    """Return why no such device could be this fast, else None.

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
