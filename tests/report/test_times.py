"""The report's table of times.

Times from elsewhere are next to measured ones and never counted.
"""

import math
from pathlib import Path

import pytest
import yaml

import sample
from cutesnake.model.paths import ROOT
from cutesnake.planning.config import check
from loose import compare
from loose import view_times as times

REFERENCE = {
    **{
        "name": "Elsewhere",
        "kernel": "flash_mla",
        "device": "NVIDIA H200",
        "what": "a kernel",
        "how": "timed once",
        "date": "2026-01-01",
    },
    **{"source": "a page", "hot_us": {"b1_s1024_bf16": 0.001}},
}


def view(evidence, references):
    return times(compare(evidence), references)


def figures(table, name):
    """The times per workload and kernel, cold or warm."""
    every = next(cache["every"] for cache in table["caches"] if cache["name"] == name)
    names = [name.removesuffix(" µs") for name in every["head"][1:]]
    return {workload: dict(zip(names, row, strict=True)) for workload, *row in every["rows"]}


def test_nothing_timed_no_table() -> None:
    assert view(sample.evidence(), [REFERENCE]) == []


@pytest.mark.parametrize("name", ["cold", "warm"])
def test_every_timed_kernel_has_a_column(name) -> None:
    live, recorded = view(sample.evidence(gpu=True, recorded=True), [])
    assert live["target"] == recorded["target"] == "sm_90a"
    assert "recorded" in recorded["where"] and "recorded" not in live["where"]
    assert set(live["kernels"]) == {"tilegym", "cutile", "cute_sm90", "torch_sdpa"}
    assert {frozenset(row) for row in figures(live, name).values()} == {frozenset(live["kernels"])}


def test_cold_and_warm_are_their_records_figures() -> None:
    evidence = sample.evidence(gpu=True)
    (table,) = view(evidence, [])
    entry = evidence.measured["results/timing/blend/cutile/sm_90a/bf16/b1_s1024_bf16.json"]
    for name, key in (("cold", "cold_us"), ("warm", "hot_us")):
        assert figures(table, name)["b1_s1024_bf16"]["cutile"] == pytest.approx(entry["metrics"][key], rel=1e-4)


def test_summary_counts_only_rows_that_both_have() -> None:
    evidence = sample.evidence(gpu=True)
    without = "results/timing/blend/tilegym/sm_90a/bf16/b1_s1024_bf16.json"
    fast = "results/timing/blend/cutile/sm_90a/bf16/b32_s8192_bf16.json"
    measured = {path: entry for path, entry in evidence.measured.items() if path != without}
    measured[fast]["metrics"]["hot_us"] = 0.5
    (table,) = view(sample.replace(evidence, measured=measured), [REFERENCE])
    result = {row["kernel"]: row for row in table["summary"]}
    assert [(row["warm"]["fastest"], row["timed"]) for row in result.values()] == [(0, 7), (1, 8), (7, 8), (0, 8)]
    assert [row["cold"]["fastest"] for row in result.values()] == [0, 0, 8, 0]
    assert result["cutile"]["warm"]["cutile"] == {"mean": 1.0, "count": 8}
    assert result["tilegym"]["warm"]["cutile"]["count"] == 7 and result["tilegym"]["warm"]["cutile"]["mean"] < 1
    us = {
        kernel: {workload: row[kernel] for workload, row in figures(table, "warm").items() if row[kernel]}
        for kernel in table["kernels"]
    }
    product = math.prod(us["cutile"][w] / us["cute_sm90"][w] for w in us["cutile"])
    assert math.isclose(result["cute_sm90"]["warm"]["cutile"]["mean"], product ** (1 / 8), rel_tol=1e-4)
    assert result["tilegym"]["references"] == [None]  # its only workload was not timed
    (reference,) = result["cutile"]["references"]
    assert reference["count"] == 1 and math.isclose(
        reference["mean"], 0.001 / us["cutile"]["b1_s1024_bf16"], rel_tol=1e-4
    )


def test_a_kernel_that_was_not_timed_has_no_time() -> None:
    evidence = sample.evidence(gpu=True)
    entry = evidence.measured["results/timing/blend/tilegym/sm_90a/bf16/b1_s1024_bf16.json"]
    entry |= {"status": "failed", "reason": "was not correct", "metrics": None}
    (table,) = view(evidence, [])
    assert figures(table, "warm")["b1_s1024_bf16"]["tilegym"] is None


def test_times_from_elsewhere_stand_beside_warm_ones_and_never_win() -> None:
    (table,) = view(sample.evidence(gpu=True), [REFERENCE, {**REFERENCE, "device": "NVIDIA B200"}])
    assert [r["device"] for r in table["references"]] == ["NVIDIA H200"]
    assert figures(table, "warm")["b1_s1024_bf16"]["Elsewhere"] == 0.001
    assert "Elsewhere" not in figures(table, "cold")["b1_s1024_bf16"]
    assert sum(row["warm"]["fastest"] for row in table["summary"]) == len(figures(table, "warm"))


def test_reference_times_name_workloads_of_the_default_sweep_and_their_source() -> None:
    sweeps = check(yaml.safe_load(Path(ROOT, "config/config.yaml").read_text())).sweeps
    paths = list(Path(ROOT, "kernels").glob("*/reference_times.yaml"))
    assert paths
    for path in paths:
        planned = {workload.id for workload in sweeps[path.parent.name].workloads()}
        for reference in yaml.safe_load(path.read_text()):
            assert {"name", "kernel", "what", "how", "date", "device", "source", "hot_us"} == set(reference)
            assert set(reference["hot_us"]) <= planned
