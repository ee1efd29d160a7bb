"""The process that keeps the driver initialized next to the GPU server.

What it says, and that it never stays.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cutesnake.model.paths import SCRIPTS
from cutesnake.runtime import driver_holder, pool


def is_there(process: int) -> bool:
    try:
        with open(f"/proc/{process}/stat") as stream:
            return stream.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition) -> bool:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_it_has_the_driver_for_the_visible_cards_until_its_time_is_over(driver, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    with driver_holder.driver_holder() as process:
        assert process.stdout.readline() == "0\n"
        assert driver.read_text() == "3,1\n"
        assert process.poll() is None
    assert process.poll() == -signal.SIGKILL


def test_without_a_driver_it_ends_at_once_and_nobody_notices(tmp_path, monkeypatch):
    (tmp_path / driver_holder.DRIVER).write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with driver_holder.driver_holder() as process:
        assert process.wait(20) == 0


@pytest.mark.fault("Machine", "the GPU worker is killed", "the process that holds the driver ends")
def test_it_ends_with_whoever_started_it_however_that_ends(driver):
    code = (
        "import time\nfrom cutesnake.runtime.driver_holder import driver_holder\n"
        "with driver_holder() as one:\n one.stdout.readline(); print(one.pid, flush=True); time.sleep(60)"
    )
    starter = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SCRIPTS)},
    )
    with starter:
        kept = int(starter.stdout.readline())
        assert is_there(kept)
        starter.kill()
    assert until(lambda: not is_there(kept))


def test_the_gpu_server_has_it_held_before_it_serves_and_lets_it_go(driver, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), str(SCRIPTS)]))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    with contextlib.closing(pool.shared("gpu", idle_s=0.0)) as connection:
        reported = tmp_path / "told"
        assert "exit" in next(pool.replies(connection, "fork_tasks:tell", {"path": str(reported)}))
    assert until(driver.exists)
    server = json.loads(reported.read_text())["parent"]
    assert until(lambda: not is_there(server))
    assert until(lambda: not holders(tmp_path))


def holders(folder):
    """The processes started in this test that hold the driver."""
    result = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if b"driver_holder.py" in (process / "cmdline").read_bytes():
                result += [process.name] * (str(folder).encode() in (process / "environ").read_bytes())
    return result
