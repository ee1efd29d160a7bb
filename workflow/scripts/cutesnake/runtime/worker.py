"""A case in a clean process without paying for its start: a server that has torch imported and forks for every case.

The server never touches CUDA, so every child makes a context of its own: a kernel that corrupts it or hangs takes only
its own case along, and the next case starts clean. A process beside it keeps the driver initialized (`held_driver`). A
child waits for a card, with what it needs imported, and has it until it has ended, so that no two measure at once and
the next one begins when a card is free, not when a job has.
The first client starts the server; it ends by itself when it has been idle. Nothing is kept in it: killing it, or the
workflow, at any moment costs only the cases under way.

A Snakemake `service` rule would tie all its consumers into one group that must run at once, on as many cores; a rule
that measures a batch in one job would redo the whole batch for one stale case. Here every case stays a job.

Protocol, one JSON object a line: the client sends {"case", "limit_s", "task", "card", "folder", "environment"}, the
last two of its own; it receives {"started"} when the case has a card and its turn, then {"record"}, or {"fault"} where
the machine and not the kernel is to blame; {"exit"} with the wait status follows when the process has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

from cutesnake.model.paths import SCRIPTS
from cutesnake.runtime import fork_server, locks
from cutesnake.runtime import gpu_slots as cards
from cutesnake.runtime.fork_server import ForkServer
from cutesnake.runtime.held_driver import held_driver
from cutesnake.runtime.private_folder import PrivateError, is_ours, open_private, private_folder

IDLE_SECONDS = 20.0
START_SECONDS = 120.0  # importing torch from a cold network disk can take this long
HANDED_ON = (cards.AT_ONCE, locks.MACHINE_LOCKS)  # variables of a run, for which the server does not stand


class WorkerError(RuntimeError):
    """The server could not be started or went away: nothing is known about the case."""


def socket_path() -> Path:
    """One server per interpreter, checkout, choice of GPU and version of this code, where only this user can go.

    Under Slurm it is one per job: two jobs of a node may both call their card number 0, and what a job started ends
    with it. Raises PrivateError where somebody else is in the way.
    """
    parts = [
        sys.executable,
        str(Path(__file__).resolve()),
        *(Path(f).read_text() for f in (__file__, fork_server.__file__)),
    ]
    parts += [os.environ.get("CUDA_VISIBLE_DEVICES", ""), os.environ.get("PYTHONPATH", ""), str(os.getuid())]
    parts += [os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_ARRAY_TASK_ID", "")]
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return private_folder() / f"worker-{digest}.sock"


def ask(case: dict[str, Any], limit_s: float, task: str | None = None, card: str | None = None) -> dict[str, Any]:
    """Run a case in a process of its own and return its record.

    `task` is `module:function`, by default `measure` of the stage's module; the function takes a Case and returns
    (metrics, reason). `card` is the fingerprint of the card that it must be measured on, None for whichever there is.
    The time limit counts from when it has a card and its turn. Raises WorkerError for faults of the server or
    the machine (a package that is missing, a file that cannot be read): recording them would blame the kernel.
    """
    from cutesnake.stages.measure.case import Case, make_record

    task = task or f"cutesnake.stages.measure.{case['stage']}:measure"
    here = {"folder": os.getcwd(), "environment": {name: os.environ.get(name, "") for name in HANDED_ON}}
    request = {"case": case, "limit_s": limit_s, "task": task, "card": card, **here}
    started: dict[str, Any] | None = None
    with contextlib.closing(_connect()) as connection:
        connection.sendall(json.dumps(request).encode() + b"\n")
        for line in connection.makefile("r"):
            message = json.loads(line)
            if "record" in message:
                return message["record"]
            if "fault" in message:
                raise WorkerError(f"{case['operator']}/{case['kernel']}: {message['fault']}")
            if "started" in message:
                started = message["started"]
            if "exit" in message:
                reason = _why_ended(message["exit"], limit_s)
                return make_record(Case(**case), None, reason, started and started["device"])
    raise WorkerError("the worker's server went away; run again")


def _why_ended(status: int, limit_s: float) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGALRM:
            return f"ended by the time limit of {limit_s:g} s: the kernel hangs, or the case is too large for the limit"
        return f"the process of the case was ended by {signal.Signals(number).name}"
    return f"the process of the case ended with exit code {os.waitstatus_to_exitcode(status)} and no result"


def _connect() -> socket.socket:
    try:
        path = socket_path()
    except PrivateError as error:
        raise WorkerError(str(error)) from error
    with os.fdopen(open_private(Path(f"{path}.start"), os.O_WRONLY), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if connection := _try_connect(path):
            return connection
        path.unlink(missing_ok=True)
        scripts = str(SCRIPTS)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [scripts, os.environ.get("PYTHONPATH")])),
        }
        with os.fdopen(open_private(Path(f"{path}.log"), os.O_WRONLY | os.O_TRUNC), "w") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "cutesnake.runtime.worker", str(path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            if connection := _try_connect(path):
                return connection
            if server.poll() is not None:
                raise WorkerError(f"the worker's server did not start: {Path(f'{path}.log').read_text()[-500:]}")
            time.sleep(0.05)
    raise WorkerError(f"the worker's server did not answer within {START_SECONDS:g} s")


def _try_connect(path: Path) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        return None
    if not is_ours(connection):
        connection.close()
        raise WorkerError(
            f"{path} is answered by another user's process: end it, or set TMPDIR to a folder of your own"
        )
    return connection


class Server(ForkServer):
    """The server of a card: on a socket of its own, until it has been idle for long enough."""

    def __init__(self, path: Path, idle_s: float) -> None:
        self._idle_s = idle_s
        self._path = path
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)  # from the first moment
        listener.bind(str(path))
        os.umask(before)
        listener.listen(128)
        super().__init__(listener, _serve_case)

    def serve(self) -> None:
        """Until idle for long enough."""
        used = time.monotonic()
        while True:
            if not self._children and time.monotonic() - used >= self._idle_s and self._close():
                return
            self.turn()
            if self._children:
                used = time.monotonic()

    def _close(self) -> bool:
        """Take the socket away, unless a client is about to connect: clients connect under the start lock."""
        with os.fdopen(open_private(Path(f"{self._path}.start"), os.O_WRONLY), "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if self.is_asked():
                return False
            self._path.unlink(missing_ok=True)
            return True


def _serve_case(connection: socket.socket, request: dict[str, Any], files: list[int]) -> NoReturn:
    """In the child: measure, answer, and end without running anybody's exit handlers."""
    code = 1
    try:
        _answer(connection, request)
        code = 0
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        _end(code)


def _end(code: int) -> NoReturn:
    sys.stdout.flush()
    os._exit(code)


def _answer(connection: socket.socket, request: dict[str, Any]) -> None:
    from cutesnake.model.stages import GPU_STAGES
    from cutesnake.planning.gpus import GpuError
    from cutesnake.planning.machine import MachineError, probe
    from cutesnake.runtime.locks import gpu_lock
    from cutesnake.runtime.machine_check import OtherMachineError, check_card
    from cutesnake.stages.measure.case import Case, device_section

    case = Case(**request["case"])
    timing = locks.TIMING if GPU_STAGES[case.stage].times else None
    try:
        os.chdir(request["folder"])
        os.environ.update(request["environment"])
        _get_ready(case, request["task"])
        with cards.one_card(probe()) as machine:
            check_card(request.get("card"), machine)
            with gpu_lock(machine.device.uuid_hash if machine.device else "none"), locks.machine_lock(timing):
                _measure(connection, request, case, device_section(machine.device))
                _end(0)  # with the locks, which go when the system has taken back what the process had on the card
    except (OtherMachineError, MachineError, GpuError, OSError) as error:
        _send(connection, {"fault": str(error)})


def _get_ready(case: Any, task: str) -> None:
    """Have in memory what measuring imports, before the case has a card. What is wrong with it shows then.

    Nothing here may touch CUDA, which looks at CUDA_VISIBLE_DEVICES once: NVBench does when it is imported.
    """
    from cutesnake.model.catalog import load_kernel, load_operator
    from cutesnake.stages.load import build  # noqa: F401
    from cutesnake.stages.measure.case import provenance

    with contextlib.suppress(Exception):
        importlib.import_module(task.partition(":")[0])
        load_operator(case.operator)
        provenance(load_kernel(case.operator, case.kernel).NEEDS)


def _measure(connection: socket.socket, request: dict[str, Any], case: Any, device: dict[str, Any] | None) -> None:
    """On a card that is ours, within the time limit."""
    from cutesnake.stages.measure.case import make_record

    _send(connection, {"started": {"device": device}})
    # The default action ends the process even inside a driver call that never returns.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, request["limit_s"])
    began = time.monotonic()
    try:
        module, function = request["task"].split(":")
        metrics, reason = getattr(importlib.import_module(module), function)(case)
    except (ImportError, OSError, MemoryError) as error:
        _send(connection, {"fault": _sentence(error)})
        return
    except Exception as error:
        metrics, reason = None, _sentence(error)
    signal.setitimer(signal.ITIMER_REAL, 0)
    done = make_record(case, metrics, reason, device, seconds=time.monotonic() - began)
    _send(connection, {"record": done})


def _sentence(error: Exception) -> str:
    """The error's own first line, with its type."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}"[:500]


def _send(connection: socket.socket, message: dict[str, Any]) -> None:
    connection.sendall(json.dumps(message, allow_nan=False).encode() + b"\n")


def main(path: str) -> None:
    """The server's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C on the workflow ends its clients; their children follow
    with contextlib.suppress(ImportError):
        import torch  # noqa: F401 - the point of the server: forked children have it at no cost
    with held_driver():
        Server(Path(path), IDLE_SECONDS).serve()


if __name__ == "__main__":
    main(sys.argv[1])
