"""Fixtures that several tests share: pretended machines, and copies of the project."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cutesnake.plan.machine import Machine
from project import copy_project, snakemake

MACHINES = Path(__file__).parent / "machines"
LONGEST = ("tests/test_soak.py", "tests/test_slurm.py", "tests/test_anatomy.py::test_the_answer_sheet")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest in one process goes first, so that the others are not left waiting for it."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


@pytest.fixture
def machine() -> Callable[[str], Machine]:
    """`machine("h200")` reads tests/machines/h200.json."""
    return lambda name: Machine.from_dict(json.loads((MACHINES / f"{name}.json").read_text()))


@pytest.fixture
def fresh(tmp_path) -> Path:
    return copy_project(tmp_path)


@pytest.fixture(scope="session")
def built(tmp_path_factory) -> Path:
    """A copy of the project in which the tiny experiment has run; tests copy it before they change anything."""
    project = copy_project(tmp_path_factory.mktemp("built"))
    done = snakemake(project)
    assert done.returncode == 0, done.stdout + done.stderr
    return project


@pytest.fixture
def project(built, tmp_path) -> Path:
    """What `built` left, copied with its dates: like a folder that a user comes back to."""
    return Path(shutil.copytree(built, tmp_path / "project", symlinks=True, copy_function=shutil.copy2))
