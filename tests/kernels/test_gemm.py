"""The matrix product.

Its operator, the adapters of NVIDIA's and TileGym's kernels, and what the builds are made of.
"""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from builds import build, launches, simulate
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.contract import Variant
from cutesnake.model.workload import torch_dtype
from kernels.gemm import tilegym_tiles
from kernels.gemm.operator import DISTRIBUTIONS, DTYPES, OUTPUT, Inputs, Workload, factors
from kernels.upstream import gemm as upstream
from kernels.upstream import tilegym

OPERATOR = load_operator("gemm")
SM100 = ("dense", "software_pipeline", "persistent", "persistent_prefetch", "persistent_dynamic")
CUTE = [(f"cutlass_{name}", "sm_100a") for name in SM100]
CUTE += [("cutlass_sm90", "sm_90a"), ("cutlass_sm90_persistent", "sm_90a")]
ASKS_THE_HARDWARE = "cutlass_persistent_dynamic"  # for its tiles


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"m": 0}, "m is 0; it must be a whole number from 1 up"),
        ({"k": True}, "k is True"),
        ({"batch": 1.5}, "batch is 1.5"),
        ({"a_major": "n"}, "a_major is 'n'; allowed: k, m"),
        ({"b_major": "m"}, "b_major is 'm'; allowed: k, n"),
        ({"dtype": "fp32"}, "dtype is 'fp32'; allowed: bf16, fp16, fp8"),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused(values, message) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Workload(**{"m": 8, "n": 8, "k": 8, **values})


def test_ids_tell_workloads_apart() -> None:
    assert Workload(8, 16, 32).id == "m8_n16_k32_bf16"
    assert Workload(8, 16, 32, 3, "m", "n", "fp8").id == "m8_n16_k32_l3_am_bn_fp8"


@pytest.mark.parametrize("a_major", ["k", "m"])
@pytest.mark.parametrize("b_major", ["k", "n"])
def test_inputs_are_contiguous_in_the_dimension_that_was_asked_for(a_major, b_major) -> None:
    import torch

    plain, stored = Workload(24, 16, 8, 2), Workload(24, 16, 8, 2, a_major, b_major)
    inputs = OPERATOR.make_inputs(stored, 5)
    assert inputs.a.shape == ((2, 24, 8) if a_major == "k" else (2, 8, 24)) and inputs.a.is_contiguous()
    assert inputs.b.shape == ((2, 16, 8) if b_major == "k" else (2, 8, 16)) and inputs.b.is_contiguous()
    c = OPERATOR.reference(inputs, stored).c
    assert torch.equal(c, OPERATOR.reference(OPERATOR.make_inputs(plain, 5), plain).c)
    one = factors(inputs, stored)
    assert float((one[0][1, 3].float() * one[1][1, :, 4].float()).sum()) == pytest.approx(float(c[1, 3, 4]), abs=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_what_is_drawn_has_a_product_that_fits_its_type(dtype, distribution) -> None:
    import torch

    workload = Workload(64, 64, 8192, dtype=dtype)
    inputs = OPERATOR.make_inputs(workload, 0, distribution=distribution)
    c = OPERATOR.reference(inputs, workload).c
    assert bool(torch.isfinite(c.to(torch_dtype(OUTPUT[dtype]))).all()) and float(c.abs().max()) > 0
    assert bool(torch.isfinite(inputs.a.float()).all() and torch.isfinite(inputs.b.float()).all())


def test_distributions_are_what_they_say() -> None:
    workload = Workload(16, 16, 64)
    assert float(OPERATOR.reference(OPERATOR.make_inputs(workload, 0, distribution="constant"), workload).c.min()) == 64
    dominant = OPERATOR.make_inputs(workload, 0, distribution="dominant").a.float().abs()[0].sort(dim=1).values
    assert bool((dominant[:, -1] > 100 * dominant[:, -2]).all())
    cancelling = OPERATOR.make_inputs(workload, 0, distribution="cancelling")
    half = Inputs(cancelling.a[..., :32], cancelling.b[..., :32])
    whole, part = (OPERATOR.reference(x, workload).c.norm() for x in (cancelling, half))
    assert float(whole) < 0.5 * float(part)


def test_cost_counts_every_byte_once() -> None:
    cost = OPERATOR.cost(Workload(4, 8, 16, 2, dtype="fp8"))
    assert (cost.flops, cost.bytes_read, cost.bytes_written) == (2 * 2 * 4 * 8 * 16, 2 * (4 + 8) * 16, 2 * 4 * 8 * 2)


@pytest.mark.parametrize("values", [{}, {"a_major": "m", "batch": 3}, {"b_major": "n"}, {"dtype": "fp16"}])
def test_the_baseline_is_the_product(values) -> None:
    import torch

    workload, kernel = Workload(**{"m": 48, "n": 32, "k": 16, **values}), load_kernel("gemm", "torch_matmul")
    inputs, outputs = OPERATOR.make_inputs(workload, 1), OPERATOR.make_outputs(workload)
    kernel.bind(None, workload, inputs, outputs)(0)
    want = OPERATOR.reference(inputs, workload).c
    torch.testing.assert_close(outputs.c.float(), want, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("kernel", "values", "reason"),
    [
        ("cutlass_dense", {"k": 12}, "k is 12: TMA takes rows of A in multiples of 16 bytes"),
        ("cutlass_dense", {"n": 12}, "n is 12: TMA takes rows of C"),
        ("cutlass_dense", {"m": 1}, None),
        ("cutlass_dense", {"m": 12, "a_major": "m"}, "m is 12: TMA takes rows of A"),
        ("cutlass_persistent", {"k": 24, "dtype": "fp8"}, "k is 24: TMA takes rows of A"),
        ("cutlass_persistent", {"a_major": "m", "dtype": "fp8"}, None),
        ("cutlass_sm90", {"a_major": "m", "dtype": "fp8"}, "K contiguous only"),
        ("tilegym", {"batch": 2}, "without a batch"),
        ("tilegym_persistent", {"k": 13}, None),
        ("torch_matmul", {"batch": 2, "dtype": "fp8"}, "without a batch and with K contiguous only"),
        ("torch_matmul", {"n": 24, "dtype": "fp8"}, "multiples of 16"),
    ],
)
def test_what_the_kernels_take(kernel, values, reason) -> None:
    result = load_kernel("gemm", kernel).supports(Workload(**{"m": 32, "n": 32, "k": 32, **values}))
    assert (result is None) if reason is None else (reason in result)


def test_grids_cover_c_in_whole_clusters() -> None:
    tile, cluster = (128, 256), (2, 1)
    assert upstream.tile_grid(257, 257, 3, tile, cluster) == (4, 2, 3)
    assert upstream.tile_grid(1, 1, 1, tile, cluster) == (2, 1, 1)
    assert upstream.persistent_grid(257, 257, 3, tile, cluster, 74) == (2, 1, 12)
    assert upstream.persistent_grid(8192, 8192, 1, tile, cluster, 74) == (2, 1, 74)


def test_layouts_and_types_have_builds_of_their_own_and_sizes_share_one() -> None:
    kernel = load_kernel("gemm", "cutlass_persistent")

    def first(**values) -> Variant:
        return kernel.variants(Workload(**{"m": 64, "n": 64, "k": 64, **values}), "sm_100a")[0]

    assert first() == first(m=1000, n=8, k=4096, batch=7)
    different = [first(), first(dtype="fp16"), first(a_major="m"), first(b_major="n"), first(a_major="m", b_major="n")]
    assert len({variant.id for variant in different}) == len(different)


def test_rows_that_tma_cannot_fetch_have_tilegym_builds_of_their_own() -> None:
    tiles = load_kernel("gemm", "tilegym").TILES["sm_90a"]
    aligned, other = (tilegym_tiles.variants(Workload(8, 8, k), tiles)[0] for k in (64, 63))
    assert aligned.params["aligned"] and not other.params["aligned"] and aligned.id != other.id


@pytest.fixture(scope="module")
def default():
    """default(kernel, target) -> folder of the first build for bf16 operands, made once."""

    def make(kernel: str, target: str) -> Path:
        variant = load_kernel("gemm", kernel).variants(Workload(200, 264, 136), target)[0]
        folder = build("gemm", kernel, target, variant)
        entry = record.plain(record.read("compile", folder / "build.json"))
        assert entry["status"] == "ok", entry["reason"]
        return folder

    return make


def test_a_configuration_that_tilegym_would_not_try_on_a_target_is_refused() -> None:
    """Its generators ask torch for the GPU: they get the target's."""
    cuda = SimpleNamespace(get_device_capability=None, get_device_properties=None)

    def configurations(rows: int):
        processors = cuda.get_device_properties("cuda").multi_processor_count
        yield SimpleNamespace(TILE_M=rows if cuda.get_device_capability() == (9, 0) else 256, blocks=processors)

    module = SimpleNamespace(torch=SimpleNamespace(cuda=cuda), configurations=configurations)
    tilegym.require_offered(module, "configurations", "sm_90a", {"TILE_M": 128, "blocks": 132}, 128)
    with pytest.raises(ValueError, match=r"{'TILE_M': 128} is none .* for sm_100a: \[{'TILE_M': 256}\]"):
        tilegym.require_offered(module, "configurations", "sm_100a", {"TILE_M": 128}, 128)
    assert cuda.get_device_capability is None


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "target"), [*CUTE, *((name, "sm_103a") for name, sm in CUTE if sm == "sm_100a")])
def test_a_build_uses_tensor_cores_and_tma_and_spills_nothing(default, kernel, target) -> None:
    folder = default(kernel, target)
    sass = {word.split(".")[0] for word in (folder / "kernel.sass").read_text().split()}
    assert ("HGMMA" if target == "sm_90a" else "UTCHMMA") in sass
    assert {"UTMALDG", "UTMASTG"} <= sass and not {"LDL", "STL"} & sass


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("kernel", ["tilegym", "tilegym_persistent"])
def test_tilegyms_first_configuration_uses_tensor_cores_and_spills_nothing(default, kernel, target) -> None:
    sass = {word.split(".")[0] for word in (default(kernel, target) / "kernel.sass").read_text().split()}
    assert ("HGMMA" if target == "sm_90a" else "UTCHMMA") in sass
    assert "UTMALDG" in sass and not {"LDL", "STL"} & sass


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["tilegym", "tilegym_persistent"])
def test_a_configuration_that_tilegym_does_not_know_is_refused(kernel) -> None:
    variants = load_kernel("gemm", kernel).variants(Workload(8, 8, 64), "sm_90a")
    params = next(one.params for one in variants if "warps" not in one.params)  # with it, the tile is this project's
    folder = build("gemm", kernel, "sm_90a", Variant("odd", {**params, "tile_size_k": 16}))
    entry = record.plain(record.read("compile", folder / "build.json"))
    assert entry["status"] == "failed" and "none of the configurations that TileGym tries for sm_90a" in entry["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "target"), CUTE)
@pytest.mark.parametrize("values", [{}, {"batch": 2, "a_major": "m", "b_major": "n"}], ids=["k", "mn"])
def test_it_is_right_in_the_simulator(kernel, target, values) -> None:
    parameters = {"m": 264, "n": 272, "k": 136, "dtype": "bf16", **values}
    variant = load_kernel("gemm", kernel).variants(Workload(**parameters), target)[0]
    result = simulate("gemm", kernel, target, variant, parameters, ["randn", "cancelling"], ["random", "tma_late"])
    assert result["status"] == "ok", result["reason"]
    assert len(result["metrics"]["checks"]) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kernel", "target"), [("cutlass_persistent_prefetch", "sm_100a"), (ASKS_THE_HARDWARE, "sm_100a"), CUTE[-1]]
)
def test_clusters_that_stay_take_several_tiles(kernel, target) -> None:
    # Two clusters for eight tiles, or the hardware asked for more. Stages and accumulators are used again.
    parameters = {"m": 500, "n": 1000, "k": 200, "dtype": "bf16"}
    variant = load_kernel("gemm", kernel).variants(Workload(**parameters), target)[0]
    few = Variant("two_clusters", {**variant.params, "most_clusters": 2})
    result = simulate("gemm", kernel, target, few, parameters)
    assert result["status"] == "ok", result["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "target"), CUTE)
@pytest.mark.parametrize("values", [{}, {"m": 3000, "n": 6000, "batch": 2}], ids=["small", "large"])
def test_launches_are_those_that_the_build_makes(default, kernel, target, values) -> None:
    workload = Workload(**{"m": 200, "n": 264, "k": 136, **values})
    reported, made = launches("gemm", kernel, default(kernel, target), workload)
    assert reported == made


@pytest.mark.slow
def test_the_answer_of_the_hardware_is_aligned_where_the_example_forgot_it(default) -> None:
    """As shipped the example does not compile (kernels/upstream/cluster_launch.py says why)."""
    ptx = (default(ASKS_THE_HARDWARE, "sm_100a") / "kernel.ptx").read_text()
    assert "clusterlaunchcontrol.try_cancel" in ptx
    assert re.search(r"ld\.shared\.(b128|v4\.b32|v2\.b64)", ptx)


@pytest.mark.slow
def test_ptxas_waits_where_cutile_copies_accumulators_of_products_under_way(default) -> None:
    # So says the machine code of TileGym's persistent GEMM. Its check, which runs what PTX says, asks for no wait.
    folder = default("tilegym_persistent", "sm_90a")
    reported = re.findall(r"wgmma\.wait_group\S*\s+(\d)", (folder / "kernel.ptx").read_text())
    made = re.findall(r"WARPGROUP\.DEPBAR\.LE gsb0, 0x(\d)", (folder / "kernel.sass").read_text())
    assert (sorted(reported), sorted(made)) == (["0", "1"], ["0", "0", "1"])
    parameters = {"m": 200, "n": 264, "k": 136, "dtype": "bf16"}
    variant = load_kernel("gemm", "tilegym_persistent").variants(Workload(**parameters), "sm_90a")[0]
    result = simulate("gemm", "tilegym_persistent", "sm_90a", variant, parameters, schedules=("random", "tma_late"))
    assert result["status"] == "ok", result["reason"]
