"""The report's table of times: the fastest marked, times from elsewhere beside it and never counted."""

import math
from pathlib import Path

import yaml

import sample
from cutesnake.compare.comparison import compare
from cutesnake.places import ROOT
from cutesnake.report.times import times
from kernels.mla_decode.operator import Workload

REFERENCE = {
    **{
        "name": "Elsewhere",
        "kernel": "flash_mla",
        "device": "NVIDIA H200",
        "what": "a kernel",
        "how": "timed once",
        "date": "2026-01-01",
    },
    **{"source": "a page", "hot_us": {"b1_q1_s1024_bf16": 0.001}},
}


def view(evidence, references):
    return times(compare(evidence), references)


def test_nothing_timed_no_table() -> None:
    assert view(sample.evidence(), [REFERENCE]) == []


def test_every_timed_kernel_has_a_column_and_the_fastest_is_marked() -> None:
    live, recorded = view(sample.evidence(gpu=True, recorded=True), [])
    assert live["target"] == recorded["target"] == "sm_90a"
    assert "recorded" in recorded["where"] and "recorded" not in live["where"]
    assert set(live["kernels"]) == {"tilegym", "cutile", "cute_sm90", "torch_sdpa"}
    for row in live["rows"]:
        known = [cell["us"] for cell in row["cells"] if cell["us"] is not None]
        assert [cell["us"] for cell in row["cells"] if cell["fastest"]] == [min(known)]


def test_summary_counts_only_rows_that_both_have() -> None:
    evidence = sample.evidence(gpu=True)
    without = "results/timing/mla_decode/tilegym/sm_90a/bf16/b1_q1_s1024_bf16.json"
    fast = "results/timing/mla_decode/cutile/sm_90a/bf16/b32_q1_s8192_bf16.json"
    measured = {path: entry for path, entry in evidence.measured.items() if path != without}
    measured[fast]["metrics"]["hot_us"] = 0.5
    (table,) = view(sample.replace(evidence, measured=measured), [REFERENCE])
    assert table["sentence"] == (
        "Fastest of 4 kernels with a warm L2 cache: cute_sm90 (CuTe DSL) on 7, cutile (cuTile) on 1 of 8 workloads."
    )
    found = {row["kernel"]: row for row in table["summary"]}
    assert [(row["fastest"], row["timed"]) for row in found.values()] == [(0, 7), (1, 8), (7, 8), (0, 8)]
    assert found["cutile"]["cutile"] == {"mean": 1.0, "count": 8}
    assert found["tilegym"]["cutile"]["count"] == 7 and found["tilegym"]["cutile"]["mean"] < 1
    us = {
        kernel: {row["workload"]: row["cells"][place]["us"] for row in table["rows"] if row["cells"][place]["us"]}
        for place, kernel in enumerate(table["kernels"])
    }
    product = math.prod(us["cutile"][w] / us["cute_sm90"][w] for w in us["cutile"])
    assert math.isclose(found["cute_sm90"]["cutile"]["mean"], product ** (1 / 8))
    assert found["tilegym"]["references"] == [None]  # its only workload was not timed
    (reference,) = found["cutile"]["references"]
    assert reference["count"] == 1 and math.isclose(reference["mean"], 0.001 / us["cutile"]["b1_q1_s1024_bf16"])


def test_flags_of_times_are_numbered_notes() -> None:
    evidence = sample.evidence(gpu=True)
    for path, flags in {"cutile": ["power cap"], "tilegym": ["spread", "power cap"]}.items():
        place = f"results/timing/mla_decode/{path}/sm_90a/bf16/b1_q1_s1024_bf16.json"
        evidence.measured[place]["metrics"]["flags"] = flags
    (table,) = view(evidence, [])
    assert table["notes"] == ["spread", "power cap"]  # tilegym's column comes first
    row = next(row for row in table["rows"] if row["workload"] == "b1_q1_s1024_bf16")
    assert [cell["marks"] for cell in row["cells"]] == [[1, 2], [2], [], []]


def test_a_time_that_failed_has_its_reason() -> None:
    evidence = sample.evidence(gpu=True)
    entry = evidence.measured["results/timing/mla_decode/tilegym/sm_90a/bf16/b1_q1_s1024_bf16.json"]
    entry |= {"status": "failed", "reason": "was not correct", "metrics": None}
    (table,) = view(evidence, [])
    row = next(row for row in table["rows"] if row["workload"] == "b1_q1_s1024_bf16")
    assert (row["cells"][0]["us"], row["cells"][0]["marks"]) == (None, [1])
    assert table["notes"] == ["was not correct"]


def test_times_from_elsewhere_stand_beside_and_never_win() -> None:
    (table,) = view(sample.evidence(gpu=True), [REFERENCE, {**REFERENCE, "device": "NVIDIA B200"}])
    assert [r["device"] for r in table["references"]] == ["NVIDIA H200"]
    row = next(row for row in table["rows"] if row["workload"] == "b1_q1_s1024_bf16")
    assert row["other"] == [0.001]
    assert sum(cell["fastest"] for cell in row["cells"]) == 1


def test_reference_times_name_real_workloads_and_their_source() -> None:
    for path in Path(ROOT, "kernels").glob("*/reference_times.yaml"):
        for reference in yaml.safe_load(path.read_text()):
            assert {"name", "kernel", "what", "how", "date", "device", "source", "hot_us"} == set(reference)
            sizes = {Workload(b, s).id for b in (1, 4, 16, 32, 64, 128) for s in (1024, 4096, 8192, 16384, 65536)}
            assert set(reference["hot_us"]) <= sizes
