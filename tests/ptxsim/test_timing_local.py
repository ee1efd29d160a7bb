"""Local memory under the clock.

What ptxas spills goes through L1, and to L2 where L1 has no place for it.
"""

import subprocess

import numpy as np
import pytest

import ptxsim
from ptxsim.timing import DeviceModel
from ptxsim.timing.l1_cache import L1Cache
from ptxsim.timing.local_memory import LocalMemory
from ptxsim.timing.sass import Slot, read_cubin

tiny_build = pytest.importorskip("tiny_build", reason="ptxas comes with the repository's environment, not with ptxsim")

RATES = {"local_bytes_per_cycle": 128, "local_miss_bytes_per_cycle": 64, "store_bytes_per_cycle": 32}
GPU = DeviceModel.load("h200").changed(sm_clock_mhz=1000, local_latency=30, local_l2_latency=300, **RATES)


def memory(lines: int) -> LocalMemory:
    """An SM whose L1 has so many lines; L2 gives 32 and takes 16 B/cycle."""
    return LocalMemory(GPU.constants, L1Cache(128 * lines), 32.0, 16.0, 1.5)


def store(word: int, words: int = 1) -> Slot:
    return Slot(word, words, store=True, last=False)


def load(word: int, words: int = 1, last: bool = False) -> Slot:
    return Slot(word, words, store=False, last=last)


def test_what_l1_keeps_is_loaded_at_its_speed_and_stored_at_that_of_l2() -> None:
    local = memory(lines=8)
    for word in range(4):
        local.access(0, store(word), 0.0)
    assert local.out.take(0.0) == 4 * 8  # cycles: all of it has gone on to L2, with 16 bytes a cycle
    assert local.access(0, load(0), 100.0) == (130.0, 100.0)
    assert local.access(0, load(1, 2), 200.0)[0] == 231.0  # two words of a lane are two lines
    assert (local.loaded, local.stored) == (0, 4 * 128)


def test_a_warp_waits_when_many_stores_are_on_their_way() -> None:
    local = memory(lines=8)
    ends = [local.access(0, store(word), 0.0)[1] for word in range(100)]
    assert ends[0] == ends[60] == 0.0 < ends[70]  # 64 of them are 8 KiB
    assert ends[99] == pytest.approx(99 * 8 - 512)


def test_what_l1_has_no_place_for_comes_from_l2_beside_what_is_stored() -> None:
    local = memory(lines=8)
    for word in range(16):
        local.access(0, store(word), 0.0)
    assert local.access(0, load(0), 1000.0)[0] == pytest.approx(1300, abs=8)
    assert local.loaded == 128
    assert local.access(0, load(1), 0.0)[0] == pytest.approx(16 * 6 + 300, abs=8)  # a store counts for 1.5 loads


def test_stores_after_a_pause_go_on_to_l2_at_the_speed_of_the_sms_own_port() -> None:
    local = memory(lines=64)
    busy = [local.access(0, store(word), 0.0) and local.out.take(0.0) for word in range(2)]
    assert busy[-1] > 8  # from the first access on L2 takes 16 bytes a cycle
    ends = [local._store(-1 - word, store(word), 10_000.0) for word in range(16)]
    assert ends[-1] - 10_000 <= 16 * 128 / 32 + 8


def test_a_last_load_gives_its_place_up() -> None:
    local = memory(lines=8)
    for word in range(8):
        local.access(0, store(word), 0.0)
    local.access(0, load(7, last=True), 0.0)
    local.access(0, store(8), 0.0)  # comes in its place
    assert local.access(0, load(0), 1000.0)[0] == 1030.0
    assert local.access(0, load(7), 2000.0)[0] >= 2300.0


def test_warps_have_lines_of_their_own_and_places_nobody_knows_are_taken_to_be_in_l1() -> None:
    local = memory(lines=8)
    local.access(0, store(0), 0.0)
    assert local.access(1, load(0), 100.0)[0] > 300
    assert local.access(2, load(-1), 1000.0)[0] == 1030.0


def spilling(folder, values: int) -> tuple[ptxsim.Module, object]:
    """Return a loop over more values than its threads' 64 registers, and its SASS."""
    names = [f"%v{n}" for n in range(values)]
    text = (
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p0, .param .u32 p1)\n"
        f".maxnreg 64\n{{\n.reg .b32 %v<{values}>;\n.reg .b32 %n, %sum;\n.reg .b64 %d;\n.reg .pred %p;\n"
        "ld.param.u64 %d, [p0];\nld.param.u32 %n, [p1];\nmov.u32 %sum, %tid.x;\n"
        + "".join(f"add.u32 {name}, %sum, {n};\n" for n, name in enumerate(names))
        + "LOOP:\n"
        + "".join(f"mad.lo.u32 {name}, {name}, %n, %sum;\n" for name in names)
        + "sub.u32 %n, %n, 1;\nsetp.ne.u32 %p, %n, 0;\n@%p bra LOOP;\n"
        + "".join(f"xor.b32 %sum, %sum, {name};\n" for name in names)
        + "st.global.u32 [%d], %sum;\nret;\n}\n"
    )
    ptx, cubin = folder / f"k{values}.ptx", folder / f"k{values}.cubin"
    ptx.write_text(text)
    command = [tiny_build.tool("ptxas"), "-lineinfo", "-arch=sm_90a", "-o", str(cubin), str(ptx)]
    subprocess.run(command, check=True, capture_output=True)
    return ptxsim.Module.from_file(ptx), cubin


def round_cycles(built: tuple[ptxsim.Module, object], shared: int) -> float:
    """Cycles that four warps take for a round of the loop."""

    def cycles(rounds: int) -> float:
        arguments = (np.zeros(4, np.uint32), np.uint32(rounds))
        launch = ptxsim.launch(built[0], "k", (132,), (128,), arguments, dynamic_shared=shared)
        return ptxsim.predict(launch, GPU, code=built[1]).launches[0].cycles

    return (cycles(10) - cycles(2)) / 8


def test_spilled_registers_are_told_by_their_place_on_the_stack_and_cost_what_their_bytes_do(tmp_path) -> None:
    few, many = spilling(tmp_path, 48), spilling(tmp_path, 192)
    code = read_cubin(many[1])["k"]
    slots = [op.slot for op in code.ops if op.slot is not None]
    assert sum(slot.store for slot in slots) >= 128 and any(slot.last for slot in slots)
    assert all(slot.word >= 0 and slot.words == 1 for slot in slots)
    assert all(op.slot is None for op in read_cubin(few[1])["k"].ops)
    spilled = 192 - 64
    assert round_cycles(few, 0) < 300
    figures = GPU.constants
    a_cycle = figures.local_store_gb_per_s / figures.sm_count  # bytes of an SM, at 1,000 MHz
    assert spilled * 4 * 128 / a_cycle <= round_cycles(many, 0) < 1.6 * spilled * 4 * 128 / a_cycle
    assert round_cycles(many, 200 << 10) > round_cycles(many, 0)  # L1 has 28 KiB left
