"""Keep the driver initialized for the GPUs of a worker's server, in one process.

Where no process has the driver initialized for a GPU, the next one's `cuInit` takes 0.13 to 0.23 s and makes short
kernels on the machine's other GPUs some 4 % faster for 0.05 s. Where one has, it takes 0.03 s and changes nothing
(`docs/decisions/held_driver.md` has the measurements). The server itself cannot do this: it forks the processes of
cases, and an initialized driver does not survive a fork. No context is made, so that no GPU memory is used.
"""

import contextlib
import ctypes
import subprocess
import sys
from collections.abc import Iterator

DRIVER = "libcuda.so.1"


@contextlib.contextmanager
def driver_holder() -> Iterator[subprocess.Popen[str]]:
    """Run the process inside the context, on the GPUs in CUDA_VISIBLE_DEVICES.

    It prints a line when it has the driver. It ends with its parent, however that ends: its input is closed then.
    Without a driver it ends at once, which is no error.
    """
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def main() -> None:
    """Initialize the driver and wait until the input is closed."""
    try:
        status = ctypes.CDLL(DRIVER).cuInit(0)
    except OSError:
        return
    print(status, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
