"""ptxsim's clock on kernels whose time follows from the GPU's parameters."""

import dataclasses

import numpy as np
import pytest
from snippets import kernel_text, run_kernel, tensor_map

import ptxsim
from ptxsim.timing import DeviceModel
from ptxsim.timing.hardware import SM, Latency, Scheduler, WarpClock
from ptxsim.timing.launch_time import Setting, check_possible, dispatched, time_launch
from ptxsim.timing.machine_code import Op
from ptxsim.timing.memory_system import displaced
from ptxsim.timing.scout import Surveyor
from ptxsim.timing.stream import descriptor_us

# Round numbers, and nothing that these tests do not ask about.
DEVICE = DeviceModel.load("h200").changed(
    sm_clock_mhz=1000,
    l2_queueing_cycles=0,
    dram_queueing_cycles=0,
    fma_latency=4,
    fma_pipe_cycles=1,
    branch_cycles=0,
    launch_gap_us=1.0,
    launch_early_us=0.25,
    launch_full_us=0,
)

REFILL = (
    DEVICE.constants.cta_interval_cycles + DEVICE.constants.cta_start_cycles
)  # a wave costs so much beyond its work


def launched(body: str, *args, threads=32, grid=(1,), shared=0, cluster=(1,), early=False) -> ptxsim.Launch:
    module = ptxsim.Module.from_text(kernel_text(body, len(args), shared))
    launch = ptxsim.launch(module, "k", grid, (threads,), args, dynamic_shared=shared, cluster=cluster)
    if early:
        launch.attributes["attribute_6"] = (1, 0, 0)
    return launch


def cycles(body: str, *args, model=DEVICE, cache="warm", **options) -> float:
    return ptxsim.predict(launched(body, *args, **options), model, cache=cache).launches[0].cycles


CHAIN = "fma.rn.f32 %r1, %r1, %r1, %r1;\n"


def independent(count: int) -> str:
    return "".join(f"fma.rn.f32 %r{10 + n % 32}, %r1, %r2, %r{10 + n % 32};\n" for n in range(count))


def test_a_chain_of_dependent_fmas_takes_their_latency_each() -> None:
    assert cycles(CHAIN * 300) - cycles(CHAIN * 100) == 200 * 4


def test_a_card_with_another_value_is_another_card_for_the_same_launch() -> None:
    launch = launched(CHAIN * 1000)
    fast, slow = (ptxsim.predict(launch, DEVICE.changed(fma_latency=latency)).launches[0].cycles for latency in (4, 8))
    assert slow - fast == pytest.approx(4000, rel=0.02)


@pytest.mark.parametrize(("threads", "per_scheduler"), [(32, 1), (128, 1), (256, 2), (512, 4)])
def test_independent_fmas_share_the_pipe_of_their_scheduler(threads, per_scheduler) -> None:
    grown = cycles(independent(640), threads=threads) - cycles(independent(320), threads=threads)
    assert grown == pytest.approx(320 * per_scheduler, rel=0.02)


def test_special_functions_are_bound_by_their_pipe() -> None:
    body = "".join(f"ex2.approx.ftz.f32 %r{10 + n % 32}, %r1;\n" for n in range(64))
    gpu = DEVICE.changed(sfu_pipe_cycles=8)
    assert cycles(body * 2, model=gpu) - cycles(body, model=gpu) == pytest.approx(64 * 8, rel=0.02)


def test_shared_loads_with_bank_conflicts_take_a_pass_each() -> None:
    def loads(stride: int) -> str:
        load = f"mov.u32 %r1, %tid.x; mov.u32 %r3, dyn; mad.lo.u32 %r2, %r1, {stride}, %r3;\n"
        return load + "".join(f"ld.shared.b32 %r{10 + n % 32}, [%r2];\n" for n in range(200))

    gpu = DEVICE.changed(shared_load_latency=30)
    without, with_conflicts = (cycles(loads(stride), shared=16384, model=gpu) for stride in (4, 128))
    assert with_conflicts - without == pytest.approx(200 * 31, rel=0.05)


COPIES = """
ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r9, %ctaid.x; mul.wide.u32 %d2, %r9, 65536; add.s64 %d1, %d1, %d2;
mov.u32 %r3, dyn; add.u32 %r4, %r3, 65536;
mbarrier.init.shared.b64 [%r4], 1;
mbarrier.arrive.expect_tx.shared.b64 %d9, [%r4], 65536;
"""
WAITED = """
L: mbarrier.try_wait.parity.shared.b64 %p1, [%r4], 0;
@%p1 bra D; bra L;
D:
"""


def copies(splits: int) -> str:
    size = 65536 // splits
    copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    return (
        COPIES + "".join(f"{copy} [%r3+{n * size}], [%d1+{n * size}], {size}, [%r4];\n" for n in range(splits)) + WAITED
    )


@pytest.mark.parametrize("grid", [1, 132])
def test_a_stream_of_copies_is_bound_by_the_bandwidth_that_its_sm_has(grid) -> None:
    data = np.zeros(132 * 65536, np.uint8)
    gpu = DEVICE.changed(tma_bytes_per_cycle=64, tma_bytes_per_cycle_tpc=128, l2_gb_per_s=132 * 32)
    result = cycles(copies(16), data, threads=1, grid=(grid,), shared=65536 + 16, model=gpu)
    rate = 64 if grid == 1 else 32  # the engine of one SM, or its share of L2
    assert result == pytest.approx(65536 / rate + gpu.constants.tma_latency, rel=0.1)


def test_l2_keeps_its_bytes_a_second_when_the_sm_clock_sinks() -> None:
    """Measured on two GPUs: loads by TMA next to products, group «together» of 23a2c976."""
    data = np.zeros(132 * 65536, np.uint8)
    gpu = DEVICE.changed(tma_bytes_per_cycle=128, tma_bytes_per_cycle_tpc=256, l2_gb_per_s=132 * 16)
    launch = launched(copies(16), data, threads=1, grid=(132,), shared=65552)
    slow, fast = (ptxsim.predict(launch, gpu, clock_mhz=clock).launches[0].cycles for clock in (500, 1000))
    assert fast - slow == pytest.approx(65536 / 16 - 65536 / 32, rel=0.1)


@pytest.mark.parametrize(("period", "gain"), [(1, 2.0), (2, 1.5), (3, 1.25)])
def test_ctas_that_copy_the_same_gain_less_by_it_the_further_apart_they_are(period, gain) -> None:
    gains = dict.fromkeys(("tma_shared_gain_two", "tma_shared_gain_four", "tma_shared_gain"), 2.0)
    gpu = DEVICE.changed(l2_gb_per_s=132 * 16, tma_shared_kept_two=0.5, tma_shared_kept=0.25, **gains)
    body = copies(16).replace("%ctaid.x;", f"%ctaid.x; rem.u32 %r9, %r9, {period};")
    launch = launched(body, np.zeros(period * 65536, np.uint8), threads=1, grid=(132,), shared=65552)
    result = ptxsim.predict(launch, gpu).launches[0].cycles
    assert result == pytest.approx(65536 / 16 / gain + gpu.constants.tma_latency, rel=0.1)


@pytest.mark.parametrize(("apart", "distinct"), [(0, 0.5), (512, 1.0)])
def test_neighbours_share_what_lies_in_the_same_lines_of_memory(apart, distinct) -> None:
    load = f"mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mul.wide.u32 %d2, %r1, {apart}; mul.wide.u32 %d3, %r2, 16;"
    load += " add.u64 %d2, %d2, %d3; add.u64 %d1, %d1, %d2; ld.global.u32 %r3, [%d1];"
    launch = launched("ld.param.u64 %d1, [p0];" + load, np.zeros(65536, np.uint8), grid=(64,))
    survey = Surveyor(launch).survey()
    assert survey is not None
    assert list(survey.distinct.values()) == [distinct]


def test_in_a_grid_of_unequal_work_the_first_two_ctas_do_not_speak_for_all() -> None:
    body = "ld.param.u64 %d1, [p0]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x; mul.wide.u32 %d3, %r2, 16;"
    body += " setp.lt.u32 %p1, %r1, 2; selp.u32 %r4, 0, %r1, %p1; mul.wide.u32 %d2, %r4, 512; add.u64 %d2, %d2, %d3;"
    body += " add.u64 %d1, %d1, %d2; ld.global.u32 %r3, [%d1]; setp.lt.u32 %p2, %r1, 32;\n@%p2 bra E;\n"
    launch = launched(body + CHAIN * 100 + "E: ret;\n", np.zeros(65536, np.uint8), grid=(64,))
    survey = Surveyor(launch).survey()
    assert survey is not None
    assert next(iter(survey.distinct.values())) > 0.9


def test_a_cold_cache_costs_dram_bandwidth_and_latency() -> None:
    data = np.zeros(132 * 65536, np.uint8)
    rates = dict.fromkeys(("dram_read_gb_per_s", "dram_write_gb_per_s", "dram_copy_gb_per_s"), 1320)
    gpu = DEVICE.changed(l2_gb_per_s=132 * 64, **rates)  # 10 bytes a cycle for each SM
    run = {"threads": 1, "grid": (132,), "shared": 65552, "model": gpu}
    cold = cycles(copies(16), data, cache="cold", **run)
    moved = 65536 * (1 + displaced(132 * 65536, gpu.constants))  # what the flush has left goes as they come
    assert cold == pytest.approx(moved / 10 + gpu.constants.tma_dram_latency, rel=0.1)
    assert cycles(copies(16), data, cache="warm", **run) < 0.5 * cold


def test_a_box_counts_for_the_memory_it_lies_in_wherever_its_tensor_begins() -> None:
    # The same eight rows by a map of the array, and by one that begins 63 rows before: row 63 of `last` is row `last`.
    # So does a box that is out of bounds but for its first row.
    x = np.zeros((1000, 64), np.float16)
    rows = np.lib.stride_tricks.as_strided(x, (1000, 64, 64), (128, 128, 2))
    load = (
        "cp.async.bulk.tensor.{}d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r3], [%d1, {{{}}}], [%r4];\n"
    )
    result = []
    for tensor, before, at in ((x, 0, "0, 64"), (rows, 63 * 128, "0, 56, 71"), (rows, 63 * 128, "0, 63, 64")):
        descriptor = tensor_map(tensor, (64, 8, 1)[: tensor.ndim], before=before)
        body = COPIES.replace("expect_tx.shared.b64 %d9, [%r4], 65536", "expect_tx.shared.b64 %d9, [%r4], 1024")
        body += load.format(tensor.ndim, at) + WAITED
        survey = Surveyor(launched(body, descriptor, x, threads=1, shared=65552)).survey()
        assert survey is not None
        assert survey.read[x.ctypes.data] == 1024
        result.append([cycles(body, descriptor, x, threads=1, shared=65552, cache=cache) for cache in ("warm", "cold")])
    assert result[0] == result[1] == result[2]
    assert result[0][1] > result[0][0] + 0.5 * DEVICE.constants.tma_dram_latency


def products(count: int, n: int) -> str:
    accumulators = ", ".join(f"%r{k}" for k in range(10, 10 + n // 2))
    kind = f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16"
    body = "mov.u64 %d1, 0x4000004000010000; wgmma.fence.sync.aligned;\n"
    return (
        body + f"{kind} {{{accumulators}}}, %d1, %d1, 1, 1, 1, 0, 0;\n" * count + "wgmma.commit_group.sync.aligned;\n"
    )


WAIT = "wgmma.wait_group.sync.aligned 0;\n"


def test_products_are_bound_by_the_tensor_cores() -> None:
    gpu = DEVICE.changed(wgmma_flops_per_cycle=4096)
    run = {"threads": 128, "shared": 65536, "model": gpu}
    grown = cycles(products(40, 128) + WAIT, **run) - cycles(products(20, 128) + WAIT, **run)
    assert grown == pytest.approx(20 * 2 * 64 * 128 * 16 / 4096, rel=0.02)


def test_two_warpgroups_share_the_tensor_cores() -> None:
    one, two = (cycles(products(40, 128) + WAIT, threads=n, shared=65536) for n in (128, 256))
    assert two == pytest.approx(2 * one, rel=0.1)


def test_two_ctas_on_an_sm_share_its_pipes_and_hide_latencies() -> None:
    both = {"threads": 128, "grid": (264,), "shared": 100_000}
    alone = {"threads": 128, "grid": (132,), "shared": 100_000}
    assert cycles(independent(800), **both) == pytest.approx(2 * cycles(independent(800), **alone), rel=0.15)
    assert cycles(CHAIN * 800, **both) == pytest.approx(cycles(CHAIN * 800, **alone), rel=0.1)


def test_a_wave_and_a_half_takes_as_long_as_two() -> None:
    one, half, two = (cycles(CHAIN * 800, grid=(n,), shared=200_000) for n in (132, 198, 264))
    assert half == two == pytest.approx(2 * one, rel=0.1)
    prediction = ptxsim.predict(launched(CHAIN, grid=(198,), shared=200_000), DEVICE)
    assert (prediction.launches[0].waves, prediction.launches[0].blocks_per_sm) == (1.5, 1)


def test_many_waves_are_worked_out_from_the_first_ones() -> None:
    ten, five = (cycles(CHAIN * 500, grid=(132 * n,), shared=200_000) for n in (10, 5))
    assert ten - five == pytest.approx(5 * (500 * 4 + REFILL), rel=0.02)


EARLY = "griddepcontrol.launch_dependents;\n"
DEPENDS = "griddepcontrol.wait;\n"


def test_a_launch_that_may_start_early_hides_what_it_does_before_it_waits() -> None:
    work = CHAIN * 1000
    plain = [launched(work), launched(work + work)]
    early = [launched(EARLY + work), launched(work + DEPENDS + work, early=True)]
    apart, overlapped = (ptxsim.predict(launches, DEVICE).launches[1] for launches in (plain, early))
    assert overlapped.start_us < 0.1 < 4 < apart.start_us
    assert apart.end_us - overlapped.end_us == pytest.approx(4.0 + 1.0 - 0.25, rel=0.05)


def test_the_time_of_a_call_has_what_a_launch_costs() -> None:
    prediction = ptxsim.predict(launched(CHAIN * 1000), DEVICE)
    assert prediction.microseconds == pytest.approx(prediction.launches[0].cycles / 1000 + 1.0)
    assert ptxsim.predict(launched(CHAIN * 1000), DEVICE, clock_mhz=500).launches[0].end_us == pytest.approx(
        8, rel=0.05
    )


def test_results_under_the_clock_are_those_of_any_other_schedule() -> None:
    data, out = np.arange(4 * 65536, dtype=np.uint8), np.zeros(4 * 1024, np.uint32)
    body = copies(4) + (
        "ld.param.u64 %d3, [p1]; mul.lo.u32 %r5, %r1, 4; add.u32 %r6, %r3, %r5; bar.sync 0;\n"
        "ld.shared.b32 %r7, [%r6]; mad.lo.u32 %r8, %r9, 1024, %r1; mul.wide.u32 %d4, %r8, 4; add.s64 %d3, %d3, %d4;\n"
        "st.global.b32 [%d3], %r7;"
    )
    result = run_kernel(body, data, out, threads=1, grid=(4,), shared=65552, schedule="timed")
    assert result.ok and result.prediction is not None and result.prediction.microseconds > 1
    assert out[::1024].tolist() == data.view(np.uint32)[::16384].tolist()


def test_a_prediction_leaves_memory_as_it_was() -> None:
    out = np.full(32, 7, np.uint32)
    body = "ld.param.u64 %d1, [p0]; mov.u32 %r1, 9; st.global.b32 [%d1], %r1; red.global.add.u32 [%d1+4], %r1;"
    ptxsim.predict(launched(body, out), DEVICE)
    assert (out == 7).all()


@pytest.mark.parametrize("grid", [1, 100, 132, 300])
def test_the_shortcut_agrees_with_the_simulation_of_every_cluster(grid) -> None:
    data = np.zeros(300 * 65536, np.uint8)
    launch = launched(copies(16), data, threads=1, grid=(grid,), shared=65552)
    short, full = ptxsim.predict(launch, "h200"), ptxsim.run(launch, schedule="timed", device="h200").prediction
    assert full is not None
    assert short.microseconds == pytest.approx(full.microseconds, rel=0.01)


def test_the_timeline_says_who_waited_for_what() -> None:
    data = np.zeros(65536, np.uint8)
    launch = launched(copies(1), data, threads=1, shared=65552)
    prediction = ptxsim.predict(launch, DEVICE)
    tracks = {track.name: track.spans for track in prediction.launches[0].timeline.tracks}
    (wait,) = [span for span in tracks["CTA 0 warp 0"] if span.kind == "wait"]
    (copy,) = tracks["CTA 0 TMA loads"]
    assert wait.what == "mbarrier at shared offset 65536 of CTA 0" and wait.ptx_line is not None
    assert copy.begin <= wait.begin < copy.end <= wait.end
    assert prediction.launches[0].timeline.tracks[0].name == "CTA 0 warp 0"


def test_a_prediction_names_the_assumed_parameters_that_its_code_touches() -> None:
    result = ptxsim.predict(launched(CHAIN), "b200").assumed
    assert "fma_latency" in result and not any(name.startswith(("tcgen05", "tmem", "tma")) for name in result)
    data = np.zeros(65536, np.uint8)
    assert "tma_latency" in ptxsim.predict(launched(copies(1), data, threads=1, shared=65552), "b200").assumed


def test_clusters_of_unequal_work_take_as_long_as_their_sum_on_the_fullest_sm() -> None:
    body = "mov.u32 %r5, %ctaid.x; add.u32 %r5, %r5, 1; mov.u32 %r6, 0;\nL:\n" + CHAIN * 50
    body += "add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r5;\n@%p1 bra L;\n"
    launch = launched(body, grid=(132,), shared=200_000)
    prediction = ptxsim.predict(launch, DEVICE)
    assert prediction.launches[0].cycles == pytest.approx(132 * 50 * 4, rel=0.1)
    assert any("differs between clusters" in note for note in prediction.notes)


def test_work_that_goes_by_two_axes_of_the_grid_is_followed_along_both() -> None:
    # As of a grouped product. Tiles (x) behind the last row of a group (y) have nothing to do.
    rows = [1, 5, 2, 8, 3, 7, 4, 6]
    body = "ld.param.u64 %d1, [p0]; mov.u32 %r5, %ctaid.x; mov.u32 %r6, %ctaid.y; mul.wide.u32 %d2, %r6, 4;\n"
    body += "add.s64 %d1, %d1, %d2; ld.global.u32 %r7, [%d1]; setp.ge.u32 %p1, %r5, %r7;\n@%p1 bra E;\n"
    launch = launched(body + CHAIN * 100 + "E: ret;\n", np.array(rows, np.uint32), grid=(8, 8))
    survey = Surveyor(launch).survey()
    assert survey is not None
    long, short = max(survey.work), min(survey.work)
    assert long > 3 * short
    assert [work == long for work in survey.work] == [x < rows[y] for y in range(8) for x in range(8)]


@pytest.mark.parametrize(
    ("times", "places", "alone", "cycles"),
    [([10.0] * 4, 1, 1.0, 20.0), ([10.0] * 4, 2, 0.5, 10.0), ([10.0] * 2, 2, 0.5, 5.0), ([10.0] * 6, 2, 0.5, 15.0)],
)
def test_clusters_that_have_an_sm_for_themselves_are_faster(times, places, alone, cycles) -> None:
    assert dispatched(times, 2, places, alone, 0.0) == pytest.approx(cycles)


@pytest.mark.parametrize(("waves", "same"), [(4, True), (1, False)])
def test_a_few_clusters_at_an_edge_stand_for_none_but_themselves_in_a_long_grid(waves, same) -> None:
    grid = 132 * waves
    body = f"mov.u32 %r5, %ctaid.x; mov.u32 %r6, 0; setp.eq.u32 %p2, %r5, {grid - 1}; selp.u32 %r7, 2, 1, %p2;\nL:\n"
    body += CHAIN * 200 + "add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, %r7;\n@%p1 bra L;\n"
    prediction = ptxsim.predict(launched(body, grid=(grid,), shared=200_000), DEVICE)
    expected = waves * 800 + (waves - 1) * REFILL if same else 2 * 800
    assert prediction.launches[0].cycles == pytest.approx(expected, rel=0.1)
    assert any("differs between clusters" in note for note in prediction.notes) is not same


def test_a_grid_is_looked_at_once_where_the_caller_keeps_what_was_found(monkeypatch) -> None:
    launch, surveys = launched(copies(4), np.zeros(132 * 65536, np.uint8), threads=1, grid=(132,), shared=65552), {}
    fresh = [ptxsim.predict(launch, DEVICE, cache=cache) for cache in ("warm", "cold")]
    first = ptxsim.predict(launch, DEVICE, surveys=surveys)
    monkeypatch.setattr(Surveyor, "survey", lambda self: pytest.fail("looked at a second time"))
    second = ptxsim.predict(launch, DEVICE, cache="cold", surveys=surveys)
    assert [first.microseconds, second.microseconds] == [result.microseconds for result in fresh]


def test_what_no_card_could_do_is_not_given_for_a_prediction() -> None:
    timed = time_launch(Setting(launched(CHAIN), DEVICE, None, 1000, "warm"))
    with pytest.raises(ptxsim.PtxError, match=r"busy for 200 % of the time"):
        check_possible(dataclasses.replace(timed, tensor_percent=200.0), sharing_gain=2.0)
    assert check_possible(timed) is timed
    shared = dataclasses.replace(timed, l2_percent=200.0)
    assert check_possible(shared, sharing_gain=2.0) is shared


def test_a_kernel_that_does_not_fit_is_one_clear_line() -> None:
    with pytest.raises(ptxsim.DeviceError, match="does not fit into an SM of the NVIDIA H200: too many shared memory"):
        ptxsim.predict(launched(CHAIN, shared=240_000), DEVICE)


def test_a_deadlock_is_an_error_and_a_finding() -> None:
    body = "mov.u32 %r4, dyn; mbarrier.init.shared.b64 [%r4], 1;" + WAITED
    with pytest.raises(ptxsim.PtxError, match="does not end: nobody has ever arrived"):
        ptxsim.predict(launched(body, shared=64), DEVICE)
    assert [f.kind for f in run_kernel(body, shared=64, schedule="timed").findings] == ["deadlock"]


def test_a_kernel_that_takes_more_work_by_cluster_launch_control_is_not_predicted() -> None:
    form = "async.shared::cta.mbarrier::complete_tx::bytes.b128"
    body = f"mov.u64 %rd1, 0;\nclusterlaunchcontrol.try_cancel.{form} [%rd1], [%rd1];\n"
    with pytest.raises(ptxsim.PtxError, match=r"further work by cluster launch control \(PTX line \d+\)"):
        cycles(body, shared=64, grid=(2,))


TICKET = "ld.param.u64 %d1, [p0]; atom.global.add.u32 %r1, [%d1], 1;\n"
TILES = TICKET + "mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2; ld.global.u32 %r2, [%d1];\n"


@pytest.mark.parametrize("last", [TILES, TICKET + "setp.eq.u32 %p1, %r1, 7;\n"], ids=["tile", "last to arrive"])
def test_a_kernel_that_goes_by_a_counter_of_all_clusters_is_not_predicted(last) -> None:
    counter = np.zeros(64, np.uint32)
    with pytest.raises(ptxsim.PtxError, match=r"an atomic on global memory returns \(PTX line \d+\)"):
        cycles(last, counter, grid=(8,))
    with pytest.raises(ptxsim.PtxError, match="an atomic on global memory returns"):
        ptxsim.run(launched(last, counter, grid=(8,)), schedule="timed", device="h200")


def test_an_atomic_whose_result_nobody_reads_is_predicted() -> None:
    assert cycles(TICKET, np.zeros(64, np.uint32), grid=(8,)) > 0


def test_a_counter_in_shared_memory_is_a_cluster_s_own() -> None:
    body = "mov.u32 %r4, dyn; atom.shared.add.u32 %r1, [%r4], 1; setp.eq.u32 %p1, %r1, 7;\n"
    assert cycles(body, shared=64, grid=(8,)) > 0


def test_a_grid_of_one_cluster_may_count_its_tiles() -> None:
    assert cycles(TILES, np.zeros(64, np.uint32)) > 0


STARTS = {
    "launch_graph_us": 2.0,
    "launch_map_us": 0.5,
    "launch_full_us": 0.4,
    "launch_single_us": 5.0,
    "launch_single_full_us": 0.8,
    "launch_single_gap_us": 3.0,
}


def test_calls_of_a_graph_share_what_lies_between_two_graphs() -> None:
    gpu, launch = DEVICE.changed(**STARTS), launched(CHAIN * 100)
    alone, shared = (ptxsim.predict(launch, gpu, calls_per_graph=calls).microseconds for calls in (None, 8))
    assert shared - alone == pytest.approx(2.0 / 8)


def test_a_lone_call_begins_with_its_host_s_share_and_has_longer_gaps_than_calls_back_to_back() -> None:
    gpu, launch = DEVICE.changed(**STARTS), launched(CHAIN * 100)
    one, two = (ptxsim.predict([launch] * n, gpu, cache="cold") for n in (1, 2))
    cycles_us = one.launches[0].cycles / 1000
    assert one.microseconds == pytest.approx(5.0 + cycles_us)
    assert two.microseconds - one.microseconds == pytest.approx(3.0 + cycles_us)
    elsewhere = ptxsim.predict(launch, gpu, cache="cold", single_launch_us=3.5)
    assert one.microseconds - elsewhere.microseconds == pytest.approx(5.0 - 3.5)
    assert ptxsim.predict(launch, gpu, single_launch_us=3.5).microseconds == ptxsim.predict(launch, gpu).microseconds
    assert ptxsim.predict([launch] * 2, gpu).microseconds == pytest.approx(2 * (1.0 + cycles_us))


def test_a_few_ctas_bear_nearly_half_of_what_filling_a_card_costs_and_one_bears_none() -> None:
    gpu = DEVICE.changed(**STARTS)
    result = {}
    for ctas in (1, 8, 132):
        prediction = ptxsim.predict(launched(CHAIN * 100, grid=(ctas,), shared=200_000), gpu)
        result[ctas] = prediction.microseconds - prediction.launches[0].cycles / 1000
    assert result[1] == pytest.approx(1.0)
    assert result[132] == pytest.approx(1.4)
    assert 1.0 + 0.4 * 0.35 < result[8] < 1.2


def test_only_a_launch_with_tma_descriptors_pays_for_them() -> None:
    box = (
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d1, {%r1, %r1}], [%r3];\n"
    )
    gpu = DEVICE.changed(**STARTS)
    launch = launched("ld.param.u64 %d1, [p0];\n" + box + CHAIN * 10, np.zeros(256, np.uint8))
    timed = [time_launch(Setting(x, gpu, None, 1000.0, "warm")) for x in (launched(CHAIN * 10),)]
    assert descriptor_us(timed[0], gpu) == 0.0
    assert descriptor_us(dataclasses.replace(timed[0], launch=launch), gpu) == 0.5


def test_ctas_that_begin_a_grid_together_on_an_sm_start_so_many_cycles_apart() -> None:
    gpu = DEVICE.changed(cta_fill_cycles=50)
    one, four = (cycles(CHAIN * 100, grid=(132 * n,), model=gpu) for n in (1, 4))
    assert four - one == pytest.approx(3 * 50, abs=20)


def test_the_first_load_of_a_lone_call_comes_later_out_of_dram() -> None:
    load = "ld.param.u64 %d1, [p0]; ld.global.u32 %r1, [%d1]; add.u32 %r1, %r1, 1; st.global.u32 [%d1], %r1;\n"
    data = np.zeros(256, np.uint8)
    extra = {}
    for cache in ("warm", "cold"):
        soon, late = (cycles(load, data, model=DEVICE.changed(dram_first_cycles=n), cache=cache) for n in (0, 5000))
        extra[cache] = late - soon
    assert extra == {"warm": 0, "cold": pytest.approx(5000, abs=50)}


def test_what_a_load_waits_for_those_before_it_in_its_block_is_counted_once() -> None:
    # The second is issued when the first is there, by which time the bytes of both have come.
    sm = SM(DEVICE.constants, 1, 0)
    clock = WarpClock(sm, Scheduler(DEVICE.constants), None, 0, 0.0, None)
    first, second, register = (32, 1), (32, 2), (32, 3)
    ops = [
        Op("global", "", 1, 0, 1, (), -1, -1, 1, -1, (), (first,)),
        Op("global", "", 1, 0, 1, (), -1, -1, 2, -1, (first,), (second,)),
        Op("alu", "", 1, 0, 1, (), -1, -1, 3, -1, (second,), (register,)),
    ]
    clock.walk(tuple(ops), {1: Latency(1000.0, 300.0), 2: Latency(1100.0, 300.0)}, {})
    assert clock.time == pytest.approx(1300, abs=5)
    late = WarpClock(sm, Scheduler(DEVICE.constants), None, 0, 5000.0, None)
    late.walk(tuple(ops), {1: Latency(1000.0, 300.0), 2: Latency(2000.0, 300.0)}, {})
    assert late.time == pytest.approx(5000 + 2000, abs=5)


def test_a_branch_forward_over_code_costs_more_than_one_back() -> None:
    """By the addresses of machine code: 512 bytes on, 512 back, and the next instruction."""
    sm = SM(DEVICE.changed(jump_cycles=100, branch_cycles=10).constants, 1, 0)
    sm.code.launched(64, range(64), 0, False)

    def taken(address: int, target: int) -> float:
        clock = WarpClock(sm, Scheduler(DEVICE.constants), None, 0, 0.0, None)
        ops = [Op("branch", "", 1, 0, 1, (), -1, -1, 0, address), Op("alu", "", 1, 0, 1, (), -1, -1, 0, target)]
        clock.walk(tuple(ops), {}, {})
        return clock.time

    near = taken(1024, 1040)
    assert taken(1024, 1536) - near == 100
    assert taken(1024, 512) - near == 10


def test_a_store_that_is_waited_for_at_the_end_does_not_end_its_cluster_twice() -> None:
    out = np.zeros(32, np.uint32)
    body = """.shared .align 128 .b32 s[32]; ld.param.u64 %d1, [p0]; mov.u32 %r1, s; mov.u32 %r2, 7;
    st.shared.u32 [%r1], %r2; fence.proxy.async.shared::cta;
    cp.async.bulk.global.shared::cta.bulk_group [%d1], [%r1], 16; cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0;"""
    result = ptxsim.run(launched(body, out, threads=1), "timed", device="h200")
    assert result.prediction is not None and out[0] == 7
