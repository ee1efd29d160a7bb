"""The workflow killed while the worker or a profiler has the GPU.

It is free again, and nothing done is redone.
"""

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sample
from cutesnake.model.paths import SCRIPTS
from cutesnake.planning.machine import Machine, probe
from cutesnake.runtime.locks import gpu_lock_path
from project import append, copy_project

CONFIG = """
targets: [sm_90a]
stages: [correctness, {stage}]
operators: [mla_decode]
sweeps:
  mla_decode:
    kernels: [torch_sdpa]
    dtypes: [bf16]
    distributions: [randn]
    workloads:
      - batch: [1, 2, 3, 4]
        kv_length: 256
    profile: []
correctness: {{seeds: [0]}}
timing: {{max_seconds: 1, max_noise_percent: 1}}
"""
CORES = 2  # jobs under way at most
RECORDS = 8  # of four cases in two stages
DRIVER_HOLDER = "/driver_holder.py"  # next to the GPU server; it has the driver open, and no part of the GPU
IDLE = '-m cutesnake.runtime.pool {"idle_s"', DRIVER_HOLDER  # both end by themselves when the GPU server has been idle
# In place of measuring, where there is no GPU: it takes its time, with the GPU's lock held.
PRETEND = """

def measure(case):
    time.sleep({seconds})
    return {metrics!r}, None
"""


def command() -> list[str]:
    return [sys.executable, "-m", "snakemake", "--cores", str(CORES), "--configfile", "config.yaml", "--", "measured"]


def records(project: Path) -> dict[str, int]:
    """Measurements on disk, all whole, with the times they were written at."""
    result = {}
    for stage in ("correctness", "timing", "ncu"):
        for path in (project / "results" / stage).rglob("*.json"):
            assert json.loads(path.read_text())["status"] == "ok", path.read_text()
            result[str(path.relative_to(project))] = path.stat().st_mtime_ns
    return result


def processes(project: Path) -> dict[int, str]:
    """Map processes started from this copy of the project to command lines."""
    result = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # ended meanwhile
            message = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes()
            if any(str(project).encode() in text for text in message) and int(folder.name) != os.getpid():
                result[int(folder.name)] = message[0].replace(b"\0", b" ").decode(errors="replace")
    return result


def with_the_gpu(project: Path) -> dict[int, str]:
    """Processes that have a GPU open, except the one that keeps its driver initialized."""

    def opened(process: int) -> Iterator[str]:
        for handle in Path(f"/proc/{process}/fd").glob("*"):
            with contextlib.suppress(OSError):
                yield os.readlink(handle)

    return {
        process: line
        for process, line in processes(project).items()
        if DRIVER_HOLDER not in line
        and any(name.startswith("/dev/nvidia") and name[-1].isdigit() for name in opened(process))
    }


def is_free(gpu: str) -> bool:
    """Whether nobody holds the GPU's lock."""
    with gpu_lock_path(gpu).open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def wait_for(condition: Callable[[], object], seconds: float, what: str, project: Path) -> None:
    until = time.monotonic() + seconds
    while not condition():
        running = processes(project) if time.monotonic() > until else None
        assert running is None, f"waited {seconds:g} s in vain for {what}; still running: {running}"
        time.sleep(0.02)


def heed_interrupts() -> None:
    """What a shell starts in the background ignores SIGINT, and so do its children.

    The tests themselves, it may be.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def kill_and_run_again(
    project: Path, machine: Machine, how: signal.Signals, under_way: Callable[[], object], environment: dict[str, str]
) -> None:
    """End the process group of a run with a signal while `under_way`.

    Then the GPU is free and the run goes on.
    """
    gpu = machine.device.uuid_hash
    gpu_lock_path(gpu).touch()
    log = project / "killed.log"
    with log.open("w") as stream:
        run = subprocess.Popen(
            command(),
            cwd=project,
            env=environment,
            start_new_session=True,
            stdout=stream,
            stderr=stream,
            preexec_fn=heed_interrupts,
        )
    try:
        wait_for(lambda: under_way() or run.poll() is not None, 240, "a measurement", project)
    finally:
        ended = run.poll()
        if ended is None:
            os.killpg(run.pid, how)
    assert ended is None, f"the run ended with {ended} before it could be killed: {log.read_text()}"
    assert run.wait(30) != 0
    wait_for(lambda: is_free(gpu), 5, "the GPU's lock", project)
    wait_for(lambda: not with_the_gpu(project), 5, "the GPU to be left", project)

    def others() -> list[str]:
        return [line for line in processes(project).values() if not any(idle in line for idle in IDLE)]

    wait_for(lambda: not others(), 10, "all but the idle worker to end", project)
    before = records(project)
    assert 0 < len(before) < RECORDS
    again = subprocess.run(command(), cwd=project, env=environment, capture_output=True, text=True)
    assert again.returncode == 0, again.stdout + again.stderr
    after = records(project)
    assert len(after) == RECORDS
    # A record may be on disk while Snakemake has not yet noted that its job is done: such a job is still under way.
    assert sum(after[name] != made for name, made in before.items()) <= CORES
    third = subprocess.run(command(), cwd=project, env=environment, capture_output=True, text=True)
    assert "Nothing to be done" in third.stderr, third.stdout + third.stderr


@pytest.fixture
def copied(tmp_path) -> Callable[[str], Path]:
    def make(stage: str) -> Path:
        project = copy_project(tmp_path / "project")
        (project / "config.yaml").write_text(CONFIG.format(stage=stage))
        return project

    return make


def test_a_watched_process_dies_with_whom_it_measures_for(tmp_path) -> None:
    """Not with its parent: a profiler stands between the two."""
    pipe = tmp_path / "alive"
    imports = "import pathlib, time; from cutesnake.stages.profile import profiled"
    measuring = f"{imports}\nwith profiled.alive(pathlib.Path({str(pipe)!r})): "
    watched = f"{imports}; profiled.die_with({str(pipe)!r}); "
    environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}

    def start(code: str) -> subprocess.Popen:
        process = subprocess.Popen(
            [sys.executable, "-c", code + "print('up', flush=True); time.sleep(60)"],
            **{"stdout": subprocess.PIPE, "env": environment},
        )
        assert process.stdout.readline() == b"up\n"
        return process

    with start(measuring) as one, start(watched) as other:
        assert other.poll() is None
        one.kill()
        assert other.wait(5) == -signal.SIGKILL


@pytest.mark.fault("Machine", "a run is killed while a GPU measures", "the GPU is free, and the next run continues")
@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT], ids=lambda s: s.name)
def test_killed_while_the_worker_measures(copied, machine, driver, how) -> None:
    # Without a GPU. The machine, its driver and the measuring are mocked, the workflow and its worker are real.
    project = copied("timing")
    scripts = project / "workflow/scripts/cutesnake/stages/measure"
    checked, timed = sample.correctness("w"), sample.timing("torch_sdpa", sample.workloads()[0], 1.0)
    for stage, metrics in {"correctness": checked, "timing": timed}.items():
        append(scripts / f"{stage}.py", PRETEND.format(seconds=0.5, metrics=metrics))
    name = project / "tests/machines/h200.json"
    local = machine("h200")

    def under_way() -> bool:
        return len(records(project)) >= 5 and not is_free(local.device.uuid_hash)

    kill_and_run_again(project, local, how, under_way, {**os.environ, "CUTESNAKE_MACHINE": str(name)})
    assert driver.read_text(), "nothing kept the driver initialized"


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("how", "stage", "process"),
    [
        (signal.SIGKILL, "timing", "cutesnake.runtime.pool"),
        (signal.SIGINT, "timing", "cutesnake.runtime.pool"),
        (signal.SIGKILL, "ncu", "cutesnake.stages.profile.profiled"),
    ],
    ids=["SIGKILL, worker", "SIGINT, worker", "SIGKILL, ncu"],
)
def test_killed_while_the_card_is_used(copied, how, stage, process) -> None:
    project = copied(stage)

    def under_way() -> bool:
        return len(records(project)) >= 5 and any(process in line for line in with_the_gpu(project).values())

    kill_and_run_again(project, probe(), how, under_way, dict(os.environ))
