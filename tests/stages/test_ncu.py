"""ncu: an H200's counters as a record, bottleneck rules, and missing permission."""

import dataclasses
import json
import types
from pathlib import Path

import pytest

from cpu_backend import small_case
from cutesnake.model import record
from cutesnake.model.contract import Cost
from cutesnake.stages.measure.case import make_record
from cutesnake.stages.profile import bottleneck, ncu
from cutesnake.stages.profile.profiled import ProfilerError

KERNELS = json.loads((Path(__file__).parents[1] / "fixtures" / "ncu_kernels.json").read_text())["kernels"]


class Action:
    """What ncu-report gives for a kernel, from numbers that were read off a real report."""

    def __init__(self, data):
        self._data = data

    def name(self):
        return self._data["name"]

    def metric_names(self):
        return tuple(self._data["metrics"])

    def __getitem__(self, name):
        return types.SimpleNamespace(value=lambda: self._data["metrics"][name])

    def rule_results_as_dicts(self):
        return self._data["rules"]


class Range(list):
    def num_actions(self):
        return len(self)


class Context(list):
    def num_ranges(self):
        return len(self)


@pytest.fixture
def read(monkeypatch):
    """`read(cost, kernels…)` reads a report that holds these kernels."""
    import ncu_report

    def reading(cost, *kernels):
        actions = Range(Action(kernel) for kernel in kernels)
        monkeypatch.setattr(ncu_report, "load_report", lambda path: Context([actions] if actions else []))
        return ncu.read_report(Path("report"), cost)

    return reading


def changed(kernel, **metrics):
    return {**kernel, "metrics": {**kernel["metrics"], **metrics}}


ADD, GEMM = KERNELS
ADD_COST = Cost(4096 * 4096, 2 * 4096 * 4096 * 4, 4096 * 4096 * 4)


def test_the_figures_of_a_kernel(read):
    metrics = read(ADD_COST, ADD)
    assert metrics["main_kernel"] == "elementwise_add"
    assert metrics["duration_us"] == pytest.approx(49.216)
    assert metrics["dram_percent"] == pytest.approx(77.2, abs=0.1) and metrics["tensor_core_percent"] == 0
    assert metrics["block"] == [128, 1, 1] and metrics["spill_bytes"] == 0
    assert sum(metrics["stalls"].values()) == pytest.approx(1.0, abs=0.01)
    assert metrics["achieved_gb_per_s"] == pytest.approx(metrics["dram_bytes"] / 49.216e-6 / 1e9, rel=1e-3)


def test_a_record_of_it_fits_the_schema(read):
    metrics = read(ADD_COST, ADD)
    entry = make_record(dataclasses.replace(small_case(), stage="ncu"), {**metrics, "measuring_seconds": 5.0})
    record.check("ncu", json.loads(json.dumps(entry, allow_nan=False)), "counters")


def test_the_longest_kernel_is_the_main_one_and_all_count(read):
    metrics = read(ADD_COST, ADD, GEMM)
    assert metrics["main_kernel"] == GEMM["name"]
    assert metrics["total_duration_us"] == pytest.approx(49.216 + 57.632)
    assert metrics["occupancy_limiter"] == "registers, shared memory" and metrics["blocks_per_sm"] == 1
    assert metrics["cluster_size"] == 2 and len(metrics["kernels"]) == 2


def test_a_metric_that_an_architecture_lacks_is_null(read):
    without = {**ADD, "metrics": {k: v for k, v in ADD["metrics"].items() if "lts__" not in k and "dram__" not in k}}
    metrics = read(ADD_COST, without)
    assert metrics["l2_hit_percent"] is None and metrics["dram_bytes"] is None
    assert "could not be cross-checked" in metrics["notes"][0]


def test_cost_is_cross_checked_against_dram_bytes(read):
    assert read(ADD_COST, ADD)["notes"] == []
    (note,) = read(Cost(1, ADD_COST.bytes // 2, 0), ADD)["notes"]
    assert "times the bytes of cost()" in note
    (note,) = read(Cost(1, ADD_COST.bytes * 2, 0), ADD)["notes"]
    assert "of the bytes of cost()" in note


@pytest.mark.parametrize(
    "tensor, dram, hit, ratio, expected",
    [
        (75.0, 40.0, 50.0, 1.0, "compute"),
        (20.0, 85.0, 50.0, 1.0, "memory"),
        (20.0, 85.0, 20.0, 1.1, "memory"),
        (20.0, 85.0, 20.0, 1.9, "locality"),
        (70.0, 85.0, 60.0, 1.0, "memory"),
        (59.0, 59.0, 50.0, 1.0, "latency"),
        (None, 85.0, 50.0, 1.0, "unknown"),
    ],
)
def test_bottleneck_rules(tensor, dram, hit, ratio, expected):
    figures = {"tensor_core_percent": tensor, "dram_percent": dram, "l2_hit_percent": hit, "dram_over_cost": ratio}
    result = bottleneck.classify(figures)
    assert result["class"] == expected
    assert result["numbers"] == figures and result["rule"]


def test_opportunities_name_their_metric(read):
    result = read(ADD_COST, GEMM)["opportunities"]
    assert result and all(o["metric"] and o["value"] is not None for o in result)
    estimates = [o["estimated_speedup_percent"] or 0 for o in result]
    assert estimates == sorted(estimates, reverse=True)
    assert not any("@" in o["text"] for o in result)


def test_an_empty_report_is_named(read):
    with pytest.raises(ProfilerError, match="holds no kernel"):
        read(ADD_COST)


def test_spills_are_counted(read):
    spilled = changed(
        ADD, sass__inst_executed_register_spilling=12, sass__inst_executed_register_spilling_mem_local=512
    )
    assert read(ADD_COST, spilled)["spill_bytes"] == 512


def test_counters_that_are_not_permitted_are_a_status(monkeypatch, tmp_path):
    def refuse(*arguments, **options):
        raise ProfilerError("ncu ended with code 1", "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")

    monkeypatch.setattr(ncu, "find_tool", lambda name: "ncu")
    monkeypatch.setattr(ncu, "run_under", refuse)
    with pytest.raises(ProfilerError, match="not permitted here"):
        ncu.profile(small_case(), tmp_path, "none", 1.0)


def test_a_report_that_was_not_written_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(ncu, "find_tool", lambda name: "ncu")
    monkeypatch.setattr(ncu, "run_under", lambda *a, **o: ("==WARNING== No kernels were profiled.", 1.0))
    with pytest.raises(ProfilerError, match="wrote no report: ==WARNING== No kernels were profiled"):
        ncu.profile(small_case(), tmp_path, "none", 1.0)
