"""The operators `fmha_mixed_decode` and `fmha_mixed_prefill`.

Codes, references, this project's kernels in numpy, and NVIDIA's.
"""

import math
import re

import numpy as np
import pytest

import numpy_tile
from builds import build, launches, simulate
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.paths import ROOT
from cutesnake.stages.measure import checker

torch = pytest.importorskip("torch")
DECODE, PREFILL = load_operator("fmha_mixed_decode"), load_operator("fmha_mixed_prefill")
OPERATORS = {"fmha_mixed_decode": DECODE, "fmha_mixed_prefill": PREFILL}
SMALL = {"fmha_mixed_decode": {"kv_length": 72}, "fmha_mixed_prefill": {"length": 72, "causal": True}}
KERNEL = "kernels/{}/cutile/kernel.py"
# NVIDIA's kernels for whole sequences free tensor memory that the last warps may still read; the one for heads of 512
# also overwrites columns that another warp may still be reading.
FREED = r"not all of them allocated|race: warp \d+ of CTA \d frees tensor-memory|after the tcgen05.dealloc"
OVERTAKEN = r"race: the tensor pipe of CTA \d writes tensor-memory column"
# Its decoding kernel initialises mbarriers and does not fence that before copies signal them. With a second tile,
# nothing orders its products after the softmax warps' last writes of the sums. It ends without waiting for its stores.
NO_FENCE = r"mbarrier initialised without fence\.mbarrier_init or a proxy fence"
DECODING = f"{NO_FENCE}|{OVERTAKEN}|exits without a commit_group"


def made(operator: str, distribution: str = "randn", **values):
    problem = OPERATORS[operator]
    sizes = {"batch": 2, "heads": 6, "kv_heads": 2, "head_dim": 64, **SMALL[operator], **values}
    work = problem.Workload(**sizes)
    return problem, work, problem.make_inputs(work, 3, distribution=distribution)


@pytest.mark.parametrize(
    ("dtype", "kv_length", "target", "tokens"),
    [
        ("int8", 1024, "sm_100a", 32),
        ("int8", 8192, "sm_100a", 64),
        ("int4", 1024, "sm_100a", 64),
        ("int8", 1024, "sm_90a", 64),
    ],
)
def test_a_short_cache_of_bytes_begins_with_small_tiles_on_blackwell(dtype, kv_length, target, tokens) -> None:
    workload = DECODE.Workload(batch=1, kv_length=kv_length, dtype=dtype)
    first, _ = load_kernel("fmha_mixed_decode", "cutile").variants(workload, target)
    assert first.params["tokens"] == tokens


@pytest.mark.parametrize("dtype", DECODE.DTYPES)
def test_codes_decode_to_what_was_encoded(dtype) -> None:
    values = torch.arange(DECODE.LOWEST[dtype], DECODE.LARGEST[dtype] + 1)
    values = values[: len(values) // 2 * 2] if dtype != "fp8" else torch.tensor([-448.0, -1.5, 0.0, 0.25, 448.0, 96.0])
    codes = DECODE.encode(values, dtype)
    assert torch.equal(DECODE.decode(codes), values)
    assert codes.numel() * codes.element_size() * 8 == values.numel() * DECODE.BITS[dtype]
    x = torch.randn(5, 64, generator=torch.Generator().manual_seed(0))
    error = (DECODE.dequantized(*DECODE.quantize(x, dtype)) - x).norm() / x.norm()
    assert float(error) < {"int8": 0.01, "fp8": 0.04, "int4": 0.15}[dtype]


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("dtype", DECODE.DTYPES)
@pytest.mark.parametrize("distribution", DECODE.DISTRIBUTIONS)
def test_the_reference_is_what_pytorch_computes_in_double(distribution, dtype, operator) -> None:
    problem, work, i = made(operator, distribution, dtype=dtype)
    k, v = (DECODE.dequantized(*each).double() for each in ((i.k, i.k_scale), (i.v, i.v_scale)))
    q = i.q.double().reshape(work.batch, work.heads, -1, work.head_dim)
    attention = torch.nn.functional.scaled_dot_product_attention
    want = attention(q, k, v, is_causal=getattr(work, "causal", False), enable_gqa=True).reshape(i.q.shape)
    true, same = problem.reference(i, work).out, problem.same_precision(i, work).out
    torch.testing.assert_close(true.double(), want, rtol=1e-4, atol=1e-5)
    assert float((same.float() - true).norm() / true.norm()) < 2 * problem.tolerance(dtype) < 0.04
    outputs = problem.make_outputs(work)
    load_kernel(operator, "torch_sdpa").bind(None, work, i, outputs)(0)
    assert float((outputs.out.float() - true).norm() / true.norm()) < 2 * problem.tolerance(dtype)


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_scale_that_goes_to_another_token_shows(operator) -> None:
    problem, work, i = made(operator, "scales")
    true, same = problem.reference(i, work), problem.same_precision(i, work)
    for scale in (i.k_scale, i.v_scale):
        kept = scale.clone()
        scale.copy_(scale.roll(1, -1))
        wrong = problem.same_precision(i, work)
        scale.copy_(kept)
        assert not checker.compare_outputs(wrong, true, same, problem.tolerance(work.dtype))["out"].passed
    assert float(i.k_scale.max() / i.k_scale.min()) > 100
    largest = made(operator, "extremes", dtype="int4")[2]
    assert set(DECODE.decode(largest.k).unique().tolist()) == {-8.0, 7.0}


def as_arrays(*tensors):
    """Integers as they are, every other type as the float32 values that numpy can hold."""
    kept = (torch.int8, torch.uint8, torch.float32)
    return tuple((t if t.dtype in kept else t.float()).numpy() for t in tensors)


@pytest.mark.parametrize("dtype", DECODE.DTYPES)
@pytest.mark.parametrize(("length", "splits"), [(72, 2), (8, 1), (128, 3)])
def test_our_decoding_kernel_computes_the_reference_in_numpy(length, splits, dtype) -> None:
    problem, work, i = made("fmha_mixed_decode", "scales", dtype=dtype, kv_length=length)
    kernel, stand_in = numpy_tile.load(ROOT / KERNEL.format("fmha_mixed_decode"))
    planes, tile, heads = work.batch * work.kv_heads, 32, 16
    tiles = math.ceil(length / tile)
    each = math.ceil(tiles / splits)
    splits = math.ceil(tiles / each)
    codes = [(t.view(torch.int8) if dtype == "int4" else t).view(planes, length, -1) for t in (i.k, i.v)]
    scales = [t.view(planes, length) for t in (i.k_scale, i.v_scale)]
    operands = as_arrays(i.q.view(planes, work.group, -1), *codes, *scales)
    partial, lse = np.full((planes, splits, work.group, 64), np.nan), np.full((planes, splits, work.group), np.nan)
    numbers = (length, each, work.softmax_scale / math.log(2))
    constants = (heads, tile, 64, DECODE.BITS[dtype])
    numpy_tile.launch(stand_in, kernel.split, (splits, 1, planes), (*operands, partial, lse, *numbers, *constants))
    out = np.full((planes, work.group, 64), np.nan, np.float32)
    numpy_tile.launch(stand_in, kernel.combine, (work.group, planes), (partial, lse, out, splits, 64))
    want = problem.reference(i, work).out.view(out.shape)
    torch.testing.assert_close(torch.from_numpy(out), want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", DECODE.DTYPES)
@pytest.mark.parametrize(("length", "causal"), [(72, True), (72, False), (64, True), (5, True)])
def test_our_prefill_kernel_computes_the_reference_in_numpy(length, causal, dtype) -> None:
    problem, work, i = made("fmha_mixed_prefill", "scales", dtype=dtype, length=length, causal=causal)
    helpers, _ = numpy_tile.load(ROOT / KERNEL.format("fmha_mixed_decode"))
    modules = {"kernels.fmha_mixed_decode.cutile.kernel": helpers}
    kernel, stand_in = numpy_tile.load(ROOT / KERNEL.format("fmha_mixed_prefill"), modules)
    planes, heads = work.batch * work.kv_heads, work.batch * work.heads
    codes = [(t.view(torch.int8) if dtype == "int4" else t).view(planes, length, -1) for t in (i.k, i.v)]
    scales = [t.view(planes, length) for t in (i.k_scale, i.v_scale)]
    operands = as_arrays(i.q.view(heads, length, -1), *codes, *scales)
    out = np.full((heads, length, 64), np.nan, np.float32)
    numbers = (length, work.softmax_scale / math.log(2), work.group, causal)
    grid = (-(-length // 32), heads)
    numpy_tile.launch(stand_in, kernel.attention, grid, (*operands, out, *numbers, 32, 16, 64, DECODE.BITS[dtype]))
    want = problem.reference(i, work).out.view(out.shape)
    torch.testing.assert_close(torch.from_numpy(out), want, rtol=1e-3, atol=1e-4)


def test_the_costs_count_codes_scales_and_visible_pairs() -> None:
    result = DECODE.cost(DECODE.Workload(2, 16, "int4", heads=8, kv_heads=2, head_dim=64))
    assert result.flops == 4 * 2 * 8 * 16 * 64
    assert result.bytes_read == 2 * 2 * 8 * 64 + 2 * (2 * 2 * 16) * (32 + 2)
    result = PREFILL.cost(PREFILL.Workload(2, 5, "int8", heads=4, kv_heads=2, head_dim=16, causal=True))
    assert result.flops == 4 * 16 * 2 * 4 * sum(range(1, 6))
    assert result.bytes_read == 2 * 2 * 4 * 5 * 16 + 2 * (2 * 2 * 5) * (16 + 2)


def test_what_is_no_workload_is_said() -> None:
    with pytest.raises(ValueError, match="head_dim is 63; it must be even"):
        DECODE.Workload(1, 1, head_dim=63)
    with pytest.raises(ValueError, match="dtype is 'bf16'; allowed: int8, fp8, int4"):
        PREFILL.Workload(1, 1, "bf16")
    assert DECODE.Workload(4, 4096, "int4", kv_heads=8).id == "b4_s4096_int4_kv8"
    assert PREFILL.Workload(1, 64, causal=True).id == "b1_s64_int8_causal"


@pytest.mark.parametrize(
    ("operator", "kernel", "values", "reason"),
    [
        ("fmha_mixed_decode", "cutlass", {"dtype": "fp8", "head_dim": 512, "kv_length": 256}, None),
        ("fmha_mixed_decode", "cutlass", {"head_dim": 512}, "past the end of the last 128"),
        ("fmha_mixed_decode", "cutlass", {}, "for 512 only"),
        ("fmha_mixed_decode", "cutile", {}, None),
        ("fmha_mixed_decode", "cutile", {"head_dim": 96}, "powers of two"),
        ("fmha_mixed_prefill", "cutlass_d256", {"head_dim": 256}, None),
        ("fmha_mixed_prefill", "cutlass_d256", {"head_dim": 256, "dtype": "fp8"}, "takes int8"),
        ("fmha_mixed_prefill", "cutlass_d512", {"head_dim": 256}, "for 512"),
        ("fmha_mixed_prefill", "cutlass_d512", {"head_dim": 512, "length": 12}, "8 tokens at a time"),
        ("fmha_mixed_prefill", "cutile", {"head_dim": 512, "dtype": "int4"}, None),
    ],
)
def test_what_each_kernel_takes(operator, kernel, values, reason) -> None:
    _, work, _ = made(operator, **values)
    result = load_kernel(operator, kernel).supports(work)
    assert (result is None) if reason is None else (reason in result)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "kernel", "values", "finding"),
    [
        ("fmha_mixed_decode", "cutlass", {"kv_length": 384, "heads": 8, "kv_heads": 1}, DECODING),
        ("fmha_mixed_decode", "cutlass", {"kv_length": 256, "heads": 8, "kv_heads": 1, "dtype": "fp8"}, DECODING),
        ("fmha_mixed_decode", "cutlass", {"kv_length": 256, "heads": 8, "kv_heads": 1, "dtype": "int4"}, DECODING),
        ("fmha_mixed_prefill", "cutlass_d256", {"length": 256, "heads": 2, "kv_heads": 1}, FREED),
        ("fmha_mixed_prefill", "cutlass_d256", {"length": 200, "heads": 1, "kv_heads": 1, "causal": True}, FREED),
        (
            "fmha_mixed_prefill",
            "cutlass_d512",
            {"length": 256, "heads": 1, "kv_heads": 1, "head_dim": 512},
            f"{FREED}|{OVERTAKEN}",
        ),
    ],
    ids=lambda value: "_".join(map(str, value.values())) if isinstance(value, dict) else None,
)
def test_nvidias_kernels_are_right_and_only_known_findings_are_made(operator, kernel, values, finding) -> None:
    work = OPERATORS[operator].Workload(1, **values)
    variant = load_kernel(operator, kernel).variants(work, "sm_100a")[0]
    checks = simulate(operator, kernel, "sm_100a", variant, {"batch": 1, **values}, ("randn", "scales", "extremes"))
    for check in checks["metrics"]["checks"]:
        assert all(output["passed"] for output in check["outputs"].values()), check["outputs"]
        assert all(re.search(finding, result) for result in check["findings"]), check["findings"]
    reported, captured = launches(operator, kernel, build(operator, kernel, "sm_100a", variant), work)
    assert reported == captured


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    ("operator", "values"), [("fmha_mixed_decode", {"kv_length": 4096}), ("fmha_mixed_prefill", {"length": 4096})]
)
def test_our_kernels_compile_for_four_bits_and_keep_the_tensor_cores(operator, values, target) -> None:
    work = OPERATORS[operator].Workload(1, dtype="int4", **values)
    variant = load_kernel(operator, "cutile").variants(work, target)[0]
    folder = build(operator, "cutile", target, variant)
    assert record.plain(record.read("compile", folder / "build.json"))["status"] == "ok"
    assert {"sm_90a": "HGMMA", "sm_100a": "UTCHMMA"}[target] in (folder / "kernel.sass").read_text()
