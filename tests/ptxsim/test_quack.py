"""The pytest plugin on other people's tests.

Quack's, as its sdist has them, without a GPU.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.by_hand]  # it downloads quack, einops and Triton
ROOT = Path(__file__).parents[2]
QUACK, DIGEST = "0.6.5", "dd9405a4a6fa35fc3a5a18fe35b46a14b0bf7e3ad9fe2451903e355047ac471d"
NEEDED = ("einops==0.8.2", "triton==3.9.0")
SMALL = "(1-192 or 1-256 or 1-760 or 1-1024 or 1-1128 or 1-4096) and not 199-"


@pytest.fixture(scope="module")
def quack(tmp_path_factory) -> Path:
    """The unpacked sdist, with what quack imports next to it."""
    folder = tmp_path_factory.mktemp("quack")
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run(
        [*pip, "download", "--no-deps", "--no-binary", ":all:", f"quack-kernels=={QUACK}"], cwd=folder, check=True
    )
    (sdist,) = folder.glob("*.tar.gz")
    assert hashlib.sha256(sdist.read_bytes()).hexdigest() == DIGEST
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (place,) = (x for x in folder.iterdir() if x.is_dir())
    subprocess.run([*pip, "install", "--no-deps", "--target", place, *NEEDED], check=True)
    return place


def ran(quack: Path, file: str, tests: str) -> subprocess.CompletedProcess[str]:
    """Run some of quack's tests.

    Reads of rows past the end, which reach no output, fail none.
    """
    env = os.environ | {"PTXSIM": "1", "PYTHONPATH": os.pathsep.join((str(quack), str(ROOT)))}
    words = ["-p", "ptxsim.pytest_plugin", "-q", "-W", "ignore", "-p", "no:cacheprovider", "-c", os.devnull]
    options = ["-o", "ptxsim_allow=uninitialised", "--rootdir", str(quack), "-k", tests, f"tests/{file}"]
    command = [sys.executable, "-m", "pytest", *words, *options]
    return subprocess.run(command, cwd=quack, env=env, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("file", "tests", "launches"),
    [
        ("test_softmax.py", f"{SMALL} or extreme or stability or empty", 88),
        ("test_rmsnorm.py", "test_rmsnorm_forward_backward and False and 1-192", 18),
        ("test_namedtuple_tvm_ffi.py", "test", 6),
    ],
)
def test_unchanged_tests_pass_without_a_gpu(quack, file, tests, launches) -> None:
    done = ran(quack, file, tests)
    assert done.returncode == 0 and f"ptxsim: {launches} launches, 0 findings" in done.stdout, done.stdout[-3000:]


def test_a_barrier_that_is_removed_fails_a_test_whose_numbers_are_right(quack) -> None:
    source = quack / "quack/reduce.py"
    whole = source.read_text()
    lines = whole.splitlines(keepends=True)
    barriers = [n for n, x in enumerate(lines) if x.strip() == "cute.arch.barrier()"]
    for n in barriers:
        lines[n] = lines[n].replace("cute.arch.barrier()", "pass")
    try:
        source.write_text("".join(lines))
        done = ran(quack, "test_softmax.py", "test_softmax and False and 1-4096-input_dtype0 and not 199-")
    finally:
        source.write_text(whole)
    assert done.returncode == 1 and "not close" not in done.stdout, done.stdout[-3000:]
    races = [x for x in done.stdout.splitlines() if x.startswith("race: ")]
    assert len(races) == len(barriers) == 2
    for n, race in zip(reversed(barriers), races, strict=True):
        assert f"quack/reduce.py:{n})" in race  # the store on the line before the barrier
