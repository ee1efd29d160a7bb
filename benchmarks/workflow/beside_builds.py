"""What it costs a timing on a card that builds or simulations are under way beside it (`timing_alone: false`).

    python benchmarks/workflow/beside_builds.py FILE [seconds]

Ten workloads of MLA decode (`cute_sm90`) are timed as the workflow does, each three times in turn: with nothing beside
it, beside other work on all processors but one, and with nothing again, which says how far two quiet timings lie apart.
It stops after `seconds` (58), between two workloads, and writes all times to FILE as JSON.

Compilers need not be there: the work beside it stands for theirs. It is what a simulated check does: processes that
last a few seconds, import numpy and ptxsim, read the PTX of the kernel and simulate small ones, over and over. It needs
the builds of `cute_sm90` for sm_90a in `results/` (target `compiled`), a card of that architecture, and no DSL.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "workflow/scripts"
sys.path[:0] = [str(ROOT), str(SCRIPTS)]

from cutesnake.model.catalog import load_kernel, load_operator  # noqa: E402
from cutesnake.model.stages import GPU_STAGES  # noqa: E402
from cutesnake.runtime import worker  # noqa: E402
from cutesnake.stages.measure.case import Case  # noqa: E402

OPERATOR, KERNEL, TARGET = "mla_decode", "cute_sm90", "sm_90a"
SIZES = [(1, 1024), (1, 8192), (16, 1024), (16, 8192), (32, 4096), (32, 8192), (64, 1024), (64, 4096), (128, 1024)]
SIZES.append((128, 4096))
SETTINGS = {"max_seconds": 2, "max_noise_percent": 0.5}
FIGURES = ("cold_us", "hot_us", "second_source_us", "burst_us")
STATES = ("quiet", "beside", "quiet again")
SETTLE_SECONDS = 0.7
WORK = """
import sys
import ptxsim
from handwritten import histogram, scan, transpose, warp_gemm
ptxsim.Module.from_file(sys.argv[1])
for kernel in 3 * [histogram(), scan(), transpose(), warp_gemm("f16"), warp_gemm("bf16")]:
    module, shape = ptxsim.Module.from_text(kernel.text), (kernel.grid, (kernel.threads,))
    ptxsim.run(ptxsim.launch(module, "k", *shape, kernel.args, dynamic_shared=kernel.shared))
"""


def case_of(batch: int, kv_length: int) -> Case:
    parameters = {"dtype": "bf16", "batch": batch, "kv_length": kv_length}
    workload = load_operator(OPERATOR).Workload(**parameters)
    variant = load_kernel(OPERATOR, KERNEL).variants(workload, TARGET)[0]
    build = ROOT / "results/compile" / OPERATOR / KERNEL / TARGET / variant.id
    return Case("timing", OPERATOR, KERNEL, TARGET, {"id": variant.id, "params": dict(variant.params)}, parameters,
                str(build), SETTINGS)  # fmt: skip


@contextlib.contextmanager
def other_work(ptx: Path, done: list[int]) -> Iterator[None]:
    """Processes of WORK, one to each processor but one, a new one for each that ends; `done` gets their statuses."""
    over = threading.Event()
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests/ptxsim", os.environ.get("PYTHONPATH", ""))))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

    def keep_busy() -> None:
        while not over.is_set():
            process = subprocess.Popen([sys.executable, "-c", WORK, str(ptx)], env=environment)
            while process.poll() is None and not over.is_set():
                time.sleep(0.05)
            if process.poll() is None:
                process.kill()
                process.wait()
            else:
                done.append(process.returncode)

    threads = [threading.Thread(target=keep_busy) for _ in range(max(1, len(os.sched_getaffinity(0)) - 1))]
    for thread in threads:
        thread.start()
    try:
        time.sleep(SETTLE_SECONDS)
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def measure(seconds: float) -> dict[str, Any]:
    began, rows = time.monotonic(), []
    done: list[int] = []
    for size in SIZES:
        if time.monotonic() - began > seconds - 7:  # what a workload takes
            break
        case = case_of(*size)
        row: dict[str, Any] = {"batch": size[0], "kv_length": size[1], "variant": case.variant["id"]}
        for state in STATES:
            ptx = Path(case.build) / "kernel.ptx"
            with other_work(ptx, done) if state == "beside" else contextlib.nullcontext():
                record = worker.ask(case.as_dict(), GPU_STAGES["timing"].limit_s)
            found = record["metrics"] or {}
            row[state] = {key: value for key, value in found.items() if not isinstance(value, dict | list)}
            row[state] |= {"status": record["status"], "reason": record["reason"], "seconds": record["seconds"]}
        rows.append(row)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    work = {
        "processes at once": len(os.sched_getaffinity(0)) - 1,
        "processor seconds": round(used.ru_utime + used.ru_stime),
        "failed": len(done) - done.count(0),
    }
    return {"work": work, "seconds": round(time.monotonic() - began, 1), "rows": rows, "differences": compared(rows)}


def compared(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Percent by which each timing differs from the first quiet one of its workload."""
    found = {}
    for state in STATES[1:]:
        for figure in FIGURES:
            both = [(row[state].get(figure), row["quiet"].get(figure)) for row in rows]
            values = [round(100 * (now / before - 1), 2) for now, before in both if now and before]
            if values:
                median = round(statistics.median(values), 2)
                found[f"{figure}, {state}"] = {"median": median, "least": min(values), "most": max(values)}
    return found


def main(file: str, seconds: str = "58") -> None:
    found = measure(float(seconds))
    Path(file).write_text(json.dumps(found, indent=1))
    print(json.dumps({key: value for key, value in found.items() if key != "rows"}, indent=1))


if __name__ == "__main__":
    main(*sys.argv[1:])
