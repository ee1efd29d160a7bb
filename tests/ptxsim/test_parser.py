"""The PTX reader: scopes, operands, directives, line information, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
from snippets import run_kernel

from ptxsim import Module, PtxError
from ptxsim.frontend.syntax import Imm, Mem, Pair, Reg, Vec

TEXT = """// a comment { ; }
.version 8.8
.target sm_100a
.address_size 64
.extern .shared .align 1024 .b8 dyn[];
.const .align 4 .b8 table[8] = {1, 2, 3, 4, 5, 6, 7, 255};
.visible .entry first(
    .param .align 64 .b8 map[128], .param .u32 n, .param .u64 .ptr .global .align 1 x, .param .f32 scale
)
.reqntid 128, 1, 1
.explicitcluster
.reqnctapercluster 2, 1, 1
{
    .reg .pred %p<5>; .reg .b32 %r<20>; .reg .b64 %rd<9>;
    .shared .align 8 .b8 stage[64];
    .loc 1 42 7
    ld.param.u32 %r1, [n];
$L__BB0_1:
    /* two
       lines */
    { .reg .b32 %r1; mov.b32 %r1, -5; LOOP: setp.lt.s32 %p1|%p2, %r1, 0x10; @!%p1 bra LOOP; }
    { LOOP: @%p2 bra LOOP; }
    mov.b64 {%r2, _}, %rd1;
    fma.rn.f32 %r3, %r2, 0f3F800000, 2.5;
    cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes [%r4+128], [%rd2, {%r5, -3}], [%r6];
    @%p1 bra.uni $L__BB0_1;
    ret;
}
    .file 1 "kernel.py"
"""


@pytest.fixture(scope="module")
def kernel():
    return Module.from_text(TEXT).kernels["first"]


def test_header_and_variables() -> None:
    module = Module.from_text(TEXT)
    assert (module.version, module.target) == ("8.8", "sm_100a")
    assert module.variables["table"].init == bytes([1, 2, 3, 4, 5, 6, 7, 255])
    assert (module.variables["dyn"].space, module.variables["dyn"].size) == ("shared", 0)


def test_parameters_are_laid_out_with_their_alignment(kernel) -> None:
    assert [(p.name, p.offset, p.size) for p in kernel.params] == [
        ("map", 0, 128),
        ("n", 128, 4),
        ("x", 136, 8),
        ("scale", 144, 4),
    ]
    assert kernel.param_bytes == 148
    assert kernel.directives == {"reqntid": (128, 1, 1), "explicitcluster": (), "reqnctapercluster": (2, 1, 1)}
    assert kernel.variables["stage"].size == 64


def test_scopes_have_their_own_registers_and_labels(kernel) -> None:
    code = kernel.instructions
    outer = code[0].operands[0]
    inner = next(i for i in code if i.text.startswith("mov.b32 %r1")).operands[0]
    assert outer.name == inner.name and outer.slot != inner.slot
    first, second = (n for n, i in enumerate(code) if i.base == "bra" and "LOOP" in i.text)
    assert code[first].target == first - 1 and code[second].target == second
    assert code[first].guard.negated and not code[second].guard.negated


def test_operands(kernel) -> None:
    by_op = {i.op: i for i in kernel.instructions}
    assert isinstance(by_op["setp.lt.s32"].operands[0], Pair) and by_op["setp.lt.s32"].operands[2] == Imm(16)
    vector, source = by_op["mov.b64"].operands
    assert isinstance(vector, Vec) and vector.items[1] is None and isinstance(source, Reg)
    assert by_op["fma.rn.f32"].operands[2] == Imm(1.0, 0x3F800000) and by_op["fma.rn.f32"].operands[3] == Imm(2.5)
    copy = next(i for i in kernel.instructions if i.op.startswith("cp.async"))
    assert isinstance(copy.operands[0], Mem) and copy.operands[0].offset == 128
    assert copy.operands[1].coords[0].items[1] == Imm(-3)


def test_operands_in_brackets_may_follow_their_opcode_without_a_space(kernel) -> None:
    text = TEXT.replace("mov.b64 {", "mov.b64{").replace("bytes [%r4", "bytes[%r4")
    assert text.count("mov.b64{") == text.count("bytes[") == 1
    again = Module.from_text(text).kernels["first"].instructions
    assert [(i.op, i.operands) for i in again] == [(i.op, i.operands) for i in kernel.instructions]


def test_lines_and_sources(kernel) -> None:
    first = kernel.instructions[0]
    assert TEXT.split("\n")[first.line - 1].strip() == "ld.param.u32 %r1, [n];"
    assert first.source == "kernel.py:42"
    move = next(i for i in kernel.instructions if i.text.startswith("mov.b64"))
    assert TEXT.split("\n")[move.line - 1].strip().startswith("mov.b64")


@pytest.mark.parametrize(
    "bad,what",
    [
        ("bra NOWHERE;", "unknown label NOWHERE"),
        (".bogus 3;", "unknown directive"),
        ("@%p9x bra L;", "unknown guard"),
        ("mov.b32 %r1, a b c;", "cannot read the operand"),
        ("mov.f32 %r1, 0f3F80;", "cannot read the operand «0f3F80»"),
        ("ld.shared.b32 %r1, [];", "cannot read the operand «»"),
        ("mov.b32 %r1, 09;", "cannot read the PTX before this line"),
        ("@%r1;", "unknown guard in «@%r1»"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_line(bad, what) -> None:
    text = f".version 8.8\n.target sm_90a\n.visible .entry k()\n{{\n.reg .b32 %r<4>;\n{bad}\nret;\n}}\n"
    with pytest.raises(PtxError, match=what) as error:
        Module.from_text(text)
    assert ":6:" in str(error.value)


@pytest.mark.parametrize(
    ("old", "new"), [(".param .u32 n", ".param .u2 n"), ("{1, 2, 3,", "{1, two, 3,"), ("128, 1, 1", "128 1 1")]
)
def test_a_header_that_cannot_be_read_is_an_error_of_one_line(old: str, new: str) -> None:
    with pytest.raises(PtxError, match=r"^kernel.ptx:\d+: in \w+: cannot read the PTX before this line") as error:
        Module.from_text(TEXT.replace(old, new), "kernel.ptx")
    assert len(str(error.value).splitlines()) == 1


def test_device_functions_with_a_body_are_refused() -> None:
    with pytest.raises(PtxError, match="device functions"):
        Module.from_text(".version 8.8\n.target sm_90a\n.func helper()\n{\nret;\n}\n")


def test_a_dump_with_a_source_section_ends_before_it() -> None:
    text = TEXT + ".nv_intermediate_source_section {\n.code_block {\nentry @f(%a: tile<f32>) {{\n}\n}\n"
    assert list(Module.from_text(text).kernels) == ["first"]


def test_a_text_that_ends_inside_a_kernel_is_an_error_wherever_it_is_cut() -> None:
    named, end = TEXT.index("first("), TEXT.rindex("}") + 1
    for cut in range(named, end):
        with pytest.raises(PtxError) as error:
            Module.from_text(TEXT[:cut])
        assert len(str(error.value).splitlines()) == 1
    assert list(Module.from_text(TEXT[:end]).kernels) == ["first"]


def test_the_last_brace_is_asked_for_in_one_line() -> None:
    text = TEXT[: TEXT.rindex("}")]
    with pytest.raises(PtxError, match="in first: the text ends before the kernel's last brace"):
        Module.from_text(text, "kernel.ptx")
    with pytest.raises(PtxError, match="in first: the text ends before the kernel's opening brace"):
        Module.from_text(TEXT[: TEXT.index("{\n    .reg")], "kernel.ptx")


@pytest.mark.parametrize("target", ["sm_130a", "sm_80a", "sm_95", "sm_1000", "hopper", "sm_90b"])
def test_a_target_that_is_not_simulated_is_refused(target: str) -> None:
    with pytest.raises(PtxError, match=f"kernel.ptx:3: in module: the target {target} is not simulated"):
        Module.from_text(TEXT.replace("sm_100a", target), "kernel.ptx")


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        (".target sm_100a", ".target sm_80", "kernel.ptx:3: the target sm_80"),
        (".version 8.8", ".version 9.9", "kernel.ptx:2: .version 9.9 is newer than"),
    ],
)
def test_an_old_target_and_a_new_version_are_warned_of(old: str, new: str, reported: str) -> None:
    with pytest.warns(UserWarning, match=reported):
        assert Module.from_text(TEXT.replace(old, new), "kernel.ptx").kernels


@pytest.mark.parametrize("target", ["sm_90", "sm_90a, debug", "sm_100f", "sm_103a", "sm_107a", "sm_120a"])
def test_a_target_that_is_simulated_is_taken_without_a_warning(target: str, recwarn) -> None:
    assert Module.from_text(TEXT.replace("sm_100a", target)).target == target and not recwarn.list


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(PtxError, match=r"«\.version eight» is not a PTX ISA version"):
        Module.from_text(TEXT.replace("8.8", "eight"))


@pytest.mark.parametrize("name", ["%v", "%v<3>"])
def test_vector_registers_and_bytes_of_a_word(name: str) -> None:
    """PTX ISA 6.4.2 (vectors as operands) and 9.7.9 (mov packs and unpacks)."""
    v = name.replace("<3>", "2")
    body = f"""mov.u32 %r1, %tid.x; ld.param.u64 %d1, [p0]; mad.wide.u32 %d1, %r1, 16, %d1; ld.global.v4.u32 {v}, [%d1];
    mov.b32 {{b0, b1, b2, b3}}, {v}.w; mov.b32 {v}.a, {{b3, b2, b1, b0}}; add.u32 {v}.x, {v}.r, 1;
    st.global.v4.u32 [%d1], {v};"""
    x = np.arange(128, dtype=np.uint32).reshape(32, 4) * 0x01030507
    want = x + np.array([1, 0, 0, 0], np.uint32)
    want[:, 3] = x[:, 3].byteswap()
    result = run_kernel(body, x, registers=f".reg .v4 .b32 {name};\n.reg .b8 b0, b1, b2, b3;")
    assert result.ok
    np.testing.assert_array_equal(x, want)
