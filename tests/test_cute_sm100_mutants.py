"""Planted bugs in `cute_sm100`: an edit of its device code each, built, and caught in the simulator."""

from __future__ import annotations

import shutil
from contextlib import chdir
from functools import partial
from pathlib import Path

import pytest

from builds import served
from cutesnake.model.paths import ROOT
from cutesnake.runtime import pool
from cutesnake.stages.compile.limited_process import kind_of
from kernels.mla_decode.cute_sm100 import PROCESSORS
from kernels.mla_decode.operator import Workload

SOURCE = ROOT / "kernels" / "mla_decode" / "cute_sm100"

TARGET = "sm_100a"
NAMES = {"bf16": "bf16_softmax8", "fp8": "fp8_in_place"}
PAIRS = "bf16_pairs4"
LENGTHS = (900, 100, 90, 120, 60)
OF_CLUSTER = (600, 0, 90)  # items that one cluster of pairs has after each other
TWO = (250,)  # a last tile that is not alone, and in which maxima grow
EVEN = (900, 900)  # of an even plan, some pieces longer than others
EVEN_OF_CLUSTER = (600,)  # likewise: of the pairs, one has more tiles than the others
LONG = (18 * 128,)
LONGER = (35 * 128 + 20,)  # more pieces than a warp has lanes
MANY = (51 * 128 + 20,)  # and more than its lanes add at once
VALUES_FULL = "cute.arch.mbarrier_wait(self.mbarriers + all_full + 2 * page_parts * slot + n, phase)"
# name: file, what stands there, what is put in its place
MUTANTS = {
    "scores do not wait for the keys": ("product.py", "cute.arch.mbarrier_wait(self.mbarriers + full, phase)", "pass"),
    "a product does not wait for the values": ("product.py", VALUES_FULL, "pass"),
    "keys are loaded before their place is free": (
        "load.py",
        "self.wait_for_part(count, part)\n            if part == 0",
        "if part == 0",
    ),
    "values are loaded before their place is free": (
        "load.py",
        "self.wait_for_part(count, part)\n            self.expect(full, [self.layout.part_boxes])\n            columns",
        "self.expect(full, [self.layout.part_boxes])\n            columns",
    ),
    "the CTA goes before the last products have released its memory": (
        "load.py",
        "self.wait_for_part(count + moved if part < self.layout.key_parts else count - moved, part)",
        "pass",
    ),
    "too few bytes expected": ("load.py", "ctas * boxes[n] * BOX_BYTES", "boxes[n] * BOX_BYTES"),
    "Q is loaded again before the scores have read it": (
        "load.py",
        "cute.arch.mbarrier_wait(self.mbarriers + self.layout.q_empty, phase)",
        "pass",
    ),
    "a page's keys come first in its box": ("load.py", "(row, 0, 0, 0)", "(0, 0, 0, 0)"),
    "values of the wrong half": (
        "load.py",
        "page_parts * self.rank + columns",
        "page_parts * (1 - self.rank) + columns",
    ),
    "pages of a tile in the wrong order": (
        "load.py",
        "shuffle_sync(found, lane + page)",
        "shuffle_sync(found, lane + 1 - page)",
    ),
    "a box begins a row too early": ("load.py", "PAGE) - PAGE", "PAGE) - PAGE - 1"),
    "the product does not wait for P": (
        "product.py",
        "cute.arch.mbarrier_wait(self.mbarriers + p_full, p_phase)",
        "pass",
    ),
    "P of one warp is not waited for": (
        "kernel.py",
        "CTAS * self.layout.softmax_threads // WARP_LANES\n",
        "CTAS * self.layout.softmax_threads // WARP_LANES - 1\n",
    ),
    "commits reach the leader alone": ("product.py", "BOTH = (1 << CTAS) - 1", "BOTH = 1"),
    "a part is released before its product is issued": (
        "product.py",
        VALUES_FULL,
        VALUES_FULL + "\n            self.commit(self.layout.free + self.layout.parts * slot + part)",
    ),
    "the first product adds to what was there": ("product.py", "accumulate | (page > 0)", "True"),
    "scores and output overlap in tensor memory": (
        "layout.py",
        "OUT_COLUMN = SCORE_STAGES * SCORE_COLUMNS",
        "OUT_COLUMN = SCORE_COLUMNS",
    ),
    "the softmax does not wait for the scores": (
        "softmax.py",
        "cute.arch.mbarrier_wait(self.mbarriers + self.layout.scores_full + place, phase)",
        "pass",
    ),
    "the phase of the scores flips too often": ("softmax.py", "count // SCORE_STAGES % 2", "count % 2"),
    "P is written while the product before reads it": ("softmax.py", "if (not moves) | grows:", "if grows:"),
    "P reaches the tensor cores unfenced": (
        "softmax.py",
        'cute.arch.fence_proxy("async.shared", space="cta")\n        before',
        "before",
    ),
    "P is announced to the own CTA": ("softmax.py", "p_full, leader, scope", "p_full, scope"),
    "maxima are told before those of the tile before are read": (
        "softmax.py",
        "self.meet()  # all",
        "pass  # all",
    ),
    "warps of a row do not meet": (
        "epilogue.py",
        "        self.meet()\n        return",
        "        return",
    ),
    "O is not rescaled": ("softmax.py", "self.rescale(factor)", "pass"),
    "loads of tensor memory are not waited for": ("epilogue.py", "cute.arch.fence_view_async_tmem_load()", "pass"),
    "a result's store is unfenced": (
        "epilogue.py",
        'cute.arch.fence_proxy("async.shared", space="cta")',
        "pass",
    ),
    "a result's memory is filled again while TMA reads it": (
        "epilogue.py",
        "if (lane == 0) & (not is_last):\n                cute.arch.cp_async_bulk_wait_group(0, read=True)",
        "pass",
    ),
    "the next item's P is written while TMA reads a result": (
        "epilogue.py",
        "        cute.arch.barrier(barrier_id=ALL_WARPS, number_of_threads=self.layout.softmax_threads)",
        "        pass",
    ),
    "a result is put into a slot while loads fill it": (
        "epilogue.py",
        "select_(is_last, 0, p_place)",
        "select_(is_last | (lane >= 0), 0, p_place)",
    ),
    "values replace keys that the scores still read": (
        "in_place.py",
        "cute.arch.mbarrier_wait(self.mbarriers + ready, count // SCORE_STAGES % 2)",
        "pass",
    ),
    "values in place are of the own page": ("in_place.py", "if self.rank == 1", "if self.rank == 0"),
    "values in place are expected from both CTAs": (
        "in_place.py",
        "* (2 * parts), ctas=1",
        "* (2 * parts)",
    ),
    "values in place go over the own page's": (
        "in_place.py",
        "self.layout.parts * slot + parts * other",
        "self.layout.parts * slot + parts * self.rank",
    ),
    "tensor memory is not given back": (
        "kernel.py",
        "cute.arch.dealloc_tmem(tensor_memory, TENSOR_MEMORY_COLUMNS, is_two_cta=True)",
        "pass",
    ),
    "mbarriers are used before they are set up": (
        "kernel.py",
        "        cute.arch.cluster_wait()\n\n",
        "\n",
    ),
    "tensor memory is used before it is allocated": (
        "kernel.py",
        "cute.arch.barrier(barrier_id=ALLOCATED, number_of_threads=self.layout.softmax_threads + WARP_LANES)",
        "pass",
    ),
    "tensor memory is given back while it is read": (
        "kernel.py",
        "            cute.arch.cluster_arrive_relaxed()\n        cute.arch.cluster_wait()\n        if warp",
        "            cute.arch.cluster_arrive_relaxed()\n        if warp",
    ),
    "scores do not wait for Q": (
        "product.py",
        "cute.arch.mbarrier_wait(self.mbarriers + self.layout.q_full + part, phase)",
        "pass",
    ),
    "scores wait for the first part of Q alone": ("product.py", "self.layout.q_full + part", "self.layout.q_full"),
    "half of a result is announced before it is complete": (
        "product.py",
        "is_last & (n == 1)",
        "is_last & (n == 0)",
    ),
    "a result is stored before half of it is complete": (
        "epilogue.py",
        "cute.arch.mbarrier_wait(self.mbarriers + mbarrier, phase)",
        "pass",
    ),
    "the other half of a result is stored before it is complete": (
        "epilogue.py",
        "// 2\n                self.wait_for_result(self.layout.out_last, count, is_last)",
        "// 2",
    ),
    "a result that is not the last is stored while P is read": (
        "epilogue.py",
        "Int32(select_(is_last, 0, phase))",
        "Int32(select_(is_last, 0, phase ^ 1))",
    ),
    "the rope's scores are overwritten": (
        "product.py",
        "q_box, k_box, BOX_STEPS, True",
        "q_box, k_box, BOX_STEPS, False",
    ),
    "the last tiles' pages are those of the first": ("load.py", "offset // TILES_AHEAD % 2 == 0", "offset >= 0"),
    "page numbers are replaced a turn too early": ("load.py", "if turn % 2 == 0", "if turn % 2 == 1"),
    "an item's first values are loaded twice": ("load.py", "& (n < 2)", "& (n < 1)"),
    "partial results have both halves of the columns in one place": (
        "epilogue.py",
        "(column + HALF * self.upper) // PIECE",
        "column // PIECE",
    ),
    "partial results are added with one weight": ("combine.py", "exp2(height - top", "exp2(heights[0] - top"),
    "a partial result past the last one counts": (
        "combine.py",
        "select_(number < partials",
        "select_(number <= partials",
    ),
    "the same partial results are added again": ("combine.py", "n + step + share", "n + share"),
    "some lanes of a row do not add up what they have": ("combine.py", "in (8, 16) if", "in (16,) if"),
    "what is added up is relative to different maxima": (
        "combine.py",
        "factor = cute.math.exp2(top - new, fastmath=True)",
        "factor = Float32(1.0)",
    ),
    "partial results are merged before they are there": ("combine.py", "cute.arch.griddepcontrol_wait()", "pass"),
    "lanes add fewer partial results at once than there are": (
        "combine.py",
        "partials <= IN_FLIGHT * shares",
        "partials <= MORE * shares",
    ),
    "an even plan's pieces begin a tile late": (
        "kernel.py",
        "cutlass.min(piece, more)",
        "cutlass.min(piece + 1, more)",
    ),
    "an even plan's longer pieces are one too few": ("kernel.py", "select_(piece < more", "select_(piece + 1 < more"),
    "tensor memory is given back before the last columns are read": (
        "epilogue.py",
        "self.announce_read(is_last & (n == rounds - 1))",
        "self.announce_read(is_last & (n == 0))",
    ),
    "no warp says that it has read tensor memory": (
        "epilogue.py",
        "self.announce_read(is_last & (n == rounds - 1))",
        "pass",
    ),
    "O is rescaled while the product before adds to it": ("softmax.py", "if (not moves) | grows:", "if not moves:"),
    "values replace the last keys before the scores have read them": (
        "load.py",
        "count += Int32(select_(moves, 1, 0))",
        "pass",
    ),
    "values in the place of the last keys are not waited for": (
        "product.py",
        "select_(moved, phase ^ 1, phase)",
        "select_(moved, phase, phase)",
    ),
    "the last P is announced as those before": (
        "softmax.py",
        "select_(moves, self.layout.p_last, p_full)",
        "select_(moves, p_full, p_full)",
    ),
    "the product reads the last P where those before were": (
        "product.py",
        "select_(is_last, self.layout.p_last_box, 0)",
        "select_(is_last, 0, 0)",
    ),
}

STORE = "self.store(request, row_block, partial, factors, count - 1, turn, is_last)"
# The same in the variant whose pairs share requests.
MUTANTS_OF_PAIRS = {
    "blocks are sent over a Q that is still read": (
        "merge.py",
        "cute.arch.mbarrier_wait(self.mbarriers + self.layout.room, turn % 2)",
        "pass",
    ),
    "blocks are merged before they are there": (
        "merge.py",
        "cute.arch.mbarrier_wait(self.mbarriers + mbarrier, turn % 2)",
        "pass",
    ),
    "weights are made before the other pairs' sums are there": (
        "merge.py",
        "cute.arch.mbarrier_wait(self.mbarriers + self.layout.sums, turn % 2)",
        "pass",
    ),
    "fewer bytes are expected than sent": (
        "merge.py",
        "self.layout.block_bytes // chunks",
        "self.layout.block_bytes // chunks // 2",
    ),
    "Q is loaded over blocks that are still read": (
        "softmax.py",
        f"{STORE}\n                self.release()",
        f"self.release()\n                {STORE}",
    ),
    "a block is weighed as another pair's": ("merge.py", "self.pair ^ (block + 1)", "self.pair ^ (3 - block)"),
    "every pair stores the first one's block": ("merge.py", "self.first_column(self.pair)", "self.first_column(0)"),
    "rows without any key are not a number": ("merge.py", "select_(top == -Float32.inf, 0.0, top)", "top"),
    "P is announced to the cluster's first pair": ("softmax.py", "else CTAS * self.pair", "else 0"),
    "the last P is written where blocks are received": (
        "layout.py",
        "return -self.p_boxes - self.p_box",
        "return -self.q_boxes - self.p_box",
    ),
    "the other half is sent before it is complete": ("merge.py", "select_(self.group == 0, half, last)", "half"),
    "a pair takes too few tiles of an even piece": (
        "kernel.py",
        "(pair_of_cluster + 1) // count",
        "pair_of_cluster // count + 1",
    ),
    "commits reach the cluster's first pair": ("kernel.py", "cutlass.Int16(BOTH << CTAS * pair)", "BOTH"),
}
IN_CI = 2  # of these: a build and a simulated launch each take some ten seconds
EVERY = {name: (*mutant, "") for name, mutant in MUTANTS.items()}
EVERY |= {name: (*mutant, PAIRS) for name, mutant in MUTANTS_OF_PAIRS.items()}
INTACT = [("product.py", ""), ("in_place.py", ""), ("merge.py", PAIRS)]  # a file and variant of each way to be tried


def build_edited(place: Path, file: str, old: str, new: str, variant: str = "") -> Path:
    """A build of the kernel, in the empty folder `place`, from a copy of its source with one edit; of the variant that
    has what `file` does, if none is given."""
    shutil.copytree(ROOT / "kernels", place / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    source = place / "kernels" / "mla_decode" / "cute_sm100" / file
    text = source.read_text()
    assert old in text, f"{file} no longer has: {old}"
    source.write_text(text.replace(old, new))
    folder = place / "build"
    folder.mkdir()
    arguments = {"folder": str(folder), "dtype": dtype_of(file), "name": variant or NAMES[dtype_of(file)]}
    with served(), chdir(place), (place / "log").open("wb") as log:
        streams = (log.fileno(), log.fileno())
        status = pool.run(kind_of("cute", TARGET), "fork_tasks:build_cute_sm100_of_this_folder", arguments, streams)
    assert status == 0, (place / "log").read_text()[-2000:]
    return folder


@pytest.fixture
def built(tmp_path):
    """Builds the kernel from a copy of its source with one edit."""
    return partial(build_edited, tmp_path)


def dtype_of(file: str) -> str:
    """Whose variant, of those built here, has what `file` does."""
    return "fp8" if file == "in_place.py" else "bf16"


def tried(file: str, variant: str = "") -> list[tuple[tuple[int, ...], int]]:
    """Lengths of a batch's requests, and multiprocessors, with which a build with an edit of this file is run.

    Requests of one tile follow each other in a pair, so that nothing but its own mbarrier keeps Q. For what loads, one
    pair has a request of more tiles than it looks up pages of at once. Where partial results are stored or merged,
    there are 36 of them, or 52, more than are loaded at once. Where pairs share requests, one cluster has items
    after each other. Of even plans the device works out what each pair does.
    """
    if variant == PAIRS:
        return [(OF_CLUSTER, 8), *[(EVEN_OF_CLUSTER, 8)] * (file == "kernel.py")]
    if file == "combine.py":
        return [(LONGER, PROCESSORS), (MANY, PROCESSORS)]
    more = {
        "product.py": [(TWO, 2)],
        "softmax.py": [(TWO, 2)],
        "load.py": [(LONG, 2)],
        "epilogue.py": [(LONGER, PROCESSORS)],
        "kernel.py": [(EVEN, 12)],
    }
    return [(LENGTHS, 4), *more.get(file, [])]


def caught(folder: Path, file: str, variant: str = "") -> str | None:
    """How the first schedule that notices anything does so, of a build (of `variant`) with an edit of this file."""
    import ptxsim
    from sm100_runs import faults, unawaited_releases

    dtype, schedules = dtype_of(file), (*ptxsim.DEFAULT_SCHEDULES, *(("warps", seed) for seed in range(8)))
    try:
        for lengths, processors in tried(file, variant):
            workload = Workload(len(lengths), max(lengths), dtype, paged=True)
            found = next(faults(folder, workload, schedules, lengths, processors, distribution="large"), None)
            if found:
                return found
        return None if variant else next(unawaited_releases(folder, Workload(1, 257, dtype, paged=True)), None)
    except ptxsim.PtxError as error:
        return str(error)


@pytest.mark.parametrize("name", EVERY)
def test_a_mutant_still_has_its_place_in_the_source(name):
    file, old, new, _ = EVERY[name]
    text = (SOURCE / file).read_text()
    assert old in text and text.replace(old, new) != text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "variant"), [INTACT[0], *(pytest.param(*one, marks=pytest.mark.by_hand) for one in INTACT[1:])]
)
def test_the_intact_copy_is_not_caught(built, file, variant):
    assert caught(built(file, "import cutlass", "import cutlass", variant), file, variant) is None


# These take CI 50 to 105 seconds of a processor each, more than any other.
LONGEST = [
    "the last tiles' pages are those of the first",
    "page numbers are replaced a turn too early",
    "the CTA goes before the last products have released its memory",
    "partial results have both halves of the columns in one place",
    "the same partial results are added again",
]
# And these are the newest: CI has no more time than for those before.
NEWEST = list(MUTANTS)[list(MUTANTS).index("lanes add fewer partial results at once than there are") :]
LEFT_TO_HAND = [*list(MUTANTS_OF_PAIRS)[IN_CI:], *LONGEST, *NEWEST]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.by_hand) if name in LEFT_TO_HAND else name for name in EVERY]
)
def test_a_mutant_is_caught(built, name):
    file, old, new, variant = EVERY[name]
    how = caught(built(file, old, new, variant), file, variant)
    assert how, f"«{name}» went unnoticed"
    print(name, "→", how)
