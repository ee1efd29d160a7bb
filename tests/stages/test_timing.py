"""Timing: NVBench's output becomes a row, and impossible rows are rejected."""

import json
from types import SimpleNamespace

import pytest

from cpu_backend import small_case
from cutesnake.model import record
from cutesnake.model.contract import Cost, Launch, Runner, nothing
from cutesnake.model.paths import ROOT
from cutesnake.planning.devices import read_devices
from cutesnake.stages.measure import timing
from cutesnake.stages.measure.case import make_record
from cutesnake.stages.measure.replay import Replays, calls_per_graph, kernel_nodes

SETTINGS = {"max_seconds": 2, "max_noise_percent": 0.5}
# Tags and values of one NVBench run on an H200: four kernels of PyTorch in one graph, batch 32, kv 4096.
COLD = {
    "nv/cold/sample_size": 384.0,
    "nv/cold/time/gpu/min": 0.0002640959918498993,
    "nv/cold/time/gpu/q1": 0.0002668479979038239,
    "nv/cold/time/gpu/median": 0.0002677760124206543,
    "nv/cold/time/gpu/q3": 0.00026902401447296144,
    "nv/cold/time/gpu/max": 0.00027366399765014647,
    "nv/cold/sm_clock_rate/mean": 1884331660.0,
}
SINGLE = {"nv/cold/time/gpu/median": 3.4880000054836274e-06}  # of a kernel that does nothing
HOT = {"nv/batch/sample_size": 1077.0, "nv/batch/time/gpu/mean": 0.00026052822442439936}
IDLE = {"power_w": 307.4, "median_power_w": 300.0, "temperature_c": 53.0, "throttle_reasons": []}


def measured(log="", cold=None):
    return {"cold": {**COLD, **(cold or {})}, "hot": HOT, "lone": SINGLE, "log": log}


def row(second_us=260.9568119049072, calls=1, **changes):
    metrics = {**timing.summary(measured(), calls, Replays(second_us, 1890.0)), **IDLE, **changes}
    return metrics | timing.rates(Cost(10**11, 10**8, 10**7), metrics)


@pytest.mark.parametrize(
    ("stated", "with_torch", "allowed"), [(0, False, {1, 2, 9}), (2, False, {2}), (2, True, {2, 9})]
)
def test_a_call_is_timed_only_if_its_kernels_are_on_the_timed_stream(stated, with_torch, allowed):
    # PyTorch's kernels next to a runner's own are not counted beforehand. A copy is one or none.
    runner = Runner(nothing, (Launch("k", (1, 1, 1), (1, 1, 1)),) * stated, with_torch=with_torch)
    for result in (0, 1, 2, 9):
        if result in allowed:
            timing.require_kernels(result, runner)
        else:
            with pytest.raises(timing.TimingError, match=f"received {result} kernels"):
                timing.require_kernels(result, runner)


def test_copies_count_where_they_are_asked_for(monkeypatch):
    """PyTorch copies an array of one type without a kernel."""
    driver = pytest.importorskip("cuda.bindings.driver")
    kinds = driver.CUgraphNodeType
    nodes = [kinds.CU_GRAPH_NODE_TYPE_MEMCPY, kinds.CU_GRAPH_NODE_TYPE_EVENT_RECORD, kinds.CU_GRAPH_NODE_TYPE_MEMSET]
    monkeypatch.setattr(driver, "cuGraphGetNodes", lambda graph, count=0: (0, nodes, len(nodes)))
    monkeypatch.setattr(driver, "cuGraphNodeGetType", lambda node: (0, node))
    graph = SimpleNamespace(raw_cuda_graph=lambda: 0)
    assert (kernel_nodes(graph), kernel_nodes(graph, copies=True)) == (0, 2)
    nodes.append(kinds.CU_GRAPH_NODE_TYPE_KERNEL)
    assert kernel_nodes(graph) == 1


def test_a_row_has_medians_in_microseconds():
    metrics = row()
    assert metrics["cold_us"] == pytest.approx(267.776, abs=0.001)
    assert metrics["hot_us"] == pytest.approx(260.528, abs=0.001)
    assert metrics["samples"] == 384 and metrics["sm_clock_mhz"] == pytest.approx(1884.33, abs=0.01)
    assert metrics["spread_percent"] == pytest.approx(100 * (269.024 - 266.848) / 267.776, abs=1e-3)
    assert metrics["difference_percent"] == pytest.approx(0.1645, abs=1e-3)
    assert metrics["tflops"] == pytest.approx(1e11 / 267.776e-6 / 1e12, rel=1e-4)
    assert metrics["bandwidth_gb_per_s"] == pytest.approx(1.1e8 / 267.776e-6 / 1e9, rel=1e-4)


def test_a_row_has_what_a_lone_launch_of_nothing_took_unless_nvbench_kept_no_sample_of_it():
    assert row()["lone_us"] == pytest.approx(3.488, abs=1e-3)
    result = timing.summary(measured() | {"lone": {}}, 1, Replays(260.0, None))
    assert result["lone_us"] is None and result["cold_us"] == pytest.approx(267.776, abs=0.001)


def test_a_record_from_before_lone_launches_were_timed_is_a_whole_one():
    old = {key: value for key, value in row().items() if key != "lone_us"}
    old |= {"kernels_per_call": 4, "calls_per_graph": 1, "measuring_seconds": 0.4, "flags": []}
    record.check("timing", {**make_record(small_case(), old, seconds=1.0), "stage": "timing"}, "an old row")


def test_hot_time_is_per_call_of_the_graph():
    assert timing.summary(measured(), 20, Replays(13.0, 1890.0))["hot_us"] == pytest.approx(260.528 / 20, rel=1e-4)


def test_a_row_fits_the_schema():
    metrics = row()
    metrics |= {"burst_us": 259.0, "kernels_per_call": 4, "calls_per_graph": 1, "measuring_seconds": 0.4}
    metrics |= {"hot_sm_clock_mhz": 1880.0, "burst_sm_clock_mhz": None, "plan_us": 3.1}
    metrics |= {"plan_cold_us": 4.2, "plan_kind": "graph", "burst_range_percent": 0.4}
    metrics["flags"] = timing.flags(metrics, SETTINGS)
    entry = make_record(small_case(), metrics, seconds=1.0)
    record.check("timing", {**entry, "stage": "timing"}, "a row")


def test_a_quiet_row_has_no_flags():
    assert timing.flags(row(), SETTINGS) == []


def test_recorded_rows_have_clocks_of_the_kinds_that_were_read_when_they_were_made():
    """Records from before the other clocks were read are still whole ones."""
    newer = ("second_source_sm_clock_mhz", "second_source_range_percent")
    old = {key: value for key, value in row().items() if key not in newer}
    assert timing.differing_clocks(old) is None
    old |= {"kernels_per_call": 4, "calls_per_graph": 1, "measuring_seconds": 0.4, "flags": []}
    record.check("timing", {**make_record(small_case(), old, seconds=1.0), "stage": "timing"}, "an old row")


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"difference_percent": 5.1}, "the two sources differ by 5.1 %"),
        ({"throttled_samples": 3}, "3 throttled samples were discarded"),
        ({"throttle_reasons": ["software power cap"]}, "the GPU reported: software power cap"),
        ({"spread_percent": 6.0}, "cold samples spread by 6.0 %"),
        ({"burst_range_percent": 4.3}, "bursts at 3 moments lie 4.3 % apart"),
        (
            {"hot_sm_clock_mhz": 1571.2, "burst_sm_clock_mhz": 1902.0},
            "the SM clock was not the same: cold 1884 MHz, hot 1571 MHz, graph 1890 MHz, burst 1902 MHz",
        ),
    ],
)
def test_what_spoils_a_row_is_flagged(changes, message):
    (flag,) = timing.flags(row(**changes), SETTINGS)
    assert message in flag


def test_throttled_samples_are_counted_from_nvbenchs_log():
    line = (
        "Warn: Current measurement timed out\nWarn: GPU throttled below threshold (1200 MHz / 1980 MHz) (61% < 75%) on"
    )
    assert timing.summary(measured(log=f"{line}\n{line}"), 1, Replays(260.0, None))["throttled_samples"] == 2


def h200():
    return read_devices(ROOT / "config" / "devices.yaml").find("NVIDIA H200")


@pytest.mark.parametrize(
    "cost, message",
    [
        (Cost(10**11, 10**8, 10**7), None),
        (Cost(3 * 10**11, 10**6, 0), "TFLOP/s, above the 989.4 TFLOP/s of bf16 on H200"),
        (Cost(1, 2 * 10**9, 0), "GB/s with cold L2, above the 4800 GB/s of H200"),
    ],
)
def test_a_row_above_the_card_is_impossible(cost, message):
    metrics = row()
    metrics |= timing.rates(cost, metrics)
    reason = timing.impossible(cost, "bf16", metrics, h200())
    assert reason is None if message is None else reason.startswith("impossible") and message in reason


def test_hot_data_that_fits_the_l2_is_no_dram_figure():
    # 5,000 GB/s from L2 is fine. The same from data of four times the L2 is not.
    small, large = Cost(1, 10**8, 0), Cost(1, 10**9, 0)
    for cost, allowed in ((small, True), (large, False)):
        metrics = {"cold_us": cost.bytes / 4e6, "hot_us": cost.bytes / 5.2e6}
        metrics |= timing.rates(cost, metrics)
        metrics["bandwidth_gb_per_s"] = 4000.0
        assert (timing.impossible(cost, "bf16", metrics, h200()) is None) == allowed


def test_an_unknown_device_has_no_peak_to_hold_against():
    assert timing.impossible(Cost(10**15, 1, 1), "bf16", row(), None) is None


def test_nvbench_is_told_one_device_and_its_benchmarks(tmp_path):
    message = timing.nvbench_arguments(tmp_path / "r.json", SETTINGS)
    assert message[message.index("--devices") + 1] == "0"
    assert [message[i + 1] for i, word in enumerate(message) if word == "--benchmark"] == ["cold", "hot", "lone"]
    assert message[message.index("--max-noise") + 1] == "0.5"


def test_a_skipped_benchmark_is_an_error():
    skipped = {"name": "cold", "states": [{"is_skipped": True, "skip_reason": "no device", "summaries": []}]}
    with pytest.raises(timing.TimingError, match="no device"):
        timing._tags(skipped)


def test_a_call_of_which_no_sample_was_kept_says_that_the_clock_was_too_low():
    result = measured(log="Warn: GPU throttled below threshold (1200 MHz / 1980 MHz) (61% < 75%) on\n" * 3)
    result["cold"] = {tag: value for tag, value in result["cold"].items() if not tag.startswith("nv/cold/time/gpu")}
    with pytest.raises(timing.TimingError, match="too low in 3"):
        timing.summary(result, 1, Replays(260.0, None))


def test_summaries_are_read_by_tag():
    data = json.loads('[{"name": "value", "type": "float64", "value": "2.5e-05"}]')
    state = {"summaries": [{"tag": "nv/cold/time/gpu/median", "data": data}, {"tag": "without data"}]}
    assert timing._tags({"name": "cold", "states": [state]}) == {"nv/cold/time/gpu/median": 2.5e-05}


@pytest.mark.parametrize("one_us, calls", [(5.0, 32), (14.0, 15), (150.0, 2), (900.0, 1)])
def test_a_hot_graph_holds_enough_work(one_us, calls):
    assert calls_per_graph(one_us) == calls
