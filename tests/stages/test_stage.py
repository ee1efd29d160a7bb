"""The GPU stages end to end.

What is not worth running here, and real runs on a GPU machine.
"""

import dataclasses
import os
import statistics
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

import sample
from cpu_backend import SETTINGS
from cutesnake.model import record
from cutesnake.model.records.nsys import Launched
from cutesnake.stages.measure import checker, gpu_process, stage, timing
from cutesnake.stages.measure.case import Case, make_record
from cutesnake.stages.measure.clock import Stamper
from cutesnake.stages.measure.plan_time import time_plan
from cutesnake.stages.measure.replay import capture, replay
from kernels.mla_decode.operator import Workload

TIMING = {"max_seconds": 2, "max_noise_percent": 0.5}
IDENTITY = {
    "operator": "mla_decode",
    "kernel": "torch_sdpa",
    "target": "sm_90a",
    "variant": {"id": "eager", "params": {}},
    "parameters": {"batch": 4, "kv_length": 1024},
}
W = Workload(**IDENTITY["parameters"])


def build(folder, status="ok", reason=None):
    """build.json of the PyTorch baseline, which needs no build."""
    entry = {
        "stage": "compile",
        "status": status,
        "reason": reason,
        "provenance": {"created": "2026-11-20T00:00:00+00:00", "python": "3.11.0", "platform": "Linux x86_64"},
        **{key: IDENTITY[key] for key in ("operator", "kernel", "target", "variant")},
        **{"dsl": "torch", "source": "ours", "symbols": [], "function": None, "launch": {}, "compilers": {}},
        **{"options": None, "notes": [], "files": {}, "seconds": 0.0, "log_tail": ""},
    }
    record.write("compile", folder / "build.json", entry)
    return folder / "build.json"


def test_what_did_not_compile_is_not_run(tmp_path):
    made = build(tmp_path, "failed", "error: tile of 512 columns\nmore")
    stage.run_stage("timing", IDENTITY, TIMING, made, tmp_path / "out.json")
    entry = record.plain(record.read("timing", tmp_path / "out.json"))
    assert entry["status"] == "failed" and "did not compile (error: tile of 512 columns)" in entry["reason"]


@pytest.mark.parametrize("wrap", [list, str], ids=["a list", "one path, as Snakemake gives it"])
def test_what_is_wrong_is_not_timed(tmp_path, wrap):
    case = Case(stage="correctness", build="", settings=SETTINGS, **IDENTITY)
    record.write("correctness", tmp_path / "c.json", make_record(case, None, "error of out is 1.0"))
    needs = [tmp_path / "c.json"] if wrap is list else str(tmp_path / "c.json")
    stage.run_stage("timing", IDENTITY, TIMING, build(tmp_path), tmp_path / "out.json", needs)
    assert (
        record.plain(record.read("timing", tmp_path / "out.json"))["reason"]
        == "not run: it is not correct (error of out is 1.0)"
    )


def test_a_profiler_that_is_missing_is_a_status(tmp_path, monkeypatch, machine):
    for place in ("cutesnake.planning.machine.probe", "cutesnake.stages.measure.stage.probe"):
        monkeypatch.setattr(place, lambda: machine("none"))
    stage.run_stage("ncu", IDENTITY, {}, build(tmp_path), tmp_path / "out.json")
    entry = record.plain(record.read("ncu", tmp_path / "out.json"))
    assert entry["status"] == "failed" and "ncu is not installed here" in entry["reason"]


def launches() -> list[Launched]:
    return msgspec.convert(sample.nsys()["kernels"], list[Launched])


@pytest.mark.parametrize(
    "duration, status, reason",
    [
        (70.0, "ok", None),
        (120.0, "failed", "a call of 120.0 us (120.0 us of them busy), where timing measured 68.0 to"),
    ],
)
def test_a_timeline_is_held_against_the_timing_record(tmp_path, monkeypatch, machine, duration, status, reason):
    monkeypatch.setattr(stage, "probe", lambda: machine("h200"))
    monkeypatch.setitem(stage.PROFILERS, "nsys", lambda *_: (sample.nsys() | {"kernels": [kernel]}, None))
    kernel = replace(launches()[0], duration_us=duration)
    timed = make_record(
        Case(stage="timing", build="", settings={}, **IDENTITY), sample.timing("torch_sdpa", sample.workloads()[0], 1.0)
    )
    timed["metrics"] |= {"hot_us": 68.0, "cold_us": 75.0, "second_source_us": 68.5}
    record.write("timing", tmp_path / "timing.json", timed)
    stage.run_stage("nsys", IDENTITY, {}, build(tmp_path), tmp_path / "out.json", timed=str(tmp_path / "timing.json"))
    entry = record.plain(record.read("nsys", tmp_path / "out.json"))
    assert entry["status"] == status and (entry["reason"] is None if reason is None else reason in entry["reason"])
    assert entry["metrics"]["timing_check"]["made"]


def test_a_timeline_without_a_timing_record_says_that_it_was_not_checked(tmp_path, monkeypatch, machine):
    monkeypatch.setattr(stage, "probe", lambda: machine("h200"))
    monkeypatch.setitem(stage.PROFILERS, "nsys", lambda *_: (sample.nsys() | {"kernels": launches()}, None))
    stage.run_stage("nsys", IDENTITY, {}, build(tmp_path), tmp_path / "out.json", timed=[])
    entry = record.plain(record.read("nsys", tmp_path / "out.json"))
    assert entry["status"] == "ok" and not entry["metrics"]["timing_check"]["made"]


@pytest.fixture
def run(tmp_path):
    """`run("timing")` runs a stage on this machine's GPU and returns its record."""
    made = build(tmp_path)

    def running(name, settings, timed=None, **parameters):
        identity = {**IDENTITY, "parameters": {**IDENTITY["parameters"], **parameters}}
        at = tmp_path / "timing.json" if timed else None
        stage.run_stage(name, identity, settings, made, tmp_path / f"{name}.json", timed=at)
        return record.plain(record.read(name, tmp_path / f"{name}.json"))

    return running


@pytest.mark.gpu
def test_correctness_on_the_gpu(run):
    entry = run("correctness", SETTINGS)
    assert entry["reason"] is None and entry["metrics"]["failed"] == 0 and entry["device"]["name"]


@pytest.mark.gpu
def test_timing_on_the_gpu(run):
    entry = run("timing", TIMING, batch=32, kv_length=4096)
    assert entry["reason"] is None
    metrics = entry["metrics"]
    assert metrics["kernels_per_call"] >= 3 and metrics["samples"] >= 20
    assert 0 < metrics["hot_us"] <= 1.1 * metrics["cold_us"]
    assert metrics["burst_us"] == pytest.approx(metrics["hot_us"], rel=0.25)
    assert metrics["difference_percent"] < timing.DIFFERENCE_LIMIT_PERCENT
    assert metrics["power_w"] > 20 and metrics["temperature_c"] > 10
    clocks = [metrics[key] for key in timing.SM_CLOCKS.values()]
    assert all(500 < mhz < 3500 for mhz in clocks) and max(clocks) < 1.3 * min(clocks), clocks
    assert metrics.get("plan_us") is None  # PyTorch plans nothing


@pytest.mark.gpu
def test_three_runs_agree_within_three_percent(run):
    times = [run("timing", TIMING, batch=32, kv_length=4096)["metrics"]["cold_us"] for _ in range(3)]
    middle = statistics.median(times)
    assert max(abs(t - middle) for t in times) / middle < 0.03, times


@pytest.mark.gpu
def test_nsys_on_the_gpu(run):
    timed = run("timing", TIMING, batch=32, kv_length=4096)
    entry = run("nsys", {}, timed, batch=32, kv_length=4096)
    assert timed["reason"] is None and entry["reason"] is None, entry["reason"]
    metrics = entry["metrics"]
    assert metrics["calls"] == 6 and metrics["launch_latency_us"] > 0 and metrics["spacing"] == "lone"
    assert metrics["timing_check"]["agrees"] is True, metrics["timing_check"]


@pytest.mark.gpu
def test_ncu_on_the_gpu(run):
    entry = run("ncu", {}, batch=32, kv_length=4096)
    if entry["reason"] and "not permitted" in entry["reason"]:
        pytest.skip(entry["reason"])
    assert entry["reason"] is None, entry["reason"]
    metrics = entry["metrics"]
    assert metrics["dram_bytes"] > metrics["cost_bytes"] * 0.5 and metrics["bottleneck"]["class"] != "unknown"
    assert any(kernel["tensor_core_percent"] > 5 for kernel in metrics["kernels"])


@pytest.mark.gpu
def test_a_launch_on_another_stream_is_caught():
    import torch

    stream, other = torch.cuda.Stream(), torch.cuda.Stream()

    @dataclasses.dataclass
    class Outputs:
        c: torch.Tensor

    outputs = checker.Guarded(Outputs(torch.zeros(1024, device="cuda")))

    class Astray:
        launches = ("one",)

        def __call__(self, values):
            with torch.cuda.stream(other):
                outputs.values.c.fill_(1.0)

    runner = Astray()
    runner(stream.cuda_stream)
    torch.cuda.synchronize()
    with pytest.raises(timing.TimingError, match="went to another stream"):
        timing.check_graph(capture(runner, stream, 1), runner, outputs, stream)


@pytest.mark.gpu
@pytest.mark.parametrize("waits, kind", [(False, "graph"), (True, "host")])
def test_a_plan_on_the_gpu_is_timed_by_what_it_does(waits, kind):
    import torch

    lengths = torch.arange(1, 257, device="cuda", dtype=torch.int32)
    ends = torch.empty_like(lengths)

    class Planner:
        def plan(self, stream):
            with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
                ends.copy_(torch.cumsum(lengths.cpu() if waits else lengths, 0))

    stream = torch.cuda.Stream()
    result = time_plan(Planner(), stream, Stamper())
    assert result["plan_kind"] == kind and 0.5 < result["plan_us"] < 5000 and 0.5 < result["plan_cold_us"] < 5000
    # A capture that was refused leaves the process able to capture and replay.
    assert replay(capture(lambda values: ends.add_(1), stream, 1), stream, 1, 3, Stamper()).us > 0
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


@pytest.mark.gpu
def test_the_clock_of_a_busy_gpu_is_what_its_cycle_counter_says():
    import torch

    span, stream = Stamper().span(), torch.cuda.Stream()
    cycles = 20_000_000
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.stream(stream):
        torch.cuda._sleep(cycles)
        span.begin(stream.cuda_stream)
        begin.record()
        torch.cuda._sleep(cycles)
        end.record()
        span.end(stream.cuda_stream)
    stream.synchronize()
    assert span.mhz() == pytest.approx(cycles / begin.elapsed_time(end) / 1000, rel=0.03)


@pytest.fixture
def ask(monkeypatch):
    local = Path(__file__).parents[1]
    paths = [str(local), str(local.parent), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    case = Case(stage="correctness", build="", settings={}, **IDENTITY)
    return lambda task, limit_s=30.0: gpu_process.ask(case.as_dict(), limit_s, f"worker_tasks:{task}")


@pytest.mark.gpu
def test_a_corrupted_context_fails_alone(ask):
    failed = ask("corrupt_context")
    assert failed["status"] == "failed" and "CUDA error" in failed["reason"], failed["reason"]
    assert ask("use_the_gpu")["metrics"] == {"sum": 1024.0}


@pytest.mark.gpu
def test_a_kernel_that_hangs_is_ended(ask):
    failed = ask("hang_on_the_gpu", limit_s=3.0)
    assert "time limit of 3 s" in failed["reason"]
    assert ask("use_the_gpu")["metrics"] == {"sum": 1024.0}
