"""What the simulator's tests share: PTX kernels built from snippets, and NVIDIA's examples compiled once."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

import ptxsim  # noqa: E402

BELOW = "flashinfer/data/cutlass/examples/python/CuTeDSL"
HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"


def kernel_text(body: str, params: int = 2, shared: int = 0, registers: str = "") -> str:
    """A module with one kernel `k` of `params` 64-bit parameters p0, p1, ... around `body`."""
    args = ", ".join(f".param .u64 p{n}" for n in range(params))
    extern = ".extern .shared .align 1024 .b8 dyn[];\n"
    return (
        f"{HEAD}{extern}.visible .entry k({args})\n{{\n.reg .pred %p<40>;\n.reg .b16 %h<40>;\n.reg .b32 %r<80>;\n"
        f".reg .b64 %d<80>;\n.reg .b128 %q<4>;\n{registers}\n{body}\nret;\n}}\n"
    )


def run_kernel(
    body: str,
    *args,
    threads: int = 32,
    grid: tuple = (1,),
    shared: int = 0,
    cluster: tuple = (1,),
    schedule: str = "random",
    seed: int = 0,
    checks: tuple = (),
    registers: str = "",
) -> ptxsim.Result:
    """Run a kernel made of `body` over the given arguments."""
    module = ptxsim.Module.from_text(kernel_text(body, len(args), shared, registers))
    launch = ptxsim.launch(module, "k", grid, (threads,), args, dynamic_shared=shared, cluster=cluster)
    return ptxsim.run(launch, schedule=schedule, seed=seed, checks=checks)


@pytest.fixture(scope="session")
def examples() -> Path:
    """NVIDIA's CuTe DSL examples; the test is skipped where they were not fetched."""
    for place in (os.environ.get("CUTESNAKE_UPSTREAM"), ROOT / "results/fetch/flashinfer-python"):
        if place:
            for folder in (Path(place), Path(place) / BELOW):
                if (folder / "blackwell").is_dir():
                    return folder
    pytest.skip("NVIDIA's examples are not here: set CUTESNAKE_UPSTREAM or run the fetch rule for flashinfer-python")


@pytest.fixture(scope="session")
def built(examples: Path):
    """built(name) → folder with kernel.o and kernel.ptx of an example, compiled once and kept in results/ptxsim."""
    pytest.importorskip("cutlass", reason="CuTe DSL is not installed")
    drivers = Path(__file__).with_name("drivers.py")

    def build(name: str, part: str = "") -> Path:
        folder = ROOT / "results/ptxsim" / name
        stamp, digest = folder / "stamp", hashlib.sha256(drivers.read_bytes() + str(examples).encode()).hexdigest()
        if not stamp.exists() or stamp.read_text() != digest:
            done = subprocess.run(
                [sys.executable, str(drivers), name, str(examples), str(folder)], capture_output=True, text=True
            )
            if done.returncode:
                pytest.fail(f"{name} does not compile: {done.stdout[-600:]}{done.stderr[-600:]}")
            stamp.write_text(digest)
        return folder / part

    return build


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)
