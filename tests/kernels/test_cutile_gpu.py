"""cuTile builds on a GPU, against the operators' float32 references. Needs the builds, no cuTile:

pytest -m gpu tests/kernels/test_cutile_gpu.py        builds from results/compile, or from the folder CUTESNAKE_BUILDS
"""

import os
from pathlib import Path

import pytest

from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.paths import ROOT
from cutesnake.stages.load.build import LoadedBuild
from kernels.mla_decode.cutile.plan import Plan, Tiling
from kernels.mla_decode.cutile.run import bind

pytestmark = pytest.mark.gpu

BUILDS = Path(os.environ.get("CUTESNAKE_BUILDS", ROOT / "results" / "compile"))
MLA = load_operator("mla_decode")
ADD = load_operator("elementwise_add")
LENGTHS = (1, 63, 64, 65, 257, 1024)
# Scores are float32 sums of exact products; Hopper's tensor cores keep fewer bits of a sum of fp8 products.
LSE_ERROR = {"bf16": 1.0e-3, "fp16": 1.0e-3, "fp8": 1.0e-2}

_loaded = {}


def load(operator: str, kernel: str, workload):
    """The default build for a workload and this GPU.

    Fails, and says how to make it, if it is not there.
    """
    import torch

    module = load_kernel(operator, kernel)
    target = "sm_{}{}a".format(*torch.cuda.get_device_capability())
    variant = module.variants(workload, target)[0]
    folder = BUILDS / operator / kernel / target / variant.id
    command = "snakemake --cores 2 compiled --config 'compile={baked_sizes: all}'"
    assert (folder / "build.json").exists(), f"{folder} is missing; make it with: {command}"
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


def bound(workload, inputs, outputs, kernel: str = "cutile", plan: tuple[str, int, bool] | None = None):
    """A runner.

    `plan` is a tiling's name, the KV tiles of an item, and whether whole requests store directly.
    """
    loaded, variant = load("mla_decode", kernel, workload)
    if plan is None:
        return load_kernel("mla_decode", kernel).bind(loaded, workload, inputs, outputs)
    width, chunk, direct = plan
    if f"{width}_rows" not in variant.params:
        pytest.skip(f"no {width} tiling in {variant.id}")
    return bind(loaded, workload, inputs, outputs, Plan(Tiling.of(variant.params, width), chunk, direct))


def check(workload, distribution: str, kernel: str = "cutile", plan: tuple[str, int, bool] | None = None) -> None:
    """Check the error against twice PyTorch's, and the LSE against LSE_ERROR."""
    inputs = MLA.make_inputs(workload, 1, "cuda", distribution)
    outputs = MLA.make_outputs(workload, "cuda")
    reference = MLA.reference(inputs, workload)
    yardstick = norm_error(MLA.same_precision(inputs, workload).out, reference.out)
    runner = bound(workload, inputs, outputs, kernel, plan)
    for _ in range(2):  # the second run finds the workspace of the first
        run(runner)
        error = norm_error(outputs.out, reference.out)
        assert error <= max(2.0 * yardstick, MLA.tolerance(workload.dtype)), f"{runner.launches}: {error}"
        seen = reference.lse.isfinite()
        assert bool((outputs.lse == reference.lse)[~seen].all()), "the LSE of a row without keys is +inf"
        lse = float((outputs.lse - reference.lse)[seen].abs().max())
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


# Every device function: whole requests and pieces in each tiling, and both where there is a pair of launches for them.
PLANS = [
    *((width, chunk, False) for width in ("wide", "narrow", "undivided") for chunk in (1000, 3)),
    *((width, 4, True) for width in ("wide", "undivided")),
]


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("batch", [1, 5])
def test_every_function(plan, batch) -> None:
    check(MLA.Workload(batch, 700, paged=True), "ragged", plan=plan)


@pytest.mark.parametrize("plan", [None, *PLANS])
@pytest.mark.parametrize("tokens", [2, 3, 4])
@pytest.mark.parametrize("causal", [True, False])
def test_several_query_tokens(tokens, causal, plan) -> None:
    check(MLA.Workload(3, 258, query_tokens=tokens, causal=causal, paged=True), "ragged", plan=plan)


@pytest.mark.parametrize("heads", [1, 9, 16, 40, 63, 64])
def test_heads_that_do_not_fill_the_tile(heads) -> None:
    check(MLA.Workload(2, 300, heads=heads), "randn")


def as_in_a_serving_engine(workload, lengths, extra_pages: int = 5):
    """Inputs of these lengths.

    Past a request's end the cache holds NaN and infinities, or what the dtype has of them, and the page table, wider
    than needed, entries far out of range.
    """
    import torch

    inputs = MLA.make_inputs(workload, 1, "cuda")
    inputs.kv_lengths.copy_(torch.tensor(lengths))
    table = torch.full((workload.batch, inputs.page_table.shape[1] + extra_pages), 2147480000, dtype=torch.int32)
    for request, length in enumerate(lengths):
        pages = -(-length // MLA.PAGE)
        table[request, :pages] = inputs.page_table[request, :pages]
        for index, page in enumerate(inputs.page_table[request].tolist()):
            rows = inputs.kv_cache[page, max(0, length - index * MLA.PAGE) :]
            if rows.dtype == torch.float8_e4m3fn:
                rows.view(torch.uint8).fill_(0x7F)
            else:
                rows.fill_(float("nan"))
                rows[::2] = float("inf") if request % 2 else float("-inf")
    inputs.page_table = table.cuda()
    return inputs


@pytest.mark.parametrize("plan", [None, *PLANS])
@pytest.mark.parametrize("tokens", [1, 2, 4])
@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp8"])
def test_what_lies_past_a_request_reaches_no_output_and_rows_without_keys_are_zero(dtype, tokens, plan) -> None:
    import torch

    lengths = [0, 1, 2, 3, 63, 64, 65, 129, 700]
    workload = MLA.Workload(len(lengths), 700, dtype, query_tokens=tokens, heads=63, paged=True)
    inputs, outputs = as_in_a_serving_engine(workload, lengths), MLA.make_outputs(workload, "cuda")
    run(bound(workload, inputs, outputs, plan=plan))
    reference = MLA.reference(inputs, workload)
    assert bool(outputs.out.float().isfinite().all())
    assert norm_error(outputs.out, reference.out) <= 2.0 * MLA.tolerance(dtype)
    blind = torch.arange(tokens)[None, :] < tokens - torch.tensor(lengths)[:, None]  # query tokens that see no key
    assert bool((outputs.out.float()[blind] == 0).all()) and bool((outputs.lse[blind] == float("inf")).all())
    assert float((outputs.lse - reference.lse)[~blind].abs().max()) <= LSE_ERROR[dtype]


def test_a_cache_of_more_than_2_31_elements() -> None:
    """60,000 pages, of which the requests use the last ones."""
    import torch

    workload = MLA.Workload(3, 700)
    inputs, outputs = MLA.make_inputs(workload, 1, "cuda"), MLA.make_outputs(workload, "cuda")
    reference = MLA.reference(inputs, workload)
    used = len(inputs.kv_cache)
    cache = torch.full((60_000, *inputs.kv_cache.shape[1:]), float("nan"), dtype=torch.bfloat16, device="cuda")
    cache[-used:] = inputs.kv_cache
    moved = MLA.Inputs(inputs.q, cache, inputs.page_table + (60_000 - used), inputs.kv_lengths, inputs.softmax_scale)
    run(bound(workload, moved, outputs))
    assert norm_error(outputs.out, reference.out) <= 2.0 * MLA.tolerance("bf16")


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
        load_kernel("mla_decode", kernel).bind(loaded, workload, inputs, outputs)


@pytest.mark.parametrize(
    "workload",
    [ADD.Workload(1000, 4096), ADD.Workload(1, 4), ADD.Workload(7, 33, "bf16"), ADD.Workload(5, 4097, "bf16")],
)
def test_elementwise_add(workload) -> None:
    loaded, _ = load("elementwise_add", "cutile", workload)
    inputs, outputs = ADD.make_inputs(workload, 0, "cuda"), ADD.make_outputs(workload, "cuda")
    run(load_kernel("elementwise_add", "cutile").bind(loaded, workload, inputs, outputs))
    assert norm_error(outputs.c, ADD.reference(inputs, workload).c) <= ADD.tolerance(workload.dtype)


@pytest.mark.parametrize(("lengths", "plan"), [([1024], None), ([1024, 5, 100], ("wide", 4, True))])
def test_a_call_is_launches_on_the_given_stream_and_nothing_else(lengths, plan) -> None:
    # Captured in a graph, replayed on new inputs. The output follows them, so the graph holds the whole operator.
    import torch

    workload = MLA.Workload(len(lengths), 1024)
    inputs, outputs = MLA.make_inputs(workload, 0, "cuda"), MLA.make_outputs(workload, "cuda")
    inputs.kv_lengths.copy_(torch.tensor(lengths))
    runner = bound(workload, inputs, outputs, plan=plan)
    run(runner)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        runner(torch.cuda.current_stream().cuda_stream)
    inputs.kv_cache.copy_(MLA.make_inputs(workload, 7, "cuda").kv_cache)
    outputs.out.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    assert norm_error(outputs.out, MLA.reference(inputs, workload).out) <= 2.0 * MLA.tolerance("bf16")
