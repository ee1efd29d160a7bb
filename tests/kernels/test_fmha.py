"""The operator `fmha`.

Its inputs, reference and cost, what each kernel takes, NVIDIA's kernels without a GPU.
"""

import re
from pathlib import Path

import pytest

from builds import build
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.stages.measure.case import Case
from cutesnake.stages.simulate import simulation

torch = pytest.importorskip("torch")
OPERATOR = load_operator("fmha")
EXAMPLES = {"cutlass_sm90": "sm_90a", "cutlass_sm100": "sm_100a"}
TARGET = EXAMPLES | {"flashinfer_sm100": "sm_100a"}
# Hopper's waits for all of its bulk stores but the last one before it exits.
UNWAITED = r"exit: thread \d+ of CTA \d exits without cp\.async\.bulk\.wait_group\.read for this bulk store"
PRODUCTS = {"sm_90a": "HGMMA", "sm_100a": "UTCHMMA"}  # instructions of the tensor cores


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("distribution", OPERATOR.DISTRIBUTIONS)
def test_the_reference_is_what_pytorch_computes_in_double(distribution, causal) -> None:
    work = OPERATOR.Workload(2, 37, "fp16", heads=6, kv_heads=2, head_dim=32, causal=causal)
    inputs = OPERATOR.make_inputs(work, 3, distribution=distribution)
    result = OPERATOR.reference(inputs, work).out
    q, k, v = (x.double().transpose(1, 2) for x in (inputs.q, inputs.k, inputs.v))
    want = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    assert result.dtype == torch.float32
    torch.testing.assert_close(result.double(), want.transpose(1, 2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
def test_distributions_reach_what_they_are_for(dtype) -> None:
    work = OPERATOR.Workload(1, 700, dtype, heads=2, kv_heads=1, head_dim=64)

    def scores(name: str):
        inputs = OPERATOR.make_inputs(work, 0, distribution=name)
        assert all(bool(x.float().isfinite().all()) for x in (inputs.q, inputs.k, inputs.v))
        return torch.einsum("qhd,kd->hqk", inputs.q[0].float(), inputs.k[0, :, 0].float()) * inputs.softmax_scale

    assert float(scores("large").abs().max()) > 30
    assert float(scores("constant").std(-1).max()) == 0
    assert int(scores("dominant")[0, 0].argmax()) == 350
    tiles = scores("rising")[..., :640].reshape(2, 700, 5, 128).amax(-1)
    rises = (tiles[..., 1:] > tiles[..., :-1]).float().mean()
    assert float(rises) > 0.8, "the maximum of nearly every tile of 128 keys is above that of the tile before"
    with pytest.raises(ValueError, match="distribution is 'huge'; allowed: randn"):
        OPERATOR.make_inputs(work, 0, distribution="huge")


def test_what_is_no_workload_is_said() -> None:
    with pytest.raises(ValueError, match="heads is 6; it must be a multiple of kv_heads, 4"):
        OPERATOR.Workload(1, 1, heads=6, kv_heads=4)
    with pytest.raises(ValueError, match="length is 0; it must be a whole number from 1 up"):
        OPERATOR.Workload(1, 0)


def test_ids_say_what_differs_from_the_defaults() -> None:
    assert OPERATOR.Workload(4, 4096).id == "b4_s4096_bf16"
    assert OPERATOR.Workload(1, 64, "fp16", 32, 8, 64, True).id == "b1_s64_fp16_h32_kv8_d64_causal"


def test_the_cost_of_a_causal_sequence_counts_visible_pairs() -> None:
    work = OPERATOR.Workload(2, 5, heads=4, kv_heads=2, head_dim=16, causal=True)
    result = OPERATOR.cost(work)
    assert result.flops == 4 * 16 * 2 * 4 * sum(range(1, 6))
    assert (result.bytes_read, result.bytes_written) == (2 * 2 * 5 * 16 * (4 + 2 + 2), 2 * 2 * 5 * 16 * 4)


@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
def test_the_yardstick_is_near_the_reference_and_an_output_of_zeros_is_not(dtype) -> None:
    work = OPERATOR.Workload(1, 300, dtype, heads=2, kv_heads=2)
    inputs = OPERATOR.make_inputs(work, 0)
    true, same = OPERATOR.reference(inputs, work).out, OPERATOR.same_precision(inputs, work).out
    assert same.dtype == OPERATOR.make_outputs(work).out.dtype
    assert float((same.float() - true).norm() / true.norm()) < OPERATOR.tolerance(dtype)
    assert OPERATOR.tolerance(dtype) < 0.1


def test_the_baseline_shares_key_heads_and_its_copy_is_spoiled() -> None:
    work = OPERATOR.Workload(2, 50, "bf16", heads=4, kv_heads=2, causal=True)
    inputs, outputs = OPERATOR.make_inputs(work, 1), OPERATOR.make_outputs(work)
    runner = load_kernel("fmha", "torch_sdpa").bind(None, work, inputs, outputs)
    runner(0)
    runner.finish()
    torch.testing.assert_close(outputs.out.float(), OPERATOR.reference(inputs, work).out, rtol=2e-2, atol=1e-2)
    runner.finish()
    assert bool(outputs.out.isnan().all())


@pytest.mark.parametrize(
    ("kernel", "values", "reason"),
    [
        ("cutlass_sm90", {}, None),
        ("cutlass_sm90", {"dtype": "fp8"}, "transposed only"),
        ("cutlass_sm90", {"head_dim": 32}, "64 and 128"),
        ("cutlass_sm100", {"dtype": "fp8"}, None),
        ("cutlass_sm100", {"head_dim": 256}, "32, 64, 128"),
        ("flashinfer_sm100", {"dtype": "fp8"}, "16-bit"),
        ("flashinfer_sm100", {"head_dim": 32}, "64 and 128"),
        ("tilegym", {"dtype": "fp8"}, "16-bit"),
        ("tilegym", {"head_dim": 96}, "powers of two"),
        ("torch_sdpa", {"dtype": "fp8"}, "no fp8"),
    ],
)
def test_what_each_kernel_takes(kernel, values, reason) -> None:
    result = load_kernel("fmha", kernel).supports(OPERATOR.Workload(1, 100, **values))
    assert (result is None) if reason is None else (reason in result)


def test_the_mask_is_compiled_in_as_nvidias_runner_chooses_it() -> None:
    kernel = load_kernel("fmha", "cutlass_sm100")
    masks = [
        kernel.variants(OPERATOR.Workload(1, length, causal=causal), "sm_100a")[0].params["mask"]
        for length, causal in ((256, False), (257, False), (256, True), (257, True))
    ]
    assert masks == ["none", "residual", "causal", "causal"]


def simulate(kernel: str, distributions: list[str], **values) -> tuple[dict, Path]:
    """The record of one of NVIDIA's kernels on a workload, simulated, and its build."""
    work, target = OPERATOR.Workload(**values), TARGET[kernel]
    variant = load_kernel("fmha", kernel).variants(work, target)[0]
    folder = build("fmha", kernel, target, variant)
    case = Case(
        stage="correctness",
        operator="fmha",
        kernel=kernel,
        target=target,
        variant={"id": variant.id, "params": dict(variant.params)},
        parameters={**values},
        build=str(folder),
        settings={"schedules": ["random", "late"], "seeds": [0], "distributions": distributions},
    )
    return simulation.simulate(case), folder


@pytest.mark.slow
@pytest.mark.parametrize("kernel", EXAMPLES)
@pytest.mark.parametrize(
    "values",
    [
        {"batch": 2, "length": 256, "heads": 2, "kv_heads": 1},
        {"batch": 1, "length": 300, "heads": 4, "kv_heads": 2, "causal": True},
        pytest.param({"batch": 1, "length": 129, "heads": 2, "kv_heads": 2}, marks=pytest.mark.by_hand),
        {"batch": 1, "length": 1, "heads": 2, "kv_heads": 1, "dtype": "fp16", "causal": True},
    ],
    ids=lambda values: OPERATOR.Workload(**values).id,
)
def test_nvidias_kernels_are_right_on_every_distribution(kernel, values) -> None:
    result, _ = simulate(kernel, list(OPERATOR.DISTRIBUTIONS), **values)
    for check in result["metrics"]["checks"]:
        assert all(output["passed"] for output in check["outputs"].values()), check["outputs"]
        assert all(kernel == "cutlass_sm90" and re.search(UNWAITED, x) for x in check["findings"]), check["findings"]
    counted = result["metrics"]["simulated"]
    assert counted["launches"][0]["global_read_unique_bytes"] == counted["cost"]["bytes_read"]
    if kernel == "cutlass_sm100":  # Hopper's writes its log-sum-exp too
        assert counted["launches"][0]["global_write_unique_bytes"] == counted["cost"]["bytes_written"]


@pytest.mark.slow
def test_flashinfers_kernel_is_right_where_maxima_move_and_sequences_end_within_a_tile() -> None:
    values = {"batch": 2, "length": 300, "heads": 2, "kv_heads": 1, "causal": True}
    result, folder = simulate("flashinfer_sm100", ["large", "rising"], **values)
    for check in result["metrics"]["checks"]:
        assert all(output["passed"] for output in check["outputs"].values()), check["outputs"]
        assert not check["findings"]
    used = [line.split()[0] for line in (folder / "kernel.ptx").read_text().splitlines() if "ex2.approx" in line]
    assert len(used) < 4 * 128, "a part of the exponentials is made on FMA units"


@pytest.mark.slow
def test_eight_bit_operands_are_right_on_blackwell() -> None:
    result, folder = simulate(
        "cutlass_sm100", list(OPERATOR.DISTRIBUTIONS), batch=1, length=384, dtype="fp8", heads=1, kv_heads=1
    )
    for check in result["metrics"][
        "checks"
    ]:  # the numbers are right; what packs four results reads a register too early
        assert all("unwritten: " in finding for finding in check["findings"])
        assert check["relative_error"] <= OPERATOR.tolerance("fp8")
    assert "kind::f8f6f4" in (folder / "kernel.ptx").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("kernel", EXAMPLES)
def test_the_launch_that_a_runner_reports_is_the_one_that_the_build_makes(kernel) -> None:
    from test_mla_cutlass import capture

    from cutesnake.stages.load import cute as cute_load
    from cutesnake.stages.load.build import LoadedBuild

    work, target = OPERATOR.Workload(2, 300, heads=4, kv_heads=2, causal=True), EXAMPLES[kernel]
    module = load_kernel("fmha", kernel)
    folder = build("fmha", kernel, target, module.variants(work, target)[0])
    inputs, outputs = OPERATOR.make_inputs(work, 0), OPERATOR.make_outputs(work)
    with cute_load.opened_by(capture):
        runner = module.bind(LoadedBuild(folder), work, inputs, outputs)
    runner(0)
    (made,), (reported,) = runner.enqueue.function.launches, runner.launches
    assert (made.name, made.grid, made.block, made.cluster) == (
        reported.symbol,
        reported.grid,
        reported.block,
        reported.cluster,
    )
    assert made.dynamic_shared == reported.dynamic_shared_bytes
    assert PRODUCTS[target] in (folder / "kernel.sass").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_every_tiling_of_tilegyms_compiles(target) -> None:
    module = load_kernel("fmha", "tilegym")
    spilled = []
    for variant in module.variants(OPERATOR.Workload(1, 4096, causal=True), target):
        folder = build("fmha", "tilegym", target, variant)
        entry = record.plain(record.read("compile", folder / "build.json"))
        assert entry["status"] == "ok", entry["reason"]
        sass = (folder / "kernel.sass").read_text()
        assert PRODUCTS[target] in sass
        spilled.append(sass.count("STL"))
    assert spilled[0] == min(spilled) if target == "sm_90a" else spilled[0] < 10, "the default is the one to take"
