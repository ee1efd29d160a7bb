"""Inspection of large real builds, compared with figures read by hand."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

pytest.importorskip("elftools", reason="a GPU machine inspects nothing and need not have pyelftools")

import tiny_build
from builds import build
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.paths import ROOT
from cutesnake.planning import matrix
from cutesnake.planning.config import check
from cutesnake.stages.inspect.build import inspect_build

pytestmark = pytest.mark.slow


@pytest.fixture
def built(tmp_path):
    """Fetch, compile and inspect one kernel.

    Returns the inspect record and the folder of the build.
    """

    def make(kernel, target, dtype, kv_length=4096):
        module, problem = load_kernel("mla_decode", kernel), load_operator("mla_decode")
        variant = module.variants(problem.Workload(32, kv_length, dtype), target)[0]
        folder = build("mla_decode", kernel, target, variant)
        inspect_build(folder / "build.json", ROOT / "config/devices.yaml", tmp_path / "inspect.json")
        entry = record.plain(record.read("inspect", tmp_path / "inspect.json"))
        assert entry["status"] == "ok", entry["reason"]
        return entry, folder

    return make


def ptx_of(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.glob("*.ptx")))


def test_nvidias_fp16_mla_decode_for_sm100(built) -> None:
    entry, folder = built("cutlass_fp16", "sm_100a", "fp16")
    main = entry["functions"][0]
    assert (main["registers_per_thread"], main["spill_bytes"], main["stack_bytes"]) == (168, 0, 0)
    assert (main["threads_per_block"], main["cluster_size"], main["dynamic_shared_bytes"]) == (384, 2, 232448)
    counts, ptx = main["instructions"], ptx_of(folder)
    assert counts["tensor_core"] == len(re.findall(r"tcgen05\.mma\.cta_group::2\.kind::f16", ptx)) == 56
    assert counts["tma_load"] == len(re.findall(r"cp\.async\.bulk\.tensor\.\dd\.shared::cluster", ptx)) == 59
    assert main["setmaxnreg"] == [96, 96, 96, 96, 192, 208]  # loads, page table, MMA, idle; softmax; correction
    assert main["tensor_memory_columns"] == 512
    assert main["pipeline_stages"] == [15, 2, 2, 2, 4]  # load_kv, mma_s, p_mma, p_cor, load_pt of its source
    room = main["occupancy"]
    assert (room["blocks_per_sm"], room["percent"]) == (1, 18.75)
    assert room["limiter"] == "shared_memory, registers, tensor_memory"


def test_nvidias_fp8_mla_decode_for_sm100(built) -> None:
    entry, folder = built("cutlass_fp8", "sm_100a", "fp8")
    main = entry["functions"][0]
    assert main["pipeline_stages"] == [3, 2, 2, 2, 2, 2]  # load_k, load_v, mma_s, p_mma, p_cor, mma_o of its source
    assert main["instructions"]["tensor_core"] == len(re.findall(r"tcgen05\.mma\.\S*kind::f8f6f4", ptx_of(folder))) > 0
    assert main["setmaxnreg"] == [48, 48, 48, 48, 192, 256]


def test_named_barriers_of_an_older_compiler(built) -> None:
    """CuTe DSL 4.8.1 compiles for sm_90a with CUDA 12.9, whose cubins keep the count elsewhere."""
    entry, folder = built("cute_sm90", "sm_90a", "bf16")
    command = [tiny_build.tool("cuobjdump"), "-elf", str(folder / "kernel.cubin")]
    message = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    theirs = sorted(map(int, re.findall(r"^bar = (\d+)", message, re.MULTILINE)))
    assert sorted(function["named_barriers"] for function in entry["functions"]) == theirs
    assert max(theirs) > 0


@pytest.mark.parametrize(
    ("target", "shared", "instruction", "tensor_core"),
    [("sm_90a", 226568, r"wgmma\.mma_async", 136), ("sm_100a", 220636, r"tcgen05\.mma", 68)],
)
def test_tilegyms_mla_decode(built, target, shared, instruction, tensor_core) -> None:
    # A kv length that no tile divides. Shared memory as cuobjdump has it, with the system's kilobyte.
    entry, folder = built("tilegym", target, "bf16", kv_length=4000)
    main = entry["functions"][0]
    assert (main["registers_per_thread"], main["stack_bytes"], main["spill_bytes"]) == (255, 0, 0)
    assert main["static_shared_bytes"] + main["reserved_shared_bytes"] == shared
    assert main["dynamic_shared_bytes"] == 0
    assert main["instructions"]["tensor_core"] == len(re.findall(instruction, ptx_of(folder))) == tensor_core
    assert (main["threads_per_block"], main["cluster_size"]) == (256, 1)
    assert main["pipeline_stages"] is None and any("initialised together" in note for note in entry["notes"])
    assert main["occupancy"]["blocks_per_sm"] == 1 and "registers" in main["occupancy"]["limiter"]


def test_builds_that_stand_for_others_have_their_static_figures(machine, tmp_path) -> None:
    # One of each kernel and target, by its main function, as in tables. A constant may cost an instruction or two.
    default = check(yaml.safe_load((ROOT / "config/config.yaml").read_text()))
    stand_ins = matrix.make_plan(default, machine("none")).stand_ins
    chosen = {key.rpartition("/")[0]: (key, other) for key, other in reversed(stand_ins.items())}
    assert len(chosen) >= 4
    builds = matrix.make_plan(replace(default, every_size=True), machine("none")).builds
    for pair in chosen.values():
        one, other = (figures(builds[key], tmp_path) for key in pair)
        assert abs(one.pop("code_bytes") / other.pop("code_bytes") - 1) < 0.01, pair
        assert one == other, pair


def figures(planned: matrix.Build, folder: Path) -> dict[str, int]:
    """What tables show of a build, and how long its code is."""
    made = build(planned.operator, planned.kernel, planned.target, planned.variant)
    inspect_build(made / "build.json", ROOT / "config/devices.yaml", folder / "inspect.json")
    main = record.plain(record.read("inspect", folder / "inspect.json"))["functions"][0]
    shown = ("registers_per_thread", "spill_bytes", "static_shared_bytes", "dynamic_shared_bytes", "code_bytes")
    return {name: main[name] for name in shown}
