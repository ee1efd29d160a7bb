"""Cases on a GPU.

Clean processes, time limits, one at a time, and what is left of a case that dies.
"""

import concurrent.futures
import contextlib
import dataclasses
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cpu_backend import small_case
from cutesnake.runtime import gpu_slots, locks, pool
from cutesnake.stages.measure import gpu_process

FOLDER = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def own_server(monkeypatch, tmp_path_factory):
    """Start a server with this folder's tasks and locks of its own."""
    folder = tmp_path_factory.getbasetemp() / "sockets"
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FOLDER), str(FOLDER.parent)]))


def ask(task, limit_s=20.0, **settings):
    case = dataclasses.replace(small_case(), settings=settings)
    return gpu_process.ask(case.as_dict(), limit_s, f"worker_tasks:{task}")


def test_every_case_has_a_process_of_its_own():
    first, second = ask("fine"), ask("fine")
    assert first["status"] == "ok" and first["reason"] is None
    assert first["metrics"]["pid"] != second["metrics"]["pid"]
    assert first["case"]["workload"] == small_case().workload.id


def test_torch_is_imported_before_the_fork():
    pytest.importorskip("torch")
    assert ask("torch_is_there")["metrics"]["imported"]


@pytest.mark.fault(
    "Kernels", "a case crashes or corrupts its context", "failed record; the next case has a new process"
)
@pytest.mark.parametrize(
    "task, message",
    [
        ("wrong", "the result is wrong"),
        ("crash", "the process of the case was ended by SIGSEGV"),
        ("leave", "exit code 3 and no result"),
        ("raise_error", "RuntimeError: CUDA error: an illegal memory access was encountered"),
    ],
)
def test_a_failure_is_a_record_and_the_next_case_runs(task, message):
    failed = ask(task)
    assert failed["status"] == "failed" and message in failed["reason"]
    assert ask("fine")["status"] == "ok"


@pytest.mark.fault("Kernels", "a case hangs", "ended after its time limit")
def test_a_hang_is_ended_by_the_limit():
    began = time.monotonic()
    failed = ask("hang", limit_s=0.5)
    assert failed["status"] == "failed" and "time limit of 0.5 s" in failed["reason"]
    assert time.monotonic() - began < 10
    assert ask("fine")["status"] == "ok"


def test_a_fault_of_the_machine_is_no_record():
    with pytest.raises(gpu_process.GpuProcessError, match="No module named 'tvm_ffi'"):
        ask("missing_package")


def test_two_cases_never_run_at_once(tmp_path):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        records = list(pool.map(lambda _: ask("exclusive", folder=str(tmp_path)), range(8)))
    assert [r["reason"] for r in records] == [None] * 8


def test_the_time_limit_does_not_count_the_wait_for_the_card():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with locks.gpu_lock("none"):
            waiting = pool.submit(ask, "fine", limit_s=0.5)
            done, _ = concurrent.futures.wait([waiting], timeout=1.5)
            assert not done
        assert waiting.result(timeout=20)["status"] == "ok"


@pytest.mark.parametrize("kept", ["card", "turn"])
def test_a_case_has_everything_imported_before_its_card_is_free(kept, tmp_path, monkeypatch):
    # Whether it waits for the GPU or for one of the run's jobs to end, in the folder of the run that asks.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(gpu_slots.AT_ONCE, "1")
    ask("fine")
    path = locks.gpu_lock_path("none") if kept == "card" else tmp_path / gpu_slots.SLOTS / "0.lock"
    with concurrent.futures.ThreadPoolExecutor(1) as pool, path.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = pool.submit(ask, "when_imported")
        done, _ = concurrent.futures.wait([waiting], timeout=1.5)
        assert not done
        freed = time.monotonic()
        fcntl.flock(lock, fcntl.LOCK_UN)
        result = waiting.result(timeout=20)["metrics"]
    assert result["imported"] < freed < result["began"]


@pytest.mark.slow
def test_a_case_dies_with_its_client(tmp_path):
    """Killing the workflow leaves nothing running on the GPU."""
    ask("fine")  # the server is up
    code = f"import test_gpu_process as t; t.ask('slow', folder={str(tmp_path)!r})"
    paths = os.pathsep.join(
        [str(FOLDER / "stages"), str(FOLDER), str(FOLDER.parent), str(FOLDER.parent / "workflow" / "scripts")]
    )
    client = subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": paths})
    started = tmp_path / "started"
    until = time.monotonic() + 20
    while not started.exists() and time.monotonic() < until:
        time.sleep(0.05)
    child = int(started.read_text())
    client.send_signal(signal.SIGKILL)
    client.wait()
    until = time.monotonic() + 4
    while Path(f"/proc/{child}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{child}").exists() and not (tmp_path / "ended").exists()


@pytest.mark.slow
def test_a_server_that_was_killed_is_replaced():
    first = ask("server")["metrics"]["server"]
    os.kill(first, signal.SIGKILL)
    until = time.monotonic() + 10
    while Path(f"/proc/{first}").exists() and time.monotonic() < until:
        time.sleep(0.02)
    second = ask("server")["metrics"]["server"]
    assert second not in (first, None)
    assert ask("server")["metrics"]["server"] == second, "cases share a server"


def test_an_idle_server_ends_and_the_next_client_starts_another(monkeypatch):
    # Jobs of a kind that does not exist need no import, so that two servers start at once.
    for _ in range(2):
        with contextlib.closing(pool.shared("nothing", idle_s=0.0)) as connection:
            address = connection.getpeername()
            messages = pool.replies(connection, "fork_tasks:leave", {"code": 3})
            assert [os.waitstatus_to_exitcode(message["exit"]) for message in take_one(messages)] == [3]
        until = time.monotonic() + 20
        while is_listening(address) and time.monotonic() < until:
            time.sleep(0.05)
        assert not is_listening(address)


def take_one(messages):
    return [next(messages)]


def is_listening(address):
    with contextlib.closing(socket.socket(socket.AF_UNIX)) as connection:
        return connection.connect_ex(address) == 0


@pytest.mark.fault("Machine", "`TMPDIR` with a long name", "nothing")
def test_a_temporary_folder_with_a_long_name_is_no_obstacle(tmp_path, monkeypatch):
    """The kernel allows 107 bytes for the path of a socket."""
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    assert ask("fine")["status"] == "ok"


def test_the_lock_is_freed_when_its_holder_is_killed():
    code = "from cutesnake.runtime.locks import gpu_lock\nwith gpu_lock('t'): print(1, flush=True); input()"
    paths = str(FOLDER.parent / "workflow" / "scripts")
    holder = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": paths},
    )
    holder.stdout.read(1)
    holder.kill()
    holder.wait()
    with locks.gpu_lock("t"):
        pass
