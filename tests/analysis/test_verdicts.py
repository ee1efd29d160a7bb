"""Verdicts from evidence: every GPU and prediction, with flags, authors, costs, clocks and sentences."""

from __future__ import annotations

import dataclasses
import importlib
from types import SimpleNamespace

import msgspec
import pytest
from verdict_samples import prediction, timings

import sample
from cutesnake.analysis.compare.comparison import compare
from cutesnake.analysis.compare.noise import Time
from cutesnake.analysis.verdict import cost, python_lines, sentences
from cutesnake.analysis.verdict.authors import author, read_authors
from cutesnake.analysis.verdict.causes import rules
from cutesnake.analysis.verdict.clocks import warm_slower
from cutesnake.analysis.verdict.decide import decide, pairing
from cutesnake.analysis.verdict.python_lines import count_lines, split
from cutesnake.analysis.verdict.verdicts import verdicts
from cutesnake.model.catalog import kernel_files, load_kernel, operators
from cutesnake.model.paths import ROOT
from cutesnake.model.records.common import Variant
from cutesnake.model.records.predict import Predict
from cutesnake.model.records.verdict import Cause, Explained
from cutesnake.planning import strict_yaml
from cutesnake.report.verdict import MOST_EXPLAINED, flag_texts, rows, short_names, view
from loose import typed


def evidence(**options):
    return typed(sample.evidence(**options))


@pytest.fixture(scope="module")
def verdict():
    everything = evidence(gpu=True, recorded=True)
    return verdicts(everything, compare(everything))


def test_every_gpu_that_timed_both_dsls_has_a_verdict(verdict):
    bases = {(one.target, one.warm.basis): one for one in verdict.targets if one.warm}
    assert set(bases) == {("sm_90a", "measured"), ("sm_90a", "recorded")}
    for one in bases.values():
        assert one.gpu == "H200"
        assert (one.warm.winner, one.cold.winner) == ("cute", "cute")  # made-up times: see sample.timing
        assert one.warm.workloads == len(one.warm.pairs)
        assert not one.rival("warm").beats_both


def test_flags_name_authors_and_power(verdict):
    flags = {flag.id: flag for flag in verdict.targets[0].flags}
    assert "different_authors" not in flags  # both kernels are `this project's`
    assert "few_workloads" not in flags


def test_power_limit_and_hosts_are_flagged():
    everything = evidence(gpu=True)
    measured = dict(everything.measured)
    for path, entry in measured.items():
        if entry.stage == "timing":
            slow = 3.2 if entry.case.kernel == "cutile" else 4.8
            metrics = msgspec.structs.replace(
                entry.metrics, throttle_reasons=["software power cap"], empty_launch_us=slow, hot_sm_clock_mhz=1500.0
            )
            measured[path] = msgspec.structs.replace(entry, metrics=metrics)
    changed = sample.replace(everything, measured=measured)
    flags = {flag.id: flag for flag in verdicts(changed, compare(changed)).targets[0].flags}
    limited = flags["power_limit"].values
    assert limited["cute"] == limited["cutile"] == limited["timed"] > 0
    assert flags["different_hosts"].values["workloads"] > 0


@pytest.mark.parametrize(
    ("hot", "clock", "reasons", "cause"),
    [
        (1.1, 1500.0, ["software power cap"], "power limit"),
        (1.1, 1500.0, [], "clock"),
        (1.1, 1975.0, ["software power cap"], "unknown"),
        (1.1, None, ["software power cap"], "power limit"),
        (1.01, 1500.0, ["software power cap"], None),
    ],
)
def test_warm_times_longer_than_cold_ones_are_explained_by_the_clock(hot, clock, reasons, cause):
    everything = evidence(gpu=True)
    path, entry = next((p, e) for p, e in everything.measured.items() if e.stage == "timing")
    metrics = msgspec.structs.replace(
        entry.metrics, hot_us=hot * entry.metrics.cold_us, hot_sm_clock_mhz=clock, throttle_reasons=reasons
    )
    changed = sample.replace(everything, measured={path: msgspec.structs.replace(entry, metrics=metrics)})
    (source,) = (one for one in changed.sources("sm_90a") if one.kind == "live")
    explained = warm_slower(changed, source, "sm_90a")
    assert [one.cause for one in explained] == ([cause] if cause else [])


def test_recorded_warm_times_of_mla_are_longer_by_the_power_limit():
    _, entry = timings("mla_decode")["cute_sm90", "b128_q1_s8192_bf16"]
    assert entry.metrics.hot_us > 1.1 * entry.metrics.cold_us
    assert entry.metrics.hot_sm_clock_mhz < 0.9 * entry.metrics.sm_clock_mhz


def test_every_kernel_has_a_known_author():
    sources = strict_yaml.read(ROOT / "kernels/upstream.yaml")
    assert {"ours", *sources} == set(read_authors().sources)
    for operator in operators():
        for name in kernel_files(operator):
            kernel = load_kernel(operator, name)
            result = author(operator, name, kernel.DSL, kernel.SOURCE)
            assert result.name not in (kernel.SOURCE, "")
            assert result.name in {one.name for one in _known()}


def _known():
    file = read_authors()
    return [*file.sources.values(), *file.packages.values(), *file.dsls.values()]


def test_documented_versions_name_kernels_and_files_that_exist():
    for key, design in read_authors().kernels.items():
        operator, _, kernel = key.partition("/")
        assert kernel in kernel_files(operator)
        assert (ROOT / design.evidence).is_file()


MODULE = '''"""Docstring."""

import cutlass
from cutlass import cute


@cute.kernel
def device(x):
    """Say nothing."""
    # A comment.
    return x


@cute.jit
def launcher(x):
    device(x).launch(grid=1)


def unused():
    return 1
'''


def test_lines_are_split_by_what_launches_and_what_imports_the_dsl():
    host, device = split(MODULE)
    assert (host, device) == (2 + 3, 3 + 2)  # imports and the launcher; two functions
    assert split(MODULE, frozenset({"launcher"})) == (3, 3)
    assert split("def f():\n    return 1\n") == (2, 0)


def test_lines_of_a_kernel_are_those_of_its_modules():
    result = count_lines("elementwise_add", "cute")
    assert result.files == ["kernels/elementwise_add/cute/__init__.py", "kernels/elementwise_add/cute/kernel.py"]
    assert result.host > 0
    assert result.device > 0
    assert count_lines("elementwise_add", "no_such_kernel") is None


def test_lines_of_a_third_party_kernel_are_what_its_adapter_names(tmp_path):
    (tmp_path / "hopper").mkdir()
    (tmp_path / "hopper/fmha.py").write_text(MODULE.replace("launcher", "HopperFusedMultiHeadAttentionForward"))
    (tmp_path / "blackwell").mkdir()
    (tmp_path / "blackwell/fmha.py").write_text(MODULE)
    result = count_lines("fmha", "cutlass_sm90", tmp_path)
    assert result.files[-1] == "hopper/fmha.py"
    assert not any(name.startswith("blackwell") for name in result.files)
    (tmp_path / "empty").mkdir()
    assert count_lines("fmha", "cutlass_sm90", tmp_path / "empty") is None


def test_lines_of_a_package_that_is_not_fetched_are_recorded_ones(tmp_path, monkeypatch):
    (tmp_path / "flashinfer-python/hopper").mkdir(parents=True)
    example = MODULE.replace("launcher", "HopperFusedMultiHeadAttentionForward")
    (tmp_path / "flashinfer-python/hopper/fmha.py").write_text(example)
    monkeypatch.setattr(python_lines, "RECORDED", tmp_path / "lines.yaml")
    python_lines.record_lines(tmp_path, tmp_path / "lines.yaml")
    counted = count_lines("fmha", "cutlass_sm90", tmp_path / "flashinfer-python")
    known = python_lines.recorded_lines("fmha", "cutlass_sm90", "flashinfer-python")
    assert (known.host, known.device) == (counted.host, counted.device) > (0, 0)
    assert python_lines.recorded_lines("fmha", "tilegym", "tilegym") is None
    monkeypatch.setattr(python_lines, "_pinned", lambda source: f"{source} another")
    assert python_lines.recorded_lines("fmha", "cutlass_sm90", "flashinfer-python") is None


def test_costs_have_figures_or_reasons(verdict):
    costs = {(one.kernel, one.target): one for one in verdict.costs}
    assert ("torch_sdpa", "sm_90a") not in costs
    one = costs["cutile", "sm_90a"]
    assert (one.registers_per_thread, one.spill_bytes, one.compile_seconds) == (255, [48, 48], 2.5)
    assert one.theoretical_occupancy_percent == 12.5
    assert one.achieved_occupancy_percent == 12.3
    assert "lines" in one.missing  # the made-up operator has no files
    assert costs["cutlass_fp16", "sm_100a"].achieved_occupancy_percent is None
    assert "achieved_occupancy_percent" in costs["cutlass_fp16", "sm_100a"].missing


def test_each_cost_stands_below_the_gpu_of_its_target(verdict):
    first, *others = verdict.costs
    apart = [msgspec.structs.replace(first, kernel=name, target=name[0]) for name in ("a1", "b1", "a2")]
    table = view(msgspec.structs.replace(verdict, costs=[*others, *apart]))["more_costs"]
    names = [group["name"] for group in table["groups"] for _ in range(group["count"])]
    assert {
        name: kernel["kernel"][0] for name, kernel in zip(names, table["kernels"], strict=True) if len(name) == 1
    } == {
        "a": "a",
        "b": "b",
    }
    assert [kernel["kernel"] for kernel in table["kernels"][-3:]] == ["a1", "a2", "b1"]


def test_resources_are_those_of_what_ran_on_the_workload():
    def guess(workload, *names):
        launches = SimpleNamespace(cold=[SimpleNamespace(name=name) for name in names])
        case = SimpleNamespace(kernel="k", target="sm_100a", variant=SimpleNamespace(id="v"), workload=workload)
        return SimpleNamespace(case=case, metrics=SimpleNamespace(launches=launches))

    everything = SimpleNamespace(
        measured={}, recorded={}, predicted={"1": guess("w", "wide"), "2": guess("x", "narrow", "other")}
    )
    functions = [SimpleNamespace(symbol=name) for name in ("wide", "narrow", "other", "unused")]

    def ran(at):
        return [one.symbol for one in cost.ran(everything, "k", "sm_100a", "v", at, functions)]

    assert ran("w") == ["wide"]
    assert ran(None) == ran("y") == ["wide", "narrow", "other"]
    assert [one.symbol for one in cost.ran(everything, "k", "sm_100a", "z", "w", functions)][-1] == "unused"


def test_a_profile_of_another_build_is_no_cost_of_this_one():
    everything = evidence(gpu=True)
    measured = dict(everything.measured)
    for path, entry in measured.items():
        if entry.stage == "ncu" and entry.case.kernel == "cutile":
            other = msgspec.structs.replace(entry.case, variant=Variant("another", {}))
            measured[path] = msgspec.structs.replace(entry, case=other)
    everything = dataclasses.replace(everything, measured=measured)
    costs = {(one.kernel, one.target): one for one in verdicts(everything, compare(everything)).costs}
    assert costs["cutile", "sm_90a"].achieved_occupancy_percent is None


def test_a_verdict_says_where_another_gpu_timed_other_variants(verdict):
    assert not any(flag.id == "other_variants" for one in verdict.targets for flag in one.flags)
    everything = evidence(gpu=True, recorded=True)
    other = {
        path: msgspec.structs.replace(entry, case=msgspec.structs.replace(entry.case, variant=Variant("another", {})))
        for path, entry in everything.recorded.items()
        if (entry.stage, entry.case.kernel, entry.case.target) == ("timing", "cutile", "sm_90a")
    }
    result = verdicts(sample.replace(everything, recorded={**everything.recorded, **other}), compare(everything))
    live = next(one for one in result.targets if one.warm and one.warm.basis == "measured")
    (flag,) = (flag for flag in live.flags if flag.id == "other_variants")
    assert flag.kernel == "cutile" and flag.values["workloads"] == len(
        {entry.case.workload for entry in other.values()}
    )


def test_every_part_has_a_sentence(verdict):
    shown = view(verdict)
    for box in shown["boxes"]:
        texts = [*(line["text"] for line in box["headlines"]), box["kernels"], *box["small"], *box["flags"]]
        texts += [text for name, cells in box["rows"] for text in (name, *cells)]
        assert all(text and "{" not in text for text in texts)
        assert all(len(cells) == len(box["figures"]) for _, cells in box["rows"])
    assert all(kernel["title"] for kernel in shown["costs"]["kernels"])


def explained(**changes):
    values = {"figure": "warm", "basis": "measured", "contest": "dsls", "workload": "w", "faster": "a", "slower": "b"}
    return Explained(**{**values, "ratio": 1.2, "profiled": False, "causes": [], **changes})


def test_a_row_without_a_cause_says_whether_it_was_profiled(verdict):
    target = next(one for one in verdict.targets if one.warm)
    pair = target.warm.pairs[0]
    key = target.target, target.device.device, pair.workload
    out = Cause("equal_tiles", "Not the tile.", [], {})
    for values, label, sentence in (
        ({}, "Not profiled.", None),
        ({"profiled": True}, "Profiled, no rule names a cause.", None),
        ({"basis": "predicted"}, "Predicted, no rule names a cause.", None),
        ({"ruled_out": [out]}, "Not profiled.", "Not the tile."),
        ({"causes": [Cause("spills", "It spills.", [], {})]}, "Warm: register spills.", "It spills."),
    ):
        one = msgspec.structs.replace(target, explained=[explained(workload=pair.workload, **values)])
        row = rows(msgspec.structs.replace(verdict, targets=[one]))(*key)
        assert (row.label, row.sentence) == (label, sentence)
    both = [
        explained(workload=pair.workload, figure=figure, causes=[Cause("spills", "It spills.", [], {})])
        for figure in ("warm", "cold")
    ]
    one = msgspec.structs.replace(target, explained=both)
    assert rows(msgspec.structs.replace(verdict, targets=[one]))(*key).label == "Register spills."  # of both times
    unclear = [explained(workload=pair.workload), msgspec.structs.replace(both[1], clear=False)]
    one = msgspec.structs.replace(target, explained=unclear)
    assert rows(msgspec.structs.replace(verdict, targets=[one]))(*key).label == "Not profiled."  # the clear one
    equal = rows(msgspec.structs.replace(verdict, targets=[msgspec.structs.replace(target, explained=[])]))(*key)
    assert equal.label is None and f"warm {pair.noise_percent:.1f} %" in equal.sentence


def test_a_box_names_both_kinds_of_time_and_where_they_disagree(verdict):
    one = next(target for target in verdict.targets if target.warm)

    def box(**cold):
        decision = msgspec.structs.replace(one.cold, **cold)
        return view(msgspec.structs.replace(verdict, targets=[msgspec.structs.replace(one, cold=decision)]))["boxes"][0]

    (line,) = box()["headlines"]
    assert "warm" in line["text"] and "cold" in line["text"]
    turned = box(winner="cutile", cutile_wins=one.cold.cute_wins, cute_wins=[])
    assert [line["figure"] for line in turned["headlines"]] == ["warm:", "cold:"]


def test_why_counts_the_first_cause_of_each_workload_as_the_table_names_it(verdict):
    one = next(target for target in verdict.targets if target.warm)
    named = one.warm.pairs[0].cute
    spills, launch = Cause("spills", "It spills.", [], {}), Cause("second_launch", "Two launches.", [], {})
    clock = Cause("clock", "It ran slower.", [], {}, 100.0)
    every = [
        explained(workload="a", faster=named, causes=[spills, launch]),
        explained(workload="b", faster=named, causes=[launch]),
        explained(workload="c", faster=named, causes=[launch]),
        explained(workload="d", faster=named, causes=[clock]),
        explained(workload="e", faster=named),
    ]
    pairs = [msgspec.structs.replace(one.warm.pairs[0], workload=name) for name in "abcde"]
    warm = msgspec.structs.replace(one.warm, pairs=pairs, cute_wins=list("abcde"))
    target = msgspec.structs.replace(one, explained=every, warm=warm, cold=None)
    shown = view(msgspec.structs.replace(verdict, targets=[target]))
    (side,) = shown["why"]
    gpu = target.gpu.split()[0]
    assert [(cause["label"], cause["of"]) for cause in side["causes"]] == [
        ("Second launch.", f"{gpu}: 2 of 5"),
        ("Register spills.", f"{gpu}: 1 of 5"),
    ]
    assert side["rest"] == [f"lower clock ({gpu}: 1)", f"not profiled ({gpu}: 1)"]
    assert shown["boxes"][0]["flags"][-1].endswith("100 % at d warm")


def test_evidence_is_linked_and_both_kinds_of_contests_are_listed(verdict):
    one = next(target for target in verdict.targets if target.warm)
    cause = Cause("spills", "It spills.", ["results/inspect/a/b.json#functions/0"], {})
    place = one.warm.pairs[0].workload
    every = [explained(workload=place, faster=f"k{n}", causes=[cause]) for n in range(9)]
    every += [explained(contest="authors", faster=f"k{n}", causes=[cause]) for n in range(9)]
    shown = view(msgspec.structs.replace(verdict, targets=[msgspec.structs.replace(one, explained=every)]))
    assert len(shown["explained"]) == sum(MOST_EXPLAINED.values())
    (file,) = shown["explained"][0]["causes"][0]["files"]
    assert file == {"href": "inspect/a/b.json", "text": "a/b functions/0"}


def test_a_cold_lead_of_the_other_dsl_is_booked_under_that_dsl(verdict):
    one = next(target for target in verdict.targets if target.warm)
    pair = one.warm.pairs[0]
    spills, start = Cause("spills", "It spills.", [], {}), Cause("cold_start", "More code.", [], {}, 60.0)
    both = [
        explained(workload=pair.workload, faster=pair.cute, causes=[spills]),
        explained(workload=pair.workload, figure="cold", faster=pair.cutile, slower=pair.cute, causes=[start]),
    ]
    changed = msgspec.structs.replace(verdict, targets=[msgspec.structs.replace(one, explained=both)])
    sides = {side["name"]: [cause["label"] for cause in side["causes"]] for side in view(changed)["why"]}
    assert sides == {"CuTe DSL": ["Register spills."], "cuTile": ["Large code, fetched again."]}
    row = rows(changed)(one.target, one.device.device, pair.workload)
    assert row.label == "Warm: register spills." and "More code." in row.sentence


def test_a_box_without_a_winner_shows_both_times_of_the_largest_difference(verdict):
    one = next(target for target in verdict.targets if target.warm)
    (name, (warm, cold)) = next(
        row
        for row in view(msgspec.structs.replace(verdict, targets=[undecided(one)]))["boxes"][0]["rows"]
        if row[0].endswith("CuTe / cuTile")
    )
    assert all(f"{mhz:.0f}" in warm for mhz in (1500, 1600)) and "µs" in cold and name
    assert not any(row[0].endswith("CuTe / cuTile") for row in view(verdict)["boxes"][0]["rows"])


def undecided(target):
    """Return a verdict without a winner."""
    pairs = [msgspec.structs.replace(pair, mhz=[1500.0, 1600.0]) for pair in target.warm.pairs]
    warm, cold = (msgspec.structs.replace(one, winner="depends", pairs=pairs) for one in (target.warm, target.cold))
    return msgspec.structs.replace(target, warm=warm, cold=cold)


def test_workloads_are_named_by_the_part_that_no_other_one_has():
    every = ["m128_n8_bf16", "m128_n16_bf16", "m32_n8_bf16"]
    assert list(short_names(every).values()) == ["m128_n8", "m128_n16", "m32"]
    assert short_names(["m1_n8", "m1"]) == {"m1_n8": "m1_n8", "m1": "m1"}


def test_every_rule_has_a_condition_and_a_sentence():
    names = {rule.id for rule in rules()}
    assert len(names) == len(rules())
    assert all(any(name.startswith(rule) or name == "single_stage" for rule in names) for name in sentences.CAUSES)
    assert names <= set(sentences.CAUSES) and names - set(sentences.LABELS) == {
        "equal_tiles",
        "same_tiles",
        "other_order",
    }  # no causes


def test_a_kernel_that_beats_both_is_named_in_the_box(verdict):
    one = next(target for target in verdict.targets if target.warm)
    rival = msgspec.structs.replace(one.rival("warm"), mean=0.8, beats_both=True, faster=["w"])
    boxes = [
        view(msgspec.structs.replace(verdict, targets=[target]))["boxes"][0]["slower"]
        for target in (one, msgspec.structs.replace(one, rivals=[rival]))
    ]
    assert boxes[0] is None and boxes[1].startswith(rival.kernel)


def with_predictions(ratio: float, percent: float = 30.0):
    """Make SM100 predictions of both DSLs; cuTile's times are `ratio` times CuTe's."""
    everything = evidence()
    predicted = {}
    for kernel, dsl, us in (("cutlass_fp16", "cute", 20.0), ("cutile", "cutile", 20.0 * ratio)):
        for workload, parameters in everything.workloads.items():
            if parameters["dtype"] != "fp16":
                continue
            metrics = prediction([(0.0, us)], "DRAM", 80.0, {})
            bands = msgspec.structs.replace(metrics.bands.cold, percent=percent)
            metrics = msgspec.structs.replace(
                metrics, bands=msgspec.structs.replace(metrics.bands, warm=bands, cold=bands)
            )
            case = {"operator": "blend", "kernel": kernel, "dsl": dsl, "target": "sm_100a", "workload": workload}
            case |= {"variant": {"id": "fp16", "params": {}}, "parameters": parameters}
            provenance = {"created": "2026-11-20T12:00:00+00:00", "commit": None, "python": "3.11", "packages": {}}
            entry = {"stage": "predict", "status": "ok", "reason": None, "provenance": provenance, "case": case}
            entry |= {"device": None, "backend": "ptxsim", "seconds": 1.0, "metrics": msgspec.to_builtins(metrics)}
            path = f"results/predict/blend/{kernel}/{workload}.json"
            predicted[path] = msgspec.convert(entry, Predict)
    return sample.replace(everything, predicted=predicted)


@pytest.mark.parametrize(("ratio", "winner"), [(3.0, "cute"), (1.4, "depends"), (0.25, "cutile")])
def test_predictions_name_a_winner_only_beyond_their_expected_errors(ratio, winner):
    everything = with_predictions(ratio)
    (result,) = (one for one in verdicts(everything, compare(everything)).targets if one.predicted)
    assert (result.target, result.cold.basis, result.cold.winner) == ("sm_100a", "predicted", winner)
    assert result.cold.noise_percent == 60
    assert result.cold.accuracy.cases > 0  # from workflow/validation
    assert "not_on_this_gpu" in {flag.id for flag in result.flags}
    assert sentences.accuracy(result.cold.accuracy, result.cold)
    biased = msgspec.structs.replace(result.cold.accuracy, leaning=2 * ratio, leaning_cases=3)
    assert ("cuTile 2.00" in sentences.accuracy(biased, result.cold)) is (winner != "depends")


def test_predicted_differences_count_beyond_the_expected_error_only():
    clear, not_clear = (verdicts(every, compare(every)) for every in map(with_predictions, (3.0, 1.4)))
    for result, counted in ((clear, True), (not_clear, False)):
        (target,) = (one for one in result.targets if one.predicted)
        mine = [one for one in target.explained if one.contest == "dsls"]
        assert mine and {one.clear for one in mine} == {counted}
        shown = view(msgspec.structs.replace(result, targets=[target]))
        assert bool(shown["why"]) is counted
        row = rows(msgspec.structs.replace(result, targets=[target]))
        known = row(target.target, target.device.device, mine[0].workload)
        if not counted and mine[0].causes:
            assert known.label == "Within the expected error."


def test_a_mean_per_dtype_is_named_where_there_are_several():
    pairs = [pairing(name, Time("a", "v", 1.0, 0.0), Time("b", "v", us, 0.0)) for name, us in (("x", 2.0), ("y", 0.5))]
    parameters = {"x": {"dtype": "fp16"}, "y": {"dtype": "fp8"}}
    assert decide("warm", "predicted", pairs, None, parameters).dtypes == {"fp16": 2.0, "fp8": 0.5}
    assert decide("warm", "predicted", pairs, None, {key: {"dtype": "fp8"} for key in parameters}).dtypes == {}


def test_costs_are_of_the_kernel_that_uses_most():
    everything = evidence()
    path, entry = next((path, one) for path, one in everything.inspected.items() if one.functions)
    first = entry.functions[0]
    second = msgspec.structs.replace(
        first, registers_per_thread=first.registers_per_thread + 8, tensor_memory_columns=512
    )
    more = {path: msgspec.structs.replace(entry, functions=[first, second])}
    result = verdicts(sample.replace(everything, inspected={**everything.inspected, **more}), compare(everything))
    (cost,) = (one for one in result.costs if (one.kernel, one.target) == (entry.kernel, entry.target))
    assert (cost.functions, cost.tensor_memory_columns) == (2, 512)
    assert cost.registers_per_thread == first.registers_per_thread + 8


@pytest.mark.parametrize(
    ("cutile", "offered", "flags"), [(3, 1, {"uneven_variants"}), (4, 1, set()), (4, 7, set()), (2, 6, {"untuned"})]
)
def test_uneven_numbers_of_variants_are_flagged_unless_one_side_is_untuned(monkeypatch, cutile, offered, flags):
    everything = evidence(gpu=True)
    module = importlib.import_module("cutesnake.analysis.verdict.verdicts")
    monkeypatch.setattr(
        module, "variants_timed", lambda known, kernel, target, at=None: cutile if kernel == "cutile" else 6
    )
    monkeypatch.setattr(module, "variants_offered", lambda known, kernel, target, at=None: offered)
    (target,) = (one for one in verdicts(everything, compare(everything)).targets if one.warm)
    mine = [flag for flag in target.flags if flag.id in ("uneven_variants", "untuned")]
    assert {flag.id for flag in mine} == flags
    if "uneven_variants" in flags:
        assert flag_texts(mine, target.gpu) == ["best of 6 CuTe DSL variants timed per workload, of 3 cuTile ones"]
