"""Recorded sets: what is kept of live measurements, and that a damaged set is named."""

import dataclasses
import json

import pytest

import sample
from cpu_backend import CpuBackend, right, small_case
from cutesnake.analysis.evidence import recorded_set
from cutesnake.analysis.evidence.gather import load_evidence
from cutesnake.model import record
from cutesnake.stages.measure.case import make_record
from cutesnake.stages.measure.correctness import check_case
from loose import read_recorded, read_set, slim, standing, typed
from project import snakemake

H200 = {"name": "NVIDIA H200", "compute_capability": [9, 0], "driver": "580.159.04", "uuid_hash": "0123456789ab"}
KEPT = "0 rows new, 1 kept, by commit: old (1)"


def tuned(kernel="cutile", workload="b1_q1_s1024_bf16", device=H200, backend="cuda", cold_us=12.345678901):
    row = {"variant": "a", "params": {}, "status": "ok", "reason": None}
    entry = make_record(dataclasses.replace(small_case(), stage="autotune"), None, None, device, backend)
    entry.pop("seconds")
    entry["case"] |= {"kernel": kernel, "workload": workload}
    entry["metrics"] = {
        "criterion": "cold_us",
        "variants": [{**row, "cold_us": cold_us, "hot_us": 10.0, "spread_percent": 0.5}],
        **{"chosen": "a", "margin_percent": None, "decided": True},
    }
    return entry


def live(results, *entries):
    for entry in entries:
        case = entry["case"]
        path = results / entry["stage"] / case["operator"] / case["kernel"] / "sm_90a" / f"{case['workload']}.json"
        record.write(entry["stage"], path, entry)


def kept_of(results, folder):
    return {device: str(rows) for device, rows in recorded_set.write_recorded(results, folder).items()}


def timed(commit, day, variant="a", status="ok", workload="b1_q1_s1024_bf16", cold_us=10.0):
    """As much of a timing record as decides what becomes of it in a set."""
    choice = {"operator": "mla_decode", "kernel": "cutile", "dsl": "cutile", "target": "sm_90a", "workload": workload}
    choice["parameters"] = {}
    times = sample.timing("cutile", sample.workloads()[0], 1.0) | {"cold_us": cold_us}
    return {
        **{"stage": "timing", "status": status, "reason": None if status == "ok" else "wrong", "backend": "cuda"},
        **{"device": H200, "case": {**choice, "variant": {"id": variant, "params": {}}}, "seconds": 1.0},
        "metrics": times if status == "ok" else None,
        "provenance": {
            **{"commit": commit, "created": f"2026-11-{day:02}T12:00:00+00:00", "python": "3.11.7"},
            "packages": {},
        },
    }


def checked(entry):
    """A correctness record in place of a timing record."""
    metrics = sample.correctness(entry["case"]["workload"]) if entry["metrics"] else None
    return {**entry, "stage": "correctness", "metrics": metrics}


def test_what_is_written_is_read_again(tmp_path):
    live(tmp_path / "results", tuned("cutile"), tuned("tilegym"))
    assert kept_of(tmp_path / "results", tmp_path / "recorded") == {"nvidia_h200": "2 rows new"}
    result = read_recorded((tmp_path / "recorded").glob("*/*.jsonl"))
    assert [entry["case"]["kernel"] for entry in result.values()] == ["cutile", "tilegym"]
    assert next(iter(result)) == "recorded/nvidia_h200/autotune-mla_decode-cutile.jsonl#1"
    summary = json.loads((tmp_path / "recorded" / "nvidia_h200" / "set.json").read_text())
    assert summary["device"] == "NVIDIA H200" and summary["records"] == {"autotune ok": 2}
    assert summary["drivers"] == ["580.159.04"] and summary["first"] <= summary["last"]


def test_the_cards_identity_and_needless_digits_stay_out(tmp_path):
    live(tmp_path / "results", tuned())
    recorded_set.write_recorded(tmp_path / "results", tmp_path / "recorded")
    text = (tmp_path / "recorded" / "nvidia_h200" / "autotune-mla_decode-cutile.jsonl").read_text()
    assert "0123456789ab" not in text and "12.3457" in text and "12.34567" not in text


def test_a_case_measured_anew_replaces_its_own_row_and_all_others_stay(tmp_path, monkeypatch):
    folder = tmp_path / "recorded"
    monkeypatch.setenv("CUTESNAKE_COMMIT", "aaaaaaa0")
    live(tmp_path / "one", tuned("cutile", "b1_q1_s1024_bf16"), tuned("cutile", "b4_q1_s1024_bf16"), tuned("tilegym"))
    recorded_set.write_recorded(tmp_path / "one", folder)
    monkeypatch.setenv("CUTESNAKE_COMMIT", "bbbbbbb0")
    live(tmp_path / "two", tuned("cutile", "b1_q1_s1024_bf16", cold_us=9.0))
    assert kept_of(tmp_path / "two", folder) == {"nvidia_h200": "1 row new, 2 kept, by commit: aaaaaaa (2)"}
    result = read_set(folder / "nvidia_h200")
    rows = [(*(e["case"][key] for key in ("kernel", "workload")), e["provenance"]["commit"]) for e in result]
    assert rows == [
        ("cutile", "b1_q1_s1024_bf16", "bbbbbbb0"),
        ("cutile", "b4_q1_s1024_bf16", "aaaaaaa0"),
        ("tilegym", "b1_q1_s1024_bf16", "aaaaaaa0"),
    ]
    assert result[0]["metrics"]["variants"][0]["cold_us"] == 9.0


@pytest.mark.parametrize(
    ("stage", "status", "day", "stays", "reported"),
    [
        ("timing", "ok", 3, False, "1 row new"),
        ("timing", "failed", 3, True, f"{KEPT}; 1 of these failed in this run"),
        ("correctness", "failed", 3, False, "1 row new"),  # a finding, not a figure that is missing
        ("timing", "ok", 1, True, f"{KEPT}; 1 of these are newer than the results"),
    ],
)
def test_neither_what_failed_nor_what_is_older_replaces_a_figure(
    monkeypatch, tmp_path, stage, status, day, stays, reported
):
    rows = (timed("old", 2), timed("new", day, status=status))
    old, new = (checked(entry) if stage == "correctness" else entry for entry in rows)
    monkeypatch.setattr(recorded_set, "read_set", lambda folder: [typed(old)])
    written = recorded_set._write_set(tmp_path, [typed(new)])
    (line,) = (tmp_path / f"{stage}-mla_decode-cutile.jsonl").read_text().splitlines()
    assert (json.loads(line)["provenance"]["commit"], str(written)) == ("old" if stays else "new", reported)


def test_a_figure_replaces_a_failure_whenever_it_was_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(recorded_set, "read_set", lambda folder: [typed(timed("old", 2, status="failed"))])
    assert str(recorded_set._write_set(tmp_path, [typed(timed("new", 1))])) == "1 row new"


def test_of_a_workloads_variants_those_count_that_are_asked_for_and_else_the_newest_commits():
    before, default, compared = timed("old", 1, "a"), timed("new", 2, "b"), timed("new", 2, "c")
    other = timed("old", 1, "a", workload="b4_q1_s1024_bf16")
    rows = [before, default, compared, other]
    assert standing(rows) == [default, compared, other]
    assert standing(rows, lambda case: ["b"]) == [default, other]
    assert standing(rows, lambda case: ["a", "b"]) == [before, default, other]  # both are of the sweep
    assert standing(rows, lambda case: ["d"]) == [default, compared, other]
    elsewhere = {**before, "device": {**H200, "name": "NVIDIA H100"}}
    assert standing([elsewhere, *rows]) == [elsewhere, default, compared, other], "a GPU's rows hide another's"


def test_a_report_shows_of_a_recorded_set_what_is_asked_for(tmp_path, monkeypatch):
    # The default changed from one variant to the other since. The faster row of the older code is not shown.
    monkeypatch.chdir(tmp_path)
    plan, records, roofline = sample.write(tmp_path, sample.evidence())
    kept = [entry for entry in sample.evidence(recorded=True).recorded.values() if entry["stage"] == "timing"]
    stale = [json.loads(json.dumps(entry)) for entry in kept]
    for entry in stale:
        entry["case"]["variant"]["id"] = "as_it_was"
        entry["metrics"]["cold_us"] /= 2
    path = tmp_path / "recorded" / "nvidia_h200" / "timing-blend-cutile.jsonl"
    record.write_text(path, "".join(json.dumps(entry) + "\n" for entry in [*stale, *kept]))
    shown = load_evidence(plan, records, roofline, [path]).recorded
    assert len(shown) == len(kept) and {e.case.variant.id for e in shown.values()} == {
        e["case"]["variant"]["id"] for e in kept
    }


def test_a_set_whose_files_do_not_name_their_kernel_is_read_and_kept_by_kernel(tmp_path):
    # As sets were written until 2026-11-23. Users have them, and so has a baseline of an older commit.
    folder = tmp_path / "recorded" / "nvidia_h200"
    live(tmp_path / "one", tuned("cutile"), tuned("tilegym"))
    recorded_set.write_recorded(tmp_path / "one", folder.parent)
    old = folder / "autotune-mla_decode.jsonl"
    old.write_text("".join(path.read_text() for path in sorted(folder.glob("*.jsonl"))))
    for path in folder.glob("autotune-mla_decode-*"):
        path.unlink()
    assert recorded_set.files_of([old.name, "autotune-mla_decode_v2.jsonl", "set.json"], "mla_decode") == [old.name]
    live(tmp_path / "two", tuned("cutile", cold_us=9.0))
    recorded_set.write_recorded(tmp_path / "two", folder.parent)
    rows = [(e["case"]["kernel"], e["metrics"]["variants"][0]["cold_us"]) for e in read_set(folder)]
    assert rows == [("cutile", 9.0), ("tilegym", 12.3457)]
    names = [f"autotune-mla_decode-{kernel}.jsonl" for kernel in ("cutile", "tilegym")]
    assert recorded_set.files_of((path.name for path in folder.iterdir()), "mla_decode", "autotune") == names
    assert sorted(path.name for path in folder.iterdir()) == [*names, "set.json"]


def test_simulated_and_deviceless_records_are_not_measurements(tmp_path):
    live(tmp_path / "results", tuned(backend="ptxsim"), tuned("tilegym", device=None))
    with pytest.raises(recorded_set.RecordedError, match="no GPU measurement"):
        recorded_set.write_recorded(tmp_path / "results", tmp_path / "recorded")


def test_every_device_has_its_folder(tmp_path):
    live(tmp_path / "results", tuned(), tuned("tilegym", device={**H200, "name": "NVIDIA GeForce RTX 5090"}))
    written = kept_of(tmp_path / "results", tmp_path / "recorded")
    assert written == {"nvidia_h200": "1 row new", "nvidia_geforce_rtx_5090": "1 row new"}


def test_details_of_passed_checks_are_left_out_and_those_of_failed_ones_kept():
    metrics, reason = check_case(small_case(), CpuBackend(right))
    metrics["checks"][1]["passed"] = False
    entry = make_record(small_case(), metrics, reason, H200)
    kept = slim(entry)
    record.check("correctness", kept, "kept")
    passed, failed = (set(check["outputs"]["lse"]) for check in kept["metrics"]["checks"][:2])
    assert passed == {"relative_error", "worst_absolute_error", "passed"} and "worst_index" in failed
    assert entry["metrics"]["checks"][0]["outputs"], "the live record was changed"


@pytest.mark.parametrize("damage", ["{", '{"stage": "autotune"}'])
def test_a_damaged_line_is_named(tmp_path, damage):
    live(tmp_path / "results", tuned(), tuned(workload="b4_q1_s1024_bf16"))
    recorded_set.write_recorded(tmp_path / "results", tmp_path / "recorded")
    path = tmp_path / "recorded" / "nvidia_h200" / "autotune-mla_decode-cutile.jsonl"
    path.write_text(path.read_text().splitlines()[0] + f"\n{damage}\n")
    with pytest.raises(recorded_set.RecordedError, match=r"autotune-mla_decode-cutile\.jsonl#2"):
        read_recorded([path])


def test_a_copy_says_which_commit_it_is_of(monkeypatch):
    monkeypatch.setenv("CUTESNAKE_COMMIT", "abc1234")
    assert make_record(small_case(), None, "not run")["provenance"]["commit"] == "abc1234"


def measured_check(passes: bool):
    """The record of a check on the GPU."""
    return make_record(small_case(), sample.correctness("w"), None if passes else "wrong", H200)


def test_a_check_that_fails_replaces_a_passing_one_on_request_only(tmp_path):
    live(tmp_path / "one", measured_check(True))
    recorded_set.write_recorded(tmp_path / "one", tmp_path / "recorded")
    live(tmp_path / "two", measured_check(False))
    with pytest.raises(recorded_set.RecordedError, match="replace_passing"):
        recorded_set.write_recorded(tmp_path / "two", tmp_path / "recorded")
    (before,) = recorded_set.read_set(tmp_path / "recorded" / "nvidia_h200")
    assert before.status == "ok"
    recorded_set.write_recorded(tmp_path / "two", tmp_path / "recorded", replace_passing=True)
    (after,) = recorded_set.read_set(tmp_path / "recorded" / "nvidia_h200")
    assert after.status == "failed"


def test_records_of_a_mocked_machine_are_never_kept(tmp_path, monkeypatch):
    entry = tuned()
    entry["provenance"]["mocked"] = True
    live(tmp_path / "results", tuned(kernel="tilegym"), entry)
    with pytest.raises(recorded_set.RecordedError, match="mocked"):
        recorded_set.write_recorded(tmp_path / "results", tmp_path / "recorded")
    assert not (tmp_path / "recorded").exists()
    monkeypatch.setenv("CUTESNAKE_MACHINE", "tests/machines/h200.json")
    with pytest.raises(recorded_set.RecordedError, match="mocked"):
        recorded_set.refuse_mocked_machine()


@pytest.mark.slow
def test_a_run_on_a_mocked_machine_leaves_recorded_sets_alone(project):
    before = {path: path.read_bytes() for path in (project / "recorded").rglob("*") if path.is_file()}
    done = snakemake(project, "keep", machine="h200")
    assert done.returncode != 0 and "mocked machine" in done.stdout + done.stderr
    assert {path: path.read_bytes() for path in (project / "recorded").rglob("*") if path.is_file()} == before
