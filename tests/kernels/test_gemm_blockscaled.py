"""The operator `gemm_blockscaled`: formats, scales and reference; NVIDIA's kernels and this project's without a GPU."""

from types import SimpleNamespace

import pytest

import numpy_tile
from builds import build
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.paths import ROOT
from cutesnake.stages.measure.case import Case
from cutesnake.stages.simulate import simulation

torch = pytest.importorskip("torch")
OPERATOR = load_operator("gemm_blockscaled")
PERSISTENT = ("cutlass_persistent", "cutlass_persistent_prefetch", "cutlass_persistent_amax")
TUTORIALS = ("cutlass_nvfp4_0", "cutlass_nvfp4_1")
PRODUCTS = {"mxfp8": "UTCQMMA", "mxfp4": "UTCOMMA", "nvfp4": "UTCOMMA"}  # instructions of the tensor cores
SPACING = {"mxfp8": 2.0**-4, "mxfp4": 2.0**-2, "nvfp4": 2.0**-2}  # half a step, of the largest power of two below


@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
def test_quantized_numbers_are_as_near_as_the_format_allows(dtype) -> None:
    work = OPERATOR.Workload(70, 1, 320, dtype)
    x = torch.randn(70, 320, generator=torch.Generator().manual_seed(1))
    result = OPERATOR.dequantize(*OPERATOR.quantize(x, dtype), work)
    largest = x.view(70, -1, OPERATOR.BLOCK[dtype]).abs().amax(-1).repeat_interleave(OPERATOR.BLOCK[dtype], 1)
    # The largest codes are clamped: by up to a quarter for e2m1 (8 to 6), an eighth for e4m3 (512 to 448).
    assert bool(((result - x).abs() <= largest * 0.26).all())
    assert float((result - x).norm() / x.norm()) < SPACING[dtype] / 1.5
    assert torch.equal(result.half().float(), result), "fp16 holds what the formats hold"


def test_codes_stand_for_what_the_formats_say() -> None:
    codes = torch.arange(256, dtype=torch.uint8)[None, :]
    ones = torch.full((1, 4, 32, 4, 4), 127, dtype=torch.uint8)  # e8m0: 2^0
    pairs = OPERATOR.dequantize(codes, ones, OPERATOR.Workload(1, 1, 512, "mxfp4"))[0]
    values = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    values += [-x for x in values]
    assert pairs[0::2].tolist() == values * 16, "the first of two is in the low half of its byte"
    assert pairs[1::2].tolist() == [x for x in values for _ in range(16)]
    ones = torch.full((1, 8, 32, 4, 4), 0x38, dtype=torch.uint8)  # e4m3: 1.0
    assert torch.equal(OPERATOR.dequantize(codes, ones, OPERATOR.Workload(1, 1, 512, "nvfp4"))[0], pairs)


def test_scales_lie_where_cublas_documents_them() -> None:
    rows, columns = 200, 160  # 10 blocks of 16: partial tiles both ways
    x = torch.arange(1.0, rows + 1)[:, None].expand(rows, columns).clone()
    x[:, 16:32] *= 0.5
    _, scales = OPERATOR.quantize(x, "nvfp4")
    flat, tiles_across = scales.flatten(), 3
    for row, block in ((0, 0), (1, 1), (33, 9), (127, 3), (128, 4), (199, 9)):
        tile = row // 128 * tiles_across + block // 4
        offset = 512 * tile + row % 32 * 16 + row % 128 // 32 * 4 + block % 4
        want = (x[row, 16 * block] / 6).to(torch.float8_e4m3fn).view(torch.uint8)
        assert int(flat[offset]) == int(want)
    assert int((flat != 0).sum()) == rows * 10, "padding is zeros"


@pytest.mark.parametrize("distribution", OPERATOR.DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
def test_the_output_fits_fp16_and_a_misplaced_scale_shows(dtype, distribution) -> None:
    work = OPERATOR.Workload(160, 96, 384, dtype)
    inputs = OPERATOR.make_inputs(work, 0, distribution=distribution)
    true, same = OPERATOR.reference(inputs, work).c, OPERATOR.same_precision(inputs, work).c
    assert float((same.float() - true).norm() / true.norm()) < OPERATOR.tolerance(dtype)
    spread = float(true.std() if distribution != "constant" else true.max()) * 8192 / 384
    assert spread < 65504 / 3, "fp16 holds the sums for K 8,192, even if they grew in step with K"
    if distribution == "scales":
        inputs.a_scales = inputs.a_scales.transpose(2, 3).reshape(inputs.a_scales.shape)
        wrong = OPERATOR.reference(inputs, work).c
        assert float((wrong - true).norm() / true.norm()) > 0.5


def test_what_is_no_workload_is_said() -> None:
    with pytest.raises(ValueError, match="k is 48; it must be a multiple of the blocks of 32 elements"):
        OPERATOR.Workload(1, 1, 48, "mxfp4")
    with pytest.raises(ValueError, match="distribution is 'huge'; allowed: randn"):
        OPERATOR.make_inputs(OPERATOR.Workload(1, 1, 32), 0, distribution="huge")


def test_the_cost_counts_codes_and_scales_once() -> None:
    result = OPERATOR.cost(OPERATOR.Workload(128, 256, 512, "nvfp4"))
    assert result.flops == 2 * 128 * 256 * 512
    assert result.bytes_read == 384 * (512 // 2 + 512 // 16) and result.bytes_written == 2 * 128 * 256


@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
def test_the_baseline_is_what_pytorch_computes_from_the_inputs_of_now(dtype) -> None:
    work = OPERATOR.Workload(64, 32, 128, dtype)
    inputs, outputs = OPERATOR.make_inputs(work, 1), OPERATOR.make_outputs(work)
    runner = load_kernel("gemm_blockscaled", "torch_dequantized").bind(None, work, inputs, outputs)
    for seed in (1, 2):
        fresh = OPERATOR.make_inputs(work, seed)
        inputs.a.copy_(fresh.a)
        inputs.a_scales.copy_(fresh.a_scales)
        runner(0)
        torch.testing.assert_close(outputs.c, OPERATOR.same_precision(inputs, work).c, rtol=2e-3, atol=1e-2)


@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
@pytest.mark.parametrize("tile", [(128, 128), (256, 128)])
def test_our_cutile_source_computes_the_product_when_numpy_executes_it(dtype, tile) -> None:
    work = OPERATOR.Workload(288, 160, 352, dtype)  # partial tiles of codes and of scales
    inputs = OPERATOR.make_inputs(work, 0, distribution="scales")
    kernel, stand_in = numpy_tile.load(ROOT / "kernels/gemm_blockscaled/cutile/kernel.py")
    c = torch.full((work.m, work.n), float("nan")).numpy()
    scales = [x.view(*x.shape[:2], 512).numpy() for x in (inputs.a_scales, inputs.b_scales)]
    per_byte = 8 // OPERATOR.BITS[dtype]
    constants = (*tile, 128 * per_byte, per_byte, OPERATOR.BLOCK[dtype])
    grid = (-(-work.m // tile[0]), -(-work.n // tile[1]))
    numpy_tile.launch(stand_in, kernel.product, grid, (inputs.a.numpy(), inputs.b.numpy(), *scales, c, *constants))
    torch.testing.assert_close(torch.from_numpy(c), OPERATOR.reference(inputs, work).c, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize(
    ("kernel", "values", "reason"),
    [
        *((name, (288, 96, 352, "mxfp8"), None) for name in PERSISTENT),
        *((name, (40, 96, 352, "mxfp8"), "m is 40") for name in PERSISTENT),
        ("cutlass_nvfp4_0", (128, 256, 256, "nvfp4"), None),
        ("cutlass_nvfp4_1", (128, 256, 256, "nvfp4"), "m is 128: NVIDIA's tutorial takes multiples of its tile, 256"),
        ("cutlass_nvfp4_0", (128, 256, 256, "mxfp4"), "nvfp4"),
        ("cutile", (1, 8, 32, "nvfp4"), None),
        ("cutile", (1, 8, 48, "nvfp4"), "rows of A and B have 24 bytes"),
        ("cutile", (1, 4, 32, "nvfp4"), "rows of C have 8 bytes"),
        ("torch_dequantized", (1, 1, 16, "nvfp4"), None),
    ],
)
def test_what_each_kernel_takes(kernel, values, reason) -> None:
    result = load_kernel("gemm_blockscaled", kernel).supports(OPERATOR.Workload(*values))
    assert (result is None) if reason is None else (reason in result)


def test_a_persistent_launch_has_no_more_clusters_than_the_card_holds() -> None:
    from kernels.gemm_blockscaled.cutlass import adapter

    example = adapter.Example("", "", takes="layouts")
    params = dict(adapter.variant("nvfp4", adapter.TILINGS[0]).params)
    built = SimpleNamespace(params=params)
    assert example.grid(built, OPERATOR.Workload(512, 512, 512)) == (2, 1, 4)
    assert example.grid(built, OPERATOR.Workload(8192, 8192, 8192)) == (2, 1, 74)


@pytest.mark.parametrize(
    ("m", "n", "tile"),
    [(256, 4096, "128x64"), (256, 8192, "128x128"), (256, 65536, "256x256"), (1024, 8192, "256x256")],
)
def test_few_rows_begin_with_tiles_that_fill_the_gpu_once(m, n, tile) -> None:
    tilings = load_kernel("gemm_blockscaled", "cutlass_persistent").variants(OPERATOR.Workload(m, n, 7168), "sm_100a")
    assert f"_{tile}_" in tilings[0].id and len(tilings) == len({one.id for one in tilings}) == 7


def simulate(kernel: str, distributions: list[str], values: tuple, index: int = 0) -> tuple[dict, str, object]:
    """Return a simulated case's record, its SASS and the launch in build.json."""
    work = OPERATOR.Workload(*values)
    variant = load_kernel("gemm_blockscaled", kernel).variants(work, "sm_100a")[index]
    folder = build("gemm_blockscaled", kernel, "sm_100a", variant)
    case = Case(
        stage="correctness",
        operator="gemm_blockscaled",
        kernel=kernel,
        target="sm_100a",
        variant={"id": variant.id, "params": dict(variant.params)},
        parameters=dict(zip(("m", "n", "k", "dtype"), values, strict=True)),
        build=str(folder),
        settings={"schedules": ["random", "late"], "seeds": [0], "distributions": distributions},
    )
    return simulation.simulate(case), (folder / "kernel.sass").read_text(), folder


@pytest.mark.slow
@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
def test_nvidias_persistent_kernel_is_right_in_every_format_and_tiling(dtype, index) -> None:
    result, sass, _ = simulate("cutlass_persistent", list(OPERATOR.DISTRIBUTIONS), (288, 288, 352, dtype), index)
    assert result["reason"] is None
    assert PRODUCTS[dtype] in sass and "STL" not in sass


@pytest.mark.slow
@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
@pytest.mark.parametrize("kernel", PERSISTENT[1:])
def test_its_forms_are_right_in_every_format(kernel, dtype) -> None:
    result, sass, folder = simulate(kernel, ["scales", "outlier"], (288, 288, 352, dtype))
    assert result["reason"] is None
    assert PRODUCTS[dtype] in sass and "STL" not in sass
    prefetches = "cp.async.bulk.prefetch.tensor" in (folder / "kernel.ptx").read_text()
    assert prefetches == (kernel == "cutlass_persistent_prefetch")


@pytest.mark.slow
@pytest.mark.parametrize("kernel", TUTORIALS)
def test_nvidias_tutorials_are_right(kernel) -> None:
    result, sass, _ = simulate(kernel, list(OPERATOR.DISTRIBUTIONS), (256, 512, 768, "nvfp4"))
    assert result["reason"] is None
    counted = result["metrics"]["simulated"]
    assert sum(launch["mma_flops"] for launch in counted["launches"]) == counted["cost"]["flops"]
    assert "UTCOMMA" in sass and "STL" not in sass


@pytest.mark.slow
def test_the_largest_magnitude_is_that_of_the_product() -> None:
    from test_mla_cutlass import capture

    import ptxsim
    from cutesnake.stages.load import cute as cute_load
    from cutesnake.stages.load.build import LoadedBuild

    work = OPERATOR.Workload(288, 288, 352, "nvfp4")
    module = load_kernel("gemm_blockscaled", "cutlass_persistent_amax")
    folder = build("gemm_blockscaled", "cutlass_persistent_amax", "sm_100a", module.variants(work, "sm_100a")[0])
    inputs, outputs = OPERATOR.make_inputs(work, 0), OPERATOR.make_outputs(work)
    with cute_load.opened_by(capture):
        runner = module.bind(LoadedBuild(folder), work, inputs, outputs)
    runner(0)
    (made,), (reported,) = runner.enqueue.function.launches, runner.launches
    assert (made.name, made.grid, made.cluster) == (reported.symbol, reported.grid, reported.cluster)
    ptxsim.run([made])
    amax = runner.enqueue.arguments[5]
    torch.testing.assert_close(amax.flatten()[0], OPERATOR.reference(inputs, work).c.abs().max(), rtol=1e-5, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
def test_every_tiling_of_our_cutile_kernel_compiles_to_scaled_products(dtype) -> None:
    module = load_kernel("gemm_blockscaled", "cutile")
    for variant in module.variants(OPERATOR.Workload(256, 256, 512, dtype), "sm_100a"):
        folder = build("gemm_blockscaled", "cutile", "sm_100a", variant)
        entry = record.plain(record.read("compile", folder / "build.json"))
        assert entry["status"] == "ok", entry["reason"]
        sass = (folder / "kernel.sass").read_text()
        assert PRODUCTS[dtype] in sass and "UTMALDG" in sass and "STL" not in sass
