"""Tasks in forked processes, which begin with this process's memory at equal addresses."""

import contextlib
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Generic, TypeVar

VARIABLE = "PTXSIM_PROCESSES"
T = TypeVar("T")
R = TypeVar("R")


def count_of(option: int | None, most: int = sys.maxsize, name: str = "processes") -> int:
    """Return how many processes to use.

    That is the option, else PTXSIM_PROCESSES, else one per available CPU, up to `most`. A child process, a worker of
    pytest-xdist, and any process of a busy machine uses one. Raises ValueError, with the option's `name`, for less than
    one.
    """
    variable = os.environ.get(VARIABLE)
    value: str | int = variable or min(_available(), most) if option is None else option
    if not str(value).isdecimal() or int(value) < 1:
        raise ValueError(f"{VARIABLE if option is None else name} {value}: expected one or more")
    return int(value)


def _available() -> int:
    if sys.platform != "linux" or multiprocessing.parent_process() or "PYTEST_XDIST_WORKER" in os.environ:
        return 1
    busy = os.getloadavg()[0] > (os.cpu_count() or 1) + 1  # more than this program's own processes
    return 1 if busy else len(os.sched_getaffinity(0))


@dataclass
class _Job(Generic[T, R]):
    """A task; `ended` with a result or, if its worker was lost, with none."""

    task: T
    results: list[R]
    ended: bool = False


def in_order(work: Callable[[T], R], tasks: Iterable[T], count: int) -> Generator[R, None, None]:
    """Yield the result of `work` for each task, in order, from `count` processes.

    Tasks are taken as workers become free, before earlier results are complete. This process does a task itself if
    its worker fails or is killed, so that errors are raised here. Workers end when the iterator is closed.
    """
    upcoming = iter(tasks)
    workers = [start(work) for _ in range(count)] if count > 1 else []
    idle = [connection for _, connection in workers]
    busy: dict[Connection, _Job[T, R]] = {}
    jobs: deque[_Job[T, R]] = deque()  # whose results were not yielded yet
    try:
        while True:
            while idle and (task := next(upcoming, None)) is not None:
                connection = idle.pop()
                jobs.append(_Job(task, []))
                busy[connection] = jobs[-1]
                try:
                    connection.send(task)
                except OSError:
                    busy.pop(connection).ended = True
            if not jobs:
                break
            for connection in [] if jobs[0].ended else _readable(busy):
                job = busy.pop(connection)
                job.ended = True
                with contextlib.suppress(EOFError, OSError):  # of a worker that has ended
                    job.results.append(connection.recv())
                    idle.append(connection)
            while jobs and jobs[0].ended:
                job = jobs.popleft()
                yield job.results[0] if job.results else work(job.task)
        yield from map(work, upcoming)  # without workers
    finally:
        for process, _ in workers:
            process.kill()
            process.join()


def _readable(connections: Iterable[Connection]) -> list[Connection]:
    """Wait until workers have sent a result or ended; return their connections."""
    ready = wait(list(connections))
    return [x for x in ready if isinstance(x, Connection)]


def start(work: Callable[[T], R]) -> tuple[multiprocessing.process.BaseProcess, Connection]:
    """Fork a process that receives tasks and sends results, until one fails."""
    own, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_serve, args=(work, theirs), daemon=True)
    process.start()
    theirs.close()
    return process, own


def _serve(work: Callable[[T], R], connection: Connection) -> None:
    """Do tasks until one fails, or this process's parent has ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends its workers
    try:
        while True:
            connection.send(work(connection.recv()))
    except Exception:  # whatever it is, the parent will meet it when it does the task itself
        return
