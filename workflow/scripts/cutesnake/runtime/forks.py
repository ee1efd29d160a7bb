"""Processes that have imported what a job needs before it is asked for: servers that fork a clean process per job.

Importing CuTe DSL takes half a second of a core, PyTorch a whole one: more than most builds and checks take. The main
process of a run starts one small process that listens on a socket per kind of job; at the first job of a kind it forks
a server, which imports what that kind needs and from then on forks once per job. Nothing is kept in a server: a job has
a process, a session, an environment and a working directory of its own, and dies with whoever asked for it.

Nobody depends on them. Outside of a run, on other machines, under another interpreter and when a server has been
killed, a job is done as if there were none: in its own process, or in one that it starts.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import hashlib
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import traceback
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from cutesnake.model.paths import SCRIPTS
from cutesnake.runtime.fork_server import MOST_BYTES, ForkServer, close
from cutesnake.runtime.private_folder import is_ours

VARIABLE = "CUTESNAKE_FORKS"  # what the names of a run's sockets follow from
PR_SET_PDEATHSIG = 1  # of prctl(2)
PREPARED = "cutesnake.runtime.prepared"  # the module with a function per kind, named before the colon: `cute:sm_90a`


class NotServedError(Exception):
    """There is no server for this kind of job, or it went away: nothing is known about the job."""


class GivenUpError(Exception):
    """This process was told to end, and the job with it."""


_open: set[socket.socket] = set()  # where an answer is waited for


def start(kinds: Iterable[str]) -> subprocess.Popen[bytes] | None:
    """Have jobs of these kinds served from now on, for as long as this process lives. Called in the main thread.

    Returns the first process, or None on a machine that does not let us: it goes without.
    """
    name = uuid.uuid4().hex
    with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
        listeners = {}
        for kind in dict.fromkeys(kinds):
            listeners[kind] = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            listeners[kind].bind(_address(name, kind))
            listeners[kind].listen(128)
        handles = {kind: listener.fileno() for kind, listener in listeners.items()}
        paths = [str(SCRIPTS), *filter(None, [os.environ.get("PYTHONPATH")])]
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "cutesnake.runtime.forks", str(os.getpid()), json.dumps(handles)],
            stdin=subprocess.DEVNULL,
            env={**os.environ, **threads, "PYTHONPATH": os.pathsep.join(paths)},
            pass_fds=list(handles.values()),
            start_new_session=True,
        )
        os.environ[VARIABLE] = name
        return process
    return None


def stop() -> None:
    """Have this process, and what it starts from now on, ask no server."""
    os.environ.pop(VARIABLE, None)


def _address(name: str, kind: str) -> str:
    """A socket's name, which goes with the last process that has it open: nothing of it is in the file system.

    Another interpreter, one of an environment or a container, derives another name and finds nobody.
    """
    parts = "\0".join((name, kind, sys.executable, sys.version))
    return f"\0cutesnake-{hashlib.sha256(parts.encode()).hexdigest()[:32]}"


def run(
    kind: str | None,
    task: str,
    arguments: Mapping[str, Any],
    streams: tuple[int, int] = (1, 2),
    limit_s: float | None = None,
    more: Mapping[str, str] | None = None,
) -> int | None:
    """Do `task`, as `module:function`, with `arguments` in a process forked from the server of `kind`.

    `streams` are the open files that it prints and complains to; the environment is ours, with `more`, and so is the
    working directory. Returns how it ended as Popen.wait does, a negative signal or an exit status, or None if the
    limit ended it, with everything that it started. Raises NotServedError, and GivenUpError after `give_up`.
    """
    name = os.environ.get(VARIABLE)
    if not name or kind is None:
        raise NotServedError
    environment = {**os.environ, **(more or {})}
    request = {"task": task, "arguments": dict(arguments), "folder": os.getcwd(), "environment": environment}
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as connection, _waiting(connection):
        try:
            connection.connect(_address(name, kind))
            if not is_ours(connection):
                raise NotServedError
            line = json.dumps(request).encode() + b"\n"
            sent = socket.send_fds(connection, [line], list(streams))
            if rest := line[sent:]:  # to send nothing fails, too, where the job has ended and the server has hung up
                connection.sendall(rest)
            connection.settimeout(limit_s)
            try:
                answer = _line(connection)
            except TimeoutError:
                connection.settimeout(None)
                connection.shutdown(socket.SHUT_WR)
                _line(connection)
                return None
            return os.waitstatus_to_exitcode(json.loads(answer)["exit"])
        except (OSError, ValueError) as error:
            if connection not in _open:
                raise GivenUpError from error
            raise NotServedError from error


@contextlib.contextmanager
def _waiting(connection: socket.socket) -> Iterator[None]:
    _open.add(connection)
    try:
        yield
    finally:
        _open.discard(connection)


def give_up() -> None:
    """Have every job that this process waits for ended, with what it started."""
    while _open:
        connection = _open.pop()
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def _line(connection: socket.socket) -> bytes:
    found = b""
    while not found.endswith(b"\n"):
        more = connection.recv(MOST_BYTES)
        if not more:
            raise ConnectionResetError("the server went away")
        found += more
    return found


def call(task: str, arguments: Mapping[str, Any]) -> None:
    """Call `module:function` with arguments by name."""
    module, function = task.split(":")
    getattr(importlib.import_module(module), function)(**arguments)


def die_with(parent: int) -> None:
    """Have the system kill this process when its parent dies; the parent may have done so already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _prepare(kind: str) -> dict[str, str]:
    """Import what jobs of a kind need; returns what that has set in the environment."""
    before = dict(os.environ)
    importlib.import_module("cutesnake.runtime.errors")  # every job of the workflow ends by it
    function, _, argument = kind.partition(":")
    getattr(importlib.import_module(PREPARED), function)(*filter(None, [argument]))
    return {name: value for name, value in os.environ.items() if before.get(name) != value}


def _serve(kind: str, listener: socket.socket) -> NoReturn:
    """The server of one kind. What it cannot import a job will miss in its own process, which then says so."""
    kept: dict[str, str] = {}
    with contextlib.suppress(Exception):
        kept = _prepare(kind)
    gc.collect()
    gc.freeze()  # or every job would go through, and copy, what is imported whenever it collects garbage
    here = os.getpid()

    def serve(connection: socket.socket, request: dict[str, Any], files: list[int]) -> NoReturn:
        status = 1
        try:
            os.setsid()
            die_with(here)
            connection.close()
            for place, file in enumerate(files, start=1):
                os.dup2(file, place)
            close(files)
            os.environ.clear()
            os.environ.update(request["environment"] | kept)
            os.chdir(request["folder"])
            call(request["task"], request["arguments"])
            status = 0
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
            if isinstance(error.code, str):
                print(error.code, file=sys.stderr)
        except BaseException:
            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    server = ForkServer(listener, serve)
    while True:
        server.turn()


def main(parent: int, handles: Mapping[str, int]) -> None:
    """The first process: forks the server of a kind when it is first asked for. One that has died is not replaced."""
    die_with(parent)
    listeners = {kind: socket.socket(fileno=handle) for kind, handle in handles.items()}
    servers: dict[int, str] = {}
    here = os.getpid()
    with selectors.DefaultSelector() as waiting:
        for kind, listener in listeners.items():
            waiting.register(listener, selectors.EVENT_READ, kind)
        while True:
            for key, _ in waiting.select(timeout=1.0):
                child = os.fork()
                if child == 0:
                    die_with(here)
                    for kind in listeners.keys() - {key.data}:
                        listeners[kind].close()
                    _serve(key.data, listeners[key.data])
                servers[child] = key.data
                waiting.unregister(listeners[key.data])
            for child in list(servers):
                if os.waitpid(child, os.WNOHANG)[0]:
                    listeners.pop(servers.pop(child)).close()  # who waits there is refused, and does without


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
