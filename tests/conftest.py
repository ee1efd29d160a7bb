"""Simulated machines: the answers of NVML and of the package list, without the machine."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cutesnake.machine import Machine

MACHINES = Path(__file__).parent / "machines"


@pytest.fixture
def machine() -> Callable[[str], Machine]:
    """`machine("h200")` reads tests/machines/h200.json."""
    return lambda name: Machine.from_dict(json.loads((MACHINES / f"{name}.json").read_text()))
