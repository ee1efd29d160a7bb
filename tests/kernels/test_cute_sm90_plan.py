"""Kernel `cute_sm90`: a schedule made on the GPU is the host's, entry for entry.

No length changes its tables.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest

from builds import build, simulate
from cutesnake.model.contract import Variant
from kernels.mla_decode.cute_sm90 import layout
from kernels.mla_decode.cute_sm90.schedule import lanes_and_workers, make_schedule, pad, prices

RANDOM = random.Random(11)
GPU = 132
KINDS = {"cluster1": (1, False), "cluster2": (2, False), "halves": (2, True)}
LENGTHS = {
    "one token": [1],
    "one long request": [131_072],
    "uniform": [4096] * 32,
    "several units over": [4096] * 70,
    "nobody": [0] * 5,
    "some are empty": [0, 700, 0, 0, 64, 9000, 1, 0],
    "ragged": [int(16384 ** RANDOM.random()) for _ in range(133)],
    "a giant among dwarfs": [100_000] + [1] * 90,
    "any": [RANDOM.randint(0, 9000) for _ in range(61)],
    "a full engine": [131_072] * 4 + [0, 5, 300] * 340,
}


def padded(lengths: list[int], rows: int, kind: str, processors: int = GPU):
    where = rows, processors, *KINDS[kind]
    return pad(make_schedule(lengths, *where, on_gpu=True), len(lengths), *where)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [16, 128, 512])
def test_sizes_of_tables_grids_and_workspace_depend_on_no_length(kind, rows):
    # Without room for any plan this raises. Rows that are left would be fewer than none.
    by_batch: dict[int, set] = {}
    for lengths in [*LENGTHS.values(), [1] * 133, [131_072] * 133, [64] * 1024]:
        result = padded(lengths, rows, kind)
        shape = len(result.items), len(result.offsets), len(result.merges), result.partials, result.combine_grid(rows)
        by_batch.setdefault(len(lengths), set()).add(shape)
        plain = make_schedule(lengths, rows, GPU, *KINDS[kind], on_gpu=True)
        assert len(plain.items) < len(result.items) and plain.partials <= result.partials
        assert result.items[: len(plain.items)] == plain.items and result.merges[: len(plain.merges)] == plain.merges
    assert all(len(shapes) == 1 for shapes in by_batch.values())


def variant(kind: str) -> Variant:
    cluster, halves = KINDS[kind]
    params = {"dtype": "bf16", "cluster": cluster, "planned": True} | ({"halves": True} if halves else {})
    return Variant(f"bf16_{kind}_planned", params)


@pytest.fixture(scope="module")
def built(request):
    """A kind, as a test's parameters name it, and the folder of its build."""
    return request.param, build("mla_decode", "cute_sm90", "sm_90a", variant(request.param))


def plan_of(folder: Path, lengths: list[int], rows: int, processors: int, kind: str, schedule: str):
    """Return what the build's plan writes in ptxsim over entries of -7."""
    import numpy as np

    import ptxsim

    want = padded(lengths, rows, kind, processors)
    tables = [np.full(np.shape(table), -7, np.int32) for table in (want.items, want.offsets, want.merges)]
    batch = len(lengths)
    lanes, _ = lanes_and_workers(rows, processors, *KINDS[kind])
    half = np.zeros((batch, rows, 576), np.float16)  # of another type than the build's, but as wide: nobody reads it
    attention = [
        ptxsim.Tensor(half.view(np.int16), "bfloat16"),
        ptxsim.Tensor(np.zeros((1, 64, 576), np.int16), "bfloat16"),
    ]
    attention += [np.zeros((batch, 1), np.int32), ptxsim.Tensor(np.zeros((batch, rows, 512), np.int16), "bfloat16")]
    attention += [np.zeros((batch, rows), np.float32), *tables]
    attention += [np.zeros((1, rows, 512), np.float32), np.zeros((1, rows), np.float32), 1.0, rows, 0, 2]
    attention += [layout.KEEP, layout.KEEP, 0, None, None]  # no in-kernel merge
    step = [np.array(lengths, np.int32), lanes, 1, ptxsim.Pointer(np.zeros(1, np.int32), "stream")]
    module = ptxsim.Module.from_file(folder / "kernel.ptx")
    launches = ptxsim.capture(
        folder / "kernel.o", "mla_decode_cute_sm90", (*attention, *step), module, sm_count=processors
    )
    assert [("plan_kernel" in launch.name, launch.grid) for launch in launches] == [
        (True, (1, 1, 1)),
        (False, (1, 1, 1)),
    ]
    result = ptxsim.run(launches, schedule)
    assert not result.findings, str(result.findings[0])
    return tables, want


# Pairs of CTAs are as cluster1 but for the step between row blocks.
PLANNED = [(kind, name) for kind in KINDS for name in LENGTHS if kind != "cluster2" or name in ("ragged", "any")]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("built", "lengths"),
    [pytest.param(kind, LENGTHS[name], id=f"{kind}-{name}") for kind, name in PLANNED],
    indirect=["built"],
    scope="module",
)
def test_the_schedule_made_on_the_card_is_the_hosts(built, lengths):
    # For random row counts and GPUs. Whether the plan is made of chunks or a walk, for all kinds of builds.
    import numpy as np

    kind, folder = built
    draw = random.Random(str(lengths[:3]) + kind)
    rows, gpu = draw.choice((16, 128, 192, 512)), draw.choice((132, 114, 4))
    (items, offsets, merges), want = plan_of(folder, lengths, rows, gpu, kind, draw.choice(("random", "warps", "late")))
    asked = want.offsets[-1]
    assert (items[:asked] == np.array(want.items[:asked], np.int32).reshape(-1, 8)).all()
    assert (items[asked:] == -7).all(), "nothing is written behind the schedule"
    assert (offsets == want.offsets).all()
    assert (merges == want.merges).all()


@pytest.mark.slow
@pytest.mark.parametrize("built", ["cluster1", "halves"], indirect=True)  # cluster2: nothing but cluster1's changes
def test_new_lengths_are_computed_after_a_plan_in_the_simulator(built):
    # Lengths change in place. `plan` makes their schedule where the launches read it, then all is right.
    kind, folder = built
    variants = json.loads((folder / "build.json").read_text())["variant"]
    work = {"dtype": "bf16", "batch": 4, "kv_length": 200, "heads": 70, "paged": True}
    kinds = ["randn", "empty_requests", "nan_padding", "bad_table"]  # every second one is planned for, not bound
    if kind == "halves":  # the exchange between CTAs is slow to simulate
        work, kinds = work | {"kv_length": 150, "heads": 40}, ["randn", "nan_padding"]
    result = simulate("mla_decode", "cute_sm90", "sm_90a", Variant(**variants), work, kinds, ["random"])
    assert result["status"] == "ok", result["reason"]
    ran = [launch for launch in result["metrics"]["simulated"]["coverage"] if "plan_kernel" in launch["kernel"]]
    assert ran, "no check planned"


def test_prices_are_multiples_of_a_quarter():
    from kernels.mla_decode.split_kv.plan import Prices

    assert prices(True).quarters == (11, 6, 12)
    with pytest.raises(ValueError, match=r"the price item is 0\.3"):
        Prices(item=0.3, merge=1.0, partial=1.0)


@pytest.mark.slow
def test_a_call_right_after_a_plan_reads_no_table_before_it_is_written():
    # The attention kernel is launched early. What keeps it behind the plan is the kernel that does nothing.
    import torch

    import ptxsim
    from cutesnake.stages.load.build import LoadedBuild
    from cutesnake.stages.load.cute import opened_by
    from kernels.mla_decode import cute_sm90, operator

    folder = build("mla_decode", "cute_sm90", "sm_90a", variant("cluster1"))
    work = operator.Workload(2, 70, heads=16, paged=True)
    inputs, outputs = operator.make_inputs(work, 0, "cpu", "ragged"), operator.make_outputs(work)
    module, caught = ptxsim.Module.from_file(folder / "kernel.ptx"), []

    def opened(_, function):
        def call(*arguments):
            values = (*arguments[:-1], ptxsim.Pointer(torch.zeros(1), "stream"))
            caught.extend(ptxsim.capture(folder / "kernel.o", function, values, module, sm_count=4))

        return call

    with opened_by(opened, 4):
        runner = cute_sm90.bind(LoadedBuild(folder), work, inputs, outputs)
    runner.plan(0)
    runner(0)
    # Caught by two calls, in one memory: else nothing is known of what both touch.
    plan, between, attention, combine = (replace(launch, memory=caught[0].memory) for launch in caught)
    assert [launch.grid for launch in (attention, combine)] == [reported.grid for reported in runner.launches]
    result = ptxsim.run([plan, between, attention, combine], "random")
    assert not result.findings, str(result.findings[0])
    expected = operator.reference(inputs, work).out
    assert (outputs.out.float() - expected).norm() < 0.01 * expected.norm()
    without = ptxsim.run([plan, attention, combine], "random")
    early = [str(finding) for finding in without.findings if "griddepcontrol.wait" in str(finding)]
    assert early and all("the launch before (kernel_cutlass_plan_kernel" in finding for finding in early)


@pytest.mark.slow
def test_fewer_ctas_than_there_are_rows_to_merge_merge_all_of_them_and_no_others():
    # Two, three and no partial results. The fourth request asks for nothing. 1,056 CTAs for 1,536 blocks of rows.
    import numpy as np

    import ptxsim

    folder = build("mla_decode", "cute_sm90", "sm_90a", variant("cluster1"))
    batch, rows, draw = 4, 512, np.random.default_rng(5)
    merges = np.array([[2, 0, 2, 0], [0, 2, 3, 0], [3, 5, 0, 0], [0, 0, -1, 0]], np.int32)
    parts, lses = draw.standard_normal((5, rows, 512), np.float32), draw.standard_normal((5, rows), np.float32)
    out, lse = np.full((batch, rows, 512), 0x7FC0, np.int16), np.full((batch, rows), np.nan, np.float32)
    table, items, offsets = np.zeros((batch, 1), np.int32), np.zeros((2, 8), np.int32), np.zeros(9, np.int32)
    half = [ptxsim.Tensor(np.zeros(shape, np.int16), "bfloat16") for shape in ((batch, rows, 576), (1, 64, 576))]
    values = (*half, table, ptxsim.Tensor(out, "bfloat16"), lse, items, offsets, merges, parts, lses)
    numbers = 1.0, rows, 0, 8, layout.KEEP, layout.KEEP, 0, None, None, np.zeros(batch, np.int32), 8, 0
    stream = ptxsim.Pointer(np.zeros(1, np.int32), "stream")
    module = ptxsim.Module.from_file(folder / "kernel.ptx")
    _, combine = ptxsim.capture(folder / "kernel.o", "mla_decode_cute_sm90", (*values, *numbers, stream), module)
    assert combine.grid == (1056, 1, 1)
    result = ptxsim.run([combine], "random")
    assert not result.findings, str(result.findings[0])
    outcome = (out.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    for request, first, count, _ in merges[:2]:
        weights = np.exp2(lses[first : first + count])
        expected = (weights[..., None] * parts[first : first + count]).sum(0) / weights.sum(0)[:, None]
        np.testing.assert_allclose(outcome[request], expected, atol=0.02)
        np.testing.assert_allclose(lse[request], np.log(weights.sum(0)), atol=1e-3)
    assert (outcome[3] == 0).all() and (lse[3] == np.inf).all()
    assert np.isnan(outcome[1]).all() and np.isnan(lse[1]).all(), "nobody asked for it"
