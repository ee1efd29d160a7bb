"""A winner needs agreement of mean and majority beyond the noise."""

from __future__ import annotations

import json

import msgspec
import pytest
from verdict_samples import pairs, time, timings

from cutesnake.analysis.compare.noise import Time, noise
from cutesnake.analysis.verdict.accuracy import accuracy
from cutesnake.analysis.verdict.decide import best_rival, decide, interval, pairing, separate
from cutesnake.report.verdict import result


def synthetic(*ratios: float, noise_percent: float = 0.5):
    return [
        pairing(f"w{place}", Time("a", "v", 100.0, noise_percent), Time("b", "v", 100.0 * ratio, noise_percent))
        for place, ratio in enumerate(ratios)
    ]


def test_gemm_depends_since_one_workload_decides_the_mean_against_the_majority():
    result = decide("warm", "recorded", pairs("gemm", "warm"))
    assert (result.winner, result.reason) == ("depends", "majority")
    assert result.mean < 1
    assert result.cutile_wins == ["m128_n8192_k8192_bf16"] == [result.decided_by]
    assert len(result.cute_wins) == 3


@pytest.mark.parametrize(("operator", "workloads"), [("fmha", 7), ("mla_decode", 35)])
def test_a_clear_winner_is_named_with_an_interval_around_the_mean(operator, workloads):
    result = decide("warm", "recorded", pairs(operator, "warm"))
    assert (result.winner, result.reason, result.workloads) == ("cute", "agree", workloads)
    assert 1 < result.low < result.mean < result.high
    assert result.least <= result.low
    assert result.high <= result.most
    assert result == decide("warm", "recorded", pairs(operator, "warm"))  # the draw is seeded


def test_times_within_the_noise_have_no_winner():
    result = decide("cold", "recorded", synthetic(1.02, 1.01, 0.99))
    assert (result.winner, result.reason) == ("depends", "noise")
    assert len(result.equal) == 3
    assert decide("cold", "recorded", synthetic(1.2, 1.2, 1.2, noise_percent=12)).winner == "depends"


def test_predictions_within_their_error_show_no_tie():
    """Two times that cannot be distinguished are equal only if they were measured."""
    decision = decide("warm", "predicted", synthetic(1.01, noise_percent=66))
    measured = decide("warm", "recorded", synthetic(1.01))
    assert (result(decision)[0], result(measured)[0]) == ("Cannot tell", "Tie")


def test_without_a_winner_the_headline_says_what_it_depends_on():
    sizes = {workload: entry.case.parameters for (_, workload), (_, entry) in timings("gemm").items()}
    decision = decide("warm", "recorded", pairs("gemm", "warm"), parameters=sizes)
    assert (decision.split.parameter, decision.split.cute, decision.split.cutile) == ("m", "≥ 1024", "= 128")
    assert result(decision)[0] == "CuTe DSL at m ≥ 1024, cuTile at m = 128"
    assert result(decide("warm", "recorded", pairs("gemm", "warm")))[0] == "No clear winner"


def test_a_dsl_that_is_never_slower_but_often_equal_is_not_said_to_win():
    assert result(decide("cold", "recorded", synthetic(1.2, 1.0, 1.0)))[0] == "CuTe DSL on 1 of 3, else tie"
    assert result(decide("cold", "predicted", synthetic(0.5, 1.0, 1.0)))[0] == "cuTile on 1 of 3, else cannot tell"


@pytest.mark.parametrize(
    ("cute", "cutile", "equal", "split"),
    [
        ([{"m": 8}, {"m": 16}], [{"m": 1}, {"m": 4}], [], ("m", "≥ 8", "≤ 4")),
        ([{"m": 8}], [{"m": 1}, {"m": 4}], [{"m": 6}], ("m", "= 8", "≤ 4")),
        ([{"dtype": "fp8"}, {"dtype": "fp8"}], [{"dtype": "bf16"}], [], ("dtype", "= fp8", "= bf16")),
        ([{"m": 8}, {"m": 16}], [{"m": 1}], [{"m": 32}], None),  # "≥ 8" would count an equal one
        ([{"m": 8}, {"m": 1}], [{"m": 4}], [], None),  # mixed
        ([{"m": 8, "n": 2}, {"m": 8, "n": 2}], [{"m": 4, "n": 1}], [], None),  # two parameters do
        ([{"m": 8}], [{"m": 4}], [], None),  # any two workloads are separated by something
        ([{"m": 8}, {"m": 16}], [], [{"m": 4}], ("m", "≥ 8", None)),  # one DSL wins nothing
        ([{"m": 8}, {"m": 1}], [], [{"m": 4}], None),
        ([{"m": 8}, {"m": 1}, {"m": 4}], [], [], None),  # nothing to separate from
    ],
)
def test_a_split_is_the_one_parameter_that_separates_the_wins(cute, cutile, equal, split):
    split_by = separate({"cute": cute, "cutile": cutile, None: equal})
    assert (split_by and (split_by.parameter, split_by.cute, split_by.cutile)) == split


def test_a_headline_names_the_sizes_that_one_dsl_wins():
    sizes = {f"w{place}": {"m": m} for place, m in enumerate((32, 128, 1024, 4096))}
    decision = decide("warm", "recorded", synthetic(0.8, 0.7, 1.0, 1.02), parameters=sizes)
    assert result(decision)[0] == "cuTile at m ≤ 128, else tie"


def test_what_the_losers_wins_have_in_common_is_named():
    sizes = {f"w{place}": {"batch": batch, "dtype": "bf16"} for place, batch in enumerate((1, 4, 32, 64, 128, 128))}
    decision = decide("cold", "recorded", synthetic(0.9, 0.95, 1.4, 1.4, 1.4, 1.4), parameters=sizes)
    assert (decision.winner, decision.losses) == ("cute", ["batch ≤ 4"])
    assert decide("cold", "recorded", synthetic(1.4, 1.4, 1.4, 1.4), parameters=sizes).losses == []


def test_a_majority_whose_interval_includes_one_has_no_winner():
    result = decide("cold", "recorded", synthetic(1.5, 1.5, 1.4, 1.4, 0.8, 0.8, 0.75))
    assert (result.winner, result.reason) == ("depends", "interval")
    assert result.low < 1 < result.mean


def test_a_winner_must_not_hang_on_one_workload():
    result = decide("warm", "recorded", pairs("rmsnorm", "warm"))
    assert (result.winner, result.reason, result.decided_by) == ("depends", "one_workload", "m256_n65536_bf16")
    assert len(result.cute_wins) == 2
    assert decide("cold", "recorded", synthetic(1.5, 1.5, 0.9)).winner == "cute"


def test_a_side_may_win_either_way_and_nothing_is_said_without_workloads():
    assert decide("cold", "recorded", synthetic(0.7, 0.8, 0.75)).winner == "cutile"
    assert decide("cold", "recorded", synthetic(1.4, 1.3, 1.35)).winner == "cute"
    assert decide("cold", "recorded", []) is None
    assert interval([1.3, 1.4, 1.5]) == (None, None)


def test_warm_noise_comes_from_warm_samples_only():
    _, entry = timings("mla_decode")["cutile", "b32_q1_s4096_bf16"]
    metrics = msgspec.structs.replace(
        entry.metrics, spread_percent=20.0, difference_percent=-4.0, burst_range_percent=1.0
    )
    assert noise("cold", metrics) == 20.0
    assert noise("warm", metrics) == 4.0
    assert noise("warm", msgspec.structs.replace(metrics, burst_range_percent=6.0)) == 6.0


def rival(operator: str, kernels: tuple[str, ...], other: str):
    times = {key: time(operator, *key, "warm") for key in timings(operator)}
    workloads = {workload for _, workload in times}
    both = {w: {"cute": min((times[k, w] for k in kernels), key=lambda one: one.us)} for w in workloads}
    return best_rival("warm", {other: "torch"}, both, {other: {w: times[other, w] for w in workloads}})


def test_a_kernel_that_beats_both_dsls_is_said_to():
    result = rival("fmha", ("cutlass_sm90", "tilegym"), "torch_sdpa")
    assert result.beats_both
    assert len(result.faster) == result.workloads == 7


def test_a_kernel_that_is_ahead_on_one_workload_beats_nobody():
    result = rival("gemm", ("cutlass_sm90", "cutlass_sm90_persistent", "tilegym_persistent"), "torch_matmul")
    assert not result.beats_both
    assert result.mean < 1
    assert result.faster == ["m128_n8192_k8192_bf16"]


def test_predictions_are_counted_by_error_and_by_order(tmp_path):
    rows = [
        *(("a", 10.0, 11.0), ("b", 20.0, 19.0), ("c", 30.0, 9.0)),  # kernel, predicted, measured
    ]
    common = {"device": "h200", "operator": "gemm", "workload": "w", "kind": "warm"}
    lines = [
        json.dumps({**common, "kernel": name, "predicted_us": predicted, "measured_us": measured})
        for name, predicted, measured in rows
    ]
    (tmp_path / "held_out.jsonl").write_text("\n".join(lines))
    (tmp_path / "development.jsonl").write_text(lines[2])  # not counted: the model was made with it
    result = accuracy("warm", paths=sorted(tmp_path.glob("*.jsonl")))
    assert (result.cases, result.pairs, result.right, result.clear, result.clear_right) == (3, 3, 1, 3, 1)
    assert result.median_error_percent == pytest.approx(100 / 11)
    assert accuracy("cold", paths=sorted(tmp_path.glob("*.jsonl"))).cases == 0
    leaning = accuracy("warm", "gemm", {"a": "cute", "b": "cutile", "c": "torch"}, sorted(tmp_path.glob("*.jsonl")))
    assert leaning.leaning_cases == 1 and leaning.leaning == pytest.approx((20 / 19) / (10 / 11))
    assert accuracy("warm", "fmha", {"a": "cute", "b": "cutile"}, sorted(tmp_path.glob("*.jsonl"))).leaning is None


@pytest.mark.parametrize(("overheads", "winner"), [((3.1, 3.2), "cute"), ((3.1, 4.8), None), ((None, 4.8), "cute")])
def test_launch_overheads_of_two_hosts_decide_no_workload(overheads, winner):
    cute, cutile = (
        Time(name, "v", us, 0.5, empty_launch_us=overhead)
        for name, us, overhead in zip("ab", (17.1, 18.7), overheads, strict=True)
    )
    assert pairing("w", cute, cutile).winner == winner
    against = best_rival("cold", {"b": "torch"}, {"w": {"cute": cute}}, {"b": {"w": cutile}})
    assert against.slower == (["w"] if winner else [])
