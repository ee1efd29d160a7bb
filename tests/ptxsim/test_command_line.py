"""The command `ptxsim`, on an object and PTX written by hand (handmade.c, handmade.ptx).

It needs no CuTe DSL.
"""

from __future__ import annotations

import io
import itertools
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from ptxsim import CaptureError, Finding, signature
from ptxsim.commandline.elements import ELEMENTS, Misuse
from ptxsim.commandline.main import main
from ptxsim.commandline.specs import parse
from ptxsim.commandline.tensors import HostTensor, make
from ptxsim.core.processes import in_order
from ptxsim.host.linking import compiler

FOLDER = Path(__file__).parent
X, Y, N = "--arg=f32[64]=arange", "--arg=f32[64]=nan", "--arg=int:64"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("handmade")
    try:
        words = compiler()
    except CaptureError as error:
        pytest.skip(str(error))
    subprocess.run([*words, "-c", "-fPIC", "-o", folder / "kernel.o", FOLDER / "handmade.c"], check=True)
    shutil.copy(FOLDER / "handmade.ptx", folder / "kernel.ptx")
    (folder / "build.json").write_text(json.dumps({"function": "scale"}))
    return folder


@pytest.fixture
def folder(compiled, tmp_path, monkeypatch) -> Path:
    """A copy of the compiled kernel, in a folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(compiled, tmp_path / "kernel")).relative_to(tmp_path)


def message(capsys, *line: object) -> tuple[int, str, str]:
    """(exit status, stdout, stderr) of the command."""
    capsys.readouterr()
    status = main([str(x) for x in line])
    out = capsys.readouterr()
    return status, out.out, out.err


def test_an_object_tells_its_signature(folder, capsys) -> None:
    status, out, _ = message(capsys, folder, "--signature")
    assert status == 0
    assert out == "scale(x: Tensor([n0], float32), y: Tensor([n0], float32), n: int32, stream: Stream)\n"
    assert [p.name for p in signature(folder / "kernel.o", "gather")] == ["table", "y", "n", "stream"]


def test_the_version_is_printed(capsys) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0 and re.fullmatch(r"ptxsim \d[\d.]*\n", capsys.readouterr().out)


def test_a_right_run_is_compared_saved_and_recorded(folder, capsys) -> None:
    np.save("want.npy", 2 * np.arange(64, dtype=np.float32))
    line = [folder, X, Y, N, "--schedule=all", "--expect=want.npy", "--tolerance=0", "--save=y=y.npy", "--json=r.json"]
    status, out, err = message(capsys, *line)
    assert status == 0 and not err
    assert "y against want.npy, tolerance 0: all 64 elements agree" in out
    np.testing.assert_array_equal(np.load("y.npy"), np.load("want.npy"))
    record = json.loads(Path("r.json").read_text())
    assert record["status"] == 0 and len(record["runs"]) == 8 and record["launches"][0]["grid"] == [2, 1, 1]
    assert record["runs"][0]["changed"] == ["y"] and record["runs"][0]["counts"][0]["global_write_bytes"] == 256


def test_wrong_numbers_give_status_1_and_the_worst_element(folder, capsys) -> None:
    want = 2 * np.arange(64, dtype=np.float32)
    want[7] += 3
    np.savez("want.npz", a=want, b=want)
    status, out, _ = message(capsys, folder, X, Y, N, "--expect=y=want.npz:a")
    assert status == 1 and "1 of 64 elements are wrong, the worst at [7]: 14, expected 17" in out


def test_a_finding_gives_status_1_and_names_tensor_and_source_once(folder, capsys) -> None:
    status, out, _ = message(capsys, folder, "--arg=f32[60]", Y, N)
    assert status == 1
    assert "out-of-bounds: 4-byte load at 0x" in out and "0 bytes past the end of x (240 bytes)" in out
    assert out.count("kernels/scale.py:12") == 1 and "warp 0" in out and "1 finding" in out
    assert message(capsys, folder, "--arg=a=f32[60]", Y, N)[1].count("past the end of a (") == 1


def test_an_address_before_a_tensor_is_said_to_be_before_it(folder, capsys) -> None:
    text = (folder / "kernel.ptx").read_text()
    (folder / "kernel.ptx").write_text(text.replace("ld.global.b32 %r5, [%d1]", "ld.global.b32 %r5, [%d1+-8]"))
    status, out, _ = message(capsys, folder, X, Y, N)
    assert status == 1 and "8 bytes before x (256 bytes)" in out and "past" not in out


def test_addresses_in_a_tensor_reach_what_also_defines(folder, capsys) -> None:
    line = [folder, "--function=gather", "--arg=i64[2]=&p,&q", Y, "--arg=int:2", "--save=y=y.npy"]
    assert message(capsys, *line, "--also=p=f32[4]=3", "--also=q=f32[4]=5")[0] == 0
    np.testing.assert_array_equal(np.load("y.npy")[:2], [3, 5])
    status, _, err = message(capsys, *line, "--also=p=f32[4]=3")
    assert status == 2 and "table: no tensor q" in err


@pytest.mark.parametrize(
    ("line", "telling"),
    [
        ([X, Y, N, "--processes=0"], "--processes 0: expected one or more"),
        (["--arg=f32[64]=foo", Y, N], "«f32[64]=foo»: it cannot be filled with «foo»; expected one of random"),
        (["--arg=f32[64]=zeroes", Y, N], "(did you mean zeros?)"),
        (["--arg==foo", Y, N], "«=foo»: not understood; expected a tensor"),
        (["--arg=fp32[64]", Y, N], "no element type fp32 (did you mean f32?)"),
        (["--arg=f32[64]:1", Y, N], "the order :1 has to name each of 1 dimensions once"),
        (["--arg=f32[64]@1,2", Y, N], "2 strides for 1 dimensions"),
        (["--arg=f32[64]%12", Y, N], "expected a power of two"),
        (["--arg=f32[8,x]", Y, N], "the shape [8,x] is not numbers"),
        (["--arg=int:four", Y, N], "«four» is no int; expected int:4"),
        (["--arg=there.npy", Y, N], "x: no such file: there.npy"),
        (["--arg=bad.npy", Y, N], "x: bad.npy is no file that numpy wrote"),
        (["--arg=f32[64]=small.npy", Y, N], "x: small.npy holds float64[3], which does not fit f32[64]"),
        ([X, Y], "2 arguments (--arg) for the 4 of scale(x: Tensor"),
        ([X], "1 argument (--arg) for the 4 of scale(x: Tensor([n0], float32), y: Tensor([n0], float32), n: int32, "),
        ([X, Y, N, "--expect=z=small.npy"], "no tensor z"),
        ([X, Y, N, "--expect=small.npy"], "[3] is not the shape of y, f32[64]"),
        ([X, Y, N, "--save=y"], "expected NAME=FILE.npy"),
        ([X, Y, N, "--save=y=none/y.npy"], "--save y=none/y.npy: no such folder: none"),
        ([X, Y, N, "--checks=rase"], "no check rase (did you mean race?)"),
        (
            [X, Y, N, "--schedule=lat"],
            "--schedule: unknown schedule lat (did you mean late?); choose from random, eager",
        ),
        (
            [X, Y, N, "--schedule=hold:warps:40-41"],
            "'hold:warps:40-41': nothing in these launches",
        ),
        ([X, Y, N, "--function=scal"], "exports no function scal (did you mean scale?); it has gather, scale"),
        ([X, Y, N, "--ptx=none.ptx"], "--ptx: no such file: none.ptx"),
        ([X, Y, N, "--sm-count=0"], "--sm-count 0: expected one or more"),
        ([X, Y, N, "--input-seed=-1"], "--input-seed -1: expected zero or more"),
        ([X, Y, N, "--tolerance=nan"], "--tolerance nan: expected zero or more"),
        ([X, Y, N, "--schedule=search", "--runs=0"], "--runs 0: expected one or more"),
        ([X, Y, N, "--schedule=search", "--seconds=-1"], "--seconds -1: expected more than zero"),
        ([X, Y, N, "--cold"], "--clock-mhz and --cold belong to --predict"),
        ([X, Y, N, "--predict=h200", "--clock-mhz=-3"], "--clock-mhz -3: expected more than zero"),
        ([X, Y, N, "--sass"], "--sass: no single .cubin lies next to kernel/kernel.o"),
        ([X, Y, N, "--also=p"], "--also p: each needs a name and a tensor"),
        (["--arg=f16[64]", Y, N], "argument «f16[64]» (x): TypeError: Mismatched Tensor on argument #0"),
    ],
)
def test_misuse_is_one_line_that_says_what_would_be_right(folder, capsys, line, telling) -> None:
    Path("bad.npy").write_bytes(b"nothing of the kind")
    np.save("small.npy", np.zeros(3))
    status, _, err = message(capsys, folder, *line, "--json=r.json")
    assert status == 2 and err.startswith("ptxsim: ") and err.count("\n") == 1, err
    assert telling in err
    assert json.loads(Path("r.json").read_text()) == {"status": 2, "error": err.strip().removeprefix("ptxsim: ")}


def test_a_file_that_cannot_be_written_is_named_before_anything_runs(folder, capsys) -> None:
    for words in (["--json=none/r.json"], ["--json=kernel"], ["--save=y=none/y.npy"]):
        status, out, err = message(capsys, folder, X, Y, N, *words)
        assert (status, out) == (2, "") and err.count("\n") == 1
        assert "no such folder: none" in err or "kernel is a folder; expected a file" in err


def test_an_option_that_is_not_understood_is_told_of_in_one_line(folder, capsys) -> None:
    for words, telling in ((["--tolerance=x"], "--tolerance: invalid float value: 'x'"), (["--sede=1"], "--sede=1")):
        with pytest.raises(SystemExit) as ended:
            message(capsys, folder, X, Y, N, *words)
        err = capsys.readouterr().err
        assert ended.value.code == 2 and err.count("\n") == 1 and telling in err


def test_folders_that_cannot_be_used_say_why(folder, capsys, tmp_path) -> None:
    def refused(*line: object) -> str:
        status, _, err = message(capsys, *line)
        assert status == 2 and err.count("\n") == 1
        return err

    assert "no such file or folder: nowhere" in refused("nowhere")
    assert "kernel.ptx is neither a folder nor an object (.o)" in refused(folder / "kernel.ptx")
    Path("empty").mkdir()
    assert "empty needs one .o file" in refused("empty")
    (folder / "build.json").write_text("{'function'}")
    assert "build.json is not valid JSON" in refused(folder, X, Y, N)
    (folder / "build.json").unlink()
    assert "exports gather, scale: choose one with --function" in refused(folder, X, Y, N)
    (folder / "build.json").write_text('{"function": "scale"}')
    whole = (folder / "kernel.o").read_bytes()
    (folder / "kernel.o").write_bytes(b"not an object")
    assert "kernel.o is not an object file" in refused(folder, X, Y, N)
    (folder / "kernel.o").write_bytes(whole[: len(whole) // 2] + b"\0__tvm_ffi_scale\0")
    assert "kernel.o is truncated: it has" in refused(folder, X, Y, N)
    (folder / "kernel.o").write_bytes(whole[:1000] + b"\xff" * (len(whole) - 1000) + b"\0__tvm_ffi_scale\0")
    assert "cannot link" in refused(folder, X, Y, N)
    (folder / "kernel.o").write_bytes(whole)
    (folder / "kernel.ptx").write_bytes(b"\xff\xfe\x00")
    assert "kernel.ptx is not readable PTX" in refused(folder, X, Y, N)
    (folder / "kernel.ptx").write_text("")
    assert "kernel.ptx contains no kernel" in refused(folder, X, Y, N)


@pytest.mark.parametrize(("cc", "telling"), [("no-such-cc", "CC=no-such-cc names no program"), ("true", "is it a C")])
def test_an_unusable_compiler_is_named(folder, capsys, monkeypatch, cc, telling) -> None:
    monkeypatch.setenv("CC", cc)
    monkeypatch.setenv("PTXSIM_CACHE", "cache")
    status, _, err = message(capsys, folder, X, Y, N)
    assert status == 2 and telling in err and err.count("\n") == 1


def test_a_card_s_time_is_predicted_and_called_so(folder, capsys) -> None:
    pytest.importorskip("yaml", reason="device files are YAML")
    line = [folder, X, Y, N, "--predict=h200", "--clock-mhz=1500", "--json=r.json"]
    status, out, _ = message(capsys, *line)
    assert status == 0 and "predicted, not measured: " in out and "on NVIDIA H200 at 1500 MHz" in out
    assert json.loads(Path("r.json").read_text())["predicted"]["microseconds"] > 0
    status, out, err = message(capsys, folder, X, Y, N, "--predict=h2000")
    assert status == 2 and not out and "no device 'h2000': one of b200" in err


def test_without_yaml_a_prediction_is_refused_in_one_line(folder, capsys, monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    status, out, err = message(capsys, folder, X, Y, N, "--predict=h200")
    assert status == 2 and not out and err.endswith("not installed: pip install PyYAML\n") and err.count("\n") == 1


def test_progress_is_told_where_it_is_wanted(folder, capsys, monkeypatch) -> None:
    monkeypatch.setattr("ptxsim.commandline.output.time.monotonic", iter(range(0, 1000, 10)).__next__)
    status, _, err = message(capsys, folder, X, Y, N, "--progress")
    assert status == 0 and "schedule random, seed 0, launch 1 of 1: cluster 2 of 2" in err


def test_a_raw_pointer_and_a_stream_may_be_given(folder, capsys) -> None:
    assert message(capsys, folder, "--arg=*f32[64]=2", Y, N, "--arg=stream", "--save=y=y.npy")[0] == 0
    np.testing.assert_array_equal(np.load("y.npy"), np.full(64, 4))


def tensor(text: str) -> HostTensor:
    return make(parse(text).value, "t", np.random.default_rng(0))


def test_strides_orders_and_alignments_are_what_was_asked_for() -> None:
    assert tensor("f16[4,6]:0,1").strides == (1, 4)
    padded = tensor("f16[4,6]@16,1%16=arange")
    assert padded.strides == (16, 1) and padded.raw.size == 2 * (3 * 16 + 6)
    assert padded.address % 32 == 16
    np.testing.assert_array_equal(padded.values(), np.arange(24).reshape(4, 6))
    assert tensor("f32[3,3]=identity").values().trace() == 3
    assert tensor("f32[]=0x10").values() == 16


@pytest.mark.parametrize("name", ELEMENTS)
def test_every_type_keeps_small_whole_numbers(name) -> None:
    values = [1, 2, 4, 1] if name == "e8m0" else [0, 1, 1, 0] if name == "bool" else [0, 1, 2, 3]
    t = tensor(f"{name}[2,4]")
    t.put(np.array([values, values]))
    np.testing.assert_array_equal(t.values(), [values, values])
    assert t.raw.size == 8 * ELEMENTS[name].bits // 8
    again = HostTensor("u", t.element, t.shape, t.strides, t.raw.copy())
    t.put_file(again.raw, Path("bytes"))
    np.testing.assert_array_equal(t.values(), again.values())


def test_four_bit_elements_are_packed_low_half_first() -> None:
    assert tensor("e2m1[2,4]=arange").raw.tolist() == [0x20, 0x54, 0x66, 0x77]


def test_random_contents_follow_the_seed_and_torch_files_are_read(tmp_path) -> None:
    same = tensor("bf16[8,8]").raw
    np.testing.assert_array_equal(same, tensor("bf16[8,8]").raw)
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.arange(6).bfloat16().reshape(2, 3)}, tmp_path / "w.pt")
    read = tensor(f"{tmp_path}/w.pt:w")
    assert read.element.name == "bf16" and read.shape == (2, 3)
    np.testing.assert_array_equal(read.values(), np.arange(6).reshape(2, 3))
    with pytest.raises(Misuse, match=r"no entry v.*expected .*:ENTRY, of w"):
        tensor(f"{tmp_path}/w.pt:v")
    (tmp_path / "junk.pt").write_text("x")
    with pytest.raises(Misuse, match=r"junk.pt is no file of tensors that torch wrote"):
        tensor(f"{tmp_path}/junk.pt")


def test_a_search_runs_to_its_budget_and_a_budget_without_a_search_is_misuse(folder, capsys) -> None:
    status, out, _ = message(capsys, folder, X, Y, N, "--schedule", "search", "--runs", "3")
    assert status == 0 and out.count("schedule ") == 3
    status, _, err = message(capsys, folder, X, Y, N, "--runs", "3")
    assert status == 2 and "budget of --schedule search" in err
    status, _, err = message(capsys, folder, X, Y, N, "--schedule", "lazy")
    assert status == 2 and "unknown schedule lazy" in err and "search" in err


def test_what_all_runs_exercised_is_told_and_recorded(folder, capsys) -> None:
    status, out, _ = message(capsys, folder, X, Y, N, "--json=r.json")
    (coverage,) = json.loads(Path("r.json").read_text())["coverage"]
    blocks = coverage["blocks"]
    assert status == 0 and 0 < blocks["run"] <= blocks["all"] and coverage["kernel"]
    assert f"launch 0: {blocks['run']} of {blocks['all']} basic blocks" in out
    _, all_schedules, _ = message(capsys, folder, X, Y, N, "--schedule=all")
    assert all_schedules.count(" basic blocks") == 1


def test_a_block_that_did_not_run_is_told_of_with_its_source_line(folder, capsys) -> None:
    ptx = folder / "kernel.ptx"
    never = ".loc 1 77 0\nsetp.ne.b32 %p1, 0, 0; @%p1 bra NEVER; bra END;\n"
    never += ".loc 1 78 0\nNEVER: nop;\n.loc 1 79 0\nEND: ret;\n}"
    head, _, tail = ptx.read_text().partition("ret;\n}")
    ptx.write_text(f"{head}{never}{tail}")
    _, out, _ = message(capsys, folder, X, Y, N, "--json=r.json")
    (coverage,) = json.loads(Path("r.json").read_text())["coverage"]
    assert [x.rpartition(":")[2] for x in coverage["lines"]["missed"]] == ["78"]
    assert "not run: " in out and ":78" in out


@pytest.mark.parametrize("nan", ["0x7fffffff", "0x7fc00000", "0xffc00000"])
def test_nan_that_is_written_over_nan_is_told_of(folder, capsys, nan: str) -> None:
    ptx = folder / "kernel.ptx"
    ptx.write_text(ptx.read_text().replace("mul.f32 %r5, %r5, 0f40000000;", f"mov.b32 %r5, {nan};"))
    status, out, _ = message(capsys, folder, X, Y, "--arg=int:60", "--json=r.json")
    assert status == 0 and "y: NaN was written to 60 of 64 elements, the first at [0]\n" in out
    assert "no tensor was changed" not in out
    assert json.loads(Path("r.json").read_text())["runs"][0]["changed"] == ["y"]


def test_nan_that_nobody_wrote_is_not_told_of(folder, capsys) -> None:
    _, out, _ = message(capsys, folder, X, Y, "--arg=int:60", "--save=y=y.npy")
    assert "NaN was written" not in out and np.isnan(np.load("y.npy")[60:]).all()


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64", "e4m3", "e5m2", "e8m0"])
def test_a_tensor_of_nan_holds_nan_and_none_that_was_written(name: str) -> None:
    tensor = make(parse(f"{name}[4,3]:1,0=nan").value, "x", np.random.default_rng(0))
    assert np.isnan(tensor.values().astype(np.float64)).all() and not tensor.nan_since(tensor.raw.copy()).size


def test_ptx_that_was_cut_or_is_for_other_targets_is_told_of_in_one_line(folder, capsys) -> None:
    ptx = folder / "kernel.ptx"
    text = ptx.read_text()
    ptx.write_text(text[: text.rindex("}")])
    status, _, err = message(capsys, folder, X, Y, N)
    assert status == 2 and err.count("\n") == 1 and "the text ends before the kernel's last brace" in err
    target = next(line for line in text.splitlines() if line.startswith(".target"))
    ptx.write_text(text.replace(target, ".target sm_130a"))
    status, _, err = message(capsys, folder, X, Y, N)
    assert status == 2 and err.count("\n") == 1 and "the target sm_130a is not simulated" in err
    ptx.write_text(text.replace(target, ".target sm_80"))
    status, _, err = message(capsys, folder, X, Y, N)
    assert status == 0 and err.startswith("ptxsim: note: ") and err.count("\n") == 1 and "sm_80" in err


def without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]{8,}", "0x…", text)


def outcomes(path: str) -> dict:
    """A record without the seconds of its runs."""
    record = json.loads(without_addresses(Path(path).read_text()))
    for run in record["runs"]:
        del run["seconds"]
    return record


RIGHT, SHORT = [X, Y, N], ["--arg=f32[60]", Y, N]


@pytest.mark.parametrize("arguments", [RIGHT, SHORT])
@pytest.mark.parametrize("plan", [["--schedule=all"], ["--schedule=search", "--runs=6"]])
def test_schedules_in_several_processes_give_equal_results(folder, capsys, arguments, plan) -> None:
    def run(processes: int) -> tuple[int, str, dict, np.ndarray]:
        line = [folder, *arguments, *plan, f"--processes={processes}", "--save=y=y.npy", "--json=r.json"]
        status, out, err = message(capsys, *line)
        assert not err
        return status, re.sub(r"\d+\.\d s", "", without_addresses(out)), outcomes("r.json"), np.load("y.npy")

    alone, together = run(1), run(3)
    assert alone[:3] == together[:3] and alone[0] == (arguments is SHORT)
    np.testing.assert_array_equal(alone[3], together[3])


def test_a_search_in_several_processes_ends_with_the_same_failing_run(folder, capsys, monkeypatch) -> None:
    def faulty(launches, name, seed, **options):
        result = run(launches, name, seed, **options)
        if name == "warps" or seed == 4:
            result.findings.append(Finding("wrong", name, "scale"))
        return result

    run = sys.modules["ptxsim.commandline.main"].run
    monkeypatch.setattr("ptxsim.commandline.main.run", faulty)
    runs = []
    for processes in (1, 4):
        line = [folder, *RIGHT, "--schedule=search", "--runs=9", f"--processes={processes}", "--json=r.json"]
        assert message(capsys, *line)[0] == 1
        runs.append(outcomes("r.json"))
    assert runs[0] == runs[1] and 1 < len(runs[0]["runs"]) < 9 and not runs[0]["runs"][0]["findings"]


def test_schedules_run_in_other_processes(folder, capsys, monkeypatch) -> None:
    def pids(*line: str) -> set[int]:
        log = Path("pids")
        log.write_text("")
        assert message(capsys, folder, *RIGHT, *line)[0] == 0
        return set(map(int, log.read_text().split()))

    def logged(*args, **options):
        with Path("pids").open("a") as file:
            file.write(f"{os.getpid()}\n")
        return run(*args, **options)

    run = sys.modules["ptxsim.commandline.main"].run
    monkeypatch.setattr("ptxsim.commandline.main.run", logged)
    own = {os.getpid()}
    for line in (
        ("--processes=2",),
        ("--schedule=all", "--processes=1"),
        ("--schedule=all", "--trace", "--processes=2"),
    ):
        if "--trace" in line:
            monkeypatch.setattr(sys, "stderr", io.StringIO())
        assert pids(*line) == own
    others = pids("--schedule=all", "--processes=2")
    assert len(others) == 2 and not others & own
    monkeypatch.setenv("PTXSIM_PROCESSES", "1")
    assert pids("--schedule=all") == own


def test_the_command_does_what_lost_workers_did_not() -> None:
    parent = os.getpid()

    def work(task: int) -> int:
        if os.getpid() != parent and task in (2, 5):
            os.kill(os.getpid(), signal.SIGKILL)
        return 10 * task

    assert list(in_order(work, iter(range(9)), 3)) == list(range(0, 90, 10))


def test_the_error_of_a_worker_is_raised_in_its_turn_and_ends_the_others() -> None:
    def work(task: int) -> int:
        if task == 1:
            raise ValueError("one")
        time.sleep(60 * (task > 1))
        return task

    results = in_order(work, itertools.count(), 3)
    assert next(results) == 0
    with pytest.raises(ValueError, match="one"):
        next(results)
    assert not multiprocessing.active_children()
