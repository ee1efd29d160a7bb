"""Build, check and time the kernel `cute_sm90` outside the workflow, for work on the kernel itself.

    python benchmarks/mla_cute_sm90/measure.py build ROOT             # needs the DSL, no GPU
    python benchmarks/mla_cute_sm90/measure.py check ROOT [VARIANT]   # needs an H100 or H200, no DSL
    python benchmarks/mla_cute_sm90/measure.py time ROOT BUILD:VARIANT ...   # ROOT/BUILD/compile/
    ncu ... python benchmarks/mla_cute_sm90/measure.py profile ROOT VARIANT BATCH KV_LENGTH

Builds lie under ROOT/compile/, as in results/.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "workflow" / "scripts")]

from cutesnake.stages.load.build import LoadedBuild  # noqa: E402
from kernels.mla_decode import cute_sm90  # noqa: E402
from kernels.mla_decode.operator import (  # noqa: E402
    DISTRIBUTIONS,
    Workload,
    cost,
    make_inputs,
    make_outputs,
    reference,
    same_precision,
    tolerance,
)

# FlashMLA (commit 9241ae3) and TileGym 1.5.1 on one H200, µs: median of 7 CUDA-graph replays, hot L2, 2026-11-20
ROWS = {
    (1, 1024): (13.7, None),
    (1, 8192): (24.8, 182.8),
    (1, 65536): (51.7, None),
    (4, 4096): (24.8, 94.1),
    (16, 4096): (43.7, 114.2),
    (32, 1024): (34.2, 62.9),
    (32, 4096): (69.8, 224.7),
    (32, 16384): (235.3, 869.8),
    (64, 4096): (126.5, 439.9),
    (128, 1024): (76.5, 240.0),
    (128, 4096): (231.4, 870.5),
    (128, 8192): (519.1, None),
}
REPLAYS, CALLS = 9, 20


def folder(root: Path, variant: str) -> Path:
    return root / "compile" / "mla_decode" / "cute_sm90" / "sm_90a" / variant


def build(root: Path, only: list[str]) -> None:
    from cutesnake.stages.compile.compile import compile_build

    for dtype in ("bf16", "fp16"):
        sizes = (1, 64), (16, 4096), (64, 1024)
        found = [one for size in sizes for one in cute_sm90.variants(Workload(*size, dtype), "sm_90a")]
        for variant in {one.id: one for one in found}.values():
            if only and variant.id not in only:
                continue
            compile_build("mla_decode", "cute_sm90", "sm_90a", variant, folder(root, variant.id))
            made = json.loads((folder(root, variant.id) / "build.json").read_text())
            print(variant.id, made["status"], made["reason"], made["seconds"], "s")


def workloads(variant: str) -> list[tuple[Workload, str]]:
    """Shapes at the edges of pages, splits, row blocks and causal masks, for one build."""
    dtype, kind, *_ = variant.split("_")
    cases = [
        (dict(batch=2, kv_length=length), name)
        for length in (1, 63, 64, 65, 129, 257, 1024)
        for name in ("randn", "ragged")
    ]
    cases += [(dict(batch=3, kv_length=1000, paged=True), name) for name in DISTRIBUTIONS]
    cases += [(dict(batch=2, kv_length=520, heads=heads, paged=True), "ragged") for heads in (16, 32, 64, 96)]
    for tokens in (2, 3, 4):
        for heads in (16, 64, 128):
            length = 64 * tokens + tokens - 1
            cases += [(dict(batch=3, kv_length=length, heads=heads, query_tokens=tokens, paged=True), "ragged")]
    cases += [(dict(batch=2, kv_length=4, query_tokens=4), "length_one")]
    cases += [(dict(batch=2, kv_length=130, query_tokens=2, causal=False), "randn")]
    cases += [(dict(batch=200, kv_length=700, paged=True), "ragged"), (dict(batch=1, kv_length=20000), "randn")]
    made = [(Workload(dtype=dtype, **case), name) for case, name in cases]
    return [(work, name) for work, name in made if kind != "cluster2" or work.query_tokens * work.heads > 64]


def check(root: Path, variant: str) -> None:
    import torch

    loaded = LoadedBuild(folder(root, variant))
    failures = 0
    for number, (work, distribution) in enumerate(workloads(variant)):
        print(f"{variant} {work.id} {distribution} ... ", end="", flush=True)
        inputs = make_inputs(work, 1000 + number, "cuda", distribution)
        outputs = make_outputs(work, "cuda")
        runner = cute_sm90.bind(loaded, work, inputs, outputs)
        for tensor in (*runner.enqueue.arguments[8:10],):
            tensor.fill_(float("nan"))
        runner(torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        expected, yardstick = reference(inputs, work), same_precision(inputs, work)

        def distance(got, want=expected.out):
            return ((got.float() - want).norm() / want.norm()).item()

        error, allowed = distance(outputs.out), max(2 * distance(yardstick.out), tolerance(work.dtype))
        lse = (outputs.lse - expected.lse).abs().max().item()
        lse_allowed = max(2 * (yardstick.lse - expected.lse).abs().max().item(), 2e-3)
        first = outputs.out.clone()
        for _ in range(3):
            outputs.out.fill_(float("nan"))
            runner(torch.cuda.current_stream().cuda_stream)
        torch.cuda.synchronize()
        same = torch.equal(first, outputs.out)
        good = error <= allowed and lse <= lse_allowed and same
        failures += not good
        print(f"{'ok' if good else 'WRONG'} error {error:.2e} of {allowed:.2e}, lse {lse:.1e}, same again {same}")
    print(f"{variant}: {failures} wrong")
    sys.exit(failures > 0)


def graph_time(runner, torch) -> tuple[float, float, float]:
    """Median µs of a call over replays of a graph of 20 calls; MHz of the SMs and watts while they ran."""
    stream = torch.cuda.Stream()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(3):
            runner(stream.cuda_stream)
        stream.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(CALLS):
                runner(stream.cuda_stream)
        for _ in range(3):
            graph.replay()
        samples = []
        for _ in range(REPLAYS):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record(stream)
            graph.replay()
            end.record(stream)
            end.synchronize()
            samples.append(start.elapsed_time(end) * 1000 / CALLS)
        for _ in range(3):
            graph.replay()
        clock, power = torch.cuda.clock_rate(), torch.cuda.power_draw() / 1000
        stream.synchronize()
    return statistics.median(samples), clock, power


def profile(root: Path, variant: str, batch: int, length: int) -> None:
    """Two calls and no more, for ncu."""
    import torch

    work = Workload(batch, length, variant.split("_")[0])
    runner = cute_sm90.bind(
        LoadedBuild(folder(root, variant)), work, make_inputs(work, 1, "cuda"), make_outputs(work, "cuda")
    )
    for _ in range(2):
        runner(torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()


def measure(builds: list[tuple[Path, str]]) -> None:
    """Times of all builds row by row, three rounds, so that a drifting clock meets them all alike."""
    import torch

    ratios: dict[str, list[float]] = {}
    loaded = {f"{root.name}/{variant}": LoadedBuild(folder(root, variant)) for root, variant in builds}
    table = []
    for (batch, length), (flashmla, tilegym) in ROWS.items():
        work = Workload(batch, length)
        inputs, outputs = make_inputs(work, 1, "cuda"), make_outputs(work, "cuda")
        runners = {name: cute_sm90.bind(build, work, inputs, outputs) for name, build in loaded.items()}
        names = list(runners)
        rounds = []
        for turn in range(
            max(3, len(names))
        ):  # a kernel after a hungry one finds a lower clock: everyone takes every place
            order = [names[(turn + place) % len(names)] for place in range(len(names))]
            rounds.append({name: graph_time(runners[name], torch) for name in order})
        for name, runner in runners.items():
            took, clock, power = (statistics.median(times[name][n] for times in rounds) for n in range(3))
            ratios.setdefault(name, []).append(flashmla / took)
            table.append(
                dict(
                    build=name,
                    batch=batch,
                    kv_length=length,
                    us=round(took, 2),
                    rounds=[round(times[name][0], 2) for times in rounds],
                    sm_clock_mhz=clock,
                    power_w=round(power),
                    tflops=round(cost(work).flops / took / 1e6, 1),
                    of_flashmla=round(flashmla / took, 3),
                    of_tilegym=round(tilegym / took, 2) if tilegym else None,
                    launches=len(runner.launches),
                )
            )
        print(
            batch,
            length,
            *(
                f"{e['build']}={e['us']}({e['of_flashmla']},{e['sm_clock_mhz']},{e['power_w']})"
                for e in table[-len(runners) :]
            ),
            flush=True,
        )
    for name, values in ratios.items():
        print(name, "geometric mean", round(statistics.geometric_mean(values), 3), "least", round(min(values), 3))
    if out := os.environ.get("OUT"):
        (Path(out) / "times.json").write_text(json.dumps(table, indent=1))


if __name__ == "__main__":
    command, root, chosen = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    if command == "build":
        build(root, chosen)
    elif command == "check":
        started = time.monotonic()
        for name in chosen:
            check(root, name)
        print(f"{time.monotonic() - started:.1f} s")
    elif command == "profile":
        profile(root, chosen[0], int(chosen[1]), int(chosen[2]))
    elif command == "time":
        measure([(root / name.split(":")[0], name.split(":")[1]) for name in chosen])
    else:
        sys.exit(__doc__)
