"""The predict stage.

What is planned and captured, what a record holds, how wide its band is, and what a page says.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from types import SimpleNamespace

import pytest

import sample
from benchmarks.prediction.assumed import growth
from benchmarks.prediction.b200_rows import published_clock
from builds import build
from cutesnake.analysis.compare.insight import number
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, make_workload
from cutesnake.planning.config import ConfigError, check
from cutesnake.planning.machine import Machine
from cutesnake.planning.matrix import make_plan
from cutesnake.report.plot.pipeline import MOST_SPANS
from cutesnake.report.plot.validation import draw_validation
from cutesnake.stages.measure.case import Case
from cutesnake.stages.predict.band import ASSUMED, LEAST_ROWS, band
from cutesnake.stages.predict.bottleneck import bound
from cutesnake.stages.predict.device import table
from cutesnake.stages.predict.prediction import MOST_SPANS as MOST_KEPT
from cutesnake.stages.predict.prediction import _middle, captured, empty_launch_of, predict_build
from cutesnake.stages.predict.validated import HIGHEST_MHZ, VALIDATION, ValidatedRow, files, read_validated
from loose import compare, draw_pipeline, every_row, reasons, render, to_csv, typed
from loose import draw_plots as plot
from project import ROOT
from ptxsim.timing.prediction import Span, Timeline, Track
from report_pages import contents

ADD = {"rows": 37, "columns": 256, "dtype": "fp32"}


def rows(bound_by: str | None, errors: list[float], kind: str = "cold", part: str = "held_out") -> list[ValidatedRow]:
    return [
        ValidatedRow("h200", "mine", "kernel", kind, 100.0, 100.0 + error, part, bound_by)  # type: ignore[arg-type]
        for error in errors
    ]


def test_a_band_is_the_error_that_nine_in_ten_calls_bound_alike_stayed_below() -> None:
    known = rows("DRAM", [1, -2, 3, -4, 5, -6, 7, -8, 9, -10, 11]) + rows("waiting", [50.0] * 9)
    same = band("DRAM", "cold", 0, known)
    assert same.percent == pytest.approx(10.0)
    assert "of 11 cold predictions of calls bound by DRAM on Hopper GPUs" in same.text
    every = band("tensor cores", "cold", 0, known)  # of these there are none
    assert every.percent == pytest.approx(50.0) and "of 20 cold predictions of all calls" in every.text


def test_families_that_the_clock_was_made_with_do_not_narrow_a_band() -> None:
    known = (
        rows("DRAM", [1.0] * 50, part="development")
        + rows("DRAM", [20.0] * 3)
        + rows("DRAM", [30.0] * 3, "cold", "blind")
    )
    assert band("DRAM", "cold", 0, known).percent == pytest.approx(30.0)


def test_a_band_is_wider_where_parameters_are_assumed() -> None:
    known = rows("L2", [10.0] * LEAST_ROWS)
    assert band("L2", "cold", 3, known).percent == pytest.approx(10.0 * ASSUMED["cold"])
    assert (
        "1.5 times that, since 3 of this GPU's parameters that count are assumed" in band("L2", "cold", 3, known).text
    )


def test_a_band_at_the_highest_clock_has_what_power_takes() -> None:
    slow = [dataclasses.replace(row, sm_clock_mhz=0.8 * HIGHEST_MHZ) for row in rows("L2", [0.0] * LEAST_ROWS)]
    assert band("L2", "cold", 0, slow).percent == pytest.approx(20.0)
    memory = [dataclasses.replace(row, bound="DRAM") for row in slow]
    assert band("DRAM", "cold", 0, memory).percent == pytest.approx(0.0)


def test_the_growth_of_errors_by_assumptions_is_as_recorded() -> None:
    lines = (ROOT / "benchmarks/prediction/assumed.jsonl").read_text().splitlines()
    for kind, factor in ASSUMED.items():
        chosen = [row for row in map(json.loads, lines) if row["kind"] == kind]
        assert max(1.0, growth(chosen)[2]) == pytest.approx(factor, rel=0.05)


def test_a_published_clock_follows_from_the_cycles_at_a_locked_clock() -> None:
    locked = {"clock_mhz": 100, "rows": [{"kernel": "mla", "parameters": {"batch": 74}, "us": 10.0}]}  # a round: 1,000
    two_rounds, too_long = {"37": 10.0}, {"74": 501.0}
    assert published_clock([locked, {"four_query_tokens_us": {"mla": two_rounds | too_long}}]) == 200


def test_blind_rows_of_an_operator_lie_inside_the_bands_of_others() -> None:
    known = read_validated(files())
    blind = [row for row in known if row.part == "blind"]
    inside = 0
    for row in blind:
        others = [one for one in known if one.operator != row.operator]
        inside += abs(row.error_at_highest_percent) <= (band(row.bound, row.kind, 0, others).percent or 0.0)
    assert 0.80 <= inside / len(blind) <= 0.95


def test_without_enough_that_was_held_against_cards_there_is_no_band() -> None:
    none = band("L2", "warm", 0, rows("L2", [10.0] * LEAST_ROWS))  # those are cold
    assert none.percent is None and "not known" in none.text


@pytest.mark.parametrize(
    ("shares", "message"),
    [
        ((70, 30, 20), "tensor cores"),
        ((40, 80, 90), "L2"),
        ((0, 55, 54), "DRAM"),
        ((49, 30, 20), "waiting"),
    ],
)
def test_what_the_longest_launch_keeps_busy_binds_a_call(shares, message) -> None:
    def launch(*percent: float) -> dict[str, float]:
        return dict(zip(("tensor_percent", "dram_percent", "l2_percent"), percent, strict=True))

    assert bound([(1.0, launch(99, 99, 99)), (9.0, launch(*shares))]) == message


def test_lines_of_other_files_are_not_taken_for_validation(tmp_path) -> None:
    launches = [{"kernel": "k", "us": 3.0, "tensor_percent": 2, "dram_percent": 81, "l2_percent": 60}]
    line = {"device": "h100", "operator": "o", "kernel": "k", "kind": "warm", "measured_us": 4.0, "predicted_us": 5.0}
    (tmp_path / "held_out.jsonl").write_text(json.dumps({**line, "launches": launches}) + "\n")
    (tmp_path / "development.jsonl").write_text(
        json.dumps(line) + "\n" + json.dumps({**line, "predicted_us": None, "error": "too long"}) + "\n"
    )
    (tmp_path / "b200.jsonl").write_text(json.dumps({"case": "c", "published_us": 4.0, "predicted_us": 5.0}) + "\n")
    looked_at, opened_last = read_validated(files(tmp_path))
    assert (looked_at.part, looked_at.bound) == ("development", None)
    assert (opened_last.part, opened_last.bound) == ("held_out", "DRAM")
    assert opened_last.error_percent == pytest.approx(25.0)


def test_the_committed_validation_has_families_that_were_held_out_and_both_kinds() -> None:
    kept = read_validated(files())
    assert len(kept) >= 60 and len({row.operator for row in kept}) >= 6
    assert {row.kind for row in kept} == {"warm", "cold"}
    families = {part: {row.operator for row in kept if row.part == part} for part in ("development", "held_out")}
    assert all(families.values()) and not families["development"] & families["held_out"]


def test_of_a_long_timeline_the_middle_is_kept_whole() -> None:
    tracks = tuple(
        Track(name, tuple(Span("work", 10.0 * n, 10.0 * n + 5, "instructions") for n in range(MOST_KEPT)))
        for name in ("CTA 0 warp 0", "CTA 0 warp 1")
    )
    length = 10.0 * MOST_KEPT
    kept = _middle(Timeline(length, 1000.0, tracks))
    counts = [len(track["spans"]) for track in kept["tracks"]]
    assert 0.4 * MOST_KEPT < counts[0] == counts[1] <= 0.6 * MOST_KEPT
    assert abs((kept["begin"] + kept["end"]) / 2 - length / 2) < 20
    for track in kept["tracks"]:
        ends = [(span[1], span[2]) for span in track["spans"]]
        assert all(kept["begin"] <= begin < end <= kept["end"] for begin, end in ends)
    short = _middle(Timeline(50.0, 1000.0, (Track("CTA 0 warp 0", (Span("wait", 0.0, 50.0, "a barrier", 7),)),)))
    assert (short["begin"], short["end"]) == (0.0, 50.0)
    assert short["tracks"][0]["spans"] == [["wait", 0, 50, "a barrier", 7]]


def experiment(**changes):
    config = {
        **{"targets": ["sm_90a", "sm_100a"], "stages": ["predict"], "operators": ["elementwise_add"]},
        **{"correctness": {"seeds": [0]}, "timing": {"max_seconds": 1, "max_noise_percent": 1}},
        "sweeps": {"elementwise_add": {"kernels": ["cute", "cutile", "torch_add"], "predict": ["m4096_n4096"]}},
        "prediction": {"devices": ["b200"]},
    }
    return check({**config, **changes})


def test_what_a_sweep_lists_is_predicted_for_the_cards_of_the_configuration(tmp_path) -> None:
    def planned(**changes):
        plan = make_plan(
            experiment(**changes),
            Machine.from_dict(json.loads((ROOT / "tests/machines/none.json").read_text())),
        )
        return [case.key for case in plan.predicted()]

    one, other = planned()
    assert one.startswith("elementwise_add/cute/sm_100a/") and one.endswith("/m4096_n4096_fp32")
    assert other.startswith("elementwise_add/cutile/sm_100a/")
    both = planned(prediction={"devices": ["b200", "h200"]})
    assert {key.split("/")[2] for key in both} == {"sm_100a", "sm_90a"}
    assert planned(stages=["inspect"]) == [] and planned(prediction={"devices": []}) == []
    every = {"elementwise_add": {"kernels": ["cute"], "predict": ["all"]}}
    assert len(planned(sweeps=every)) == 6
    one_kernel = {"elementwise_add": {"kernels": ["cute", "cutile"], "predict": {"cutile": ["all"], "others": []}}}
    assert {key.split("/")[1] for key in planned(sweeps=one_kernel)} == {"cutile"}


def test_what_the_configuration_lists_is_predicted_whatever_is_recorded() -> None:
    sweep = experiment(sweeps={"elementwise_add": {"predict": ["m4096_n4096"]}}).sweeps["elementwise_add"]
    assert list(sweep.predicted_always()) == ["m4096_n4096_fp32"]
    assert not list(experiment(sweeps={}).sweeps["elementwise_add"].predicted_always())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prediction": {"devices": ["b2000"]}}, r"prediction\.devices: .*b2000"),
        ({"prediction": {"devices": ["h200", "h100"]}}, "h200 and h100 are both sm_90a; name one"),
        ({"sweeps": {"elementwise_add": {"predict": {"cut": []}}}}, r"predict: 'cut' is no kernel of the sweep"),
        ({"sweeps": {"elementwise_add": {"predict": ["m4096"]}}}, r"predict: 'm4096' is no workload of the sweep"),
    ],
)
def test_a_wrong_card_or_workload_is_one_clear_line(changes, message) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        experiment(**changes)
    assert "\n" not in str(caught.value)


def foreseen(us: dict[str, float], percent: float | None = 20.0):
    """The made-up evidence with predictions of cutlass_fp16 on sm_100a: workload -> cold µs."""
    evidence = sample.evidence()
    evidence.plan["predicted"] = {"devices": {"sm_100a": "b200"}, "workloads": list(us)}
    launch = {"name": "kernel_cutlass_blend", "start_us": 0.0, "end_us": 90.0, "cycles": 1e5, "waves": 0.5}
    launch |= {"blocks_per_sm": 1, "tensor_percent": 60.0, "dram_percent": 30.0, "l2_percent": 40.0}
    spans = [["work", 0, 500, "instructions", 3], ["wait", 500, 900, "mbarrier at shared offset 8", 9]]
    made = {}
    for workload, cold in us.items():
        made[f"results/predict/blend/cutlass_fp16/sm_100a/fp16/{workload}.json"] = {
            **{"stage": "predict", "status": "ok", "reason": None, "device": None, "backend": "ptxsim", "seconds": 1.0},
            "provenance": {"created": "2026-11-22T00:00:00+00:00", "commit": None, "python": "3", "packages": {}},
            "case": {
                **{"operator": "blend", "kernel": "cutlass_fp16", "dsl": "cute", "target": "sm_100a"},
                **{"variant": {"id": "fp16", "params": {}}, "workload": workload},
                "parameters": evidence.plan["workloads"][workload],
            },
            "metrics": {
                **{"device": "NVIDIA B200", "sm_clock_mhz": 1965.0, "cold_us": cold, "warm_us": 0.9 * cold},
                "bounds": {"warm": "L2", "cold": "tensor cores"},
                "bands": {kind: {"percent": percent, "words": "nine in ten"} for kind in ("warm", "cold")},
                "launches": {"warm": [launch], "cold": [launch]},
                **{"tensor_percent": 60.0, "dram_percent": 30.0, "l2_percent": 40.0, "notes": []},
                "parameters": {"measured": 1, "published": 2, "assumed": 3},
                "timeline": {
                    **{"launch": launch["name"], "cycles": 1000.0, "begin": 0.0, "end": 1000.0},
                    "tracks": [{"name": "CTA 0 warp 0", "spans": spans}],
                },
            },
        }
    for entry in made.values():
        record.check("predict", entry, "test")
    return dataclasses.replace(evidence, predicted=made)


def test_a_comparison_has_predictions_where_nobody_measured_and_calls_them_so() -> None:
    evidence = foreseen({"b32_s8192_fp16": 123.0})
    compared = compare(evidence)
    record.check("compare", compared, "test")
    row = next(r for r in compared["rows"] if r["workload"] == "b32_s8192_fp16" and r["target"] == "sm_100a")
    cells = row["cute"]["cells"]
    assert (cells["duration_us"]["value"], cells["duration_us"]["kind"]) == (123.0, "predicted")
    assert cells["hot_duration_us"]["value"] == pytest.approx(110.7)
    assert (cells["tensor_core_percent"]["value"], cells["dram_percent"]["value"]) == (60.0, 30.0)
    assert "NVIDIA B200 at 1,965 MHz, ± 20 %" in cells["duration_us"]["reason"]
    assert row["delta"]["duration_us"]["kind"] == "missing"  # the other side is a lower bound
    assert compared["speedups"] == [] and compared["times"] == []  # nothing predicted counts as timed
    rows = every_row(evidence)
    line = next(
        x for x in to_csv("blend", rows, reasons(rows)).splitlines() if "b32_s8192_fp16" in x and "cutlass_fp16" in x
    )
    assert "predicted" in line and "measured" not in line


def with_two_variants(quick_us: float):
    """Predict 123 µs for variant fp16 and `quick_us` for one named quick."""
    evidence = foreseen({"b32_s8192_fp16": 123.0})
    (path, entry), *_ = evidence.predicted.items()
    quick = copy.deepcopy(entry)
    quick["case"]["variant"]["id"], quick["metrics"]["cold_us"] = "quick", quick_us
    plan = copy.deepcopy(evidence.plan)
    plan["cases"].append({"build": "blend/cutlass_fp16/sm_100a/quick", "workload": "b32_s8192_fp16"})
    return dataclasses.replace(evidence, plan=plan, predicted={path: entry, "quick.json": quick})


@pytest.mark.parametrize(("quick_us", "chosen"), [(100.0, "quick"), (140.0, "fp16")])
def test_without_a_card_the_variant_with_the_shortest_prediction_is_chosen_and_marked_so(
    quick_us, chosen, tmp_path
) -> None:
    both = with_two_variants(quick_us)
    row = next(r for r in compare(both)["rows"] if r["workload"] == "b32_s8192_fp16" and r["target"] == "sm_100a")
    cell = row["cute"]["cells"]["duration_us"]
    assert row["cute"]["variant"] == chosen
    assert (cell["value"], cell["kind"]) == (min(quick_us, 123.0), "predicted")
    assert f"{chosen} has the shortest predicted time of 2 variants" in cell["reason"]
    page = render(contents(both, tmp_path))
    assert page.count("chosen by prediction</b>") == 1
    assert f"<code>{chosen}</code> <b>chosen by prediction</b>" in page
    ahead = 100 * (max(quick_us, 123.0) / min(quick_us, 123.0) - 1)
    choice = page[page.index("Autotune: the fastest variant") :]
    assert "(predicted for an NVIDIA B200, not measured)" in choice[:1000]
    assert f"<b>{chosen}</b>, ≈ {number(ahead)} % faster by prediction" in choice[:1000]


def test_a_variant_that_stands_alone_was_not_chosen(tmp_path) -> None:
    page = render(contents(foreseen({"b32_s8192_fp16": 123.0}), tmp_path))
    assert "chosen by prediction" not in page and "Autotune" not in page


def test_a_variant_whose_prediction_failed_is_not_chosen(tmp_path) -> None:
    both = with_two_variants(100.0)
    quick = {**both.predicted["quick.json"], "status": "failed", "reason": "too long", "metrics": None}
    both = dataclasses.replace(both, predicted={**both.predicted, "quick.json": quick})
    assert typed(both).foreseen("cutlass_fp16", "sm_100a", "b32_s8192_fp16") == {"fp16": 123.0}
    page = render(contents(both, tmp_path))
    assert "not predicted" in page and "too long" in page and "chosen by prediction" not in page


def test_what_a_card_measured_chooses_before_any_prediction() -> None:
    # On a recorded or live target times decide. A prediction that says otherwise is not asked.
    plain = sample.evidence(gpu=True, recorded=True)
    timed = [(path, e) for path, e in plain.measured.items() if e["stage"] == "timing" and e["status"] == "ok"]
    case = timed[0][1]["case"]
    plan = copy.deepcopy(plain.plan)
    build = f"{case['operator']}/{case['kernel']}/{case['target']}"
    plan["cases"].append({"build": f"{build}/quick", "workload": case["workload"]})
    quick = copy.deepcopy(next(iter(foreseen({"b32_s8192_fp16": 0.001}).predicted.values())))
    quick["case"] = {**case, "variant": {"id": "quick", "params": {}}}
    evidence = dataclasses.replace(plain, plan=plan, predicted={"quick.json": quick})
    assert typed(evidence).foreseen(case["kernel"], case["target"], case["workload"]) == {"quick": 0.001}
    for row in compare(evidence)["rows"]:
        for dsl in ("cute", "cutile"):
            assert row[dsl]["variant"] != "quick"


def test_every_variant_is_predicted_where_the_sweep_asks_for_all(tmp_path) -> None:
    sweeps = {"gemm": {"kernels": ["cutlass_persistent"], "predict": ["m1024_n8192_k8192"], "variants": "all"}}
    plan = make_plan(
        experiment(operators=["gemm"], sweeps=sweeps),
        Machine.from_dict(json.loads((ROOT / "tests/machines/none.json").read_text())),
    )
    chosen_from = {case.build.variant.id for case in plan.predicted()}
    workload = make_workload("gemm", {"m": 1024, "n": 8192, "k": 8192, "dtype": "bf16"})
    assert chosen_from == {v.id for v in load_kernel("gemm", "cutlass_persistent").variants(workload, "sm_100a")}
    assert len(chosen_from) > 1


def test_a_page_tells_predictions_from_measurements_without_colours(tmp_path) -> None:
    evidence = foreseen({"b32_s8192_fp16": 123.0, "b1_s1024_fp16": 17.0})
    page = render(contents(evidence, tmp_path, draw=True))
    assert "Predicted, not measured" in page and "≈ 123 ± 20 %" in page
    assert "tensor cores (cold), L2 (warm)" in page
    assert ">≈ 123<" in page  # in the comparison
    assert "static values, with times predicted by ptxsim" in page
    assert "1 measured by this project, 2 published, 3 assumed" in page
    assert "error unknown" in render(contents(foreseen({"b1_s1024_fp16": 1.0}, None), tmp_path))
    assert "Predicted, not measured" not in render(contents(sample.evidence(), tmp_path))


def test_predictions_go_with_a_picture_of_how_good_they_were_elsewhere(tmp_path) -> None:
    # What was looked at and what was not is distinguished by how a marker is filled, without colours.
    evidence = foreseen({"b32_s8192_fp16": 123.0})
    kept = rows("DRAM", [5.0, -5.0], part="development") + rows("DRAM", [40.0], "warm", "blind")
    entry = plot(evidence, tmp_path, kept)
    figure = next(one for one in entry["pictures"] if one["name"] == VALIDATION)
    assert figure["title"] == "Predicted vs measured times, on GPUs with measurements"
    assert "Development: median error 5.0 %, 90th percentile 5.0 % of 2" in figure["caption"]
    assert "opened last: median error 40.0 %, 90th percentile 40.0 % of 1" in figure["caption"]
    fills = {
        line.get_fillstyle(): len(line.get_xdata())
        for axis in draw_validation(kept).figure.axes
        for line in axis.lines
        if line.get_marker() not in ("None", None) and len(line.get_xdata())
    }
    assert fills == {"full": 2, "none": 1}
    page = render(contents(evidence, tmp_path, plots=entry["pictures"]))
    section = page[page.index('<section id="predicted">') :]
    assert "Predicted vs measured times, on GPUs with measurements" in section[: section.index("</section>")]
    assert VALIDATION not in [one["name"] for one in plot(sample.evidence(), tmp_path, kept)["pictures"]]


def test_without_validation_the_picture_says_why_it_is_not_there(tmp_path) -> None:
    entry = plot(foreseen({"b32_s8192_fp16": 123.0}), tmp_path)
    figure = next(one for one in entry["pictures"] if one["name"] == VALIDATION)
    assert (figure["file"], figure["reason"]) == (None, "no prediction was compared with a measurement")


def test_the_pipeline_of_a_kernel_is_drawn_of_its_largest_prediction(tmp_path) -> None:
    evidence = foreseen({"b32_s8192_fp16": 123.0, "b1_s1024_fp16": 17.0})
    drawing = draw_pipeline(evidence, "cutlass_fp16")
    assert "at batch 32, length 8192: warp 0 busy 50 %" in drawing.alt
    assert drawing.caption.startswith("Predicted, not measured") and "1,000 cycles" in drawing.caption
    names = [figure["file"] for figure in plot(evidence, tmp_path)["pictures"]]
    assert "pipeline-cutlass_fp16.svg" in names
    roofline = (tmp_path / "roofline.svg").read_text()
    assert "cutlass_fp16 (predicted)" in roofline and "(measured)" not in roofline


def test_a_pipeline_is_drawn_of_as_much_of_the_middle_as_can_be_read() -> None:
    evidence = foreseen({"b32_s8192_fp16": 123.0})
    timeline = next(iter(evidence.predicted.values()))["metrics"]["timeline"]
    copies = [["copy", n, n + 2, "cp.async.bulk", 1] for n in range(1000)]  # they overlap: one block
    work = [["work", n, n + 0.5, "instructions", 2] for n in range(1000)]
    timeline["tracks"] = [{"name": "CTA 0 TMA loads", "spans": copies}, {"name": "CTA 0 warp 0", "spans": work}]
    drawing = draw_pipeline(evidence, "cutlass_fp16")
    (axis, *_) = drawing.figure.axes
    drawn = [len(collection.get_paths()) for collection in axis.collections]
    assert max(drawn) in (MOST_SPANS - 1, MOST_SPANS) and sum(drawn) <= MOST_SPANS + 1
    low, high = axis.get_xlim()
    assert abs((low + high) / 2 - 500) < 2 and "TMA loads busy 100 %, warp 0 busy 50 %" in drawing.alt


def test_a_build_that_did_not_compile_is_not_predicted() -> None:
    case = Case("predict", "elementwise_add", "cute", "sm_100a", {"id": "x", "params": {}}, ADD, "nowhere")
    done = predict_build(case, SimpleNamespace(status="failed", reason="no room\nat all"))
    record.check("predict", done, "test")
    assert done["status"] == "failed" and done["reason"] == "not predicted: it did not compile (no room)"


@pytest.mark.parametrize(
    ("timed", "single"),
    [
        (None, None),
        (SimpleNamespace(metrics=None), None),
        (SimpleNamespace(metrics=SimpleNamespace(empty_launch_us=None)), None),
        (SimpleNamespace(metrics=SimpleNamespace(empty_launch_us=3.5)), 3.5),
    ],
    ids=["nothing timed", "a timing that failed", "one that does not say it", "one that does"],
)
def test_a_timing_of_this_host_says_what_a_lone_launch_takes(timed, single) -> None:
    assert empty_launch_of(timed) == single


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["cute", "cutile"])
def test_a_build_is_predicted_on_tensors_without_numbers(kernel) -> None:
    workload = make_workload("elementwise_add", ADD)
    variant = load_kernel("elementwise_add", kernel).variants(workload, "sm_100a")[0]
    folder = build("elementwise_add", kernel, "sm_100a", variant)
    chosen = {"id": variant.id, "params": dict(variant.params)}

    def predicted(rows: int, empty_launch_us: float | None = None, target: str = "sm_100a") -> dict:
        parameters = {**ADD, "rows": rows}
        case = Case("predict", "elementwise_add", kernel, target, chosen, parameters, str(folder), {"device": "b200"})
        done = predict_build(case, record.read("compile", folder / "build.json"), empty_launch_us)
        record.check("predict", done, "test")
        assert done["status"] == "ok", done["reason"]
        return done["metrics"]

    small, large = predicted(37), predicted(200_000)
    assert small["lone_us"] is None
    assert 0 < small["warm_us"] <= small["cold_us"] < 20
    moved = 3 * 4 * 200_000 * 256 / 8e12 * 1e6  # µs at the 8 TB/s of a B200
    assert large["cold_us"] > moved and large["dram_percent"] > 50 > small["dram_percent"]
    assert small["timeline"]["tracks"] and small["parameters"]["assumed"] >= 0
    slow_host = predicted(37, empty_launch_us=50.0)
    assert slow_host["warm_us"] == small["warm_us"] and slow_host["cold_us"] - small["cold_us"] > 40
    assert small["bands"]["cold"]["percent"] > 0
    rubin = predicted(37, target="sm_107a")  # other GPUs' errors say nothing of one that nobody has seen
    assert rubin["bands"]["cold"]["percent"] is None and "not known" in rubin["bands"]["cold"]["words"]


@pytest.mark.slow
def test_a_cutile_launch_that_may_start_early_is_predicted_so() -> None:
    workload = make_workload("dependent_launch", ADD)
    times, early = {}, {}
    for variant in load_kernel("dependent_launch", "cutile").variants(workload, "sm_100a"):
        folder = build("dependent_launch", "cutile", "sm_100a", variant)
        chosen = {"id": variant.id, "params": dict(variant.params)}
        case = Case("predict", "dependent_launch", "cutile", "sm_100a", chosen, ADD, str(folder), {"device": "b200"})
        launches, _ = captured(case)
        early[variant.params["early"]] = [launch.early for launch in launches]
        times[variant.params["early"]] = predict_build(case, record.read("compile", folder / "build.json"))["metrics"]
    assert early == {True: [False, True], False: [False, False]}
    assert times[True]["warm_us"] < times[False]["warm_us"]
    second, ahead = (times[True]["launches"]["warm"][n] for n in (1, 0))
    assert second["start_us"] < ahead["end_us"] + 1.0  # the gap of launches that wait


def test_another_value_in_a_cards_table_is_another_prediction(tmp_path) -> None:
    text = (ROOT / "ptxsim/devices/b200.yaml").read_text()
    assert text.count("value: 148") == 1
    other = tmp_path / "other.yaml"
    other.write_text(text.replace("value: 148", "value: 74"))
    before, after = table("b200"), table(str(other))
    assert [name for name in before if before[name] != after[name]] == ["sm_count"]
