"""Runs the micro-benchmarks on the GPU of this machine and writes what came out.

    python -m benchmarks.microbenchmarks.run --out results.json
    python -m benchmarks.microbenchmarks.run --assemble --cubins FOLDER      # no GPU needed

Each group runs in a process of its own. A benchmark that fails is recorded with its error; where the failure may have
cost the process its context, or where it hangs, a new process goes on with the next one.
"""

import argparse
import importlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.microbenchmarks.kernel import assemble, module

FOLDER = Path(__file__).resolve().parent

GROUPS = (
    "arithmetic",
    "tensor_cores",
    "tma",
    "global_memory",
    "launches",
    "synchronization",
    "shared_memory",
    "instruction_fetch",
    "contention",
    "cold",
    "calls",
    "divisions",
    "descriptors",
    "same_tiles",
    "small_copies",
    "local_memory",
    "graphs",
    "first_use",
    "bursts",
    "product_loads",
)
SILENCE_LIMIT_S = 25.0  # without a new row: the benchmark hangs
CONTEXT_MISSING = 3  # exit status of a child whose context cannot be used any more


def group(name: str) -> ModuleType:
    if name not in GROUPS:
        raise SystemExit(f"run.py: no group {name!r}; there are {', '.join(GROUPS)}")
    return importlib.import_module(f"benchmarks.microbenchmarks.groups.{name}")


def measure_group(name: str, first: int, rows: Path, cubins: Path) -> int:
    """Run benchmarks from `first` on in the child, printing each result; return its status."""
    from benchmarks.microbenchmarks.gpu import Gpu, GpuError

    result = group(name)
    gpu = Gpu(cubins)
    gpu.load(module(result.kernels()))
    with rows.open("a") as stream:

        def write(row: dict[str, Any]) -> None:
            stream.write(json.dumps(row) + "\n")
            stream.flush()

        if first == 0:
            write({"card": gpu.describe()})
        for benchmark in list(result.benchmarks())[first:]:
            began = time.monotonic()
            try:
                row = benchmark.record(benchmark.measure(gpu))
            except GpuError as error:
                write({"group": name} | benchmark.record(None, str(error)))
                return CONTEXT_MISSING
            except Exception as error:
                row = benchmark.record(None, f"{type(error).__name__}: {error}")
            write({"group": name} | row | {"seconds": round(time.monotonic() - began, 3)})
    return 0


def read_rows(rows: Path) -> list[dict[str, Any]]:
    """Return the rows written so far, without a line that was cut short."""
    text = rows.read_text() if rows.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def run_group(name: str, rows: Path, cubins: Path) -> list[dict[str, Any]]:
    """Return a group's rows, the GPU's first; start children until all are there."""
    planned = list(group(name).benchmarks())
    while True:
        done = [row for row in read_rows(rows) if "card" not in row]
        if len(done) >= len(planned):
            return read_rows(rows)
        status = _child(name, len(done), rows, cubins)
        after = [row for row in read_rows(rows) if "card" not in row]
        if status == 0 and len(after) >= len(planned):
            return read_rows(rows)
        if status != CONTEXT_MISSING:  # it died, or was ended, in the middle of the next one
            reason = "it hung and was ended" if status is None else f"its process ended with status {status}"
            with rows.open("a") as stream:
                stream.write(json.dumps({"group": name} | planned[len(after)].record(None, reason)) + "\n")
            if len(after) == len(done) == 0:
                return read_rows(rows)  # not even the first: the group cannot start


def _child(name: str, first: int, rows: Path, cubins: Path) -> int | None:
    """Return a child's exit status from `first` on; None if it hung."""
    options = ["--group", name, "--first", str(first), "--rows", str(rows), "--cubins", str(cubins)]
    child = subprocess.Popen([sys.executable, str(FOLDER / "run.py"), *options])
    size, since = -1, time.monotonic()
    while child.poll() is None:
        time.sleep(0.05)
        grown = rows.stat().st_size if rows.exists() else 0
        if grown != size:
            size, since = grown, time.monotonic()
        elif time.monotonic() - since > SILENCE_LIMIT_S:
            child.kill()
            child.wait()
            return None
    return child.returncode


def write_results(out: Path, gpu: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """One benchmark a line, so that two results can be compared line by line."""
    lines = ",\n".join("  " + json.dumps(row) for row in rows)
    text = '{"card": ' + json.dumps(gpu) + ',\n "benchmarks": [\n' + lines + "\n ]}\n"
    scratch = out.with_name(out.name + ".tmp")
    scratch.write_text(text)
    scratch.replace(out)


def run_all(names: list[str], out: Path, cubins: Path) -> int:
    gpu: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            began = time.monotonic()
            result = run_group(name, Path(scratch) / f"{name}.jsonl", cubins)
            gpu = next((row["card"] for row in result if "card" in row), gpu)
            fresh = [row for row in result if "card" not in row]
            rows += fresh
            write_results(out, gpu, rows)
            failed = sum(row["error"] is not None for row in fresh)
            print(f"{name}: {len(fresh)} figures, {failed} failed, {time.monotonic() - began:.1f} s", flush=True)
    return 1 if any(row["error"] is not None for row in rows) else 0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results.json"))
    parser.add_argument("--cubins", type=Path, default=Path(tempfile.gettempdir()) / "microbenchmarks")
    parser.add_argument("--groups", nargs="+", default=list(GROUPS), metavar="GROUP")
    parser.add_argument("--assemble", action="store_true", help="compile all kernels and stop; needs ptxas, no GPU")
    for hidden in ("--group", "--rows"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--first", type=int, default=0, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    if options.group:
        return measure_group(options.group, options.first, Path(options.rows), options.cubins)
    if options.assemble:
        for name in options.groups:
            if assemble(module(group(name).kernels()), options.cubins) is None:
                raise SystemExit(
                    "run.py: no ptxas here: install nvidia-cuda-nvcc, or run on the gpu, whose driver compiles"
                )
        return 0
    return run_all(options.groups, options.out, options.cubins)


if __name__ == "__main__":
    raise SystemExit(main())
