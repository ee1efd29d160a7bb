"""The product with an epilogue.

Its operator, what its kernels take, and that each is built and right.
"""

import re
from dataclasses import replace

import pytest

from builds import build, launches, simulate
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from kernels.gemm_epilogue.operator import ACTIVATIONS, DISTRIBUTIONS, Workload

OPERATOR = load_operator("gemm_epilogue")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"k": 0}, "k is 0; it must be a whole number"),
        ({"dtype": "fp8"}, "dtype is 'fp8'; allowed: bf16, fp16"),
        ({"activation": "gelu"}, "activation is 'gelu'; allowed: identity, relu, silu"),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(values, message) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Workload(**{"m": 8, "n": 8, "k": 8, **values})


def test_the_reference_is_written_out() -> None:
    workload = Workload(8, 16, 32, activation="silu")
    inputs = OPERATOR.make_inputs(workload, 0)
    x = 0.5 * float((inputs.a[3].float() * inputs.b[5].float()).sum()) + 2.0 * float(inputs.c[3, 5])
    result = float(OPERATOR.reference(inputs, workload).d[3, 5])
    assert result == pytest.approx(x / (1 + 2.718281828459045**-x), rel=1e-4)
    assert float(OPERATOR.reference(inputs, replace(workload, activation="relu")).d.min()) == 0


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_what_is_drawn_has_a_result_that_fits_its_type(dtype, distribution) -> None:
    workload = Workload(64, 64, 8192, dtype=dtype)
    inputs = OPERATOR.make_inputs(workload, 0, distribution=distribution)
    d = OPERATOR.reference(inputs, workload).d.to(inputs.a.dtype)
    assert bool(d.isfinite().all()) and bool(inputs.c.isfinite().all())


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_baseline_is_the_operator(activation) -> None:
    import torch

    workload = Workload(48, 32, 64, activation=activation)
    inputs, outputs = OPERATOR.make_inputs(workload, 1), OPERATOR.make_outputs(workload)
    load_kernel("gemm_epilogue", "torch_addmm").bind(None, workload, inputs, outputs)(0)
    torch.testing.assert_close(outputs.d.float(), OPERATOR.reference(inputs, workload).d, rtol=2e-2, atol=5e-2)


@pytest.mark.parametrize("kernel", ["cutlass", "cutile", "tilegym"])
def test_rows_must_be_multiples_of_sixteen_bytes(kernel) -> None:
    module = load_kernel("gemm_epilogue", kernel)
    assert module.supports(Workload(1, 8, 8)) is None
    assert "k is 12" in module.supports(Workload(8, 8, 12)) and "n is 12" in module.supports(Workload(8, 12, 8))


@pytest.mark.parametrize("tiles_m", [1, 7, 8, 9, 20])
@pytest.mark.parametrize("tiles_n", [1, 3, 8])
def test_the_order_of_blocks_in_cutile_meets_every_tile_once(tiles_m, tiles_n) -> None:
    """The arithmetic of kernels/gemm_epilogue/cutile/kernel.py, on whole numbers."""
    group_rows = 8
    merged = set()
    for block in range(tiles_m * tiles_n):
        group = block // (group_rows * tiles_n)
        rows = min(tiles_m - group * group_rows, group_rows)
        within = block - group * group_rows * tiles_n
        merged.add((group * group_rows + within % rows, within // rows))
    assert merged == {(m, n) for m in range(tiles_m) for n in range(tiles_n)}


def first(kernel: str, target: str, **values):
    workload = Workload(**{"m": 200, "n": 264, "k": 136, **values})
    variant = load_kernel("gemm_epilogue", kernel).variants(workload, target)[0]
    folder = build("gemm_epilogue", kernel, target, variant)
    entry = record.plain(record.read("compile", folder / "build.json"))
    assert entry["status"] == "ok", entry["reason"]
    return workload, variant, folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "target"),
    [
        ("cutlass", "sm_100a"),
        ("cutlass", "sm_103a"),
        *(("cutile", f"sm_{n}") for n in ("90a", "100a", "103a")),
        *(("tilegym", f"sm_{n}") for n in ("90a", "100a")),
    ],
)
def test_a_build_uses_tensor_cores_and_tma_and_spills_nothing(kernel, target) -> None:
    folder = first(kernel, target)[2]
    sass = {word.split(".")[0] for word in (folder / "kernel.sass").read_text().split()}
    assert {"HGMMA" if target == "sm_90a" else "UTCHMMA", "UTMALDG"} <= sass and not {"LDL", "STL"} & sass


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["cutlass", "tilegym"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_is_right_in_the_simulator(kernel, activation) -> None:
    parameters = {"m": 200, "n": 264, "k": 136, "activation": activation, "dtype": "bf16"}
    _, variant, _ = first(kernel, "sm_100a", activation=activation)
    result = simulate("gemm_epilogue", kernel, "sm_100a", variant, parameters, ["randn"], ["random", "late"])
    assert result["status"] == "ok", result["reason"]


@pytest.mark.slow
def test_launches_are_those_that_the_build_makes() -> None:
    reported, made = launches("gemm_epilogue", "cutlass", first("cutlass", "sm_100a")[2], Workload(3000, 6000, 64))
    assert reported == made
