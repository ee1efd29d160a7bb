"""Kernel `cute_sm100`.

The schedule and the contract (fast), the build and its results in the simulator (slow).
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from builds import build
from cutesnake.model.paths import ROOT
from kernels.mla_decode import cute_sm100
from kernels.mla_decode.cute_sm100 import sizes as layout
from kernels.mla_decode.cute_sm100.schedule import CLUSTERED_PROCESSORS, MOST_EVEN, Even, make_schedule
from kernels.mla_decode.operator import Workload

COUNTS = Path(__file__).with_name("cute_sm100_counts.json")
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
    return max(1, -(-length // layout.TILE_KEYS))


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
    blocks = -(-rows // layout.TILE_ROWS)
    assert seen.keys() == {(request, block) for request in range(len(lengths)) for block in range(blocks)}
    for (request, _), result in seen.items():
        assert sorted(result) == list(range(tiles(lengths[request])))
    assert schedule.offsets[0] == 0 and schedule.offsets[-1] == len(schedule.items)
    for pair, (begin, end) in zip(schedule.pairs, itertools.pairwise(schedule.offsets), strict=True):
        assert pair[: layout.FIRST_WORK] == schedule.items[begin][: layout.FIRST_WORK] or begin == end
        assert (pair[layout.FIRST_WORK], pair[layout.END_WORK]) == (begin, end) or begin == end == 0
    assert layout.PAIR_CTAS * (len(schedule.offsets) - 1) <= PROCESSORS


@pytest.mark.parametrize("lengths", BATCHES.values(), ids=BATCHES)
@pytest.mark.parametrize("rows", [1, 129])
@pytest.mark.parametrize("pairs", [2, 4])
def test_the_pairs_of_a_cluster_have_every_tile_once_and_at_least_one_each(lengths, rows, pairs):
    schedule = make_schedule(lengths, rows, PROCESSORS, pairs=pairs)
    seen: dict[tuple[int, int], list[int]] = {}
    of_pairs = [schedule.items[begin:end] for begin, end in itertools.pairwise(schedule.offsets)]
    for first in range(0, len(of_pairs), pairs):
        for items in zip(*of_pairs[first : first + pairs], strict=True):
            # Of one request and row block, to one place: what the pairs of a cluster have is merged.
            assert len({(item[layout.REQUEST], item[layout.ROW_BLOCK], item[layout.PARTIAL]) for item in items}) == 1
            for item in items:
                assert item[layout.BEGIN] < item[layout.END]
                result = range(item[layout.BEGIN], item[layout.END])
                seen.setdefault((item[layout.REQUEST], item[layout.ROW_BLOCK]), []).extend(result)
    assert seen.keys() == set(itertools.product(range(len(lengths)), range(-(-rows // layout.TILE_ROWS))))
    for (request, _), result in seen.items():
        assert sorted(result) == list(range(len(result))) and len(result) - tiles(lengths[request]) in range(pairs)
    assert len(of_pairs) % pairs == 0 and layout.PAIR_CTAS * len(of_pairs) <= CLUSTERED_PROCESSORS


@pytest.mark.parametrize("dtype", ["fp16", "fp8"])
def test_pairs_share_requests_where_no_second_kernel_is_needed_then(dtype):
    def default(batch: int, kv_length: int) -> str:
        return cute_sm100.variants(Workload(batch, kv_length, dtype), "sm_100a")[0].id

    assert default(16, 1024) == default(16, 4096) == default(16, 16384) == f"{dtype}_pairs4"
    assert default(32, 1024) == default(32, 4096) == default(32, 16384) == f"{dtype}_pairs2"
    for batch, kv_length in itertools.product((1, 4, 8, 64, 128), (1024, 4096, 16384)):
        assert default(batch, kv_length) == f"{dtype}_softmax8"


def test_some_of_what_is_simulated_is_split():
    lengths = SIZES["several items for each pair, two of them of one request"][1]
    schedule = make_schedule(lengths, 128, 4)
    assert schedule.partials == 2 and len(schedule.items) == 4
    assert make_schedule([1024], 128, PROCESSORS, 1).partials == make_schedule([1024], 128, PROCESSORS).partials == 8


def test_no_empty_request_is_split():
    """The combine kernel could not merge partial results that are all without a key."""
    for lengths in BATCHES.values():
        assert all(lengths[request] > 0 for request, *_ in make_schedule(lengths, 128, PROCESSORS).merges)


@pytest.mark.parametrize(
    ("element_bytes", "groups", "in_place", "pairs"),
    [
        *((2, 2, False, pairs) for pairs in (1, 2, 4)),
        *((1, 2, False, pairs) for pairs in (1, 2, 4)),
        *((2, 1, False, 1), (1, 1, False, 1), (1, 2, True, 1)),
    ],
)
def test_the_budget_fits_an_sm(element_bytes, groups, in_place, pairs):
    sizes = layout.make_sizes(element_bytes, groups, in_place, pairs)
    slot = layout.BOX_BYTES * (sizes.part_boxes * sizes.stage_parts + 1)
    assert sizes.shared_bytes <= layout.SHARED_BYTES < sizes.shared_bytes + slot
    assert layout.O_COLUMN + layout.O_COLUMNS <= layout.TMEM_COLUMNS <= 512
    result = 4 * layout.CTA_ROWS * layout.LATENT  # fp32, all of it: after the last item it goes through the slots
    assert result <= layout.BOX_BYTES * sizes.kv_boxes
    last_p = sizes.p_boxes if sizes.overlaps_last else 0  # at the end of Q's memory
    assert sizes.received_bytes <= layout.BOX_BYTES * (sizes.q_boxes - last_p)
    assert not sizes.overlaps_last or sizes.p_box + sizes.p_last_box == -last_p
    assert 2 ** (sizes.p_log2_scale + sizes.rescale_log2_threshold) <= 448, "P in e4m3"


@pytest.mark.parametrize(("groups", "pairs"), [(1, 1), (2, 1), (2, 2), (2, 4)])
def test_what_is_stored_early_goes_where_no_values_are_still_read(groups, pairs):
    # A CTA's last values lie where its keys were. Behind what is stored before their second half has been read.
    sizes = layout.make_sizes(2, groups, pairs=pairs)
    rounds = sizes.thread_columns * 2 // sizes.store_row_bytes(2)
    warps = sizes.softmax_threads // layout.WARP
    early = (rounds // 2 if sizes.fine_grained else rounds) * warps * layout.STORE_BYTES
    assert sizes.overlaps_last and sizes.stages == 1
    assert early <= layout.BOX_BYTES * sizes.first_box(0, 2)
    assert [sizes.page_and_block(n) for n in range(4)] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert sizes.v_part(0) % (2 * sizes.page_v_parts) == 0 and sizes.k_parts == 2 * sizes.page_v_parts


@pytest.mark.parametrize("pairs", [1, 2, 4])
@pytest.mark.parametrize("element_bytes", [1, 2])
@pytest.mark.parametrize("processors", [32, PROCESSORS])
def test_what_the_device_works_out_of_an_even_plan_is_what_its_table_says(element_bytes, pairs, processors):
    columns = (layout.REQUEST, layout.ROW_BLOCK, layout.BEGIN, layout.END, layout.LENGTH)
    seen = []
    sizes = itertools.product((1, 63, 64, 65, 127, 257, 333, 1024, 4096, 5000, 65536), (1, 2, 3, 7, 16), (1, 128, 512))
    for length, batch, rows in sizes:
        schedule = make_schedule([length] * batch, rows, processors, element_bytes, pairs)
        reciprocal, splits, base, more, reported = schedule.uniform_arguments
        if not reciprocal:
            continue
        seen.append((splits, more > 0))
        assert reported == length and len(schedule.offsets) - 1 == len(schedule.items)
        for pair, item in enumerate(schedule.items):  # as `_first_work` in kernel.py does it
            worker = pair // pairs
            request = (worker * reciprocal) >> layout.RECIPROCAL_BITS
            split = worker - request * splits
            begin = split * base + min(split, more)
            end = begin + base + (split < more)
            if pairs > 1:
                share = max(min(pairs * end, tiles(length)) - pairs * begin, pairs)
                begin, end = (pairs * begin + share * (pair % pairs + n) // pairs for n in range(2))
            result = [request, 0, begin, end, length]
            assert result == [item[column] for column in columns]
    assert {(True, False), (False, False)} <= {(splits > 1, more) for splits, more in seen}
    assert processors > 32 or any(more for _, more in seen), "pieces of two sizes"


def test_ragged_plans_and_those_of_many_rows_are_not_even():
    assert make_schedule([1024, 1023], 128, PROCESSORS).uniform_arguments == (0,) * 5
    assert make_schedule([1024], 129, PROCESSORS).uniform_arguments == (0,) * 5
    assert make_schedule([4096] * 100, 128, PROCESSORS).uniform_arguments == (0,) * 5, "items after each other"


def test_a_worker_divided_by_a_plans_pieces_is_exact():
    for splits in range(1, MOST_EVEN):
        even = Even(splits, 1, 0, 1)
        assert [(n * even.reciprocal) >> layout.RECIPROCAL_BITS for n in range(MOST_EVEN)] == [
            n // splits for n in range(MOST_EVEN)
        ]


def test_a_few_requests_of_a_few_tiles_are_cut_in_16_bits_where_the_card_is_half_empty():
    assert make_schedule([333] * 7, 128, PROCESSORS, 2).partials == 21
    assert make_schedule([333] * 7, 128, PROCESSORS, 1).partials == 0
    assert make_schedule([333] * 30, 128, PROCESSORS, 2).partials == 0


def test_in_place_16_bits_are_refused_since_no_second_tile_fits():
    with pytest.raises(ValueError, match="no room"):
        layout.make_sizes(2, 2, in_place=True)


@pytest.mark.parametrize(("element_bytes", "in_place"), [(1, True), (1, False), (2, False)])
def test_every_box_of_a_slot_is_in_one_part_and_every_column_of_the_keys_too(element_bytes, in_place):
    sizes = layout.make_sizes(element_bytes, 2, in_place)
    boxes = [sizes.first_box(slot, part) for slot in range(sizes.stages) for part in range(sizes.stage_parts)]
    assert boxes == list(range(0, sizes.kv_boxes, sizes.part_boxes))
    pairs = [pair for part in range(sizes.k_parts) for pair in sizes.k_boxes(0, part)]
    pairs.append(sizes.rope_boxes(0))
    assert sorted(q for q, _ in pairs) == list(range(sizes.row_boxes)), "every box of Q meets one of the keys"
    assert sizes.rope_mmas + layout.BOX_MMAS * (sizes.row_boxes - 1) == layout.WIDTH * element_bytes // layout.MMA_BYTES
    values = {sizes.v_part(page) + n for page in range(2) for n in range(sizes.page_v_parts)}
    keys = set(range(sizes.k_parts))
    assert values == keys if in_place else not values & keys
    # In place, what CTA p keeps of its keys for page p are its own columns, 256 p and up.
    if in_place:
        assert all(sizes.part_columns * sizes.v_part(page) == layout.PV_COLUMNS * page for page in range(2))


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


def variant(name: str):
    result = cute_sm100.variants(Workload(1, 64, name.split("_")[0]), "sm_100a")
    return next(candidate for candidate in result if candidate.id == name)


def make(name: str, target: str = "sm_100a") -> Path:
    return build("mla_decode", "cute_sm100", target, variant(name))


EIGHT = [f"{dtype}_softmax8" for dtype in cute_sm100.DTYPES]
IN_PLACE = ["fp8_in_place"]
ALL = [*EIGHT, *(f"{dtype}_softmax4" for dtype in cute_sm100.DTYPES), *IN_PLACE]
PAIRS = ["bf16_pairs4", "fp16_pairs2", "fp8_pairs4"]


def dtype_of(built: Path) -> str:
    return json.loads((built / "build.json").read_text())["variant"]["params"]["dtype"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), [*((name, "sm_100a") for name in ALL + PAIRS), (EIGHT[0], "sm_103a")])
def test_the_build_spills_nothing_and_has_the_products_and_loads_that_are_meant(name, target):
    from ptxsim.timing.sass import code_of

    built = make(name, target)
    made = json.loads((built / "build.json").read_text())
    assert made["status"] == "ok", made["reason"]
    sass = (built / "kernel.sass").read_text()
    assert not {"LDL", "STL"} & {word.split(".")[0] for word in sass.split()}
    params = made["variant"]["params"]
    pairs = params.get("pairs", 1)
    sizes = layout.make_sizes(1 if name.startswith("fp8") else 2, params["groups"], params["in_place"], pairs)
    split = next(symbol for symbol in made["symbols"] if "split_kernel" in symbol)
    assert made["launch"][split]["block"] == [sizes.threads, 1, 1]
    assert made["launch"][split]["cluster"] == [layout.PAIR_CTAS * pairs, 1, 1]
    shared = made["launch"][split]["dynamic_shared_bytes"]
    assert sizes.shared_bytes <= shared <= 232_448
    if pairs == 1 and params["groups"] == 2:  # a CTA of the combine kernel fits next to
        registers = {symbol: code_of(symbol, built / "kernel.cubin").registers for symbol in made["symbols"]}
        threads = {symbol: made["launch"][symbol]["block"][0] for symbol in made["symbols"]}
        assert sum(threads[symbol] * -(-registers[symbol] // 8) * 8 for symbol in threads) <= 65_536
        assert shared + 2 * 1024 + 128 <= 228 * 1024, "1 KB of each CTA is the system's"

    assert "BRA.U.ANY" not in sass, "a product or copy stands in a loop over the lanes: its operands were not uniform"
    opcodes = re.findall(r"\b(UTC[A-Z]*MMA[.\w]*|UTMALDG[.\w]*|UTMASTG[.\w]*|UTCBAR[.\w]*)", sass)
    products = [opcode for opcode in opcodes if "MMA" in opcode]
    # A part of the keys with the rope's share, and a part of the values: each stands there once, in its loops.
    keys, values = sizes.rope_mmas + sizes.part_boxes * layout.BOX_MMAS, sizes.part_pv_blocks * sizes.page_mmas
    assert len(products) == keys + values
    assert all("2CTA" in opcode for opcode in products)
    # Nothing is waited for, or reported, between two products of a part.
    order = re.findall(r"\b(UTC[A-Z]+MMA|SYNCS\.PHASECHK|UTCBAR|LDTM)", sass)
    runs = [len(list(same)) for kind, same in itertools.groupby(order) if kind.endswith("MMA")]
    assert runs == [keys, values]
    assert "R2UR.FILL" not in sass, "descriptors do not fit the uniform registers"
    # A part by one load, and a rope by one: of Q, of the keys (in place at two places), and of the values.
    loads = 2 + (2 * 2 if sizes.in_place else 2) + 1
    assert len([opcode for opcode in opcodes if opcode.startswith("UTMALDG")]) == loads
    assert len([opcode for opcode in opcodes if opcode.startswith("UTMASTG")]) == 1  # not of partial results
    # A commit for a part of the keys (in place they are not the last that is read of it) and one of the values, for the
    # scores, for Q, for O, and for half of it where that is stored or sent early.
    commits = (4 if sizes.in_place else 5) + sizes.overlaps_last
    assert len([opcode for opcode in opcodes if "MULTICAST" in opcode]) == commits
    # A chunk of a block is sent in one loop, 16 bytes at a time, and a row's log-sum-exp to each of the other pairs.
    # The allocation of tensor memory by a pair is such a store, too.
    sent = re.findall(r"\bSTAS(?:\.128)?(?= )", sass)
    assert sent.count("STAS.128") == (0 if pairs == 1 else layout.CHUNK // 8)
    assert sent.count("STAS") == pairs


@pytest.mark.slow
def test_ptx_for_sm_103a_is_that_for_sm_100a() -> None:
    """So what the simulator says of one holds for both."""
    there, local = ((make(EIGHT[0], target) / "kernel.ptx").read_text() for target in ("sm_103a", "sm_100a"))
    assert ".target sm_103a" in there and there.replace(".target sm_103a", ".target sm_100a") == local


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["fp16_softmax8", "fp8_in_place"])
def test_a_launch_does_what_the_record_of_counts_says(variant) -> None:
    from sm100_runs import counted

    result = counted(variant)
    assert result == json.loads(COUNTS.read_text())[variant]
    step = 16 if variant.startswith("fp16") else 32
    shapes = [f"cta_group::2 {layout.TILE_ROWS}x{columns}x{step}" for columns in (layout.TILE_KEYS, layout.PV_COLUMNS)]
    assert [product.partition(" ")[2] for product in result["products"]] == shapes
    assert 1 <= result["flops"] <= 1.02 and 1 <= result["bytes_once"] <= 1.05


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
    "several items for each pair": (Workload(5, 700, paged=True), None, 4),
    "several items for each pair, two of them of one request": (Workload(3, 3500, paged=True), [3500, 60, 60], 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [EIGHT[0], EIGHT[2], *IN_PLACE])
def test_results_in_the_simulator(name, size):
    # With NaN and wild page-table entries past the requests' ends. Right under every schedule, and no finding.
    import ptxsim
    from sm100_runs import faults

    workload, lengths, processors = SIZES[size]
    built = make(name)
    workload = dataclasses.replace(workload, dtype=dtype_of(built))
    assert list(faults(built, workload, ptxsim.DEFAULT_SCHEDULES, lengths, processors)) == []


SHARED = {
    "one key for all pairs": (Workload(1, 1), None, 8),
    "items after each other, one empty": (Workload(3, 700, heads=40, query_tokens=2, paged=True), [300, 0, 700], 8),
}


@pytest.mark.slow
@pytest.mark.parametrize("size", SHARED)
@pytest.mark.parametrize("name", PAIRS)
def test_results_of_pairs_that_share_requests(name, size):
    from sm100_runs import faults

    workload, lengths, processors = SHARED[size]
    built = make(name)
    workload = dataclasses.replace(workload, dtype=dtype_of(built))
    schedules = [(order, 0) for order in ("random", "tma_late", "warps")]
    assert list(faults(built, workload, schedules, lengths, processors)) == []


@pytest.mark.slow
def test_what_clusters_have_merged_the_combine_kernel_merges():
    from sm100_runs import faults

    length, processors = 2000, 8
    assert make_schedule([length], 16, processors, pairs=2).partials == 2
    workload = Workload(1, length, "fp16", heads=16, paged=True)
    assert list(faults(make("fp16_pairs2"), workload, [("random", 0)], processors=processors)) == []


def in_splits(parts):
    """Partial results of up to 32 rows as they lie in memory.

    8 columns of all rows, then the next 8.
    """
    import torch

    place = torch.full((len(parts), layout.WARP, layout.LATENT), math.nan, dtype=parts.dtype)
    shape = (len(parts), layout.LATENT // layout.VECTOR, layout.WARP, layout.VECTOR)
    cut = parts.view(*parts.shape[:2], -1, layout.VECTOR).transpose(1, 2)
    place.view(shape)[:, :, : parts.shape[1]] = cut
    return place


@pytest.mark.slow
@pytest.mark.parametrize(
    "partials",  # a lane adds up to 4, 8 or 12 at once, and more of them in a loop
    [2, 5, 33, *(pytest.param(n, marks=pytest.mark.by_hand) for n in (9, 12, 13, 17, 24, 25, 32, 47, 48, 49, 70))],
)
@pytest.mark.parametrize("name", EIGHT)
def test_the_combine_kernel_by_itself_is_right_under_every_schedule(name, partials):
    # Of any partial results, one of which has seen no key. By as many warps to a row as it may have.
    import torch

    import ptxsim
    from kernels.mla_decode.operator import make_inputs, make_outputs

    built, rows = make(name), 12
    workload = Workload(1, 300, dtype_of(built), heads=rows)
    inputs, outputs = make_inputs(workload, 0, "cpu"), make_outputs(workload)
    values = list(cute_sm100.arguments(workload, inputs, outputs, make_schedule([300], rows, PROCESSORS)))
    kind, draw = values[8].dtype, torch.Generator().manual_seed(partials)
    parts = torch.randn(partials, rows, layout.LATENT, generator=draw).to(kind)
    sums = 9 * torch.randn(partials, rows, generator=draw)
    parts[1], sums[1] = 0, -math.inf
    weights = (sums.double() - sums.double().max(0).values).exp2()
    expected = (weights[..., None] * parts.double()).sum(0) / weights.sum(0)[:, None]
    natural = (sums.double().max(0).values + weights.sum(0).log2()) * math.log(2)
    module, stream = ptxsim.Module.from_file(built / "kernel.ptx"), ptxsim.Pointer(torch.zeros(1), "stream")
    schedules = (*ptxsim.DEFAULT_SCHEDULES, *(("warps", seed) for seed in range(20)))
    for number, (order, seed) in enumerate(schedules):
        values[7:10] = torch.tensor([[0, 0, partials, 0]], dtype=torch.int32), in_splits(parts), sums
        values[13] = (1, 2, 4, 8)[number % 4]
        outputs.out.zero_()
        outputs.lse.zero_()
        arguments = (*values, stream)
        launches = ptxsim.capture(built / "kernel.o", cute_sm100.FUNCTION, arguments, module, sm_count=PROCESSORS)
        assert [launch.early for launch in launches] == [True, True]
        assert ptxsim.run(launches[1], order, seed).findings == []
        out = outputs.out.view(rows, layout.LATENT).double()
        assert (out - expected).norm() / expected.norm() < (4e-2 if name.startswith("fp8") else 4e-3)
        assert (outputs.lse.view(rows).double() - natural).abs().max() < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize("name", [EIGHT[1], EIGHT[2]])
def test_more_partial_results_than_a_warp_has_lanes_are_merged(name):
    from sm100_runs import faults

    built = make(name)
    workload = Workload(1, 4500, dtype_of(built), heads=16, paged=True)
    assert make_schedule([workload.kv_length], 16, PROCESSORS, 1 if name.startswith("fp8") else 2).partials > 32
    assert list(faults(built, workload, [("random", 0)], [workload.kv_length])) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [EIGHT[1], *IN_PLACE])
def test_a_pair_looks_up_the_pages_of_a_long_request_three_times(name):
    from sm100_runs import faults

    built = make(name)
    workload = Workload(1, 4500, dtype_of(built), paged=True)
    assert list(faults(built, workload, [("random", 0), ("tma_late", 0)], processors=layout.PAIR_CTAS)) == []


@pytest.mark.slow
@pytest.mark.parametrize("kv_length", [1, 63, 64, 65, 127, 257, 1024, pytest.param(4096, marks=pytest.mark.by_hand)])
@pytest.mark.parametrize("dtype", cute_sm100.DTYPES)
def test_sizes_drawn_at_random_are_right(dtype, kv_length):
    from sm100_runs import faults

    draw = random.Random(f"{dtype} {kv_length}")
    batch = draw.choice([1, 2] if kv_length > 1000 else [1, 2, 7])
    heads, tokens = draw.choice([1, 16, 128]), min(draw.choice([1, 4]), kv_length)
    workload = Workload(batch, kv_length, dtype, tokens, heads, paged=True)
    built = make(cute_sm100.variants(workload, "sm_100a")[0].id)
    assert list(faults(built, workload, [("random", 0), ("late", 0), ("warps", 0)])) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [EIGHT[0], *IN_PLACE])
def test_a_cta_waits_for_every_release_of_its_memory_before_it_ends(name):
    from sm100_runs import unawaited_releases

    built = make(name)
    assert list(unawaited_releases(built, Workload(1, 257, dtype_of(built), paged=True))) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.by_hand if "softmax4" in name or name == EIGHT[1] else ()) for name in ALL],
)
def test_warps_of_very_different_speed_change_nothing(name):
    from sm100_runs import faults

    built = make(name)
    schedules = [("warps", seed) for seed in range(20)]
    assert list(faults(built, Workload(2, 700, dtype_of(built), paged=True), schedules, processors=4)) == []
