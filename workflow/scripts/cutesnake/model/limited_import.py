"""Import a kernel's module without letting it stop, move or talk for the workflow."""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType

LIMIT_SECONDS = 60.0
AGAIN_SECONDS = 1.0  # Python drops an exception that is raised in a finalizer


class ImportStoppedError(Exception):
    """The module did not end, or raised what ends a process. One line."""


class _OutOfTimeError(BaseException):
    """Passes a module's `except Exception`."""


@contextlib.contextmanager
def limited_import() -> Iterator[None]:
    """Run an import under a time limit; redirect prints, restore the working directory.

    Raises ImportStoppedError at the limit, and for a KeyboardInterrupt that is no Ctrl-C. Outside of the main thread
    there is no limit, as there are no signals.
    """
    folder = os.getcwd()
    interrupted = False

    def ring(number: int, frame: FrameType | None) -> None:
        raise _OutOfTimeError

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    with contextlib.ExitStack() as undo, contextlib.redirect_stdout(sys.stderr):
        undo.callback(os.chdir, folder)
        if in_main:
            undo.callback(signal.signal, signal.SIGALRM, signal.signal(signal.SIGALRM, ring))
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                undo.callback(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, interrupt))
            undo.callback(signal.setitimer, signal.ITIMER_REAL, *signal.getitimer(signal.ITIMER_REAL))
            signal.setitimer(signal.ITIMER_REAL, LIMIT_SECONDS, AGAIN_SECONDS)
        try:
            yield
        except _OutOfTimeError:
            raise ImportStoppedError(
                f"the import takes longer than {LIMIT_SECONDS:g} s; do such work inside of functions"
            ) from None
        except KeyboardInterrupt:
            if interrupted:
                raise
            raise ImportStoppedError("KeyboardInterrupt is raised; a module must be importable") from None
