"""Kernel `cute_sm100`: the schedule and the contract (fast), the build and its results in the simulator (slow)."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from builds import build
from cutesnake.load.build import LoadedBuild
from cutesnake.places import ROOT
from kernels.mla_decode import cute_sm100
from kernels.mla_decode.cute_sm100 import layout
from kernels.mla_decode.cute_sm100.schedule import make_schedule
from kernels.mla_decode.operator import Workload

PROCESSORS = 148  # of a B200
RAGGED = random.Random(7)
BATCHES = {
    "no key at all": [0, 0],
    "one token": [1],
    "one key more than a tile": [129],
    "some requests empty": [0, 300, 0, 5000],
    "one long request": [65536],
    "as many as pairs": [4096] * 74,
    "ragged": [RAGGED.randint(0, 9000) for _ in range(150)],
    "many dwarfs": [3] * 1000,
}


def tiles(length: int) -> int:
    return max(1, -(-length // layout.KEYS))


@pytest.mark.parametrize("lengths", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("rows", [1, 16, 128, 129, 512])
def test_every_tile_of_every_row_block_is_computed_once(lengths, rows):
    schedule = make_schedule(lengths, rows, PROCESSORS)
    seen: dict[tuple[int, int], list[int]] = {}
    for item in schedule.items:
        assert item[layout.LENGTH] == lengths[item[layout.REQUEST]]
        assert item[layout.BEGIN] < item[layout.END]
        key = (item[layout.REQUEST], item[layout.ROW_BLOCK])
        seen.setdefault(key, []).extend(range(item[layout.BEGIN], item[layout.END]))
    blocks = -(-rows // layout.ROWS)
    assert seen.keys() == {(request, block) for request in range(len(lengths)) for block in range(blocks)}
    for (request, _), found in seen.items():
        assert sorted(found) == list(range(tiles(lengths[request])))
    assert schedule.offsets[0] == 0 and schedule.offsets[-1] == len(schedule.items)
    assert layout.CTAS * (len(schedule.offsets) - 1) <= PROCESSORS


def test_no_empty_request_is_split():
    """The combine kernel could not merge partial results that are all without a key."""
    for lengths in BATCHES.values():
        assert all(lengths[request] > 0 for request, *_ in make_schedule(lengths, 128, PROCESSORS).merges)


def test_the_budget_fits_an_sm():
    shared = layout.BOX_BYTES * (layout.BOXES + layout.STAGE_BOXES * layout.STAGES + 2)
    assert shared + 3 * 128 * 4 + 8 * layout.MBARRIERS + 1024 <= 232_448
    assert layout.OUT_COLUMN + layout.OUT_COLUMNS <= layout.TENSOR_MEMORY_COLUMNS <= 512


def test_the_contract_is_imported_without_dsl_and_torch():
    code = "import sys; from kernels.mla_decode import cute_sm100; print(*sys.modules)"
    paths = f"{ROOT}:{ROOT / 'workflow' / 'scripts'}"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": paths}
    )
    assert not {"torch", "cutlass", "numpy"} & set(done.stdout.split())


def test_what_it_supports():
    assert all(cute_sm100.supports(Workload(1, 64, dtype)) is None for dtype in cute_sm100.DTYPES)
    assert "latent 512" in cute_sm100.supports(Workload(1, 64, latent=256))


@pytest.fixture(scope="module", params=cute_sm100.DTYPES)
def built(request):
    """The default build of each dtype, made as the compile stage makes it."""
    return build("mla_decode", "cute_sm100", "sm_100a", cute_sm100.variants(Workload(1, 64, request.param), "")[0])


def dtype_of(built: Path) -> str:
    return json.loads((built / "build.json").read_text())["variant"]["params"]["dtype"]


@pytest.mark.slow
def test_the_build_spills_nothing_and_has_the_products_and_loads_that_are_meant(built):
    made = json.loads((built / "build.json").read_text())
    assert made["status"] == "ok", made["reason"]
    sass = (built / "kernel.sass").read_text()
    assert not {"LDL", "STL"} & {word.split(".")[0] for word in sass.split()}
    split = next(symbol for symbol in made["symbols"] if "split_kernel" in symbol)
    assert made["launch"][split]["block"] == [layout.THREADS, 1, 1]
    assert made["launch"][split]["cluster"] == [layout.CTAS, 1, 1]
    assert made["launch"][split]["dynamic_shared_bytes"] <= 232_448 - 1024

    opcodes = re.findall(r"\b(UTC[A-Z]*MMA[.\w]*|UTMALDG[.\w]*|UTCBAR[.\w]*)", sass)
    scores, values = 4 * layout.BOXES, 4 * layout.VALUE_STAGES  # instructions of 16 keys or columns in a tile
    products = [name for name in opcodes if "MMA" in name]
    assert len(products) == 2 * (scores + values)  # before and within the loop, or within and after it
    assert all("2CTA" in name for name in products)
    loads = layout.BOXES + 2 * (layout.BOXES + layout.STAGE_BOXES * layout.VALUE_STAGES)  # Q, and a tile twice
    assert len([name for name in opcodes if name.startswith("UTMALDG")]) == loads
    # A commit for each stage, for the scores and for O, twice; and one for Q.
    commits = 2 * (layout.KEY_STAGES + layout.VALUE_STAGES + 2) + 1
    assert len([name for name in opcodes if "MULTICAST" in name]) == commits


def simulated(built: Path, workload: Workload, change, schedules, processors: int = PROCESSORS):
    """Yields (outputs, reference, yardstick, result) under each schedule, with the inputs as `change` leaves them."""
    import torch

    import ptxsim
    from cutesnake.load import cute as cute_load
    from kernels.mla_decode import operator

    inputs = operator.make_inputs(workload, 0, "cpu", "ragged")
    change(inputs)
    expected, yardstick = operator.reference(inputs, workload), operator.same_precision(inputs, workload)
    module = ptxsim.Module.from_file(built / "kernel.ptx")
    results = []

    def opened(folder, function):
        def call(*arguments):
            stream = ptxsim.Pointer(torch.zeros(1), "stream")
            launches = ptxsim.capture(
                folder / "kernel.o", function, (*arguments[:-1], stream), module, sm_count=processors
            )
            checks = (*ptxsim.DEFAULT_CHECKS, "unwaited-ld")
            order, seed = schedules[len(results)]
            results.append(ptxsim.run(launches, order, seed, checks=checks))

        return call

    for _ in schedules:
        outputs = operator.make_outputs(workload)
        with cute_load.opened_by(opened, processors):
            cute_sm100.bind(LoadedBuild(built), workload, inputs, outputs)(0)
        yield outputs, expected, yardstick, results[-1]


def hide_what_no_request_owns(inputs) -> None:
    """NaN behind every request's end, and page-table entries there that lie outside the cache."""
    import torch

    owned = torch.zeros(inputs.kv_cache.shape[:2], dtype=torch.bool)
    for request, length in enumerate(inputs.kv_lengths.tolist()):
        pages = -(-length // layout.PAGE)
        for page in range(pages):
            owned[inputs.page_table[request, page], : length - layout.PAGE * page] = True
        inputs.page_table[request, pages:] = 0x7FFFFFF0
    inputs.kv_cache.view(torch.uint8)[~owned] = 0xFF


def check(outputs, expected, yardstick, result) -> None:
    """Outputs of requests without keys are 0 and +inf; the others as near as PyTorch's own in the dtype, twice over."""
    assert result.ok, result.findings[0]
    seen = expected.lse.isfinite()
    assert not outputs.lse.isnan().any()
    assert (outputs.out[~seen] == 0).all() and (outputs.lse[~seen] == float("inf")).all()
    if not seen.any():
        return
    error, allowed = (
        (got.out[seen].float() - expected.out[seen]).norm() / expected.out[seen].norm() for got in (outputs, yardstick)
    )
    assert error <= 2 * allowed + 1e-6
    assert (outputs.lse[seen] - expected.lse[seen]).abs().max() < 1e-4


SIZES = {
    "one key": (Workload(1, 1), None, PROCESSORS),
    "a page and a key": (Workload(2, 65, paged=True), None, PROCESSORS),
    "three tiles, the last with one key": (Workload(1, 257, paged=True), None, PROCESSORS),
    "one head": (Workload(2, 130, heads=1, paged=True), None, PROCESSORS),
    "rows past the end, two causal tokens": (
        Workload(2, 330, heads=40, query_tokens=2, paged=True),
        None,
        PROCESSORS,
    ),
    "four row blocks, four causal tokens": (Workload(2, 200, query_tokens=4, paged=True), None, PROCESSORS),
    "four tokens that see all": (Workload(2, 200, heads=16, query_tokens=4, causal=False), None, PROCESSORS),
    "empty requests between others": (Workload(4, 900, paged=True), [0, 900, 0, 65], PROCESSORS),
    "nothing but empty requests": (Workload(2, 300, paged=True), [0, 0], PROCESSORS),
    "several items for each pair, some of them split": (Workload(5, 700, paged=True), None, 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
def test_results_in_the_simulator(built, size):
    """With NaN and wild page-table entries past the requests' ends: right under every schedule, and no finding."""
    import torch

    import ptxsim

    workload, lengths, processors = SIZES[size]
    workload = dataclasses.replace(workload, dtype=dtype_of(built))

    def change(inputs) -> None:
        if lengths is not None:
            inputs.kv_lengths.copy_(torch.tensor(lengths))
        hide_what_no_request_owns(inputs)

    for found in simulated(built, workload, change, ptxsim.DEFAULT_SCHEDULES, processors):
        check(*found)


@pytest.mark.slow
def test_warps_of_very_different_speed_change_nothing(built):
    schedules = [("warps", seed) for seed in range(20)]
    for found in simulated(
        built, Workload(2, 700, dtype_of(built), paged=True), hide_what_no_request_owns, schedules, 4
    ):
        check(*found)
