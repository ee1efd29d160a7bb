"""The clock's L1.

Which bytes an SM asks L2 for, when they are there, and what L2 writes back.
"""

import math

import numpy as np
import pytest
from snippets import kernel_text

import ptxsim
from ptxsim.timing import DeviceModel
from ptxsim.timing.grid import l1_bytes, placement_of
from ptxsim.timing.hardware import SM
from ptxsim.timing.l1_cache import L1Cache, bytes_of
from ptxsim.timing.memory_system import (
    MemorySystem,
    displaced,
    evicted,
    l2_rate_per_sm,
    sharing_gain,
    tma_sharing_gain,
    written_back,
)
from ptxsim.timing.miss_rate import left_in_l2
from ptxsim.timing.scout import Survey

GPU = DeviceModel.load("h200").changed(
    sm_clock_mhz=1000, l1_latency=30, l2_latency=300, l1_bytes_per_cycle=128, load_bytes_per_cycle=4
)


def loading(*loads: str, stride: int = 16) -> ptxsim.Launch:
    """Return a warp whose lanes load `stride` bytes apart and store the sum."""
    body = f"ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, {stride}; add.s64 %d1, %d1, %d2;\n"
    body += "".join(f"{load}\n" for load in loads)
    body += "".join(f"add.u32 %r10, %r10, %r{10 + k};\n" for k in range(1, len(loads))) + "st.global.u32 [%d1], %r10;"
    module = ptxsim.Module.from_text(kernel_text(body, 1))
    return ptxsim.launch(module, "k", (1,), (32,), (np.zeros(65536, np.uint8),))


def cycles(*loads: str, model: DeviceModel = GPU, stride: int = 16) -> float:
    return ptxsim.predict(loading(*loads, stride=stride), model).launches[0].cycles


PART = tuple(f"ld.global.u32 %r{10 + k}, [%d1+{4 * k}];" for k in range(4))


def test_lanes_that_read_4_of_16_bytes_fetch_each_sector_once() -> None:
    """As cutlass_ampere and cutlass_pdl do: four loads of 512 bytes with one between them."""
    one, four = cycles(PART[0]), cycles(*PART)
    assert one > 300 + 512 / 4
    assert four - one < 40


def test_sectors_of_a_line_that_nobody_has_asked_for_are_fetched() -> None:
    apart = cycles(PART[0], "ld.global.u32 %r11, [%d1+32];", stride=128)
    assert apart - cycles(PART[0], stride=128) > 32 * 32 / 4 - 40


def test_a_load_past_l1_asks_l2_again() -> None:
    volatile = tuple(load.replace("ld.", "ld.volatile.") for load in PART)
    assert cycles(*volatile) - cycles(*PART) > 3 * 512 / 4 - 40


def test_a_load_waits_for_bytes_that_are_on_their_way() -> None:
    cache = L1Cache(1024)
    assert cache.lookup({7: 0b0011}) == ({7: 0b0011}, 0.0)
    cache.fill({7: 0b0011}, 500.0)
    assert cache.lookup({7: 0b0110}) == ({7: 0b0100}, 500.0)


def test_the_line_that_was_used_the_longest_ago_goes_first() -> None:
    cache = L1Cache(2 * 128)
    for line in (1, 2):
        cache.fill({line: 0b1111}, 10.0)
    assert cache.lookup({1: 0b0001})[0] == {}
    cache.fill({3: 0b1111}, 20.0)
    assert [cache.lookup({line: 0b1111})[0] != {} for line in (1, 2, 3)] == [False, True, False]


def test_an_atomic_leaves_no_line_in_l1() -> None:
    cache = L1Cache(1024)
    cache.fill({5: 0b1111}, 10.0)
    cache.drop({5: 0b0001})
    assert cache.lookup({5: 0b1000})[0] == {5: 0b1000}


def test_a_sector_that_several_stores_fill_is_written_back_once() -> None:
    sm, memory = SM(GPU.constants, 1, 65536), MemorySystem(GPU.constants, 1000, 1, 132)
    memory.write_back = 1.0
    for at in range(4):
        memory.store(sm, 0, {0: 0b1111, 1: 0b1111}, 64, float(at))
    assert memory.traffic.dram == bytes_of({0: 0b1111, 1: 0b1111}) == 256
    assert memory.traffic.l2 == 4 * 64


def test_what_an_sm_reads_again_does_not_count_for_dram_a_second_time() -> None:
    sm, memory = SM(GPU.constants, 1, 256), MemorySystem(GPU.constants, 1000, 1, 132)  # an L1 of two lines
    memory.miss_rates[0] = 1.0
    for lap in range(2):
        for line in range(16):
            memory.load(sm, 0, {line: 0b1111}, 128, 1000.0 * lap + line)
    assert memory.traffic.dram == 16 * 128


def test_reads_and_writes_share_l2_as_a_copy_does() -> None:
    gpu = GPU.changed(l2_gb_per_s=132, l2_write_gb_per_s=132, l2_copy_gb_per_s=88)  # 1 byte a cycle for each SM
    memory = MemorySystem(gpu.constants, 1000, 1, 132)
    for at in range(100):
        memory.read(0, 10, at)
        memory.write(1, 10, at)
    assert memory.l2.free == pytest.approx(2000 / (88 / 132))


@pytest.mark.parametrize(("readers", "gain"), [(0.5, 1.0), (1, 1.0), (2, 1.1), (4, 1.2), (100, 1.2)])
def test_ctas_that_read_the_same_at_a_time_get_more_of_it_out_of_l2(readers, gain) -> None:
    assert sharing_gain(readers, 1.2) == pytest.approx(gain)


@pytest.mark.parametrize(
    ("readers", "gain"), [(0.5, 1.0), (1, 1.0), (2, 1.9), (3, 2.07), (4, 2.2), (8, 2.3), (99, 2.4)]
)
def test_copies_by_tma_of_the_same_bytes_get_more_than_loads_do(readers, gain) -> None:
    gpu = GPU.changed(tma_shared_gain_two=1.9, tma_shared_gain_four=2.2, tma_shared_gain=2.4, tma_shared_kept=0.25)
    assert tma_sharing_gain(readers, gpu.constants) == pytest.approx(gain, abs=0.01)
    memory = MemorySystem(gpu.constants, 1000, 1, 132)
    alone, _ = memory.read(0, 100, 0.0, by_tma=True)
    memory.readers[1] = memory.readers[2] = readers
    memory.kept = {1: 1.0}
    together, _ = memory.read(1, 100, alone, by_tma=True)
    assert together == pytest.approx(alone + alone / gain, rel=0.01)
    distant, _ = memory.read(2, 100, together, by_tma=True)
    assert distant == pytest.approx(together + alone / (1 + 0.25 * (gain - 1)), rel=0.01)


@pytest.mark.parametrize(("readers", "late"), [(1, 8), (4, 32), (8, 64), (132, 64)])
def test_all_who_ask_for_bytes_that_miss_wait_for_dram_and_one_of_them_moves_them(readers, late) -> None:
    # One read in eight is the first of its bytes. As `same_tiles` of benchmarks/microbenchmarks/ has it.
    memory = MemorySystem(GPU.constants, 1000, 1, 132)
    memory.miss_rates[1], memory.readers[1] = 1 / 8, readers
    missed = [memory.read(1, 128, 1e4 * n)[1] for n in range(64)]
    assert sum(missed) == late
    assert memory.traffic.dram == pytest.approx(64 * 128 / 8)


def test_bytes_that_enter_l2_cost_it_more_than_those_that_are_there() -> None:
    memory = MemorySystem(GPU.changed(l2_fill_cost=0.5).constants, 1000, 1, 132)
    memory.miss_rates[1] = 1 / 8
    for key in (0, 1):
        before = memory.l2.busy
        for n in range(64):
            memory.read(key, 128, 1e4 * n, by_tma=bool(n % 2))
        assert (memory.l2.busy - before) * memory.l2.rate == pytest.approx(64 * 128 * (1 + 0.5 / 8 * key))


def test_what_hits_l2_never_asks_dram() -> None:
    memory = MemorySystem(GPU.constants, 1000, 1, 132)
    assert not any(memory.read(1, size, 0.0)[1] for size in (4096, 128, 4096))
    assert memory.traffic.dram == 0


def test_dram_takes_longer_to_answer_behind_a_flush() -> None:
    gpu = GPU.changed(dram_flushed_cycles=100, dram_first_cycles=0)
    one = loading("ld.global.u32 %r10, [%d1];")
    other = ptxsim.predict(one, gpu.changed(dram_flushed_cycles=400), cache="cold").launches[0].cycles
    assert other - ptxsim.predict(one, gpu, cache="cold").launches[0].cycles == pytest.approx(300, abs=1)
    assert ptxsim.predict(one, gpu).launches[0].cycles == ptxsim.predict(one, GPU).launches[0].cycles


def test_what_a_flush_left_goes_first_and_what_a_call_stores_last() -> None:
    small = GPU.changed(flush_dirty_share=0.4, l2_bytes=1).constants
    assert displaced(1.0, GPU.changed(flush_dirty_share=0.4).constants) == pytest.approx(0.4, abs=0.001)  # it meets it
    assert 64 * displaced(64.0, small) == pytest.approx(0.4, abs=0.001)  # a large one, all of it and once
    assert written_back(1.0, 1e9) == pytest.approx(0, abs=1e-6)
    assert 64 * (1 - written_back(64.0, 1.0)) == pytest.approx(1)  # of many stores one L2 stays there


def test_what_is_read_again_misses_soon_beyond_what_l2_keeps_from_call_to_call() -> None:
    f = GPU.changed(l2_again_bytes=50, l2_overrun=10).constants
    assert [evicted(size, f) for size in (40, 50)] == [0, 0]
    assert evicted(55, f) == pytest.approx(1 - math.exp(-1))


@pytest.mark.parametrize(
    ("footprint", "low", "high"), [(34.6e6, 0, 0), (43.2e6, 0, 0), (51.9e6, 0.85, 1), (69e6, 0.99, 1)]
)
def test_what_an_h200_keeps_from_call_to_call_is_what_was_measured(footprint, low, high) -> None:
    """Group «calls» of benchmarks/microbenchmarks/."""
    assert low <= evicted(footprint, DeviceModel.load("h200").constants) <= high


def test_later_launches_of_a_lone_call_find_what_earlier_ones_left() -> None:
    first, last = loading(*PART), loading(*PART)
    whole = Survey((1.0,), {1: 100.0}, {2: 60.0}, {1: 1.0})
    f = GPU.changed(l2_bytes=1000).constants
    assert left_in_l2([(first, whole)], f) == {1: 100.0, 2: 60.0}
    assert left_in_l2([], f) == {}
    flooded = left_in_l2([(first, whole), (last, Survey((1.0,), {3: 5000.0}, {}, {3: 1.0}))], f)
    assert flooded[1] < 1.0 < flooded[3]


def test_a_cold_load_waits_for_its_own_bytes_and_dram_works_for_those_that_go() -> None:
    sm, memory = SM(GPU.constants, 1, 65536), MemorySystem(GPU.constants, 1000, 1, 132)
    memory.miss_rates[0] = 1.0
    alone, _ = memory.load(sm, 0, {0: 0b1111}, 128, 0.0)
    memory.displaced = 0.5
    assert memory.load(sm, 0, {5: 0b1111}, 128, 10_000.0)[0] == 10_000 + alone
    assert memory.traffic.dram == 128 + 128 + 64


@pytest.mark.parametrize(("shared", "kibibytes"), [(0, 256), (8 * 1024, 248), (9 * 1024, 240), (227 * 1024, 28)])
def test_l1_has_what_the_carve_out_for_shared_memory_leaves(shared, kibibytes) -> None:
    assert l1_bytes(shared, GPU) == kibibytes * 1024


def test_l1_has_what_all_ctas_of_an_sm_together_leave() -> None:
    launch = loading(*PART)
    placed = placement_of(launch, GPU, None)
    assert placed.l1_bytes == l1_bytes(placed.slots_per_group * placed.shared_bytes, GPU) < 256 * 1024


def test_a_burst_after_a_pause_takes_what_its_sm_did_not_ask_for_before() -> None:
    # Bursts of SMs that copy alternately take as long as on one alone. Benchmarks/microbenchmarks, group «bursts».
    memory = MemorySystem(GPU.changed(l2_ahead_bytes=10_000).constants, 1000, 1, 132)
    share = memory.l2.rate
    assert memory.l2.take(5_000, 1000.0) == pytest.approx(1000 + 5_000 / share)  # no pause is before the first
    after = 1000 + 100_000 / share
    assert memory.l2.take(10_000, after) == after
    assert memory.l2.take(5_000, after) == pytest.approx(after + 5_000 / share)


def test_an_sm_that_never_pauses_gets_its_even_share_and_no_more() -> None:
    memory = MemorySystem(GPU.changed(l2_ahead_bytes=10_000).constants, 1000, 1, 132)
    ends = [memory.l2.take(1_000, 0.0) for _ in range(100)]
    assert ends[-1] == pytest.approx(100_000 / memory.l2.rate)


def test_few_ctas_share_the_ways_of_their_gpcs_to_l2_and_many_all_of_it() -> None:
    gpu = GPU.changed(l2_bytes_per_cycle_of_8=80, l2_bytes_per_cycle_of_32=60, l2_bytes_per_cycle_of_64=50)
    f = gpu.constants
    assert [l2_rate_per_sm(n, f) for n in (1, 8, 16, 32, 64)] == [f.tma_bytes_per_cycle, 80, 70, 60, 50]
    rates = {n: MemorySystem(f, 1000.0, 1, n).l2.rate for n in (8, 32, 132)}
    assert rates == {8: 80, 32: 60, 132: pytest.approx(min(f.l2_gb_per_s / 132, 50))}


def test_local_memory_s_stores_have_their_even_share_of_l2_whoever_the_neighbours_are() -> None:
    spread = GPU.changed(l2_bytes_per_cycle_of_8=30, l2_bytes_per_cycle_of_32=20)
    (near, stored, _), (far, same, _) = (MemorySystem(c.constants, 1000.0, 1, 16).local_rates(1) for c in (spread, GPU))
    assert near == 25 < far and stored == same


# GB/s of boxes of 8 KiB by all SMs with 1, 2, 3, 6 in flight each: benchmarks/microbenchmarks, driver 580.159.04
@pytest.mark.parametrize(
    ("device", "missing", "measured"),
    [
        ("h200", 1.0, {1: 1974, 2: 3257, 3: 4007, 6: 4632}),
        ("h200", 0.0, {1: 4558, 2: 7936, 3: 8845, 6: 8827}),
        ("h100", 1.0, {1: 1845, 2: 2706, 3: 3011, 6: 3196}),
        ("h100", 0.0, {1: 4548, 2: 7483, 3: 7696, 6: 7738}),
    ],
)
def test_boxes_in_flight_use_the_bandwidth_as_measured(device, missing, measured) -> None:
    """Below their limits, L2 and DRAM answer later the more they are used."""
    model, sms, size, clock, rounds = DeviceModel.load(device), 132, 8192, 1980, 400
    issue = 137 if missing else 33  # cycles of a box alone beyond the model's, where it has no queues
    for slots, expected in measured.items():
        memory, sm = MemorySystem(model.constants, clock, 1, sms), SM(model.constants, 2, 0.0)
        memory.miss_rates[0] = missing
        begins, ends = [0.0], []
        for _ in range(rounds):
            ends.append(memory.box(sm, [sm], 0, size, 64, begins[-1]))
            ready = ends[-slots] + issue if len(ends) >= slots else 0.0
            begins.append(max(begins[-1], ready))
        half = rounds // 2
        predicted = size * sms * half / (begins[-1] - begins[half]) * clock / 1000
        assert predicted == pytest.approx(expected, rel=0.13)
