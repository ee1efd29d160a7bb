"""Every combination of sizes that `cute_sm100` is to be right in, under every schedule, in the simulator.

    python benchmarks/mla_cute_sm100/combinations.py run BUILDS OUT.jsonl [--seconds S] [--processes N] [--from-the-end]
    python benchmarks/mla_cute_sm100/combinations.py summary OUT.jsonl [more.jsonl …] > combinations.json
    python benchmarks/mla_cute_sm100/combinations.py others BUILDS OTHERS.jsonl [--launches N] [--seconds S]

405 combinations: kv 1, 63, 64, 65, 127, 257, 1,024 and 4,096; batch 1, 2 and 7; 1, 16 and 128 heads; 1 and 4 query
tokens (4 only where there are as many keys); bf16, fp16 and fp8. Each is paged with pages shuffled, in the variant that
comes first for it, with ragged lengths, empty requests, wild page-table entries or NaN padding by turns, and in all of
them with NaN in memory that no request owns. Schedules are ptxsim's seven default ones and twenty of `warps`: 10,935
launches in all, some four hours of one processor.

First comes a sample that a time limit does not spoil: of each combination two schedules, then those that its neighbours
lack which have the same plan; then kv 4,096 once; then what is left, small sizes first, and of the long ones a few
schedules of each by turns. OUT gets a line of JSON for every handful of launches, and what stands there is not run
again; a launch that was begun in time is brought to its end. A process takes one processor and 2 GB or less. Of two
machines one can begin at the end, with what is long. BUILDS is a folder like
results/compile/mla_decode/cute_sm100/sm_100a that has all variants. Exits with 1 if anything is wrong.

`others` draws launches of the list at random, and runs each in a variant that does not come first for it, by turns.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import random
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "workflow/scripts"), str(ROOT / "tests")]

import ptxsim  # noqa: E402
from kernels.mla_decode import cute_sm100  # noqa: E402
from kernels.mla_decode.cute_sm100 import layout  # noqa: E402
from kernels.mla_decode.operator import Workload  # noqa: E402
from sm100_runs import faults  # noqa: E402

LENGTHS = (1, 63, 64, 65, 127, 257, 1024, 4096)
BATCHES, HEADS, TOKENS = (1, 2, 7), (1, 16, 128), (1, 4)
DISTRIBUTIONS = ("ragged", "empty_requests", "bad_table", "nan_padding")
WARPS = 20  # seeds
TOGETHER = 7  # launches of one line
TOGETHER_LONG = 3  # that take longer
LONG, FEW = 1024, 32  # from this length on the plan is for few multiprocessors, so that they share requests

Order = tuple[str, int]
SCHEDULES: tuple[Order, ...] = (*ptxsim.DEFAULT_SCHEDULES, *(("warps", seed) for seed in range(WARPS)))


class Combination(NamedTuple):
    """What is varied."""

    kv_length: int
    batch: int
    heads: int
    tokens: int
    dtype: str

    @property
    def workload(self) -> Workload:
        return Workload(self.batch, self.kv_length, self.dtype, self.tokens, self.heads, paged=True)

    @property
    def blocks(self) -> int:
        return -(-self.heads * self.tokens // layout.ROWS)

    @property
    def processors(self) -> int:
        return FEW if self.kv_length >= LONG else cute_sm100.PROCESSORS

    @property
    def distribution(self) -> str:
        place = LENGTHS.index(self.kv_length) + BATCHES.index(self.batch) + self.blocks
        return DISTRIBUTIONS[(place + cute_sm100.DTYPES.index(self.dtype)) % len(DISTRIBUTIONS)]


def combinations() -> Iterator[tuple[Combination, tuple[Order, ...]]]:
    """Each with its part of the schedules: those of one plan, or the three dtypes of four blocks, have all together."""
    for length in LENGTHS:
        for batch in BATCHES:
            shapes = [(heads, tokens) for heads in HEADS for tokens in TOKENS if tokens <= length]
            for number, dtype in enumerate(cute_sm100.DTYPES):
                alike: dict[int, list[Combination]] = {}
                for heads, tokens in shapes:
                    found = Combination(length, batch, heads, tokens, dtype)
                    alike.setdefault(found.blocks, []).append(found)
                for blocks, members in alike.items():
                    parts = len(members) if blocks == 1 else len(cute_sm100.DTYPES)
                    for place, member in enumerate(members):
                        yield member, SCHEDULES[(place + number if blocks == 1 else number) % parts :: parts]


def to_run(done: dict[Combination, set[Order]]) -> Iterator[tuple[Combination, list[Order]]]:
    """Launches that are not done, the sample first."""
    order = list(combinations())
    random.Random(5).shuffle(order)
    rounds = [(one, part[:2]) for one, part in order if one.kv_length < LENGTHS[-1]]
    rounds += [(one, part[2:]) for one, part in order if one.kv_length < LENGTHS[-1]]
    rounds += [(one, part[:1]) for one, part in order if one.kv_length == LENGTHS[-1]]
    small_first = sorted((one for one, _ in order), key=lambda one: (one.kv_length >= LONG, one.kv_length, one.blocks))
    rounds += [
        (one, SCHEDULES[at : at + TOGETHER])
        for one in small_first
        if one.kv_length < LONG
        for at in range(0, len(SCHEDULES), TOGETHER)
    ]
    rounds += [
        (one, SCHEDULES[at : at + TOGETHER_LONG])
        for at in range(0, len(SCHEDULES), TOGETHER_LONG)
        for one in small_first
        if one.kv_length >= LONG
    ]
    for one, part in rounds:
        if left := [order for order in part if order not in done.setdefault(one, set())]:
            done[one].update(left)
            yield one, left


def read(paths: Iterable[Path]) -> dict[Combination, tuple[set[Order], list[str]]]:
    """What lines of OUT tell: by combination the schedules that it was run under, and what was wrong."""
    found: dict[Combination, tuple[set[Order], list[str]]] = {}
    for path in paths:
        for line in path.read_text().splitlines() if path.exists() else ():
            entry = json.loads(line)
            orders, wrong = found.setdefault(Combination(*entry["combo"]), (set(), []))
            orders.update((name, seed) for name, seed in entry["schedules"])
            wrong.extend(entry["faults"])
    return found


def run(builds: Path, out: Path, seconds: float, processes: int, from_the_end: bool) -> int:
    """Lines of OUT for what it lacks, by so many processes; returns how many things are wrong."""
    end, wrong = time.time() + seconds, 0
    tasks = list(to_run({one: set(ran) for one, (ran, _) in read([out]).items()}))
    if from_the_end:
        tasks.reverse()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, context, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for done in as_completed([pool.submit(launch, builds, one, orders, end) for one, orders in tasks]):
            if entry := done.result():
                with out.open("a") as file:
                    file.write(json.dumps(entry) + "\n")
                wrong += len(entry["faults"])
    return wrong


def others(builds: Path, out: Path, seconds: float, launches: int) -> int:
    """Lines of OTHERS for what it lacks; returns how many things are wrong."""
    end, wrong, draw = time.time() + seconds, 0, random.Random(6)
    everything = [one for one, _ in combinations()]
    done = len(out.read_text().splitlines()) if out.exists() else 0
    for number in range(launches):
        one, order = draw.choice(everything), draw.choice(SCHEDULES)
        found = cute_sm100.variants(one.workload, "sm_100a")[1:]
        if number >= done and (entry := launch(builds, one, [order], end, found[number % len(found)].id)):
            with out.open("a") as file:
                file.write(json.dumps(entry) + "\n")
            wrong += len(entry["faults"])
    return wrong


def launch(builds: Path, one: Combination, orders: list[Order], end: float, variant: str = "") -> dict[str, Any]:
    """A line of OUT: one combination under some schedules, those that begin before the end; {} where there are none.

    In the variant that comes first, if none is given.
    """
    ran: list[Order] = []

    def in_time() -> Iterator[Order]:
        for order in orders:
            if time.time() >= end:
                return
            ran.append(order)
            yield order

    if time.time() >= end:
        return {}
    began = time.process_time()
    variant = variant or cute_sm100.variants(one.workload, "sm_100a")[0].id
    found = list(faults(builds / variant, one.workload, in_time(), None, one.processors, one.distribution))
    entry = {"combo": one, "variant": variant, "distribution": one.distribution, "schedules": ran, "faults": found}
    return {**entry, "cpu_seconds": round(time.process_time() - began, 1)} if ran else {}


def summary(paths: Iterable[Path]) -> str:
    """Combinations with the numbers of the schedules that they were run under, a line each, and what was wrong."""
    rows = []
    for one, (ran, wrong) in sorted(read(paths).items()):
        numbers = sorted(SCHEDULES.index(order) for order in ran)
        rows.append(json.dumps({"combo": one, "schedules": numbers, "faults": wrong}))
    names = json.dumps([f"{name} {seed}" for name, seed in SCHEDULES])
    return f'{{"schedules": {names},\n "combinations": [\n' + ",\n".join(rows) + "\n]}"


def main() -> int:
    parser = argparse.ArgumentParser(description="cute_sm100 in the simulator, over its list of combinations.")
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run")
    runs.add_argument("builds", type=Path)
    runs.add_argument("out", type=Path)
    runs.add_argument("--seconds", type=float, default=math.inf)
    runs.add_argument("--processes", type=int, default=1)
    runs.add_argument("--from-the-end", action="store_true")
    commands.add_parser("summary").add_argument("outs", type=Path, nargs="+")
    rest = commands.add_parser("others")
    rest.add_argument("builds", type=Path)
    rest.add_argument("out", type=Path)
    rest.add_argument("--seconds", type=float, default=math.inf)
    rest.add_argument("--launches", type=int, default=300)
    given = parser.parse_args()
    if given.command == "summary":
        print(summary(given.outs))
        return 0
    if given.command == "others":
        return bool(others(given.builds, given.out, given.seconds, given.launches))
    return bool(run(given.builds, given.out, given.seconds, given.processes, given.from_the_end))


if __name__ == "__main__":
    sys.exit(main())
