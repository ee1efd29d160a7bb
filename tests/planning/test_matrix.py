"""The plan: builds, cases, what runs here, and what is left out with a reason."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml

from cutesnake.model.catalog import no_group_key
from cutesnake.model.contract import Variant
from cutesnake.model.paths import ROOT
from cutesnake.model.stages import GPU_STAGES
from cutesnake.planning import matrix
from cutesnake.planning.config import ConfigError, Experiment, check
from cutesnake.planning.sweep import make_sweep

SWEEP = {
    "kernels": ["dynamic", "baked", "narrow"],
    "dtypes": ["fp32", "bf16"],
    "distributions": ["randn"],
    "workloads": [{"rows": [1, 2], "columns": 8}],
    "profile": ["m1_n8"],
}


def experiment(stages: tuple[str, ...] = ("correctness", "timing", "ncu"), **changes) -> Experiment:
    sweep = make_sweep("elementwise_add", {**SWEEP, **changes})
    return Experiment(["sm_90a", "sm_100a"], list(stages), {"elementwise_add": sweep}, [0], None, {})


def kernel(targets, supports, variants, group_key=no_group_key):
    known = {"DSL": "cute", "SOURCE": "ours", "NEEDS": {}, "TARGETS": targets, "group_key": group_key}
    return SimpleNamespace(**known, supports=supports, variants=variants)


KERNELS = {
    "dynamic": kernel(
        {"sm_90a": (), "sm_100a": ()},
        lambda w: None,
        lambda w, target: (
            Variant(f"{w.dtype}_t64", {"dtype": w.dtype}),
            Variant(f"{w.dtype}_t128", {"dtype": w.dtype}),
        ),
    ),
    "baked": kernel(
        {"sm_90a": ()}, lambda w: None, lambda w, target: (Variant(f"{w.dtype}_m{w.rows}", {"rows": w.rows}),)
    ),
    "narrow": kernel(
        {"sm_100a": ("tcgen05",)},
        lambda w: None if w.dtype == "bf16" else "takes bf16 only",
        lambda w, target: (Variant("bf16", {}),),
    ),
}


@pytest.fixture
def plan(monkeypatch, tmp_path, machine):
    monkeypatch.setattr(matrix, "load_kernel", lambda operator, name: KERNELS[name])

    def make(name: str, **changes) -> matrix.Plan:
        return matrix.make_plan(experiment(**changes), machine(name))

    return make


def builds(plan, kernel):
    return sorted(b.target + "/" + b.variant.id for b in plan.builds.values() if b.kernel == kernel)


def test_one_build_serves_all_sizes_of_a_dynamic_kernel(plan) -> None:
    result = plan("none")
    assert builds(result, "dynamic") == [f"{t}/{d}_t64" for t in ("sm_100a", "sm_90a") for d in ("bf16", "fp32")]
    assert builds(result, "baked") == [f"sm_90a/{d}_m{m}" for d in ("bf16", "fp32") for m in (1, 2)]


def test_where_no_card_is_one_build_stands_for_those_that_differ_in_baked_sizes_only(plan, monkeypatch) -> None:
    monkeypatch.setattr(KERNELS["baked"], "group_key", lambda variant: variant.id.partition("_")[0])
    result = plan("none")
    assert builds(result, "baked") == ["sm_90a/bf16_m1", "sm_90a/fp32_m1"]  # m1 is profiled
    key = "elementwise_add/baked/sm_90a/{}"
    assert result.stand_ins == {key.format(f"{d}_m2"): key.format(f"{d}_m1") for d in ("bf16", "fp32")}
    assert len(result.cases) == 4 * 2 + 4 + 2  # recorded sets may have measured them
    assert not plan("h200").stand_ins and len(builds(plan("h200"), "baked")) == 4


def test_every_baked_size_is_built_on_request(monkeypatch, machine, tmp_path) -> None:
    monkeypatch.setattr(matrix, "load_kernel", lambda operator, name: KERNELS[name])
    monkeypatch.setattr(KERNELS["baked"], "group_key", lambda variant: "one of a kind")
    asked = replace(experiment(), every_size=True)
    assert len(builds(matrix.make_plan(asked, machine("none")), "baked")) == 4


def test_what_is_alike_must_be_a_text(plan, monkeypatch) -> None:
    monkeypatch.setattr(KERNELS["baked"], "group_key", lambda variant: 1)
    result = plan("none")
    assert "group_key() gives 1 for" in result.broken["elementwise_add", "baked"]
    assert not builds(result, "baked")


def test_all_variants_on_request(plan) -> None:
    result = plan("none", variants="all")
    assert "sm_90a/bf16_t128" in builds(result, "dynamic")


def test_without_a_gpu_no_job_and_every_case_has_its_reason(plan) -> None:
    result = plan("none")
    assert not any(list(result.cases_to_run(stage)) for stage in GPU_STAGES)
    assert len(result.cases) == 4 * 2 + 4 + 2
    assert all(not d.run.ok and d.run.reason for d in result.decisions)


def test_a_gpu_turns_its_own_cases_into_jobs(plan) -> None:
    result = plan("h200")
    timed = list(result.cases_to_run("timing"))
    assert {case.build.target for case in timed} == {"sm_90a"}
    assert len(timed) == 4 + 4
    assert {case.workload.id for case in result.cases_to_run("ncu")} == {"m1_n8_fp32", "m1_n8_bf16"}
    assert not list(result.cases_to_run("nsys"))  # not among the stages


@pytest.mark.parametrize(
    ("name", "target", "kernels"),
    [
        ("h200", "sm_90a", {"cute_sm90", "cutile", "torch_sdpa", "cute"}),
        ("gb200", "sm_100a", {"cutlass_fp16", "cute_sm100", "cutile", "torch_sdpa", "cute"}),
        ("gb300", "sm_103a", {"cutlass_fp16", "cute_sm100", "cutile", "torch_sdpa", "cute"}),
        ("rtx5090", "sm_120a", {"cutile", "torch_sdpa", "cute"}),
        ("rtx_pro_6000", "sm_120a", {"cutile", "torch_sdpa", "cute"}),
        ("gb10", "sm_121a", {"torch_sdpa", "cute", "cutile"}),
        ("thor", "sm_110a", {"torch_sdpa", "cute", "cutile"}),
        ("h100_mig", "sm_90a", {"cute_sm90", "cutile", "torch_sdpa", "cute"}),
    ],
)
def test_by_default_a_card_runs_what_is_written_for_it(machine, tmp_path, name, target, kernels) -> None:
    default = check(yaml.safe_load((ROOT / "config" / "config.yaml").read_text()))
    timed = {(c.build.kernel, c.build.target) for c in matrix.make_plan(default, machine(name)).cases_to_run("timing")}
    assert {where for _, where in timed} == {target} and {kernel for kernel, _ in timed} >= kernels


def test_without_a_card_here_is_no_target(machine, tmp_path) -> None:
    default = check(yaml.safe_load((ROOT / "config" / "config.yaml").read_text()))
    for name in ("none", "a100"):
        result = matrix.make_plan(default, machine(name))
        assert {d.target for d in result.decisions} == {"sm_90a", "sm_100a"}


@pytest.mark.parametrize(
    ("name", "message"), [("none", "without a GPU"), ("a100", "on a GPU of compute capability 8.0")]
)
def test_nothing_but_here_needs_a_card(plan, machine, tmp_path, name, message) -> None:
    asked = replace(experiment(), targets=["here"])
    with pytest.raises(ConfigError, match=f"`here` stands for no target {message}; allowed: sm_90a"):
        matrix.make_plan(asked, machine(name))


def test_what_a_kernel_cannot_compute_is_listed(plan) -> None:
    result = plan("b200").of("elementwise_add")
    assert {entry["workload"] for entry in result["unsupported"]} == {"m1_n8_fp32", "m2_n8_fp32"}
    assert {entry["reason"] for entry in result["unsupported"]} == {"takes bf16 only"}
    assert {"operator", "kernel", "workload", "reason"} == set(result["unsupported"][0])


def test_dtypes_per_target(plan) -> None:
    result = plan("none", dtypes={"sm_90a": ["bf16"], "sm_100a": ["fp32"]})
    assert builds(result, "dynamic") == ["sm_100a/fp32_t64", "sm_90a/bf16_t64"]
    assert builds(result, "narrow") == []


def test_a_changed_sweep_changes_no_build_of_a_dynamic_kernel(plan) -> None:
    more = plan("none", workloads=[{"rows": [1, 2, 3], "columns": 8}])
    assert builds(more, "dynamic") == builds(plan("none"), "dynamic")
    assert len(more.cases) > len(plan("none").cases)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"supports": lambda w: 1 / 0}, "ZeroDivisionError"),
        ({"variants": lambda w, target: ()}, "gives none for m1_n8_fp32"),
        ({"variants": lambda w, target: (Variant("a", {}), Variant("a", {}))}, "the id 'a' twice"),
        ({"variants": lambda w, target: (Variant("a/b", {}),)}, "the id 'a/b'"),
    ],
)
def test_a_broken_kernel_is_a_row_and_the_others_go_on(plan, monkeypatch, fault, message) -> None:
    whole = plan("h200")
    broken = SimpleNamespace(**{**vars(KERNELS["dynamic"]), **fault})
    monkeypatch.setitem(KERNELS, "dynamic", broken)
    result = plan("h200")
    rows = [d for d in result.decisions if d.kernel == "dynamic"]
    assert [row.target for row in rows] == ["sm_90a", "sm_100a"]
    assert all(message in row.build.reason and not row.run.ok for row in rows)
    assert builds(result, "dynamic") == [] and builds(result, "baked") == builds(whole, "baked")


def test_one_id_must_not_stand_for_two_builds(plan, monkeypatch) -> None:
    careless = kernel({"sm_90a": ()}, lambda w: None, lambda w, target: (Variant("same", {"rows": w.rows}),))
    monkeypatch.setitem(KERNELS, "baked", careless)
    result = plan("none", dtypes=["fp32"])
    reason = result.broken["elementwise_add", "baked"]
    assert "the id 'same' to {'rows': 1}, and for m2_n8_fp32 to {'rows': 2}: an id must stand for one build" in reason
    assert not any("/baked/" in key for key in result.builds) and any("/dynamic/" in key for key in result.builds)


@pytest.mark.fault("Configuration", "a target without dtypes", "a row that says so")
def test_a_target_without_a_dtype_of_its_own_says_so(plan) -> None:
    result = plan("none", dtypes={"sm_90a": ["fp32"]})
    (decision,) = (d for d in result.decisions if (d.kernel, d.target) == ("dynamic", "sm_100a"))
    assert not decision.build.ok and decision.build == decision.run
    assert decision.build.reason.startswith(
        "no dtype is asked for on sm_100a: `dtypes` of the sweep of elementwise_add"
    )
    assert "(it has some for sm_90a); add `sm_100a: […]` there" in decision.build.reason
