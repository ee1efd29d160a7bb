"""Stand-ins for a stage's `measure`, run by the worker's forked processes."""

import os
import signal
import time
from pathlib import Path


def fine(case):
    return {"pid": os.getpid()}, None


def wrong(case):
    return {"seen": 1}, "the result is wrong"


def crash(case):
    os.kill(os.getpid(), signal.SIGSEGV)


def leave(case):
    os._exit(3)


def raise_error(case):
    raise RuntimeError("CUDA error: an illegal memory access was encountered\nCompile with ...")


def missing_package(case):
    raise ModuleNotFoundError("No module named 'tvm_ffi'")


def hang(case):
    while True:
        time.sleep(1)


def exclusive(case):
    """Leaves a mark while it runs and fails if somebody else's is there."""
    mark = Path(case.settings["folder"]) / "running"
    handle = os.open(mark, os.O_CREAT | os.O_EXCL)
    time.sleep(0.05)
    os.close(handle)
    mark.unlink()
    return {"pid": os.getpid()}, None


def slow(case):
    """Says that it runs, then takes its time, then says that it has ended."""
    folder = Path(case.settings["folder"])
    (folder / "started").write_text(str(os.getpid()))
    time.sleep(5)
    (folder / "ended").touch()
    return {}, None


def torch_is_there(case):
    import sys

    return {"imported": "torch" in sys.modules}, None
