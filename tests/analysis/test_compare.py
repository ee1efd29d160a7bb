"""Compare stage.

Every cell has a value or a reason, and the value of the record it names.
"""

from __future__ import annotations

import copy
import csv
import io
import json
from dataclasses import replace

import pytest

import sample
from cutesnake.analysis.compare.comparison import METRICS
from cutesnake.analysis.compare.coverage import NONE_TO_SIMULATE
from cutesnake.analysis.evidence.gather import Evidence, load_evidence
from cutesnake.model import record
from loose import compare, every_row, to_csv, where

KEYS = [metric.key for metric in METRICS]


@pytest.fixture(scope="module")
def none() -> Evidence:
    return sample.evidence()


@pytest.fixture(scope="module")
def gpu() -> Evidence:
    return sample.evidence(gpu=True)


def row(comparison, target, workload, cutile, cute, kind=None):
    (result,) = (
        r
        for r in comparison["rows"]
        if (r["target"], r["workload"], r["cutile"]["kernel"], r["cute"]["kernel"]) == (target, workload, cutile, cute)
        and kind in (None, r["device"]["kind"])
    )
    return result


@pytest.mark.parametrize("options", [{}, {"gpu": True}, {"recorded": True}, {"gpu": True, "recorded": True}])
def test_every_record_fits_the_schema_and_no_cell_is_blank(options):
    comparison = compare(sample.evidence(**options))
    record.check("compare", comparison, "test")
    assert comparison["rows"]
    for entry in comparison["rows"]:
        for cells in (entry["cutile"]["cells"], entry["cute"]["cells"], entry["delta"]):
            assert list(cells) == KEYS
            for cell in cells.values():
                assert (cell["value"] is None) == (cell["kind"] == "missing")
                assert cell["kind"] != "missing" or cell["reason"]


def test_without_a_gpu_durations_are_bounds_and_resources_static(none):
    result = row(compare(none), "sm_90a", "b1_s1024_bf16", "cutile", "cute_sm90")
    cells = result["cutile"]["cells"]
    floor = next(r for r in none.roofline if (r["workload"], r["device"]) == ("b1_s1024_bf16", "H200"))
    assert cells["duration_us"]["kind"] == "static"
    assert cells["duration_us"]["value"] == floor["floor_us"]
    assert "no NVIDIA driver" in cells["duration_us"]["reason"]
    assert cells["registers_per_thread"] == {
        **{"value": 255, "unit": "", "kind": "static", "reason": None},
        "source": "results/inspect/blend/cutile/sm_90a/bf16.json",
    }
    assert cells["shared_kb_per_block"]["value"] == pytest.approx(220_636 / 1024)
    assert cells["tensor_core_percent"]["reason"] == sample.NO_GPU
    assert result["delta"]["duration_us"]["kind"] == "missing"  # two bounds are no difference
    assert result["delta"]["registers_per_thread"]["value"] == 168 - 255
    assert result["device"]["kind"] == "none"


def test_a_build_that_is_not_made_has_the_static_figures_of_the_one_that_stands_for_it(none):
    build = "blend/cutile/sm_90a/{}"
    plan = {**none.plan, "stand_ins": {build.format("bf16"): build.format("fp16")}}
    left_out = ("cutile", "sm_90a", "bf16")
    plan["builds"] = [b for b in plan["builds"] if (b["kernel"], b["target"], b["variant"]["id"]) != left_out]
    builds = {path: entry for path, entry in none.builds.items() if build.format("bf16") not in path}
    result = compare(replace(none, plan=plan, builds=builds))
    cells = row(result, "sm_90a", "b1_s1024_bf16", "cutile", "cute_sm90")["cutile"]["cells"]
    assert cells["registers_per_thread"]["source"] == "results/inspect/blend/cutile/sm_90a/fp16.json"
    assert "the build fp16" in cells["registers_per_thread"]["reason"]
    assert cells["duration_us"]["kind"] == "static"  # it could be built, so that it has a bound
    covered = next(c for c in result["coverage"] if (c["kernel"], c["target"]) == ("cutile", "sm_90a"))
    assert (covered["stood_for"], covered["build"]["expected"], covered["build"]["reason"]) == (1, 1, None)


def test_measured_values_come_from_their_records(gpu):
    result = row(compare(gpu), "sm_90a", "b32_s8192_bf16", "cutile", "cute_sm90")
    for dsl, kernel in (("cutile", "cutile"), ("cute", "cute_sm90")):
        path = f"results/timing/blend/{kernel}/sm_90a/bf16/b32_s8192_bf16.json"
        cell = result[dsl]["cells"]["duration_us"]
        assert (cell["kind"], cell["source"]) == ("measured", path)
        assert cell["value"] == gpu.measured[path]["metrics"]["cold_us"]
    times = [result[dsl]["cells"]["duration_us"]["value"] for dsl in ("cutile", "cute")]
    assert result["delta"]["duration_us"]["value"] == pytest.approx(times[1] - times[0])
    assert result["cute"]["cells"]["shared_kb_per_block"]["value"] == pytest.approx(230_816 / 1024)  # ncu over static
    assert [b["kernel"] for b in result["baselines"]] == ["torch_sdpa"]


def test_a_workload_that_is_not_profiled_says_so(gpu):
    result = row(compare(gpu), "sm_90a", "b1_s1024_bf16", "cutile", "cute_sm90")
    assert result["cutile"]["cells"]["dram_percent"]["reason"] == ("the configuration does not profile this workload")


def test_a_target_without_a_fitting_kernel_keeps_its_rows_with_the_reason(none):
    result = row(compare(none), "sm_100a", "b1_s1024_bf16", "cutile", None)
    assert sample.ONLY_FP16 in result["cute"]["reason"]
    assert all(cell["kind"] == "missing" for cell in result["cute"]["cells"].values())


def test_a_kernel_that_did_not_compile_has_its_compilers_words_and_no_bound(none):
    result = row(compare(none), "sm_100a", "b1_s1024_fp16", "tilegym", "cutlass_fp16")
    for cell in result["cutile"]["cells"].values():
        assert cell["kind"] == "missing"
        assert "TileError" in cell["reason"]


def test_a_failed_measurement_is_a_reason(gpu):
    broken = copy.deepcopy(gpu.measured)
    path = "results/timing/blend/cutile/sm_90a/bf16/b1_s1024_bf16.json"
    broken[path] |= {"status": "failed", "reason": "the kernel did not end within 60 s", "metrics": None}
    evidence = sample.replace(gpu, measured=broken)
    comparison = compare(evidence)
    result = row(comparison, "sm_90a", "b1_s1024_bf16", "cutile", "cute_sm90")
    assert result["cutile"]["cells"]["hot_duration_us"]["reason"] == "timing failed: the kernel did not end within 60 s"
    (entry,) = (e for e in comparison["coverage"] if (e["kernel"], e["target"]) == ("cutile", "sm_90a"))
    assert (entry["timing"]["ok"], entry["timing"]["failed"]) == (7, 1)


def test_the_schedule_step_has_a_column_where_a_kernel_has_one(gpu):
    timed = copy.deepcopy(gpu.measured)
    for kernel, plan_us in (("cute_sm90", 3.5), ("torch_sdpa", 6.0)):
        entry = timed[f"results/timing/blend/{kernel}/sm_90a/bf16/b1_s1024_bf16.json"]
        entry["metrics"] |= {"plan_us": plan_us, "plan_cold_us": plan_us + 1, "plan_kind": "graph"}
    result = row(compare(sample.replace(gpu, measured=timed)), "sm_90a", "b1_s1024_bf16", "cutile", "cute_sm90")
    assert result["cute"]["cells"]["plan_us"]["value"] == 3.5
    assert result["cute"]["cells"]["plan_cold_us"]["value"] == 4.5
    assert result["baselines"][0]["plan_us"]["value"] == 6.0
    without = result["cutile"]["cells"]["plan_us"]
    assert without["kind"] == "missing" and "no separate scheduling step" in without["reason"]


def test_recorded_rows_stand_beside_live_ones_with_date_and_commit():
    comparison = compare(sample.evidence(gpu=True, recorded=True))
    kept = row(comparison, "sm_90a", "b1_s1024_bf16", "cutile", "cute_sm90", "recorded")
    live = row(comparison, "sm_90a", "b1_s1024_bf16", "cutile", "cute_sm90", "live")
    assert kept["device"] == {
        **{"kind": "recorded", "device": "NVIDIA H200", "dates": ["2026-11-19"] * 2, "commits": ["abcdef123456"]}
    }
    assert kept["cutile"]["cells"]["duration_us"]["kind"] == "recorded"
    assert live["cutile"]["cells"]["duration_us"]["kind"] == "measured"


def test_rows_of_several_commits_name_their_own_and_the_table_all(none):
    # One kernel was timed again since, and a profile later still. The table of times does not mention the profile.
    kept = json.loads(json.dumps(dict(sample.evidence(recorded=True).recorded)))
    for entry in kept.values():
        if entry["stage"] == "timing" and entry["case"]["kernel"] == "cutile":
            entry["provenance"] |= {"created": "2026-11-21T10:00:00+00:00", "commit": "0000001aaa"}
        if entry["stage"] == "nsys":
            entry["provenance"] |= {"created": "2026-11-23T10:00:00+00:00", "commit": "0000002bbb"}
    result = sample.replace(none, recorded=kept)
    shown = row(compare(result), "sm_90a", "b1_s1024_bf16", "cutile", "cute_sm90", "recorded")
    assert shown["device"]["commits"] == ["abcdef123456", "0000001aaa"]
    assert shown["device"]["dates"] == ["2026-11-19", "2026-11-21"]
    assert [shown[dsl]["commit"] for dsl in ("cutile", "cute")] == ["0000001aaa", "abcdef123456"]
    assert where(shown["device"]) == "recorded on NVIDIA H200 (2026-11-19 to 2026-11-21)"
    lines = csv.DictReader(io.StringIO(to_csv("blend", every_row(result), compare(result)["reasons"])))
    made = {(line["kernel"], line["date"], line["commit"]) for line in lines if line["kind"] == "recorded"}
    assert ("cutile", "2026-11-21", "0000001aaa") in made and ("cute_sm90", "2026-11-19", "abcdef123456") in made
    assert not any(commit == "0000002bbb" for _, _, commit in made)


def test_a_time_of_a_variant_that_is_not_planned_any_more_stays_in_its_row(none):
    kept = json.loads(json.dumps(dict(sample.evidence(recorded=True).recorded)))
    for entry in kept.values():
        if entry["stage"] == "timing" and entry["case"]["kernel"] == "cutile":
            entry["case"]["variant"]["id"] = "earlier"
    shown = row(
        compare(sample.replace(none, recorded=kept)), "sm_90a", "b1_s1024_bf16", "cutile", "cute_sm90", "recorded"
    )
    side = shown["cutile"]
    assert side["variant"] == "earlier" and side["cells"]["duration_us"]["kind"] == "recorded"
    registers = side["cells"]["registers_per_thread"]
    assert (registers["kind"], registers["value"]) == ("missing", None) and "earlier" in registers["reason"]


def test_chosen_pairs_are_the_only_rows(none):
    comparison = compare(none, [("cutile", "cute_sm90")])
    pairs = {(r["cutile"]["kernel"], r["cute"]["kernel"]) for r in comparison["rows"]}
    assert pairs == {("cutile", "cute_sm90")}


def test_the_faster_variant_is_compared(gpu):
    workload = "b1_s1024_bf16"
    plan = copy.deepcopy(gpu.plan)
    plan["cases"].append({"build": "blend/cutile/sm_90a/wide", "workload": workload})
    measured = copy.deepcopy(gpu.measured)
    slow = measured[f"results/timing/blend/cutile/sm_90a/bf16/{workload}.json"]
    fast = copy.deepcopy(slow)
    fast["case"]["variant"]["id"] = "wide"
    fast["metrics"]["cold_us"] = slow["metrics"]["cold_us"] / 2
    measured["fast.json"] = fast
    result = row(compare(sample.replace(gpu, plan=plan, measured=measured)), "sm_90a", workload, "cutile", "cute_sm90")
    assert (result["cutile"]["variant"], result["cutile"]["cells"]["duration_us"]["source"]) == ("wide", "fast.json")


def test_simulated_checks_are_counted_apart(none):
    (entry,) = (e for e in compare(none)["coverage"] if (e["kernel"], e["target"]) == ("cutlass_fp16", "sm_100a"))
    assert entry["correctness"] == {"expected": 4, "ok": 0, "failed": 0, "simulated": 1, "reason": sample.NO_GPU}


def test_coverage_counts_and_reasons(none):
    result = {(e["kernel"], e["target"]): e for e in compare(none)["coverage"]}
    assert result["tilegym", "sm_100a"]["build"] == {
        **{"expected": 2, "ok": 0, "failed": 2, "simulated": 0},
        "reason": "TileError: <b>tile</b> of 512 columns does not fit",
    }
    assert result["cutlass_fp16", "sm_90a"]["build"]["reason"].startswith("not written for sm_90a")
    assert result["cutlass_fp16", "sm_100a"]["unsupported"] == [{"reason": sample.ONLY_FP16, "workloads": 4}]


def undone(evidence, stages, reason):
    """Return the evidence with failed records of `cute_sm90` for some stages."""
    entries = copy.deepcopy(dict(evidence.measured))
    for entry in entries.values():
        if entry["stage"] in stages and entry["case"]["kernel"] == "cute_sm90":
            entry |= {"status": "failed", "reason": reason, "metrics": None}
    return sample.replace(evidence, measured=entries)


def covered(evidence):
    return next(e for e in compare(evidence)["coverage"] if (e["kernel"], e["target"]) == ("cute_sm90", "sm_90a"))


def test_what_was_not_run_for_a_failed_build_or_check_counts_as_not_done_and_not_as_failed(gpu):
    wrong = undone(gpu, ["correctness"], "out is wrong")
    assert covered(wrong)["correctness"]["failed"] == covered(wrong)["cards"]["correctness"][0]["failed"] > 0
    reason = "not run: it is not correct (out is wrong)"
    entry = covered(undone(wrong, ["timing", "nsys", "ncu"], reason))
    assert entry["correctness"]["failed"] > 0
    for stage in ("timing", "nsys", "ncu"):
        counts = {key: entry[stage][key] for key in ("ok", "failed", "reason")}
        assert counts == {"ok": 0, "failed": 0, "reason": reason} and entry["cards"][stage] == []
    entry = covered(undone(gpu, ["correctness"], "not run: it did not compile (no)"))
    assert (entry["correctness"]["ok"], entry["correctness"]["failed"]) == (0, 0)
    assert entry["correctness"]["reason"] == "not run: it did not compile (no)" and entry["timing"]["ok"] > 0


def test_evidence_from_files_compares_the_same(tmp_path, monkeypatch, gpu):
    paths = sample.write(tmp_path, gpu)
    monkeypatch.chdir(tmp_path)
    assert compare(load_evidence(*paths)) == compare(gpu)


def test_a_damaged_record_is_named(tmp_path, monkeypatch, gpu):
    paths = sample.write(tmp_path, gpu)
    monkeypatch.chdir(tmp_path)
    damaged = tmp_path / paths[1][0]
    damaged.write_text(damaged.read_text()[:40])
    with pytest.raises(record.RecordError, match=r"build\.json: not a whole record"):
        load_evidence(*paths)


def test_a_kernel_whose_sweep_has_nothing_to_simulate_says_so():
    # Where the GPU is missing. Not where it is here, and not where the DSL has a reason of its own.
    for gpu, targets in ((False, {"sm_90a", "sm_100a"}), (True, {"sm_100a"})):
        evidence = sample.evidence(gpu=gpu)
        for listed in (evidence.plan["simulated_cases"], []):
            plan = {**evidence.plan, "simulated_cases": listed}
            rows = compare(sample.replace(evidence, plan=plan))["coverage"]
            message = {f"{r['kernel']}/{r['target']}" for r in rows if r["not_simulated"] == NONE_TO_SIMULATE}
            able = {f"{d['kernel']}/{d['target']}" for d in plan["decisions"] if d["simulate"]["ok"]}
            wanted = {name for name in able if name.split("/")[1] in targets}
            assert sample.SIMULATED in wanted and message == wanted - ({sample.SIMULATED} if listed else set())
