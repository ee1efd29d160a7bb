"""What callers rely on: capture's errors, findings, counts, schedules, the command line, the census."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from snippets import kernel_text, run_kernel

import ptxsim
from ptxsim.census import census
from ptxsim.commandline.main import main
from ptxsim.core.schedule import Schedule


@pytest.fixture(scope="module")
def adder() -> tuple:
    """NVIDIA's elementwise addition as the catalogue builds it, with its PTX."""
    from test_examples import elementwise_add  # which is skipped where the catalogue is not

    folder = elementwise_add()
    return folder, ptxsim.Module.from_file(folder / "kernel.ptx")


def test_capture_passes_on_the_object_s_own_message(adder) -> None:
    folder, module = adder
    x = np.zeros((4, 8), np.float32)
    with pytest.raises(ptxsim.CaptureError, match="Expects 4 parameters"):
        ptxsim.capture(folder / "kernel.o", "elementwise_add", (x, x), module)
    with pytest.raises(ptxsim.CaptureError, match="float32"):
        ptxsim.capture(folder / "kernel.o", "elementwise_add", (x, x, x.astype(np.float16), 0), module)


def test_capture_names_what_is_missing(adder, monkeypatch, tmp_path) -> None:
    folder, module = adder
    x = np.zeros((4, 8), np.float32)
    with pytest.raises(ptxsim.CaptureError, match="no exported function other"):
        ptxsim.capture(folder / "kernel.o", "other", (x, x, x), module)
    stranger = ptxsim.Module.from_text(kernel_text("nop;", 0))
    with pytest.raises(ptxsim.CaptureError, match="is not in"):
        ptxsim.capture(folder / "kernel.o", "elementwise_add", (x, x, x, 0), stranger)
    monkeypatch.setenv("PTXSIM_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(ptxsim.CaptureError, match="needs a C compiler"):
        ptxsim.capture(folder / "kernel.o", "elementwise_add", (x, x, x, 0), module)


def test_findings_carry_the_source_line_and_the_tensor_s_name(adder) -> None:
    folder, module = adder
    a, b, c = (np.zeros((64, 128), np.float32) for _ in range(3))
    (launch,) = ptxsim.capture(folder / "kernel.o", "elementwise_add", (a, ptxsim.Tensor(b, name="b"), c, 0), module)
    memory = launch.memory
    name = next(x for x in memory.allocations if x.name == "b")
    name.limit -= 512  # as if the tensor were smaller than the kernel was reported
    name.size -= 512
    result = ptxsim.run(launch, checks=())
    assert result.findings and not result.ok
    finding = result.findings[0]
    assert finding.kind == "out-of-bounds" and "past the end of b" in finding.message
    assert "elementwise_add.py:" in finding.source and finding.ptx_line > 0


def test_runs_repeat_exactly_for_a_seed() -> None:
    def trace(seed: int) -> list[str]:
        lines: list[str] = []
        body = "shr.u32 %r2, %r1, 5; bar.sync 0; setp.eq.u32 %p1, %r2, 1; @%p1 bra E; bar.arrive 1, 64; E: bar.sync 0;"
        module = ptxsim.Module.from_text(kernel_text("mov.u32 %r1, %tid.x; " + body, 0))
        launch = ptxsim.launch(module, "k", (2,), (128,), ())
        ptxsim.run(launch, schedule="warps", seed=seed, trace=lines.append)
        return lines

    assert trace(1) == trace(1)
    assert trace(1) != trace(2)


def test_unknown_schedules_and_checks_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown schedule 'lazy'"):
        Schedule("lazy")
    with pytest.raises(ValueError, match="unknown check 'luck'"):
        run_kernel("nop;", checks=("luck",))


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"args": (3,)}, "1 arguments for the 2 parameters"),
        ({"kernel": "l"}, "has no kernel l"),
        ({"grid": (0,)}, "one or more in every dimension"),
        ({"block": (32, 33)}, "more than 1024 threads"),
        ({"cluster": (2,)}, "does not divide the grid"),
        ({"grid": (1, 1, 1, 1)}, "more than three dimensions"),
        ({"args": (3, b"four")}, "4 bytes for a parameter of 8"),
    ],
)
def test_launch_checks_its_arguments(shape, message) -> None:
    module = ptxsim.Module.from_text(kernel_text("nop;", 2))
    with pytest.raises(ValueError, match=message):
        ptxsim.launch(**{"module": module, "kernel": "k", "grid": (1,), "block": (32,), "args": (3, 4), **shape})
    with pytest.raises(ptxsim.CaptureError, match="cannot take a str as a tensor"):
        ptxsim.launch(module, "k", (1,), (32,), ("x", 4))


def test_addresses_in_an_array_reach_what_was_registered() -> None:
    """The kernel loads a word through an address that stands in p0's array."""
    body = "ld.param.u64 %d1, [p0]; ld.global.b64 %d2, [%d1]; ld.global.b32 %r1, [%d2]; st.global.b32 [%d1+8], %r1;"
    target = np.array([5], np.uint32)
    table = np.array([target.ctypes.data, 0], np.uint64)
    module = ptxsim.Module.from_text(kernel_text(body, 1))
    assert ptxsim.run(ptxsim.launch(module, "k", (1,), (1,), (table,))).findings[0].kind == "out-of-bounds"
    assert ptxsim.run(ptxsim.launch(module, "k", (1,), (1,), (table,), pointees=(target,))).ok
    assert table[1] == 5


def test_counts_by_hand() -> None:
    x, y = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    body = """ld.param.u64 %d1, [p0]; ld.param.u64 %d2, [p1]; mov.u32 %r1, %tid.x; mad.wide.u32 %d1, %r1, 4, %d1;
    mad.wide.u32 %d2, %r1, 4, %d2;
    ld.global.b32 %r2, [%d1]; ld.global.b32 %r3, [%d1]; st.global.b32 [%d2], %r2;"""
    module = ptxsim.Module.from_text(kernel_text(body, 2))
    (counts,) = ptxsim.run(ptxsim.launch(module, "k", (1,), (64,), (x, y)), track=True).counts
    assert counts.instructions == {"ld.param": 4, "mov": 2, "mad": 4, "ld.global": 4, "st.global": 2, "ret": 2}
    assert counts.warp_instructions == 18
    assert (counts.global_read_bytes, counts.global_read_unique_bytes) == (512, 256)
    assert (counts.global_write_bytes, counts.global_write_unique_bytes) == (256, 256)
    assert json.dumps(counts.as_dict())


def test_the_command_line_runs_a_folder_that_cute_dsl_made(built, capsys, tmp_path) -> None:
    folder = str(built("fp16_gemm_0"))
    args = ["--arg", "f16[128,64]", "--arg", "f16[256,64]", "--arg", "f16[128,256]=nan"]
    record = tmp_path / "record.json"
    assert main([folder, *args, "--schedule", "late", "--json", str(record)]) == 0
    out = capsys.readouterr().out
    assert "grid (1, 1, 1), block (128, 1, 1)" in out and "schedule late, seed 0" in out and "0 findings" in out
    (run,) = json.loads(record.read_text())["runs"]
    assert run["counts"][0]["mma_flops"] == 2 * 128 * 256 * 64 and run["changed"] == ["mC"]
    assert main([folder, *args[:4]]) == 2 and "2 arguments (--arg) for the 4 of gemm(mA" in capsys.readouterr().err
    assert main([str(tmp_path)]) == 2 and "needs one .o file" in capsys.readouterr().err
    assert main([folder, *args, "--trace"]) == 0 and "TMA load" in capsys.readouterr().err


def test_the_census_tells_what_is_not_simulated(tmp_path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(kernel_text("add.s32 %r1, %r2, 3; frob.b32 %r1, %r2; add.odd.s32 %r1, %r1, %r1;", 0))
    rows = census([path])
    assert (
        rows["add.s32"] == (1, 1, "sm_100a", "")
        and "unknown opcode" in rows["frob.b32"][3]
        and "unknown opcode" in rows["add.odd.s32"][3]
    )


def test_the_census_tells_of_files_and_operands_that_it_cannot_read_in_a_line_each(tmp_path) -> None:
    good, cut, binary, empty = (tmp_path / name for name in ("good.ptx", "cut.ptx", "kernel.cubin", "empty.ptx"))
    body = "mov.b32 %r1; add.u32 %r1, %r2; mov.b32 %r1, {%r1}; bra END; mov.u32 %r1, 2; END:"
    good.write_text(kernel_text(body, 0).replace("END:\nret;", "END:"))
    cut.write_text(kernel_text(body, 0).rstrip().rstrip("}"))
    binary.write_bytes(b"\x7fELF\xff\xfe")
    empty.write_text(".version 8.0\n.target sm_90a\n")
    command = [sys.executable, "-m", "ptxsim.census"]
    ended = subprocess.run([*command, good, cut, tmp_path / "none.ptx", binary, empty], capture_output=True, text=True)
    reported = ended.stderr.splitlines()
    assert ended.returncode == 2 and len(reported) == 4 and all(x.startswith("ptxsim.census: ") for x in reported), (
        ended.stderr
    )
    assert "last brace" in reported[0] and "none.ptx: No such file" in reported[1] and "kernel.cubin: " in reported[2]
    assert "empty.ptx: contains no kernel" in reported[3]
    assert "| mov.b32 | 2 | 1 | sm_100a | no: operands that the opcode does not take" in ended.stdout
    assert "| bra | 1 | 1 | sm_100a | yes |" in ended.stdout
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 2 and ended.stderr.startswith("usage: ") and not ended.stdout


def test_operands_that_an_opcode_does_not_take_are_an_error_with_the_line() -> None:
    with pytest.raises(ptxsim.PtxError, match=r":13: kernel k: operands that the opcode does not take: «mov\.b32 %r1»"):
        run_kernel("mov.b32 %r1;")


def test_a_finding_names_the_warp_at_fault_of_those_that_run_in_step() -> None:
    body = """mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; and.b32 %r3, %r2, 31; shl.b32 %r3, %r3, 2; shl.b32 %r4, %r2, 2;
    add.u32 %r3, %r1, %r3; add.u32 %r4, %r1, %r4; st.shared.u32 [%r3], 1; bar.sync 0; ld.shared.u32 %r5, [%r4];"""
    (finding,) = run_kernel(body, threads=96, shared=512, schedule="eager", checks=("uninitialised",)).findings
    assert finding.warp == 1 and finding.message.startswith("warp 1 of CTA 0 reads")


def test_shadows_tell_uninitialised_words_apart() -> None:
    body = (
        "mov.u32 %r1, dyn; mov.u32 %r2, 1; st.shared.b32 [%r1+8], %r2; ld.shared.b32 %r3, [%r1+8]; "
        "ld.shared.b32 %r4, [%r1+12];"
    )
    (finding,) = run_kernel(body, shared=64, checks=("uninitialised",)).findings
    assert finding.kind == "uninitialised" and "shared offset 12 " in finding.message


def test_a_long_computation_beside_a_poller_is_no_deadlock() -> None:
    body = """mov.u32 %r1, %tid.x; mov.u32 %r2, dyn; setp.ne.u32 %p1, %r1, 0; @%p1 bra GO;
    mbarrier.init.shared.b64 [%r2], 1; GO: bar.sync 0;
    setp.ge.u32 %p2, %r1, 32; @%p2 bra POLL; mov.u32 %r3, 0; A: add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 60000;
    @%p3 bra A; @%p1 bra END;
    mbarrier.arrive.shared.b64 %d1, [%r2]; bra END; POLL: mbarrier.test_wait.parity.shared.b64 %p4, [%r2], 0;
    add.u32 %r5, %r5, 1; @!%p4 bra POLL; END:"""
    for schedule in ("eager", "warps"):
        assert not run_kernel(body, threads=64, shared=64, schedule=schedule).findings


@pytest.mark.parametrize(
    "scale,access,wavefronts,conflicts",
    [
        (4, "ld.shared.b32 %r4, [%r3];", 2, 0),
        (0, "ld.shared.b32 %r4, [%r3];", 2, 0),
        (8, "ld.shared.b32 %r4, [%r3];", 4, 2),
        (128, "ld.shared.b32 %r4, [%r3];", 64, 62),
        (16, "st.shared.v4.b32 [%r3], {%r2,%r2,%r2,%r2};", 8, 0),
        (32, "st.shared.v4.b32 [%r3], {%r2,%r2,%r2,%r2};", 16, 8),
    ],
)
def test_bank_conflicts(scale, access, wavefronts, conflicts) -> None:
    body = f"mov.u32 %r1, dyn; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r2, {scale}, %r1; {access}"
    module = ptxsim.Module.from_text(kernel_text(body, 0))
    launch = ptxsim.launch(module, "k", (1,), (64,), (), dynamic_shared=16384)
    (counts,) = ptxsim.run(launch, checks=(), track=True).counts
    assert (counts.shared_wavefronts, counts.bank_conflicts) == (wavefronts, conflicts)
