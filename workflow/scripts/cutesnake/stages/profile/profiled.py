"""Run one case under nsys or ncu: warmed up, then a few single calls.

Every call is an NVTX range `call` of its own, and begins when the GPU has done the one before. Started as
`python -m cutesnake.stages.profile.profiled CASE.json`, with the request that `run_under` writes; its
environment is minimal, because profilers copy it into their reports.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from cutesnake.model import own_builds
from cutesnake.model.catalog import PATHS, load_operator
from cutesnake.model.paths import SCRIPTS
from cutesnake.runtime.locks import gpu_lock
from cutesnake.stages.measure.case import Case

MEASURED = "measured"
CALL = "call"
PR_SET_PDEATHSIG = 1  # linux/prctl.h
START_SECONDS = 120.0  # of a profiler and of importing torch, until the case's own time limit runs
# Needed to find the driver, the packages and the right GPU; nothing else of the user's environment is passed on.
PASSED_ON = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "PYTHONPATH", "CUDA_HOME", PATHS, own_builds.TRUST)


class ProfilerError(RuntimeError):
    """Report a profiler without a report, in its own words; `output` has everything."""

    def __init__(self, message: str, output: str = "") -> None:
        super().__init__(message)
        self.output = output


def run_under(
    profiler: Sequence[str], case: Case, calls: int, gpu: str, limit_s: float, alone: bool = False
) -> tuple[str, float]:
    """Run the case under a profiler's command line; return output and seconds.

    The watched process takes the GPU when it has imported what it needs. With `alone` the GPU is held from before the
    profiler starts: two processes under ncu disturb each other even before they touch the GPU. Raises ProfilerError
    when the process ended badly; the profiler's last lines say how.
    """
    with tempfile.TemporaryDirectory(prefix="cutesnake-") as home:
        request = Path(home) / "case.json"
        pipe = Path(home) / "alive"
        content = {"case": case.as_dict(), "calls": calls, "card": None if alone else gpu, "limit_s": limit_s}
        content["alive"] = str(pipe)
        request.write_text(json.dumps(content))
        waited = request.with_suffix(".waited")  # written by the watched process: seconds until the GPU was its own
        command = [*profiler, sys.executable, "-m", "cutesnake.stages.profile.profiled", str(request)]
        with alive(pipe), gpu_lock(gpu) if alone else contextlib.nullcontext() as locked:
            began = time.monotonic()
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                env=minimal_environment(home),
                start_new_session=True,
                pass_fds=() if locked is None else (locked,),
                preexec_fn=die_with_parent,
            )
            try:
                # Where others may hold the GPU meanwhile there is no telling how long; the case has its own alarm.
                output, _ = process.communicate(timeout=limit_s + START_SECONDS if alone else None)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                output, _ = process.communicate()
                raise ProfilerError(f"the profiler did not end: {last_output(output)}", output) from None
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        seconds = time.monotonic() - began - (float(waited.read_text()) if waited.exists() else 0.0)
    if process.returncode:
        name = Path(profiler[0]).name
        raise ProfilerError(f"{name} ended with code {process.returncode}: {last_output(output)}", output)
    return output, seconds


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends, to free the GPU."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@contextlib.contextmanager
def alive(pipe: Path) -> Iterator[None]:
    """Open a named pipe for writing while this context lasts."""
    os.mkfifo(pipe)
    handle = os.open(pipe, os.O_RDWR | os.O_CLOEXEC)
    try:
        yield
    finally:
        os.close(handle)


def die_with(pipe: str) -> None:
    """Have the kernel kill this process when no `alive` pipe has a writer.

    The watched process is not our child but the profiler's: when that is killed the process would wait for it, with
    the GPU. A thread that watches could not run while a driver call is stuck, which is when it is needed.
    """
    handle = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(handle, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(handle, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(handle, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)


def minimal_environment(home: str) -> dict[str, str]:
    """Return an environment with only what running needs."""
    scripts = str(SCRIPTS)
    kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    path = os.pathsep.join(filter(None, [scripts, kept.get("PYTHONPATH")]))
    # A profiler's own temporary files go with `home`: two of them must not meet in a common lock file.
    places = {"HOME": home, "TMPDIR": home, "XDG_STATE_HOME": str(own_builds.notes().parents[1])}
    return {**kept, **places, "PYTHONPATH": path, "PATH": "/usr/bin:/bin", "LC_ALL": "C"}


def last_output(output: str) -> str:
    """Return the last lines with content, without progress bars."""
    lines = [line.strip() for line in output.replace("\r", "\n").splitlines()]
    report = [line for line in lines if line and not line.startswith(("[", "Processing ", "==PROF== Profiling"))]
    return " | ".join(report[-4:])[:600] or "no output"


def find_tool(name: str) -> str:
    """Path of a profiler as the machine probe finds it; ProfilerError if there is none."""
    from cutesnake.planning.machine import probe

    result = probe().tools.get(name)
    if not result or not shutil.which(result):
        raise ProfilerError(f"{name} is not installed here (not on the PATH, not in Nsight Compute)")
    return result


def main(path: str) -> None:
    """Run the request in the file `path`."""
    request = json.loads(Path(path).read_text())
    die_with(request["alive"])
    case = Case(**request["case"])
    import torch

    began = time.monotonic()
    with gpu_lock(request["card"]) if request["card"] else contextlib.nullcontext():
        Path(path).with_suffix(".waited").write_text(str(time.monotonic() - began))
        signal.setitimer(signal.ITIMER_REAL, request["limit_s"])
        _run(case, request["calls"], torch)
        sys.stdout.flush()


def _run(case: Case, calls: int, torch: Any) -> None:
    operator, workload = load_operator(case.operator), case.workload
    inputs, outputs = operator.make_inputs(workload, 0, "cuda"), operator.make_outputs(workload, "cuda")
    runner = case.bind(workload, inputs, outputs)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    for _ in range(3):
        runner(stream.cuda_stream)
    torch.cuda.synchronize()
    torch.cuda.profiler.start()
    torch.cuda.nvtx.range_push(MEASURED)
    for _ in range(calls):
        torch.cuda.nvtx.range_push(CALL)
        runner(stream.cuda_stream)
        torch.cuda.nvtx.range_pop()
        stream.synchronize()
    torch.cuda.nvtx.range_pop()
    torch.cuda.profiler.stop()


if __name__ == "__main__":
    main(sys.argv[1])
