"""Compile a kernel with a toolchain, and gather what is known of its builds."""

import contextlib
import os
import re
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from cutesnake.model import kept_builds, provenance, record
from cutesnake.model.records.compile import Compile
from cutesnake.model.records.correctness import Correctness
from cutesnake.model.records.predict import Predict
from cutesnake.model.records.timing import Timing
from cutesnake.planning.toolchains import ToolchainError
from cutesnake.runtime import pool
from cutesnake.runtime.errors import describe, is_foreseen
from cutesnake.stages.compile.job import compile_job
from cutesnake.stages.compile.limited_process import kind_of
from cutesnake.stages.toolchain.environment import python_of

Jobs = Sequence[Mapping[str, Any]]
TASK = "cutesnake.stages.toolchain.builds:compile_all"
SITES = 12  # source lines of spills that a record keeps
LOCAL = re.compile(r"(?:@!?U?P\w+\s+)?(?P<opcode>LDL|STL)\b")


def compile_with(environment: str | None, dsl: str, target: str, jobs: Jobs) -> None:
    """Do compile jobs in a process of the toolchain's Python.

    It is forked from a server that the run's jobs share.

    `environment` is the path of the toolchain's record; None stands for the main environment, whose servers do it.
    `jobs` are arguments of `compile_job`. Raises ToolchainError for faults of the machine.
    """
    if environment is None:
        for job in jobs:
            compile_job(**job)
        return
    python = str(python_of(environment).absolute())
    if not os.access(python, os.X_OK):
        raise ToolchainError(f"{environment}: its Python does not start; delete its folder")
    run = os.environ.get(pool.VARIABLE) or uuid.uuid4().hex
    with tempfile.TemporaryFile() as output:
        try:
            kind = f"toolchain:{kind_of(dsl, target)}"
            with contextlib.closing(pool.shared(kind, python=python, run=run)) as connection:
                streams = output.fileno(), output.fileno()
                status = pool.exit_code(pool.replies(connection, TASK, {"jobs": list(jobs)}, streams))
        except (OSError, ValueError, pool.NotServedError) as error:
            raise ToolchainError(f"{environment}: the process that builds went away ({error}); run again") from None
        if status:
            output.seek(0)
            lines = output.read().decode(errors="replace").strip().splitlines()
            raise ToolchainError((lines or [f"{environment}: the process that builds ended with status {status}"])[-1])


def compile_all(jobs: Jobs) -> None:
    """Compile in this process; end with one line on a fault of the machine."""
    try:
        for job in jobs:
            compile_job(**job)
    except Exception as error:
        if not is_foreseen(error):
            raise
        sys.exit(describe(error))


def write_summary(toolchain: str, operator: str, kernel: str, dsl: str, target: str, builds: Jobs, output: str) -> None:
    """Write the toolchain record of a kernel and target.

    Each of `builds` has paths of its records: compile, inspect, checks, predictions, times. With `recorded`, a file of
    recorded/builds/ and a build in it, those without a suffix are names of records there.
    """
    entry = {
        "stage": "toolchain",
        "status": "ok",
        "reason": None,
        "provenance": {"created": provenance.now()},
        **{"toolchain": toolchain, "operator": operator, "kernel": kernel, "dsl": dsl, "target": target},
        "builds": [_build(paths) for paths in builds],
    }
    record.write("toolchain", output, entry)


def _build(paths: Mapping[str, Any]) -> dict[str, Any]:
    def read(stage: str, name: str) -> Any:
        if "recorded" not in paths or name.endswith(".json"):
            return record.read(stage, name)
        file, build = paths["recorded"]
        (entry,) = kept_builds.read_records(Path(file), {build: [name]}).values()
        return entry

    built: Compile = read("compile", paths["compile"])
    figures, whole = record.plain(read("inspect", paths["inspect"])), built.status == "ok"
    return {
        **{name: getattr(built, name) for name in ("status", "reason", "seconds", "compilers")},
        "variant": built.variant.id,
        "functions": figures["functions"],
        "spills": spills(Path(paths["compile"]).parent, built.files),
        "checks": [_check(read("correctness", path)) for path in paths["checks"] if whole],
        "predictions": [_prediction(read("predict", path)) for path in paths["predictions"] if whole],
        "times": [_time(read("timing", path)) for path in paths["times"] if whole],
    }


def _check(checked: Correctness) -> dict[str, Any]:
    failed = next((check for check in (checked.metrics.checks if checked.metrics else ()) if not check.passed), None)
    values = {"workload": checked.case.workload, "status": checked.status, "reason": checked.reason}
    return values | {"unknown_opcode": failed.unknown_opcode if failed else None}


def _prediction(predicted: Predict) -> dict[str, Any]:
    metrics = predicted.metrics
    return {
        "workload": predicted.case.workload,
        "device": metrics and metrics.device,
        "cold_us": metrics and metrics.cold_us,
        "warm_us": metrics and metrics.warm_us,
        "band_percent": metrics and metrics.bands.cold.percent,
        "reason": predicted.reason,
    }


def _time(timed: Timing) -> dict[str, Any]:
    metrics = timed.metrics
    return {
        "workload": timed.case.workload,
        "device": timed.device and timed.device.name,
        "cold_us": metrics and metrics.cold_us,
        "warm_us": metrics and metrics.hot_us,
        "reason": timed.reason,
    }


def spills(folder: Path, files: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return source lines that access local memory, most accesses first."""
    from cutesnake.stages.anatomy.listing import UNPLACED, instructions  # not where a toolchain only compiles

    counts: dict[str, Counter[str]] = {}
    for name in sorted(files):
        if name.endswith(".sass"):
            for place, _, text in instructions((folder / name).read_text(encoding="utf-8", errors="replace")):
                if access := LOCAL.match(text):
                    counts.setdefault("unknown" if place == UNPLACED else place, Counter())[access["opcode"]] += 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1].total(), item[0]))
    return [{"source": place, "loads": count["LDL"], "stores": count["STL"]} for place, count in ordered[:SITES]]
