"""The blockwise scaled product and its grouped forms.

Operators, what their kernels take, builds that are right.
"""

import re
import types
from dataclasses import replace

import numpy as np
import pytest

import numpy_tile
from builds import build, launches, simulate
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.paths import ROOT

torch = pytest.importorskip("torch")

BLOCKWISE, CONTIGUOUS, MASKED = NAMES = ("gemm_blockwise", "gemm_grouped_contiguous", "gemm_grouped_masked")
SMALL = {
    BLOCKWISE: {"m": 200, "n": 264, "k": 400},
    CONTIGUOUS: {"groups": 3, "m": 128, "n": 136, "k": 272, "sizes": "uneven"},
    MASKED: {"groups": 3, "m": 200, "n": 136, "k": 272},
}
CUTILE = {BLOCKWISE: "tilegym", CONTIGUOUS: "tilegym", MASKED: "cutile"}


def small(operator: str, **values):
    """The operator, and its small workload with other values."""
    problem = load_operator(operator)
    return problem, problem.Workload(**{**SMALL[operator], **values})


def distance(result, true) -> float:
    return float((result.float() - true.float()).norm() / true.float().norm())


@pytest.mark.parametrize(
    ("operator", "values", "message"),
    [
        (BLOCKWISE, {"k": 0}, "k is 0; it must be a whole number"),
        (CONTIGUOUS, {"m": 100}, "m is 100; groups have multiples of 128 rows"),
        (CONTIGUOUS, {"sizes": "odd"}, "sizes is 'odd'; allowed: even, uneven"),
        (BLOCKWISE, {"dtype": "bf16"}, "dtype is 'bf16'; allowed: fp8"),
        (MASKED, {"dtype": "fp16"}, "dtype is 'fp16'; allowed: fp8, bf16"),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(operator, values, message) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        small(operator, **values)


def test_an_element_is_its_code_times_the_scale_of_its_block() -> None:
    problem, work = small(BLOCKWISE)
    inputs = problem.make_inputs(work, 0, distribution="scales")
    row, column = 137, 263  # K 400 and N 264 both end within a block
    total = sum(
        float(inputs.a[row, i]) * float(inputs.a_scales[i // 128, row])
        * float(inputs.b[column, i]) * float(inputs.b_scales[column // 128, i // 128])
        for i in range(work.k)
    )  # fmt: skip
    assert float(problem.reference(inputs, work).c[row, column]) == pytest.approx(total, rel=1e-4)


@pytest.mark.parametrize("rows", [1, 128])
def test_quantizing_loses_no_more_than_a_rounding_to_fp8(rows) -> None:
    problem = load_operator(BLOCKWISE)
    x = torch.randn(3, 200, 300) * torch.tensor([1e-6, 1.0, 1e6])[:, None, None]
    codes, scales = problem.quantize(x, rows)
    back = problem.dequantize_rows(codes, scales.mT) if rows == 1 else problem.dequantize_blocks(codes, scales)
    assert scales.shape == (3, -(-200 // rows), 3)
    for one, other in zip(back, x, strict=True):
        assert distance(one, other) < 2**-4


@pytest.mark.parametrize("operator", NAMES)
@pytest.mark.parametrize("distribution", load_operator(BLOCKWISE).DISTRIBUTIONS)
def test_a_scale_in_the_wrong_place_shows(operator, distribution) -> None:
    problem, work = small(operator)
    inputs = problem.make_inputs(work, 0, distribution=distribution)
    true, same = problem.reference(inputs, work).c, problem.same_precision(inputs, work).c
    assert distance(same, true) < 2 * problem.tolerance(work.dtype)
    if distribution == "scales":
        for name in ("a_scales", "b_scales"):
            wrong = replace(inputs, **{name: getattr(inputs, name).flip(-1 if name == "a_scales" else -2)})
            assert distance(problem.reference(wrong, work).c, true) > 0.5


@pytest.mark.parametrize(("operator", "dtype"), [(CONTIGUOUS, "fp8"), (MASKED, "fp8"), (MASKED, "bf16")])
def test_groups_have_their_own_b_and_one_of_them_has_no_row(operator, dtype) -> None:
    problem, work = small(operator, dtype=dtype)
    inputs = problem.make_inputs(work, 0)
    c = problem.reference(inputs, work).c
    begin, weights = 0, load_operator(BLOCKWISE).dequantize_blocks(inputs.b, inputs.b_scales)
    assert 0 in work.group_rows and len(work.group_rows) == work.groups
    for group, rows in enumerate(work.group_rows):
        if operator == CONTIGUOUS:
            codes, scales = inputs.a[begin : begin + rows], inputs.a_scales[:, begin : begin + rows]
            result, begin = c[begin : begin + rows], begin + rows
            assert rows % 128 == 0 and bool((inputs.group_of_row[begin - rows : begin] == group).all())
            assert inputs.starts[group + 1] == begin
        else:
            codes, scales = inputs.a[group, :rows], inputs.a_scales[group, :, :rows]
            result = c[group, :rows]
            assert int(inputs.rows[group]) == rows and bool((c[group, rows:] == 0).all())
        product = load_operator(BLOCKWISE).dequantize_rows(codes, scales) @ weights[group].T
        torch.testing.assert_close(result, product, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("operator", "dtype"), [*((operator, "fp8") for operator in NAMES), (MASKED, "bf16")])
def test_the_baseline_is_the_operator_with_the_inputs_of_now(operator, dtype) -> None:
    problem, work = small(operator, dtype=dtype)
    inputs, outputs = problem.make_inputs(work, 1), problem.make_outputs(work)
    runner = load_kernel(operator, "torch_dequantized").bind(None, work, inputs, outputs)
    for seed in (1, 2):
        fresh = problem.make_inputs(work, seed)
        for name in ("a", "a_scales"):
            getattr(inputs, name).copy_(getattr(fresh, name))
        runner(0)
        runner.finish()
        assert distance(outputs.c, problem.reference(inputs, work).c) < 2 * problem.tolerance(work.dtype)


def test_the_cost_counts_groups_that_have_rows() -> None:
    problem, work = small(MASKED, groups=2, m=128, n=128, k=256)
    assert work.group_rows == (0, 128)
    result = problem.cost(work)
    assert (result.flops, result.bytes_written) == (2 * 128 * 128 * 256, 2 * 128 * 128)
    assert result.bytes_read == 128 * (256 + 4 * 2) + 128 * 256 + 4 * 2
    assert problem.cost(replace(work, dtype="bf16")).bytes_read == 2 * (128 * 256 + 128 * 256)
    problem, work = small(CONTIGUOUS, groups=2, n=128, k=256)
    assert work.group_rows == (0, 256) and problem.cost(work).bytes_read == 256 * (256 + 8) + 128 * 256 + 8


@pytest.mark.parametrize("operator", NAMES)
def test_rows_must_be_multiples_of_sixteen_bytes(operator) -> None:
    for kernel in ("cutlass_sm100", CUTILE[operator]):
        supports = load_kernel(operator, kernel).supports
        assert supports(small(operator, n=128, k=256)[1]) is None
        assert "k is 264" in supports(small(operator, n=128, k=264)[1])
        assert "n is 132" in supports(small(operator, n=132, k=256)[1])
    for kernel, other in (("cutlass_sm100", "bf16"), ("cutile", "bf16"), ("tilegym", "fp8")):
        assert f"dtype is {other}" in load_kernel(MASKED, kernel).supports(small(MASKED, dtype=other)[1])
    assert load_kernel(MASKED, "tilegym").supports(small(MASKED, dtype="bf16")[1]) is None
    assert "k is 12:" in load_kernel(MASKED, "tilegym").supports(small(MASKED, dtype="bf16", k=12)[1])
    assert "k is 272" in load_kernel(BLOCKWISE, "tilegym").supports(small(BLOCKWISE, k=272)[1])


def arrays(group) -> dict:
    """Tensors of inputs or outputs as numpy arrays, 8-bit and 16-bit floats as float32."""
    named = {name: value for name, value in vars(group).items() if isinstance(value, torch.Tensor)}
    wide = {name: value if value.dtype == torch.int32 else value.float() for name, value in named.items()}
    return {name: value.numpy().view(numpy_tile.Array) for name, value in wide.items()}


@pytest.mark.parametrize("tile", [(64, 128), (128, 64)])
def test_our_cutile_source_computes_the_used_rows_when_numpy_executes_it(tile) -> None:
    problem, work = small(MASKED, n=200)
    inputs = problem.make_inputs(work, 0, distribution="scales")
    kernel, stand_in = numpy_tile.load(ROOT / "kernels/gemm_grouped_masked/cutile/kernel.py")
    outputs = problem.make_outputs(work)
    c, values = outputs.c.float().numpy(), arrays(inputs)
    operands = [values[name] for name in ("a", "b", "a_scales", "b_scales", "rows")]
    grid = (-(-work.m // tile[0]), -(-work.n // tile[1]), work.groups)
    numpy_tile.launch(stand_in, kernel.gemm_grouped_masked, grid, (*operands, c, *tile, 128))
    result = problem.Outputs(torch.from_numpy(c))
    problem.clear_unused(inputs, result)
    torch.testing.assert_close(result.c, problem.reference(inputs, work).c, rtol=1e-5, atol=1e-3)


def first(operator: str, kernel: str, target: str, index: int = 0, **values):
    """A small workload, a variant for it, and the folder of its build."""
    _, work = small(operator, **values)
    variant = load_kernel(operator, kernel).variants(work, target)[index]
    folder = build(operator, kernel, target, variant)
    entry = record.plain(record.read("compile", folder / "build.json"))
    assert entry["status"] == "ok", entry["reason"]
    return work, variant, folder


@pytest.mark.slow
@pytest.mark.parametrize("operator", NAMES)
@pytest.mark.parametrize("index", [0, 1, 2])
def test_nvidias_kernels_are_right_in_the_simulator(operator, index) -> None:
    _, variant, folder = first(operator, "cutlass_sm100", "sm_100a", index)
    parameters = {**SMALL[operator], "dtype": "fp8"}
    result = simulate(operator, "cutlass_sm100", "sm_100a", variant, parameters, ["scales"], ["random", "late"])
    assert result["status"] == "ok", result["reason"]
    sass = (folder / "kernel.sass").read_text()
    assert "UTCQMMA" in sass and "UTMALDG" in sass


@pytest.mark.slow
@pytest.mark.parametrize("operator", NAMES)
def test_the_kernels_in_cutile_are_right_in_the_simulator(operator) -> None:
    values = {"k": 384} if operator == BLOCKWISE else {}
    _, variant, _ = first(operator, CUTILE[operator], "sm_100a", **values)
    parameters = {**SMALL[operator], **values, "dtype": "fp8"}
    result = simulate(operator, CUTILE[operator], "sm_100a", variant, parameters, ["scales"])
    assert result["status"] == "ok", result["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 1])
def test_tilegyms_masked_kernel_leaves_unused_rows_alone_in_the_simulator(index) -> None:
    _, variant, folder = first(MASKED, "tilegym", "sm_100a", index, dtype="bf16")
    result = simulate(MASKED, "tilegym", "sm_100a", variant, {**SMALL[MASKED], "dtype": "bf16"}, ["scales"])
    assert result["status"] == "ok", result["reason"]
    assert "UTCHMMA" in (folder / "kernel.sass").read_text() and "STL" not in (folder / "kernel.sass").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("operator", NAMES)
def test_launches_are_those_that_the_build_makes(operator) -> None:
    large = {"m": 3072, "n": 4096, "k": 128} | ({"groups": 2} if operator != BLOCKWISE else {})
    _, _, folder = first(operator, "cutlass_sm100", "sm_100a")
    reported, made = launches(operator, "cutlass_sm100", folder, small(operator, **large)[1])
    assert reported == made


@pytest.mark.slow
@pytest.mark.parametrize("operator", NAMES)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_the_first_build_in_cutile_uses_tensor_cores_and_tma_and_spills_nothing(operator, target) -> None:
    *_, folder = first(operator, CUTILE[operator], target, k=256)
    sass = {word.split(".")[0] for word in (folder / "kernel.sass").read_text().split()}
    assert {"QGMMA" if target == "sm_90a" else "UTCQMMA", "UTMALDG"} <= sass and not {"LDL", "STL"} & sass


@pytest.mark.slow
def test_nvidias_masked_kernel_asks_for_the_rows_of_a_group_that_is_not_there(monkeypatch) -> None:
    # Its scheduler warp looks up the tile past the last one before it asks whether there is one (line 1021).
    problem, _ = small(MASKED)
    _, variant, _ = first(MASKED, "cutlass_sm100", "sm_100a")
    monkeypatch.setattr(problem, "SPARE", 0)
    result = simulate(MASKED, "cutlass_sm100", "sm_100a", variant, {**SMALL[MASKED], "dtype": "fp8"})
    assert "0 bytes past the end of rows" in result["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["own", "uniform", "swap"])
@pytest.mark.parametrize(("columns", "right"), [(128, True), (256, False)])
def test_tilegyms_ragged_kernels_take_one_scale_for_two_blocks_of_a_tile_of_256_columns(form, columns, right) -> None:
    from cutesnake.stages.fetch import fetched
    from kernels.gemm_grouped_contiguous.tilegym import KERNELS
    from kernels.upstream import tilegym

    first(CONTIGUOUS, "tilegym", "sm_90a")  # fetches the wheel
    problem, work = small(CONTIGUOUS, n=256)
    inputs, c = problem.make_inputs(work, 0, distribution="scales"), problem.make_outputs(work).c.float().numpy()
    modules = {name: types.ModuleType(name) for name in ("cuda.tile.tune", "tilegym.ops.cutile.utils")}
    modules["cuda.tile.tune"].exhaustive_search = modules["tilegym.ops.cutile.utils"].cached_replace_hints = None
    path = fetched("tilegym") / "tilegym/suites/flashinfer/cutile/gemm/ragged_block_scaled_bmm.py"
    kernel, stand_in = numpy_tile.load(path, modules | tilegym.neighbours())
    values, largest = arrays(inputs), max(work.group_rows)
    operands = (values["a"], values["b"], values["a_scales"].T, values["b_scales"], c.view(numpy_tile.Array))
    sizes = (work.groups, largest, np.array([largest]), work.n)
    arguments = (*operands, values["starts"], *sizes, 1, 128, columns, 128, 8)
    numpy_tile.launch(stand_in, getattr(kernel, KERNELS[form]), (4,), arguments)
    assert (distance(torch.from_numpy(c), problem.reference(inputs, work).c) < 1e-4) == right
