"""What the simulator's tests share: NVIDIA's examples, compiled once."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import gemm_forms
import numpy as np
import pytest
from drivers import SOURCES

ROOT = Path(__file__).parents[2]

BELOW = "flashinfer/data/cutlass/examples/python/CuTeDSL"


def pytest_configure(config: pytest.Config) -> None:
    """The marks of these tests, for where the repository's pyproject.toml is not read."""
    os.environ.setdefault("PTXSIM_PROCESSES", "1")  # workers of pytest-xdist use all CPUs
    config.addinivalue_line("markers", "slow: takes longer than a few seconds")
    config.addinivalue_line("markers", "gpu: needs an NVIDIA GPU")
    config.addinivalue_line("markers", "by_hand: slow, and left out of CI for its time")


def find_examples() -> Path | None:
    """NVIDIA's CuTe DSL examples, where they were fetched."""
    for place in (os.environ.get("CUTESNAKE_UPSTREAM"), ROOT / "results/fetch/flashinfer-python"):
        if place:
            for folder in (Path(place), Path(place) / BELOW):
                if (folder / "blackwell").is_dir():
                    return folder
    return None


def build(examples: Path, name: str, part: str = "") -> Path:
    """Folder with kernel.o and kernel.ptx of an example, compiled once and kept in results/."""
    if name in gemm_forms.FORMS:
        return gemm_forms.built(name, part)
    if not (examples / SOURCES[name]).exists():
        pytest.skip(f"{SOURCES[name]} is not among the examples under {examples}")
    drivers = Path(__file__).with_name("drivers.py")
    folder = ROOT / "results/ptxsim" / name
    folder.mkdir(parents=True, exist_ok=True)
    stamp, digest = folder / "stamp", hashlib.sha256(drivers.read_bytes() + str(examples).encode()).hexdigest()
    with (folder / "lock").open("w") as lock:  # several test runs may want it at once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != digest:
            command = [sys.executable, str(drivers), name, str(examples), str(folder)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                pytest.fail(f"{name} does not compile: {done.stdout[-600:]}{done.stderr[-600:]}")
            stamp.write_text(digest)
    return folder / part


@pytest.fixture(scope="session")
def examples() -> Path:
    """NVIDIA's CuTe DSL examples; the test is skipped where they were not fetched."""
    result = find_examples()
    if result is None:
        pytest.skip(
            "NVIDIA's examples are not here: set CUTESNAKE_UPSTREAM or run the fetch rule for flashinfer-python"
        )
    return result


@pytest.fixture(scope="session")
def built(examples: Path) -> Callable[..., Path]:
    """built(name, part) → folder of an example's build."""
    pytest.importorskip("cutlass", reason="CuTe DSL is not installed")
    return partial(build, examples)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
