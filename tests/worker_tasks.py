"""Stand-ins for a stage's `measure`, run in processes of their own."""

import os
import signal
import time
from pathlib import Path

IMPORTED = time.monotonic()


def fine(case):
    return {"pid": os.getpid()}, None


def server(case):
    return {"server": os.getppid()}, None


def when_imported(case):
    return {"imported": IMPORTED, "began": time.monotonic()}, None


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


def use_the_gpu(case):
    import torch

    return {"sum": float(torch.ones(1024, device="cuda").sum())}, None


def corrupt_context(case):
    """An index outside a tensor: the device asserts, and the context is lost."""
    import torch

    values = torch.ones(16, device="cuda")
    missing = values[torch.tensor([1 << 20], device="cuda")]
    torch.cuda.synchronize()
    return {"sum": float(missing.sum())}, None


def hang_on_the_gpu(case):
    import torch

    for _ in range(100):
        torch.cuda._sleep(1 << 40)
    torch.cuda.synchronize()
    return {}, None
