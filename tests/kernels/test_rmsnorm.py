"""The operator `rmsnorm`.

Its inputs and reference, what each kernel takes, and NVIDIA's kernel without a GPU.
"""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from builds import build
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.stages.measure.case import Case
from cutesnake.stages.simulate import simulation
from kernels.rmsnorm.cutlass_rmsnorm.shape import Shape

torch = pytest.importorskip("torch")
OPERATOR = load_operator("rmsnorm")
TARGETS = ("sm_90a", "sm_100a")


@pytest.mark.parametrize("distribution", OPERATOR.DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
def test_every_row_of_the_reference_has_the_norm_that_the_formula_gives(dtype, distribution) -> None:
    work = OPERATOR.Workload(7, 200, dtype)
    inputs = OPERATOR.make_inputs(work, 3, distribution=distribution)
    x, y = inputs.x.double(), OPERATOR.reference(inputs, work).y
    square = x.square().mean(-1)
    assert y.dtype == torch.float32 and bool(y.isfinite().all())
    torch.testing.assert_close(
        (y.double() / inputs.weight.double()).square().mean(-1), square / (square + inputs.eps), rtol=1e-5, atol=0
    )


def test_distributions_reach_what_they_are_for() -> None:
    work = OPERATOR.Workload(50, 300, "fp16")
    square = {
        name: OPERATOR.make_inputs(work, 0, distribution=name).x.double().square().mean(-1)
        for name in OPERATOR.DISTRIBUTIONS
    }
    assert bool((square["zeros"] == 0).all())
    assert 0.3 < float(square["tiny"].mean() / OPERATOR.EPS) < 3, "eps counts for as much as the row"
    assert float(square["large"].min()) > 65504, "what fp16 cannot hold as a square"
    assert float(square["outlier"].min()) > 1.0e8 / 300 * 0.99
    with pytest.raises(ValueError, match="distribution is 'huge'; allowed: randn"):
        OPERATOR.make_inputs(work, 0, distribution="huge")


def test_the_baseline_is_what_pytorch_computes_and_its_copy_is_spoiled() -> None:
    work = OPERATOR.Workload(5, 64, "bf16")
    inputs, outputs = OPERATOR.make_inputs(work, 1), OPERATOR.make_outputs(work)
    runner = load_kernel("rmsnorm", "torch_rms_norm").bind(None, work, inputs, outputs)
    runner(0)
    runner.finish()
    assert torch.equal(outputs.y, OPERATOR.same_precision(inputs, work).y)
    runner.finish()
    assert bool(outputs.y.isnan().all())


def test_the_peer_is_called_with_eps_and_its_own_output_is_spoiled(monkeypatch) -> None:
    calls = []

    def rmsnorm(x, weight=None, bias=None, residual=None, out_dtype=None, residual_dtype=None, eps=1e-6):
        calls.append(eps)
        return torch.nn.functional.rms_norm(x, x.shape[-1:], weight, eps)

    package = ModuleType("quack")
    package.rmsnorm = rmsnorm
    monkeypatch.setitem(sys.modules, "quack", package)
    work = OPERATOR.Workload(5, 64, "bf16")
    inputs, outputs = OPERATOR.make_inputs(work, 1), OPERATOR.make_outputs(work)
    inputs.eps = 1.0e-2
    runner = load_kernel("rmsnorm", "quack").bind(None, work, inputs, outputs)
    runner.finish()  # of the call that compiled
    assert bool(outputs.y.isnan().all())
    runner(0)
    runner.finish()
    assert torch.equal(outputs.y, OPERATOR.same_precision(inputs, work).y) and calls == [1.0e-2, 1.0e-2]


@pytest.mark.parametrize(
    ("columns", "dtype", "reason"),
    [
        (4096, "bf16", None),
        (8, "bf16", None),
        (1000, "bf16", None),
        (1001, "bf16", "a multiple of 16 bytes"),
        (65536 + 8, "bf16", "a multiple of 128 bytes"),
        (131072, "bf16", None),
        (262144, "bf16", "a cluster of 16"),
        (262144, "fp32", None),
    ],
)
def test_which_rows_nvidias_example_takes(columns, dtype, reason) -> None:
    result = load_kernel("rmsnorm", "cutlass_rmsnorm").supports(OPERATOR.Workload(1, columns, dtype))
    assert (result is None) if reason is None else (reason in result)


def test_a_supported_row_is_covered_by_its_cluster_to_the_last_column() -> None:
    kernel = load_kernel("rmsnorm", "cutlass_rmsnorm")
    for columns in (*range(1, 3000), *range(16000, 140000, 331), 16384, 32768, 65536, 131072):
        for dtype, size in OPERATOR.DTYPES.items():
            shape = Shape.of(columns, size)
            if kernel.supports(OPERATOR.Workload(1, columns, dtype)) is None:
                assert shape.cluster * shape.columns >= columns and shape.threads % shape.threads_per_row == 0


@pytest.mark.parametrize(
    ("rows", "columns", "target", "ids"),
    [
        (264, 4096, "sm_90a", ["bf16_reload_n4096", "bf16_persistent_4x4096", "bf16_cached_n4096"]),
        (265, 4096, "sm_90a", ["bf16_persistent_4x4096", "bf16_reload_n4096", "bf16_cached_n4096"]),
        (296, 1001, "sm_100a", ["bf16_reload_n1001_unaligned", "bf16_persistent_16x1024_unaligned"]),
        (1, 65536, "sm_100a", ["bf16_reload_n65536"]),
        (1000, 4096, "sm_100a", ["bf16_reload_n4096", "bf16_persistent_4x4096", "bf16_cached_n4096"]),
        (1000, 65536, "sm_90a", ["bf16_persistent_2x65536", "bf16_reload_n65536"]),
    ],
)
def test_tilegyms_choice_comes_first_where_it_does_not_spill(rows, columns, target, ids) -> None:
    result = load_kernel("rmsnorm", "tilegym").variants(OPERATOR.Workload(rows, columns), target)
    assert [variant.id for variant in result][: len(ids)] == ids


def test_another_eps_than_the_one_compiled_in_is_refused() -> None:
    work = OPERATOR.Workload(5, 64)
    inputs, outputs = OPERATOR.make_inputs(work, 0), OPERATOR.make_outputs(work)
    inputs.eps = 1.0e-5
    built = SimpleNamespace(params={"eps": OPERATOR.EPS, "mode": "reload"})
    with pytest.raises(ValueError, match="eps is a constant of this build"):
        load_kernel("rmsnorm", "tilegym").bind(built, work, inputs, outputs)


def simulate(target: str, distributions: list[str], **values) -> dict:
    """The record of NVIDIA's kernel on a workload, simulated."""
    work = OPERATOR.Workload(**values)
    variant = load_kernel("rmsnorm", "cutlass_rmsnorm").variants(work, target)[0]
    folder = build("rmsnorm", "cutlass_rmsnorm", target, variant)
    case = Case(
        stage="correctness",
        operator="rmsnorm",
        kernel="cutlass_rmsnorm",
        target=target,
        variant={"id": variant.id, "params": dict(variant.params)},
        parameters={**values},
        build=str(folder),
        settings={"schedules": ["random", "late"], "seeds": [0], "distributions": distributions},
    )
    return simulation.simulate(case)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("rows", "columns", "dtype"),
    [(8, 1000, "bf16"), (32, 64, "fp16"), (2, 24576, "fp16"), (2, 65536, "fp32"), (1, 131072, "bf16")],
)
def test_nvidias_kernel_is_right_on_every_distribution(target, rows, columns, dtype) -> None:
    result = simulate(target, list(OPERATOR.DISTRIBUTIONS), rows=rows, columns=columns, dtype=dtype)
    assert result["reason"] is None
    counted = result["metrics"]["simulated"]
    assert counted["launches"][0]["global_read_unique_bytes"] == counted["cost"]["bytes_read"]
    assert counted["launches"][0]["global_write_unique_bytes"] == counted["cost"]["bytes_written"]


@pytest.mark.slow
def test_rows_that_do_not_fill_the_last_block_are_right_and_the_read_past_them_is_told() -> None:
    result = simulate("sm_90a", ["randn"], rows=5, columns=1024, dtype="bf16")
    check = result["metrics"]["checks"][0]
    assert check["outputs"]["y"]["passed"] and all("which nobody wrote" in f for f in check["findings"])


@pytest.mark.slow
@pytest.mark.parametrize("target", (*TARGETS, "sm_103a"))
def test_a_long_row_is_shared_by_a_cluster_through_distributed_shared_memory(target) -> None:
    variant = load_kernel("rmsnorm", "cutlass_rmsnorm").variants(OPERATOR.Workload(1, 65536, "bf16"), target)[0]
    folder = build("rmsnorm", "cutlass_rmsnorm", target, variant)
    (launch,) = record.plain(record.read("compile", folder / "build.json"))["launch"].values()
    assert launch["cluster"] == [1, 4, 1]
    ptx = (folder / "kernel.ptx").read_text()
    assert "mapa.shared::cluster" in ptx and "st.async.shared::cluster" in ptx
    assert_no_spills(folder)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_mode_of_tilegyms_compiles(target) -> None:
    module = load_kernel("rmsnorm", "tilegym")
    for work in (OPERATOR.Workload(4096, 4096, "bf16"), OPERATOR.Workload(5, 1001, "fp32")):
        for variant in module.variants(work, target):
            folder = build("rmsnorm", "tilegym", target, variant)
            entry = record.plain(record.read("compile", folder / "build.json"))
            assert entry["status"] == "ok", entry["reason"]
            assert entry["symbols"] == [f"tilegym_rms_norm_{variant.params['mode']}"]
            if variant.params["mode"] != "persistent":  # blocks of four rows of 4,096 spill for sm_100a
                assert_no_spills(folder)


def assert_no_spills(folder: Path) -> None:
    sass = (folder / "kernel.sass").read_text()
    assert "STL" not in sass and "LDL" not in sass
