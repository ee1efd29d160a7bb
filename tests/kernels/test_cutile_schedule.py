"""Kernel `cutile` of mla_decode.

How ragged requests are cut into items, and what a binding launches for them.

The device code is played by PyTorch here, from what its documentation says that it reads and writes.
"""

import json
import math
import random
import statistics
from collections.abc import Iterator, Sequence

import pytest
import torch

from cutesnake.model.paths import ROOT
from kernels.mla_decode import cutile
from kernels.mla_decode import operator as mla
from kernels.mla_decode.cutile import plan as planning
from kernels.mla_decode.cutile import run
from kernels.mla_decode.cutile.plan import Plan, Tiling
from kernels.mla_decode.cutile.schedule import Item, Schedule, chunk_sizes, make_schedule, makespan

WIDE, NARROW, UNDIVIDED = Tiling(128, 64, 2), Tiling(64, 64, 4), Tiling(64, 64, 1)
LENGTHS = ((1,), (0,), (0, 0, 0), (1, 0, 64, 65, 4096, 127), (4096,) * 7, (300, 20_000, 5), (1,) * 300)


def log_uniform(batch: int, top: int, seed: int = 0) -> tuple[int, ...]:
    """Lengths as a serving engine has them: many short requests, a few long ones."""
    draw = random.Random(seed)
    return tuple(int(math.exp(draw.uniform(0.0, math.log(top + 1)))) for _ in range(batch))


def choose(lengths: Sequence[int], rows: int = 128, multiprocessors: int = 132) -> Plan:
    return planning.choose_plan(planning.Problem(tuple(lengths), rows, 512, 64), WIDE, NARROW, multiprocessors)


def sizes(items: Sequence[Item]) -> list[int]:
    return [item.end - item.begin for item in items]


def items_of(schedule: Schedule) -> tuple[Item, ...]:
    return schedule.splits + schedule.whole


def estimate_us(lengths: Sequence[int], plan: Plan) -> float:
    return planning.Estimate(planning.Problem(tuple(lengths), 128, 512, 64), plan, 132).us


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("chunk", [1, 3, 64, 10_000])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_items_cover_every_tile_of_every_request_once(lengths, chunk, direct, even) -> None:
    schedule = make_schedule(lengths, 64, chunk, direct, even)
    ranges: dict[int, list[tuple[int, int]]] = {request: [] for request in range(len(lengths))}
    for item in items_of(schedule):
        assert item.length == lengths[item.request] and item.end - item.begin <= chunk
        ranges[item.request].append((item.begin, item.end))
    for request, result in ranges.items():
        edges = [0, *(end for _, end in sorted(result))]
        assert [begin for begin, _ in sorted(result)] == edges[:-1] and edges[-1] == -(-lengths[request] // 64)
        lengths_of_splits = [end - begin for begin, end in sorted(result)]
        if even:
            assert max(lengths_of_splits) - min(lengths_of_splits) <= 1
        else:
            assert all(length == chunk for length in lengths_of_splits[:-1])
            assert lengths_of_splits[-1] > 0 or lengths[request] == 0


@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_each_piece_has_a_partial_result_of_its_own_and_is_merged_in_order(lengths, direct) -> None:
    schedule = make_schedule(lengths, 64, 5, direct)
    splits = {item.partial: item for item in schedule.splits}
    merged = [index for merge in schedule.merges for index in range(merge.first, merge.first + merge.splits)]
    assert sorted(splits) == merged == list(range(len(schedule.splits)))
    for merge in schedule.merges:
        items = [splits[index] for index in range(merge.first, merge.first + merge.splits)]
        assert {item.request for item in items} == {merge.request}
        assert [item.begin for item in items] == sorted(item.begin for item in items)
    assert not {item.request for item in schedule.whole} & {merge.request for merge in schedule.merges}
    assert direct or not schedule.whole or not schedule.splits


def test_the_longest_items_start_first() -> None:
    schedule = make_schedule(log_uniform(50, 8192), 64, 9)
    for items in (schedule.splits, schedule.whole):
        assert sizes(items) == sorted(sizes(items), reverse=True) and len(items) > 10


@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("direct", [True, False])
@pytest.mark.parametrize("chunk", [1, 4, 33, 1000])
def test_a_plan_is_judged_by_the_items_that_are_made(chunk, direct, even) -> None:
    lengths = (*log_uniform(40, 16_384), 0)
    schedule = make_schedule(lengths, 64, chunk, direct, even)
    estimate = planning.Estimate(planning.Problem(lengths, 128, 512, 64), Plan(WIDE, chunk, direct, even), 132)
    assert sorted(estimate._splits.elements()) == sorted(sizes(schedule.splits))
    assert sorted(estimate._whole.elements()) == sorted(sizes(schedule.whole))
    assert estimate.items == len(items_of(schedule))


# Plans timed on GPUs: benchmarks/mla_cutile/README.md says how and what the columns are.
FOLDER = ROOT / "benchmarks" / "mla_cutile"
TRIED = [json.loads((FOLDER / f"tried_plans_{gpu}.json").read_text()) for gpu in ("h100", "h200")]


def tried(row: dict) -> Iterator[tuple[float, float]]:
    """Yield estimate and warm time of each timed plan that `merging` would choose."""
    work = workload_of(row["workload"])
    problem = planning.Problem(mla.request_lengths(work), work.heads * work.query_tokens, 512, 64)
    for rows, parts, chunk, direct, even, many, compared, warm, _ in row["plans"]:
        estimate = planning.Estimate(problem, Plan(Tiling(rows, 64, parts), chunk, direct, even), 132)
        if estimate.merging in (None, planning.Merging(many, compared)):
            yield estimate.us, warm


def workload_of(name: str) -> mla.Workload:
    parts = name.split("_")
    sizes = [int(part[1:]) for part in parts[:3]]
    heads = [int(part[1:]) for part in parts if part[0] == "h"]
    ragged = {"lengths": "ragged"} if "ragged" in parts else {}
    return mla.Workload(sizes[0], sizes[2], query_tokens=sizes[1], **({"heads": heads[0]} if heads else {}), **ragged)


@pytest.mark.parametrize("gpu", TRIED, ids=lambda gpu: gpu["device"])
def test_of_the_plans_that_a_card_timed_the_cheapest_by_estimate_is_near_the_fastest(gpu) -> None:
    behind = {}
    for row in gpu["rows"]:
        result = list(tried(row))
        behind[row["workload"]] = min(result)[1] / min(warm for _, warm in result)
    assert statistics.geometric_mean(behind.values()) < 1.005
    assert max(behind.values()) < 1.05, max(behind, key=behind.get)


@pytest.mark.parametrize("gpu", TRIED, ids=lambda gpu: gpu["device"])
def test_an_estimate_is_near_what_a_card_measured(gpu) -> None:
    # Of plans up to a third slower than the fastest. Rows of few heads wait for DRAM, of which no price knows.
    off = []
    for row in gpu["rows"]:
        if "_h" in row["workload"]:
            continue
        result = list(tried(row))
        off += [abs(math.log(us / warm)) for us, warm in result if warm < 1.33 * min(warm for _, warm in result)]
    assert len(off) > 300 and statistics.fmean(off) < 0.06


def test_items_of_a_little_more_than_half_the_longest_request_are_thought_of() -> None:
    assert chunk_sizes(61, 132)[:9] == [61, 55, 49, 45, 41, 38, 35, 33, 31] and chunk_sizes(61, 132)[-1] == 1
    assert chunk_sizes(61, 1) == [61] and chunk_sizes(0, 132) == [1]
    assert choose(mla.request_lengths(mla.Workload(256, 4096, lengths="ragged"))).chunk == 41


def test_the_makespan_of_list_scheduling() -> None:
    # By hand. 4 and 3 start on two processors, then 2 at time 3, 2 at 4 and 1 at 5.
    assert makespan([(4.0, 1), (3.0, 1), (2.0, 2), (1.0, 1)], 2) == 6.0
    assert makespan([(2.0, 5)], 2) == 6.0


@pytest.mark.parametrize("lengths", LENGTHS)
def test_no_plan_takes_less_than_its_bound(lengths) -> None:
    problem = planning.Problem(tuple(lengths), 128, 512, 64)
    for plan in planning.candidates(problem, WIDE, NARROW, 132):
        estimate = planning.Estimate(problem, plan, 132)
        assert estimate.least_us <= estimate.us * (1 + 1e-9)


def test_a_long_request_fills_the_device_and_many_are_not_split() -> None:
    assert choose([65536]) == Plan(WIDE, 16, direct=False)  # 64 pieces of two blocks each on 132 multiprocessors
    assert choose([1024]) == Plan(NARROW, 1, direct=False)
    assert choose([4096] * 128) == Plan(WIDE, 64, direct=False)
    assert not make_schedule([64], 64, choose([64]).chunk).merges


def test_a_ragged_batch_may_have_pieces_of_one_length_and_the_rest_of_each_request() -> None:
    # The device is then shared more evenly. What remains of a request fills it where full pieces have ended.
    lengths = mla.request_lengths(mla.Workload(64, 16_384, lengths="ragged"))
    plan = choose(lengths)
    assert not plan.even
    problem = planning.Problem(lengths, 128, 512, 64)
    even = [plan for plan in planning.candidates(problem, WIDE, NARROW, 132) if plan.even]
    assert estimate_us(lengths, plan) <= 0.99 * min(estimate_us(lengths, plan) for plan in even)


def test_uniform_requests_are_split_alike() -> None:
    for batch, length in ((4, 4096), (16, 8192), (32, 1024)):
        schedule = make_schedule([length] * batch, 64, choose([length] * batch).chunk)
        assert not schedule.whole and len({merge.splits for merge in schedule.merges}) == 1


@pytest.mark.parametrize("top", [4096, 8192, 16_384])
@pytest.mark.parametrize("batch", [24, 48, 133, 256])
def test_ragged_requests_take_little_more_than_work_shared_evenly(batch, top) -> None:
    # Within 1.6 times what no schedule can beat, where a split by the longest request takes several times as long.
    for seed in range(3):
        lengths = log_uniform(batch, top, seed)
        tiles = sum(-(-length // 64) for length in lengths)
        alone = [estimate_us([size * 64], Plan(WIDE, 10_000)) for size in (1, 2)]
        per_tile, per_item = alone[1] - alone[0], 2 * alone[0] - alone[1]
        even = 2 * (per_tile * tiles + per_item * batch) / 132
        assert estimate_us(lengths, choose(lengths)) <= 1.6 * even + 12.0


def test_a_plan_depends_on_the_lengths_alone_and_not_on_their_order() -> None:
    lengths = list(log_uniform(48, 8192))
    plan = choose(lengths)
    random.Random(1).shuffle(lengths)
    assert choose(lengths) == plan


def test_blocks_cover_every_row_and_part() -> None:
    assert [WIDE.blocks(rows) for rows in (1, 128, 129, 512)] == [2, 2, 4, 8]
    assert NARROW.blocks(128) == 8


def test_more_requests_than_a_grid_has_room_for_are_refused() -> None:
    assert cutile.supports(mla.Workload(65_535, 64)) is None
    assert "65535" in cutile.supports(mla.Workload(65_536, 64))
    assert len(make_schedule([0] * 65_535, 64, choose([0] * 65_535).chunk).whole) == 65_535


class Played:
    """In place of a launch: the device function that `function` names, in PyTorch."""

    def __init__(self, function, symbol, grid, values, overlap=False) -> None:
        self.launch = (symbol, overlap)
        self.grid, self._play, self._values = grid, function, values

    def __call__(self, stream: int) -> None:
        self._play(self.grid, *self._values)


def play_attention(tiling: Tiling, whole: bool, waits: bool = False):
    """The kernels of kernel.py that take items: see the comments above them.

    If it `waits`, its last item is of no request.
    """

    def play(grid, q, cache, table, items, *rest) -> None:
        results, results_lse, *units, scale_log2, heads, causal_tokens = rest
        assert grid == (tiling.blocks(q.shape[1]), len(items), 1)
        rows = items.tolist()
        assert not waits or rows.pop() == [len(q), 0, 0, 0, 0]
        for request, length, begin, end, partial in rows:
            first, last = begin * tiling.keys, min(end * tiling.keys, length)
            keys = cache[table[request, : -(-length // mla.PAGE)].long()].flatten(0, 1)[first:last].float()
            visible = length + (torch.arange(q.shape[1]) // heads - (causal_tokens - 1)).clamp(max=0)
            scores = q[request].float() @ keys.T * scale_log2
            scores = scores.masked_fill(torch.arange(first, last)[None, :] >= visible[:, None], -math.inf)
            weights = torch.exp2(scores - scores.amax(1, keepdim=True)) if last > first else scores
            weights = weights.nan_to_num(0.0)
            total = weights.sum(1)
            out = weights @ keys[:, :512] / torch.where(total > 0, total, 1.0)[:, None]
            lse = scores.amax(1) + torch.log2(total) if last > first else torch.full_like(total, -math.inf)
            lse = torch.where(total > 0, lse, -math.inf)
            if whole:
                results[request] = out.to(q.dtype)
                results_lse[request] = torch.where(lse > -math.inf, lse * math.log(2.0), math.inf)
            elif units:
                unit = out.abs().amax(1).clamp(min=1e-30) * 2.0**-15
                results[partial], results_lse[partial], units[0][partial] = out / unit[:, None], lse, unit
            else:
                results[partial], results_lse[partial] = out, lse

    return play


def play_combine_scaled(grid, partial, partial_lse, unit, merges, out, lse) -> None:
    assert partial.dtype == torch.float16
    play_combine(grid, partial.float() * unit[..., None], partial_lse, merges, out, lse)


def play_combine(grid, partial, partial_lse, merges, out, lse) -> None:
    assert grid[1] == len(merges) and partial.dtype == torch.float32
    for request, first, splits in merges.tolist():
        result = partial_lse[first : first + splits] * math.log(2.0)
        total = torch.logsumexp(result, 0)
        weights = torch.exp(result - total).nan_to_num(0.0)
        out[request] = (weights[..., None] * partial[first : first + splits]).sum(0).to(out.dtype)
        lse[request] = torch.where(total > -math.inf, total, math.inf)


class PlayedBuild:
    """A build of the default variant whose functions are played by PyTorch."""

    def __init__(self) -> None:
        self.params = cutile.variants(mla.Workload(1, 64), "sm_90a")[0].params
        self._functions = {"combine": play_combine, "combine_many": play_combine}
        self._functions |= {f"{stem}_scaled": play_combine_scaled for stem in self._functions}
        for suffix, tiling in (("", WIDE), ("_narrow", NARROW)):
            self._functions[f"whole{suffix}"] = play_attention(tiling, whole=True)
            self._functions[f"kernel{suffix}"] = play_attention(tiling, whole=False)
        self._functions["undivided"] = play_attention(UNDIVIDED, whole=True)
        self._functions["undivided_first"] = play_attention(UNDIVIDED, whole=False)
        self._functions["undivided_rest"] = play_attention(UNDIVIDED, whole=True, waits=True)
        self._functions |= {"first": play_attention(WIDE, whole=False), "rest": play_attention(WIDE, whole=True)}

    def cubin_function(self, stem: str, symbol: str):
        assert cutile.SYMBOLS[stem] == symbol
        return self._functions[stem]


@pytest.fixture
def build(monkeypatch) -> PlayedBuild:
    monkeypatch.setattr(run, "TileLaunch", Played)
    monkeypatch.setattr(run, "multiprocessors", lambda: 132)
    return PlayedBuild()


PLANS = [
    None,
    Plan(WIDE, 10_000),
    Plan(WIDE, 2),
    Plan(WIDE, 2, even=False),
    Plan(WIDE, 2, direct=False),
    Plan(NARROW, 3, direct=False),
    Plan(NARROW, 10_000),
    Plan(UNDIVIDED, 10_000),
    Plan(UNDIVIDED, 2),
    Plan(UNDIVIDED, 2, even=False),
    Plan(UNDIVIDED, 2, direct=False),
]


@pytest.mark.parametrize(("tokens", "plan"), [*((3, plan) for plan in PLANS), *((1, plan) for plan in PLANS[::3])])
def test_what_is_launched_computes_attention_whatever_the_plan(tokens, plan, build) -> None:
    lengths = torch.tensor([0, 1, 2, 3, 64, 65, 321, 700], dtype=torch.int32)
    workload = mla.Workload(8, 700, heads=9, query_tokens=tokens)
    inputs, outputs = mla.make_inputs(workload, 0), mla.make_outputs(workload)
    inputs.kv_lengths.copy_(lengths)
    runner = run.bind(build, workload, inputs, outputs, plan)
    runner(0)
    reference = mla.reference(inputs, workload)
    assert (outputs.out.float() - reference.out).norm() <= 5e-3 * reference.out.norm()
    assert torch.allclose(outputs.lse, reference.lse, atol=1e-4)  # +inf where a row sees no key
    blind = torch.arange(tokens)[None, :] < tokens - lengths[:, None]  # query tokens that see no key
    assert (outputs.out[blind] == 0).all() and (outputs.lse[blind] == math.inf).all()


@pytest.mark.parametrize(
    ("lengths", "plan", "stem", "compared"),
    [
        (
            (8192,),
            Plan(UNDIVIDED, 2, direct=False),
            "combine_many_scaled",
            False,
        ),  # 64 pieces, 128 blocks on 132 processors
        (
            (8192,),
            Plan(UNDIVIDED, 4, direct=False),
            "combine_many_scaled",
            True,
        ),  # 64 blocks leave room for the blocks of combine
        ((8192,) * 4, Plan(UNDIVIDED, 8, direct=False), "combine_many_scaled", True),  # 16 pieces are read soon enough
        ((8192,) * 7, Plan(UNDIVIDED, 2, direct=False), "combine_scaled", False),  # and 896 rows are many
        ((8192, 64), Plan(UNDIVIDED, 2), "combine_many_scaled", True),  # a whole request's blocks are in between
        ((8192,), Plan(NARROW, 8, direct=False), "combine_many", True),  # lets combine start when its blocks have ended
        ((8192,) * 4, Plan(NARROW, 8, direct=False), "combine", True),
    ],
)
def test_a_combine_that_would_crowd_few_multiprocessors_comes_after_the_blocks(
    lengths, plan, stem, compared, build
) -> None:
    batch = len(lengths)
    workload = mla.Workload(batch, 8192)
    q, cache, table = torch.zeros(batch, 1, 128, 576), torch.zeros(1, mla.PAGE, 576), torch.zeros(batch, 128)
    inputs = mla.Inputs(q, cache, table.int(), torch.tensor(lengths, dtype=torch.int32), workload.softmax_scale)
    outputs = mla.make_outputs(workload)
    *_, merged = run.bind(build, workload, inputs, outputs, plan).launches
    assert merged == (cutile.SYMBOLS[stem], compared)


def test_lengths_that_the_page_table_has_no_room_for_are_refused(build) -> None:
    workload = mla.Workload(3, 100)
    inputs, outputs = mla.make_inputs(workload, 0), mla.make_outputs(workload)
    for length in (129, -1):
        inputs.kv_lengths[1] = length
        with pytest.raises(ValueError, match=f"request 1 has kv length {length}; its page table holds 0 to 128"):
            run.bind(build, workload, inputs, outputs)


def test_blocks_have_the_whole_latent_width_where_the_build_has_such_and_requests_are_not_short() -> None:
    def chosen(lengths: Sequence[int], rows: int = 128) -> Plan:
        return planning.choose_plan(planning.Problem(tuple(lengths), rows, 512, 64), WIDE, NARROW, 132, UNDIVIDED)

    assert chosen([4096] * 64) == Plan(UNDIVIDED, 64, direct=False)
    for lengths in ([4096] * 32, log_uniform(133, 16_384)):
        for rows in (16, 64, 128):
            assert chosen(lengths, rows).tiling == UNDIVIDED and chosen(lengths, rows).chunk < max(lengths) / 64
    assert chosen([1024]) == choose([1024]) == Plan(NARROW, 1, direct=False)
    assert "undivided_rows" not in cutile.variants(mla.Workload(1, 64, "fp8"), "sm_90a")[0].params


def test_the_narrow_tiling_refuses_whole_requests_next_to_splits(build) -> None:
    workload = mla.Workload(2, 700)
    inputs, outputs = mla.make_inputs(workload, 0), mla.make_outputs(workload)
    inputs.kv_lengths[0] = 5
    with pytest.raises(ValueError, match="without `direct`"):
        run.bind(build, workload, inputs, outputs, Plan(NARROW, 2, direct=True))


@pytest.mark.parametrize(
    ("tiling", "stems"),
    [
        (WIDE, ("first", "rest", "combine")),
        (UNDIVIDED, ("undivided_first", "undivided_rest", "combine_scaled")),
    ],
)
def test_a_batch_of_short_and_long_requests_is_launched_in_three_kernels_that_may_overlap(tiling, stems, build) -> None:
    workload = mla.Workload(3, 700)
    inputs, outputs = mla.make_inputs(workload, 0), mla.make_outputs(workload)
    inputs.kv_lengths.copy_(torch.tensor([5, 700, 100]))
    launches = run.bind(build, workload, inputs, outputs, Plan(tiling, 4)).launches
    assert [launch[0] for launch in launches] == [cutile.SYMBOLS[stem] for stem in stems]
    assert [launch[1] for launch in launches] == [False, True, True]
