"""Clusters of one launch in several processes, with the results of one process.

Each process runs a share: successive clusters, on a copy of the memory from before them. Shares are added in the order
of clusters. A share is run again in this process if it and earlier clusters access the same bytes and one of them
writes. So is a share with a deadlock, and that of a lost process.
"""

import contextlib
import itertools
import multiprocessing
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass

import numpy as np

from ..checks.access_history import NUMBERS, AccessHistory, Bytes
from .counts import Counts
from .coverage import Coverage
from .finding import Finding
from .launch import Launch
from .machine import Machine, blas
from .processes import start

WORTH_S = 0.4  # processor time of clusters that is worth starting processes


@dataclass
class Share:
    """The effects of successive clusters. Allocations are numbered as in the launch's memory."""

    counts: Counts
    visits: dict[int, int]
    coverage: Coverage
    findings: dict[tuple[str, int, str], Finding]
    touched: dict[int, Bytes]
    written: dict[int, np.ndarray]  # the content of the bytes that it wrote


def run_shares(machine: Machine, processes: int) -> None:
    """Run a launch, in several processes if that may save time."""
    if processes < 2 or machine.later < 2 or not _eligible(machine):
        return machine.run()
    with machine.running(), contextlib.ExitStack() as stack:
        if machine.program.cluster_seconds is None:
            _run_timed(machine, 1)
        left = machine.later
        assert machine.program.cluster_seconds is not None
        count = min(processes, left) if machine.program.cluster_seconds * left >= WORTH_S else 1
        sizes = [left * (n + 1) // count - left * n // count for n in range(count)]

        def work(share: tuple[int, int]) -> Share | None:
            return _run_share(machine, *share)

        others = []
        for n, size in enumerate(sizes[1:], 1):
            process, connection = start(work)
            stack.callback(process.join)
            stack.callback(process.kill)
            connection.send((sum(sizes[:n]), size))
            others.append((process, connection))
        _run_timed(machine, sizes[0])
        for size, (process, connection) in zip(sizes[1:], others, strict=True):
            share = None
            with contextlib.suppress(EOFError, OSError):  # of a process that has ended
                share = connection.recv()
            process.kill()
            if share is None or not _add(machine, share, size):
                machine.run_clusters(size)
    machine.finish()
    return None


def _run_timed(machine: Machine, size: int) -> None:
    began = time.thread_time()
    machine.run_clusters(size)
    machine.program.cluster_seconds = (time.thread_time() - began) / size


def _eligible(machine: Machine) -> bool:
    """Return whether clusters may be independent, and this process may fork.

    Other Python threads, and the threads of a BLAS other than OpenBLAS, may hold locks.
    """
    return (
        sys.platform == "linux"
        and blas() is not None
        and threading.active_count() == 1
        and not multiprocessing.current_process().daemon
        and machine.history is not None
        and machine.program.has_separate_clusters
        and not (machine.trace or machine.counts.tracking)
    )


def _run_share(machine: Machine, skipped: int, size: int) -> Share | None:
    """Run `size` clusters after `skipped` ones, in a forked process; None if too many findings."""
    machine.counts, machine.visits, machine.by_key = Counts(), {}, {}
    machine.coverage = Coverage.of(machine.launch.name, machine.program)
    machine.begun += skipped
    machine.waiting = itertools.islice(Launch.clusters(machine.launch), machine.begun, None)
    assert machine.history is not None
    history = machine.history = AccessHistory(machine, machine.history.before)
    history.last = _number(machine.begun)
    machine.run_clusters(size)
    if len(machine.by_key) == machine.LIMIT:
        return None
    machine.coverage.instructions, machine.coverage.blocks = [], []  # this process's parent has them
    allocations = machine.memory.allocations
    touched = {allocations.index(allocation): accessed for allocation, accessed in history.touched.items()}
    written = {n: allocations[n].words[1][accessed.written()] for n, accessed in touched.items()}
    return Share(machine.counts, machine.visits, machine.coverage, machine.by_key, touched, written)


def _number(begun: int) -> int:
    """Return the last number that the history gives to so many clusters without ordered accesses."""
    return (begun - 1) % NUMBERS + 1


def _add(machine: Machine, share: Share, size: int) -> bool:
    """Add `size` clusters to earlier ones; return False, with nothing changed, if they interfere."""
    allocations, history = machine.memory.allocations, machine.history
    assert history is not None
    touched = {allocations[n]: accessed for n, accessed in share.touched.items()}
    if history.interferes(touched):
        return False
    machine.begun += len(list(itertools.islice(machine.waiting, size)))
    for n, values in share.written.items():
        allocations[n].words[1][share.touched[n].written()] = values
    history.add(touched, _number(machine.begun))
    machine.counts.add(share.counts)
    machine.visits = dict(Counter(machine.visits) + Counter(share.visits))
    machine.coverage.merge(share.coverage)
    for key, finding in share.findings.items():
        machine.add(key, finding)
    return True
