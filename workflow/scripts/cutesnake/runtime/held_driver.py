"""A process that keeps the driver initialized for the cards of a worker's server, and does nothing else.

Where no process has the driver initialized for a card, the next one's `cuInit` takes 0.13 to 0.23 s and makes short
kernels on the other cards of the machine some 4 % faster for 0.05 s; where one has, it takes 0.03 s and changes nothing
(`docs/decisions/held_driver.md` has the measurements). The server itself cannot do this: it forks the processes of
cases, and a driver that is initialized does not outlive a fork. No context is made, so that nothing of a card is taken.
"""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
import sys
from collections.abc import Iterator

DRIVER = "libcuda.so.1"


@contextlib.contextmanager
def held_driver() -> Iterator[subprocess.Popen[str]]:
    """The process, for as long as this lasts, on the cards that CUDA_VISIBLE_DEVICES names.

    It prints a line when it has the driver. It ends with whoever started it, however that ends: the other end of its
    input is closed then. Without a driver it ends at once, and nobody misses it.
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
    try:
        status = ctypes.CDLL(DRIVER).cuInit(0)
    except OSError:
        return
    print(status, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
