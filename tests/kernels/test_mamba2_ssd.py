"""The operator `mamba2_ssd`.

Its recurrence against the definition, its chunked form, and NVIDIA's without a GPU.
"""

import pytest

from builds import build, launches, simulate
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.stages.measure import checker

torch = pytest.importorskip("torch")
OPERATOR = load_operator("mamba2_ssd")
SMALL = {"batch": 2, "length": 50, "heads": 4, "groups": 2, "head_dim": 8, "state": 16}


def made(distribution: str = "randn", **values):
    work = OPERATOR.Workload(**{**SMALL, **values})
    return work, OPERATOR.make_inputs(work, 3, distribution=distribution)


@pytest.mark.parametrize("distribution", OPERATOR.DISTRIBUTIONS)
def test_the_recurrence_is_the_sum_over_earlier_tokens_that_the_paper_defines(distribution) -> None:
    work, i = made(distribution)
    x, dt, a, b, c, d = (t.double() for t in (i.x, i.dt, i.a, i.b, i.c, i.d))
    result = OPERATOR.reference(i, work)
    for head in range(work.heads):
        s = torch.cumsum(dt[..., head] * a[head], -1)
        matrix = torch.exp((s[:, :, None] - s[:, None, :]).tril()).tril() * dt[:, None, :, head]
        group = head // 2
        matrix = matrix * (c[:, :, group] @ b[:, :, group].transpose(1, 2))
        want = matrix @ x[:, :, head] + d[head] * x[:, :, head]
        torch.testing.assert_close(result.y[:, :, head].double(), want, rtol=1e-4, atol=1e-5)
        weights = torch.exp(s[:, -1:] - s) * dt[..., head]
        state = torch.einsum("bt,btp,btn->bpn", weights, x[:, :, head], b[:, :, group])
        torch.testing.assert_close(result.final_state[:, head].double(), state, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
@pytest.mark.parametrize("distribution", OPERATOR.DISTRIBUTIONS)
def test_the_chunked_form_is_near_the_recurrence_and_zeros_are_not(distribution, dtype) -> None:
    work, inputs = made(distribution, dtype=dtype, length=90)
    true, same = OPERATOR.reference(inputs, work), OPERATOR.same_precision(inputs, work)
    for chunk in (16, 90):
        for name, result in vars(OPERATOR.chunked(inputs, work, chunk)).items():
            want = getattr(true, name)
            assert float((result.float() - want).norm() / want.norm()) < OPERATOR.tolerance(dtype) < 0.02
    zeros = OPERATOR.Outputs(torch.zeros_like(same.y), torch.zeros_like(same.final_state))
    assert not any(x.passed for x in checker.compare_outputs(zeros, true, same, OPERATOR.tolerance(dtype)).values())


def test_distributions_reach_what_they_are_for() -> None:
    for name, least, most in (("long_memory", 0.99, 1.0), ("short_memory", 0.0, 1e-6)):
        _, inputs = made(name)
        kept = torch.exp(inputs.dt.float() * inputs.a)
        assert least <= float(kept.min()) and float(kept.max()) <= most
    work, inputs = made("impulse")
    y = OPERATOR.reference(inputs, work).y
    assert float(y[:, 40:].abs().max()) > 0 and float(inputs.x[:, 1:].abs().max()) == 0
    with pytest.raises(ValueError, match="distribution is 'huge'; allowed: randn"):
        made("huge")


def test_what_is_no_workload_is_said() -> None:
    with pytest.raises(ValueError, match="heads is 6; it must be a multiple of groups, 4"):
        OPERATOR.Workload(1, 1, heads=6, groups=4)
    assert OPERATOR.Workload(4, 4096).id == "b4_s4096_bf16"


def test_the_baseline_follows_its_inputs() -> None:
    work, inputs = made()
    outputs = OPERATOR.make_outputs(work)
    runner = load_kernel("mamba2_ssd", "torch_chunked").bind(None, work, inputs, outputs)
    for seed in (1, 2):
        inputs.x.copy_(OPERATOR.make_inputs(work, seed).x)
        runner(0)
        want = OPERATOR.reference(inputs, work)
        torch.testing.assert_close(outputs.y.float(), want.y, rtol=3e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("kernel", "values", "reason"),
    [
        ("cutlass", {"length": 256}, None),
        ("cutlass", {"length": 192}, "whole chunks of 128"),
        ("cutlass", {"length": 256, "head_dim": 128}, "for 64 x 128"),
        ("tilegym", {"length": 192}, None),
        ("tilegym", {"length": 100}, "whole chunks of 64"),
        ("tilegym", {"length": 64, "heads": 6}, "4 heads at a time"),
    ],
)
def test_what_each_kernel_takes(kernel, values, reason) -> None:
    result = load_kernel("mamba2_ssd", kernel).supports(OPERATOR.Workload(1, **values))
    assert (result is None) if reason is None else (reason in result)


def test_chunks_of_128_tokens_are_built_only_where_they_fill_the_sequence() -> None:
    kernel = load_kernel("mamba2_ssd", "tilegym")
    assert [v.params["chunk"] for v in kernel.variants(OPERATOR.Workload(1, 256), "sm_90a")] == [64, 128]
    assert [v.params["chunk"] for v in kernel.variants(OPERATOR.Workload(1, 192), "sm_90a")] == [64]


@pytest.mark.slow
def test_nvidias_kernel_is_right_on_every_distribution_and_launched_as_its_runner_says() -> None:
    kernel = load_kernel("mamba2_ssd", "cutlass")
    for values in ({"batch": 1, "length": 256, "heads": 4, "groups": 2}, {"batch": 2, "length": 128, "heads": 1}):
        work = OPERATOR.Workload(**values)
        variant = kernel.variants(work, "sm_100a")[0]
        result = simulate("mamba2_ssd", "cutlass", "sm_100a", variant, values, OPERATOR.DISTRIBUTIONS)
        assert result["reason"] is None and not any(check["findings"] for check in result["metrics"]["checks"])
        reported, captured = launches("mamba2_ssd", "cutlass", build("mamba2_ssd", "cutlass", "sm_100a", variant), work)
        assert reported == captured


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_tilegyms_kernels_compile_and_spill_nothing_in_chunks_of_64(target) -> None:
    kernel = load_kernel("mamba2_ssd", "tilegym")
    variant = kernel.variants(OPERATOR.Workload(1, 4096), target)[0]
    folder = build("mamba2_ssd", "tilegym", target, variant)
    assert record.plain(record.read("compile", folder / "build.json"))["status"] == "ok"
    assert not any("STL" in (folder / f"{stem}.sass").read_text() for stem in kernel.STEMS)
