"""Which predictions are compared with recorded times."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.prediction import cases, predict, unmeasured

ROOT = Path(__file__).resolve().parents[2]


def test_every_recorded_figure_of_a_cute_kernel_is_taken_with_the_clock_of_its_own_samples() -> None:
    result = cases.recorded(ROOT / "recorded")
    figures = [(case, figure) for case in result for figure in case.measured]
    assert len(figures) >= 60
    assert len({case.operator for case in result}) >= 6
    assert {figure.device for _, figure in figures} == {"h200", "h100"}
    lines = [
        json.loads(line)
        for path in (ROOT / "recorded" / "nvidia_h200").glob("timing-*.jsonl")
        for line in path.read_text().splitlines()
    ]
    timed = [line for line in lines if line["status"] == "ok" and line["case"]["dsl"] == "cute"]
    figures = [(case, figure) for case, figure in figures if case.dsl == "cute"]
    assert sum(figure.device == "h200" for _, figure in figures) == 2 * len(timed)
    hot = {(line["metrics"]["hot_us"], line["metrics"]["hot_sm_clock_mhz"]) for line in timed}
    warm = {
        (figure.microseconds, figure.clock_mhz)
        for _, figure in figures
        if (figure.device, figure.kind) == ("h200", "warm")
    }
    assert warm == hot


def test_a_kernel_that_has_changed_since_it_was_measured_is_not_held_for_the_same(monkeypatch) -> None:
    texts = {"diff": "kernels/o/k/a.py\n", "show": '"""Old words."""\nx = 1  # a remark\n'}
    monkeypatch.setattr(cases, "_git", lambda command, *_: texts[command])
    monkeypatch.setattr(cases.Path, "exists", lambda path: True)
    for now, message in (
        ('"""New words."""\n\nx = 1\n', None),
        ("x = 2\n", "kernels/o/k/a.py is not what it was at c0"),
    ):
        monkeypatch.setattr(cases.Path, "read_text", lambda path, now=now: now)
        cases.changed.cache_clear()
        result = cases.changed("c0", "kernels/o/k")
        assert result == message or (message and result and result.replace("commit ", "").startswith(message))
    cases.changed.cache_clear()


def test_a_commit_that_is_not_here_is_no_proof_that_a_kernel_is_the_same() -> None:
    assert "is not known here" in str(cases.changed("0" * 40, "kernels/gemm/cutlass_sm90"))


def test_a_prediction_at_the_clock_of_the_samples_follows_from_those_at_two_clocks() -> None:
    at = {"1980": 2.0 + 3960 / 1980, "1500": 2.0 + 3960 / 1500}
    assert unmeasured.at_clock(at, 1800.0) == pytest.approx(2.0 + 3960 / 1800)
    assert unmeasured.at_clock({"1755": 7.0}, 1800.0) == 7.0


def test_what_was_predicted_before_it_was_measured_is_held_against_the_record(tmp_path) -> None:
    case = next(case for case in cases.recorded(ROOT / "recorded") if case.measured)
    figure = case.measured[0]
    names = (figure.device, case.operator, case.kernel, case.variant["id"], case.workload, figure.kind)
    known = dict(zip(unmeasured.NAMES, names, strict=True)) | {"error": None}
    values = [known | {"predicted": {"1980": 5.0, "1500": 5.0}}, known | {"workload": "none", "predicted": {}}]
    (kept,) = unmeasured.compared(values, ROOT / "recorded")
    assert (kept["measured_us"], kept["predicted_us"]) == (round(figure.microseconds, 3), 5.0)


def test_warm_calls_share_what_lies_between_two_of_their_graphs_where_they_are_held_against_a_record(tmp_path) -> None:
    result = ((c, f) for c in cases.recorded(ROOT / "recorded") for f in c.measured if f.kind == "warm")
    case, figure = next((c, f) for c, f in result if f.calls_per_graph and f.calls_per_graph > 4)
    names = (figure.device, case.operator, case.kernel, case.variant["id"], case.workload, figure.kind)
    values = dict(zip(unmeasured.NAMES, names, strict=True)) | {
        "error": None,
        "predicted": {"1980": 5.0},
        "graph_us": 2.0,
    }
    (kept,) = unmeasured.compared([values], ROOT / "recorded")
    assert kept["predicted_us"] == round(5.0 + 2.0 / figure.calls_per_graph, 3)


def test_cold_calls_are_held_with_what_a_lone_launch_took_on_their_host(tmp_path) -> None:
    path = ROOT / "recorded" / "nvidia_h200" / "timing-reduce-cutile.jsonl"
    old = next(json.loads(line) for line in path.read_text().splitlines() if '"ok"' in line)
    folder = tmp_path / "nvidia_h200"
    folder.mkdir()
    kept = []
    for single in (None, 3.0, 5.0):
        old["metrics"]["lone_us"] = single
        (folder / "timing-one.jsonl").write_text(json.dumps(old) + "\n")
        ((case, figure),) = [(c, f) for c in cases.recorded(tmp_path) for f in c.measured if f.kind == "cold"]
        names = (figure.device, case.operator, case.kernel, case.variant["id"], case.workload, figure.kind)
        values = dict(zip(unmeasured.NAMES, names, strict=True)) | {"error": None, "predicted": {"1980": 9.0}}
        kept += [row["predicted_us"] for row in unmeasured.compared([values | {"lone_us": 3.5}], tmp_path)]
    assert kept == [9.0, 8.5, 10.5]


def test_the_newest_blind_set_follows_from_its_predictions_and_measurements() -> None:
    folder = ROOT / "benchmarks" / "prediction"
    predictions = json.loads((folder / "blind_tenth.json").read_text())
    lines = (ROOT / "workflow/validation/blind_tenth.jsonl").read_text().splitlines()
    assert list(unmeasured.compared(predictions, folder / "measured")) == [json.loads(line) for line in lines]


def test_numbers_are_replaced_while_lengths_and_tables_stay() -> None:
    torch = pytest.importorskip("torch")
    from cutesnake.model.catalog import load_operator, make_workload
    from cutesnake.stages.predict.prediction import cheap_numbers

    parameters = {"batch": 3, "kv_length": 200, "dtype": "bf16", "paged": True, "lengths": "ragged"}
    workload = make_workload("mla_decode", parameters)
    operator = load_operator("mla_decode")
    real = operator.make_inputs(workload, 0)
    with cheap_numbers():
        cheap = operator.make_inputs(workload, 0)
    assert not cheap.q.any()
    assert torch.equal(cheap.kv_lengths, real.kv_lengths)
    assert cheap.page_table.shape == real.page_table.shape
    assert sorted(cheap.page_table.flatten().tolist()) == list(range(real.page_table.numel()))
    assert torch.randn(3).any()


def test_a_prediction_is_stale_once_the_clock_is_another_one() -> None:
    from cutesnake.planning.staleness import closure

    code = {path.resolve() for path in closure("cutesnake.stages.predict.prediction")}
    assert {path.resolve() for path in (ROOT / "ptxsim" / "timing").glob("*.py")} <= code


def test_a_run_that_was_ended_goes_on_where_it_was(monkeypatch, tmp_path) -> None:
    gemm = (case for case in cases.recorded(ROOT / "recorded") if case.operator == "gemm")
    case = next(case for case in gemm if len(case.measured) == 4)
    monkeypatch.setattr(predict, "captured", lambda *_: ([], {}))
    all_of_it = list(predict.rows(case, tmp_path, ["h200", "h100"]))
    rest = list(predict.rows(case, tmp_path, ["h200", "h100"], {predict.key_of(row) for row in all_of_it[:3]}))
    assert len(all_of_it) == 4
    assert [predict.key_of(row) for row in rest] == [predict.key_of(all_of_it[3])]
    assert not list(predict.rows(case, tmp_path, ["h200", "h100"], {predict.key_of(row) for row in all_of_it}))
