"""The folder in which jobs share ptxsim's translations of PTX."""

import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from builds import build, simulate
from cutesnake.model.catalog import load_kernel, make_workload
from cutesnake.model.paths import SCRIPTS
from cutesnake.model.targets import TARGETS
from cutesnake.stages.anatomy import record as record_of
from cutesnake.stages.simulate import translation_cache

WORKLOAD = make_workload("elementwise_add", {"rows": 37, "columns": 1024, "dtype": "fp32"})
VARIANT = load_kernel("elementwise_add", "cute").variants(WORKLOAD, "sm_90a")[0]

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def check() -> dict:
    result = simulate("elementwise_add", "cute", "sm_90a", VARIANT, asdict(WORKLOAD))
    assert result["status"] == "ok", result["reason"]
    return {key: result["metrics"]["simulated"][key] for key in ("launches_run", "launches", "coverage")}


def files(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_a_check_and_the_anatomy_take_what_a_check_has_left(tmp_path, monkeypatch) -> None:
    alone = check()
    monkeypatch.setenv(translation_cache.VARIABLE, str(tmp_path))
    first = check()
    left = files(tmp_path)
    assert len(left) == 1
    monkeypatch.setattr("ptxsim.Module.from_text", lambda *_: pytest.fail("it was read again"))
    assert first == check() == alone
    record_of._module.cache_clear()
    record_of._translations.cache_clear()
    monkeypatch.setattr("ptxsim.frontend.program.Program.__init__", lambda *_: pytest.fail("it was translated again"))
    folder = build("elementwise_add", "cute", "sm_90a", VARIANT)
    result = record_of.anatomy_of(folder, [asdict(WORKLOAD)], TARGETS["sm_90a"].simulated_processors)
    record_of._module.cache_clear()
    record_of._translations.cache_clear()
    assert result["watched"], result["not_watched"]
    assert set(files(tmp_path)) == set(left)


def test_the_folder_is_there_as_long_as_the_run_and_nothing_of_a_killed_one_is_used(tmp_path) -> None:
    leftover = tmp_path / translation_cache.FOLDER / "of a run that was killed"
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    code = """
import os
from cutesnake.stages.simulate import translation_cache
os.umask(0o002)
translation_cache.share()
folder = os.environ[translation_cache.VARIABLE]
print(folder, os.listdir(folder), oct(os.stat(folder).st_mode & 0o777))
"""
    env = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert done.stdout.split("\n")[0] == f"{(tmp_path / translation_cache.FOLDER).resolve()} [] 0o700", done.stderr
    assert not (tmp_path / translation_cache.FOLDER).exists()


def test_where_no_folder_can_be_made_every_job_translates_for_itself(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(translation_cache.VARIABLE, raising=False)
    (tmp_path / ".snakemake").touch()
    translation_cache.share()
    assert translation_cache.VARIABLE not in os.environ
    assert check()
