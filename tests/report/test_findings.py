"""What was found.

The five sentences, where GPUs disagree, findings about others' kernels, the table for pandas.
"""

from __future__ import annotations

import copy
import io
import math
import re
from xml.etree import ElementTree

import pandas
import pytest

import sample
from cutesnake.model import record
from cutesnake.report.formatting import Notes
from loose import compare, front_findings, plain, unsupported_inputs, write_comparison, write_overview
from loose import view_matrix as matrix

H100 = "NVIDIA H100 80GB HBM3"


def sentences_of(comparisons, gpu=False):
    return {entry["question"]: entry["text"] for entry in front_findings(sample.arch(gpu), comparisons)}


def with_another_gpu(evidence, change):
    """The evidence with a second recorded GPU, whose times `change` (kernel, workload, metrics) alters."""
    kept = dict(evidence.recorded)
    for path, entry in evidence.recorded.items():
        mine = copy.deepcopy(entry)
        mine["device"]["name"] = H100
        if mine["stage"] == "timing":
            change(mine["case"]["kernel"], mine["case"]["workload"], mine["metrics"])
        kept[path.replace("h200", "h100")] = mine
    return sample.replace(evidence, recorded=kept)


def scaled(entry, operator, factor):
    """A comparison of another operator, CuTe's times multiplied."""
    mine = copy.deepcopy(entry)
    mine["operator"] = operator
    for speedup in mine["speedups"]:
        for key in ("cold", "warm"):
            speedup[key] |= {name: speedup[key][name] / factor for name in ("mean", "least", "most")}
    return mine


def test_each_finding_is_a_sentence_and_the_speed_is_left_to_the_verdict() -> None:
    for options in ({}, {"gpu": True}, {"recorded": True}):
        entries = front_findings(sample.arch(), [compare(sample.evidence(**options))])
        first = [] if options else ["Speedup"]
        assert [e["question"] for e in entries] == [*first, "Confidence", "Not run", "Other GPUs"]
        assert all(e["text"].endswith(".") for e in entries)


def test_nothing_timed_is_said_to_be_so() -> None:
    sentences = sentences_of([compare(sample.evidence())])
    assert sentences["Speedup"].startswith("Not known: no GPU timed a workload in both DSLs")
    assert sentences["Speedup"].endswith("Neither DSL has a measured time.")
    assert sentences["Other GPUs"] == "No GPU has times."
    assert "no GPU in use" in sentences["Not run"] and "2 builds did not compile" in sentences["Not run"]


def test_where_one_dsl_alone_was_timed_it_is_named() -> None:
    compared = compare(sample.evidence(recorded=True))
    compared["speedups"] = []
    for table in compared["times"]:
        table["kernels"] = {name: dsl for name, dsl in table["kernels"].items() if dsl != "cute"}
    assert sentences_of([compared])["Speedup"].endswith("in both DSLs. Only cuTile was timed, on H200.")


def test_the_speed_is_that_of_the_fastest_kernels_of_each_side() -> None:
    evidence = sample.evidence(gpu=True)
    (entry,) = compare(evidence)["speedups"]
    times = {
        (e["case"]["kernel"], e["case"]["workload"]): e["metrics"]
        for e in evidence.measured.values()
        if e["stage"] == "timing"
    }
    for name, key in (("cold", "cold_us"), ("warm", "hot_us")):
        ratios = [
            min(times["tilegym", w][key], times["cutile", w][key]) / times["cute_sm90", w][key]
            for w in evidence.plan["workloads"]
        ]
        assert math.isclose(entry[name]["mean"], math.prod(ratios) ** (1 / len(ratios)))
        assert (entry[name]["least"], entry[name]["most"]) == (min(ratios), max(ratios))
        assert entry[name]["faster"] + entry[name]["equal"] + entry[name]["slower"] == len(ratios)


@pytest.mark.parametrize(
    ("changes", "equal"),
    [
        ({"slow": 1.02, "spread": 0.5}, (8, 8)),  # less than the least noise that is believed
        ({"slow": 1.06, "spread": 0.5}, (0, 0)),
        ({"slow": 1.06, "spread": 4.0}, (8, 0)),  # the spread of cold samples says nothing about warm times
        ({"slow": 1.06, "spread": 0.5, "bursts": 4.0}, (0, 8)),
        ({"slow": 1.06, "spread": 0.5, "overheads": (2.0, 9.0)}, (8, 0)),  # another host
    ],
)
def test_times_within_the_noise_are_equal(changes, equal) -> None:
    evidence = sample.evidence(gpu=True)
    for entry in evidence.measured.values():
        if entry["stage"] == "timing":
            kernel = entry["case"]["kernel"]
            slow = {"cute_sm90": changes["slow"], "cutile": 1.0}.get(kernel, 9.0)
            entry["metrics"] |= {"cold_us": 100.0 * slow, "hot_us": 90.0 * slow, "spread_percent": changes["spread"]}
            entry["metrics"] |= {"difference_percent": 0.5, "burst_range_percent": changes.get("bursts")}
            if "overheads" in changes:
                entry["metrics"]["lone_us"] = changes["overheads"][kernel == "cutile"]
    (entry,) = compare(evidence)["speedups"]
    assert (entry["cold"]["equal"], entry["warm"]["equal"]) == equal


def test_kernels_that_failed_their_check_are_named() -> None:
    compared = compare(sample.evidence(gpu=True))
    assert "failed their check" not in sentences_of([compared])["Confidence"]
    row = compared["coverage"][0]
    row["correctness"]["failed"] = 2
    for source, whose in (("ours", ""), ("tilegym", ", all of third-party kernels")):
        row["source"] = source
        assert sentences_of([compared])["Confidence"].endswith(
            f". 2 cases failed their check on this machine, GPU or simulated{whose} (blend/{row['kernel']} 2)."
        )


def test_a_kernel_that_failed_its_check_was_checked() -> None:
    compared = compare(sample.evidence())
    (row, *_) = (row for row in compared["coverage"] if row["build"]["ok"] and not row["correctness"]["simulated"])
    before = sentences_of([compared])["Not run"]
    row["correctness"]["failed"] = 1
    counts = [
        int(re.search(r"(\d+) pairs? not checked", s).group(1)) for s in (before, sentences_of([compared])["Not run"])
    ]
    assert counts[0] - counts[1] == 1


def test_two_cards_that_agree_and_one_alone() -> None:
    evidence = sample.evidence(recorded=True)
    assert sentences_of([compare(evidence)])["Other GPUs"].endswith("only H200 has times.")
    both = compare(with_another_gpu(evidence, lambda *_: None))
    assert sentences_of([both])["Other GPUs"] == (
        "H100 80GB HBM3 and H200 have different fastest kernels, beyond the noise of both, on none of 8 workloads of "
        "blend."
    )
    assert both["agreement"][0]["cold"] == both["agreement"][0]["variants"] == []


def test_two_cards_that_timed_one_kernel_alone_do_not_agree_about_the_fastest() -> None:
    both = with_another_gpu(sample.evidence(recorded=True), lambda *_: None)
    alone = {p: e for p, e in both.recorded.items() if e["device"]["name"] != H100 or e["case"]["kernel"] == "cutile"}
    compared = compare(sample.replace(both, recorded=alone))
    assert compared["agreement"] == []
    assert sentences_of([compared])["Other GPUs"].endswith(
        "Not known: no two GPUs timed several kernels of one workload."
    )


def test_many_operators_about_which_two_cards_agree_are_counted() -> None:
    both = compare(with_another_gpu(sample.evidence(recorded=True), lambda *_: None))
    text = sentences_of([scaled(both, name, 1.0) for name in ("a", "b", "c", "d")])["Other GPUs"]
    assert text.endswith("on none of 32 workloads of 4 operators.")


def test_two_cards_that_disagree_beyond_the_noise() -> None:
    def change(kernel, workload, metrics):
        if (kernel, workload) == ("cutile", "b1_s1024_bf16"):
            metrics["hot_us"] = 1.0
        if (kernel, workload) == ("cute_sm90", "b1_s8192_bf16"):
            metrics["cold_us"] *= 1.01  # still the fastest

    compared = compare(with_another_gpu(sample.evidence(recorded=True), change))
    record.check("compare", compared, "test")
    (entry,) = compared["agreement"]
    assert entry["cards"] == [H100, "NVIDIA H200"] and entry["cold"] == []
    assert entry["warm"] == [{"workload": "b1_s1024_bf16", "winners": ["cutile", "cute_sm90"]}]
    assert sentences_of([compared])["Other GPUs"] == (
        "H100 80GB HBM3 and H200 have different fastest kernels, beyond the noise of both, on 1 of 8 workloads of "
        "blend: b1_s1024_bf16 of blend, warm (cutile on H100 80GB HBM3, cute_sm90 on H200)."
    )


def test_two_cards_that_disagree_about_a_variant() -> None:
    evidence = sample.evidence(recorded=True)
    plan, kept = copy.deepcopy(evidence.plan), dict(evidence.recorded)
    for path, entry in evidence.recorded.items():
        if entry["stage"] == "timing" and entry["case"]["kernel"] == "cutile":
            wide = copy.deepcopy(entry)
            wide["case"]["variant"]["id"] = "wide"
            wide["metrics"]["hot_us"] *= 2
            kept[path.replace(".json", "-wide.json")] = wide
            plan["cases"].append({"build": "blend/cutile/sm_90a/wide", "workload": entry["case"]["workload"]})

    two = with_another_gpu(sample.replace(evidence, plan=plan, recorded=kept), lambda *_: None)
    assert compare(two)["agreement"][0]["variants"] == []
    names = {e["case"]["variant"]["id"]: e for e in two.recorded.values() if is_gpu(e, H100)}
    names["wide"]["metrics"]["hot_us"] /= 10
    (entry,) = compare(two)["agreement"]
    assert [(row["kernel"], row["winners"]) for row in entry["variants"]] == [("cutile", ["wide", "bf16"])]
    assert sentences_of([compare(two)])["Other GPUs"].endswith(
        " They disagree about the fastest variant in 1 case, such as cutile on b32_s8192_bf16 of blend (wide on H100 "
        "80GB HBM3, bf16 on H200)."
    )


def is_gpu(entry, name):
    case = entry["case"]
    mine = (entry["stage"], case["kernel"], case["workload"]) == ("timing", "cutile", "b32_s8192_bf16")
    return mine and entry["device"]["name"] == name


def test_what_a_kernel_does_not_promise_is_a_finding_and_no_failure() -> None:
    evidence = sample.evidence(gpu=True)
    for entry in evidence.measured.values():
        if entry["stage"] == "correctness" and entry["case"]["kernel"] == "tilegym":
            check = copy.deepcopy(entry["metrics"]["checks"][0])
            check |= {"distribution": "nan_padding", "outside": "reads its padding", "passed": False, "reason": "NaN"}
            entry["metrics"]["checks"].append(check)
    compared = compare(evidence)
    (entry,) = compared["beyond"]
    assert (entry["kernel"], entry["target"], entry["checks"], entry["failed"]) == ("tilegym", "sm_90a", 8, 8)
    (finding,) = unsupported_inputs([compared])
    assert finding["failed"] and finding["text"] == (
        "tilegym (cuTile, sm_90a) fails 8 of 8 checks with nan padding, an unsupported input (reads its padding): NaN. "
        "Run on H200."
    )
    (row,) = [r for r in matrix(compared, Notes(), "")["rows"] if (r["kernel"], r["target"]) == ("tilegym", "sm_90a")]
    assert row["states"][1]["class"] == "good"


def test_the_matrix_says_on_which_card_and_what_was_simulated() -> None:
    notes = Notes()
    view = matrix(compare(sample.evidence(gpu=True, recorded=True)), notes, "page.html")
    rows = {(row["kernel"], row["target"]): row for row in view["rows"]}
    built, checked, timed, _, ncu = (state["text"] for state in rows["cute_sm90", "sm_90a"]["states"])
    assert (built, checked, timed) == (
        "2 of 2",
        "8 on H200 (this machine), 8 on H200",
        "8 on H200 (this machine), 8 on H200",
    )
    assert ncu == "4 on H200 (this machine), 4 on H200"
    state = rows["cutlass_fp16", "sm_100a"]["states"][1]
    assert (state["mark"], state["text"]) == ("◐", "1 in simulation")  # never a tick
    assert rows["tilegym", "sm_100a"]["states"][0]["class"] == "bad"
    assert rows["cute_sm90", "sm_90a"]["link"] == "page.html#kernel-blend-cute-sm90"
    assert view["sums"][0] == "13 of 15 builds" and view["sums"][2].startswith("timed 32 on H200 (this machine)")
    used = {why["note"] for row in view["rows"] for why in row["why"]}
    assert used == set(range(1, len(notes.texts) + 1))


def test_the_matrix_says_what_was_not_done_here_and_that_a_failed_check_was_made() -> None:
    compared = compare(sample.evidence(recorded=True))
    (row,) = (r for r in compared["coverage"] if (r["kernel"], r["target"]) == ("cutlass_fp16", "sm_100a"))
    row["correctness"] |= {"failed": 2, "reason": "a race at PTX line 7"}
    rows = {(r["kernel"], r["target"]): r["why"] for r in matrix(compared, Notes(), "page.html")["rows"]}
    assert (
        rows["cute_sm90", "sm_90a"][0]["text"] == "not checked, timed or profiled on this machine"
    )  # but on a recorded GPU
    assert "not timed or profiled" in {why["text"] for why in rows["cutlass_fp16", "sm_100a"]}
    assert rows["cutlass_fp16", "sm_100a"][0]["text"] == "failed its check"


def test_a_build_that_only_a_simulated_check_asks_for_is_counted() -> None:
    evidence = sample.evidence()
    plan = copy.deepcopy(evidence.plan)
    first = plan["builds"][0]
    plan["builds"].append({**first, "variant": {"id": "small", "params": {}}})
    before, after = (
        {(row["kernel"], row["target"]): row["build"] for row in compare(values)["coverage"]}
        for values in (evidence, sample.replace(evidence, plan=plan))
    )
    key = first["kernel"], first["target"]
    assert (after[key]["expected"], after[key]["ok"]) == (before[key]["expected"] + 1, before[key]["ok"])


def test_the_comparison_is_a_table_for_pandas_too(tmp_path) -> None:
    evidence = sample.evidence(gpu=True)
    write_comparison(evidence, str(tmp_path / "c.json"), str(tmp_path / "c.csv"))
    table = pandas.read_csv(tmp_path / "c.csv")
    assert len(table) == len(table.drop_duplicates(["workload", "kernel", "target", "device"]))
    timed = table[(table["target"] == "sm_90a")]
    assert set(timed["kernel"]) == {"tilegym", "cutile", "cute_sm90", "torch_sdpa"} and len(timed) == 32
    one = timed[(timed["kernel"] == "cutile") & (timed["workload"] == "b32_s8192_bf16")].iloc[0]
    path = "results/timing/blend/cutile/sm_90a/bf16/b32_s8192_bf16.json"
    assert one["duration_us"] == evidence.measured[path]["metrics"]["cold_us"]
    assert (one["duration_us_kind"], one["length"], one["kind"]) == ("measured", 8192, "live")
    unmeasured = table[table["target"] == "sm_100a"]
    assert set(unmeasured["duration_us_kind"].dropna()) == {"static"}
    empty = pandas.read_csv(io.StringIO((tmp_path / "c.csv").read_text().splitlines()[0] + "\n"))
    assert list(empty.columns[:4]) == ["operator", "workload", "kernel", "dsl"]


def test_the_table_has_every_workload_and_the_record_only_what_a_page_shows_in_full(tmp_path, monkeypatch) -> None:
    evidence = sample.evidence(gpu=True)
    every = compare(evidence)
    monkeypatch.setattr("cutesnake.analysis.compare.selected_workloads.MOST_SHOWN", 2)
    write_comparison(evidence, str(tmp_path / "c.json"), str(tmp_path / "c.csv"))
    few = plain(record.read("compare", tmp_path / "c.json"))
    shown = {row["workload"] for row in few["rows"]}
    assert len(shown) < few["workloads"] == every["workloads"] == len(evidence.plan["workloads"])
    assert few["rows"] == [row for row in every["rows"] if row["workload"] in shown]
    kept = ("times", "speedups", "coverage", "reasons")
    assert {key: few[key] for key in kept} == {key: every[key] for key in kept}
    table = pandas.read_csv(tmp_path / "c.csv")
    assert set(table["workload"]) == set(evidence.plan["workloads"])
    for entry in few["tables"]:
        rows = [row for row in every["rows"] if (row["target"], row["device"]) == (entry["target"], entry["device"])]
        assert entry["workloads"] == len({row["workload"] for row in rows})
        for pair in entry["said"]:
            mine = [row for row in rows if all(row[dsl]["kernel"] == pair[dsl] for dsl in ("cutile", "cute"))]
            assert pair["rows"] == len(mine)
            for message in pair["sentences"]:
                holds = [row for row in mine for i in row["insights"] if i["sentence"] == message["sentence"]]
                assert message["rows"] == len(holds) > 1


def test_a_figure_that_was_not_measured_names_its_reason_by_number(tmp_path) -> None:
    write_comparison(sample.evidence(), str(tmp_path / "c.json"), str(tmp_path / "c.csv"))
    why = record.read("compare", tmp_path / "c.json").reasons
    assert len(why) == len(set(why))
    table = pandas.read_csv(tmp_path / "c.csv")
    one = table[(table["kernel"] == "cutile") & (table["target"] == "sm_90a")].iloc[0]
    assert one["duration_us_kind"] == "static" and "no NVIDIA driver" in why[int(one["duration_us_why"])]
    assert table["tensor_core_percent"].isna().all() and table["tensor_core_percent_why"].notna().all()


def test_the_overview_has_a_row_per_operator_and_card(tmp_path) -> None:
    one = compare(with_another_gpu(sample.evidence(recorded=True), lambda *_: None))
    entry = write_overview([one, scaled(one, "other", 3.0)], tmp_path)
    assert plain(record.read("plot", tmp_path / "pictures.json")) == entry
    widths = []
    for plot in entry["pictures"]:
        assert plot["alt"].count("warm") == 4
        text = (tmp_path / plot["file"]).read_text()
        widths.append(float(ElementTree.fromstring(text).get("viewBox").split()[2]))
        assert "blend" in text and "H100 80GB HBM3, sm_90a" in text
    assert widths[1] < 290 < widths[0]  # points: the second one is for phones


def test_without_times_the_overview_says_why_there_is_none(tmp_path) -> None:
    for plot in write_overview([compare(sample.evidence())], tmp_path)["pictures"]:
        assert plot["file"] is None and "timed in both" in plot["reason"]


@pytest.mark.parametrize("question", ["Confidence", "Not run"])
def test_figures_of_the_sentences_follow_the_records(question) -> None:
    evidence = sample.evidence(gpu=True)
    before = sentences_of([compare(evidence)], gpu=True)[question]
    for entry in evidence.measured.values():
        if entry["stage"] == "timing":
            entry["metrics"] |= {"flags": ["power"], "spread_percent": 7.0}
    plan = copy.deepcopy(evidence.plan)
    for decision in plan["decisions"]:
        decision["simulate"] = {"ok": False, "reason": "no"}
    measured = {p: e for p, e in evidence.measured.items() if e["backend"] == "cuda"}
    after = sentences_of([compare(sample.replace(evidence, plan=plan, measured=measured))], gpu=True)[question]
    assert before != after
