"""Planted bugs in `cute_sm100`.

An edit of its device code each, built, and caught in the simulator.

An edit takes source lines that end in `# mutant: name`, and matches operators and literals, so renaming breaks none.
"""

from __future__ import annotations

import re
import shutil
from contextlib import chdir
from dataclasses import dataclass
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
EVEN_OF_CLUSTER = (600,)  # also: of the pairs, one has more tiles than the others
LONG = (18 * 128,)
LONGER = (35 * 128 + 20,)  # more pieces than a warp has lanes
MANY = (51 * 128 + 20,)  # and more than its lanes add at once
MARK = "  # mutant: "


@dataclass(frozen=True)
class Mutant:
    """Edit the lines with a mark: `pattern` becomes `new`; without a pattern, they do nothing.

    With `behind`, the line moves behind each line with that mark. `part` of the kernel decides which workloads run.
    """

    part: str
    mark: str
    pattern: str | None = None
    new: str = ""
    behind: str = ""

    def apply(self, text: str) -> str:
        """Return a source file's text with the edit."""
        lines = text.split("\n")
        marked = {mark: [n for n, line in enumerate(lines) if line.endswith(MARK + mark)] for mark in self.marks}
        for n in marked[self.mark]:
            code = lines[n].removesuffix(MARK + self.mark)
            indent = code[: len(code) - len(code.lstrip())]
            if self.behind:
                for target in marked[self.behind]:
                    spaces = lines[target][: len(lines[target]) - len(lines[target].lstrip())]
                    lines[target] += f"\n{spaces}{code.strip()}"
            edited = f"{indent}pass" if self.pattern is None else re.sub(self.pattern, self.new, code, count=1)
            lines[n] = edited + lines[n][len(code) :]
        return "\n".join(lines)

    @property
    def marks(self) -> set[str]:
        return {self.mark, self.behind} - {""}


MUTANTS = {
    "scores do not wait for the keys": Mutant("mma", "k full"),
    "a product does not wait for the values": Mutant("mma", "v full"),
    "keys are loaded before their place is free": Mutant("load", "k empty"),
    "values are loaded before their place is free": Mutant("load", "v empty"),
    "the CTA goes before the last products have released its memory": Mutant("load", "exit"),
    "too few bytes expected": Mutant("load", "expected bytes", r"\(\w+ \* ", "("),
    "Q is loaded again before the scores have read it": Mutant("load", "q empty"),
    "a page's keys come first in its box": Mutant("load", "page rows", r"\(\(\w+,", "((0,"),
    "values of the wrong half": Mutant("load", "v half", r"= (.*)", r"= 1 - \1"),
    "pages of a tile in the wrong order": Mutant("load", "page order", r" \+ (\w+)\)", r" + 1 - \1)"),
    "a box begins a row too early": Mutant("load", "first row", r"$", " - 1"),
    "the product does not wait for P": Mutant("mma", "p full"),
    "P of one warp is not waited for": Mutant("kernel", "p arrivals", r"$", " - 1"),
    "commits reach the leader alone": Mutant("mma", "commit mask", r"= .*", "= 1"),
    "a part is released before its product is issued": Mutant("mma", "v release", behind="v full"),
    "the first product adds to what was there": Mutant("mma", "first product", r", .*", ", True)"),
    "scores and output overlap in tensor memory": Mutant("sizes", "tmem overlap", r"\w+ \* "),
    "the softmax does not wait for the scores": Mutant("softmax", "s full"),
    "the phase of the scores flips too often": Mutant("softmax", "s phase", r" // \w+"),
    "P is written while the product before reads it": Mutant("softmax", "p free", r"\(.*\) \| "),
    "P reaches the tensor cores unfenced": Mutant("softmax", "p fence"),
    "P is announced to the own CTA": Mutant("softmax", "p arrive", r"\(.*\)", "()"),
    "maxima are sent before the previous tile's are read": Mutant("softmax", "exchange read"),
    "warps of a row do not meet": Mutant("epilogue", "exchange"),
    "O is not rescaled": Mutant("softmax", "rescale"),
    "loads of tensor memory are not waited for": Mutant("epilogue", "tmem load"),
    "a result's store is unfenced": Mutant("epilogue", "o fence"),
    "a result's memory is filled again while TMA reads it": Mutant("epilogue", "o read"),
    "the next item's P is written while TMA reads a result": Mutant("epilogue", "o staged"),
    "a result is put into a slot while loads fill it": Mutant(
        "epilogue", "o place", r"select_\((\w+),", r"select_(\1 | True,"
    ),
    "values replace keys that the scores still read": Mutant("in place", "in-place k read"),
    "values in place are of the own page": Mutant("in place", "in-place page", "== 1", "== 0"),
    "values in place are expected from both CTAs": Mutant("in place", "in-place bytes", r", \w+=1\)", ")"),
    "values in place go over the own page's": Mutant("in place", "in-place part", r"\* (\w+)", r"* (1 - \1)"),
    "tensor memory is not given back": Mutant("kernel", "dealloc"),
    "mbarriers are used before they are set up": Mutant("kernel", "set-up"),
    "tensor memory is used before it is allocated": Mutant("kernel", "tmem allocated"),
    "tensor memory is given back while it is read": Mutant("kernel", "tmem freed early"),
    "scores do not wait for Q": Mutant("mma", "q full"),
    "scores wait for the first part of Q alone": Mutant("mma", "q full", r"\[\w+\]", "[0]"),
    "half of a result is announced before it is complete": Mutant("mma", "half of o", "== 1", "== 0"),
    "a result is stored before half of it is complete": Mutant("epilogue", "result"),
    "the other half of a result is stored before it is complete": Mutant("epilogue", "other half"),
    "a result that is not the last is stored while P is read": Mutant(
        "epilogue", "result phase", r"(\w+)\)\)$", r"\1 ^ 1))"
    ),
    "the rope's scores are overwritten": Mutant("mma", "rope scores", "True", "False"),
    "the last tiles' pages are the first tile's": Mutant("load", "page turn", "== 0", ">= 0"),
    "page numbers are replaced a turn too early": Mutant("load", "page register", "== 0", "== 1"),
    "an item's first values are loaded twice": Mutant("load", "first v", "< 2", "< 1"),
    "partial results have both halves of the columns in one place": Mutant("epilogue", "partial half", r"= .*", "= 0"),
    "partial results are added with one weight": Mutant("combine", "combine weight", r"\w+ - (\w+)", r"\1 - \1"),
    "a partial result past the last one counts": Mutant("combine", "combine end", " < ", " <= "),
    "the same partial results are added again": Mutant("combine", "combine next", r" \+ \w+ \+ ", " + "),
    "some lanes of a row do not add up what they have": Mutant("combine", "combine lanes", r"\(8, 16\)", "(16,)"),
    "what is added up is relative to different maxima": Mutant("combine", "combine rescale", r"= .*", "= Float32(1.0)"),
    "partial results are merged before they are there": Mutant("combine", "combine wait"),
    "lanes add fewer partial results at once than there are": Mutant("combine", "combine depth", "<= ", "<= 2 * "),
    "an even plan's pieces begin a tile late": Mutant("kernel", "uniform begin", r"min\((\w+)", r"min(\1 + 1"),
    "an even plan's longer pieces are one too few": Mutant("kernel", "uniform end", r"\((\w+) <", r"(\1 + 1 <"),
    "tensor memory is given back before the last columns are read": Mutant("epilogue", "last read", "== .*", "== 0))"),
    "no warp says that it has read tensor memory": Mutant("epilogue", "last read"),
    "O is rescaled while the product before adds to it": Mutant("softmax", "p free", r" \| \w+"),
    "values replace the last keys before the scores have read them": Mutant("load", "v over k"),
    "values in the place of the last keys are not waited for": Mutant("mma", "v over k full", r" \^ 1"),
    "the last P is announced as those before": Mutant("softmax", "p last"),
    "the product reads the last P where those before were": Mutant("mma", "p box", r"= .*", "= 0"),
}

# The same in the variant whose pairs share requests.
MUTANTS_OF_PAIRS = {
    "blocks are sent over a Q that is still read": Mutant("merge", "merge empty"),
    "blocks are merged before they are there": Mutant("merge", "merge full"),
    "weights are made before the other pairs' sums are there": Mutant("merge", "merge lse"),
    "fewer bytes are expected than sent": Mutant("merge", "merge bytes", r"\)$", " // 2)"),
    "Q is loaded over blocks that are still read": Mutant("merge", "merged store", behind="merged release"),
    "a block is weighed as another pair's": Mutant("merge", "merge peer", r"(\w+) \+ 1", r"3 - \1"),
    "every pair stores the first one's block": Mutant("merge", "merge columns", r"\([\w.]+\)", "(0)"),
    "rows without any key are not a number": Mutant("merge", "merge no key"),
    "P is announced to the cluster's first pair": Mutant("merge", "p leader", r"= .*", "= 0"),
    "the last P is written where blocks are received": Mutant("merge", "p last box", r"-(\S+) ", r"-4 * \1 "),
    "the other half is sent before it is complete": Mutant("merge", "merge half", r"= .*, (.*)\)", r"= \1"),
    "a pair takes too few tiles of an even piece": Mutant(
        "kernel", "uniform share", r"\((\w+) \+ 1\) // (\w+)", r"\1 // \2 + 1"
    ),
    "commits reach the cluster's first pair": Mutant("kernel", "commit pair", r"\S+\((\w+) << .*", r"\1"),
}
IN_CI = 2  # of these: a build and a simulated launch each take some ten seconds
EVERY = {name: (mutant, "") for name, mutant in MUTANTS.items()}
EVERY |= {name: (mutant, PAIRS) for name, mutant in MUTANTS_OF_PAIRS.items()}
INTACT = [("mma", ""), ("in place", ""), ("merge", PAIRS)]  # a part and variant of each way to be tried


def build_edited(place: Path, part: str, variant: str, mutant: Mutant | None) -> Path:
    """Build the kernel in `place` from a copy of its source with one edit.

    Without `variant`, build the one that has the part.
    """
    shutil.copytree(ROOT / "kernels", place / "kernels", ignore=shutil.ignore_patterns("__pycache__"))
    if mutant is not None:
        for source in (place / "kernels" / "mla_decode" / "cute_sm100").glob("*.py"):
            source.write_text(mutant.apply(source.read_text()))
    folder = place / "build"
    folder.mkdir()
    arguments = {"folder": str(folder), "dtype": dtype_of(part), "name": variant or NAMES[dtype_of(part)]}
    with served(), chdir(place), (place / "log").open("wb") as log:
        streams = (log.fileno(), log.fileno())
        status = pool.run(kind_of("cute", TARGET), "fork_tasks:build_cute_sm100_of_this_folder", arguments, streams)
    assert status == 0, (place / "log").read_text()[-2000:]
    return folder


@pytest.fixture
def built(tmp_path):
    """Builds the kernel from a copy of its source with one edit."""
    return partial(build_edited, tmp_path)


def dtype_of(part: str) -> str:
    """Return the dtype whose variant, of those built here, has the part."""
    return "fp8" if part == "in place" else "bf16"


def tried(part: str, variant: str = "") -> list[tuple[tuple[int, ...], int]]:
    """Return request lengths and SM count for a run with an edit of this part.

    Requests of one tile follow each other in a pair, so that nothing but its own mbarrier keeps Q. For what loads, one
    pair has a request of more tiles than it looks up pages of at once. Where partial results are stored or merged,
    there are 36 of them, or 52, more than are loaded at once. Where pairs share requests, one cluster has items
    after each other. Of even plans the device works out what each pair does.
    """
    if variant == PAIRS:
        return [(OF_CLUSTER, 8), *[(EVEN_OF_CLUSTER, 8)] * (part == "kernel")]
    if part == "combine":
        return [(LONGER, PROCESSORS), (MANY, PROCESSORS)]
    more = {
        "mma": [(TWO, 2)],
        "softmax": [(TWO, 2)],
        "load": [(LONG, 2)],
        "epilogue": [(LONGER, PROCESSORS)],
        "kernel": [(EVEN, 12)],
    }
    return [(LENGTHS, 4), *more.get(part, [])]


def caught(folder: Path, part: str, variant: str = "") -> str | None:
    """Return how the first schedule that notices an edit of this part does so."""
    import ptxsim
    from sm100_runs import faults, unawaited_releases

    dtype, schedules = dtype_of(part), (*ptxsim.DEFAULT_SCHEDULES, *(("warps", seed) for seed in range(8)))
    try:
        for lengths, processors in tried(part, variant):
            workload = Workload(len(lengths), max(lengths), dtype, paged=True)
            result = next(faults(folder, workload, schedules, lengths, processors, distribution="large"), None)
            if result:
                return result
        return None if variant else next(unawaited_releases(folder, Workload(1, 257, dtype, paged=True)), None)
    except ptxsim.PtxError as error:
        return str(error)


@pytest.mark.parametrize("name", EVERY)
def test_a_mutant_still_has_its_place_in_the_source(name):
    mutant, _ = EVERY[name]
    texts = [source.read_text() for source in SOURCE.glob("*.py")]
    changed = 0
    for text in texts:
        edited = mutant.apply(text)
        compile(edited, name, "exec")
        left = [line for line in text.split("\n") if line.endswith(MARK + mutant.mark)]
        assert not any(line in edited.split("\n") for line in left)
        changed += len(left)
    assert changed
    if mutant.behind:
        assert len("\n".join(map(mutant.apply, texts)).split("\n")) > len("\n".join(texts).split("\n"))


def test_every_mark_in_the_source_has_a_mutant():
    result = {mark for source in SOURCE.glob("*.py") for mark in re.findall(f"{MARK}(.*)", source.read_text())}
    assert result == {mark for mutant, _ in EVERY.values() for mark in mutant.marks}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("part", "variant"), [INTACT[0], *(pytest.param(*one, marks=pytest.mark.by_hand) for one in INTACT[1:])]
)
def test_the_intact_copy_is_not_caught(built, part, variant):
    assert caught(built(part, variant, None), part, variant) is None


# These take CI 50 to 105 seconds of a processor each, more than any other.
LONGEST = [
    "the last tiles' pages are the first tile's",
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
    mutant, variant = EVERY[name]
    how = caught(built(mutant.part, variant, mutant), mutant.part, variant)
    assert how, f"«{name}» went unnoticed"
    print(name, "→", how)


@pytest.mark.slow
@pytest.mark.by_hand
def test_every_mutant_is_caught_and_no_intact_copy(tmp_path):
    import planted_bugs_sm100

    assert planted_bugs_sm100.run(tmp_path / "bugs.jsonl") == []
