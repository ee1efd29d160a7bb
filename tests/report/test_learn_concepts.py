"""Concepts on learners' pages: numbers of kernels, of problems, and of changed hand-overs."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from cutesnake.model.paths import ROOT
from cutesnake.model.records.anatomy import Anatomy, AnatomyFunction
from cutesnake.report.learn import concepts, handover
from cutesnake.report.learn.concepts import Facts, cut, facts_of, first_uses, schedule
from cutesnake.report.learn.goals import read_goals
from cutesnake.report.learn.page import Asked, render
from partial_records import filled

PAIR = Facts(
    kernel="gemm/pair",
    tile=(256, 256, 64),
    ctas=2,
    cluster=2,
    bits=16,
    stages=6,
    names=("a", "b"),
    other_bytes=16_640,
    limit=232_448,
    accumulators=2,
    columns=512,
    persistent=True,
    masked=True,
    processors=148,
    rings=[],
)


def record(b_bytes=16_384):
    """An anatomy record of a pair's product, as far as the concepts need it."""

    def barrier(offset, count, kind, role, waits, per_phase=1.0):
        arrivals = [{"kind": kind, "role": role, "per_phase": per_phase}]
        where = {"offset": offset, "from_other_cta": True}
        return {**where, "count": count, "arrivals": arrivals, "waits": [{"role": waits}]}

    full = barrier(0, 1, "threads", "load", "multiply")
    full["arrivals"].append({"kind": "copy", "role": "load", "per_phase": 4.0})
    barriers = [full, barrier(48, 1, "commit", "multiply", "load"), barrier(96, 1, "commit", "multiply", "epilogue")]
    barriers.append(barrier(112, 8, "threads", "epilogue", "multiply", 8.0))
    buffers = [{"tensors": ["a"], "stages": 6, "stage_bytes": 16_384}, {"tensors": ["b"], "stages": 6}]
    buffers[1]["stage_bytes"] = b_bytes
    function = {
        "products": [{"shape": [256, 256, 16], "cta_group": 2, "types": {"a": "f16"}}],
        "pipelines": [
            {
                "name": "a, b: load → multiply",
                "stages": 6,
                "full_offsets": [0],
                "empty_offsets": [48],
                "fields": ["ab"],
            },
            {"name": "sums", "stages": 2, "full_offsets": [96], "empty_offsets": [112], "fields": []},
        ],
        "barriers": barriers,
        "shared": {"buffers": buffers, "dynamic_bytes": 213_248, "limit_bytes": 232_448},
        "host": {"cluster": [2, 1, 1]},
        "tensor_memory": {"columns": 512, "accumulators_at": [0]},
        "registers": {"per_thread": 168},
        "roles": [{"name": "load", "warps": [5], "registers": [], "some": {}}],
        "patterns": {
            name: {"found": True, "evidence": "it was seen", "lines": []}
            for name in ("persistent loop", "boundary handling", "pipeline drain")
        },
    }
    return filled(
        Anatomy, {"operator": "gemm", "kernel": "pair", "functions": [function], "grids": [{"processors": 148}]}
    )


def test_numbers_of_a_kernel_follow_its_record() -> None:
    facts = facts_of(record())
    assert facts is not None and replace(facts, rings=[]) == PAIR
    loads, sums = facts.rings
    assert loads.expects == 65_536 and loads.full == (1, "1 x arrive of load", "multiply")
    assert sums.expects is None and "256 columns" in sums.holds and sums.empty[0] == 8
    assert facts_of(record(b_bytes=8_192)) is None  # the buffers are not A and B of this product


def test_a_kernel_without_products_has_no_numbers_here() -> None:
    empty = filled(Anatomy, {"functions": [], "grids": []})
    assert facts_of(empty) is None and concepts.examples({"a": empty}) is None


def test_what_a_change_of_a_constant_changes() -> None:
    assert (PAIR.stage_bytes, PAIR.most_stages, PAIR.columns_each, PAIR.products_per_stage) == (32_768, 6, 256, 4)
    assert replace(PAIR, bits=8).most_stages == 13
    alone = dict(concepts.variations(PAIR))["one CTA, with its part of M"]
    assert alone.stage_bytes == 49_152 and alone.most_stages == 4 and alone.tile == (128, 256, 64)


@pytest.mark.parametrize(
    ("sizes", "tiles", "steps", "ctas", "rounds", "last", "kept"),
    [((256, 256, 328), (1, 1), 6, 2, 1, 1, 85), ((4096, 4096, 64), (16, 16), 1, 148, 4, 34, 100)],
)
def test_a_problem_becomes_tiles_and_rounds(sizes, tiles, steps, ctas, rounds, last, kept) -> None:
    one = cut(PAIR, sizes)
    assert (one.tiles, one.steps, one.ctas, one.rounds, one.last) == (tiles, steps, ctas, rounds, last)
    assert one.useful_percent == kept


def test_a_plain_kernel_launches_all_its_tiles() -> None:
    one = cut(replace(PAIR, persistent=False), (4096, 4096, 64))
    assert one.ctas == 512 and one.rounds == 4


def test_uses_of_a_ring_alternate_parities_and_wait_for_the_release_a_round_before() -> None:
    rows = {row["use"]: row for row in first_uses(6)}
    assert rows[0]["freed"] is None and (rows[0]["full"], rows[0]["empty"]) == (0, 1)
    assert rows[7]["freed"] == 1 and (rows[7]["stage"], rows[7]["full"], rows[7]["empty"]) == (1, 1, 0)


def test_two_accumulators_hide_the_shorter_of_main_loop_and_epilogue() -> None:
    assert schedule(8, 3, 4, 1)[-1][1] == 44 and schedule(8, 3, 4, 2)[-1][1] == 35
    assert schedule(3, 8, 4, 2)[-1][1] == 3 + 4 * 8  # the epilogue is what takes longer


def test_ptxsim_reports_each_changed_hand_over_as_the_page_explains_it() -> None:
    kinds = {one.change.name: set(one.kinds) for one in handover.outcomes()}
    hangs = ("no arrival", "count 2", "256 bytes announced", "64 bytes announced")
    assert kinds["nothing"] == {"right"} and kinds["each lane reads word 0"] == {"wrong"}
    assert kinds["no wait"] == {"race", "uninitialised"}
    assert kinds["wait for parity 1"] == {"deadlock", "uninitialised"}
    assert all(kinds[name] == {"deadlock"} for name in hangs)
    assert kinds["copy and announce 256 bytes"] == {"out-of-bounds"}


def test_a_change_that_changes_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="has no 'WAIT me'"):
        handover.exhibit(handover.Change("odd", "WAIT me", "", ""))


def test_online_softmax_and_the_merge_of_splits_give_the_attention_of_all_keys() -> None:
    scores, values = ((1, 3), (2, 5)), ((10, 20), (30, 40))
    weights = [math.exp(score) for block in scores for score in block]
    wanted = sum(w * v for w, v in zip(weights, (10, 20, 30, 40), strict=True)) / sum(weights)
    last = concepts.online_softmax(scores, values)[-1]
    assert last["o"] / last["l"] == pytest.approx(wanted) and last["f"] == pytest.approx(math.exp(-2))
    parts = [concepts.online_softmax([s], [v])[0] for s, v in zip(scores, values, strict=True)]
    assert concepts.merged(parts) == pytest.approx(wanted)


def test_requests_are_split_until_all_pairs_work() -> None:
    assert concepts.splits(1, 8_192, 74)["splits"] == 64 and concepts.splits(8, 8_192, 74)["longest"] == 8
    assert concepts.splits(128, 1_024, 74)["longest"] == 16  # two requests one after the other


def test_a_dynamic_schedule_gains_where_tiles_differ() -> None:
    static, dynamic = concepts.dealt((9, 2, 2, 2, 9, 2, 2, 2), 4)
    assert (max(static), max(dynamic)) == (18, 11) and sum(static) == sum(dynamic) == 30
    assert max(concepts.dealt((4,) * 8, 4)[0]) == max(concepts.dealt((4,) * 8, 4)[1])


def test_registers_of_all_warps_are_counted() -> None:
    roles = [
        {"name": "softmax", "warps": [0, 1, 2, 3], "registers": [192]},
        {"name": "load", "warps": [4], "registers": []},
    ]
    rows, total = concepts.shares(filled(AnatomyFunction, {"roles": roles, "registers": {"per_thread": 168}}))
    assert rows == [("softmax", 4, 192), ("load", 1, 168)] and total == 4 * 32 * 192 + 32 * 168


def test_each_path_with_concepts_has_a_template_that_renders() -> None:
    goals = read_goals(ROOT / "config/learning.yaml")
    for path in concepts.EXAMPLES:
        asked = Asked(f"learn_path_{path}", goals, {"gemm/pair": ("gemm/pair/sm_100a/v", [])}, {}, [])
        page = render(asked, {"gemm/pair": record()}, "learn")
        assert "<h2>Concepts</h2>" in page and "gemm/pair" in page and "None" not in page
