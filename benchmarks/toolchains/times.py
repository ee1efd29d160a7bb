"""Times of builds that toolchains made, in alternation on one GPU.

    python -m benchmarks.toolchains.times RESULTS RECORD.json [SECONDS]

RESULTS is a folder with toolchains/, as `snakemake toolchains` leaves it. Each build that two toolchains made is timed
on the sweep's workloads for which it is the default variant, warm and cold as in `benchmarks/mla_cute_sm90/groups.py`.
Replays of the toolchains alternate. RECORD.json gets medians in microseconds; per toolchain and cache also the ratio to
the first toolchain, and how much that ratio differs between two halves of the rounds (`noise`, in per cent).
`difference` is the largest relative difference of an output from the first toolchain's. No case begins after SECONDS.

All CuTe builds use the runtime library that is loaded first: its interface is equal in both flavours.
"""

import json
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.mla_cute_sm90 import groups
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from cutesnake.model.contract import Workload
from cutesnake.planning.sweep import make_sweep, read_sweep
from cutesnake.stages.load.build import LoadedBuild
from cutesnake.stages.measure import checker

ROUNDS = 24
Builds = dict[str, Path]  # toolchain -> folder of its build


def builds_of(results: Path, target: str) -> dict[tuple[str, str, str], Builds]:
    """Return builds that two toolchains made, by operator, kernel and variant."""
    result: dict[tuple[str, str, str], Builds] = {}
    for file in sorted(results.glob(f"toolchains/*/compile/*/*/{target}/*/build.json")):
        if record.read("compile", file).status == "ok":
            toolchain, _, operator, kernel, _, variant, _ = file.relative_to(results / "toolchains").parts
            result.setdefault((operator, kernel, variant), {})[toolchain] = file.parent
    main_first = {key: dict(sorted(of.items(), key=lambda one: one[0] != "main")) for key, of in result.items()}
    return {key: of for key, of in main_first.items() if len(of) > 1}


def workloads_of(operator: str, kernel: str, variant: str, target: str) -> list[Workload]:
    """Return the sweep's workloads whose default variant is this one."""
    module, sweep = load_kernel(operator, kernel), make_sweep(operator, read_sweep(operator, {}))
    taken = (one for one in sweep.workloads() if module.supports(one) is None)
    return [one for one in taken if (choices := module.variants(one, target)) and choices[0].id == variant]


def measure(operator: str, kernel: str, builds: Builds, workload: Workload) -> dict[str, dict[str, Any]]:
    """Return each toolchain's times of a workload."""
    import torch

    module, made = load_operator(operator), load_kernel(operator, kernel)
    inputs, outputs = module.make_inputs(workload, 0, "cuda"), module.make_outputs(workload, "cuda")
    stream, bound, first = torch.cuda.Stream(), {}, None
    result: dict[str, dict[str, Any]] = {}
    for name, folder in builds.items():
        runner = made.bind(LoadedBuild(folder), workload, inputs, outputs)
        bound[name] = groups.timed(runner, stream)
        stream.synchronize()
        values = checker.snapshot(outputs)
        first = first or values
        differences = [_difference(values[part], first[part]) for part in values]
        result[name] = {"difference": max(differences, default=None)}
    groups.in_turn(bound, stream, ROUNDS)
    base = next(iter(bound.values()))
    for name, one in bound.items():
        for cache in ("warm", "cold"):
            mine, other = getattr(one, cache), getattr(base, cache)
            result[name][f"{cache}_us"] = round(statistics.median(mine), 3)
            if one is not base:
                result[name][f"{cache}_ratio"] = round(statistics.median(mine) / statistics.median(other), 4)
                result[name][f"{cache}_noise"] = groups.noise_percent(mine, other)
    return result


def _difference(values: Any, others: Any) -> float:
    mine, true = values.float(), others.float()
    return float(((mine - true).norm() / true.norm().clamp_min(1e-30)).item())


def cases(results: Path, target: str) -> Iterator[tuple[str, str, str, Builds, Workload]]:
    """Return all cases, one workload of each build before the second of any."""
    known = builds_of(results, target)
    lists = {key: workloads_of(*key, target) for key in known}
    for number in range(max(map(len, lists.values()), default=0)):
        for key, workloads in lists.items():
            if number < len(workloads):
                yield *key, known[key], workloads[number]


def main(results: Path, output: Path, seconds: float = 200) -> None:
    """Time all cases; write the record after each."""
    import torch

    began, capability = time.monotonic(), torch.cuda.get_device_capability()
    target = "sm_{}{}a".format(*capability)
    rows: list[dict[str, Any]] = []
    left = 0
    for operator, kernel, variant, builds, workload in cases(results, target):
        if time.monotonic() - began > seconds:
            left += 1
            continue
        row: dict[str, Any] = {"operator": operator, "kernel": kernel, "variant": variant, "workload": workload.id}
        try:
            row["toolchains"] = measure(operator, kernel, builds, workload)
        except Exception as error:
            row["error"] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        rows.append(row)
        print(json.dumps(row), flush=True)
        torch.cuda.empty_cache()
        content = {"device": torch.cuda.get_device_name(), "rounds": ROUNDS, "rows": rows}
        record.write_text(output, groups.text_of(content) + "\n")
    print(f"{len(rows)} cases, {left} left out, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]), *map(float, sys.argv[3:]))
