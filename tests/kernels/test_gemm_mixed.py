"""Products with weights of fewer bits, alone and grouped.

Operators, what kernels take, builds that are right.
"""

import re
from dataclasses import replace

import pytest

import numpy_tile
from builds import build, launches, simulate
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.paths import ROOT
from kernels.gemm_mixed.operator import DISTRIBUTIONS, DTYPES, LARGEST, LOWEST

torch = pytest.importorskip("torch")

SINGLE, GROUPED = NAMES = ("gemm_mixed", "gemm_mixed_grouped")
SMALL = {
    SINGLE: {"m": 72, "n": 144, "k": 256},
    GROUPED: {"groups": 3, "m": 24, "n": 144, "k": 256, "sizes": "uneven"},
}


def small(operator: str, **values):
    """The operator, and its small workload with other values."""
    problem = load_operator(operator)
    return problem, problem.Workload(**{**SMALL[operator], **values})


def distance(result, true) -> float:
    return float((result.float() - true.float()).norm() / true.float().norm())


@pytest.mark.parametrize(
    ("operator", "values", "message"),
    [
        (SINGLE, {"m": 0}, "m is 0; it must be a whole number"),
        (SINGLE, {"dtype": "int4", "k": 200}, "k is 200; with int4 it must be a multiple of 128"),
        (GROUPED, {"m": 12}, "m is 12; groups have multiples of 8 rows"),
        (GROUPED, {"dtype": "int2"}, "dtype is 'int2'; allowed: int8, int4, fp8"),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(operator, values, message) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        small(operator, **values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_element_is_its_code_times_the_scale_of_its_block(dtype) -> None:
    problem, work = small(SINGLE, dtype=dtype)
    inputs = problem.make_inputs(work, 0, distribution="scales")
    row, column, total = 71, 143, 0.0
    for i in range(work.k):
        code = inputs.b[column, i // 2 if dtype == "int4" else i]
        if dtype == "int4":
            nibble = int(code) >> (4 * (i % 2)) & 15
            code, scale = nibble - 16 * (nibble > 7), float(inputs.b_scales[i // 128, column])
        else:
            scale = 1.0
        total += float(inputs.a[row, i]) * float(code) * scale
    assert float(problem.reference(inputs, work).c[row, column]) == pytest.approx(total, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize("operator", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_what_is_drawn_reaches_the_ends_of_its_type_and_a_misplaced_scale_shows(operator, dtype, distribution) -> None:
    problem, work = small(operator, dtype=dtype)
    inputs = problem.make_inputs(work, 0, distribution=distribution)
    true = problem.reference(inputs, work).c
    assert bool(true.isfinite().all()) and float(true.abs().max()) < 1e6
    assert distance(problem.same_precision(inputs, work).c, true) < problem.tolerance(dtype)
    if distribution == "extremes":
        mixed = load_operator(SINGLE)
        values = mixed.weights(inputs.b, torch.ones(1, 1)) if operator == SINGLE else mixed.decode(inputs.b)
        assert set(values.unique().tolist()) == {LOWEST[dtype], LARGEST[dtype]}
    if distribution == "scales" and dtype == "int4":
        wrong = replace(inputs, b_scales=inputs.b_scales.flip(-1))
        assert distance(problem.reference(wrong, work).c, true) > 0.5
    if distribution == "constant":
        assert bool((true == work.k).all())


def test_groups_have_their_own_weights_and_one_of_them_has_no_row() -> None:
    problem, work = small(GROUPED, dtype="int4")
    inputs = problem.make_inputs(work, 0)
    c, begin = problem.reference(inputs, work).c, 0
    assert work.group_rows == (0, 48, 24)
    for group, rows in enumerate(work.group_rows):
        end = begin + rows
        b = load_operator(SINGLE).weights(inputs.b[group], inputs.b_scales[group])
        torch.testing.assert_close(c[begin:end], inputs.a[begin:end].float() @ b.T, rtol=1e-5, atol=1e-4)
        assert inputs.starts[group : group + 2].tolist() == [begin, end]
        begin = end


@pytest.mark.parametrize("operator", NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_baseline_is_the_operator_with_the_inputs_of_now(operator, dtype) -> None:
    problem, work = small(operator, dtype=dtype)
    inputs, outputs = problem.make_inputs(work, 1), problem.make_outputs(work)
    runner = load_kernel(operator, "torch_dequantized").bind(None, work, inputs, outputs)
    for seed in (1, 2):
        inputs.a.copy_(problem.make_inputs(work, seed).a)
        runner(0)
        assert distance(outputs.c, problem.reference(inputs, work).c) < 2 * problem.tolerance(dtype)


def test_the_cost_counts_weights_in_their_own_width() -> None:
    problem, work = small(SINGLE, m=1, n=128, k=256, dtype="int4")
    assert problem.cost(work).bytes_read == 2 * 256 + 128 * 256 // 2 + 2 * 128 * 2
    problem, work = small(GROUPED, dtype="fp8")
    assert (
        problem.cost(work).bytes_read == 2 * 72 * 256 + 2 * 144 * 256 and problem.cost(work).flops == 2 * 72 * 144 * 256
    )


@pytest.mark.parametrize(
    ("operator", "kernel", "values", "reason"),
    [
        (SINGLE, "cutlass_sm100", {"dtype": "int4"}, None),
        (SINGLE, "cutlass_sm100", {"dtype": "fp8"}, None),
        (SINGLE, "cutlass_sm100", {"n": 12}, "n is 12"),
        (SINGLE, "cutlass_operators", {"dtype": "int8"}, None),
        (SINGLE, "cutile", {"dtype": "fp8"}, None),
        (SINGLE, "cutile", {"k": 24}, "k is 24"),
        (GROUPED, "cutlass_sm100", {"dtype": "int8"}, None),
        (GROUPED, "cutlass_acc_scale", {"dtype": "int8"}, "scales sums"),
        (GROUPED, "cutlass_acc_scale", {"dtype": "fp8"}, "convert-only mode is not supported"),
        (GROUPED, "cutlass_acc_scale", {"dtype": "int4"}, None),
        (GROUPED, "cutile", {"n": 12}, "n is 12"),
    ],
)
def test_what_each_kernel_takes(operator, kernel, values, reason) -> None:
    result = load_kernel(operator, kernel).supports(small(operator, **values)[1])
    assert (result is None) if reason is None else (reason in result)


def sources() -> tuple:
    """Our cuTile kernels of both operators, and the stand-in that executes them."""
    decode, stand_in = numpy_tile.load(ROOT / "kernels/fmha_mixed_decode/cutile/kernel.py")
    modules = {"kernels.fmha_mixed_decode.cutile.kernel": decode}
    single, _ = numpy_tile.load(ROOT / "kernels/gemm_mixed/cutile/kernel.py", modules)
    modules = {"kernels.gemm_mixed.cutile.kernel": single}
    grouped, _ = numpy_tile.load(ROOT / "kernels/gemm_mixed_grouped/cutile/kernel.py", modules)
    single.ct = grouped.ct = stand_in
    return single, grouped, stand_in


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operator", NAMES)
def test_our_cutile_source_computes_the_products_when_numpy_executes_it(operator, dtype) -> None:
    from kernels.gemm_mixed.operator import BITS

    problem, work = small(operator, dtype=dtype)
    inputs, c = problem.make_inputs(work, 0, distribution="scales"), problem.make_outputs(work).c.float().numpy()
    codes = load_kernel(SINGLE, "cutile").codes(inputs.b)
    codes = codes.float() if dtype == "fp8" else codes
    values = [x.numpy() for x in (inputs.a.float(), codes, inputs.b_scales.float())]
    single, grouped, stand_in = sources()
    constants = (64, 128, 128, BITS[dtype], int(dtype == "int4"))
    if operator == SINGLE:
        arguments = (values[0], values[1][None], values[2][None], c)
        numpy_tile.launch(stand_in, single.gemm_mixed, (2 * 2,), (*arguments, *constants))
    else:
        arguments = (values[0].view(numpy_tile.Array), *values[1:], inputs.starts.numpy(), c.view(numpy_tile.Array))
        numpy_tile.launch(stand_in, grouped.gemm_mixed_grouped, (3,), (*arguments, *constants))
    torch.testing.assert_close(torch.from_numpy(c), problem.reference(inputs, work).c, rtol=1e-4, atol=1e-2)


def first(operator: str, kernel: str, target: str, dtype: str, index: int = 0, **values):
    _, work = small(operator, dtype=dtype, **values)
    variant = load_kernel(operator, kernel).variants(work, target)[index]
    folder = build(operator, kernel, target, variant)
    entry = record.plain(record.read("compile", folder / "build.json"))
    assert entry["status"] == "ok", entry["reason"]
    return work, variant, folder


# Scales of NVIDIA's kernels are refilled without a proxy fence after loads (docs/ptxsim/validation.md).
REFILLED = r"race: a copy signalling .* no fence\.proxy\.async lies between them"

# What NVIDIA's own lists of element types leave out.
FP8 = ((SINGLE, "cutlass_sm100"), (SINGLE, "cutlass_operators"), (GROUPED, "cutlass_sm100"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "kernel", "dtype", "index"),
    [
        *((SINGLE, "cutlass_sm100", dtype, index) for dtype in ("int4", "int8") for index in range(2)),
        *((GROUPED, "cutlass_sm100", dtype, index) for dtype in ("int4", "int8") for index in range(2)),
        (GROUPED, "cutlass_acc_scale", "int4", 0),
        *((operator, "cutile", dtype, 0) for operator in NAMES for dtype in DTYPES),
        *((SINGLE, "cutlass_operators", dtype, index) for dtype, index in (("int4", 0), ("int8", 1))),
        *((operator, kernel, "fp8", 0) for operator, kernel in FP8),
    ],
)
def test_every_kernel_is_right_in_the_simulator(operator, kernel, dtype, index) -> None:
    _, variant, _ = first(operator, kernel, "sm_100a", dtype, index)
    parameters = {**SMALL[operator], "dtype": dtype}
    result = simulate(operator, kernel, "sm_100a", variant, parameters, ["scales", "extremes"], ["random", "late"])
    known = REFILLED if kernel != "cutile" else "(?!)"
    for check in result["metrics"]["checks"]:
        assert all(output["passed"] for output in check["outputs"].values()), check["outputs"]
        assert all(re.search(known, finding) for finding in check["findings"]), check["findings"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "kernel"), [(SINGLE, "cutlass_sm100"), (SINGLE, "cutlass_operators"), (GROUPED, "cutlass_sm100")]
)
def test_launches_are_those_that_the_build_makes(operator, kernel) -> None:
    work, _, folder = first(operator, kernel, "sm_100a", "int4", m=1024, n=2048)
    reported, made = launches(operator, kernel, folder, work)
    assert reported == made


@pytest.mark.slow
@pytest.mark.parametrize("operator", NAMES)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_103a"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_first_build_in_cutile_uses_tensor_cores_and_tma_and_spills_nothing(operator, target, dtype) -> None:
    *_, folder = first(operator, "cutile", target, dtype)
    sass = {word.split(".")[0] for word in (folder / "kernel.sass").read_text().split()}
    assert {"HGMMA" if target == "sm_90a" else "UTCHMMA", "UTMALDG"} <= sass and not {"LDL", "STL"} & sass
