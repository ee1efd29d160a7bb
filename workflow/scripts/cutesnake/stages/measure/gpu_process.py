"""Run a case in a clean forked process that has a GPU to itself.

A kernel that corrupts its CUDA context or hangs takes only its own case along, and the next case starts clean. The
process waits for a GPU with everything imported, and holds it until it has ended: no two cases measure at once, and the
next one begins when a GPU is free, not when a job is. Killing the server, or the workflow, at any moment costs only the
cases under way.

The process sends {"started"} when the case has a GPU, then {"record"}, or {"fault"} if the machine and not the kernel
is to blame.
"""

import contextlib
import importlib
import os
import signal
import time
from typing import Any

from cutesnake.runtime import pool
from cutesnake.runtime.private_folder import PrivateError

TASK = "cutesnake.stages.measure.gpu_process:measure_case"


class GpuProcessError(RuntimeError):
    """The server could not be started or went away: nothing is known about the case."""


def ask(case: dict[str, Any], limit_s: float, task: str | None = None, gpu: str | None = None) -> dict[str, Any]:
    """Run a case in a process of its own and return its record.

    `task` is `module:function`, by default `measure` of the stage's module; the function takes a Case and returns
    (metrics, reason). `gpu` is the fingerprint of the GPU that it must be measured on, None for any. The time limit
    counts from when the case has a GPU. Raises GpuProcessError for faults of the server or the machine (a package that
    is missing, a file that cannot be read): recording them would blame the kernel.
    """
    from cutesnake.stages.measure.case import Case, make_record

    task = task or f"cutesnake.stages.measure.{case['stage']}:measure"
    started: dict[str, Any] | None = None
    try:
        with contextlib.closing(pool.shared("gpu")) as connection:
            arguments = {"asked": case, "limit_s": limit_s, "task": task, "gpu": gpu}
            for message in pool.replies(connection, TASK, arguments):
                if "record" in message:
                    return message["record"]
                if "fault" in message:
                    raise GpuProcessError(f"{case['operator']}/{case['kernel']}: {message['fault']}")
                if "started" in message:
                    started = message["started"]
                if "exit" in message:
                    if os.WIFSIGNALED(message["exit"]) and os.WTERMSIG(message["exit"]) == signal.SIGKILL:
                        name = f"{case['operator']}/{case['kernel']}"
                        raise GpuProcessError(f"{name}: the case was killed (out of memory?); run again")
                    reason = _why_ended(message["exit"], limit_s)
                    return make_record(Case(**case), None, reason, started and started["device"])
    except (pool.NotServedError, PrivateError) as error:
        raise GpuProcessError(f"the server of GPU cases: {error}") from error
    except ConnectionError:
        pass
    raise GpuProcessError("the server of GPU cases went away; run again")


def _why_ended(status: int, limit_s: float) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number == signal.SIGALRM:
            return f"ended by the time limit of {limit_s:g} s: the kernel hangs, or the case is too large for the limit"
        return f"the process of the case was ended by {signal.Signals(number).name}"
    return f"the process of the case ended with exit code {os.waitstatus_to_exitcode(status)} and no result"


def measure_case(asked: dict[str, Any], limit_s: float, task: str, gpu: str | None) -> None:
    """Wait for a GPU, measure, and report, in a job's process of the server."""
    from cutesnake.model.stages import GPU_STAGES
    from cutesnake.planning.gpus import GpuError
    from cutesnake.planning.machine import MachineError, probe
    from cutesnake.runtime.gpu_slots import one_gpu
    from cutesnake.runtime.locks import TIMING, gpu_lock, machine_lock
    from cutesnake.runtime.machine_check import OtherMachineError, check_gpu
    from cutesnake.stages.measure.case import Case, device_section

    case = Case(**asked)
    timing = TIMING if GPU_STAGES[case.stage].times else None
    try:
        _get_ready(case, task)
        with one_gpu(probe()) as machine:
            check_gpu(gpu, machine)
            with gpu_lock(machine.device.uuid_hash if machine.device else "none"), machine_lock(timing):
                _measure(case, limit_s, task, device_section(machine.device))
                pool.end(0)  # with the locks, which go when the system has taken back what the process had on the GPU
    except (OtherMachineError, MachineError, GpuError, OSError) as error:
        pool.send({"fault": str(error)})


def _get_ready(case: Any, task: str) -> None:
    """Import what measuring needs, before the case has a GPU; faults show here.

    Nothing here may touch CUDA, which looks at CUDA_VISIBLE_DEVICES once: NVBench does when it is imported.
    """
    from cutesnake.model.catalog import load_kernel, load_operator
    from cutesnake.stages.load import build  # noqa: F401
    from cutesnake.stages.measure.case import provenance

    with contextlib.suppress(Exception):
        importlib.import_module(task.partition(":")[0])
        load_operator(case.operator)
        provenance(load_kernel(case.operator, case.kernel).NEEDS)


def _measure(case: Any, limit_s: float, task: str, device: dict[str, Any] | None) -> None:
    """Run the task within the time limit, and send its record."""
    from cutesnake.stages.measure.case import make_record

    pool.send({"started": {"device": device}})
    # The default action ends the process even inside a driver call that never returns.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    began = time.monotonic()
    try:
        module, function = task.split(":")
        metrics, reason = getattr(importlib.import_module(module), function)(case)
    except (ImportError, OSError, MemoryError) as error:
        pool.send({"fault": _sentence(error)})
        return
    except Exception as error:
        metrics, reason = None, _sentence(error)
    signal.setitimer(signal.ITIMER_REAL, 0)
    done = make_record(case, metrics, reason, device, seconds=time.monotonic() - began)
    pool.send({"record": done})


def _sentence(error: Exception) -> str:
    """Return the error's first line, with its type."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {first}"[:500]
