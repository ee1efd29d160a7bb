"""Learning goals.

Complete, answered from records alone, and paths that build what they need and nothing else.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from markupsafe import Markup
from msgspec.structs import replace

import sample
from cutesnake.model.catalog import kernel_files
from cutesnake.model.inputs import Learning
from cutesnake.model.paths import ROOT
from cutesnake.model.record import write
from cutesnake.model.records.anatomy import Anatomy, Waiter
from cutesnake.report.learn.goals import GoalError, chosen_build, kernels_of, pages, read_goals
from cutesnake.report.learn.page import Asked, render
from cutesnake.report.learn.questions import QUESTIONS, answers, by_warps
from own_operator import arguments
from partial_records import filled
from project import jobs

GOALS = read_goals(ROOT / "config/learning.yaml")
# The goals of the guide that this page follows, by the kernels that it starts them with.
WANTED = {
    **{"CuTe DSL basics (grid, TMA, MMA)": "tutorial_gemm/cutlass_0", "Custom epilogues": "gemm_epilogue/cutlass"},
    **{
        "Software pipelining": "gemm/cutlass_software_pipeline",
        "Dependent kernel launch": "dependent_launch/cutlass_pdl",
    },
    **{"Persistent kernel structure": "gemm/cutlass_persistent", "MLA decode with FP8": "mla_decode/cutlass_fp8"},
    **{"Warpgroup specialization": "gemm/cutlass_persistent_prefetch"},
    **{"TMA pipelining for attention": "fmha/cutlass_sm100"},
    **{"MLA decode (direct reference)": "mla_decode/cutlass_fp16"},
    **{"Cluster programming": "gemm/cutlass_persistent_dynamic"},
}


def learning(**what):
    return filled(Learning, {"goals": [], "paths": {}, "pairs": [], "exercises": {}, **what})


def record(**main):
    """An anatomy record of a build of which only what is given is known."""
    unknown = dict.fromkeys(("descriptors", "roles", "pipelines", "products", "barriers"))
    function = {
        **{"symbol": "kernel", **unknown, "counts": {"tma_load": 2, "grid_dependency": 1}},
        **{"host": {"attributes": None}, "registers": {"per_thread": 40, "setmaxnreg": []}},
        "shared": {"buffers": None, "dynamic_bytes": 4096, "left_bytes": 0, "limit_bytes": 0},
        "patterns": {
            name: {"found": None, "evidence": "nothing ran", "lines": []}
            for name in (
                *("persistent loop", "online softmax", "cluster communication"),
                *("epilogue", "boundary handling", "pipeline drain"),
            )
        },
        **main,
    }
    what = {"functions": [function], "not_watched": "its DSL is not simulated", "grids": []}
    return filled(Anatomy, what)


def test_checks_that_failed_are_a_list_of_their_own_and_name_their_workload_once(tmp_path) -> None:
    right = next(iter(sample.simulated(sample.workloads()).values()))
    workload = right["case"]["workload"]
    reasons = (f"{workload}, randn, seed 0: a race", "ended by its time limit")
    checks = [tmp_path / f"{number}.json" for number in range(3)]
    write("correctness", checks[0], right)
    for path, reason in zip(checks[1:], reasons, strict=True):
        write("correctness", path, {**right, "status": "failed", "reason": reason})
    kernel, key = "blend/cutlass_fp16", "blend/cutlass_fp16/sm_100a/fp16"
    goals = learning(goals=[{"name": "One", "kernels": [kernel], "questions": ["shared"]}])
    asked = Asked("learn", goals, {kernel: (key, [])}, {key: list(map(str, checks))}, [])
    page = render(asked, {kernel: record()}, "learn")
    assert page.count(workload) == 3 and f"✓</span> {workload} within tolerance in simulation" in page
    assert "✕ 2 of 3 checks failed" in page
    assert f"<li>{reasons[0]}</li><li>{workload}: {reasons[1]}</li>" in page


def test_every_goal_of_the_guide_has_its_kernels_in_order_and_three_questions() -> None:
    first = {goal.name: goal.kernels[0] for goal in GOALS.goals}
    assert WANTED.items() <= first.items()
    for place in (*GOALS.goals, *GOALS.paths.values()):
        assert len(place.questions) >= 3
    for page in pages(GOALS):
        for kernel in kernels_of(GOALS, page):
            operator, name = kernel.split("/")
            assert name in kernel_files(operator), kernel


def test_what_a_record_does_not_know_is_answered_as_unknown() -> None:
    for question, reply, _ in answers(record(), list(QUESTIONS)):
        if question in (QUESTIONS["copies"].text, QUESTIONS["registers"].text):
            continue
        assert reply.startswith("Unknown"), (question, reply)


def test_answers_follow_the_record() -> None:
    roles = [
        {"name": "load", "warps": [4], "registers": [40], "some": {}},
        {"name": "multiply + store", "warps": [0, 1], "registers": [], "some": {"store": [0]}},
    ]
    result = {q: reply for q, reply, _ in answers(record(roles=roles), ["roles", "registers", "copies"])}
    assert result[QUESTIONS["roles"].text] == "load: warp 4; multiply + store: warps 0-1 (store by warp 0 only)."
    assert "setmaxnreg gives load 40" in result[QUESTIONS["registers"].text]
    assert result[QUESTIONS["copies"].text] == "Instructions in the code: 2 TMA load."


@pytest.mark.parametrize("result", [True, False])
def test_yes_and_no_answer_only_what_is_asked_so(result) -> None:
    names = record().functions[0].patterns
    known = {name: {"found": result, "evidence": "what was seen", "lines": []} for name in names}
    asked = ["persistent", "softmax", "cluster", "epilogue", "boundary", "drain"]
    for question, reply, _ in answers(record(patterns=known), asked):
        assert reply.startswith(("Yes", "No: ")) == question.startswith(("Does", "Is")), (question, reply)
        assert reply[0].isupper() and reply.lower().endswith("what was seen.")


def test_an_unknown_question_is_named_in_one_line(tmp_path) -> None:
    text = (ROOT / "config/learning.yaml").read_text()
    (tmp_path / "learning.yaml").write_text(text.replace("[grid, copies, boundary]", "[grid, copies, edges]"))
    with pytest.raises(GoalError, match="unknown question 'edges'; known: descriptors"):
        read_goals(tmp_path / "learning.yaml")


def test_a_kernel_is_shown_for_a_target_that_the_simulator_stands_for() -> None:
    keys = ["gemm/x/sm_90a/v", "gemm/x/sm_120a/v", "gemm/x/sm_100a/v", "gemm/x/sm_100a/w"]
    assert chosen_build(keys, "gemm/x") == "gemm/x/sm_100a/v"
    assert chosen_build(keys, "gemm/y") is None


def test_a_kernel_that_is_not_in_the_run_is_told_so() -> None:
    page = render(Asked("learn_path_a", GOALS, {}, {}, []), {}, "learn/learn_path_a")
    assert page.count("Not in this run") == len(GOALS.paths["a"].steps)
    assert "CuTe DSL fundamentals" in page and "None" not in page


def test_a_path_builds_and_checks_its_own_kernels_only(fresh) -> None:
    asked = ("operators=[tutorial_gemm, gemm]", "targets=[sm_90a, sm_100a]", "stages=[correctness, predict]")
    planned = jobs(fresh, "learn_path_a", "--config", *asked)
    assert planned["compile"] == planned["simulated"] == planned["timeline"] == len(GOALS.paths["a"].steps)
    assert planned["learn_page"] == 1 and "report" not in planned and "anatomy" not in planned


def test_a_kernel_of_the_users_own_is_read_too(fresh, own: Path) -> None:
    planned = jobs(fresh, "learn", *arguments(own))
    assert planned["compile"] == 1
    assert planned["learn_page"] == len(pages(GOALS)) > 1  # no page leads to one that is not made


def test_each_known_answer_has_a_reason_that_follows_the_record() -> None:
    ring = [{"name": name, "bytes": 4096, "stages": 4} for name in "ab"]
    shared = {"buffers": ring, "left_bytes": 1500, "limit_bytes": 9692}
    pipelines = [{"name": "a", "stages": 4}, {"name": "b", "stages": 1}]
    product = {"instruction": "tcgen05.mma", "cta_group": 2, "words": "a product"}
    known = record(
        shared=shared, pipelines=pipelines, products=[product], registers={"per_thread": 168, "setmaxnreg": [40, 232]}
    )
    names = ["shared", "pipelines", "products", "registers", "copies", "grid"]
    why = {name: reason for name, (_, _, reason) in zip(names, answers(known, names), strict=True)}
    assert "A further stage of a and b takes 2,048 B and does not fit: 1,500 B are free" in why["shared"]
    assert "3 more loads" in why["pipelines"] and "hand-over: b." in why["pipelines"]
    assert "each loads half of B" in why["products"] and "keep 40" in why["registers"] and why["copies"]
    assert why["grid"] == ""  # unknown: nothing ran


def test_a_path_names_what_its_kernel_has_in_common_with_the_one_before() -> None:
    kernels = ["blend/one", "blend/two"]
    step = {"why": "next"}
    questions = ["copies", "registers"]
    path = {"name": "A", "steps": [{"kernel": kernel, **step} for kernel in kernels], "questions": questions}
    builds = {kernel: (f"{kernel}/sm_100a/v", []) for kernel in kernels}
    known = {kernels[0]: record(), kernels[1]: record(counts={"tma_load": 7})}
    page = render(Asked("learn_path_a", learning(paths={"a": path}), builds, {}, []), known, "learn")
    assert f"As in blend/one: {QUESTIONS['registers'].text}</p>" in page
    assert page.count(f"<summary>{QUESTIONS['registers'].text}") == 1
    assert page.count(f"<summary>{QUESTIONS['copies'].text}") == 2


def test_a_kernel_without_roles_names_warps() -> None:
    role = "load + multiply"
    barrier = {"count": 1, "arrivals": [{"kind": "threads", "role": role, "per_phase": 1.0}]}
    drain = {"found": True, "evidence": f"{role} waits until all is empty", "lines": []}
    known = record(
        roles=[{"name": role, "warps": [0], "some": {}}, {"name": "store", "warps": [1, 2], "some": {}}],
        pipelines=[{"name": f"a: {role} → {role} and store", "producers": [role], "consumers": [role, "store"]}],
        barriers=[{**barrier, "waits": [{"role": role, "lines": ["x.py:1"]}, {"role": "store", "lines": ["x.py:1"]}]}],
        named_barriers=[],
        patterns={"warp specialisation": {"found": False}, "pipeline drain": drain},
    )
    (function,) = by_warps(known).functions
    assert function.pipelines[0].name == "a: warp 0 → warps 0-2"
    assert function.barriers[0].waits == [Waiter("warps 0-2", ["x.py:1"])]
    assert function.patterns["pipeline drain"].evidence.startswith("warp 0 waits")
    patterns = known.functions[0].patterns
    patterns["warp specialisation"] = replace(patterns["warp specialisation"], present=True)
    assert by_warps(known) is known


def test_a_path_shows_timelines_and_the_whole_page_pairs() -> None:
    kernels = ["blend/one", "blend/two"]
    goals = learning(
        goals=[{"name": "One", "kernels": kernels, "questions": ["copies"]}],
        paths={"a": {"name": "A", "steps": [{"kernel": kernels[0], "why": "first"}], "questions": ["copies"]}},
        pairs=[{"kernels": kernels, "why": "Two ways.", "questions": ["copies", "registers"]}],
    )
    builds = {kernel: (f"{kernel}/sm_100a/v", []) for kernel in kernels}
    known = {kernels[0]: record(), kernels[1]: record(counts={"tma_load": 7})}
    page = render(Asked("learn", goals, builds, {}, []), known, "learn")
    assert "Two ways." in page and "<td>Instructions in the code: 7 TMA load.</td>" in page
    timeline = {"svg": Markup("<svg id='t'></svg>"), "caption": "Predicted."}
    path = render(Asked("learn_path_a", goals, builds, {}, []), known, "learn", {kernels[0]: timeline})
    assert "<svg id='t'></svg>" in path and "Two ways." not in path
    del known[kernels[1]]
    assert "Two ways." not in render(Asked("learn", goals, builds, {}, []), known, "learn")
