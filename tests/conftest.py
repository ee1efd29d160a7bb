"""Fixtures that several tests share: mocked machines, and copies of the project."""

import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cutesnake.planning.machine import Machine
from cutesnake.runtime import driver_holder
from own_operator import own  # noqa: F401  # a fixture
from project import copy_project, snakemake

ROOT = Path(__file__).resolve().parents[1]
# Processes that tests start run this checkout's code, whichever is installed.
BEFORE = filter(None, [os.environ.get("PYTHONPATH")])
os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT), str(ROOT / "workflow/scripts"), *BEFORE))
if "CUTESNAKE_BUILDS" in os.environ:  # builds that were compiled elsewhere, for tests on a GPU
    os.environ["CUTESNAKE_TRUST_BUILDS"] = "1"
MACHINES = Path(__file__).parent / "machines"
LONGEST = ("test_cute_sm100.py", "test_cute_sm100_mutants.py", "test_slurm.py", "test_soak.py", "test_anatomy.py")


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Give each pytest-xdist process whole files; an idle process takes tests of another."""
    if getattr(config.option, "numprocesses", None) and config.option.dist == "no":
        config.option.dist = "worksteal"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the longest files first, since CI's processes take whole files."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture
def machine() -> Callable[[str], Machine]:
    """`machine("h200")` reads tests/machines/h200.json."""
    return lambda name: Machine.from_dict(json.loads((MACHINES / f"{name}.json").read_text()))


@pytest.fixture
def driver(tmp_path, monkeypatch):
    """A mocked driver that notes which GPUs it was initialized for."""
    from ptxsim.host.linking import compiler

    source, notes = tmp_path / "driver.c", tmp_path / "cards"
    source.write_text(
        "#include <stdio.h>\n#include <stdlib.h>\n"
        f'int cuInit(unsigned flags) {{ FILE *f = fopen("{notes}", "a");\n'
        '  fprintf(f, "%s\\n", getenv("CUDA_VISIBLE_DEVICES")); fclose(f); return 0; }\n'
    )
    library = tmp_path / driver_holder.DRIVER
    subprocess.run([*compiler(), "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    return notes


@pytest.fixture
def shared(monkeypatch) -> Iterator[Path]:
    """A temporary folder that every user may write to, as /tmp.

    With a short name, as sockets must have.
    """
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o1777)
        monkeypatch.setattr("tempfile.tempdir", name)
        yield folder


@pytest.fixture
def fresh(tmp_path) -> Path:
    return copy_project(tmp_path)


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Path:
    """A copy of the project in which the tiny experiment has run.

    Tests copy it before they change anything.

    It is made once for all of pytest's processes, whose temporary folders lie next to each other.
    """
    place = tmp_path_factory.getbasetemp()
    shared = (place.parent if "PYTEST_XDIST_WORKER" in os.environ else place) / "built"
    whole = shared / "whole"
    with Path(f"{shared}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not whole.exists():
            shutil.rmtree(shared, ignore_errors=True)
            done = snakemake(copy_project(shared / "project"))
            assert done.returncode == 0, done.stdout + done.stderr
            whole.touch()
    return shared / "project"


@pytest.fixture
def project(built, tmp_path) -> Path:
    """What `built` left, copied with its dates.

    Like a folder that a user comes back to.
    """
    return Path(shutil.copytree(built, tmp_path / "project", symlinks=True, copy_function=shutil.copy2))
