"""What the clock takes from numbers and from work.

Divisions that go the long way, loads next to boxes, idle SMs.
"""

import dataclasses

import numpy as np
import pytest
from snippets import kernel_text

import ptxsim
from ptxsim.timing import DeviceModel, divisions
from ptxsim.timing.hardware import SM
from ptxsim.timing.launch_time import Setting
from ptxsim.timing.memory_system import MemorySystem
from ptxsim.timing.scout import Surveyor
from ptxsim.timing.timed_program import TimedProgram

GPU = DeviceModel.load("h200").changed(sm_clock_mhz=1000, branch_cycles=0)
PRODUCT = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
PRODUCT += "{%r1,%r2,%r3,%r4}, {%r5,%r6,%r7,%r8}, {%r9,%r10}, {%r1,%r2,%r3,%r4};"
LOGISTIC = "ex2.approx.ftz.f32 %r20, %r1;\nadd.rn.f32 %r21, %r20, 0f3F800000;\ndiv.rn.f32 %r22, %r1, %r21;\n"
SOFTMAX = "ex2.approx.ftz.f32 %r20, %r1;\nadd.rn.f32 %r21, %r21, %r20;\ndiv.rn.f32 %r22, %r1, %r21;\n"


def launched(body: str, *args: object, grid: tuple[int, ...] = (1,), threads: int = 32) -> ptxsim.Launch:
    return ptxsim.launch(ptxsim.Module.from_text(kernel_text(body, len(args))), "k", grid, (threads,), args)


@pytest.mark.parametrize(
    ("body", "matter"),
    [(f"{PRODUCT}\n{LOGISTIC}", True), (LOGISTIC, False), (f"{PRODUCT}\n{SOFTMAX}", False)],
    ids=["1 + e^x of a product", "without products", "a sum of exponentials"],
)
def test_numbers_matter_where_a_product_goes_into_a_divisor_as_a_power(body, matter) -> None:
    assert ptxsim.numbers_matter(launched(body).kernel) is matter


@pytest.mark.parametrize(
    ("a", "b", "long"),
    [
        (3.0, 1.5, False),
        (3.0, 2.0**127, True),
        (3.0, np.inf, True),
        (np.nan, 1.0, True),
        (2.0**-100, 2.0**100, True),
        (0.0, 1.5, True),  # as the micro-benchmark `divisions` has it
    ],
)
def test_operands_near_the_ends_of_the_range_and_zero_take_the_long_way(a, b, long) -> None:
    with np.errstate(all="ignore"):
        assert bool(divisions.takes_slow_path(np.float32(a), np.float32(b))) is long


DIVIDE = """ld.param.u64 %d1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 4; add.s64 %d1, %d1, %d2;
ld.global.f32 %r2, [%d1];
div.rn.f32 %r3, %r2, %r2;
st.global.f32 [%d1], %r3;
"""


def test_one_lane_is_enough_for_its_warp_and_memory_is_left_as_it_was() -> None:
    values = np.full(128, 2.0, np.float32)
    values[37] = np.inf
    launch = launched(DIVIDE, values, threads=128)
    line = next(ins.line for ins in launch.kernel.instructions if ins.base == "div")
    with np.errstate(all="ignore"):
        assert divisions.slow_divisions(launch, [(0, 0, 0)]) == {line: 0.25}
    assert values[36] == 2.0 and np.isinf(values[37])


@pytest.mark.parametrize(("threads", "expected"), [(32, 225), (1024, 8 * 70)])
def test_the_long_way_costs_latency_or_issue_slots(threads, expected) -> None:
    gpu = GPU.changed(slow_division_latency=225, slow_division_issue_cycles=70)
    launch = launched(DIVIDE, np.ones(1024, np.float32), threads=threads)
    survey = Surveyor(launch).survey()
    assert survey is not None
    line = next(ins.line for ins in launch.kernel.instructions if ins.base == "div")
    usual, long = (
        ptxsim.predict(launch, gpu, surveys={id(launch): dataclasses.replace(survey, slow_divisions=slow)})
        for slow in ({}, {line: 1.0})
    )
    assert long.launches[0].cycles - usual.launches[0].cycles == pytest.approx(expected, rel=0.15)


def test_a_load_waits_for_the_boxes_that_have_left_the_tma_unit_and_for_no_others() -> None:
    figures = GPU.changed(tma_ahead_bytes=10_000, l2_queueing_cycles=0).constants
    memory, sm = MemorySystem(figures, 1000, 1, 132), SM(figures, 2, 0)
    for _ in range(20):
        memory.box(sm, [sm], 0, 8192, 64, 0.0)
    end, _ = memory.read(0, 32, 0.0)
    first = max(figures.tma_box_cycles, 64 * figures.tma_row_cycles)  # when the first box has left the unit
    assert end == pytest.approx(first + 10_032 / memory.l2.rate)
    assert memory.l2.free > 10 * end


def test_sms_without_work_leave_their_bandwidth_to_the_others() -> None:
    """A quarter of the CTAs has something to do; the others end at once."""
    body = "mov.u32 %r5, %ctaid.x; and.b32 %r6, %r5, 3; setp.ne.u32 %p1, %r6, 0;\n@%p1 bra E;\n"
    launch = launched(body + "fma.rn.f32 %r1, %r1, %r1, %r1;\n" * 2000 + "E: ret;\n", grid=(132,))
    assert Setting(launch, GPU, None, 1000.0, "warm").competing == pytest.approx(33, abs=5)
    even = launched("fma.rn.f32 %r1, %r1, %r1, %r1;\n" * 200, grid=(132,))
    assert Setting(even, GPU, None, 1000.0, "warm").competing == 132


def test_a_descriptor_that_was_changed_is_fetched_anew() -> None:
    body = "ld.param.u64 %d1, [p0];\n" + "fence.proxy.tensormap::generic.acquire.gpu [%d1], 128;\n" * 3
    launch = launched(body, np.zeros(256, np.uint8))
    short, long = (ptxsim.predict(launch, GPU.changed(tma_descriptor_latency=n)).launches[0].cycles for n in (0, 307))
    assert long - short == 3 * 307


def test_loads_by_themselves_get_no_more_than_the_bandwidth() -> None:
    memory = MemorySystem(GPU.changed(tma_ahead_bytes=1000, l2_queueing_cycles=0).constants, 1000, 1, 132)
    ends = [memory.read(0, 512, 0.0)[0] for _ in range(100)]
    assert ends[-1] == pytest.approx(100 * 512 / memory.l2.rate)


def test_warps_share_the_tensor_core_between_single_products() -> None:
    kernel = launched(f"{PRODUCT}\nmov.u32 %r11, 0;\n{PRODUCT}\n{PRODUCT}")
    program = TimedProgram(kernel.module, kernel.kernel, None, GPU.constants)
    products = [n for n, ins in enumerate(program.instructions) if ins.base == "mma"]
    assert [(b.first, b.last) for b in program.blocks if b.first in products] == [(n, n + 1) for n in products]
