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
    processors: int | None = None,
) -> dict[str, Any]:
    """The record of a correctness case that ptxsim runs: a build of `variant` on the workload of `parameters`.

    `processors` are the multiprocessors of the card that is simulated, by default those of the target's.
    """
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
        settings={
            **{"seeds": [0], "distributions": list(distributions), "schedules": list(schedules)},
            "processors": processors,
        },
    )
    return simulation.simulate(case)


def launches(operator: str, kernel: str, folder: Path, workload: Any) -> tuple[list[tuple], list[tuple]]:
    """Grid, block, cluster and dynamic shared bytes of every launch: as the runner of a CuTe build tells them, and as
    the build's own host code makes them."""
    import torch

    import ptxsim
    from cutesnake.catalog import load_operator
    from cutesnake.load import cute as cute_load
    from cutesnake.load.build import LoadedBuild
    from cutesnake.targets import TARGETS

    problem, made = load_operator(operator), []
    inputs, outputs = problem.make_inputs(workload, 0), problem.make_outputs(workload)
    ptx = ptxsim.Module.from_file(folder / "kernel.ptx")

    def capture(place: Path, function: str) -> Any:
        def call(*arguments: Any) -> None:
            stream = ptxsim.Pointer(torch.zeros(1))
            made.extend(ptxsim.capture(place / "kernel.o", function, (*arguments[:-1], stream), ptx))

        return call

    with cute_load.opened_by(capture, TARGETS[folder.parent.name].simulated_processors):
        runner = load_kernel(operator, kernel).bind(LoadedBuild(folder), workload, inputs, outputs)
    runner(0)
    told = [(launch.grid, launch.block, launch.cluster, launch.dynamic_shared_bytes) for launch in runner.launches]
    return told, [(launch.grid, launch.block, launch.cluster, launch.dynamic_shared) for launch in made]
