"""Predicted times on a B200: `cute_sm100` and NVIDIA's MLA decode for Blackwell.

No one has timed them.

    python -m benchmarks.mla_cute_sm100.against_nvidia RESULTS OUT.jsonl
    python -m benchmarks.mla_cute_sm100.against_nvidia --table OUT.jsonl
    python -m benchmarks.mla_cute_sm100.against_nvidia --published RESULTS

RESULTS is a results folder with builds of both for sm_100a (the default variants of the default sweep's rows). Rows are
the rows of the default sweep that NVIDIA's kernel computes: 128 heads, one query token. OUT gets a line of JSON a row,
and rows that it has by this model are not predicted again. Next to both times a row has `start_us`, what the clock adds
to a single call before its first launch (of a grid like this project's), and `bytes_us`, cache, queries and results at
the GPU's bandwidth. `dram_busy_us` of a launch also has what it makes DRAM write back of what lay in the L2 before.
`--published` predicts the size for which NVIDIA has published times, at the clock that they are of.
"""

import json
import math
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ptxsim
from cutesnake.model.catalog import load_operator
from cutesnake.planning.sweep import make_sweep, read_sweep
from cutesnake.stages.measure.case import Case
from cutesnake.stages.predict.prediction import captured
from kernels.mla_decode import cute_sm100, cutlass_fp8, cutlass_fp16
from kernels.mla_decode.operator import Workload
from ptxsim import DeviceModel

ROOT = Path(__file__).resolve().parents[2]

TARGET, DEVICE = "sm_100a", "b200"
DTYPES = ("fp16", "fp8")
NVIDIAS = {"fp16": cutlass_fp16, "fp8": cutlass_fp8}
SMALL = 16  # batches that are to be AIM times as fast
GOAL, GOAL_OF_ALL = 1.3, 1.0
KINDS = ("cold_us", "warm_us")
# Of NVIDIA's kernel, warm: batch and kv length, SM clock, microseconds (see docs/kernels/cute_sm100.md).
PUBLISHED_SIZE, PUBLISHED_MHZ, PUBLISHED_US = (296, 8192), 802, {"fp16": 752, "fp8": 439}


def workloads() -> list[Workload]:
    """Return the workloads, small batches first, each part by work."""
    sweep = make_sweep("mla_decode", read_sweep("mla_decode", {}))
    result = [w for w in sweep.workloads() if w.dtype in DTYPES and NVIDIAS[w.dtype].supports(w) is None]
    return sorted(result, key=lambda w: (w.batch > SMALL, w.batch * w.kv_length, DTYPES.index(w.dtype)))


def launches(kernel: str, module: Any, workload: Workload, results: Path) -> tuple[str, Any]:
    """Return the default variant's name, and its launches with machine code."""
    variant = module.variants(workload, TARGET)[0]
    folder = results / "compile/mla_decode" / kernel / TARGET / variant.id
    chosen = {"id": variant.id, "params": variant.params}
    return variant.id, captured(Case("predict", "mla_decode", kernel, TARGET, chosen, asdict(workload), str(folder)))


def predicted(kernel: str, module: Any, workload: Workload, results: Path) -> dict[str, Any]:
    """Cold and warm microseconds of the default variant, and where a cold call's go."""
    variant, (calls, code) = launches(kernel, module, workload, results)
    surveys = dict[int, Any]()
    warm, cold = (ptxsim.predict(calls, DEVICE, cache=cache, code=code, surveys=surveys) for cache in ("warm", "cold"))
    return {
        "variant": variant,
        "warm_us": round(warm.microseconds, 3),
        "cold_us": round(cold.microseconds, 3),
        "launches": [
            {
                "ctas": math.prod(launch.grid),
                "begin_us": round(part.start_us, 3),
                "end_us": round(part.end_us, 3),
                "dram_busy_us": round(part.dram_percent / 100 * part.cycles / cold.sm_clock_mhz, 3),
            }
            for launch, part in zip(calls, cold.launches, strict=True)
        ],
    }


def row(workload: Workload, results: Path, model: str) -> dict[str, Any]:
    began = time.process_time()
    own = predicted("cute_sm100", cute_sm100, workload, results)
    nvidias = predicted(f"cutlass_{workload.dtype}", NVIDIAS[workload.dtype], workload, results)
    need = load_operator("mla_decode").cost(workload)
    gb_per_s = DeviceModel.load(DEVICE).constants.dram_read_gb_per_s
    return {
        "workload": workload.id,
        "batch": workload.batch,
        "kv_length": workload.kv_length,
        "lengths": workload.lengths,
        "dtype": workload.dtype,
        "model": model,
        "ours": own,
        "nvidias": nvidias,
        "start_us": round(own["cold_us"] - own["launches"][-1]["end_us"], 3),
        "bytes_us": round((need.bytes_read + need.bytes_written) / gb_per_s / 1e3, 3),
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def model_commit() -> str:
    """Return the last commit that changed ptxsim, marked where the checkout differs from it."""
    changed = "+changes" if _git("status", "--porcelain", "--", "ptxsim") else ""
    return _git("log", "-1", "--format=%h", "--", "ptxsim") + changed


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main(results: Path, out: Path) -> None:
    model = model_commit()
    done = {(entry["workload"], entry["model"]) for entry in read(out)}
    for workload in workloads():
        if (workload.id, model) not in done:
            entry = row(workload, results, model)
            with out.open("a") as file:
                file.write(json.dumps(entry) + "\n")
            print(entry["workload"], entry["ours"]["cold_us"], entry["nvidias"]["cold_us"], flush=True)


def table(entries: list[dict[str, Any]]) -> str:
    """Print a Markdown row per size with both dtypes, and the small batches' mean."""
    by_size: dict[tuple[int, int, str], dict[str, dict[str, Any]]] = {}
    for entry in entries:
        by_size.setdefault((entry["batch"], entry["kv_length"], entry["lengths"]), {})[entry["dtype"]] = entry
    lines = ["| batch, kv | " + " | ".join(f"NVIDIA's {dtype} | cute_sm100 | warm" for dtype in DTYPES) + " |"]
    lines.append("|" + "---|" * (1 + 3 * len(DTYPES)))
    for (batch, length, lengths), result in sorted(by_size.items(), key=lambda one: (one[0][2] != "full", *one[0][:2])):
        cells = [f"{batch}, {length:,}" + (" ragged" if lengths == "ragged" else "")]
        for dtype in DTYPES:
            cells += _cells(result[dtype])
        lines.append("| " + " | ".join(cells) + " |")
    small = [entry for entry in entries if entry["batch"] <= SMALL]
    sums = [_sum(part, kind, goal) for part, goal in ((small, GOAL), (entries, GOAL_OF_ALL)) for kind in KINDS]
    return "\n".join([*lines, "", *sums])


def published(results: Path) -> None:
    for dtype, reported in PUBLISHED_US.items():
        workload = Workload(*PUBLISHED_SIZE, dtype)
        for kernel, module in (("cute_sm100", cute_sm100), (f"cutlass_{dtype}", NVIDIAS[dtype])):
            variant, (calls, code) = launches(kernel, module, workload, results)
            result = ptxsim.predict(calls, DEVICE, code=code, clock_mhz=PUBLISHED_MHZ)
            print(
                f"{kernel} {variant}: {result.microseconds:.1f} us; NVIDIA's is published with {reported}", flush=True
            )


def ratio(entry: dict[str, Any], kind: str) -> float:
    return entry["nvidias"][kind] / entry["ours"][kind]


def _cells(entry: dict[str, Any]) -> list[str]:
    cold, mark = entry["ours"]["cold_us"], {"2": "²", "4": "⁴"}.get(entry["ours"]["variant"].partition("_pairs")[2], "")
    first = f"{entry['nvidias']['cold_us']:.2f}"
    return [first, f"{cold:.2f}{mark} ({ratio(entry, 'cold_us'):.2f})", f"{ratio(entry, 'warm_us'):.2f}"]


def _sum(entries: list[dict[str, Any]], kind: str, goal: float) -> str:
    ratios = [ratio(entry, kind) for entry in entries]
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    below = [entry["workload"] for entry, result in zip(entries, ratios, strict=True) if result < goal]
    return (
        f"{kind}: {len(ratios)} rows of batches up to {max(entry['batch'] for entry in entries)}, geometric mean "
        f"{mean:.3f}, least {min(ratios):.3f}; {len(below)} under {goal}: {', '.join(below)}"
    )


if __name__ == "__main__":
    if sys.argv[1] == "--table":
        print(table(read(Path(sys.argv[2]))))
    elif sys.argv[1] == "--published":
        published(Path(sys.argv[2]).resolve())
    else:
        main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
