"""The inspect record: one file per build, nothing guessed, damage named."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("elftools", reason="a GPU machine inspects nothing and need not have pyelftools")

import tiny_build
from cutesnake.model import record
from cutesnake.model.paths import ROOT
from cutesnake.model.record import RecordError
from cutesnake.stages.compile import job
from cutesnake.stages.inspect.build import inspect_build

DEVICES = ROOT / "config/devices.yaml"
LAUNCH = {"block": [256, 1, 1], "cluster": [1, 1, 1], "dynamic_shared_bytes": 16384}


def inspect(folder, target, **changes):
    """The record, as read back and checked."""
    inspect_build(tiny_build.describe(folder, target, **changes), DEVICES, folder.parent / "inspect.json")
    return record.plain(record.read("inspect", folder.parent / "inspect.json"))


@pytest.fixture
def build(tmp_path):
    """A folder with the artifacts of a kernel that spills; options go to ptxas."""

    def make(*options, target="sm_90a", bound="", ptx=tiny_build.SPILLING):
        tiny_build.assemble(ptx.format(target=target, bound=bound), target, tmp_path / "build", *options)
        return tmp_path / "build"

    return make


def test_everything_is_known_of_a_kernel_that_states_everything(tmp_path) -> None:
    tiny_build.assemble(tiny_build.BLACKWELL, "sm_100a", tmp_path / "build")
    entry = inspect(tmp_path / "build", "sm_100a")
    (function,) = entry["functions"]
    assert entry["notes"] == [] and None not in function.values()
    assert (function["threads_per_block"], function["cluster_size"]) == (256, 2)
    assert (function["tensor_memory_columns"], function["pipeline_stages"]) == (128, [4])
    room = function["occupancy"]
    assert (room["blocks_per_sm"], room["limiter"], room["devices"]) == (4, "tensor_memory", ["B200", "GB200"])
    assert (room["compute_capability"], room["assumed"]) == ("10.0", [])
    assert {key: entry[key] for key in ("operator", "kernel", "target")} == {
        "operator": "elementwise_add",
        "kernel": "tiny",
        "target": "sm_100a",
    }


def test_what_the_build_fixes_at_launch_is_used(build) -> None:
    entry = inspect(build("--maxrregcount=32"), "sm_90a", launch={"spilling": LAUNCH})
    (function,) = entry["functions"]
    assert entry["notes"] == []
    assert (function["threads_per_block"], function["cluster_size"], function["dynamic_shared_bytes"]) == (
        256,
        1,
        16384,
    )
    assert (function["static_shared_bytes"], function["reserved_shared_bytes"]) == (4096, 1024)
    room = function["occupancy"]
    assert room["limits"]["shared_memory"] == 233472 // (4096 + 16384 + 1024) == 10
    assert (room["blocks_per_sm"], room["limiter"]) == (8, "registers, warps")
    assert room["devices"][:3] == ["H100 SXM", "H200", "H100 PCIe"]


def test_unknown_is_null_with_a_note_and_the_assumption_is_stated(build) -> None:
    entry = inspect(build(bound=".maxntid 128, 1, 1"), "sm_90a")
    (function,) = entry["functions"]
    for field in ("threads_per_block", "dynamic_shared_bytes", "cluster_size"):
        assert function[field] is None
        assert any(note.startswith(f"{field}: not known: it is given at launch") for note in entry["notes"])
    assert function["occupancy"]["assumed"] == [
        "the most threads that the kernel allows, 128",
        "no dynamic shared memory",
    ]
    assert any(note.startswith("occupancy: assumes the most threads") for note in entry["notes"])


def test_without_any_bound_on_the_threads_there_is_no_occupancy(build) -> None:
    entry = inspect(build(), "sm_90a")
    assert entry["functions"][0]["occupancy"] is None
    assert "occupancy: not known: the threads per block are given at launch" in entry["notes"]


def test_spills_are_the_stack_without_the_arrays_that_the_source_declares(build) -> None:
    function = inspect(build("--maxrregcount=32"), "sm_90a")["functions"][0]
    assert function["spill_bytes"] == function["stack_bytes"] > 0
    assert function["instructions"]["local_memory"] > 0
    array = """ .local .align 16 .b8 array[4096]; .reg .b64 %rl; .reg .b64 %rk;
 mov.u64 %rl, array; ld.param.u64 %rk, [pointer]; ld.global.u64 %rk, [%rk]; add.s64 %rl, %rl, %rk;
 st.local.b32 [%rl], %r5; ld.local.b32 %r6, [%rl];
"""
    source = tiny_build.SPILLING.replace(" mov.u32 %r70, dynamic;", array + " mov.u32 %r70, dynamic;")
    function = inspect(build(ptx=source), "sm_90a")["functions"][0]
    assert (function["stack_bytes"], function["spill_bytes"]) == (4096, 0)


def test_without_ptx_and_sass_the_cubin_still_speaks(build) -> None:
    folder = build("--maxrregcount=32")
    (folder / "kernel.ptx").unlink()
    (folder / "kernel.sass").unlink()
    entry = inspect(folder, "sm_90a", launch={"spilling": LAUNCH})
    (function,) = entry["functions"]
    assert function["registers_per_thread"] == 32 and function["occupancy"]["blocks_per_sm"] == 8
    unknown = {key for key, value in function.items() if value is None}
    assert unknown == {"spill_bytes", "tensor_memory_columns", "setmaxnreg", "instructions", "pipeline_stages"}
    assert {note.partition(":")[0] for note in entry["notes"]} == unknown | {"occupancy"}


def test_a_target_that_devices_yaml_does_not_know_has_no_occupancy(build) -> None:
    entry = inspect(build(), "sm_89", launch={"spilling": LAUNCH})
    assert entry["functions"][0]["occupancy"] is None
    assert "occupancy: not known: devices.yaml has no compute capability 8.9 (sm_89)" in entry["notes"]


def test_the_main_kernel_comes_first(tmp_path) -> None:
    second = tiny_build.SPILLING.format(target="sm_100a", bound="").split(".address_size 64")[1]
    tiny_build.assemble(tiny_build.BLACKWELL + second, "sm_100a", tmp_path / "build")
    for symbols in (["spilling", "everything"], ["everything", "spilling"]):
        entry = inspect(tmp_path / "build", "sm_100a", symbols=symbols)
        assert [function["symbol"] for function in entry["functions"]] == symbols
        place = symbols.index("spilling") + 1
        assert f"function {place}, cluster_size: not known: it is given at launch" in entry["notes"]


def test_a_failed_build_carries_its_reason_over(tmp_path) -> None:
    (tmp_path / "build").mkdir()
    entry = inspect(tmp_path / "build", "sm_90a", status="failed", reason="TileError: tile too large")
    assert (entry["status"], entry["reason"], entry["functions"]) == ("failed", "TileError: tile too large", [])


def test_a_build_without_a_cubin_says_so(tmp_path) -> None:
    (tmp_path / "build").mkdir()
    entry = inspect(tmp_path / "build", "sm_90a", dsl="torch")
    assert (entry["status"], entry["functions"]) == ("ok", [])
    assert entry["notes"] == ["the build holds no cubin: there is nothing to inspect"]


@pytest.mark.parametrize("name", ["kernel.cubin", "kernel.sass", "kernel.ptx"])
def test_a_truncated_or_missing_artifact_is_one_clear_line_and_no_record(build, name) -> None:
    folder = build()
    described = tiny_build.describe(folder, "sm_90a")
    path = folder / name
    path.write_bytes(path.read_bytes()[:-100])
    for message in ("cut short or changed since it was built", "missing, though build.json lists it"):
        with pytest.raises(RecordError, match=message) as error:
            inspect_build(described, DEVICES, folder.parent / "inspect.json")
        assert str(error.value).startswith(f"{path}: ") and "\n" not in str(error.value)
        path.unlink(missing_ok=True)
    assert not (folder.parent / "inspect.json").exists()


def test_a_cubin_that_was_written_short_is_one_clear_line(build) -> None:
    # The sha256 of build.json is that of the short file. A disk that filled up while compiling.
    folder = build()
    (folder / "kernel.cubin").write_bytes((folder / "kernel.cubin").read_bytes()[:1000])
    with pytest.raises(RecordError, match=r"kernel\.cubin: not a whole cubin \(.+\); delete its folder"):
        inspect(folder, "sm_90a")


def test_a_build_json_cut_short_is_one_clear_line(build) -> None:
    described = tiny_build.describe(build(), "sm_90a")
    described.write_text(described.read_text()[:200])
    with pytest.raises(RecordError, match=r"build\.json: not a whole JSON file .*; delete it and run again"):
        inspect_build(described, DEVICES, described.parent / "inspect.json")


def test_no_script_stands_in_for_a_module_of_python() -> None:
    # A script run by its path puts workflow/scripts first on sys.path. No name there may hide the standard library.
    names = {path.stem for path in (ROOT / "workflow/scripts").iterdir() if not path.name.startswith("_")}
    assert not names & sys.stdlib_module_names


@pytest.fixture
def compiled(build, monkeypatch):
    """compiled(…) does a build's job, whose compiler leaves what is in `folder` already.

    Returns whether it ran.
    """
    folder, started = build(), []

    def compile_build(*arguments, **options):
        started.append(arguments)
        tiny_build.describe(folder, "sm_90a")

    monkeypatch.setattr(job, "compile_build", compile_build)
    variant = {"id": "v", "params": {}}
    figures = str(folder.parent / "inspect.json")

    def run(code: str = "one", **changes) -> bool:
        started.clear()
        (folder / "build.json").unlink(missing_ok=True)  # as Snakemake does before a job
        recipe = {"code": {"kernel": code}, "params": {}, "versions": {}}
        options = {"upstream": [], "figures": figures, "figures_recipe": recipe, "devices": str(DEVICES), **changes}
        job.compile_job("elementwise_add", "cute", "sm_90a", variant, str(folder), recipe, **options)
        return bool(started)

    run.folder, run.figures = folder, figures
    return run


def test_the_job_of_a_build_makes_its_figures(compiled) -> None:
    assert compiled()
    assert record.read("inspect", compiled.figures).functions[0].symbol == "spilling"


def test_without_the_stage_there_are_no_figures(compiled) -> None:
    compiled(figures=None)
    assert (compiled.folder / "build.json").exists() and not Path(compiled.figures).exists()


def test_a_whole_build_of_the_same_things_is_not_compiled_again(compiled) -> None:
    compiled()
    text = (compiled.folder / "build.json").read_text()
    Path(compiled.figures).unlink()
    assert not compiled() and Path(compiled.figures).exists()
    assert (compiled.folder / "build.json").read_text() == text
    assert compiled(code="two") and compiled()
    next(compiled.folder.glob("*.sass")).write_text("cut short")
    assert compiled()


def test_the_record_is_plain_json(tmp_path) -> None:
    tiny_build.assemble(tiny_build.BLACKWELL, "sm_100a", tmp_path / "build")
    inspect(tmp_path / "build", "sm_100a")
    text = (tmp_path / "inspect.json").read_text()
    assert str(tmp_path) not in text and json.loads(text)["stage"] == "inspect"
