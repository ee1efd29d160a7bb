"""The pins are complete and fit the index's CUDA build of torch."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ENVS = Path(__file__).resolve().parents[1] / "envs"


def names(path: Path) -> dict[str, str]:
    pins = (line.split("==") for line in path.read_text().splitlines() if re.match(r"[a-z0-9]", line))
    return {name.lower().replace("_", "-"): version for name, version in pins}


def test_every_requirement_is_pinned_to_the_version_it_names() -> None:
    pinned = names(ENVS / "requirements.txt")
    for name, version in names(ENVS / "requirements.in").items():
        assert pinned[name] == version


def test_dev_pins_are_the_workflow_pins_and_more() -> None:
    base, dev = names(ENVS / "requirements.txt"), names(ENVS / "requirements-dev.txt")
    assert base.items() < dev.items()


def test_the_install_with_hashes_has_the_same_pins_each_with_a_hash() -> None:
    blocks = re.split(r"\n(?=\S)", (ENVS / "requirements-hashed.txt").read_text().strip())
    assert all(re.match(r"[a-z0-9-]+==\S+ \\\n +--hash=sha256:[0-9a-f]{64}", block) for block in blocks)
    assert names(ENVS / "requirements.txt").items() <= hashed().items()


def test_the_install_with_hashes_has_what_builds_this_project() -> None:
    project = tomllib.loads((ENVS.parent / "pyproject.toml").read_text())
    assert dict(pin.split("==") for pin in project["build-system"]["requires"]).items() <= hashed().items()


def hashed() -> dict[str, str]:
    return {name: version.split()[0] for name, version in names(ENVS / "requirements-hashed.txt").items()}


@pytest.mark.slow
def test_an_empty_environment_is_installed_with_hashes(tmp_path) -> None:
    # uv refuses a requirement without a hash, and a dependency that is missing. Nothing is downloaded.
    uv = [sys.executable, "-m", "uv"]
    subprocess.run([*uv, "venv", "--quiet", "--python", "3.11", tmp_path / "venv"], check=True)
    message = ["pip", "install", "--dry-run", "--require-hashes", "--python", tmp_path / "venv/bin/python"]
    done = subprocess.run(
        [*uv, *message, "-r", ENVS / "requirements-hashed.txt"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0 and "torch==2.13.0" in done.stderr, done.stderr


@pytest.mark.slow
def test_pins_resolve_beside_the_cuda_build_of_torch() -> None:
    # uv knows no part of a local CPU wheel, so it resolves the index's torch 2.13.0, which is the CUDA build.
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "uv",
            "pip",
            "compile",
            "--quiet",
            "--python-version",
            "3.11",
            ENVS / "requirements.txt",
        ],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "torch==2.13.0" in done.stdout and "cuda-toolkit==13.0.3" in done.stdout
