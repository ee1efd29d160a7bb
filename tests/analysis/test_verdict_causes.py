"""Each rule about causes fires where its facts hold, and not where they do not."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from verdict_samples import anatomy, contrast, function, kernel, prediction

from cutesnake.analysis.verdict import causes
from cutesnake.analysis.verdict.facts import Contrast, Kernel, Trial
from cutesnake.model.records.predict import PredictMetrics

MLA, B32, B1, B4 = "mla_decode", "b32_q1_s4096_bf16", "b1_q1_s8192_bf16", "b4_q1_s4096_bf16"
ROLE = {"tasks": ["multiply", "softmax"]}
CUTE = anatomy(
    roles=[{"name": "1", "warps": 4, **ROLE}, {"name": "2", "warps": 4, "first": 4, **ROLE}],
    widths=(64, 256),
    rings=(9, 9),
    communicates=True,
)
CUTILE = anatomy(roles=[{"name": "all", "warps": 8, **ROLE}], widths=(32, 64), rings=(8, 5))


def mla(workload: str, figure="cold", near: str | None = None) -> tuple[Kernel, Kernel]:
    """Return `cute_sm90` and `cutile` on a workload, with the figures of their builds."""
    cute = kernel(MLA, "cute_sm90", workload, figure, near, function=function(118, cluster=2), anatomy=CUTE)
    return cute, kernel(MLA, "cutile", workload, figure, near, function=function(49), anatomy=CUTILE)


def fired(result: Contrast) -> dict[str, causes.Cause]:
    return {cause.rule: cause for cause in causes.causes(result)}


def changed(one: Kernel, **counters) -> Kernel:
    """Return a kernel with other counters in its profile."""
    return replace(one, near=msgspec.structs.replace(one.near, **counters))


def of(operator: str, workload: str, figure, fast: str, slow: str, **more) -> Contrast:
    sides = (kernel(operator, name, workload, figure, **more.get(name, {})) for name in (fast, slow))
    return contrast(operator, workload, figure, *sides)


def test_mla_at_batch_32_cutile_loses_by_a_second_launch_and_by_its_products():
    cute, cutile = mla(B32)
    result = fired(contrast(MLA, B32, "cold", cute, cutile))
    assert {"second_launch", "consumer_groups", "product_width"} <= set(result)
    assert result["second_launch"].share_percent == pytest.approx(38, abs=1)
    assert result["second_launch"].numbers["cluster"] == 2
    assert any("ncu-mla_decode-cutile" in path for path in result["second_launch"].evidence)
    assert "cold_start" not in result


def test_mla_at_batch_4_cute_loses_by_the_size_of_its_code_when_cold():
    cute, cutile = mla(B4, near=B1)
    result = fired(contrast(MLA, B4, "cold", cutile, cute))
    assert set(result) == {"cold_start"}
    assert result["cold_start"].share_percent == 100
    small = replace(cute, function=function(60))
    assert "cold_start" not in fired(contrast(MLA, B4, "cold", cutile, small))
    calm = replace(cute, near=msgspec.structs.replace(cute.near, stalls={"no_instruction": 0.1}))
    assert "cold_start" not in fired(contrast(MLA, B4, "cold", cutile, calm))
    warm = mla(B4, "warm", B1)
    assert "cold_start" not in fired(contrast(MLA, B4, "warm", *warm))


def test_a_second_launch_counts_only_where_one_kernel_has_more_of_them():
    cute, cutile = mla(B1)  # both have two
    assert "second_launch" not in fired(contrast(MLA, B1, "cold", cute, cutile))
    assert "second_launch" not in fired(contrast(MLA, B32, "cold", *reversed(mla(B32))))


def test_products_and_groups_of_the_slower_kernel_must_be_the_worse_ones():
    cute, cutile = mla(B32)
    result = fired(contrast(MLA, B32, "cold", cutile, cute))
    assert not {"consumer_groups", "product_width"} & set(result)
    busy = changed(cutile, issue_active_percent=18.0, stalls={"barrier": 0.05})
    assert not {"consumer_groups", "product_width"} & set(fired(contrast(MLA, B32, "cold", cute, busy)))


def test_bound_needs_a_kernel_that_reaches_a_peak():
    workload = "b128_q1_s4096_bf16"
    assert fired(contrast(MLA, workload, "cold", *mla(workload)))["bound"].numbers["stall"] == "long_scoreboard"
    assert "bound" not in fired(contrast(MLA, B32, "cold", *mla(B32)))  # both are bound by latency


FMHA = "b4_s4096_bf16"


@pytest.mark.parametrize(("spilled", "fires"), [(320, True), (8, False)])
def test_spills_of_the_slower_kernel_count_from_a_size_on(spilled, fires):
    more = {"cutlass_sm90": {"function": function()}, "tilegym": {"function": function(spills=spilled, registers=128)}}
    result = fired(of("fmha", FMHA, "cold", "cutlass_sm90", "tilegym", **more))
    assert ("spills" in result) is fires


def test_spills_of_the_faster_kernel_explain_nothing():
    more = {"cutlass_sm90": {"function": function(spills=320)}, "tilegym": {"function": function()}}
    assert "spills" not in fired(of("fmha", FMHA, "cold", "cutlass_sm90", "tilegym", **more))


@pytest.mark.parametrize(
    ("fast", "slow", "fires"),
    [
        ((5,), (1, 1), True),
        ((2, 2), (2, 2), False),
        ((1,), (4,), False),
        ((5,), (1, 1, 1), False),
        ((9, 9), (2, 2), True),
    ],
)
def test_loads_in_flight_are_counted_by_stages_and_bytes(fast, slow, fires):
    more = {
        "cutlass_sm90": {"function": function(), "anatomy": anatomy(rings=fast)},
        "tilegym": {"function": function(), "anatomy": anatomy(rings=slow)},
    }
    assert ("loads_in_flight" in fired(of("fmha", FMHA, "cold", "cutlass_sm90", "tilegym", **more))) is fires


def test_gemm_at_m_128_cute_has_tiles_for_a_quarter_of_the_processors():
    result = fired(of("gemm", "m128_n8192_k8192_bf16", "warm", "tilegym_persistent", "cutlass_sm90_persistent"))
    assert result["idle_processors"].numbers["slow_ctas"] == 32
    assert "tile_traffic" not in result


def test_tiles_of_groups_are_counted_together_and_not_at_all_if_sizes_differ():
    result = of("gemm", "m128_n8192_k8192_bf16", "warm", "tilegym_persistent", "cutlass_sm90_persistent")
    for sizes, fires in (("even", True), ("uneven", False)):
        grouped = replace(result, parameters={"m": 128, "n": 2048, "groups": 2, "sizes": sizes})
        known = fired(grouped)
        assert ("idle_processors" in known) is fires
        assert not fires or known["idle_processors"].numbers["slow_ctas"] == 16


def test_a_tile_with_more_rows_than_the_matrix_loads_no_less():
    result = of("gemm", "m1024_n8192_k8192_bf16", "warm", "cutlass_sm90_persistent", "tilegym_persistent")
    for m, fires in ((1024, True), (16, False)):
        kernels = [
            replace(k, params={"tile_m": rows, "tile_n": 64}) for k, rows in ((result.fast, 128), (result.slow, 16))
        ]
        few = replace(result, parameters={"m": m, "n": 32768}, fast=kernels[0], slow=kernels[1])
        assert ("tile_traffic" in fired(few)) is fires


def trial(fast: bool, us: float, m: int, n: int, gpu: str = "") -> Trial:
    kernel = "tilegym_persistent" if fast else "cutlass_sm90_persistent"
    return Trial(fast, kernel, {"tile_m": m, "tile_n": n}, us, "path", gpu)


def test_equal_tiles_refute_a_cause_where_half_of_the_difference_is_left():
    result = of("gemm", "m128_n8192_k8192_bf16", "warm", "tilegym_persistent", "cutlass_sm90_persistent")
    assert "idle_processors" in fired(result) and causes.ruled_out(result) == []
    kept = replace(result, trials=[trial(True, 40.0, 128, 128), trial(False, 56.0, 128, 128)])
    assert "idle_processors" not in fired(kept)
    (out,) = causes.ruled_out(kept)
    assert out.numbers["tile"] == "128x128"
    for trials in (
        [trial(True, 40.0, 128, 128), trial(False, 42.0, 128, 128)],  # the difference is gone
        [trial(True, 40.0, 128, 128), trial(False, 50.0, 128, 256)],  # other tiles
        [trial(True, 40.0, 32, 32, "H200"), trial(True, 30.0, 64, 64, "H200"), trial(False, 50.0, 32, 32, "H200")],
    ):
        other = replace(result, trials=trials)
        assert "idle_processors" in fired(other) and causes.ruled_out(other) == []
    turned = of("gemm", "m128_n8192_k8192_bf16", "warm", "cutlass_sm90_persistent", "tilegym_persistent")
    assert causes.ruled_out(replace(turned, trials=kept.trials)) == []  # no rule to refute


def test_equal_tiles_of_another_gpu_or_kernel_are_a_doubt_only():
    result = of("gemm", "m128_n8192_k8192_bf16", "warm", "tilegym_persistent", "cutlass_sm90_persistent")
    other = replace(trial(True, 40.0, 128, 128), kernel="tilegym")
    for trials in (
        [trial(True, 40.0, 128, 128, "H200"), trial(False, 56.0, 128, 128, "H200")],
        [other, trial(False, 56.0, 128, 128)],
    ):
        doubted = replace(result, trials=trials)
        cause = fired(doubted)["idle_processors"]
        assert cause.doubt and cause.evidence.count("path") == 2
        assert ("H200" in cause.doubt) is bool(trials[0].gpu) and causes.ruled_out(doubted) == []
    assert fired(result)["idle_processors"].doubt is None


def test_equal_tiles_and_no_cause_are_said():
    cutile = kernel("gemm", "tilegym_persistent", "m128_n8192_k8192_bf16", "warm")
    cute = kernel("gemm", "cutlass_sm90_persistent", "m128_n8192_k8192_bf16", "warm")
    same = replace(cute, params={"tile_m": 128, "tile_n": 128})
    (out,) = causes.ruled_out(contrast("gemm", "m128_n8192_k8192_bf16", "warm", cutile, same))
    assert out.rule == "same_tiles" and out.numbers["tiles"] == 64 and "No other cause" in out.sentence
    assert causes.ruled_out(contrast("gemm", "m128_n8192_k8192_bf16", "warm", cutile, cute)) == []


def test_a_launch_that_costs_far_more_than_the_difference_does_not_explain_it():
    cute, cutile = mla("b16_q1_s1024_bf16", "warm", B32)
    assert "second_launch" not in fired(
        contrast(MLA, "b16_q1_s1024_bf16", "warm", cute, replace(cutile, us=cute.us + 2))
    )
    assert "second_launch" in fired(contrast(MLA, "b16_q1_s1024_bf16", "warm", cute, replace(cutile, us=cute.us + 8)))


def test_large_gemms_differ_by_tile_registers_and_clock():
    consumer = {"name": "c", "tasks": ["multiply"]}
    more = {
        "cutlass_sm90_persistent": {"anatomy": anatomy(roles=[{**consumer, "warps": 8}], widths=(256,))},
        "tilegym_persistent": {"anatomy": anatomy(roles=[{**consumer, "warps": 4, "registers": 255}], widths=(128,))},
    }
    workload, names = "m1024_n8192_k8192_bf16", ("cutlass_sm90_persistent", "tilegym_persistent")
    result = fired(of("gemm", workload, "warm", *names, **more))
    assert {"tile_traffic", "register_share", "clock"} <= set(result)
    assert result["tile_traffic"].numbers["ratio"] == pytest.approx(4 / 3)
    assert "idle_processors" not in result
    assert "clock" not in fired(of("gemm", workload, "cold", *names, **more))
    turned = fired(of("gemm", workload, "warm", *reversed(names), **more))
    assert not {"tile_traffic", "register_share", "clock"} & set(turned)


def test_a_kernel_without_a_persistent_loop_starts_its_ctas_in_waves():
    workload, names = "m8192_n8192_k8192_bf16", ("cutlass_sm90_persistent", "tilegym")
    more = {names[0]: {"anatomy": anatomy(persistent=True)}, names[1]: {"anatomy": anatomy(persistent=False)}}
    assert fired(of("gemm", workload, "cold", *names, **more))["not_persistent"].numbers["ctas"] == 4096
    more[names[0]] = {"anatomy": anatomy(persistent=None)}
    assert "not_persistent" not in fired(of("gemm", workload, "cold", *names, **more))


def test_a_tail_is_what_the_last_wave_leaves_empty():
    result = of("gemm", "m8192_n8192_k8192_bf16", "cold", "cutlass_sm90_persistent", "tilegym")
    assert "tail" not in fired(result)  # 31.03 waves
    half = replace(result, slow=changed(result.slow, waves=1.5))
    assert fired(half)["tail"].numbers["lost"] == pytest.approx(25)
    assert "tail" not in fired(replace(half, fast=changed(half.fast, waves=1.5)))


def test_dram_traffic_counts_only_where_dram_is_the_bottleneck():
    result = of("reduce", "sum_m4096_n4096_fp32", "cold", "cutlass_reduce", "cutile")
    assert "dram_traffic" not in fired(result)
    moved = 2 * result.fast.near.dram_bytes
    assert "dram_traffic" in fired(replace(result, slow=changed(result.slow, dram_bytes=moved, dram_percent=80.0)))
    assert "dram_traffic" not in fired(replace(result, slow=changed(result.slow, dram_bytes=moved)))


def test_few_warps_need_a_large_difference_in_occupancy():
    assert "few_warps" in fired(of("reduce", "sum_m4096_n4096_fp32", "cold", "cutlass_reduce", "cutile"))
    assert "few_warps" not in fired(of("elementwise_add", "m4096_n4096_fp32", "cold", "cute", "cutile"))


def test_instructions_count_only_where_warps_issue_rather_than_wait():
    result = of("dependent_launch", "m256_n4096_fp32", "warm", "cutile", "cutlass_pdl")
    assert "instructions" not in fired(result)
    (out,) = causes.ruled_out(result)
    assert out.rule == "other_order" and out.numbers["fast_us"] > out.numbers["slow_us"]
    result = replace(result, slow=changed(result.slow, total_duration_us=2 * result.fast.near.total_duration_us))
    assert fired(result)["instructions"].numbers["ratio"] > 4
    more_traffic = changed(result.slow, dram_bytes=2 * result.slow.near.dram_bytes)
    products = changed(result.slow, tensor_core_percent=20.0)
    few = changed(result.slow, issue_active_percent=1.5 * result.fast.near.issue_active_percent)
    for slow in (more_traffic, products, few):
        assert "instructions" not in fired(replace(result, slow=slow))
    # Five times the instructions, but the warps wait for memory all the same.
    assert "instructions" not in fired(of("elementwise_add", "m4096_n4096_fp32", "cold", "cute", "cutile"))


def gemm_m128(slow=(), fast=()) -> Contrast:
    """Two kernels with 128x128 tiles, profiled with the given metrics on m = 128."""
    result = of("gemm", "m1024_n8192_k8192_bf16", "warm", "tilegym_persistent", "cutlass_sm90_persistent")
    tile, longer = {"tile_m": 128, "tile_n": 128}, 1.2 * result.fast.near.total_duration_us
    return replace(
        result,
        fast=replace(changed(result.fast, **dict(fast)), params=tile),
        slow=replace(changed(result.slow, **{"total_duration_us": longer, **dict(slow)}), params=tile),
    )


def test_more_instructions_for_the_same_products_are_a_cause_where_tensor_cores_wait():
    issue = of("gemm", "m1024_n8192_k8192_bf16", "warm", "tilegym_persistent", "cutlass_sm90_persistent").fast.near
    more = {"issue_active_percent": 2 * issue.issue_active_percent, "total_duration_us": 1.5 * issue.total_duration_us}
    cause = fired(gemm_m128({**more, "tensor_core_percent": 20.0}))["tensor_instructions"]
    assert cause.numbers["ratio"] == pytest.approx(3.0)
    assert "tensor_instructions" not in fired(gemm_m128({**more, "tensor_core_percent": 70.0}))
    assert "tensor_instructions" not in fired(gemm_m128({**more, "tensor_core_percent": 0.0}))
    assert "tensor_instructions" not in fired(
        gemm_m128({**more, "tensor_core_percent": 20.0}, {"tensor_core_percent": 10.0})
    )
    known = gemm_m128({**more, "tensor_core_percent": 20.0})
    assert "tensor_instructions" not in fired(replace(known, slow=replace(known.slow, near_build=False)))
    fewer = {**more, "issue_active_percent": 0.9 * issue.issue_active_percent, "tensor_core_percent": 20.0}
    assert "tensor_instructions" not in fired(gemm_m128(fewer))


@pytest.mark.parametrize(("slow", "fast", "fires"), [(0.3, 0.1, True), (0.3, 0.2, False), (0.1, 0.01, False)])
def test_waits_at_barriers_count_by_share_and_ratio(slow, fast, fires):
    result = fired(gemm_m128({"stalls": {"barrier": slow}}, {"stalls": {"barrier": fast}}))
    assert ("barriers" in result) is fires


def test_equal_tiles_that_dram_binds_show_their_bandwidth():
    bound = gemm_m128().fast.near.bottleneck
    memory = {"bottleneck": msgspec.structs.replace(bound, kind="memory"), "stalls": {"long_scoreboard": 0.8}}
    both = gemm_m128({**memory, "dram_percent": 62.0}, {**memory, "dram_percent": 77.0})
    (out,) = causes.ruled_out(both)
    assert (out.numbers["slow_dram"], out.numbers["fast_dram"]) == (62.0, 77.0) and "DRAM" in out.sentence
    (out,) = causes.ruled_out(gemm_m128({"stalls": {"long_scoreboard": 0.8}}))
    assert "DRAM" not in out.sentence and out.numbers["slow_ctas"] == 132


def test_clusters_help_where_there_are_few_rows():
    names = ("cutlass_rmsnorm", "tilegym")
    more = {names[0]: {"function": function(cluster=4, products=0)}, names[1]: {"function": function(products=0)}}
    assert fired(of("rmsnorm", "m256_n65536_bf16", "warm", *names, **more))["row_clusters"].numbers["rows"] == 256
    assert "row_clusters" not in fired(of("rmsnorm", "m4096_n4096_bf16", "warm", *names, **more))
    more[names[1]] = {"function": function(products=8)}
    assert "row_clusters" not in fired(of("rmsnorm", "m256_n65536_bf16", "warm", *names, **more))


def predicted(slow_launches, slow_tracks, dram=20.0, moves=216, bound="waiting") -> Contrast:
    roles = [
        {"name": "softmax", "warps": 1, "tasks": ["softmax"]},
        {"name": "load", "warps": 1, "first": 1, "tasks": ["load"]},
        {"name": "multiply", "warps": 1, "first": 2, "tasks": ["multiply"]},
    ]
    busy = {
        "warp 0": {"work": 0.3, "wait": 0.7},
        "warp 2": {"work": 0.7, "wait": 0.3},
        "tensor cores": {"product": 0.7},
    }
    fast = prediction([(0.0, 31.0)], "DRAM", 87.0, busy)
    slow = prediction(slow_launches, bound, dram, slow_tracks)
    sides = (
        Kernel("fast", "v", 34.0, prediction=fast, predict_path="f", anatomy=anatomy(counts={"tmem_load": 12})),
        Kernel(
            "slow", "v", 44.0, prediction=slow, predict_path="s", anatomy=anatomy(roles, counts={"tmem_load": moves})
        ),
    )
    return Contrast("cold", "w", {}, 148, *sides)


WAITING = {
    "warp 0": {"work": 0.3, "wait": 0.7},
    "warp 1": {"work": 0.1, "wait": 0.9},
    "warp 2": {"work": 0.2, "wait": 0.8},
    "tensor cores": {"product": 0.28},
}


def test_predicted_second_launch_has_its_share_of_the_difference():
    result = fired(predicted([(0.0, 33.0), (34.8, 41.4)], WAITING))["second_launch"]
    assert result.share_percent == pytest.approx(84)
    assert "second_launch" not in fired(predicted([(0.0, 41.0)], WAITING))


def test_launches_beyond_the_longest_one_may_take_longer_without_being_more():
    result = predicted([(0.0, 30.0), (31.0, 41.0)], WAITING)
    for fast, fires in (
        ([(0.0, 28.0), (29.0, 31.0)], True),
        ([(0.0, 20.0), (20.0, 31.0)], False),
        ([(0.0, 31.0)], False),
    ):
        other = replace(result.fast, prediction=prediction(fast, "waiting", 20.0, WAITING))
        assert ("other_launches" in fired(replace(result, fast=other))) is fires


def test_a_predicted_bound_needs_a_busy_resource_and_a_kernel_that_waits():
    result = predicted([(0.0, 41.0)], WAITING)
    assert fired(result)["predicted_bound"].numbers == {"resource": "DRAM", "percent": 87.0, "less": 20.0}
    assert "predicted_bound" not in fired(predicted([(0.0, 41.0)], WAITING, dram=60.0))
    both = replace(result.slow, prediction=prediction([(0.0, 41.0)], "DRAM", 20.0, WAITING))
    assert "predicted_bound" not in fired(replace(result, slow=both))
    neither = replace(result.fast, prediction=prediction([(0.0, 31.0)], "waiting", 87.0, {}))
    assert "predicted_bound" not in fired(replace(result, fast=neither))


def waves(launched: float, of: PredictMetrics, blocks: int = 1) -> PredictMetrics:
    """Return a prediction whose launches have so many waves and CTAs per SM."""
    launches = [msgspec.structs.replace(one, waves=launched, blocks_per_sm=blocks) for one in of.launches.cold]
    return msgspec.structs.replace(of, launches=msgspec.structs.replace(of.launches, cold=launches, warm=launches))


def with_waves(fast: float, slow: float, us: float = 44.0, bound: str = "waiting") -> dict[str, causes.Cause]:
    result = predicted([(0.0, 41.0)], WAITING, bound=bound)
    sides = (result.fast, fast), (replace(result.slow, us=us), slow)
    made = [replace(one, prediction=waves(count, one.prediction)) for one, count in sides]
    return fired(replace(result, fast=made[0], slow=made[1]))


def test_few_ctas_leave_sms_idle_only_where_the_other_kernel_fills_more():
    assert with_waves(0.5, 0.1)["few_ctas"].numbers == {"slow_ctas": 15, "fast_ctas": 74, "processors": 148}
    assert "few_ctas" not in with_waves(0.1, 0.5)
    assert "few_ctas" not in with_waves(0.55, 0.5)  # nearly as many
    assert "few_ctas" not in with_waves(1.0, 0.8)  # most SMs have one
    assert "few_ctas" not in with_waves(0.5, 0.1, us=100.0)  # the launch is less than half of the call
    profiled = of("gemm", "m8192_n8192_k8192_bf16", "cold", "cutlass_sm90_persistent", "tilegym")
    assert "few_ctas" not in fired(profiled)
    assert "few_ctas" in fired(replace(profiled, slow=changed(profiled.slow, grid=[32, 1, 1]), parameters={}))


def test_predicted_waves_count_where_the_faster_kernel_has_one_at_most():
    assert with_waves(1.0, 12.0)["not_persistent"].numbers["waves"] == 12.0
    assert "not_persistent" not in with_waves(4.0, 12.0)
    assert "not_persistent" not in with_waves(1.0, 2.0)
    assert "not_persistent" not in with_waves(1.0, 12.0, bound="tensor cores")  # set-up hides behind a busy resource


def test_tensor_time_counts_where_products_are_smaller_or_more():
    def sides(slow_shape, busy, work=None):
        result = predicted([(0.0, 41.0)], WAITING)
        (launch,) = result.slow.prediction.launches.cold
        launch = msgspec.structs.replace(launch, tensor_percent=busy)
        launches = msgspec.structs.replace(result.slow.prediction.launches, cold=[launch])
        products = [
            [msgspec.structs.replace(one, shape=shape, cta_group=group) for one in anatomy(widths=(64,)).products]
            for shape, group in (([128, 256, 16], 2), (slow_shape, 1))
        ]
        fast, slow = (
            replace(one, anatomy=msgspec.structs.replace(one.anatomy, products=of))
            for one, of in zip((result.fast, result.slow), products, strict=True)
        )
        prediction = msgspec.structs.replace(slow.prediction, launches=launches)
        return fired(
            replace(result, fast=replace(fast, work=1.0), slow=replace(slow, prediction=prediction, work=work))
        )

    cause = sides([64, 256, 16], 40.0)["tensor_time"]  # 16.4 µs of 41, the other 9.3 of 31
    assert cause.share_percent == pytest.approx(71)
    assert "per CTA pair" in cause.sentence and "64 rows" in cause.sentence and "FLOPs" not in cause.sentence
    assert "64 rows" not in sides([128, 128, 16], 40.0)["tensor_time"].sentence
    assert "1.53 times the matrix FLOPs" in sides([64, 256, 16], 40.0, work=1.53)["tensor_time"].sentence
    assert "tensor_time" in sides([128, 256, 16], 40.0, work=1.53)
    assert "tensor_time" not in sides([64, 256, 16], 30.0)  # hardly longer
    assert "tensor_time" not in sides([128, 256, 16], 40.0)  # of one size, and as many


def test_a_serial_chain_needs_waiting_roles_and_no_bottleneck():
    assert "serial_chain" in fired(predicted([(0.0, 41.0)], WAITING))
    assert "serial_chain" not in fired(predicted([(0.0, 41.0)], WAITING, dram=80.0))
    busy = {**WAITING, "tensor cores": {"product": 0.6}}
    assert "serial_chain" not in fired(predicted([(0.0, 41.0)], busy))
    loading = {**WAITING, "warp 1": {"work": 0.9, "wait": 0.1}}
    assert "serial_chain" not in fired(predicted([(0.0, 41.0)], loading))


def test_tensor_memory_traffic_is_compared_with_the_faster_kernel():
    assert "tensor_memory_traffic" in fired(predicted([(0.0, 41.0)], WAITING))
    assert "tensor_memory_traffic" not in fired(predicted([(0.0, 41.0)], WAITING, moves=24))


def test_a_profile_of_another_workload_or_gpu_is_said_to_be_one():
    cute, cutile = mla(B32)
    assert "Profiled" not in fired(contrast(MLA, B32, "cold", cute, cutile))["consumer_groups"].sentence
    far = [replace(one, near_gpu="H200") for one in (cute, cutile)]
    assert fired(contrast(MLA, B32, "cold", *far))["consumer_groups"].sentence.endswith("Profiled on H200.")
    workload = "b32_q1_s16384_bf16"
    near = fired(contrast(MLA, workload, "cold", *mla(workload, near="b128_q1_s4096_bf16")))
    assert near["consumer_groups"].sentence.endswith("Profiled at b128_q1_s4096_bf16.")


def test_nothing_is_said_without_facts():
    sides = Kernel("a", "v", 1.0), Kernel("b", "v", 2.0)
    assert causes.causes(Contrast("cold", "w", {}, None, *sides)) == []


def test_a_small_share_comes_after_a_cause_of_unknown_share_and_a_large_one_before():
    more = {"cutlass_sm90": {"function": function()}, "tilegym": {"function": function(spills=424, registers=128)}}
    rows = causes.causes(of("fmha", "b4_s4096_bf16_causal", "warm", "cutlass_sm90", "tilegym", **more))
    order = [cause.rule for cause in rows]
    assert order.index("spills") < order.index("clock")
    share = {cause.rule: cause.share_percent for cause in rows}
    assert share["spills"] is None and (share["clock"] or 0) < causes.UNKNOWN_SHARE
    gemm = causes.causes(of("gemm", "m1024_n8192_k8192_bf16", "warm", "cutlass_sm90_persistent", "tilegym_persistent"))
    assert gemm[0].rule == "clock" and (gemm[0].share_percent or 0) > causes.UNKNOWN_SHARE
