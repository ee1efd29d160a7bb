"""Times of every variant of `cute_sm90` and of FlashMLA, warm and cold.

Groups of workloads: uniform, ragged, odd, small heads, several query tokens, the recorded sweep, and uniform batches
drawn by a rule. The choice of builds was fitted with the times of `weak` and `drawn`; `unseen` was opened once, for the
fitted choice; after that one price was changed, and `later` drawn.

    python -m benchmarks.mla_cute_sm90.groups BUILDS RECORD.json [GROUP ...]

BUILDS is a folder with compile/, as the workflow makes it. Needs an H100 or H200 and the package
`flash_mla`. Whoever names no group gets all of them. A table goes to standard output, every figure to RECORD.json.

warm    a replay of a CUDA graph of several calls, behind another one of the same; L2 as the call before left it
cold    a CUDA graph of one call after 512 MB were written and the GPU was busy until the replay stood in its queue;
        the second of two such calls, so that, as with NVBench, the kernel before it was the same
plan    warm, of cute_sm90: `plan`, where its runner has one; of FlashMLA: its metadata kernel, by torch's profiler

Kernels alternate, replay by replay, each in every place of the order, forwards and backwards alternately. A round is a
few milliseconds, so that a clock that changes with the power drawn changes for all. The figures are medians of all
rounds. `noise` is by how much FlashMLA's time over the default's differs between the medians of one half of the rounds
and of the other, in per cent, warm and cold.
"""

import json
import random
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cutesnake.stages.load.build import LoadedBuild
from kernels.mla_decode import cute_sm90, flash_mla
from kernels.mla_decode.operator import Workload, make_inputs, make_outputs, reference

GRAPH_US, MOST_CALLS, REPLAYS, ROUNDS = 2000.0, 20, 7, 24
FLUSH_BYTES = 512 << 20
PEER = "flash_mla"
RULE_PERCENT = 3.0  # how far the variant that the rule names may lie behind the best one

UNIFORM = [(1, 1024), (1, 8192), (1, 65536), (4, 4096), (16, 4096), (32, 1024), (32, 4096), (32, 16384)]
UNIFORM += [(64, 4096), (128, 1024), (128, 4096), (128, 8192)]
RAGGED = [(3, 16384), (7, 8192), (24, 4096), (48, 8192), (133, 4096), (133, 16384), (256, 8192)]
ODD = [(3, 5000), (7, 333), (133, 2000), (96, 2048), (200, 1000)]
HEADS = [dict(heads=heads) for heads in (16, 32, 64)] + [dict(query_tokens=tokens) for tokens in (2, 4)]
SIZES = [(1, 8192), (32, 4096), (128, 2048)]
WEAK = [(20, 6144), (12, 3000), (40, 1500), (80, 4096), (112, 3000), (150, 6144), (50, 12288)]
SWEEP = [(batch, length) for batch in (1, 4, 16, 32, 64, 128) for length in (1024, 4096, 8192, 16384)] + [(1, 65536)]


def draw(count: int, seed: str, known: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Draw batches and lengths, both log-uniform, and add them to `known`."""
    numbers = random.Random(seed)
    result: list[tuple[int, int]] = []
    while len(result) < count:
        size = int(256 ** numbers.random() + 0.5), int(512 * 64 ** numbers.random() + 0.5)
        if size not in known:
            result.append(size)
            known.add(size)
    return result


KNOWN = {*UNIFORM, *RAGGED, *ODD, *SIZES, *SWEEP, *WEAK}
DRAWN = draw(50, "uniform rows that no rule of cute_sm90 was fitted to, 2026-11-28", KNOWN)
LATER = draw(25, "third draw of uniform rows, after every price of cute_sm90 was set, 2026-11-28", KNOWN)
# of the draws, the rows with the least speedups
WEAKEST = [(13, 9398), (35, 2880), (18, 18561), (29, 11796), (24, 7291), (26, 21518), (63, 9622), (24, 12024)]
WEAKEST += [(16, 22667), (47, 19299), (84, 20503), (34, 3827), (93, 18606), (20, 6144), (112, 3000), (46, 5609)]
WEAKEST += [(50, 12288), (151, 10068), (159, 6145), (31, 8763)]

GROUPS = {
    "uniform": [Workload(*size) for size in UNIFORM],
    "ragged": [Workload(*size, lengths="ragged") for size in RAGGED],
    "odd": [Workload(*size) for size in ODD],
    "heads": [Workload(*size, **what) for what in HEADS for size in SIZES],
    "sweep": [Workload(*size) for size in SWEEP],
    "weak": [Workload(*size) for size in WEAK],
    "drawn": [Workload(*size) for size in DRAWN[::2]],
    "unseen": [Workload(*size) for size in DRAWN[1::2]],
    "later": [Workload(*size) for size in LATER],
    "weakest": [Workload(*size) for size in WEAKEST],
}


@dataclass
class Timed:
    """A kernel bound to a workload, its graphs, and its times in microseconds."""

    runner: Any
    single: Any
    several: Any
    calls: int
    warm: list[float] = field(default_factory=list)
    cold: list[float] = field(default_factory=list)


def capture(runner: Any, stream: Any, calls: int) -> Any:
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream), torch.cuda.graph(graph, stream=stream):
        for _ in range(calls):
            runner(stream.cuda_stream)
    return graph


def replay_us(graph: Any, stream: Any, replays: int) -> float:
    """Median time of a replay, of `replays`."""
    pairs = [enqueue(graph, stream) for _ in range(replays)]
    stream.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in pairs) * 1000


def enqueue(graph: Any, stream: Any) -> tuple[Any, Any]:
    """Enqueue a replay between two events."""
    import torch

    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    with torch.cuda.stream(stream):
        begin.record()
        graph.replay()
        end.record()
    return begin, end


def bind(name: str, builds: Path, work: Workload, inputs: Any, outputs: Any, stream: Any) -> Timed:
    if name == PEER:
        runner = flash_mla.bind(None, work, inputs, outputs)
    else:
        folder = builds / "compile" / "mla_decode" / "cute_sm90" / "sm_90a" / name
        runner = cute_sm90.bind(LoadedBuild(folder), work, inputs, outputs)
    return timed(runner, stream)


def timed(runner: Any, stream: Any) -> Timed:
    """Return a bound kernel with two graphs: of one call, and of about GRAPH_US."""
    import torch

    torch.cuda.synchronize()  # what `bind` has under way, FlashMLA's schedule for one, is on another stream
    for _ in range(2):
        runner(stream.cuda_stream)
    stream.synchronize()
    single = capture(runner, stream, 1)
    one = replay_us(single, stream, 3)
    calls = max(2, min(MOST_CALLS, int(GRAPH_US / one)))
    return Timed(runner, single, capture(runner, stream, calls), calls)


def error(runner: Any, work: Workload, inputs: Any, outputs: Any, stream: Any) -> float:
    """Relative error of the output against float32."""
    import torch

    outputs.out.fill_(float("nan"))
    torch.cuda.synchronize()
    runner(stream.cuda_stream)
    stream.synchronize()
    getattr(runner, "finish", lambda: None)()
    torch.cuda.synchronize()
    expected = reference(inputs, work).out
    return ((outputs.out.float() - expected).norm() / expected.norm()).item()


def in_turn(bound: dict[str, Timed], stream: Any, rounds: int = ROUNDS) -> None:
    """Add `rounds` warm, then cold times to each kernel, in rotating order."""
    warm_in_turn(bound, stream, rounds)
    cold_in_turn(bound, stream, rounds)


def warm_in_turn(bound: dict[str, Timed], stream: Any, rounds: int = ROUNDS) -> None:
    for turn in range(rounds):
        pairs = {}
        for name in order(list(bound), turn):
            enqueue(bound[name].several, stream)
            pairs[name] = enqueue(bound[name].several, stream)
        stream.synchronize()
        for name, (begin, end) in pairs.items():
            bound[name].warm.append(begin.elapsed_time(end) * 1000 / bound[name].calls)


def cold_in_turn(bound: dict[str, Timed], stream: Any, rounds: int = ROUNDS) -> None:
    import torch

    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    for turn in range(rounds):
        pairs = {}
        for name in order(list(bound), turn):
            for _ in range(2):
                with torch.cuda.stream(stream):
                    flush.zero_()
                    torch.cuda._sleep(200_000)  # 100 us: the replay is in the queue before the GPU is free
                pairs[name] = enqueue(bound[name].single, stream)
        stream.synchronize()
        for name, (begin, end) in pairs.items():
            bound[name].cold.append(begin.elapsed_time(end) * 1000)


def order(names: list[str], turn: int) -> list[str]:
    """Return the names rotated, in every second round with another preceding neighbour."""
    first = turn // 2 % len(names)
    turned = names[first:] + names[:first]
    return turned if turn % 2 == 0 else turned[::-1]


def noise_percent(peer: list[float], default: list[float]) -> float:
    """Return how much a ratio differs between halves (rounds 0, 3, 4, 7, ...)."""
    parts = [[n for n in range(len(peer)) if (n + 1) // 2 % 2 == part] for part in (0, 1)]
    first, second = (
        statistics.median(peer[n] for n in part) / statistics.median(default[n] for n in part) for part in parts
    )
    return round(100 * abs(first / second - 1), 2)


def measure(builds: Path, work: Workload, rounds: int) -> dict[str, Any]:
    """One row of the record: every kernel's times of this workload."""
    import torch

    inputs, outputs = make_inputs(work, 1, "cuda"), make_outputs(work, "cuda")
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    variants = [variant.id for variant in cute_sm90.variants(work, "sm_90a")]
    bound = {name: bind(name, builds, work, inputs, outputs, stream) for name in (PEER, *variants)}
    in_turn(bound, stream, rounds)
    peer, default = bound[PEER], bound[variants[0]]
    return {
        "workload": work.id,
        "default": variants[0],
        "noise": [noise_percent(peer.warm, default.warm), noise_percent(peer.cold, default.cold)],
        **{
            name: {
                "warm_us": round(statistics.median(one.warm), 2),
                "cold_us": round(statistics.median(one.cold), 2),
                "error": error(one.runner, work, inputs, outputs, stream),
                "launches": len(one.runner.launches),
                **({"plan_us": plan_us(one.runner, stream)} if one.runner.plan else {}),
            }
            for name, one in bound.items()
        },
    }


def plan_us(runner: Any, stream: Any) -> float:
    """Microseconds of making the schedule again, on the GPU alone."""
    runner.plan(stream.cuda_stream)
    stream.synchronize()
    graph = capture(lambda handle: runner.plan(handle), stream, MOST_CALLS)
    replay_us(graph, stream, 3)
    return round(replay_us(graph, stream, REPLAYS) / MOST_CALLS, 2)


def metadata_us(work: Workload) -> float | None:
    """Microseconds of FlashMLA's metadata kernel, which its first call with new lengths runs."""
    import torch

    inputs, outputs = make_inputs(work, 1, "cuda"), make_outputs(work, "cuda")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(5):
            flash_mla.bind(None, work, inputs, outputs)
        torch.cuda.synchronize()
    times = [event.device_time for event in profile.events() if "metadata" in event.name]
    return statistics.median(times) if times else None


def ratios(rows: list[dict[str, Any]], kind: str) -> Iterator[tuple[str, float]]:
    for row in rows:
        yield row["workload"], row[PEER][kind] / row[row["default"]][kind]


def summary(group: str, rows: list[dict[str, Any]]) -> list[str]:
    """Return mean and minimum of FlashMLA's time ÷ the default variant's.

    It also names workloads where the default is not the best.
    """
    lines = []
    for kind in ("warm_us", "cold_us"):
        result = dict(ratios(rows, kind))
        least = min(result, key=result.get)
        mean = statistics.geometric_mean(result.values())
        lines.append(f"{group}, {kind[:4]}: geometric mean {mean:.3f}, least {result[least]:.3f} ({least})")
    for row in rows:
        times = {name: row[name]["warm_us"] for name in row if name not in ("workload", "default", "noise", PEER)}
        best = min(times, key=times.get)
        behind = 100 * (times[row["default"]] / times[best] - 1)
        if behind > RULE_PERCENT:
            lines.append(f"{group}: {row['workload']}: {row['default']} is {behind:.1f} % behind {best}")
    return lines


def text_of(value: Any, indent: str = " ") -> str:
    """Return JSON with a line for each row of a list, readable in diffs."""
    if isinstance(value, dict) and indent != "   ":
        lines = ",\n".join(f"{indent}{json.dumps(key)}: {text_of(part, indent + ' ')}" for key, part in value.items())
        return f"{{\n{lines}\n{indent[1:]}}}"
    if isinstance(value, list):
        rows = ",\n".join(indent + json.dumps(row) for row in value)
        return f"[\n{rows}\n{indent[1:]}]"
    return json.dumps(value)


def main(builds: Path, record: Path, groups: list[str], rounds: int = ROUNDS) -> None:
    import torch

    started = time.monotonic()
    result: dict[str, Any] = {"device": torch.cuda.get_device_name(), "groups": {}}
    for group in groups or GROUPS:
        rows = result["groups"][group] = []
        for work in GROUPS[group]:
            row = measure(builds, work, rounds)
            rows.append(row)
            cells = [f"{n} {v['warm_us']} {v['cold_us']}" for n, v in row.items() if isinstance(v, dict)]
            worst = max(v["error"] for v in row.values() if isinstance(v, dict))
            print(f"{group} {row['workload']} [{row['default']}]:", "; ".join(cells), end=" ")
            print(f"error {worst:.1e} noise {row['noise']}", flush=True)
        record.write_text(text_of(result) + "\n")
    for group, rows in result["groups"].items():
        print(*summary(group, rows), sep="\n")
    result["metadata_us"] = {work.id: metadata_us(work) for work in (GROUPS["uniform"][6], GROUPS["ragged"][3])}
    record.write_text(text_of(result) + "\n")
    print("FlashMLA's metadata kernel, us:", result["metadata_us"])
    print(f"{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    if len(sys.argv) < 3 or not set(sys.argv[3:]) <= set(GROUPS):
        sys.exit(f"{__doc__}\nGroups: {', '.join(GROUPS)}")
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
