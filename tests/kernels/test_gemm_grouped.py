"""The grouped product.

Its operator, what its kernels take, and that each is built and right.
"""

import re
from types import SimpleNamespace

import pytest

import numpy_tile
from builds import build, launches, simulate
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.paths import ROOT
from cutesnake.stages.load import cute as cute_load
from kernels.gemm_grouped.operator import DISTRIBUTIONS, DTYPES, SCALED, Problem, Workload

torch = pytest.importorskip("torch")

OPERATOR = load_operator("gemm_grouped")
SMALL = {"groups": 3, "m": 96, "n": 160, "k": 96, "sizes": "uneven"}
CUTE = {"bf16": "cutlass_sm100", "fp16": "cutlass_sm100", **dict.fromkeys(SCALED, "cutlass_blockscaled")}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"groups": 0}, "groups is 0; it must be a whole number from 1 up"),
        ({"n": 40}, "n is 40; it must be a multiple of 32"),
        ({"dtype": "fp8"}, "dtype is 'fp8'; allowed: bf16, fp16, mxfp8, mxfp4, nvfp4"),
        ({"sizes": "odd"}, "sizes is 'odd'; allowed: even, uneven"),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(values, message) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Workload(**{**SMALL, **values})


def test_groups_differ_in_size_and_have_the_sizes_asked_for_on_average() -> None:
    problems = Workload(**{**SMALL, "groups": 8, "m": 1024}).problems
    assert len(set(problems)) == 8 and problems == Workload(**{**SMALL, "groups": 8, "m": 1024}).problems
    for key in ("m", "n", "k"):
        sizes = [getattr(problem, key) for problem in problems]
        assert sum(sizes) == 8 * (1024 if key == "m" else SMALL[key]) and min(sizes) >= 32
    assert set(Workload(2, 32, 64, 96).problems) == {Problem(32, 64, 96)}
    assert Workload(2, 160, 96, 32).tiles(128, 64) == 2 * 2 * 2


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_every_group_is_the_product_of_its_own_matrices(dtype, distribution) -> None:
    work = Workload(**SMALL, dtype=dtype)
    inputs = OPERATOR.make_inputs(work, 0, distribution=distribution)
    true = OPERATOR.reference(inputs, work)
    groups, result = OPERATOR.matrices(inputs, work), OPERATOR.results(true, work)
    assert sum(a.numel() for a, *_ in groups) == inputs.a.numel() and sum(c.numel() for c in result) == true.c.numel()
    for group, problem, c in zip(groups, work.problems, result, strict=True):
        a, b = OPERATOR.operands(group, problem, work)
        row, column = problem.m - 1, problem.n - 1
        assert a.shape == (problem.m, problem.k) and c.shape == (problem.m, problem.n)
        one = float((a[row].double() * b[column].double()).sum())
        assert float(c[row, column]) == pytest.approx(one, rel=1e-4, abs=1e-3 * float(c.abs().max()))
    same = OPERATOR.same_precision(inputs, work).c.float()
    assert float((same - true.c).norm() / true.c.norm()) < OPERATOR.tolerance(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_baseline_is_the_operator_with_the_inputs_of_now(dtype) -> None:
    work = Workload(**SMALL, dtype=dtype)
    inputs, outputs = OPERATOR.make_inputs(work, 1), OPERATOR.make_outputs(work)
    runner = load_kernel("gemm_grouped", "torch_loop").bind(None, work, inputs, outputs)
    for seed in (1, 2):
        fresh = OPERATOR.make_inputs(work, seed)
        inputs.a.copy_(fresh.a)
        inputs.a_scales.copy_(fresh.a_scales)
        runner(0)
        true = OPERATOR.reference(inputs, work).c
        assert float((outputs.c.float() - true).norm() / true.norm()) < OPERATOR.tolerance(dtype)


def test_the_cost_is_the_sum_of_the_groups() -> None:
    work = Workload(**SMALL)
    result = OPERATOR.cost(work)
    assert result.flops == sum(2 * p.m * p.n * p.k for p in work.problems)
    assert result.bytes_read == sum(2 * p.k * (p.m + p.n) for p in work.problems)
    scaled = OPERATOR.cost(Workload(1, 128, 128, 64, dtype="nvfp4"))
    assert scaled.bytes_read == 256 * (32 + 4)


def test_what_each_kernel_takes() -> None:
    for kernel, scaled in {
        "cutlass_sm100": False,
        "cute_sm90": False,
        "tilegym": False,
        "cutlass_blockscaled": True,
        "cutile": True,
    }.items():
        supports = load_kernel("gemm_grouped", kernel).supports
        assert [supports(Workload(**SMALL, dtype=dtype)) is None for dtype in ("bf16", "nvfp4")] == [not scaled, scaled]


def test_our_hopper_kernel_refuses_more_groups_than_its_arguments_hold() -> None:
    supports = load_kernel("gemm_grouped", "cute_sm90").supports
    assert supports(Workload(**{**SMALL, "groups": 16})) is None
    assert supports(Workload(**{**SMALL, "groups": 17})) == "17 groups; at most 16"


def test_our_hopper_kernel_gets_each_groups_place_deepest_first() -> None:
    work = Workload(**SMALL)
    inputs, outputs = OPERATOR.make_inputs(work, 0), OPERATOR.make_outputs(work)
    module = load_kernel("gemm_grouped", "cute_sm90")
    params = module.variants(work, "sm_90a")[0].params
    made = SimpleNamespace(params=params, runner=lambda values, grid: values)
    with cute_load.opened_by(lambda *_: None, 4):
        (a, b, c, groups, tiles, ctas), rows = module.bind(made, work, inputs, outputs), 6
    assert tiles == work.tiles(params["tile_m"], params["tile_n"]) and ctas == min(tiles, 4)
    depths = [groups[rows * i + 2] for i in range(work.groups)]
    assert depths == sorted(depths, reverse=True) and set(depths) == {p.k for p in work.problems}
    whole = OPERATOR.results(outputs, work)
    for i in range(work.groups):
        m, n, k, at_a, at_b, at_c = groups[rows * i : rows * i + rows]
        index = work.problems.index(Problem(m, n, k))
        matrix_a, matrix_b, *_ = OPERATOR.matrices(inputs, work)[index]
        torch.testing.assert_close(a[at_a : at_a + m * k].view(m, k), matrix_a)
        torch.testing.assert_close(b[at_b : at_b + n * k].view(n, k), matrix_b)
        assert c[at_c:].data_ptr() == whole[index].data_ptr()


def test_room_for_descriptors_starts_at_a_multiple_of_their_size() -> None:
    from kernels.gemm_grouped.cutlass.adapter import descriptors

    for processors, kinds in ((132, 3), (148, 5)):
        room = descriptors(processors, kinds, torch.device("cpu"))
        assert room.shape == (processors, kinds, 16) and room.data_ptr() % 128 == 0 and room.is_contiguous()


@pytest.mark.parametrize("dtype", SCALED)
def test_our_cutile_source_computes_the_products_when_numpy_executes_it(dtype, monkeypatch) -> None:
    from kernels.gemm_blockscaled.operator import BITS, BLOCK

    work = Workload(**SMALL, dtype=dtype)
    inputs, outputs = OPERATOR.make_inputs(work, 0, distribution="scales"), OPERATOR.make_outputs(work)
    single, stand_in = numpy_tile.load(ROOT / "kernels/gemm_blockscaled/cutile/kernel.py")
    path = ROOT / "kernels/gemm_grouped/cutile/kernel.py"
    kernel, _ = numpy_tile.load(path, {"kernels.gemm_blockscaled.cutile.kernel": single, "cuda.tile": stand_in})
    monkeypatch.setattr(kernel, "ct", stand_in)
    a, b, *scales = zip(*OPERATOR.matrices(inputs, work), strict=True)
    c = [x.float().numpy() for x in OPERATOR.results(outputs, work)]
    lists = [[x.numpy() for x in kind] for kind in (a, b, *([x.view(*x.shape[:2], 512) for x in k] for k in scales))]
    per_byte, blocks = 8 // BITS[dtype], 4
    constants = (128, 256, 128 * per_byte, per_byte, BLOCK[dtype], blocks)
    numpy_tile.launch(stand_in, kernel.grouped_products, (blocks,), (*lists, c, *constants))
    result = torch.cat([torch.from_numpy(x).flatten() for x in c])
    torch.testing.assert_close(result, OPERATOR.reference(inputs, work).c, rtol=1e-5, atol=1e-2)


def first(kernel: str, target: str, dtype: str, index: int = 0, **values):
    work = Workload(**{**SMALL, **values}, dtype=dtype)
    variant = load_kernel("gemm_grouped", kernel).variants(work, target)[index]
    folder = build("gemm_grouped", kernel, target, variant)
    entry = record.plain(record.read("compile", folder / "build.json"))
    assert entry["status"] == "ok", entry["reason"]
    return work, variant, folder


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "index"), [("bf16", 0), ("fp16", 1), ("bf16", 2), ("nvfp4", 0), ("mxfp8", 1)])
def test_nvidias_kernels_are_right_in_the_simulator(dtype, index) -> None:
    _, variant, folder = first(CUTE[dtype], "sm_100a", dtype, index)
    parameters = {**SMALL, "dtype": dtype}
    result = simulate("gemm_grouped", CUTE[dtype], "sm_100a", variant, parameters, ["scales"], ["random", "late"])
    assert result["status"] == "ok", result["reason"]
    assert "tensormap.replace" in (folder / "kernel.ptx").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "index"), [("cutlass_sm90", 0), ("cutlass_sm90", 2), ("cute_sm90", 0)])
def test_kernels_for_hopper_are_right_in_the_simulator(kernel, index) -> None:
    _, variant, folder = first(kernel, "sm_90a", "bf16", index)
    parameters = {**SMALL, "dtype": "bf16"}
    result = simulate("gemm_grouped", kernel, "sm_90a", variant, parameters, ["scales"], ["random", "late"])
    assert result["status"] == "ok", result["reason"]
    assert kernel == "cutlass_sm90" or not re.search(r"\b(LDL|STL)\b", (folder / "kernel.sass").read_text())


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "dtype"), [("tilegym", "bf16"), ("cutile", "nvfp4")])
def test_the_kernels_in_cutile_are_right_in_the_simulator(kernel, dtype) -> None:
    _, variant, _ = first(kernel, "sm_100a", dtype)
    result = simulate("gemm_grouped", kernel, "sm_100a", variant, {**SMALL, "dtype": dtype}, ["scales"])
    assert result["status"] == "ok", result["reason"]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["bf16", "nvfp4"])
def test_launches_are_those_that_the_build_makes(dtype) -> None:
    work, _, folder = first(CUTE[dtype], "sm_100a", dtype)
    reported, made = launches("gemm_grouped", CUTE[dtype], folder, work)
    assert reported == made


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "target", "dtype", "product"),
    [
        ("tilegym", "sm_90a", "bf16", "HGMMA"),
        ("tilegym", "sm_100a", "bf16", "UTCHMMA"),
        ("cutile", "sm_100a", "nvfp4", "UTCOMMA"),
    ],
)
def test_a_build_in_cutile_uses_tensor_cores(kernel, target, dtype, product) -> None:
    *_, folder = first(kernel, target, dtype)
    assert product in (folder / "kernel.sass").read_text()


@pytest.mark.slow
def test_what_the_compiler_refuses_is_a_row_with_its_words() -> None:
    """Once it does not, the tile may become the first choice: the others spill."""
    work = Workload(**SMALL, dtype="nvfp4")
    variant = load_kernel("gemm_grouped", "cutile").variants(work, "sm_100a")[-1]
    entry = record.plain(record.read("compile", build("gemm_grouped", "cutile", "sm_100a", variant) / "build.json"))
    assert (variant.id, entry["status"]) == ("nvfp4_128x128", "failed")
    assert "failed to compile Tile IR program" in entry["reason"]
