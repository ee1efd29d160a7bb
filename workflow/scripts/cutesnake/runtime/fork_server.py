"""A server that forks a process per request: what the worker of a card and the servers of builds have in common."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from cutesnake.runtime.private_folder import is_ours

MOST_BYTES = 1 << 16  # of a request, read at once


class ForkServer:
    """Accepts requests, forks a child for each, reports how it ended, and kills it when its client is gone.

    A request is one line of JSON, which open files may come with. `serve` is called in the child and never returns.
    """

    def __init__(self, listener: socket.socket, serve: Callable[[socket.socket, dict[str, Any], list[int]], NoReturn]):
        self._listener = listener
        self._serve = serve
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._children: dict[int, socket.socket] = {}
        self._ends: dict[int, int] = {}  # of children: an open file that can be read once it has ended

    def turn(self) -> None:
        """Wait for what comes next, at most a second.

        Children's ends are noticed at once, or within 20 ms where the system has no files for processes.
        """
        for key, _ in self._selector.select(timeout=0.02 if len(self._ends) < len(self._children) else 1.0):
            if key.fileobj is self._listener:
                self._accept()
            elif key.data is not None:
                self._client_spoke(key.fileobj)
        self._reap()

    def is_asked(self) -> bool:
        """Whether somebody waits for an answer at this moment."""
        return bool(self._selector.select(timeout=0))

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        if not is_ours(connection):
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
            close(files)
            connection.close()
            return
        connection.settimeout(None)
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # threads: no pool has any before its first use
            child = os.fork()
        if child == 0:
            self._listener.close()
            for other in self._children.values():
                other.close()
            close(self._ends.values())
            self._serve(connection, request, files)
        close(files)
        self._children[child] = connection
        self._selector.register(connection, selectors.EVENT_READ, child)
        with contextlib.suppress(OSError):  # no such call, or too many open files
            self._ends[child] = os.pidfd_open(child)
            self._selector.register(self._ends[child], selectors.EVENT_READ)

    def _client_spoke(self, connection: Any) -> None:
        """A client never speaks twice: it has gone, or wants no more of its job."""
        child = self._selector.get_key(connection).data
        self._selector.unregister(connection)
        _kill(child)

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


def _kill(child: int) -> None:
    """A child with everything in its process group, if it leads one."""
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(child) == child:
            os.killpg(child, signal.SIGKILL)
        else:
            os.kill(child, signal.SIGKILL)


def close(files: Iterable[int]) -> None:
    for file in files:
        os.close(file)
