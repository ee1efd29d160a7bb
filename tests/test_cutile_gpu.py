"""cuTile builds on a GPU, against the operators' float32 references. Needs the builds, no cuTile:

pytest -m gpu tests/test_cutile_gpu.py        builds from results/compile, or from the folder CUTESNAKE_BUILDS
"""

import os
from pathlib import Path

import pytest

from cutesnake.catalog import load_kernel, load_operator
from cutesnake.load.build import LoadedBuild
from cutesnake.places import ROOT
from kernels.mla_decode.cutile.run import Plan, Tiling, bind

pytestmark = pytest.mark.gpu

BUILDS = Path(os.environ.get("CUTESNAKE_BUILDS", ROOT / "results" / "compile"))
MLA = load_operator("mla_decode")
ADD = load_operator("elementwise_add")
LENGTHS = (1, 63, 64, 65, 257, 1024)
# Scores are float32 sums of exact products; Hopper's tensor cores keep fewer bits of a sum of fp8 products.
LSE_ERROR = {"bf16": 1.0e-3, "fp16": 1.0e-3, "fp8": 1.0e-2}

_loaded = {}


def load(operator: str, kernel: str, workload):
    """The default build for a workload and this card; fails, and says how to make it, if it is not there."""
    import torch

    module = load_kernel(operator, kernel)
    target = "sm_{}{}a".format(*torch.cuda.get_device_capability())
    variant = module.variants(workload, target)[0]
    folder = BUILDS / operator / kernel / target / variant.id
    assert (folder / "build.json").exists(), f"{folder} is missing; make it with: snakemake --cores 2 compiled"
    if folder not in _loaded:
        _loaded[folder] = LoadedBuild(folder)
    return _loaded[folder], variant


def run(runner) -> None:
    import torch

    runner(torch.cuda.current_stream().cuda_stream)
    runner.finish()
    torch.cuda.synchronize()


def norm_error(result, reference) -> float:
    return float((result.float() - reference).norm() / reference.norm())


def check(workload, distribution: str, kernel: str = "cutile", plan: tuple[str, int] | None = None) -> None:
    """Relative error norm at most twice that of PyTorch in the same precision, LSE within LSE_ERROR."""
    loaded, variant = load("mla_decode", kernel, workload)
    inputs = MLA.make_inputs(workload, 1, "cuda", distribution)
    outputs = MLA.make_outputs(workload, "cuda")
    reference = MLA.reference(inputs, workload)
    yardstick = norm_error(MLA.same_precision(inputs, workload).out, reference.out)
    if plan is None:
        runner = load_kernel("mla_decode", kernel).bind(loaded, workload, inputs, outputs)
    else:
        tiling = Tiling.of(variant.params, "narrow" if plan[0].endswith("narrow") else "wide")
        runner = bind(loaded, workload, inputs, outputs, Plan(plan[0], tiling, plan[1]))
    for _ in range(2):  # the second run finds the workspace of the first
        run(runner)
        error = norm_error(outputs.out, reference.out)
        assert error <= max(2.0 * yardstick, MLA.tolerance(workload.dtype)), f"{runner.launches}: {error}"
        lse = float((outputs.lse - reference.lse).abs().max())
        assert lse <= LSE_ERROR[workload.dtype], f"{runner.launches}: LSE off by {lse}"


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp8"])
@pytest.mark.parametrize("paged", [False, True])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("batch", [1, 3])
def test_lengths_around_the_tile(batch, length, paged, dtype) -> None:
    check(MLA.Workload(batch, length, dtype, paged=paged), "ragged")


@pytest.mark.parametrize("distribution", MLA.DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
def test_distributions(distribution, dtype) -> None:
    check(MLA.Workload(4, 1000, dtype, paged=True), distribution)


@pytest.mark.parametrize(
    "plan", [("whole", 1), ("whole_narrow", 1), ("kernel", 2), ("kernel", 7), ("kernel_narrow", 17)]
)
@pytest.mark.parametrize("batch", [1, 5])
def test_every_function_and_shares_without_keys(plan, batch) -> None:
    """17 shares of at most 11 tiles: some have none, and ragged requests leave more of them empty."""
    check(MLA.Workload(batch, 700, paged=True), "ragged", plan=plan)


@pytest.mark.parametrize("plan", [None, ("whole", 1), ("kernel", 3), ("kernel_narrow", 5)])
@pytest.mark.parametrize("tokens", [2, 3, 4])
@pytest.mark.parametrize("causal", [True, False])
def test_several_query_tokens(tokens, causal, plan) -> None:
    check(MLA.Workload(3, 258, query_tokens=tokens, causal=causal, paged=True), "ragged", plan=plan)


@pytest.mark.parametrize("heads", [16, 40, 64])
def test_heads_that_do_not_fill_the_tile(heads) -> None:
    check(MLA.Workload(2, 300, heads=heads), "randn")


@pytest.mark.parametrize("kernel", ["tilegym", "tilegym_split_kv"])
@pytest.mark.parametrize("length", [65, 257, 1024])
def test_tilegym_through_its_adapter(kernel, length) -> None:
    check(MLA.Workload(3, length), "randn", kernel)


@pytest.mark.parametrize("kernel", ["tilegym", "tilegym_split_kv"])
def test_tilegym_refuses_ragged_requests(kernel) -> None:
    workload = MLA.Workload(3, 1024)
    loaded, _ = load("mla_decode", kernel, workload)
    inputs, outputs = MLA.make_inputs(workload, 0, "cuda", "ragged"), MLA.make_outputs(workload, "cuda")
    with pytest.raises(ValueError, match="every request"):
        loaded.bind(workload, inputs, outputs)


@pytest.mark.parametrize(
    "workload",
    [ADD.Workload(1000, 4096), ADD.Workload(1, 4), ADD.Workload(7, 33, "bf16"), ADD.Workload(5, 4097, "bf16")],
)
def test_elementwise_add(workload) -> None:
    loaded, _ = load("elementwise_add", "cutile", workload)
    inputs, outputs = ADD.make_inputs(workload, 0, "cuda"), ADD.make_outputs(workload, "cuda")
    run(loaded.bind(workload, inputs, outputs))
    assert norm_error(outputs.c, ADD.reference(inputs, workload).c) <= ADD.tolerance(workload.dtype)


def test_a_call_is_launches_on_the_given_stream_and_nothing_else() -> None:
    """Captured in a graph, replayed on new inputs: the output follows them, so the graph holds the whole operator."""
    import torch

    workload = MLA.Workload(1, 1024)
    loaded, _ = load("mla_decode", "cutile", workload)
    inputs, outputs = MLA.make_inputs(workload, 0, "cuda"), MLA.make_outputs(workload, "cuda")
    runner = loaded.bind(workload, inputs, outputs)
    run(runner)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        runner(torch.cuda.current_stream().cuda_stream)
    inputs.kv_cache.copy_(MLA.make_inputs(workload, 7, "cuda").kv_cache)
    outputs.out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert norm_error(outputs.out, MLA.reference(inputs, workload).out) <= 2.0 * MLA.tolerance("bf16")
