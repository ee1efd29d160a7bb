"""Builds shown from records.

Which of them hold, what a run makes itself, and what turns live when code changes.
"""

import dataclasses
import json
import os
import re
from types import SimpleNamespace

import pytest

import dry_runs
import sample
from cutesnake.model import kept_builds, record
from cutesnake.model.contract import Variant
from cutesnake.model.kept_builds import Key
from cutesnake.model.paths import ROOT
from cutesnake.planning import recorded_builds
from cutesnake.planning.matrix import Build, Plan, PlannedCase
from cutesnake.planning.recorded_builds import Recipes
from project import OWN_OUTPUT, append, copy_project

NAMES = ("compile", "inspect", "correctness/w")


@dataclasses.dataclass(frozen=True)
class Workload:
    id: str = "w"
    dtype: str = "fp32"


def build(variant, kernel="cute", target="sm_90a"):
    return Build("op", kernel, target, Variant(variant, {}))


def recipe(what, version="1"):
    return {"code": {"kernels/op/cute.py": what, "workflow": "other"}, "params": {}, "versions": {"torch": version}}


@pytest.fixture
def plan():
    """Three builds of one kernel, of which the second is checked by simulation."""
    builds = {one.key: one for one in map(build, ("first", "second", "third"))}
    case = PlannedCase(builds["op/cute/sm_90a/second"], Workload())
    return Plan(SimpleNamespace(), builds=builds, simulated={case.key: case})


def recipes(code="same", version="1"):
    def same(one):
        return recipe(code, version)

    return Recipes(same, same, same, same, lambda build: None)


def keep(folder, plan, made):
    """Write a file in which every build is kept, without its records."""
    lines = []
    for one in plan.builds.values():
        keys = recorded_builds.keys_of(plan, one, made)
        lines.append(kept_builds.KeptBuild(one.key, keys, {}))
    folder.mkdir(exist_ok=True)
    encoded = [kept_builds.msgspec.json.encode(line) for line in lines]
    (folder / "op.jsonl").write_bytes(b"\n".join(encoded) + b"\n")


def test_without_records_every_build_is_made(plan, tmp_path) -> None:
    assert recorded_builds.select(plan, tmp_path, recipes()).live == set(plan.builds)


def test_with_records_the_build_that_is_checked_is_made_and_others_are_shown(plan, tmp_path) -> None:
    keep(tmp_path, plan, recipes())
    chosen = recorded_builds.select(plan, tmp_path, recipes())
    assert chosen.live == {"op/cute/sm_90a/second"}
    assert chosen.kept == {f"op/cute/sm_90a/{name}": ("compile", "inspect") for name in ("first", "third")}
    assert chosen.warning() is None


def test_records_of_other_code_or_another_compiler_do_not_count(plan, tmp_path) -> None:
    keep(tmp_path, plan, recipes())
    for now in (recipes("changed"), recipes(version="2")):
        chosen = recorded_builds.select(plan, tmp_path, now)
        assert chosen.live == set(plan.builds) and not chosen.kept
        assert "record_builds" in chosen.warning()


def test_a_compiler_that_is_not_installed_is_not_compared(plan, tmp_path) -> None:
    keep(tmp_path, plan, recipes())
    assert len(recorded_builds.select(plan, tmp_path, recipes(version=None)).kept) == 2


def test_a_build_that_runs_on_a_gpu_here_is_made(plan, tmp_path) -> None:
    keep(tmp_path, plan, recipes())
    plan.running["op/cute/sm_90a"] = [""]
    assert recorded_builds.select(plan, tmp_path, recipes()).live == set(plan.builds)


def test_records_can_be_ignored(plan, tmp_path) -> None:
    keep(tmp_path, plan, recipes())
    assert recorded_builds.select(plan, tmp_path, recipes(), "ignore").live == set(plan.builds)


def test_with_only_records_no_build_is_made(plan, tmp_path) -> None:
    keep(tmp_path, plan, recipes())
    plan.running["op/cute/sm_90a"] = [""]
    chosen = recorded_builds.select(plan, tmp_path, recipes(), "only")
    assert chosen.live == frozenset() and set(chosen.kept) == set(plan.builds)
    stale = recorded_builds.select(plan, tmp_path, recipes("changed"), "only")
    assert stale.live == frozenset() and not stale.kept and stale.stale
    assert recorded_builds.places_of(tmp_path) == {"op/cute/sm_90a"}


def test_anatomy_is_shown_of_builds_that_are_not_made_and_its_code_is_the_same(plan, tmp_path) -> None:
    def with_anatomy(code):
        return dataclasses.replace(recipes(), of_anatomy=lambda build: recipe(code))

    def choose(code, *options):
        return recorded_builds.select(plan, tmp_path, with_anatomy(code), *options)

    keep(tmp_path, plan, with_anatomy("same"))
    second, third = "op/cute/sm_90a/second", "op/cute/sm_90a/third"
    assert choose("same").kept[third] == ("compile", "inspect", "anatomy") and second not in choose("same").kept
    assert set(choose("same", "only").kept[second]) == {*NAMES, "anatomy"}
    assert choose("changed").kept[third] == ("compile", "inspect") and choose("changed").stale == 2
    assert choose("same", "use", True).live == {second} and choose("changed", "use", True).live == set(plan.builds)
    keep(tmp_path, plan, recipes())
    assert choose("same", "use", True).live == set(plan.builds)


def test_a_build_without_anatomy_is_kept_without_it(tmp_path) -> None:
    entry = next(one for one in sample.evidence().builds.values() if one["status"] == "ok")
    record.write("compile", tmp_path / "build.json", entry)
    names = ("blend/cutile/sm_90a/v", "blend/torch/sm_90a/eager")
    keys = {name: {stage: ["a", {}] for stage in ("compile", "anatomy")} for name in names}
    build, missing = str(tmp_path / "build.json"), str(tmp_path / "none.json")
    places = {name: {"compile": build, "anatomy": where} for name, where in zip(names, (build, missing), strict=True)}
    kept_builds.write_builds(tmp_path, keys, places)
    read = kept_builds.read_keys(tmp_path / "blend.jsonl")
    assert [set(read[name].keys) for name in names] == [{"compile", "anatomy"}, {"compile"}]
    assert [b'"anatomy"' in (tmp_path / path).read_bytes() for path in ("blend.jsonl", "anatomy/blend.jsonl")] == [
        False,
        True,
    ]
    kept_builds.write_builds(tmp_path, keys, {name: {"compile": build, "anatomy": missing} for name in names})
    assert {name: set(one.keys) for name, one in kept_builds.read_keys(tmp_path / "blend.jsonl").items()} == {
        name: set(read[name].keys) for name in names
    }


def test_a_damaged_file_is_one_clear_line(plan, tmp_path) -> None:
    (tmp_path / "op.jsonl").write_text('{"build": "op/cute/sm_90a/first", "keys": {}}\n{"build"')
    with pytest.raises(kept_builds.RecordedBuildsError, match=r"op.jsonl, line 2: .*from git") as error:
        recorded_builds.select(plan, tmp_path, recipes())
    assert "\n" not in str(error.value)


def test_records_come_back_as_they_were_without_what_only_their_machine_explains(tmp_path) -> None:
    evidence = sample.evidence()
    path, entry = next((path, one) for path, one in evidence.builds.items() if one["status"] == "ok")
    (tmp_path / "build.json").parent.mkdir(exist_ok=True)
    record.write("compile", tmp_path / "build.json", entry)
    name = "blend/cutile/sm_90a/v"
    keys = {name: {"compile": ["digest", {"torch": "1"}]}}
    assert kept_builds.write_builds(tmp_path, keys, {name: {"compile": str(tmp_path / "build.json")}}) == 1
    (result,) = kept_builds.read_records(tmp_path / "blend.jsonl", {name: ["compile"]}).items()
    assert kept_builds.is_kept(result[0]) and not kept_builds.is_kept(path)
    assert result[1].symbols == entry["symbols"] and result[1].files == {}
    assert kept_builds.read_keys(tmp_path / "blend.jsonl")[name].keys == {"compile": Key("digest", {"torch": "1"})}


def test_records_that_another_machine_made_stay_while_the_build_is_the_same(tmp_path) -> None:
    entry = next(one for one in sample.evidence().builds.values() if one["status"] == "ok")
    record.write("compile", tmp_path / "build.json", entry)
    name, paths = "blend/cutile/sm_90a/v", {"compile": str(tmp_path / "build.json")}

    def write(digest, *more):
        keys = {name: {stage: [digest, {}] for stage in ("compile", *more)}}
        kept_builds.write_builds(tmp_path, keys, {name: paths | {stage: paths["compile"] for stage in more}})
        return set(kept_builds.read_keys(tmp_path / "blend.jsonl")[name].keys)

    assert write("a", "correctness/w") == {"compile", "correctness/w"}
    assert write("a") == {"compile", "correctness/w"}
    assert write("b") == {"compile"}


def test_records_stand_for_a_build_with_its_first_check_and_prediction_unless_it_spills(predicted, tmp_path) -> None:
    second, made = predicted.builds["op/cute/sm_90a/second"], recipes()

    def standing(now=made, local_memory=0, without=""):
        keys = recorded_builds.keys_of(predicted, second, made)
        entry = next(iter(sample.evidence().inspected.values()))
        entry["functions"][0]["instructions"]["local_memory"] = local_memory
        records = {"inspect": kept_builds.msgspec.Raw(json.dumps(entry).encode())}
        kept = kept_builds.KeptBuild(second.key, {name: keys[name] for name in keys if name != without}, records)
        (tmp_path / "op.jsonl").write_bytes(kept_builds.msgspec.json.encode(kept))
        return recorded_builds.standing_for(predicted, second, tmp_path, now)

    assert standing() == ("compile", "inspect", "correctness/w", "predict/w")
    assert standing(local_memory=1) == ("correctness/w", "predict/w")
    assert all(standing(without=name) == () for name in (*NAMES, "predict/w"))
    assert standing(recipes("changed")) == () == standing(recipes(version="2"))
    (tmp_path / "op.jsonl").unlink()
    assert recorded_builds.standing_for(predicted, second, tmp_path, made) == ()


def test_toolchains_are_compared_by_the_first_check_and_the_smallest_prediction(predicted, monkeypatch) -> None:
    second = predicted.builds["op/cute/sm_90a/second"]
    cases = [PlannedCase(second, Workload(name)) for name in ("large", "small", "medium")]
    predicted.cases = {case.key: case for case in cases}
    predicted.foreseen = {("op", "cute", case.workload.id) for case in cases}
    work = {"large": 9, "small": 1, "medium": 5}
    operator = SimpleNamespace(cost=lambda workload: SimpleNamespace(flops=0, bytes=work[workload.id]))
    monkeypatch.setattr(recorded_builds, "load_operator", lambda name: operator)
    chosen = recorded_builds.compared(predicted, second)
    assert {stage: case.workload.id for stage, case in chosen.items()} == {"correctness": "w", "predict": "small"}
    assert recorded_builds.compared(predicted, predicted.builds["op/cute/sm_90a/first"]) == {}


def test_a_build_that_is_made_repeats_its_first_checks_and_shows_the_others(plan, tmp_path) -> None:
    second = plan.builds["op/cute/sm_90a/second"]
    cases = [PlannedCase(second, Workload(name)) for name in ("w", "x", "y", "z")]
    plan.simulated = {case.key: case for case in cases}
    assert recorded_builds.select(plan, tmp_path, recipes()).checking == set(plan.simulated)
    keep(tmp_path, plan, recipes())
    chosen = recorded_builds.select(plan, tmp_path, recipes())
    first = {case.key for case in cases[: recorded_builds.FIRST_CHECKS]}
    assert first and chosen.checking == first and chosen.live == {second.key}
    assert chosen.kept[second.key] == ("correctness/y", "correctness/z")
    plan.sources["op", "cute"] = "upstream"
    others = recorded_builds.select(plan, tmp_path, recipes())
    assert not others.checking and others.live == {second.key} and len(others.kept[second.key]) == len(cases)
    del plan.sources["op", "cute"]
    assert recorded_builds.select(plan, tmp_path, recipes(), "ignore").checking == set(plan.simulated)
    assert not recorded_builds.select(plan, tmp_path, recipes(), "only").checking
    changed = dataclasses.replace(recipes(), of_check=lambda case: recipe("changed" if case == cases[3] else "same"))
    assert recorded_builds.select(plan, tmp_path, changed).checking == first | {cases[3].key}
    for now in (recipes("changed"), recipes(version="2")):
        assert recorded_builds.select(plan, tmp_path, now).checking == set(plan.simulated)


@pytest.fixture
def predicted(plan):
    """The plan with a predicted case of its checked build, and of another one."""
    cases = [PlannedCase(plan.builds[f"op/cute/sm_90a/{name}"], Workload("w")) for name in ("second", "third")]
    plan.cases = {case.key: case for case in cases}
    plan.clocks, able = {"sm_90a": "h200"}, SimpleNamespace(ok=True)
    plan.decisions = [SimpleNamespace(operator="op", kernel="cute", target="sm_90a", simulate=able)]
    plan.foreseen = {("op", "cute", "w")}
    return plan


def test_a_prediction_with_a_record_is_shown_and_not_made_again(predicted, tmp_path) -> None:
    assert recorded_builds.select(predicted, tmp_path, recipes()).predicting == set(predicted.cases)
    keep(tmp_path, predicted, recipes())
    chosen = recorded_builds.select(predicted, tmp_path, recipes())
    assert chosen.live == {"op/cute/sm_90a/second"} and not chosen.predicting
    assert chosen.kept["op/cute/sm_90a/second"] == ("predict/w",)
    assert recorded_builds.select(predicted, tmp_path, recipes(), "ignore").predicting == set(predicted.cases)


def test_a_prediction_that_a_sweep_lists_for_every_run_is_made_again(predicted, tmp_path) -> None:
    keep(tmp_path, predicted, recipes())
    predicted.foreseen_always = {("op", "w")}
    chosen = recorded_builds.select(predicted, tmp_path, recipes())
    assert chosen.predicting == {"op/cute/sm_90a/second/w"} and "op/cute/sm_90a/second" not in chosen.kept


def test_a_prediction_of_other_sources_is_neither_shown_nor_made(predicted, tmp_path) -> None:
    keep(tmp_path, predicted, recipes())
    simulator = dataclasses.replace(recipes(), of_prediction=lambda case: recipe("changed"))
    for now in (simulator, recipes("changed")):
        chosen = recorded_builds.select(predicted, tmp_path, now)
        assert not chosen.predicting and "op/cute/sm_90a/second" not in chosen.kept and chosen.stale


def test_refreshing_compares_what_it_checks_and_predicts_again(predicted, tmp_path) -> None:
    keep(tmp_path, predicted, recipes())
    current = recorded_builds.select(predicted, tmp_path, recipes())
    assert recorded_builds.select(predicted, tmp_path, recipes(), refreshing=True) == current
    simulator = dataclasses.replace(recipes(), of_prediction=lambda case: recipe("changed"))
    chosen = recorded_builds.select(predicted, tmp_path, simulator, refreshing=True)
    assert chosen.predicting == set(predicted.cases) and chosen.live == current.live
    third = predicted.builds["op/cute/sm_90a/third"]
    case = PlannedCase(third, Workload())
    predicted.simulated[case.key] = case
    vars(predicted).pop("checks_of_builds", None)
    assert third.key in recorded_builds.select(predicted, tmp_path, recipes(), refreshing=True).live


def test_predictions_of_a_build_come_back_from_their_differences(tmp_path) -> None:
    entry = next(one for one in sample.evidence().builds.values() if one["status"] == "ok")
    record.write("compile", tmp_path / "build.json", entry)
    launch = {"name": "kernel" * 30, "end_us": 1.0}
    first = {"case": {"workload": "a"}, "reason": None, "metrics": {"us": 1.0, "launches": [launch, launch]}}
    again = {
        "case": {"workload": "b"},
        "reason": None,
        "metrics": {"us": 2.0, "launches": [launch, {**launch, "end_us": 3.0}]},
    }
    failed = {"case": {"workload": "c"}, "reason": "too long", "metrics": None}
    other = {"case": {"workload": "d"}, "reason": None, "metrics": {"us": 1.0, "launches": [launch]}}
    records = {f"predict/{one['case']['workload']}": one for one in (first, again, failed, other)}
    raw = {name: kept_builds.msgspec.Raw(json.dumps(one).encode()) for name, one in records.items()}
    small = kept_builds._compact(raw)
    assert len(bytes(small["predict/b"])) < 0.5 * len(json.dumps(again))
    assert {name: json.loads(bytes(text)) for name, text in kept_builds._expanded(small).items()} == records


def planned_builds(project, *targets):
    """Return builds that a default dry run would compile, and its output."""
    environment = {**os.environ, "CUTESNAKE_MACHINE": str(project / "tests/machines/none.json")}
    done = dry_runs.run(["--cores", "1", "--dry-run", OWN_OUTPUT, *targets], project, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    message = done.stdout + done.stderr
    result = re.findall(r"^ +output: .*results/compile/(\S+)/build\.json", message, re.MULTILINE)
    return [tuple(one.split("/")) for one in result], message


@pytest.mark.slow
def test_records_of_the_default_sweep_are_current(fresh) -> None:
    builds, message = planned_builds(fresh, "catalogue")
    places = [build[:3] for build in builds]
    assert len(places) == len(set(places)) > 50
    assert "of other sources" not in message


@pytest.mark.slow
def test_editing_a_kernel_turns_its_builds_live_and_no_others(tmp_path) -> None:
    project = copy_project(tmp_path)
    before, _ = planned_builds(project, "results/mla_report.html")
    append(project / "kernels/rmsnorm/tilegym.py", "\n# nothing but a comment\n")
    assert sorted(planned_builds(project, "results/mla_report.html")[0]) == sorted(before)
    append(project / "kernels/mla_decode/cute_sm100/kernel.py", "\nEDITED = 1\n")
    after, message = planned_builds(project, "results/mla_report.html")
    more = set(after) - set(before)
    assert more and {build[1] for build in more} == {"cute_sm100"} and "of other sources" in message


@pytest.mark.slow
def test_what_record_builds_predicts_is_compared_in_the_run_that_predicts_it(tmp_path) -> None:
    project = copy_project(tmp_path)
    append(project / "workflow/scripts/cutesnake/stages/predict/validated.py", "\nEDITED = 1\n")
    _, message = planned_builds(project, "record_builds", "--config", "operators=[elementwise_add]")
    (compared,) = re.findall(r"^rule compare:\n +input: (.*)", message, re.MULTILINE)
    predicted = set(re.findall(r"^ +output: (results/predict/\S+)", message, re.MULTILINE))
    assert predicted and predicted <= set(compared.split(", "))


@pytest.mark.parametrize("kernel", ["cute_sm90", "cute_sm100"])
def test_a_recorded_check_of_each_build_gives_a_persistent_cta_several_items(kernel) -> None:
    """What a CTA leaves behind for its next item is tested only then."""
    items: dict[str, int] = {}
    for line in (ROOT / "recorded/builds/mla_decode.jsonl").read_text().splitlines():
        kept = json.loads(line)
        checks = [
            entry for entry in kept["records"].values() if entry.get("stage") == "correctness" and entry["metrics"]
        ]
        if kept["build"].split("/")[1] == kernel and checks:
            seen = [part["items"] for entry in checks for part in entry["metrics"]["simulated"]["coverage"]]
            items[kept["build"]] = max(seen)
    assert items and min(items.values()) > 1, items


def test_every_operator_has_three_workloads_predicted_in_both_languages() -> None:
    for path in sorted((ROOT / "recorded/builds").glob("*.jsonl")):
        predicted: dict[str, set[str]] = {"cute": set(), "cutile": set()}
        for line in path.read_text().splitlines():
            records = json.loads(line)["records"]
            for name in records:
                entry = records[name]
                whole = records[entry["like"]] if "like" in entry else entry
                status = entry.get("but", {}).get("status", whole.get("status"))
                if name.startswith("predict/") and status == "ok":
                    predicted[records["compile"]["dsl"]].add(name)
        assert len(predicted["cute"] & predicted["cutile"]) >= 3, path.stem
