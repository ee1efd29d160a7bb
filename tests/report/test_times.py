"""The report's table of times.

The fastest marked, times from elsewhere next to it and never counted.
"""

import math
from pathlib import Path

import pytest
import yaml

import sample
from cutesnake.model.paths import ROOT
from cutesnake.planning.config import check
from cutesnake.report.formatting import Notes
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
    notes = Notes()
    return times(compare(evidence), references, notes), notes.texts


def figures(table, name):
    """The table of cold or of warm times."""
    return next(cache for cache in table["caches"] if cache["name"] == name)


def row_of(table, workload, name="warm"):
    return next(row for row in figures(table, name)["rows"] if row["workload"] == workload)


def test_nothing_timed_no_table() -> None:
    assert view(sample.evidence(), [REFERENCE]) == ([], [])


@pytest.mark.parametrize("name", ["cold", "warm"])
def test_every_timed_kernel_has_a_column_and_the_fastest_is_marked(name) -> None:
    (live, recorded), _ = view(sample.evidence(gpu=True, recorded=True), [])
    assert live["target"] == recorded["target"] == "sm_90a"
    assert "recorded" in recorded["where"] and "recorded" not in live["where"]
    assert set(live["kernels"]) == {"tilegym", "cutile", "cute_sm90", "torch_sdpa"}
    for row in figures(live, name)["rows"]:
        known = [cell["us"] for cell in row["cells"] if cell["us"] is not None]
        assert [cell["us"] for cell in row["cells"] if cell["fastest"]] == [min(known)]


def test_cold_and_warm_are_their_records_figures() -> None:
    evidence = sample.evidence(gpu=True)
    (table,), _ = view(evidence, [])
    entry = evidence.measured["results/timing/blend/cutile/sm_90a/bf16/b1_s1024_bf16.json"]
    place = table["kernels"].index("cutile")
    for name, key in (("cold", "cold_us"), ("warm", "hot_us")):
        assert row_of(table, "b1_s1024_bf16", name)["cells"][place]["us"] == entry["metrics"][key]


def test_summary_counts_only_rows_that_both_have() -> None:
    evidence = sample.evidence(gpu=True)
    without = "results/timing/blend/tilegym/sm_90a/bf16/b1_s1024_bf16.json"
    fast = "results/timing/blend/cutile/sm_90a/bf16/b32_s8192_bf16.json"
    measured = {path: entry for path, entry in evidence.measured.items() if path != without}
    measured[fast]["metrics"]["hot_us"] = 0.5
    (table,), _ = view(sample.replace(evidence, measured=measured), [REFERENCE])
    assert table["sentences"] == [
        "Fastest of 4 kernels, cold (single calls, L2 flushed): cute_sm90 (CuTe DSL) on 8 of 8 workloads.",
        "Fastest of 4 kernels, warm (repeated calls): cute_sm90 (CuTe DSL) on 7, cutile (cuTile) on 1 of 8 workloads.",
    ]
    result = {row["kernel"]: row for row in table["summary"]}
    assert [(row["warm"]["fastest"], row["timed"]) for row in result.values()] == [(0, 7), (1, 8), (7, 8), (0, 8)]
    assert [row["cold"]["fastest"] for row in result.values()] == [0, 0, 8, 0]
    assert result["cutile"]["warm"]["cutile"] == {"mean": 1.0, "count": 8}
    assert result["tilegym"]["warm"]["cutile"]["count"] == 7 and result["tilegym"]["warm"]["cutile"]["mean"] < 1
    us = {
        kernel: {
            row["workload"]: row["cells"][place]["us"]
            for row in figures(table, "warm")["rows"]
            if row["cells"][place]["us"]
        }
        for place, kernel in enumerate(table["kernels"])
    }
    product = math.prod(us["cutile"][w] / us["cute_sm90"][w] for w in us["cutile"])
    assert math.isclose(result["cute_sm90"]["warm"]["cutile"]["mean"], product ** (1 / 8))
    assert result["tilegym"]["references"] == [None]  # its only workload was not timed
    (reference,) = result["cutile"]["references"]
    assert reference["count"] == 1 and math.isclose(reference["mean"], 0.001 / us["cutile"]["b1_s1024_bf16"])


def test_flags_of_times_are_numbered_notes_by_their_kind() -> None:
    evidence = sample.evidence(gpu=True)
    for path, flags in {"cutile": ["power cap", "spread by 7.1 %"], "tilegym": ["spread by 6.3 %"]}.items():
        place = f"results/timing/blend/{path}/sm_90a/bf16/b1_s1024_bf16.json"
        evidence.measured[place]["metrics"]["flags"] = flags
    (table,), notes = view(evidence, [])
    assert [note.split(" (")[0] for note in notes] == ["spread by N %", "power cap"]
    cells = row_of(table, "b1_s1024_bf16")["cells"]
    assert [cell["marks"] for cell in cells] == [[1], [1, 2], [], []]  # tilegym's column comes first
    assert cells[0]["flags"] == ["spread by 6.3 %"]


def test_a_time_that_failed_has_its_reason() -> None:
    evidence = sample.evidence(gpu=True)
    entry = evidence.measured["results/timing/blend/tilegym/sm_90a/bf16/b1_s1024_bf16.json"]
    entry |= {"status": "failed", "reason": "was not correct", "metrics": None}
    (table,), notes = view(evidence, [])
    cell = row_of(table, "b1_s1024_bf16")["cells"][0]
    assert (cell["us"], cell["marks"]) == (None, [1])
    assert notes == ["was not correct"]


def test_times_from_elsewhere_stand_beside_warm_ones_and_never_win() -> None:
    (table,), _ = view(sample.evidence(gpu=True), [REFERENCE, {**REFERENCE, "device": "NVIDIA B200"}])
    assert [r["device"] for r in table["references"]] == ["NVIDIA H200"]
    assert figures(table, "warm")["other"]["b1_s1024_bf16"] == [0.001]
    assert figures(table, "cold")["other"]["b1_s1024_bf16"] == []
    assert sum(cell["fastest"] for cell in row_of(table, "b1_s1024_bf16")["cells"]) == 1


def test_reference_times_name_workloads_of_the_default_sweep_and_their_source() -> None:
    sweeps = check(yaml.safe_load(Path(ROOT, "config/config.yaml").read_text())).sweeps
    paths = list(Path(ROOT, "kernels").glob("*/reference_times.yaml"))
    assert paths
    for path in paths:
        planned = {workload.id for workload in sweeps[path.parent.name].workloads()}
        for reference in yaml.safe_load(path.read_text()):
            assert {"name", "kernel", "what", "how", "date", "device", "source", "hot_us"} == set(reference)
            assert set(reference["hot_us"]) <= planned
