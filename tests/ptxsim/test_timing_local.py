"""Local memory under the clock: what ptxas spills goes through L1, and to L2 where L1 has no place for it."""

import subprocess

import numpy as np
import pytest

import ptxsim
from ptxsim.timing import DeviceModel
from ptxsim.timing.l1_cache import L1Cache
from ptxsim.timing.local_memory import LocalMemory
from ptxsim.timing.sass import Slot, read_cubin

tiny_build = pytest.importorskip("tiny_build", reason="ptxas comes with the repository's environment, not with ptxsim")

RATES = {"local_bytes_per_cycle": 64, "local_store_bytes_per_cycle": 64, "store_bytes_per_cycle": 32}
CARD = DeviceModel.load("h200").changed(sm_clock_mhz=1000, local_latency=30, l1_latency=30, l2_latency=300, **RATES)


def memory(lines: int) -> LocalMemory:
    """An SM whose L1 has place for so many lines, and whose part of L2 is 32 bytes a cycle."""
    return LocalMemory(CARD.figures, L1Cache(128 * lines), 32.0, 32.0)


def store(word: int, words: int = 1) -> Slot:
    return Slot(word, words, store=True, last=False)


def load(word: int, words: int = 1, last: bool = False) -> Slot:
    return Slot(word, words, store=False, last=last)


def test_what_l1_keeps_takes_the_time_of_l1_alone() -> None:
    local = memory(lines=8)
    for word in range(4):
        local.access(0, store(word), 0.0)
    assert local.access(0, load(0), 100.0)[0] == 131.0
    assert local.access(0, load(1, 2), 200.0)[0] == 233.0  # two words of a lane are two lines
    assert local.fetched == local.evicted == 0


def test_what_l1_has_no_place_for_goes_to_l2_and_comes_from_there() -> None:
    local = memory(lines=8)
    for word in range(16):
        local.access(0, store(word), 0.0)
    assert local.evicted == 8 * 128
    assert local.evictions.take(16.0) == 48.0  # with 32 bytes a cycle, from when L1 was full
    assert local.access(0, load(0), 1000.0)[0] == 1301.0
    assert local.fetched == 128 and local.evicted == 9 * 128  # the line that came made another one go


def test_a_last_load_gives_its_place_up_and_nothing_is_written_back() -> None:
    local = memory(lines=8)
    for turn in range(4):
        for word in range(8):
            local.access(0, store(8 * turn + word), 0.0)
        for word in range(8):
            local.access(0, load(8 * turn + word, last=True), 0.0)
    assert local.evicted == local.fetched == 0


def test_warps_have_lines_of_their_own_and_places_nobody_knows_are_taken_to_be_in_l1() -> None:
    local = memory(lines=8)
    local.access(0, store(0), 0.0)
    assert local.access(1, load(0), 100.0)[0] > 300
    assert local.access(2, load(-1), 1000.0)[0] == 1031.0


def spilling(folder, values: int) -> tuple[ptxsim.Module, object]:
    """A loop over more values than the 64 registers that its threads have, and its machine code."""
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
        return ptxsim.predict(launch, CARD, code=built[1]).launches[0].cycles

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
    assert 2 * spilled * 4 * 2 <= round_cycles(many, 0) < 2 * round_cycles(many, 200 << 10)
    assert round_cycles(many, 200 << 10) >= spilled * 4 * 4  # stores leave an L1 of 28 KiB with 32 bytes a cycle
