"""The clock reads machine code: stall counts, registers and PTX lines out of a cubin that ptxas has made."""

import subprocess
from types import SimpleNamespace

import pytest

import ptxsim
from ptxsim.timing import DeviceError, DeviceModel
from ptxsim.timing.machine_code import Op
from ptxsim.timing.sass import Code, SassOp, read_cubin
from ptxsim.timing.timed_program import TimedProgram

tiny_build = pytest.importorskip("tiny_build", reason="ptxas comes with the repository's environment, not with ptxsim")

CARD = DeviceModel.load("h200").changed(sm_clock_mhz=1000)
HEAD = ".version 8.0\n.target sm_90a\n.address_size 64\n"


def text(body: str) -> str:
    """A kernel that stores what `body` has left in %f1, so that ptxas keeps it."""
    return (
        f"{HEAD}.visible .entry k(.param .u64 p0)\n{{\n.reg .f32 %f<9>;\n.reg .pred %p1;\n.reg .b32 %r<9>;\n"
        f".reg .b64 %d<3>;\nld.param.u64 %d1, [p0];\nmov.u32 %r1, %tid.x;\ncvt.rn.f32.u32 %f1, %r1;\n{body}\n"
        "mul.wide.u32 %d2, %r1, 4;\nadd.s64 %d1, %d1, %d2;\nst.global.f32 [%d1], %f1;\nret;\n}\n"
    )


@pytest.fixture
def compiled(tmp_path):
    def make(body: str):
        ptx, cubin = tmp_path / "kernel.ptx", tmp_path / "kernel.cubin"
        ptx.write_text(text(body))
        command = [tiny_build.tool("ptxas"), "-lineinfo", "-arch=sm_90a", "-o", str(cubin), str(ptx)]
        subprocess.run(command, check=True, capture_output=True)
        read_cubin.cache_clear()
        return ptxsim.Module.from_file(ptx), cubin

    return make


def cycles(module, cubin, threads=32) -> float:
    import numpy as np

    launch = ptxsim.launch(module, "k", (1,), (threads,), (np.zeros(1024, np.float32),))
    return ptxsim.predict(launch, CARD, code=cubin).launches[0].cycles


CHAIN = "fma.rn.f32 %f1, %f1, %f1, %f1;\n"


def test_each_instruction_has_its_ptx_line_unit_and_stall_count(compiled) -> None:
    _, cubin = compiled(CHAIN * 10)
    code = read_cubin(cubin)["k"]
    assert 8 <= code.registers <= 32 and code.size == 16 * len(code.ops)
    lines = [n for n, line in enumerate(text(CHAIN * 10).splitlines(), 1) if line.startswith("fma")]
    fmas = [op for op in code.ops if op.line in lines]
    assert [op.line for op in fmas] == lines and {op.unit for op in fmas} == {"fma"}
    assert {op.stall for op in fmas} <= {4, 5}


def test_a_chain_takes_the_stalls_that_ptxas_has_encoded(compiled) -> None:
    long, short = cycles(*compiled(CHAIN * 300)), cycles(*compiled(CHAIN * 100))
    assert long - short == pytest.approx(200 * 4, rel=0.02)


def test_a_slow_instruction_is_waited_for_by_its_scoreboard(compiled) -> None:
    chain = "ex2.approx.ftz.f32 %f1, %f1;\n"
    long, short = cycles(*compiled(chain * 100)), cycles(*compiled(chain * 50))
    assert (long - short) / 50 == pytest.approx(CARD.figures.sfu_latency, rel=0.05)


def test_a_loop_costs_its_rounds(compiled) -> None:
    def loop(rounds: int) -> str:
        return f"mov.u32 %r2, 0;\nL:\n{CHAIN * 8}add.u32 %r2, %r2, 1;\nsetp.lt.u32 %p1, %r2, {rounds};\n@%p1 bra L;"

    grown = cycles(*compiled(loop(3000))) - cycles(*compiled(loop(1000)))
    assert grown == pytest.approx(2000 * 8 * 4, rel=0.4)  # with the end of each round; ptxas unrolls it


def test_machine_code_that_was_made_of_another_text_is_not_taken_for_its_own(compiled) -> None:
    """As where somebody has taken lines out of the text, or put some in, after it was assembled."""
    chain = "ex2.approx.ftz.f32 %f1, %f1;\n" * 50
    module, cubin = compiled(chain)
    shifted = ptxsim.Module.from_text("// a line more\n" * 100 + text(chain))
    assert cycles(shifted, cubin) == cycles(shifted, None) != cycles(module, cubin)
    notes = [
        ptxsim.predict(ptxsim.launch(m, "k", (1,), (32,), (0,)), CARD, code=cubin).notes for m in (module, shifted)
    ]
    assert not any("PTX" in note for note in notes[0]) and any("PTX" in note for note in notes[1])


WAIT = """.shared .align 8 .b64 bar;
setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;
mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.shared.b64 _, [bar];
READY: bar.sync 0;
"""
TEST = "W{n}: mbarrier.try_wait.parity.shared.b64 %p1, [bar], 0, 10000000; @!%p1 bra W{n};\n" + CHAIN * 4


def test_where_a_warp_sleeps_behind_the_kernels_end_costs_nothing_where_it_does_not(compiled) -> None:
    body = WAIT + "".join(TEST.format(n=n) for n in range(40))
    module, cubin = compiled(body)
    code = read_cubin(cubin)["k"]
    sleeping = [n for n, op in enumerate(code.ops) if op.unit == "sleep"]
    assert sleeping and min(sleeping) >= code.usual
    without = cycles(*compiled(WAIT + CHAIN * 160))
    assert (cycles(module, cubin) - without) / 40 < 60  # a test and a branch; with the other way it were twice that


@pytest.mark.parametrize(("waited", "alone"), [("one", True), ("three", False)])
def test_ptxas_waiting_for_each_product_is_seen_in_the_machine_code(waited, alone) -> None:
    product, warpgroup = sass_op(0x1F0), sass_op(0x1C5)
    order = {"one": [warpgroup, product, warpgroup], "three": [warpgroup, product, product, product, warpgroup]}[waited]
    assert Code("k", tuple(order * 4)).one_product_at_a_time is alone


def test_what_stands_behind_a_product_that_ptxas_waits_for_is_issued_when_it_is_done() -> None:
    """Blocks of a product and of something else, each with an instruction before it and one that stores a register."""
    program = TimedProgram.__new__(TimedProgram)
    program.blocks = [SimpleNamespace(first=n) for n in (0, 1)]
    program.instructions = [SimpleNamespace(base="wgmma"), SimpleNamespace(base="add")]
    before, product, behind = (Op(unit, "", 1, 0, 1, (), -1, -1, 0, 0) for unit in ("alu", "product", "local"))
    program.costs = [(before, product, behind), (before, behind)]
    program.afterwards = {}
    program._put_off()
    assert program.costs == [(before, product), (before, behind)]
    assert program.afterwards == {0: (behind,)}


def sass_op(opcode: int) -> SassOp:
    return SassOp(0, opcode, "product", 1, -1, -1, 0, 1, False)


def test_a_cubin_of_another_kernel_is_one_clear_line(compiled) -> None:
    _, cubin = compiled(CHAIN)
    other = ptxsim.Module.from_text(text(CHAIN).replace(" k(", " other("))
    launch = ptxsim.launch(other, "other", (1,), (32,), (0,))
    with pytest.raises(DeviceError, match=r"kernel\.cubin has no code of the kernel other"):
        ptxsim.predict(launch, CARD, code=cubin)


def test_a_file_that_is_no_cubin_is_one_clear_line(tmp_path) -> None:
    (tmp_path / "no.cubin").write_text("text")
    with pytest.raises(DeviceError, match=r"no\.cubin is no cubin"):
        read_cubin(tmp_path / "no.cubin")
