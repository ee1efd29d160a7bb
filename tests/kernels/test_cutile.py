"""cuTile: argument packing, the split rule, TileGym's rules, and builds ahead of time."""

import ctypes
import dataclasses
import json
import re

import pytest

from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.runtime.machine_faults import MachineFaultError
from cutesnake.stages.compile import cutile as cutile_build
from cutesnake.stages.compile import store
from cutesnake.stages.compile.compile import compile_build
from cutesnake.stages.fetch import FetchError
from cutesnake.stages.load import cutile as cutile_load
from kernels.mla_decode import tilegym_inputs, tilegym_split_kv
from kernels.upstream import tilegym
from ptxsim.timing.sass import read_cubin

MLA = load_operator("mla_decode").Workload
ADD = load_operator("elementwise_add").Workload


class FakeTensor:
    """What `flatten` asks of a tensor."""

    def __init__(self, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.shape, self._pointer, self._strides = shape, pointer, strides

    def data_ptr(self) -> int:
        return self._pointer

    def stride(self) -> tuple[int, ...]:
        return self._strides


def test_an_array_is_its_pointer_its_extents_and_its_strides() -> None:
    packed = list(cutile_load.flatten([FakeTensor(2**40, (3, 5), (8, 1)), 7, 0.5]))
    assert [type(value) for value in packed] == [
        ctypes.c_uint64,
        *[ctypes.c_int32] * 4,
        ctypes.c_int32,
        ctypes.c_float,
    ]
    assert [value.value for value in packed] == [2**40, 3, 5, 8, 1, 7, 0.5]


def test_a_list_of_arrays_is_a_table_of_their_pointers_extents_and_strides_and_its_length() -> None:
    torch = pytest.importorskip("torch")
    arrays = [torch.zeros(3, 5), torch.zeros(4, 8)[:, ::2]]
    made = cutile_load.ArrayList(arrays)
    pointer, length = cutile_load.flatten([made])
    assert (type(pointer), type(length), length.value) == (ctypes.c_uint64, ctypes.c_int32, 2)
    assert pointer.value == made.table.data_ptr() and made.table.dtype == torch.int64
    assert made.table.tolist() == [[arrays[0].data_ptr(), 3, 5, 5, 1], [arrays[1].data_ptr(), 4, 4, 8, 2]]


@pytest.mark.parametrize("value", [True, "4096", None, [1]])
def test_what_cannot_be_an_argument_is_refused(value) -> None:
    with pytest.raises(TypeError, match="neither a tensor nor"):
        list(cutile_load.flatten([value]))


def test_an_array_too_large_for_its_extents_is_refused() -> None:
    with pytest.raises(ValueError, match="32-bit"):
        list(cutile_load.flatten([FakeTensor(0, (2, 2**31), (2**31, 1))]))


def test_a_missing_cubin_says_what_to_do(tmp_path, monkeypatch) -> None:
    success = cutile_load.driver.CUresult.CUDA_SUCCESS
    monkeypatch.setattr(cutile_load.driver, "cuInit", lambda _: (success,))
    monkeypatch.setattr(cutile_load.driver, "cuCtxGetCurrent", lambda: (success, 1))
    with pytest.raises(cutile_load.DriverError, match="run the compile stage"):
        cutile_load.Cubin(tmp_path / "kernel.cubin")


def test_one_build_of_ours_serves_every_batch_and_length() -> None:
    kernel = load_kernel("mla_decode", "cutile")
    workloads = [MLA(1, 1), MLA(128, 16384), MLA(3, 65, paged=True), MLA(2, 9, query_tokens=4)]
    assert len({kernel.variants(w, "sm_90a")[0].id for w in workloads}) == 1


@pytest.mark.parametrize(
    ("batch", "length", "splits", "keys"),
    [(1, 8192, 64, 128), (1, 65536, 128, 512), (32, 4096, 4, 1024), (128, 1024, 1, 1024), (4, 65, 1, 128)],
)
def test_tilegym_splits_as_its_own_host_code_does(batch, length, splits, keys) -> None:
    # Expected values by hand. Next power of two of S // (132 // B), at least 128.
    params = tilegym_split_kv.variants(MLA(batch, length), "sm_90a")[0].params
    assert (params["splits"], params["split_length"]) == (splits, keys)


@pytest.mark.parametrize(
    ("workload", "word"),
    [
        (MLA(1, 64, dtype="fp8"), "16-bit"),
        (MLA(1, 64, paged=True), "paged"),
        (MLA(1, 64, query_tokens=2), "query token"),
        (MLA(1, 64, heads=24), "tiles of 16"),
    ],
)
def test_tilegym_says_what_it_cannot_do(workload, word) -> None:
    assert word in tilegym_inputs.supports(workload)
    assert tilegym_inputs.supports(MLA(3, 65)) is None


def test_tilegym_without_its_wheel_names_the_command(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FetchError, match="snakemake"):
        tilegym.module("mla_decoding")


def test_targets_lose_their_suffix() -> None:
    assert [cutile_build.gpu_code(t) for t in ("sm_90a", "sm_100a", "sm_120a")] == ["sm_90", "sm_100", "sm_120"]


def build(operator, target, workload, folder) -> dict:
    variant = load_kernel(operator, "cutile").variants(workload, target)[0]
    compile_build(operator, "cutile", target, variant, folder)
    return json.loads((folder / "build.json").read_text())


@pytest.mark.parametrize("target", [pytest.param("sm_90a", marks=pytest.mark.slow), "sm_100a"])
def test_elementwise_add_compiles_without_a_gpu(target, tmp_path) -> None:
    entry = build("elementwise_add", target, ADD(1000, 4096), tmp_path)
    assert entry["status"] == "ok", entry["reason"]
    stems = ("cubin", "ptx", "sass", "tileir", "tileirbc")
    assert set(entry["files"]) == {"sources.json", *(f"kernel.{stem}" for stem in stems)}
    assert entry["symbols"] == ["elementwise_add"] and entry["launch"]["elementwise_add"]["block"] == [128, 1, 1]
    ptx = (tmp_path / "kernel.ptx").read_text()
    assert f".target {target}" in ptx and ".entry elementwise_add(" in ptx
    assert "LDG.E.128" in (tmp_path / "kernel.sass").read_text(), "16-byte loads are lost"
    loads = {number for number, line in enumerate(ptx.splitlines(), 1) if "ld.global" in line}
    (code,) = read_cubin(tmp_path / "kernel.cubin").values()
    assert {op.line for op in code.ops if op.unit == "global"} & loads, "the machine code's lines are not the PTX's"


def test_the_machine_code_is_what_cutile_makes_by_itself(tmp_path, monkeypatch) -> None:
    # This project's is made from the bytecode that is there, by names of cuTile's own that the pinned one still has.
    kernel, taken = load_kernel("elementwise_add", "cutile"), []
    variant = kernel.variants(ADD(1000, 4096), "sm_90a")[0]
    assemble = cutile_build._assemble
    monkeypatch.delenv(store.VARIABLE, raising=False)  # in which an earlier run has left what is made here
    ways = {"ours": lambda *values: taken.append(assemble(*values)) or taken[-1], "its own": lambda *values: False}
    for way, make in ways.items():
        (tmp_path / way).mkdir()
        monkeypatch.setattr(cutile_build, "_assemble", make)
        kernel.compile(variant, "sm_90a", tmp_path / way)
    assert taken == [True]
    made = {path.name: path.read_bytes() for path in (tmp_path / "ours").iterdir()}
    assert made == {path.name: path.read_bytes() for path in (tmp_path / "its own").iterdir()}


@pytest.mark.fault("Machine", "a trial of `tileiras` is killed", "the job fails, nothing is recorded")
def test_a_killed_trial_of_the_compiler_is_no_older_compiler(tmp_path, monkeypatch) -> None:
    from cuda.tile import _compile

    killed = tmp_path / "tileiras"
    killed.write_text("#!/bin/sh\nkill -9 $$\n")
    killed.chmod(0o755)
    whole = _compile._CompilerBinary.run

    def run(self, arguments, flags, timeout_sec=None):
        if f"probe{_compile._SUPPORTED_VERSIONS[-1]}" in arguments[0]:
            whole(dataclasses.replace(self, path=str(killed)), arguments, flags)

    monkeypatch.setattr(_compile._CompilerBinary, "run", run)
    find = _compile._get_max_supported_bytecode_version
    find.cache_clear()
    try:
        with pytest.raises(MachineFaultError, match=r"tileiras cannot be tried: .*SIGKILL"):
            cutile_build.find_compiler()
        assert _compile._CompilerBinary.run is run and not find.cache_info().currsize
    finally:
        find.cache_clear()


def test_what_forked_builds_ask_first_is_known_already(monkeypatch) -> None:
    from cuda.tile import _compile

    cutile_build.find_compiler()
    monkeypatch.setattr(_compile, "_find_compiler_bin", lambda: pytest.fail("it looks again"))
    context = _compile.default_tile_context.config
    assert _compile._get_max_supported_bytecode_version(context.temp_dir, allow_dev=_compile.dev_features_enabled())


def test_the_ptx_of_a_cubin_keeps_the_blank_lines_that_its_line_table_counts() -> None:
    assert cutile_build.ptx_text(b"\0\0.version 9.4\0\0.target sm_90a\0\0") == "\n\n.version 9.4\n\n.target sm_90a\n"
    assert cutile_build.ptx_text(b"\0\0") == cutile_build.ptx_text(b"") == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "dtype", "matrix"),
    [("sm_90a", "bf16", "HGMMA"), ("sm_100a", "bf16", "UTC"), ("sm_120a", "bf16", "HMMA")],
)
def test_mla_decode_compiles_to_tensor_core_code(target, dtype, matrix, tmp_path) -> None:
    entry = build("mla_decode", target, MLA(3, 65, dtype=dtype), tmp_path)
    assert entry["status"] == "ok", entry["reason"]
    assert entry["symbols"][0] == "mla_decode_split" and (tmp_path / "combine.sass").exists()
    undivided = ("undivided", "undivided_first", "undivided_rest") if target == "sm_90a" else ()
    for stem in ("kernel", "whole", "first", "rest", *undivided):
        sass = (tmp_path / f"{stem}.sass").read_text()
        assert matrix in sass
        if target == "sm_90a":
            assert "STL" not in sass, f"{stem} spills registers"
    for stem in undivided:
        shared = re.search(r"global_smem\w*\[(\d+)\]", (tmp_path / f"{stem}.ptx").read_text())
        assert int(shared[1]) >= 3 * 64 * (512 + 64) * 2, f"{stem} has no room for Q and two KV tiles"
