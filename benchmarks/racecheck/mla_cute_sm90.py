"""What compute-sanitizer's racecheck, memcheck and synccheck say of both kernels of `cute_sm90`, in MLA decode.

    python -m benchmarks.racecheck.mla_cute_sm90 FILE BUILD …        such as bf16_cluster2 fp16_cluster2

One call of each build on one small workload (two requests of 600 tokens, 128 heads, so that clusters of two share the
loads of a request's row blocks) under each tool, which watches our kernels alone; under racecheck first both, then the
attention kernel by itself. The outputs are compared with the reference all the same. FILE gets what was found, as JSON.
It needs a GPU of sm_90a, the builds in `results/compile` or in the folder that CUTESNAKE_BUILDS names, and
compute-sanitizer on the PATH or in /usr/local/cuda.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

BUILDS = Path(os.environ.get("CUTESNAKE_BUILDS", ROOT / "results/compile"))
BATCH, LENGTH, HEADS, LIMIT_SECONDS = 2, 600, 128, 150.0
WATCHED = {"both kernels": "kernel_cutlass", "the attention kernel": "kernel_cutlass_split"}
LOOKS = (  # a tool of compute-sanitizer, and what it watches
    *(("racecheck", what) for what in WATCHED),
    ("memcheck", "both kernels"),
    ("synccheck", "both kernels"),
)
ERRORS = r"ERROR SUMMARY: (?P<errors>\d+) errors?"
SUMMARY = {
    "racecheck": r"RACECHECK SUMMARY: (?P<hazards>\d+) hazards? displayed "
    r"\((?P<errors>\d+) errors?, (?P<warnings>\d+) warnings?\)",
    "memcheck": ERRORS,
    "synccheck": ERRORS,
}


def run(name: str) -> None:
    """Run one call under the tool, with inputs and reference made on the host."""
    import torch

    from cutesnake.stages.load.build import LoadedBuild
    from cutesnake.stages.measure import checker
    from kernels.mla_decode import cute_sm90, operator

    work = operator.Workload(BATCH, LENGTH, name.split("_")[0], heads=HEADS)
    inputs = operator.make_inputs(work, 0)
    expected, yardstick = operator.reference(inputs, work), operator.same_precision(inputs, work)
    there = {field.name: getattr(inputs, field.name) for field in fields(inputs)}
    there = {key: value.cuda() if isinstance(value, torch.Tensor) else value for key, value in there.items()}
    outputs = operator.make_outputs(work, "cuda")
    build = LoadedBuild(BUILDS / "mla_decode/cute_sm90/sm_90a" / name)
    runner = cute_sm90.bind(build, work, operator.Inputs(**there), outputs)
    runner(torch.cuda.current_stream().cuda_stream)
    torch.cuda.synchronize()
    host = operator.Outputs(outputs.out.cpu(), outputs.lse.cpu())
    errors = checker.compare_outputs(host, expected, yardstick, operator.tolerance(work.dtype))
    if not all(error.passed for error in errors.values()):
        raise RuntimeError(f"{name}: the outputs are wrong: {errors}")
    print("right after", len(runner.launches), "launches", flush=True)


def look(sanitizer: str, name: str, tool: str, what: str) -> dict[str, Any]:
    """Return one tool's count in one call, and its output's end if any."""
    command = [sanitizer, "--tool", tool, "--kernel-name", f"kernel_substring={WATCHED[what]}", "--print-limit", "4"]
    began = time.monotonic()
    try:
        done = subprocess.run(
            [*command, sys.executable, __file__, "--one", name],
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        message = done.stdout + done.stderr
    except subprocess.TimeoutExpired as late:
        parts = [part.decode() if isinstance(part, bytes) else part or "" for part in (late.stdout, late.stderr)]
        message = "".join(parts) + f"\nnot done after {LIMIT_SECONDS:g} s"
    summary = re.search(SUMMARY[tool], message)
    launches = re.search(r"right after (\d+) launches", message)
    numbers = {key: int(number) for key, number in summary.groupdict().items()} if summary else {}
    result = {"build": name, "tool": tool, "watched": what, "right": launches is not None, **numbers}
    result |= {"launches": int(launches[1]) if launches else None, "seconds": round(time.monotonic() - began, 1)}
    clean = launches and numbers and not any(numbers.values())
    return result if clean else result | {"end": message[-1200:]}


def main(file: str, *names: str) -> None:
    import torch

    from cutesnake.stages.measure.case import commit

    sanitizer = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    version = subprocess.run([sanitizer, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()
    result: dict[str, Any] = {
        "device": torch.cuda.get_device_name(),
        "created": datetime.now(UTC).isoformat("T", "minutes"),
    }
    result |= {"commit": commit(), "compute-sanitizer": version[-1].strip()}
    result |= {"batch": BATCH, "kv_length": LENGTH, "heads": HEADS, "rows": []}
    for name in names:
        for tool, what in LOOKS:
            result["rows"].append(look(sanitizer, name, tool, what))
            Path(file).write_text(json.dumps(result, indent=1) + "\n")
            print(json.dumps(result["rows"][-1]), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        run(sys.argv[2])
    else:
        main(*sys.argv[1:])
