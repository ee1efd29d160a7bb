"""What changed against a baseline: verdicts hold ratios against noise.

Baselines are found, read and refused.
"""

from __future__ import annotations

import copy
import csv
import io
import json
import subprocess

import pytest

import sample
from cutesnake.analysis.change import baseline
from cutesnake.analysis.change.baseline import Baseline, BaselineError, locate
from cutesnake.analysis.evidence import recorded_set
from cutesnake.model import record
from loose import change, render, unchanged, verdict
from loose import change_to_csv as to_csv
from report_pages import Page, contents

RESULTS = Baseline("results", "before", "before")
KEPT = Baseline("recorded", "recorded/nvidia_h200", "recorded/nvidia_h200")


def metrics(us: float, spread: float = 0.8, difference: float = 1.0, **more) -> dict:
    made = sample.timing("cutile", sample.workloads()[0], 1.0)
    return {**made, "cold_us": us, "hot_us": us, "spread_percent": spread, "difference_percent": difference, **more}


@pytest.mark.parametrize(
    ("before", "now", "message"),
    [
        (metrics(100), metrics(104), "slower"),
        (metrics(104), metrics(100), "faster"),
        (metrics(100), metrics(102), "equal"),  # nearer than the least noise that is believed
        (metrics(100, 3.0), metrics(104, 3.0), "equal"),  # nearer than the spreads
        (metrics(100, 6.0), metrics(104, 6.0), "cannot tell"),  # a change of 10 % would not show
        (metrics(100, 6.0), metrics(150, 6.0), "slower"),  # but one of 50 % does
        (metrics(100, sm_clock_mhz=1980), metrics(110, sm_clock_mhz=1800), "cannot tell"),  # the same cycles
        (metrics(100, sm_clock_mhz=1980), metrics(130, sm_clock_mhz=1800), "slower"),
    ],
)
def test_a_verdict_holds_the_ratio_against_the_noise(before, now, message) -> None:
    result = verdict("cold", before, now)
    assert result["verdict"] == message and result["ratio"] == now["cold_us"] / before["cold_us"]
    assert bool(result["why"]) == (message == "cannot tell")


def test_the_noise_of_a_warm_time_counts_how_far_its_two_sources_are_apart() -> None:
    assert verdict("warm", metrics(100), metrics(106))["verdict"] == "slower"
    assert verdict("warm", metrics(100, difference=-4.0), metrics(106, difference=3.0))["verdict"] == "equal"


@pytest.fixture
def now():
    return sample.evidence(gpu=True)


def earlier(evidence) -> dict:
    """The same records as another run made them, a day before."""
    result = copy.deepcopy({**evidence.builds, **evidence.inspected, **evidence.measured})
    for entry in result.values():
        entry["provenance"]["created"] = "2026-11-18T10:00:00+00:00"
    return result


def case(records: dict, kernel: str = "cutile", workload: str = "b32_s1024_bf16") -> dict:
    (entry,) = (
        entry
        for path, entry in records.items()
        if path.startswith("results/timing/") and kernel in path.split("/") and path.endswith(f"{workload}.json")
    )
    return entry


def changes_in(evidence, before, place=RESULTS) -> dict:
    result = change(evidence, place, before)
    record.check("change", result, "sample")
    return result


def test_nothing_changed_is_equal_throughout(now) -> None:
    result = changes_in(now, earlier(now))
    for name in ("cold", "warm"):
        totals = result["totals"][name]
        assert totals["equal"] == len(result["cases"]) > 10 and totals["same"] == totals["slower"] == 0
    assert result["builds"]["compared"] > 5 and result["builds"]["changed"] == []
    assert result["unpaired"] == {"only_before": 0, "only_now": 0}


def test_one_slower_case_is_found_and_named(now) -> None:
    before = earlier(now)
    case(before)["metrics"]["cold_us"] /= 1.5
    result = changes_in(now, before)
    assert result["totals"]["cold"]["slower"] == 1 and result["totals"]["warm"]["slower"] == 0
    fine, message = unchanged([result], "slower")
    assert not fine and "1 of 32 cases are slower than in before" in message
    assert "the worst is blend, cutile on b32_s1024_bf16 (NVIDIA H200), cold: 1.5 times the time" in message
    assert unchanged([result], "none") == (True, message)


def test_a_faster_case_fails_nothing(now) -> None:
    before = earlier(now)
    case(before)["metrics"]["cold_us"] *= 1.5
    result = changes_in(now, before)
    assert result["totals"]["cold"]["faster"] == 1
    assert unchanged([result], "worse") == (True, "none of 32 cases is slower than in before")


def test_figures_of_builds_that_differ_are_listed_with_the_compilers(now) -> None:
    before = earlier(now)
    path = next(path for path in before if path.startswith("results/inspect/") and "/cute_sm90/" in path)
    function = before[path]["functions"][1]
    function["registers_per_thread"], function["dynamic_shared_bytes"] = 160, 0
    function["instructions"]["tensor_core"] += 8
    for entry in before.values():
        if entry["stage"] == "compile" and entry["dsl"] == "cute":
            entry["compilers"] = {"nvidia-cutlass-dsl": "4.8.0"}
    result = changes_in(now, before)["builds"]
    (entry,) = result["changed"]
    assert (entry["kernel"], entry["function"], entry["symbol"]) == ("cute_sm90", 2, "combine")
    changes = {c["figure"]: c["now"] - c["before"] for c in entry["changes"]}
    assert changes == {
        **{"registers_per_thread": 8, "shared_bytes": 231_424},
        **{"instructions": -8, "instructions, tensor core": -8},
    }
    assert result["compilers"] == [{"name": "nvidia-cutlass-dsl", "before": ["4.8.0"], "now": ["4.8.1"]}]


def test_more_spills_fail_where_that_is_asked_for(now) -> None:
    before = earlier(now)
    next(e for p, e in before.items() if "inspect" in p and "/cutile/" in p)["functions"][0]["spill_bytes"] = 0
    result = changes_in(now, before)
    assert unchanged([result], "slower")[0]
    fine, message = unchanged([result], "worse")
    assert not fine and "1 device function with more spills, the first in blend, cutile for sm_" in message


def test_one_measurement_on_both_sides_says_nothing(now) -> None:
    """A recorded set against itself: no verdict, and no claim that nothing changed."""
    kept = sample.evidence(recorded=True)
    result = changes_in(kept, dict(kept.recorded), KEPT)
    assert result["totals"]["cold"] == {"slower": 0, "faster": 0, "equal": 0, "cannot_tell": 0, "same": 32}
    assert all(row["same"] and row["cold"] is None for row in result["cases"])
    assert result["builds"]["reason"].startswith("a recorded set holds measurements only")


def test_where_nothing_was_compared_the_check_fails_rather_than_pass(now) -> None:
    kept = sample.evidence(recorded=True)
    result = changes_in(kept, dict(kept.recorded), KEPT)
    for fails in ("slower", "worse"):
        fine, message = unchanged([result], fails)
        assert not fine and message.startswith("nothing was compared with recorded/nvidia_h200")
    fine, message = unchanged([result], "none")
    assert fine and message.endswith("all times are identical to the baseline's measurements")
    builds = {path: entry for path, entry in earlier(now).items() if entry["stage"] == "inspect"}
    assert unchanged([changes_in(now, builds)], "worse")[0] and not unchanged([changes_in(now, builds)], "slower")[0]


def test_another_card_is_not_compared_with(now) -> None:
    before = earlier(now)
    for entry in before.values():
        if entry.get("device"):
            entry["device"]["name"] = "NVIDIA B200"
    result = changes_in(now, before)
    assert result["cases"] == []
    assert result["no_cases"] == "the baseline was timed on NVIDIA B200, this run on NVIDIA H200"
    assert result["unpaired"] == {"only_before": 32, "only_now": 32}


def test_a_variant_of_another_name_is_paired_as_the_fastest(now) -> None:
    before = earlier(now)
    case(before)["case"]["variant"]["id"] = "wide"
    (row,) = (row for row in changes_in(now, before)["cases"] if row["variant_before"] != row["variant"])
    assert (row["variant_before"], row["variant"]) == ("wide", "bf16")


def test_failed_times_are_no_times(now) -> None:
    before = earlier(now)
    case(before).update(status="failed", reason="it hangs", metrics=None)
    assert changes_in(now, before)["unpaired"] == {"only_before": 0, "only_now": 1}


def test_drivers_that_differ_are_said(now) -> None:
    before = earlier(now)
    for entry in before.values():
        if entry.get("device"):
            entry["device"]["driver"] = "570.1"
    assert {"name": "driver", "before": ["570.1"], "now": ["580.159"]} in changes_in(now, before)["conditions"]


def test_the_table_has_a_line_per_case(now) -> None:
    result = changes_in(now, earlier(now))
    lines = list(csv.DictReader(io.StringIO(to_csv(result))))
    assert len(lines) == 32 and {line["cold_verdict"] for line in lines} == {"equal"}
    assert all(float(line["warm_ratio"]) == 1 for line in lines)


def laid_out(folder, evidence):
    """The evidence as a results folder; returns that folder."""
    sample.write(folder, evidence)
    return folder / "results"


def test_another_results_folder_is_read(tmp_path, now) -> None:
    folder = laid_out(tmp_path, now)
    place = locate(str(folder), own=tmp_path / "mine")
    assert (place.kind, place.label) == ("results", "results")  # without the machine's part of the path
    result = baseline.read(place, "blend")
    assert {entry.stage for entry in result.values()} == {"timing", "inspect", "compile"}
    assert baseline.read(place, "other") == {}
    digest = baseline.digest(place, "blend")
    path = next(folder.glob("timing/blend/cutile/**/*.json"))
    path.touch()
    assert baseline.digest(place, "blend") == digest
    path.write_text(path.read_text() + "\n")
    assert baseline.digest(place, "blend") != digest


def test_a_recorded_set_is_read_from_a_folder_and_from_a_commit(tmp_path, now, monkeypatch) -> None:
    recorded_set.write_recorded(laid_out(tmp_path / "run", now), tmp_path / "recorded")
    monkeypatch.setattr(baseline, "ROOT", tmp_path)
    monkeypatch.chdir(tmp_path)
    place = locate("recorded/nvidia_h200")
    assert (place.kind, place.label) == ("recorded", "recorded/nvidia_h200")
    result = baseline.read(place, "blend")
    assert len(result) == 32
    with pytest.raises(BaselineError, match="unknown git commit 'HEAD'"):
        locate("HEAD:recorded/nvidia_h200")
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "recorded"), (*who, "commit", "-q", "-m", "set")):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    for path in tmp_path.glob("recorded/nvidia_h200/timing-*.jsonl"):
        path.unlink()
    committed = locate("HEAD:recorded/nvidia_h200")
    assert committed.kind == "commit" and committed.label.endswith(":recorded/nvidia_h200")
    assert baseline.read(committed, "blend") == result and baseline.read(place, "blend") == {}
    with pytest.raises(BaselineError, match=r"no such recorded set; available sets: recorded/nvidia_h200"):
        locate("HEAD:recorded/nvidia_b200")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recorded/nvidia_b200", "no such folder; allowed: recorded/<device>"),
        ("recorded", "neither a recorded set .* available sets: .*recorded/nvidia_h200"),
        ("nowhere:recorded/nvidia_h200", "unknown git commit 'nowhere'"),
        ("{}/run", "contains a results folder; name that folder"),
        ("{}/run/results", "the run's own folder"),
        ("{}/empty", "neither a recorded set"),
    ],
)
def test_a_baseline_that_is_none_is_one_clear_line(tmp_path, text, message) -> None:
    (tmp_path / "run/results/timing").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    with pytest.raises(BaselineError, match=message) as error:
        locate(text.format(tmp_path), own=tmp_path / "run/results")
    assert "\n" not in str(error.value) and str(tmp_path) not in str(error.value)


@pytest.mark.parametrize("damage", ["{", '{"stage": "timing"}', "\xff"])
def test_a_damaged_baseline_is_one_clear_line(tmp_path, now, damage) -> None:
    folder = laid_out(tmp_path, now)
    path = next(folder.glob("timing/blend/cutile/**/*.json"))
    path.write_text(damage, encoding="latin-1")
    with pytest.raises(BaselineError, match=f"baseline results: timing/blend/.*{path.name}") as error:
        baseline.read(locate(str(folder), own="elsewhere"), "blend")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("front", [True, False])
def test_the_page_has_findings_before_the_tables(tmp_path, now, front) -> None:
    before = earlier(now)
    case(before)["metrics"]["cold_us"] /= 1.5
    next(e for p, e in before.items() if "inspect" in p and "/cutile/" in p)["functions"][0]["spill_bytes"] = 0
    text = render(contents(now, tmp_path, front=front, changes=[changes_in(now, before)]))
    section = Page(text[text.index('<section id="changed">') : text.index('<section id="ran">')])
    assert "Cold L2: 32 cases, 1 slower, 0 faster, 31 equal, 0 cannot tell." in section.text
    assert "Largest change (slower, cold L2): blend, cutile on b32_s1024_bf16" in section.text
    assert " differ in static values" in section.text and "0 → 48" in section.text
    assert section.text.index("Largest change") < section.text.index("Workload")
    assert "../compare" not in text or front is False
    Page(text)


def test_a_page_without_a_baseline_has_no_such_section(tmp_path, now) -> None:
    assert 'id="changed"' not in render(contents(now, tmp_path))


def test_the_page_says_why_nothing_is_compared(tmp_path) -> None:
    nothing = sample.evidence()
    result = changes_in(nothing, {}, KEPT)
    page = Page(render(contents(nothing, tmp_path, changes=[result])))
    assert "No case of blend was compared: the baseline has no times of these kernels and workloads." in page.text
    assert "a recorded set holds measurements only" in page.text
    json.dumps(result)
