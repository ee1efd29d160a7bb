"""The report's table of times: the fastest marked, times from elsewhere beside it and never counted."""

from pathlib import Path

import yaml

import sample
from cutesnake.contract import ROOT
from cutesnake.report.times import times
from kernels.mla_decode.operator import Workload

REFERENCE = {
    **{"name": "Elsewhere", "device": "NVIDIA H200", "what": "a kernel", "how": "timed once", "date": "2026-01-01"},
    **{"source": "a page", "hot_us": {"b1_q1_s1024_bf16": 0.001}},
}


def test_nothing_timed_no_table() -> None:
    assert times(sample.evidence(), [REFERENCE]) == []


def test_every_timed_kernel_has_a_column_and_the_fastest_is_marked() -> None:
    live, recorded = times(sample.evidence(gpu=True, recorded=True), [])
    assert live["target"] == recorded["target"] == "sm_90a"
    assert "recorded" in recorded["where"] and "recorded" not in live["where"]
    assert set(live["kernels"]) == {"tilegym", "cutile", "cute_sm90", "torch_sdpa"}
    for row in live["rows"]:
        known = [cell["us"] for cell in row["cells"] if cell["us"] is not None]
        assert [cell["us"] for cell in row["cells"] if cell["fastest"]] == [min(known)]


def test_times_from_elsewhere_stand_beside_and_never_win() -> None:
    (table,) = times(sample.evidence(gpu=True), [REFERENCE, {**REFERENCE, "device": "NVIDIA B200"}])
    assert [r["device"] for r in table["references"]] == ["NVIDIA H200"]
    row = next(row for row in table["rows"] if row["workload"] == "b1_q1_s1024_bf16")
    assert row["other"] == [0.001]
    assert sum(cell["fastest"] for cell in row["cells"]) == 1


def test_reference_times_name_real_workloads_and_their_source() -> None:
    for path in Path(ROOT, "kernels").glob("*/reference_times.yaml"):
        for reference in yaml.safe_load(path.read_text()):
            assert {"name", "what", "how", "date", "device", "source", "hot_us"} == set(reference)
            sizes = {Workload(b, s).id for b in (1, 4, 16, 32, 64, 128) for s in (1024, 4096, 8192, 16384, 65536)}
            assert set(reference["hot_us"]) <= sizes
