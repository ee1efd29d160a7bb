"""Runs in forks of a process with Snakemake imported: a third of the time.

The process knows no part of the project. A run has the folder, the environment and the module path of `python -m
snakemake` in its place; most of those that do something start Snakemake as a user does, see project.py.
"""

from __future__ import annotations

import functools
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def run(arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess:
    """What `python -m snakemake` with these arguments says, and how it ends."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as complaints:
        files = [f"/proc/{os.getpid()}/fd/{stream.fileno()}" for stream in (out, complaints)]
        status = wait(start(arguments, folder, environment, files))
        message = []
        for stream in (out, complaints):
            stream.seek(0)
            message.append(stream.read().decode())
    return subprocess.CompletedProcess(arguments, status, *message)


def start(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], files: Sequence[str]) -> int:
    """Start a run that writes to two files; return its process id."""
    run = {"arguments": list(arguments), "folder": str(folder), "environment": dict(environment), "files": list(files)}
    return _ask(run)


def wait(process: int) -> int:
    """Wait for a started run and return its exit code."""
    return os.waitstatus_to_exitcode(_ask(process))


def _ask(request: object) -> int:
    server = _server()
    server.stdin.write(json.dumps(request) + "\n")
    server.stdin.flush()
    return int(server.stdout.readline())


@functools.cache
def _server() -> subprocess.Popen:
    """It ends with this process, which holds the other end of what it reads."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-P", __file__], env=environment, start_new_session=True, **pipes)


def _do(arguments: list[str], folder: str, environment: dict[str, str], files: list[str]) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell started the tests in the background
    for number, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_WRONLY), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = ["snakemake", *arguments]
    importlib.import_module("snakemake.workflow").Workflow._rundir = folder  # noted when it was imported
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)


def main() -> None:
    """Start the runs that standard input names, and wait for those it names by number."""
    for name in ("snakemake.cli", "snakemake.report.html_reporter", "smart_open", "jinja2", "msgspec"):
        importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        request = json.loads(line)
        if isinstance(request, int):
            print(os.waitpid(request, 0)[1], flush=True)
            continue
        child = os.fork()
        if child == 0:
            _do(**request)
            sys.exit()
        print(child, flush=True)


if __name__ == "__main__":
    main()
