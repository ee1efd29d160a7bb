"""Times builds of cuTile MLA decode side by side on one GPU: the whole operator, by CUDA graph replay.

    python benchmarks/mla_cutile/measure.py BUILDS [--sweep small|full] [--kernels cutile,...] [--plans wide:16,...]

BUILDS is a folder like `results/compile` (or a copy of it on another machine). Every build of `mla_decode` for the
card's architecture that supports a workload is run on it. Each result is checked against the operator's float32
reference first; a build that is wrong is named and not timed. Figures: median of 7 replays of a graph of as many calls
as fill 5 ms, so with a warm L2; inputs are random. One line of JSON per case goes to `--out`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "workflow" / "scripts")]

from cutesnake.model.catalog import load_kernel  # noqa: E402
from cutesnake.stages.load.build import LoadedBuild  # noqa: E402
from kernels.mla_decode import operator as problem  # noqa: E402
from kernels.mla_decode.cutile.plan import Plan, Tiling  # noqa: E402
from kernels.mla_decode.cutile.run import bind  # noqa: E402

SWEEPS = {
    "small": [(1, 1024), (1, 8192), (4, 4096), (16, 4096), (32, 4096), (128, 1024), (128, 4096)],
    "full": [(b, s) for b in (1, 4, 16, 32, 64, 128) for s in (1024, 4096, 8192, 16384)] + [(1, 65536)],
}
KERNELS = ("cutile", "tilegym", "tilegym_split_kv")
GRAPH_SECONDS = 5.0e-3
REPLAYS = 7


def runners(
    workload: Any, builds: Path, target: str, kernels: list[str], plans: list[str], state: Any
) -> Iterator[Any]:
    """(kernel, variant, bound runner) of every build there is for a workload."""
    for kernel in kernels:
        module = load_kernel("mla_decode", kernel)
        if module.supports(workload) is not None:
            continue
        for variant in module.variants(workload, target):
            folder = builds / "mla_decode" / kernel / target / variant.id
            if not (folder / "build.json").exists():
                continue
            if folder not in state.loaded:
                state.loaded[folder] = LoadedBuild(folder)
            loaded = state.loaded[folder]
            runner = module.bind(loaded, workload, state.inputs, state.outputs)
            yield kernel, variant.id, runner
            for width, chunk in (plan.split(":") for plan in (plans if kernel == "cutile" else [])):
                plan = Plan(Tiling.of(variant.params, width), int(chunk), direct=width == "wide")
                yield kernel, variant.id, bind(loaded, workload, state.inputs, state.outputs, plan)


def errors(runner: Any, state: Any) -> tuple[float, float]:
    """Relative error norm of the output and largest absolute error of the LSE, outputs poisoned before the run."""
    state.outputs.out.copy_(torch.full_like(state.outputs.out, float("nan")))
    state.outputs.lse.fill_(float("nan"))
    runner(torch.cuda.current_stream().cuda_stream)
    runner.finish()
    torch.cuda.synchronize()
    difference = state.outputs.out.float() - state.reference.out
    relative = float(difference.norm() / state.reference.out.norm())
    return relative, float((state.outputs.lse - state.reference.lse).abs().max())


def time_us(runner: Any) -> tuple[float, float]:
    """Median and spread (largest less smallest) of a call in microseconds."""

    def elapsed(calls: int, work: Any) -> float:
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1.0e3 / calls

    stream = torch.cuda.current_stream().cuda_stream
    elapsed(1, lambda: runner(stream))
    once = elapsed(5, lambda: [runner(stream) for _ in range(5)])
    calls = max(2, min(200, int(GRAPH_SECONDS * 1.0e6 / once)))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(calls):
            runner(torch.cuda.current_stream().cuda_stream)
    graph.replay()
    times = [elapsed(calls, graph.replay) for _ in range(REPLAYS)]
    return statistics.median(times), max(times) - min(times)


class State:
    """Inputs, outputs and reference of the workload in hand, and the builds loaded so far."""

    def __init__(self) -> None:
        self.loaded: dict[Path, Any] = {}
        self.inputs: Any = None
        self.outputs: Any = None
        self.reference: Any = None

    def prepare(self, workload: Any, distribution: str) -> None:
        self.inputs = self.outputs = self.reference = None
        self.inputs = problem.make_inputs(workload, 0, "cuda", distribution)
        self.outputs = problem.make_outputs(workload, "cuda")
        self.reference = problem.reference(self.inputs, workload)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("builds", type=Path)
    parser.add_argument("--sweep", choices=SWEEPS, default="small")
    parser.add_argument("--kernels", default=",".join(KERNELS))
    parser.add_argument("--plans", default="", help="also try these plans of ours: tiling:KV tiles of an item,...")
    parser.add_argument("--dtype", default="bf16")
    parser.add_argument("--distribution", default="randn")
    parser.add_argument("--out", type=Path, default=None)
    arguments = parser.parse_args()
    major, minor = torch.cuda.get_device_capability()
    target, state, wrong, lines = f"sm_{major}{minor}a", State(), 0, []
    plans = [part for part in arguments.plans.split(",") if part]
    for batch, length in SWEEPS[arguments.sweep]:
        workload = problem.Workload(batch, length, arguments.dtype)
        state.prepare(workload, arguments.distribution)
        flops = problem.cost(workload).flops
        for kernel, variant, runner in runners(
            workload, arguments.builds, target, arguments.kernels.split(","), plans, state
        ):
            first = runner.launches[0]
            relative, lse = errors(runner, state)
            right = relative < problem.tolerance(arguments.dtype) and lse < 1.0e-2
            wrong += not right
            time, spread = time_us(runner) if right else (float("inf"), float("inf"))
            tflops = flops / time * 1.0e-6
            line = {"batch": batch, "kv_length": length, "kernel": kernel, "variant": variant}
            line |= {"function": first.symbol, "grid": list(first.grid), "us": time, "spread_us": spread}
            line |= {"tflops": tflops, "relative_error": relative, "lse_error": lse}
            lines.append(line)
            print(
                f"{batch:4} {length:6} {kernel:16} {variant:32} {first.symbol:29} {first.grid!s:15}"
                f"{time:9.1f} us {tflops:6.1f} TFLOP/s  error {relative:.1e} lse {lse:.1e}"
                + ("" if right else "  WRONG"),
                flush=True,
            )
    if arguments.out:
        arguments.out.write_text("".join(json.dumps(line) + "\n" for line in lines).replace("Infinity", "null"))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
