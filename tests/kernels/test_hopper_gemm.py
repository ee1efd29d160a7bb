"""Test the Hopper GEMM in CuTe DSL that operators share."""

import pytest

from builds import build, launches, simulate
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, make_workload
from kernels.hopper_gemm import adapter
from kernels.hopper_gemm.tiles import ROW_BYTES, stages

KERNEL, TARGET = "cute_sm90", "sm_90a"
# Sizes are no multiples of a tile, and CTAs take several tiles.
CASES = {
    "gemm_epilogue": {"m": 200, "n": 264, "k": 136, "activation": "silu"},
    "gemm_blockwise": {"m": 200, "n": 264, "k": 400},
    "gemm_grouped_contiguous": {"groups": 3, "m": 128, "n": 136, "k": 272, "sizes": "uneven"},
    "gemm_grouped_masked": {"groups": 3, "m": 200, "n": 136, "k": 272},
    "gemm_mixed": {"m": 40, "n": 272, "k": 384, "dtype": "int4"},
    "gemm_mixed_grouped": {"groups": 4, "m": 24, "n": 144, "k": 400, "dtype": "int8", "sizes": "uneven"},
    "tensor_products": {"m": 200, "n": 136, "k": 200},
}
INSTRUCTION = {"gemm_blockwise": "QGMMA", "gemm_grouped_contiguous": "QGMMA", "gemm_grouped_masked": "QGMMA"}


def variants(operator):
    return load_kernel(operator, KERNEL).variants(make_workload(operator, CASES[operator]), TARGET)


def built(operator, index=0):
    variant = variants(operator)[index]
    folder = build(operator, KERNEL, TARGET, variant)
    entry = record.plain(record.read("compile", folder / "build.json"))
    assert entry["status"] == "ok", entry["reason"]
    return variant, folder


def test_every_tile_has_three_stages_or_more():
    for tiling in (*adapter.TILINGS, *adapter.SCALED_TILINGS):
        assert stages((tiling.tile_m + tiling.tile_n) * ROW_BYTES, tiling.occupancy) >= 3


@pytest.mark.parametrize("operator", CASES)
def test_rows_must_be_multiples_of_sixteen_bytes(operator):
    supports = load_kernel(operator, KERNEL).supports
    assert supports(make_workload(operator, CASES[operator])) is None
    assert "n is 139" in supports(make_workload(operator, {**CASES[operator], "n": 139}))


def test_other_types_are_refused():
    assert "fp8" in load_kernel("gemm_mixed", KERNEL).supports(
        make_workload("gemm_mixed", {"m": 8, "n": 16, "k": 128, "dtype": "fp8"})
    )
    assert "mxf4" in load_kernel("tensor_products", KERNEL).supports(
        make_workload("tensor_products", {"m": 64, "n": 64, "k": 64, "dtype": "mxf4"})
    )


@pytest.mark.slow
@pytest.mark.parametrize("operator", CASES)
def test_a_build_is_right_in_the_simulator_and_spills_nothing(operator):
    variant, folder = built(operator)
    result = simulate(operator, KERNEL, TARGET, variant, CASES[operator], schedules=["random"], processors=2)
    assert result["status"] == "ok", result["reason"]
    sass = {word.split(".")[0] for word in (folder / "kernel.sass").read_text().split()}
    assert {INSTRUCTION.get(operator, "HGMMA"), "UTMALDG"} <= sass and not {"LDL", "STL"} & sass


@pytest.mark.slow
@pytest.mark.parametrize("operator", ["gemm_epilogue", "gemm_grouped_masked"])
def test_launches_are_those_that_the_build_makes(operator):
    _, folder = built(operator)
    reported, made = launches(operator, KERNEL, folder, make_workload(operator, CASES[operator]))
    assert reported == made
