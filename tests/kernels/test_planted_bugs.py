"""Planted bugs in kernels of this project, and in NVIDIA's rmsnorm.

Each found on a short workload with the short list's schedules, by a message that says what is wrong and names a line
near the one that was changed.

An edit takes instructions by their opcode and, in this project's kernels, by a mark at the end of their source line
(`# mutant: name`), so that renaming breaks none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import pytest

from cutesnake.model.contract import Variant
from planted import At, Place, check

ADD = Place("elementwise_add", "cute", "sm_100a", {"rows": 3, "columns": 1000})
ADD_35 = Place("elementwise_add", "cute", "sm_100a", {"rows": 35, "columns": 1000})
ADD_TILE = Place("elementwise_add", "cutile", "sm_100a", {"rows": 3, "columns": 1000})
COPIES = {"values": {"rows": 96, "columns": 128}, "distribution": "numbered"}
DESCRIPTOR = Place("async_copies", "cute_descriptor", "sm_100a", **COPIES)
L2 = Place("async_copies", "cute_l2", "sm_100a", **COPIES)
PRODUCTS = {"m": 256, "n": 256, "k": 512, "dtype": "fp16"}
PAIR = Place("tensor_products", "cute_pair", "sm_100a", PRODUCTS)
SINGLE = Place("tensor_products", "cute_single", "sm_100a", PRODUCTS)
SM90 = Place("mla_decode", "cute_sm90", "sm_90a", {"batch": 1, "kv_length": 321, "dtype": "bf16"}, "bf16_cluster2")
SM90_NAN = replace(SM90, distribution="nan_padding")
SPLIT = {"batch": 1, "kv_length": 700, "heads": 16, "dtype": "bf16"}
SM90_SPLIT = Place("mla_decode", "cute_sm90", "sm_90a", SPLIT, "bf16_cluster1")
MERGED = Variant("bf16_halves_met", {"dtype": "bf16", "cluster": 2, "halves": True, "meets": True})
SM90_MERGED = Place("mla_decode", "cute_sm90", "sm_90a", {"batch": 1, "kv_length": 1400, "heads": 16}, MERGED)
SM100 = Place("mla_decode", "cute_sm100", "sm_100a", {"batch": 2, "kv_length": 193, "dtype": "fp16", "paged": True})
SM100_ITEMS = replace(SM100, values={**SM100.values, "batch": 5})  # several for a pair
RMSNORM = Place("rmsnorm", "cutlass_rmsnorm", "sm_100a", {"rows": 2, "columns": 4096})
RMSNORM_4 = Place("rmsnorm", "cutlass_rmsnorm", "sm_90a", {"rows": 2, "columns": 65536})

WAIT, PASSED = r"mbarrier\.try_wait\S*\s+(\S+),[^;]*;", r"setp.eq.u32 \1, 0, 0;"
EXPECT = r"mbarrier\.arrive\.expect_tx[^;]*;"
ARRIVE = r"mbarrier\.arrive\.(?!expect)[^;]*;"
INIT = r"fence\.mbarrier_init[^;]*;"
PROXY = r"fence\.proxy\.async[^;]*;"
BARRIER = r"\bbar(rier)?\.(cta\.)?sync[^;]*;"
CLUSTER = r"barrier\.cluster\.wait[^;]*;"
COPY_WAIT = r"cp\.async\.wait_(group|all)[^;]*;"
ALL_DONE, ALL_BUT_ONE = (rf"wgmma\.wait_group\S*\s+{left};" for left in (0, 1))
COMMIT = r"tcgen05\.commit[^;]*;"
DEALLOC = r"tcgen05\.dealloc[^;]*;"
LOAD = r"cp\.async\.bulk\.tensor[^;]*mbarrier[^;]*;"
SHUFFLE, HALF = r"(shfl\.sync\.\w+\.b32\s+[^;]*), -1;", r"\1, 65535;"
BOUND, NONE = r"(setp\.ge\.[su]32\s+%p\d+, %r\d+), %r\d+;", r"\1, 2147483647;"
UNORDERED, UNWRITTEN, DEADLOCK = "nothing orders that after", "which nobody wrote", "deadlock: "
UNFENCED = "no fence.proxy.async lies between them"
MADE = "initialised without fence.mbarrier_init .*initialised at"


@dataclass(frozen=True)
class Mutant:
    """An edit, parts of its finding, and the allowed distance in lines (None: any)."""

    kernel: Place
    edit: At
    message: str
    near: int | None = 20


MUTANTS = {
    "add: rows are not bounded": Mutant(ADD, At(BOUND, NONE), "out-of-bounds: .*past the end of", None),
    "add: a store is one element off": Mutant(
        ADD, At(r"(st\.global\.\S+\s+\[%rd\d+)\+4\]", r"\1+8]"), "elements of c are NaN", None
    ),
    "add: every CTA takes the place of the first": Mutant(
        ADD_35, At(r"mov\.u32\s+(%r\d+), %ctaid\.x;", r"mov.u32 \1, 0;"), "after another cluster's write at", None
    ),
    "add: an operand is not loaded": Mutant(
        ADD_35, At(r"ld\.global[^;]*;", nth=0), "is read, and nothing before has written it"
    ),
    "add: the wrong operation": Mutant(ADD, At(r"\badd\.(rn\.)?(f32|f32x2)\b", r"sub.\2"), "error of c is", None),
    "add in cuTile: the wrong operation": Mutant(
        ADD_TILE, At(r"\badd\.rn\.f32x2\b", "mul.rn.f32x2"), "error of c is", None
    ),
    "descriptor: the copy is not waited for": Mutant(DESCRIPTOR, At(WAIT, PASSED), UNWRITTEN),
    "descriptor: no bytes are announced": Mutant(DESCRIPTOR, At(EXPECT), DEADLOCK),
    "descriptor: warps do not meet after the mbarrier is made": Mutant(
        DESCRIPTOR, At(BARRIER), f"{UNORDERED} its initialisation"
    ),
    "descriptor: the mbarrier is not fenced": Mutant(DESCRIPTOR, At(INIT), MADE),
    "descriptor: the copy is not made": Mutant(DESCRIPTOR, At(LOAD), DEADLOCK),
    "descriptor: half a warp shuffles": Mutant(DESCRIPTOR, At(SHUFFLE, HALF), "the member mask 0xffff leaves it out"),
    "descriptor: every lane asks for the copy": Mutant(
        DESCRIPTOR,
        At(r"elect\.sync\s+\S+\|(%p\d+), -1;", r"setp.eq.u32 \1, 0, 0;"),
        "32 lanes of warp 0 each request the same copy",
    ),
    "cp.async: the copies are not waited for": Mutant(L2, At(COPY_WAIT), UNWRITTEN),
    "pair: a product does not wait for its operands": Mutant(PAIR, At(WAIT, PASSED, nth=0), UNWRITTEN),
    "pair: the epilogue does not wait for the products": Mutant(PAIR, At(WAIT, PASSED, nth=1), "nobody wrote|race: "),
    "pair: no bytes are announced": Mutant(PAIR, At(EXPECT), "no mbarrier.arrive.expect_tx has announced them"),
    "pair: warps do not meet before the epilogue": Mutant(
        PAIR, At(BARRIER, code="sync_threads"), "nobody wrote|race: "
    ),
    "pair: the CTAs do not meet": Mutant(PAIR, At(CLUSTER), f"{UNORDERED}|{UNWRITTEN}"),
    "pair: mbarriers are not fenced": Mutant(PAIR, At(INIT), MADE),
    "pair: the last products are not committed": Mutant(PAIR, At(COMMIT), "were never committed"),
    "pair: tensor memory is not given back": Mutant(
        PAIR, At(DEALLOC), "ends with tensor memory allocated.*, by PTX.*; the kernel ends after", 1
    ),
    "pair: B is not loaded": Mutant(PAIR, At(LOAD, code="tma_b"), DEADLOCK),
    "single: the address is read before it exists": Mutant(SINGLE, At(BARRIER, nth=0), UNORDERED),
    "single: the next operands are loaded over these": Mutant(SINGLE, At(WAIT, PASSED, nth=1), "race: "),
    "MLA on Hopper: P is not fenced": Mutant(SM90, At(PROXY), UNFENCED),
    "MLA on Hopper: what lies past a request's end is loaded": Mutant(
        SM90_NAN, At(r"max\.s32\s+(%r\d+), %r\d+, 0;", r"mov.b32 \1, 0;", "# mutant: missing keys"), "are NaN", None
    ),
    "MLA on Hopper: a box ends a row too late": Mutant(
        SM90_NAN,
        At(r"(max\.s32\s+(%r\d+), %r\d+, 0;)", r"\1 add.s32 \2, \2, -1;", "# mutant: missing keys"),
        "are NaN",
        None,
    ),
    "MLA on Hopper: keys are released too early": Mutant(
        SM90,
        At(ALL_BUT_ONE),
        "after the read by wgmma.*the copy waited at .* for the arrivals at",
        None,
    ),
    "MLA on Hopper: sums are read before they are there": Mutant(SM90, At(ALL_DONE), "until wgmma.wait_group"),
    "MLA on Hopper: products are not fenced": Mutant(
        SM90, At(r"wgmma\.fence[^;]*;"), "no wgmma.fence comes before the first product", None
    ),
    "MLA on Hopper: warps that merge do not meet": Mutant(
        SM90_SPLIT, At(BARRIER, code="# mutant: warps of a row"), UNORDERED
    ),
    "MLA on Hopper: what is left for the last is not released": Mutant(
        SM90_MERGED, At(r"red\.release", "red.relaxed"), "after another cluster's write"
    ),
    "MLA on Hopper: the last to come does not wait": Mutant(
        SM90_MERGED,
        At(r"ld\.acquire\S*\s+(%r\d+),[^;]*;", r"mov.u32 \1, 9;"),
        "after another cluster's write",
        None,
    ),
    "MLA on Hopper: both take themselves for the first": Mutant(
        SM90_MERGED, At(r"(atom\.global\.add\.u32[^;]*), 1;", r"\1, 0;"), "after another cluster's write", None
    ),
    "MLA on Hopper: mbarriers are not fenced": Mutant(SM90, At(INIT), MADE),
    "MLA on Hopper: a CTA leaves before its peer has arrived": Mutant(
        SM90, At(WAIT, PASSED, nth=2), "nothing makes CTA [01] wait for that before it exits", None
    ),
    "MLA on Hopper: page numbers past the cache": Mutant(
        SM90,
        At(r"ld\.(\S+)\s+(%r\d+),([^;]*);", r"ld.\1 \2,\3; add.s32 \2, \2, 1000000;", "# mutant: page numbers"),
        "its index 64000063 is none of the",
        60,
    ),
    "MLA on Hopper: stages are not released": Mutant(
        SM90, At(ARRIVE, code="# mutant: stage release"), "nobody has ever arrived there.*must release it", None
    ),
    "MLA on Hopper: sums are not announced": Mutant(SM90, At(ARRIVE, code="# mutant: sums"), DEADLOCK),
    "MLA on Hopper: no bytes are announced": Mutant(
        SM90, At(EXPECT), "no mbarrier.arrive.expect_tx has announced them"
    ),
    "MLA on Blackwell: P is not fenced": Mutant(SM100, At(PROXY, code="fence_proxy"), UNFENCED),
    "MLA on Blackwell: products are not committed": Mutant(SM100, At(COMMIT), "were never committed", 60),
    "MLA on Blackwell: tensor memory is not given back": Mutant(
        SM100, At(DEALLOC), "ends with tensor memory allocated.*, by PTX.*; the kernel ends after", 1
    ),
    "MLA on Blackwell: no bytes are announced": Mutant(
        SM100, At(EXPECT), "no mbarrier.arrive.expect_tx has announced them"
    ),
    "MLA on Blackwell: mbarriers are not fenced": Mutant(SM100, At(INIT), MADE),
    "MLA on Blackwell: warps of a row do not meet": Mutant(SM100, At(BARRIER), "race: |barrier: |nobody wrote", None),
    "MLA on Blackwell: two groups meet at one barrier": Mutant(
        SM100, At(r"\bbar\.sync\s+2,", "bar.sync 1,"), "the arrival could count there"
    ),
    "MLA on Blackwell: all warps meet at the barrier of a group": Mutant(
        SM100_ITEMS, At(r"\bbar\.sync\s+3,", "bar.sync 1,"), "the arrival could count there"
    ),
    "rmsnorm: warps do not meet over their sums": Mutant(RMSNORM, At(BARRIER, nth=0), UNORDERED),
    "rmsnorm: the row is not waited for": Mutant(RMSNORM, At(COPY_WAIT), UNWRITTEN),
    "rmsnorm: half a warp sums up": Mutant(
        RMSNORM, At(SHUFFLE, HALF, code="warp_reduction"), "mask 0xffff leaves it out"
    ),
    "rmsnorm of a cluster: other CTAs' sums are not waited for": Mutant(RMSNORM_4, At(WAIT, PASSED), UNWRITTEN),
    "rmsnorm of a cluster: no bytes are announced": Mutant(RMSNORM_4, At(EXPECT), DEADLOCK),
    "rmsnorm of a cluster: the CTAs do not meet before": Mutant(RMSNORM_4, At(CLUSTER, nth=0), "that does not exist"),
    "rmsnorm of a cluster: the mbarrier is not fenced": Mutant(RMSNORM_4, At(INIT), MADE),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_bug_is_found_and_the_line_to_change_is_named(name) -> None:
    mutant = MUTANTS[name]
    outcome = check(mutant.kernel, mutant.edit)
    assert mutant.edit.places, "the kernel no longer has what is edited"
    assert any(re.search(mutant.message, text) for text in outcome.messages), outcome.messages[:3]
    distance = outcome.distance()
    assert mutant.near is None or (distance is not None and distance <= mutant.near), (distance, outcome.messages[:3])


def lane_bounds(text: str) -> dict[int, str]:
    """Map PTX lines to comparisons of a lane's position with the end of a row."""
    of_lanes: set[str] = set()
    result = {}
    for n, line in enumerate(text.split("\n"), 1):
        target, *sources = re.findall(r"%\w+(?:\.x)?", line) or [""]
        if re.match(r"\s*setp\.ge\.u", line) and sources and sources[0] in of_lanes:
            result[n] = line
        elif not line.lstrip().startswith(("ld", "@", "st", "setp")) and of_lanes.union(["%tid.x"]).intersection(
            sources
        ):
            of_lanes.add(target)
    return result


@pytest.mark.slow
def test_every_bound_of_a_lane_in_cutiles_sum_is_missed_where_the_matrix_ends_in_its_row_and_half() -> None:
    # A tile has four rows and two halves. Within the matrix such a lane reads the next row, and nobody stores that.
    ends = [
        Place("elementwise_add", "cutile", "sm_100a", {"rows": r, "columns": c})
        for c in (1000, 100)
        for r in (4, 3, 2, 1)
    ]
    text = (ends[0].folder() / "kernel.ptx").read_text()
    left = lane_bounds(text)
    assert len(left) >= 16  # of two operands, four rows and two halves, and more for the stores
    for place in ends:
        for n, line in list(left.items()):
            edit = At(re.escape(line.strip()), re.sub(r", %\w+;$", ", 2147483647;", line.strip()))
            if check(place, edit, ["random"]).caught:
                del left[n]
    assert not left


def test_there_are_mutants_of_at_least_five_kernels_most_of_them_ours() -> None:
    kernels = [(mutant.kernel.operator, mutant.kernel.kernel) for mutant in MUTANTS.values()]
    assert len(MUTANTS) >= 40 and len(set(kernels)) >= 5
    assert sum(kernel.startswith("cute_sm") for _, kernel in kernels) >= 15
