"""The operator `fmha_backward`: its reference against autograd, what each kernel takes, NVIDIA's without a GPU."""

import re

import pytest

from builds import build
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.stages.measure import checker
from cutesnake.stages.measure.case import Case
from cutesnake.stages.simulate import simulation

torch = pytest.importorskip("torch")
OPERATOR = load_operator("fmha_backward")
# NVIDIA's kernel frees tensor memory once dK and dV are stored, while dQ's products and loads may still be to come.
FREED = (
    r"out-of-bounds: (tcgen05\.mma writes|load) tensor-memory columns .* were freed by warp \d+ of CTA 0"
    r"|race: .* frees tensor-memory column|race: .* tensor-memory column .* after the tcgen05\.dealloc by"
)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("distribution", OPERATOR.DISTRIBUTIONS)
def test_the_reference_is_what_autograd_computes_in_double(distribution, causal) -> None:
    work = OPERATOR.Workload(2, 37, "fp16", heads=6, kv_heads=2, head_dim=32, causal=causal)
    inputs = OPERATOR.make_inputs(work, 3, distribution=distribution)
    leaves = [x.double().requires_grad_() for x in (inputs.q, inputs.k, inputs.v)]
    heads_first = [x.transpose(1, 2) for x in leaves]
    out = torch.nn.functional.scaled_dot_product_attention(*heads_first, is_causal=causal, enable_gqa=True)
    inputs.out = out.detach().transpose(1, 2)  # not rounded: the formula then gives the very gradient
    want = torch.autograd.grad(out, leaves, inputs.dout.double().transpose(1, 2))
    result = OPERATOR.reference(inputs, work)
    for mine, true in zip((result.dq, result.dk, result.dv), want, strict=True):
        assert mine.dtype == torch.float32
        torch.testing.assert_close(mine.double(), true, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", OPERATOR.DTYPES)
def test_the_yardstick_is_near_the_reference(dtype) -> None:
    work = OPERATOR.Workload(1, 200, dtype, heads=2, kv_heads=1, causal=True)
    inputs = OPERATOR.make_inputs(work, 0)
    true, same = OPERATOR.reference(inputs, work), OPERATOR.same_precision(inputs, work)
    for name in ("dq", "dk", "dv"):
        mine, want = getattr(same, name), getattr(true, name)
        assert mine.dtype == inputs.q.dtype
        assert float((mine.float() - want).norm() / want.norm()) < OPERATOR.tolerance(dtype) < 0.02


def test_where_a_gradient_is_zero_the_yardstick_is_off_by_what_rounding_usually_comes_to() -> None:
    # dq of the first token of a causal sequence. P is 1, and dS is the rounding of dP and of the row sum.
    work = OPERATOR.Workload(1, 8, heads=64, kv_heads=64, head_dim=128, causal=True)
    inputs = OPERATOR.make_inputs(work, 0)
    first = OPERATOR.same_precision(inputs, work).dq[0, 0].float().norm(dim=-1) / inputs.k[0, 0].float().norm(dim=-1)
    usual = 2**-8 * (inputs.dout[0, 0].float() * inputs.out[0, 0].float()).norm(dim=-1) * work.softmax_scale
    assert bool((first > 0.3 * usual).all()) and bool((first < 6 * usual).all()), first / usual


@pytest.mark.parametrize("window", [1, 10, 100])
def test_a_window_hides_what_lies_further_back_and_costs_less(window) -> None:
    work = OPERATOR.Workload(1, 37, "fp16", heads=2, kv_heads=1, head_dim=32, causal=True, window=window)
    inputs = OPERATOR.make_inputs(work, 3)
    seen = torch.ones(37, 37, dtype=torch.bool).tril().triu(-window)
    leaves = [x.double().requires_grad_() for x in (inputs.q, inputs.k, inputs.v)]
    heads_first = [x.transpose(1, 2) for x in leaves]
    out = torch.nn.functional.scaled_dot_product_attention(*heads_first, attn_mask=seen, enable_gqa=True)
    inputs.out = out.detach().transpose(1, 2)
    want = torch.autograd.grad(out, leaves, inputs.dout.double().transpose(1, 2))
    result, outputs = OPERATOR.reference(inputs, work), OPERATOR.make_outputs(work)
    runner = load_kernel("fmha_backward", "torch_autograd").bind(None, work, inputs, outputs)
    runner(0)
    runner.finish()
    for name, true in zip(("dq", "dk", "dv"), want, strict=True):
        torch.testing.assert_close(getattr(result, name).double(), true, rtol=1e-3, atol=1e-4)
        torch.testing.assert_close(getattr(outputs, name).double(), true, rtol=3e-2, atol=3e-2)
    assert OPERATOR.cost(work).flops == 10 * 32 * 2 * int(seen.sum())
    assert "TileGym" in load_kernel("fmha_backward", "tilegym").supports(
        OPERATOR.Workload(1, 64, causal=True, window=8)
    )
    with pytest.raises(ValueError, match="causal must be true"):
        OPERATOR.Workload(1, 64, window=8)


@pytest.mark.parametrize(("causal", "window"), [(False, 0), (True, 0), (True, 5)])
def test_sequences_of_different_lengths_are_attended_to_apart(causal, window) -> None:
    work = OPERATOR.Workload(
        5, 37, "fp16", heads=4, kv_heads=2, head_dim=32, causal=causal, window=window, lengths="ragged"
    )
    lengths = OPERATOR.sequence_lengths(work)
    assert (lengths[0], lengths[2], min(lengths), max(lengths)) == (37, 2, 2, 37) and len(set(lengths)) > 2
    inputs, outputs = OPERATOR.make_inputs(work, 3), OPERATOR.make_outputs(work)
    assert inputs.starts.tolist()[1:] == [sum(lengths[: n + 1]) for n in range(5)]
    result = OPERATOR.reference(inputs, work)
    runner = load_kernel("fmha_backward", "torch_autograd").bind(None, work, inputs, outputs)
    runner(0)
    runner.finish()
    torch.testing.assert_close(outputs.dk.double(), result.dk.double(), rtol=3e-2, atol=3e-2)
    for begin, length in zip(inputs.starts.tolist(), lengths, strict=False):
        tokens = slice(begin, begin + length)
        alone = OPERATOR.Workload(
            1, length, "fp16", heads=4, kv_heads=2, head_dim=32, causal=causal, window=min(window, length)
        )
        names = ("q", "k", "v", "out", "dout")
        parts = {name: getattr(inputs, name)[:, tokens] for name in names}
        part = OPERATOR.Inputs(**parts, lse=inputs.lse[..., tokens], starts=None, softmax_scale=inputs.softmax_scale)
        want = OPERATOR.reference(part, alone)
        for name in ("dq", "dk", "dv"):
            torch.testing.assert_close(getattr(result, name)[:, tokens], getattr(want, name))
    assert OPERATOR.cost(work).bytes_written == sum(lengths) * 2 * 32 * (4 + 2 * 2)


@pytest.mark.parametrize("distribution", OPERATOR.DISTRIBUTIONS)
def test_a_sequence_that_begins_a_token_late_shows(distribution, monkeypatch) -> None:
    work = OPERATOR.Workload(3, 60, "bf16", heads=2, kv_heads=1, head_dim=32, lengths="ragged")
    inputs = OPERATOR.make_inputs(work, 0, distribution=distribution)
    true, same = OPERATOR.reference(inputs, work), OPERATOR.same_precision(inputs, work)
    lengths = OPERATOR.sequence_lengths(work)
    monkeypatch.setattr(OPERATOR, "sequence_lengths", lambda _: (lengths[0], lengths[1] + 1, lengths[2] - 1))
    wrong = OPERATOR.same_precision(inputs, work)
    result = checker.compare_outputs(wrong, true, same, OPERATOR.tolerance("bf16"))
    assert not all(output.passed for output in result.values())


def test_the_cost_is_two_and_a_half_times_the_forward_pass() -> None:
    work = OPERATOR.Workload(2, 64, heads=4, kv_heads=2, causal=True)
    assert 2 * OPERATOR.cost(work).flops == 5 * load_operator("fmha").cost(work).flops


def test_what_is_no_workload_is_said() -> None:
    with pytest.raises(ValueError, match="dtype is 'fp8'; allowed: bf16, fp16"):
        OPERATOR.Workload(1, 1, "fp8")
    with pytest.raises(ValueError, match="length is 1; with ragged lengths it must be at least 2"):
        OPERATOR.Workload(1, 1, lengths="ragged")
    with pytest.raises(ValueError, match="lengths is 'short'; allowed: full, ragged"):
        OPERATOR.Workload(1, 1, lengths="short")


def test_the_baseline_follows_its_inputs_and_its_copies_are_spoiled() -> None:
    work = OPERATOR.Workload(1, 50, "bf16", heads=4, kv_heads=2, head_dim=32, causal=True)
    inputs, outputs = OPERATOR.make_inputs(work, 1), OPERATOR.make_outputs(work)
    runner = load_kernel("fmha_backward", "torch_autograd").bind(None, work, inputs, outputs)
    for seed in (1, 2):
        inputs.dout.copy_(OPERATOR.make_inputs(work, seed).dout)
        runner(0)
        runner.finish()
        true = OPERATOR.reference(inputs, work)
        for name in ("dq", "dk", "dv"):
            mine, want = getattr(outputs, name).float(), getattr(true, name)
            assert float((mine - want).norm() / want.norm()) < 0.02
    runner.finish()
    assert all(bool(x.isnan().all()) for x in (outputs.dq, outputs.dk, outputs.dv))


@pytest.mark.parametrize(
    ("kernel", "values", "reason"),
    [
        ("cutlass", {"length": 100}, None),
        ("cutlass", {"length": 100, "head_dim": 32}, "64 and 128"),
        ("tilegym", {"length": 128}, None),
        ("tilegym", {"length": 100}, "multiple of 64"),
        ("tilegym", {"length": 128, "head_dim": 64}, "for 128"),
        ("tilegym", {"length": 128, "lengths": "ragged"}, "sequences of one length"),
        ("cutlass", {"length": 100, "lengths": "ragged"}, None),
    ],
)
def test_what_each_kernel_takes(kernel, values, reason) -> None:
    result = load_kernel("fmha_backward", kernel).supports(OPERATOR.Workload(1, **values))
    assert (result is None) if reason is None else (reason in result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "values",
    [
        {"batch": 1, "length": 256, "heads": 2, "kv_heads": 1},
        {"batch": 2, "length": 200, "heads": 1, "kv_heads": 1, "causal": True},
        {"batch": 1, "length": 129, "heads": 2, "kv_heads": 2, "dtype": "fp16"},
        {"batch": 1, "length": 384, "heads": 2, "kv_heads": 1, "causal": True, "window": 100},
        {"batch": 4, "length": 200, "heads": 2, "kv_heads": 1, "lengths": "ragged"},
    ],
    ids=lambda values: OPERATOR.Workload(**values).id,
)
def test_nvidias_kernel_is_right_and_all_that_is_found_is_tensor_memory_freed_too_early(values) -> None:
    work = OPERATOR.Workload(**values)
    variant = load_kernel("fmha_backward", "cutlass").variants(work, "sm_100a")[0]
    case = Case(
        stage="correctness",
        operator="fmha_backward",
        kernel="cutlass",
        target="sm_100a",
        variant={"id": variant.id, "params": dict(variant.params)},
        parameters=values,
        build=str(build("fmha_backward", "cutlass", "sm_100a", variant)),
        settings={"schedules": ["random", "tma_late"], "seeds": [0], "distributions": list(OPERATOR.DISTRIBUTIONS)},
    )
    checks = simulation.simulate(case)["metrics"]["checks"]
    assert len(checks) == len(OPERATOR.DISTRIBUTIONS)
    for check in checks:
        assert all(output["passed"] for output in check["outputs"].values()), check["outputs"]
        assert all(re.search(FREED, finding) for finding in check["findings"]), check["findings"]


@pytest.mark.slow
@pytest.mark.parametrize("lengths", OPERATOR.LENGTHS)
def test_the_launches_that_a_runner_reports_are_those_that_the_build_makes(lengths) -> None:
    from test_mla_cutlass import capture

    from cutesnake.stages.load import cute as cute_load
    from cutesnake.stages.load.build import LoadedBuild

    work = OPERATOR.Workload(2, 300, heads=4, kv_heads=2, causal=True, lengths=lengths)
    module = load_kernel("fmha_backward", "cutlass")
    folder = build("fmha_backward", "cutlass", "sm_100a", module.variants(work, "sm_100a")[0])
    inputs, outputs = OPERATOR.make_inputs(work, 0), OPERATOR.make_outputs(work)
    calls = []

    def opened(path, function):
        calls.append(capture(path, function))
        return calls[0]

    with cute_load.opened_by(opened):
        runner = module.bind(LoadedBuild(folder), work, inputs, outputs)
    runner(0)
    made = [(x.name, x.grid, x.block, x.dynamic_shared) for x in calls[0].launches]
    assert made == [(x.symbol, x.grid, x.block, x.dynamic_shared_bytes) for x in runner.launches]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_tilegyms_kernels_compile_and_the_default_tiles_spill_nothing(target) -> None:
    module = load_kernel("fmha_backward", "tilegym")
    spills = []
    for variant in module.variants(OPERATOR.Workload(1, 512, heads=4, kv_heads=2, causal=True), target):
        folder = build("fmha_backward", "tilegym", target, variant)
        entry = record.plain(record.read("compile", folder / "build.json"))
        assert entry["status"] == "ok", entry["reason"]
        spills.append(sum((folder / f"{stem}.sass").read_text().count("STL") for stem in module.STEMS))
    assert spills[0] == 0
