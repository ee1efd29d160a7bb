"""Process pool: servers with imported modules that fork a clean process per job.

Importing CuTe DSL takes half a second of a core, PyTorch a whole one: more than most builds and checks take. A server
keeps nothing: a job has a process, a session, an environment and a working directory of its own, and dies with its
client. There are two ways to a server:

- `start` and `run`: the main process of a run starts one small process that listens on a socket per kind; at the first
  job of a kind it forks the server, which dies with the run. Nobody depends on it: on other machines, under another
  interpreter and when a server has been killed, a job runs without one.
- `shared`: the first client of any run starts the server, which ends by itself when it has been idle. A Snakemake
  `service` rule in its place would tie all its consumers into one group that must run at once, on as many cores.

Protocol, one JSON object a line: the client sends {"task", "arguments", "folder", "environment"}, with open files for
the job's output. The job may send messages (`send`); {"exit"} with the wait status follows when its process has ended.
A client never speaks twice: when it hangs up, its job is killed. Sockets have no name in the file system: it goes with
the last process that has them open, and no folder's path is too long. Each end asks the kernel whose the other end is.
"""

import contextlib
import ctypes
import gc
import hashlib
import importlib
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
import uuid
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from cutesnake.model.paths import SCRIPTS
from cutesnake.runtime import locks
from cutesnake.runtime.private_folder import is_own, open_private, private_folder

VARIABLE = "CUTESNAKE_FORKS"  # the name that the sockets of a run are derived from
PR_SET_PDEATHSIG = 1  # of prctl(2)
KINDS = "cutesnake.runtime.kinds"  # the module with a function per kind, named before the colon: `cute:sm_90a`
MOST_BYTES = 1 << 16  # of a message, read at once
IDLE_SECONDS = 20.0
START_SECONDS = 120.0  # importing torch from a cold network disk can take this long


class NotServedError(Exception):
    """Report that no server serves this job, whose state is unknown."""


class CancelledError(Exception):
    """Report that this process was asked to end, and its job with it."""


_open: set[socket.socket] = set()  # connections on which `run` waits for a reply
_client: socket.socket | None = None  # in a job's process


def start(kinds: Iterable[str]) -> subprocess.Popen[bytes] | None:
    """Serve jobs of these kinds while this process lives; call in the main thread.

    Returns the first process, or None if this machine does not allow it: jobs then run without servers.
    """
    name = uuid.uuid4().hex
    with contextlib.suppress(OSError):
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        process = _launch(name, {"parent": os.getpid()}, list(dict.fromkeys(kinds)), env={**os.environ, **threads})
        os.environ[VARIABLE] = name
        return process
    return None


def stop() -> None:
    """Make this process, and processes it starts, ignore the run's servers."""
    os.environ.pop(VARIABLE, None)


def _launch(
    name: str,
    settings: Mapping[str, Any],
    kinds: Sequence[str],
    env: Mapping[str, str],
    python: str = sys.executable,
    **streams: Any,
) -> subprocess.Popen[bytes]:
    """Start `main` with a listening socket per kind, in the interpreter `python`."""
    with contextlib.ExitStack() as stack:
        listeners = {kind: stack.enter_context(socket.socket(socket.AF_UNIX)) for kind in kinds}
        for kind, listener in listeners.items():
            listener.bind(_address(name, kind))
            listener.listen(128)
        handles = {kind: listener.fileno() for kind, listener in listeners.items()}
        paths = [str(SCRIPTS), *filter(None, [env.get("PYTHONPATH")])]
        return subprocess.Popen(
            [python, "-P", "-m", "cutesnake.runtime.pool", json.dumps({**settings, "listeners": handles})],
            stdin=subprocess.DEVNULL,
            env={**env, "PYTHONPATH": os.pathsep.join(paths)},
            pass_fds=list(handles.values()),
            start_new_session=True,
            **streams,
        )


def _address(name: str, kind: str) -> str:
    """Return the abstract address of a socket.

    Another interpreter, one of an environment or a container, derives another address and finds nobody.
    """
    parts = "\0".join((name, kind, sys.executable, sys.version))
    return f"\0cutesnake-{hashlib.sha256(parts.encode()).hexdigest()[:32]}"


def _connect(name: str, kind: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(_address(name, kind))
        if is_own(connection):
            return connection
    except OSError as error:
        connection.close()
        raise NotServedError from error
    connection.close()
    raise NotServedError("another user's process")


def lock_path(kind: str, python: str = sys.executable, run: str = "") -> Path:
    """Return the start lock of a shared server, which holds the server's name.

    Its folder is private to this user. There is one server per interpreter, run, checkout, choice of GPU and version of
    this code. Under Slurm there is one per job: two jobs of a node may both call their GPU number 0, and what a job
    started ends with it. Raises PrivateError.
    """
    own = Path(__file__).resolve()
    parts = [kind, python, run, str(own), *(path.read_text() for path in sorted(own.parent.glob("*.py")))]
    choices = ("CUDA_VISIBLE_DEVICES", "PYTHONPATH", "SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID")
    parts += [os.environ.get(name, "") for name in choices]
    return private_folder() / f"{kind}-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}.lock"


def shared(kind: str, idle_s: float = IDLE_SECONDS, python: str = sys.executable, run: str = "") -> socket.socket:
    """Connect to this user's server of a kind, started if necessary; for `replies`.

    `python` is the interpreter that a server starts with. `run` keeps servers of runs apart, for jobs whose code may
    change from one run to the next. Raises NotServedError with one line, or PrivateError.
    """
    path = lock_path(kind, python, run)
    with locks.locked(locks.open_lock(path)) as lock:
        with contextlib.suppress(NotServedError):
            return _connect(os.pread(lock, 64, 0).decode(errors="replace"), kind)
        name, log = uuid.uuid4().hex, path.with_suffix(".log")
        settings = {"idle_s": idle_s, "lock": str(path)}
        with os.fdopen(open_private(log, os.O_WRONLY | os.O_TRUNC), "w") as errors:
            server = _launch(name, settings, [kind], os.environ, python, stdout=subprocess.PIPE, stderr=errors)
        assert server.stdout is not None
        with server.stdout as output:
            if not select.select([output], [], [], START_SECONDS)[0]:
                server.kill()
                raise NotServedError(f"the server did not start within {START_SECONDS:g} s")
            if not output.read(1):
                raise NotServedError(f"the server did not start: {log.read_text()[-500:]}")
        os.ftruncate(lock, 0)
        os.pwrite(lock, name.encode(), 0)
        return _connect(name, kind)


def replies(
    connection: socket.socket,
    task: str,
    arguments: Mapping[str, Any],
    streams: Sequence[int] = (),
    more: Mapping[str, str] | None = None,
) -> Iterator[dict[str, Any]]:
    """Do `task` (`module:function`) in its own process; yield its messages, then {"exit"}.

    `streams` are the open files for its output and its errors. It has this process's working directory and environment,
    with `more`. Raises OSError or ValueError when the server is gone.
    """
    request = {"task": task, "arguments": dict(arguments), "folder": os.getcwd()}
    line = json.dumps(request | {"environment": {**os.environ, **(more or {})}}).encode() + b"\n"
    sent = socket.send_fds(connection, [line], list(streams))
    if rest := line[sent:]:  # to send nothing fails, too, where the job has ended and the server has hung up
        connection.sendall(rest)
    yield from _lines(connection)


def _lines(connection: socket.socket) -> Iterator[dict[str, Any]]:
    rest = b""
    while more := connection.recv(MOST_BYTES):
        *lines, rest = (rest + more).split(b"\n")
        yield from map(json.loads, lines)
    raise ConnectionResetError("the server went away")


def run(
    kind: str | None,
    task: str,
    arguments: Mapping[str, Any],
    streams: tuple[int, int] = (1, 2),
    limit_s: float | None = None,
    more: Mapping[str, str] | None = None,
) -> int | None:
    """Do a task, as in `replies`, in a process forked from the run's server.

    Returns its exit status as Popen.wait does, negative for a signal, or None if the limit ended it with everything
    that it started. Raises NotServedError, and CancelledError after `give_up`.
    """
    name = os.environ.get(VARIABLE)
    if not name or kind is None:
        raise NotServedError
    with contextlib.closing(_connect(name, kind)) as connection, _waiting(connection):
        try:
            connection.settimeout(limit_s)
            try:
                return exit_code(replies(connection, task, arguments, streams, more))
            except TimeoutError:
                connection.settimeout(None)
                connection.shutdown(socket.SHUT_WR)
                exit_code(_lines(connection))
                return None
        except (OSError, ValueError) as error:
            if connection not in _open:
                raise CancelledError from error
            raise NotServedError from error


def exit_code(messages: Iterator[dict[str, Any]]) -> int:
    """Return how a job of `replies` ended, as Popen.wait does."""
    return next(os.waitstatus_to_exitcode(message["exit"]) for message in messages if "exit" in message)


@contextlib.contextmanager
def _waiting(connection: socket.socket) -> Iterator[None]:
    _open.add(connection)
    try:
        yield
    finally:
        _open.discard(connection)


def give_up() -> None:
    """End every job that `run` waits for in this process, with what it started."""
    while _open:
        connection = _open.pop()
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)


def call(task: str, arguments: Mapping[str, Any]) -> None:
    """Call `module:function` with arguments by name."""
    module, function = task.split(":")
    getattr(importlib.import_module(module), function)(**arguments)


def send(message: Mapping[str, Any]) -> None:
    """Send a message from a job's process to its client."""
    assert _client is not None, "only a process of a server has a client"
    _client.sendall(json.dumps(message, allow_nan=False).encode() + b"\n")


def die_with(parent: int) -> None:
    """Have the system kill this process when its parent dies, or now if dead."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


class Server:
    """Fork a child per request, with `kept` variables; kill it when its client leaves."""

    def __init__(self, listener: socket.socket, kept: Mapping[str, str]) -> None:
        self._kept = dict(kept)
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._children: dict[int, socket.socket] = {}
        self._ends: dict[int, int] = {}  # of children: an open file that can be read once it has ended

    def serve(self, idle_s: float | None = None, lock: str = "") -> None:
        """Serve until idle for `idle_s`, or for ever; clients connect under the lock."""
        used = time.monotonic()
        while idle_s is None or self._children or time.monotonic() - used < idle_s or not self._close(lock):
            self.turn()
            if self._children:
                used = time.monotonic()

    def _close(self, lock: str) -> bool:
        """Stop listening, unless a client is connecting."""
        handle = locks.open_lock(lock)
        try:
            if not locks.try_lock(handle) or self._selector.select(timeout=0):
                return False
            self._listener.close()
            return True
        finally:
            os.close(handle)

    def turn(self) -> None:
        """Wait for the next event, at most a second.

        A child's end is noticed at once, or within 20 ms where the system has no files for processes.
        """
        for key, _ in self._selector.select(timeout=0.02 if len(self._ends) < len(self._children) else 1.0):
            if key.fileobj is self._listener:
                self._accept()
            elif key.data is not None:  # a client that has gone, or wants no more of its job
                self._selector.unregister(key.fileobj)
                _kill(key.data)
        self._reap()

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        if not is_own(connection):
            connection.close()
            return
        connection.settimeout(10.0)
        files: list[int] = []
        try:
            line, files, _, _ = socket.recv_fds(connection, MOST_BYTES, 2)
            while line and not line.endswith(b"\n"):
                more = connection.recv(MOST_BYTES)
                line = line + more if more else b""
            request = json.loads(line)
        except (OSError, ValueError):
            _close_all(files)
            connection.close()
            return
        connection.settimeout(None)
        sys.stdout.flush()
        sys.stderr.flush()
        server = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads: no pool has any before its first use
            child = os.fork()
        if child == 0:
            self._listener.close()
            for other in self._children.values():
                other.close()
            _close_all(self._ends.values())
            _work(server, connection, request, files, self._kept)
        _close_all(files)
        self._children[child] = connection
        self._selector.register(connection, selectors.EVENT_READ, child)
        with contextlib.suppress(OSError):  # no such call, or too many open files
            self._ends[child] = os.pidfd_open(child)
            self._selector.register(self._ends[child], selectors.EVENT_READ)

    def _reap(self) -> None:
        for child in list(self._children):
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            _kill(child)  # what it left running: its number is taken until it is waited for
            _, status = os.waitpid(child, 0)
            if child in self._ends:
                self._selector.unregister(self._ends[child])
                os.close(self._ends.pop(child))
            connection = self._children.pop(child)
            with contextlib.suppress(KeyError):
                self._selector.unregister(connection)
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps({"exit": status}).encode() + b"\n")
            connection.close()


def _work(
    server: int, connection: socket.socket, request: Mapping[str, Any], files: Sequence[int], kept: Mapping[str, str]
) -> NoReturn:
    """In the child: do the task, and end without running anybody's exit handlers."""
    global _client
    status = 1
    try:
        os.setsid()
        die_with(server)
        _client = connection
        for place, file in enumerate(files, start=1):
            os.dup2(file, place)
        _close_all(files)
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
        end(status)


def end(status: int) -> NoReturn:
    """End this process at once, with what it has printed written."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _kill(child: int) -> None:
    """Kill a child with everything in its process group, if it leads one."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(child) == child:
            os.killpg(child, signal.SIGKILL)
        else:
            os.kill(child, signal.SIGKILL)


def _close_all(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)


def prepare(kind: str) -> None:
    """Import what jobs of a kind need into this process."""
    function, _, argument = kind.partition(":")
    getattr(importlib.import_module(KINDS), function)(*filter(None, [argument]))


def _prepared(kind: str, listener: socket.socket) -> Server:
    """Return the server of a kind, with imports; a job reports what it misses."""
    before = dict(os.environ)
    with contextlib.suppress(Exception):
        importlib.import_module("cutesnake.runtime.errors")  # every job of the workflow ends by it
        prepare(kind)
    gc.collect()
    gc.freeze()  # or every job would go through, and copy, what is imported whenever it collects garbage
    return Server(listener, {name: value for name, value in os.environ.items() if before.get(name) != value})


def _serve_run(parent: int, listeners: dict[str, socket.socket]) -> NoReturn:
    """Fork each kind's server at its first job; a dead one is not replaced."""
    die_with(parent)
    servers: dict[int, str] = {}
    own = os.getpid()
    with selectors.DefaultSelector() as waiting:
        for kind, listener in listeners.items():
            waiting.register(listener, selectors.EVENT_READ, kind)
        while True:
            for key, _ in waiting.select(timeout=1.0):
                child = os.fork()
                if child == 0:
                    die_with(own)
                    for kind in listeners.keys() - {key.data}:
                        listeners[kind].close()
                    _prepared(key.data, listeners[key.data]).serve()
                servers[child] = key.data
                waiting.unregister(listeners[key.data])
            for child in list(servers):
                if os.waitpid(child, os.WNOHANG)[0]:
                    listeners.pop(servers.pop(child)).close()  # who waits there is refused, and does without


def _serve_shared(idle_s: float, lock: str, kind: str, listener: socket.socket) -> None:
    """Serve several runs; the output is the starter's pipe, for one character."""
    ready = os.dup(1)
    os.dup2(2, 1)
    server = _prepared(kind, listener)
    os.write(ready, b"1")
    os.close(ready)
    server.serve(idle_s, lock)


def main(settings: dict[str, Any]) -> None:
    """Serve the run of `parent`, or, without, whoever shares the server of the one kind."""
    listeners = {kind: socket.socket(fileno=handle) for kind, handle in settings["listeners"].items()}
    if "parent" in settings:
        _serve_run(settings["parent"], listeners)
    [(kind, listener)] = listeners.items()
    _serve_shared(settings["idle_s"], settings["lock"], kind, listener)


if __name__ == "__main__":  # jobs import this module, and must find their client in it
    importlib.import_module("cutesnake.runtime.pool").main(json.loads(sys.argv[1]))
