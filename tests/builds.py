"""Builds that several tests look at, made once.

For all of pytest's processes, until what they depend on changes.

What a run of the workflow in this folder has built of today's sources is taken from there.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.metadata
import os
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from cutesnake.model import record
from cutesnake.model.catalog import load_kernel
from cutesnake.model.contract import Variant
from cutesnake.model.dsls import DSLS
from cutesnake.model.paths import ROOT
from cutesnake.model.targets import TARGETS
from cutesnake.planning import outputs
from cutesnake.planning.staleness import code_of_build, digest_data, digest_files
from cutesnake.runtime import pool
from cutesnake.stages.compile.compile import RECORD, STORE, compile_build
from cutesnake.stages.compile.limited_process import kind_of
from cutesnake.stages.fetch import fetch

COMPILED = Path("results/compile")  # by the workflow, in the project's folder
FOLDER = ROOT / "results" / "tests"
UPSTREAM = ROOT / "kernels" / "upstream.yaml"
PACKAGES = ("nvidia-cutlass-dsl", "cuda-tile", "nvidia-cuda-nvdisasm")


def build(operator: str, kernel: str, target: str, variant: Variant) -> Path:
    """Folder of a build of `variant`, made as the compile stage makes it.

    Its build.json may say that it failed.

    Nothing must be written there: it may be the report's own.
    """
    if there := _of_the_report(operator, kernel, target, variant):
        return there
    source = load_kernel(operator, kernel).SOURCE
    made_from = [digest_data(code_of_build(operator, kernel)), digest_files([UPSTREAM]), dict(variant.params)]
    digest = digest_data([*made_from, *map(importlib.metadata.version, PACKAGES)])
    folder = FOLDER / digest / "compile" / operator / kernel / target / variant.id
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "lock").open("w") as lock, chdir(ROOT):
        fcntl.flock(lock, fcntl.LOCK_EX)
        (COMPILED / STORE).mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # one store for all: what other builds share is compiled once
            folder.parents[3].joinpath(STORE).symlink_to(ROOT / COMPILED / STORE)
        if source != "ours":
            fetch(source, ROOT / "results" / "fetch" / source, UPSTREAM)
    with Path(f"{folder}.lock").open("w") as lock, chdir(ROOT):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / RECORD).exists():
            with served():
                compile_build(operator, kernel, target, variant, folder)
    return folder


def _of_the_report(operator: str, kernel: str, target: str, variant: Variant) -> Path | None:
    """Return the workflow's build of these sources if it is complete and current."""
    path = COMPILED / operator / kernel / target / variant.id / RECORD
    compilers = DSLS[load_kernel(operator, kernel).DSL].compilers
    recipe = outputs.recipe(code_of_build(operator, kernel), compilers, variant=dict(variant.params))
    with chdir(ROOT), suppress(OSError, ValueError):
        entry, made = record.read_whole("compile", path)
        files = {name: name for name in (made or {}).get("files", {})}
        if entry["status"] != "ok" or outputs.difference(made, recipe, files) is not None:
            return None
        for file, digest in entry["files"].items():
            if hashlib.sha256((path.parent / file).read_bytes()).hexdigest() != digest:
                return None
        return ROOT / path.parent
    return None


@contextmanager
def served() -> Iterator[None]:
    """Compilers are forked from processes that have imported their DSL.

    What else a test starts knows nothing of it.
    """
    os.environ[pool.VARIABLE] = _servers()
    try:
        yield
    finally:
        pool.stop()


@functools.cache
def _servers() -> str:
    """Start them once for this process.

    The first build of a kind has its server import.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))  # for tasks of tests
        pool.start(["cutile", *(kind_of("cute", target) for target in TARGETS)])
    return os.environ.pop(pool.VARIABLE, "")


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
    """The record of a correctness case that ptxsim runs.

    A build of `variant` on the workload of `parameters`.

    `processors` are the multiprocessors of the GPU that is simulated, by default the target's.
    """
    from cutesnake.stages.measure.case import Case
    from cutesnake.stages.simulate import simulation

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
    """Grid, block, cluster and dynamic shared bytes of every launch.

    As the runner of a CuTe build tells them, and as the build's own host code makes them.
    """
    import torch

    import ptxsim
    from cutesnake.model.catalog import load_operator
    from cutesnake.model.targets import TARGETS
    from cutesnake.stages.load import cute as cute_load
    from cutesnake.stages.load.build import LoadedBuild

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
    reported = [(launch.grid, launch.block, launch.cluster, launch.dynamic_shared_bytes) for launch in runner.launches]
    return reported, [(launch.grid, launch.block, launch.cluster, launch.dynamic_shared) for launch in made]
