"""Builds that several tests look at, made once: for all of pytest's processes, until what they depend on changes."""

from __future__ import annotations

import fcntl
import importlib.metadata
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

from cutesnake.build.compile import RECORD, compile_build
from cutesnake.build.fetch import fetch
from cutesnake.catalog import load_kernel
from cutesnake.contract import Variant
from cutesnake.places import ROOT
from cutesnake.plan.staleness import digest_baked, digest_data, digest_files

FOLDER = ROOT / "results" / "tests"
UPSTREAM = ROOT / "kernels" / "upstream.yaml"
PACKAGES = ("nvidia-cutlass-dsl", "cuda-tile", "nvidia-cuda-nvdisasm")


def build(operator: str, kernel: str, target: str, variant: Variant) -> Path:
    """Folder of a build of `variant`, made as the compile stage makes it; its build.json may say that it failed."""
    source = load_kernel(operator, kernel).SOURCE
    made_from = [digest_baked(operator, kernel), digest_files([UPSTREAM]), dict(variant.params)]
    digest = digest_data([*made_from, *map(importlib.metadata.version, PACKAGES)])
    folder = FOLDER / digest / "compile" / operator / kernel / target / variant.id
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock, chdir(ROOT):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if source != "ours":
            fetch(source, ROOT / "results" / "fetch" / source, UPSTREAM)
    with Path(f"{folder}.lock").open("w") as lock, chdir(ROOT):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / RECORD).exists():
            compile_build(operator, kernel, target, variant, folder)
    return folder


def simulate(
    operator: str,
    kernel: str,
    target: str,
    variant: Variant,
    parameters: dict[str, Any],
    distributions: Sequence[str] = ("randn",),
    schedules: Sequence[str] = ("random",),
) -> dict[str, Any]:
    """The record of a correctness case that ptxsim runs: a build of `variant` on the workload of `parameters`."""
    from cutesnake.measure.case import Case
    from cutesnake.simulate import simulation

    case = Case(
        stage="correctness",
        operator=operator,
        kernel=kernel,
        target=target,
        variant={"id": variant.id, "params": dict(variant.params)},
        parameters=parameters,
        build=str(build(operator, kernel, target, variant)),
        settings={"seeds": [0], "distributions": list(distributions), "schedules": list(schedules)},
    )
    return simulation.simulate(case)
