"""The operator `reduce`.

Its inputs and reference, how rows are shared, and NVIDIA's reduction without a GPU.
"""

import pytest

from builds import build
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.workload import torch_dtype
from cutesnake.stages.measure import checker
from cutesnake.stages.measure.case import Case
from cutesnake.stages.simulate import simulation
from kernels.reduce.cutile import TILES, blocks_along

torch = pytest.importorskip("torch")
OPERATOR = load_operator("reduce")
TARGETS = ("sm_90a", "sm_100a")


def check(work, computed, distribution: str, seed: int = 0) -> checker.FieldError:
    """`computed(x)` is [rows, 1]; judged like a kernel's output."""
    inputs = OPERATOR.make_inputs(work, seed, distribution=distribution)
    result = OPERATOR.Outputs(computed(inputs.x).to(torch_dtype(work.dtype)))
    reference, same = OPERATOR.reference(inputs, work), OPERATOR.same_precision(inputs, work)
    return checker.compare_outputs(result, reference, same, OPERATOR.tolerance(work.dtype))["y"]


@pytest.mark.parametrize("distribution", OPERATOR.DISTRIBUTIONS)
@pytest.mark.parametrize("operation", OPERATOR.OPERATIONS)
@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
def test_a_plain_float32_reduction_passes(dtype, operation, distribution) -> None:
    work = OPERATOR.Workload(9, 20000, dtype, operation)
    plain = {"sum": lambda x: x.float().sum(-1, keepdim=True), "max": lambda x: x.float().amax(-1, keepdim=True)}
    for seed in range(3):
        assert check(work, plain[operation], distribution, seed).passed


@pytest.mark.parametrize(
    ("operation", "dtype", "distribution", "wrong"),
    [
        ("sum", "bf16", "ones", lambda x: torch.full((len(x), 1), 256.0)),  # where bf16 plus one gets stuck
        ("sum", "fp32", "peak", lambda x: x[:, :-100].sum(-1, keepdim=True)),
        ("sum", "fp32", "randn", lambda x: x[:, 1:].sum(-1, keepdim=True)),
        ("max", "fp32", "negative", lambda x: x.amax(-1, keepdim=True).clamp(min=0)),
        ("max", "fp32", "infinite", lambda x: x.amax(-1, keepdim=True).nan_to_num(neginf=-1e30)),
        ("max", "fp32", "peak", lambda x: x[:, 500:].amax(-1, keepdim=True)),
    ],
    ids=["kept in 16 bits", "tail left out", "an element left out", "starts at 0", "starts at -1e30", "head left out"],
)
def test_what_goes_wrong_in_a_reduction_shows(operation, dtype, distribution, wrong) -> None:
    assert not check(OPERATOR.Workload(60, 2000, dtype, operation), wrong, distribution).passed


def test_workloads_are_told_apart_and_nonsense_is_refused() -> None:
    assert OPERATOR.Workload(4, 8, operation="max").id == "max_m4_n8_fp32"
    with pytest.raises(ValueError, match="operation is 'mean'; allowed: sum, max"):
        OPERATOR.Workload(4, 8, operation="mean")


@pytest.mark.parametrize("operation", OPERATOR.OPERATIONS)
def test_the_baseline_writes_what_pytorch_computes(operation) -> None:
    work = OPERATOR.Workload(5, 64, "bf16", operation)
    inputs, outputs = OPERATOR.make_inputs(work, 1), OPERATOR.make_outputs(work)
    load_kernel("reduce", "torch_reduce").bind(None, work, inputs, outputs)(0)
    assert torch.equal(outputs.y, OPERATOR.same_precision(inputs, work).y)


@pytest.mark.parametrize(
    ("columns", "dtype", "first"),
    [
        (1, "fp32", "sum_fp32_t32_c1_unaligned"),
        (4096, "fp32", "sum_fp32_t128_c1"),
        (4097, "fp32", "sum_fp32_t128_c1_unaligned"),
        (40000, "bf16", "sum_bf16_t128_c4"),
        (262144, "fp32", "sum_fp32_t128_c8"),
    ],
)
def test_long_rows_are_shared_by_threads_then_by_ctas(columns, dtype, first) -> None:
    result = load_kernel("reduce", "cutlass_reduce").variants(OPERATOR.Workload(1, columns, dtype), "sm_90a")
    assert result[0].id == first and len(result) == 4


def test_blocks_that_share_a_row_have_a_tile_each() -> None:
    for tile_m, tile_n in TILES:
        for rows in (1, 7, 32, 500, 5000):
            for columns in (16384, 16385, 262144, 10**7):
                blocks = blocks_along(rows, columns, tile_m, tile_n, 132)
                assert 1 <= blocks <= -(-columns // tile_n)
    assert blocks_along(32, 262144, 1, 4096, 132) == 16
    assert blocks_along(5000, 262144, 1, 4096, 132) == 1


def simulate(target: str, variant_number: int = 0, **values) -> dict:
    """The record of NVIDIA's reduction on a workload, on every distribution, simulated."""
    work = OPERATOR.Workload(**values)
    variant = load_kernel("reduce", "cutlass_reduce").variants(work, target)[variant_number]
    case = Case(
        stage="correctness",
        operator="reduce",
        kernel="cutlass_reduce",
        target=target,
        variant={"id": variant.id, "params": dict(variant.params)},
        parameters={**values, "dtype": work.dtype},
        build=str(build("reduce", "cutlass_reduce", target, variant)),
        settings={"schedules": ["random", "late"], "seeds": [0], "distributions": list(OPERATOR.DISTRIBUTIONS)},
    )
    return simulation.simulate(case)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("operation", "rows", "columns", "dtype"),
    [
        ("max", 5, 1, "fp32"),
        ("sum", 5, 31, "fp16"),
        ("max", 5, 1000, "bf16"),
        ("sum", 3, 4097, "fp32"),
        ("max", 5, 40000, "fp32"),
        ("sum", 2, 262144, "bf16"),
    ],
)
def test_nvidias_reduction_is_right_on_every_distribution(target, operation, rows, columns, dtype) -> None:
    result = simulate(target, rows=rows, columns=columns, dtype=dtype, operation=operation)
    assert result["reason"] is None
    counted = result["metrics"]["simulated"]
    assert counted["launches"][0]["global_read_unique_bytes"] == counted["cost"]["bytes_read"]
    assert counted["launches"][0]["global_write_unique_bytes"] == counted["cost"]["bytes_written"]


@pytest.mark.slow
@pytest.mark.parametrize("variant", range(1, 4))
def test_every_way_to_share_a_row_is_right(variant) -> None:
    # 5,000 columns are no multiple of any tile, and fewer tiles than CTAs in a cluster of eight.
    assert simulate("sm_90a", variant, rows=5, columns=5000, dtype="fp32")["reason"] is None


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_thread_keeps_four_vectors_on_the_way_and_spills_nothing(target) -> None:
    for columns in (4096, 262144):
        variant = load_kernel("reduce", "cutlass_reduce").variants(OPERATOR.Workload(1, columns), target)[0]
        sass = (build("reduce", "cutlass_reduce", target, variant) / "kernel.sass").read_text()
        assert sass.count("LDG.E.128") == 4 and "STL" not in sass


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("work", "symbols"),
    [
        (OPERATOR.Workload(4096, 4096), ["reduce"]),
        (OPERATOR.Workload(32, 262144, "bf16", "max"), ["reduce", "combine"]),
        (OPERATOR.Workload(5, 1001, "fp16"), ["reduce"]),
    ],
)
def test_cutile_compiles_without_spills(target, work, symbols) -> None:
    for variant in load_kernel("reduce", "cutile").variants(work, target):
        folder = build("reduce", "cutile", target, variant)
        entry = record.plain(record.read("compile", folder / "build.json"))
        assert entry["status"] == "ok", entry["reason"]
        assert entry["symbols"] == symbols
        assert all("STL" not in path.read_text() for path in folder.glob("*.sass"))
