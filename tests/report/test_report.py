"""The page.

Says what ran, escapes what it is given, needs nothing but itself, and works in a browser.
"""

from __future__ import annotations

import copy
import dataclasses
import html
import json
import re
from types import SimpleNamespace

import msgspec
import pytest

import sample
from cutesnake.analysis.summary import OperatorSummary
from cutesnake.analysis.verdict.verdicts import verdicts
from cutesnake.report.formatting import Notes, signed
from cutesnake.report.kernel_panels import compare_cost
from cutesnake.report.predicted import absent
from loose import compare, panels, plain, render, sets, state, summary, totals, typed, untested
from loose import view_tables as tables
from report_pages import Page, contents


@pytest.fixture(scope="module")
def none(tmp_path_factory):
    """The page of a machine with no GPU, plots included."""
    return render(contents(sample.evidence(), tmp_path_factory.mktemp("none"), draw=True))


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    return render(contents(sample.evidence(gpu=True, recorded=True), tmp_path_factory.mktemp("gpu")))


def test_page_is_well_formed_and_loads_nothing(none):
    page = Page(none)
    assert len(page.ids) == len(set(page.ids))
    assert page.loads == ["data:,"]  # an empty icon keeps browsers from asking for one
    assert "@import" not in none and "url(http" not in none
    assert not re.search(r"\b(fetch|XMLHttpRequest|import)\s*\(", none)
    assert all(scope in ("col", "colgroup", "row", "rowgroup") for scope in page.heads)


def test_simulated_counts_are_compared_with_the_operators_minimum_work() -> None:
    def compared(cost, products=200):
        counts = {"mma_flops": products, "global_read_unique_bytes": 90, "global_write_unique_bytes": 50}
        needed = dict(zip(("flops", "bytes_read", "bytes_written"), cost, strict=True))
        return compare_cost(SimpleNamespace(launches=[SimpleNamespace(**counts)], cost=SimpleNamespace(**needed)))

    flops, read, written = compared((100, 100, 50))
    assert "2.00 times" in flops and "fewer" in read and "1.00 times" in written
    assert compared((0, 0, 50), products=0)[0].endswith("the operator needs none")


def test_links_within_the_page_lead_somewhere(none):
    page = Page(none)
    inside = {link[1:] for link in page.links if link.startswith("#")}
    assert inside and inside <= set(page.ids)


def test_sections_come_in_the_order_of_a_newcomers_questions(none):
    page = Page(none)
    sections = ("findings", "comparison", "plots", "times", "kernels", "ran", "roofline", "rules", "provenance")
    order = [page.ids.index(name) for name in sections]
    assert order == sorted(order)


def reasons(text):
    """The page's list of reasons by number."""
    items = re.findall(r'<li id="reason-(\d+)">(.*?)</li>', text)
    return {int(number): html.unescape(reason) for number, reason in items}


def test_what_ran_has_counts_and_the_numbers_of_its_reasons(none):
    text = Page(none).text
    assert "No GPU on this machine: no NVIDIA driver is installed." in text
    assert "13 of 15 ✕ builds compiled 2 failed" in text
    assert "0 of 60 ◐ cases checked on a GPU 1 passed in simulation" in text
    assert "2 of 2 failed" in text
    numbers = {reason: number for number, reason in reasons(none).items()}
    assert f"not checked, timed or profiled {numbers[sample.NO_GPU]}" in text
    assert f"4 workloads not supported {numbers[sample.ONLY_FP16]}" in text
    assert f"not built {numbers['not written for sm_90a: it is for sm_100a']}" in text
    assert f"did not compile {numbers['TileError: <b>tile</b> of 512 columns does not fit']}" in text


def test_checks_that_failed_by_simulation_are_not_counted_as_failed_on_a_card():
    compared = compare(sample.evidence())
    row = next(row for row in compared["coverage"] if row["correctness"]["simulated"])
    row["correctness"]["failed"] = 2
    (tile,) = [tile for tile in totals([compared]) if tile["text"] == "cases checked on a GPU"]
    assert tile["extra"] == "1 passed and 2 failed in simulation"
    row["cards"]["correctness"].append({"kind": "live", "device": "NVIDIA H200", "ok": 0, "failed": 2})
    (tile,) = [tile for tile in totals([compared]) if tile["text"] == "cases checked on a GPU"]
    assert tile["extra"] == "2 failed, 1 passed in simulation"


def test_every_reason_is_said_once_and_every_number_leads_to_one(none, gpu):
    for page in (none, gpu):
        result = reasons(page)
        assert list(result) == list(range(1, len(result) + 1)) and len(set(result.values())) == len(result)
        used = {int(number) for number in re.findall(r'href="#reason-(\d+)"', page)}
        assert used == set(result)
        for reason in result.values():
            if len(reason) > 40:
                assert page.count(f">{html.escape(reason, quote=False)}<") == 1


def test_first_sentences_say_what_was_measured_where(none, gpu, tmp_path):
    text = Page(none).text
    assert "Nothing was measured on this machine: it has no GPU in use." in text
    assert "compiled and inspected 13 of 15 builds and checked 1 case in simulation on the CPU." in text
    assert "No recorded set has these kernels" in text and "in recorded sets" not in text
    text = Page(gpu).text
    assert "Measured on this machine, on NVIDIA H200, 2026-11-19: 4 kernels of blend on 8 workloads." in text
    assert "Also shown: times recorded on NVIDIA H200, 2026-11-19: 4 kernels of blend" in text


def test_many_operators_that_a_card_timed_are_counted(tmp_path):
    one = compare(sample.evidence(gpu=True))
    text = summary(sample.arch(True), [{**one, "operator": name} for name in ("a", "b", "c", "d")])
    assert ": 16 kernels of 4 operators on 32 workloads." in text


def test_a_laptop_shows_what_was_recorded_elsewhere(tmp_path):
    text = Page(render(contents(sample.evidence(recorded=True), tmp_path))).text
    assert "Nothing was measured on this machine: it has no GPU in use." in text
    assert "The times below were recorded on NVIDIA H200, 2026-11-19: 4 kernels of blend on 8 workloads." in text
    assert "0 of 60 ○ cases timed 32 in recorded sets" in text  # 4 kernels x 8 workloads
    assert "cases profiled with ncu 16 in recorded sets" in text  # of batch 32
    assert "No recorded set" not in text


def all_tables(comparison):
    return tables(comparison, Notes())


def test_a_page_shows_some_of_many_workloads_in_full_and_the_times_of_all(tmp_path, monkeypatch):
    monkeypatch.setattr("cutesnake.analysis.compare.selected_workloads.MOST_SHOWN", 2)
    evidence = sample.evidence(gpu=True)
    comparison = compare(evidence)
    every = list(evidence.plan["workloads"])
    chosen = {row["workload"] for row in comparison["rows"]}
    (speeds,) = comparison["speedups"]
    extremes = {speeds[key][end] for key in ("cold", "warm") for end in ("least_at", "most_at")}
    assert chosen == {every[0], every[-1], *extremes} and len(chosen) < len(every)
    (table, *_) = all_tables(comparison)
    assert {workload["workload"] for workload in table["workloads"]} == chosen
    assert table["count"] == f"{len(chosen)} of {len(every)} workloads"
    page = render(contents(evidence, tmp_path))
    assert f"The page shows {len(chosen)} workloads in full" in page
    (data, *_) = re.findall(r'<script type="application/json">(.*?)</script>', page)
    rows = {workload: times for workload, *times in json.loads(data)["rows"]}
    assert list(rows) == every and all(min(times) > 0 for times in rows.values())


def test_a_table_without_measurements_shows_some_workloads_and_all_predicted_ones(monkeypatch):
    monkeypatch.setattr("cutesnake.report.comparison.MOST_UNMEASURED", 2)
    evidence = sample.evidence()
    tables = {table["target"]: table for table in all_tables(compare(evidence))}
    every = list(evidence.plan["workloads"])
    for table in tables.values():
        assert [workload["workload"] for workload in table["workloads"]] == [every[0], every[-1]]
        assert table["count"] == "2 of 8 workloads"


def test_what_several_rows_share_is_said_once(gpu):
    for table in all_tables(compare(sample.evidence(gpu=True, recorded=True))):
        shared = [(box["kernels"], i["sentence"]) for box in table["common"] for i in box["insights"]]
        assert shared and len(shared) == len(set(shared))
        sentences = {sentence for _, sentence in shared}
        for row in table["workloads"]:
            own = [insight["sentence"] for insight in row["insights"]]
            assert len(own) == len(set(own)) and not sentences & set(own)
    assert '<details class="common">' in gpu  # closed until it is asked for


def test_the_schedule_step_is_a_column_only_where_some_kernel_has_one():
    evidence = sample.evidence(gpu=True)

    def columns(table):
        return [share["column"]["name"] for share in table["shares"]]

    (plain, *_) = all_tables(compare(evidence))
    assert not {"Plan", "Plan, warm L2"} & set(columns(plain))
    for entry in evidence.measured.values():
        if entry["stage"] == "timing" and entry["case"]["kernel"] == "torch_sdpa":
            entry["metrics"]["plan_us"] = 6.0
    (table, *_) = all_tables(compare(evidence))
    column = columns(table).index("Plan, warm L2")
    texts = {line["kernel"]: line["shares"][column]["text"] for row in table["workloads"] for line in row["kernels"]}
    assert texts["torch_sdpa"] == "6" and texts["cute_sm90"] == "\N{EN DASH}"


def test_columns_without_a_value_are_named_not_shown():
    evidence = sample.evidence()
    for table in all_tables(compare(evidence)):
        shown = {share["column"]["name"] for share in table["shares"]}
        assert "TC" in table["hidden"] and not shown & set(table["hidden"])


def test_a_row_has_times_of_both_dsls_and_all_kernels_of_the_workload():
    comparison = compare(sample.evidence(gpu=True))
    (table, *_) = all_tables(comparison)
    rows = {
        row["workload"]: row
        for row in comparison["rows"]
        if (row["target"], row["cutile"]["kernel"]) == ("sm_90a", "cutile")
    }
    assert [row["workload"] for row in table["workloads"]] == list(sample.evidence().plan["workloads"])
    for row in table["workloads"]:
        cute, cutile, ratio = (cell["value"] for cell in row["cells"][:3])
        source = rows[row["workload"]]
        assert cute == pytest.approx(source["cute"]["cells"]["duration_us"]["value"], rel=1e-5)
        assert cutile == pytest.approx(source["cutile"]["cells"]["duration_us"]["value"], rel=1e-5)
        assert ratio == pytest.approx(cutile / cute, rel=1e-4)
        kernels = [line["kernel"] for line in row["kernels"]]
        assert kernels == ["cute_sm90", "tilegym", "cutile", "torch_sdpa"]
        relative = {line["kernel"]: line["times"][0]["relative"] for line in row["kernels"]}
        assert list(relative.values()).count("fastest") == 1


def test_static_figures_and_bounds_are_said_to_be_such(none):
    static = {table["target"]: table for table in all_tables(compare(sample.evidence()))}["sm_100a"]
    assert {share["mark"] for share in static["shares"]} == {"†"}
    assert {row["cells"][0]["text"][0] for row in static["workloads"]} <= {"≥", "\N{EN DASH}"}
    assert any(row["cells"][0]["text"].startswith("≥ ") for row in static["workloads"])
    texts = [line["times"][0]["text"] for row in static["workloads"] for line in row["kernels"]]
    assert texts and all(text.startswith("≥ ") for text in texts if text != "\N{EN DASH}")


def test_every_missing_cell_has_a_note(gpu):
    for line in re.findall(r'<tr class="(?:cute|cutile) line">.*?</tr>', gpu, flags=re.DOTALL):
        assert not re.search(r'<td class="n"[^>]*>\u2013</td>', line) or 'href="#reason-' in line
    assert not re.search(r"<td[^>]*>\s*</td>", gpu)


def test_simulated_checks_are_never_called_passed(none):
    text = Page(none).text
    assert "checked in simulation (ptxsim, no GPU; 1 schedule: random; seeds 3, 4)" in text
    assert "1 in simulation" in text
    assert not re.search(r"\bpassed\b(?! on hardware| in simulation)", text)


@pytest.mark.parametrize("backend", ["ptxsim", "cuda"])
def test_what_failed_by_simulation_has_the_command_that_makes_it_again(backend, tmp_path):
    evidence = sample.evidence(gpu=True)
    made = (item for item in evidence.measured.items() if item[1]["stage"] == "correctness")
    path, entry = next(item for item in made if item[1]["backend"] == backend)
    entry |= {"status": "failed", "reason": "race: two warps write a word", "metrics": None}
    text = Page(render(contents(evidence, tmp_path))).text
    assert "race: two warps write a word" in text
    assert (f"To repeat: snakemake --cores 1 --force {path}" in text) == (backend == "ptxsim")


def test_cards_tell_checks_recorded_from_those_made_here(gpu, tmp_path):
    local = "sm_90a: checked on NVIDIA H200 (seeds 0, 1): 16 of 16 checks within tolerance, 8 workloads"
    text = Page(gpu).text
    assert local in text and local.replace("checked", "recorded: checked", 1) in text
    evidence = sample.evidence(recorded=True)
    failed = evidence.recorded["recorded/h200/results/correctness/blend/cutile/sm_90a/bf16/b1_s1024_bf16.json"]
    failed |= {"status": "failed", "reason": "out of memory", "metrics": None}
    text = Page(render(contents(evidence, tmp_path))).text
    assert local.replace("sm_90a: ", "sm_90a: recorded: ") in text and "sm_90a: checked" not in text
    assert "recorded: checked on NVIDIA H200 (seeds 0, 1): 14 of 14 checks" in text
    assert "✕ failed b1_s1024_bf16: out of memory" in text


def test_recorded_and_live_devices_are_labelled(gpu):
    text = Page(gpu).text
    assert "measured on this machine (NVIDIA H200)" in text
    assert "recorded on NVIDIA H200 (2026-11-19)" in text
    assert "PyTorch torch_sdpa" in text


def test_a_recorded_set_stands_once_in_the_provenance_with_the_commits_of_all_its_tables():
    def of(kind, device, dates, *commits):
        return {"kind": kind, "device": device, "dates": dates, "commits": [name * 8 for name in commits]}

    devices = [
        of("live", "NVIDIA B200", ["2026-11-23"], "f"),
        of("recorded", "NVIDIA H200", ["2026-11-21", "2026-11-23"], "d", "e"),
        of("recorded", "NVIDIA H100", ["2026-11-23"], "e"),
        of("recorded", "NVIDIA H200", ["2026-11-20"], "c", "b", "a", "d"),
        of("none", None, [], ""),
    ]
    assert sets(devices) == [
        "NVIDIA H200 (2026-11-20 to 2026-11-23, commits aaaaaaa, bbbbbbb, ccccccc, ddddddd and eeeeeee)",
        "NVIDIA H100 (2026-11-23, commit eeeeeee)",
    ]


def test_compilers_words_are_quoted_and_escaped(none):
    assert "<b>tile</b>" not in none
    assert html.escape(sample.COMPILER_SAYS, quote=False) in none
    assert "&lt;as used&gt;" in none


def test_everything_given_is_escaped(tmp_path):
    evidence = sample.evidence(gpu=True)
    bad = "<script>alert(1)</script>"
    arch = sample.arch(gpu=True)
    arch["devices"][0]["name"] = bad
    builds = copy.deepcopy(evidence.builds)
    for entry in builds.values():
        entry["compilers"][bad] = bad
        entry["notes"] = [bad]
        entry["variant"]["params"][bad] = bad
        entry["files"] = {f"{bad}.ptx": "0" * 64}
    figures = copy.deepcopy(evidence.inspected)
    for entry in figures.values():
        entry["functions"][0]["symbol"] = bad
    page = render(contents(sample.replace(evidence, builds=builds, inspected=figures), tmp_path, arch=arch))
    assert bad not in page
    assert html.escape(bad) in page
    Page(page)


def test_artifacts_are_linked_relative_to_the_page(none):
    links = Page(none).links
    assert "compile/blend/cutlass_fp16/sm_100a/fp16/kernel.ptx" in links
    assert not [link for link in links if link.startswith("/") or link.startswith("file:")]


def test_provenance(none):
    text = Page(none).text
    for message in ("abc1234", "nvidia-cutlass-dsl 4.8.1", "cuda-tile 1.7.0", "Seeds 3, 4", "snakemake --cores 1"):
        assert message in text


def test_rules_are_listed_and_insights_name_them(gpu):
    comparison = compare(sample.evidence(gpu=True))
    text = Page(gpu).text
    for rule in comparison["rules"]:
        assert f'id="rule-{rule["id"]}"' in gpu
        assert rule["condition"] in text
    assert re.search(r"M2 .* of the roofline", text)


def test_profiles_show_bottleneck_and_opportunities(gpu):
    text = Page(gpu).text
    assert "Bottleneck: compute" in text
    assert "Warps wait for <memory>" in text  # as text, that is, escaped in the page
    assert "long scoreboard 0.4" in text


def test_pictures_are_inside_with_their_text(none):
    assert none.count('<svg class="plot" role="img"') == 3
    assert "<desc>Roofline of blend." in none
    assert "Not drawn" in none and "nothing was measured" in none


def test_the_first_screen_has_the_verdict_and_the_cost_of_the_pair_that_differs_most(tmp_path):
    evidence = sample.evidence(gpu=True, recorded=True)
    decided = verdicts(typed(evidence), typed(compare(evidence)))
    page = render(contents(evidence, tmp_path, verdicts=decided))
    cost = page[page.index('id="cost"') : page.index('id="findings"')]
    first, more = cost.split("Cost of other kernels")
    measured = next(one for one in decided.targets if one.warm)
    at = next(one.at for one in decided.costs if one.at)
    assert at in {pair.workload for pair in measured.warm.pairs} and at in first.replace("<wbr>", "")
    assert "Tensor memory" in more and "Tensor memory" not in first  # Hopper has none
    assert "<td>48" in first  # bytes that cuTile spills
    assert Page(page).open == []


def test_a_predicted_gpu_without_predictions_is_said_to_have_no_verdict(tmp_path):
    evidence = typed(sample.evidence(gpu=True, recorded=True))
    wanted = msgspec.structs.replace(evidence.plan.predicted, devices={"sm_100a": "b200"})
    evidence = dataclasses.replace(evidence, plan=msgspec.structs.replace(evidence.plan, predicted=wanted))
    (text,) = absent(evidence, None)
    assert text.startswith("No verdict for B200: ") and "did not compile" in text
    plan = msgspec.structs.replace(evidence.plan, not_built="its record is stale")
    stale = dataclasses.replace(evidence, builds={}, plan=plan)
    (text,) = absent(stale, None)
    assert text.endswith("missing, its record is stale.")
    assert text in Page(render(contents(plain(stale), tmp_path))).text


@pytest.mark.slow
def test_an_operators_page_stays_small(tmp_path):
    """With as many workloads and GPUs as the default report has, plots included."""
    sweep = sample.workloads((1, 4, 16, 32, 64, 128), (1024, 4096, 8192))
    large = contents(sample.evidence(sweep, gpu=True, recorded=True), tmp_path, draw=True)
    assert len(render(dataclasses.replace(large, is_front=False)).encode()) < 2_000_000


def test_the_front_page_links_all_operators_and_shows_their_recorded_verdicts(tmp_path):
    names = ["blend", *(f"operator_{number}" for number in range(14))]
    decided = [one for one in typed(compare(sample.evidence(gpu=True, recorded=True))).verdicts if one.warm]
    assert decided and decided[0].warm.winner == "cute"
    summary = {"operator_3": OperatorSummary("operator_3", decided)}
    arch = {**sample.arch(), "operators": names}
    shown = contents(sample.evidence(gpu=True, recorded=True), tmp_path, arch=arch)
    page = Page(render(dataclasses.replace(shown, summary=summary)))
    assert {f"report/{name}.html" for name in names[1:]} <= set(page.links)
    row = page.text[page.text.index("operator_3") : page.text.index("operator_4")]
    assert f"CuTe DSL {decided[0].warm.mean:.2f}" in row and decided[0].gpu in page.text


def test_pages_lead_to_each_other(tmp_path):
    arch = {**sample.arch(), "operators": ["first", "blend", "third"]}
    links = Page(render(contents(sample.evidence(), tmp_path, front=False, arch=arch), "results/report")).links
    assert {"../mla_report.html", "third.html"} <= set(links) and "blend.html" not in links
    assert "../compare/blend.csv" in links and "../compile/blend/cutlass_fp16/sm_100a/fp16/kernel.ptx" in links


@pytest.mark.parametrize(
    ("counts", "text"),
    [((4, 4, 0, 0), "4 of 4"), ((4, 3, 1, 0), "1 of 4 failed"), ((4, 0, 0, 2), "0 of 4, 2 in simulation"),
     ((0, 0, 0, 0), "not planned"), ((4, 0, 0, 0), "0 of 4")],
)  # fmt: skip
def test_states_have_words(counts, text):
    names = ("expected", "ok", "failed", "simulated", "reason")
    result = state(dict(zip(names, (*counts, None), strict=True)))
    assert result["text"] == text and result["mark"]


def test_signed():
    assert (signed(2, "2"), signed(-2, "2"), signed(0, "0")) == ("+2", "\N{MINUS SIGN}2", "±0")


def test_a_warning_of_one_simulated_case_that_another_makes_up_for_is_not_on_the_page():
    def case(variant: str, *warnings: str) -> dict:
        (entry,) = copy.deepcopy(list(sample.simulated(sample.workloads()).values()))
        entry["case"]["variant"]["id"] = variant
        cost = {"flops": 1, "bytes_read": 1, "bytes_written": 1}
        counted = {"launches_run": 1, "peak_memory_bytes": 1, "launches": [], "cost": cost, "notes": []}
        entry["metrics"]["simulated"] = {**counted, "warnings": list(warnings)}
        return entry

    flip, full = "k: mbarrier at 8: the parity never flipped", "k: mbarrier at 16: the pipeline was never full"
    entries = [case("a", flip, full), case("a", full), case("b", flip)]
    entries.append({**case("b"), "status": "failed", "reason": "too large", "metrics": None})
    assert untested(entries) == [
        "a, k: mbarrier at 16: the pipeline was never full",
        "b, k: mbarrier at 8: the parity never flipped",
    ]


def test_where_no_check_was_made_the_card_says_nothing_of_seeds_and_errors():
    """The build failed: its simulated case is a failed record without a single check."""
    result = sample.evidence()
    undone = copy.deepcopy(dict(result.measured))
    for entry in undone.values():
        entry |= {"status": "failed", "reason": "not run: it did not compile", "metrics": None}
    views = panels(sample.replace(result, measured=undone), {}, "results", Notes())
    (check,) = [check for view in views for check in view["checks"]]
    assert check["text"] == "not checked" and check["mark"] == ("✕", "bad")
    assert check["failed"][0].endswith(": not run: it did not compile")
