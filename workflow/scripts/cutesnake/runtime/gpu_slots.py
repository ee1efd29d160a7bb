"""Choose when a job measures, and on which of several equal GPUs.

At most as many jobs as the run has GPUs measure at once. Each has its GPU for as long as it measures and names it in
CUDA_VISIBLE_DEVICES by its UUID. With spare processors, Snakemake starts more jobs than that. They import everything
and wait here: starting a job takes a good part of the time of measuring a case.
"""

import contextlib
import functools
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from cutesnake.planning.machine import Machine, uuid_of
from cutesnake.runtime.locks import first_free, open_gpu_lock, open_lock

VISIBLE = "CUDA_VISIBLE_DEVICES"
AT_ONCE = "CUTESNAKE_CARDS"  # how many jobs of this run measure at once; without it nobody waits for the others
SLOTS = Path(".snakemake/cutesnake-cards")  # their locks; jobs of a run are started in its folder, which has one run
WAIT_SECONDS = 0.01


def started_ahead(gpus: int, processors: int) -> int:
    """Return how many jobs may wait: one per GPU, if a processor remains."""
    return max(0, min(gpus, processors - gpus - 1))


@contextlib.contextmanager
def one_gpu(machine: Machine) -> Iterator[Machine]:
    """Reserve one GPU of `machine.candidate_devices()` for this process and its children.

    Yields the machine with that GPU. Waits until fewer jobs of this run measure than it has GPUs, and until a GPU is
    free. A process that has a GPU does not wait again. Raises GpuError if the driver does not know the GPU.
    """
    with contextlib.ExitStack() as stack:
        if at_once := int(os.environ.get(AT_ONCE) or 0):
            _, handle = first_free([functools.partial(_open_slot, number) for number in range(at_once)], WAIT_SECONDS)
            stack.callback(os.close, handle)
            stack.enter_context(_environment(AT_ONCE, None))
        if len(gpus := machine.candidate_devices()) > 1:
            locks = [functools.partial(open_gpu_lock, f"taken-{gpu.uuid_hash}") for gpu in gpus]
            chosen, handle = first_free(locks, WAIT_SECONDS)
            stack.callback(os.close, handle)
            stack.enter_context(_environment(VISIBLE, uuid_of(gpus[chosen])))
            machine = replace(machine, selected=gpus[chosen].index, candidates=(gpus[chosen].index,))
        yield machine


def _open_slot(number: int) -> int:
    SLOTS.mkdir(parents=True, exist_ok=True)
    return open_lock(SLOTS / f"{number}.lock", 0o666)


@contextlib.contextmanager
def _environment(name: str, value: str | None) -> Iterator[None]:
    """Set a variable inside the context; None removes it."""
    before = os.environ.pop(name, None)
    try:
        if value is not None:
            os.environ[name] = value
        yield
    finally:
        os.environ.pop(name, None)
        if before is not None:
            os.environ[name] = before
