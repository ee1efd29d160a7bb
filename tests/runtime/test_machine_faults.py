"""Faults of the machine are distinguished from faults of a kernel."""

import errno
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cutesnake.runtime import machine_faults
from cutesnake.runtime.machine_faults import MachineFaultError, machine_fault


class ToolError(Exception):
    """As cuTile raises it for its compiler."""

    def __init__(self, return_code: int, text: str = "failed to compile Tile IR program") -> None:
        super().__init__(f"Return code {return_code}\n{text}")
        self.return_code = return_code


def raised_by(call) -> Exception:
    with pytest.raises(Exception) as caught:
        call()
    return caught.value


def chained() -> None:
    try:
        raise OSError(errno.ENOSPC, "No space left on device")
    except OSError as error:
        raise RuntimeError("the compiler gave up") from error


MACHINE = {
    "a full disk": OSError(errno.ENOSPC, "No space left on device", "kernel.ptx"),
    "a full disk, behind another error": raised_by(chained),
    "no memory": MemoryError(),
    "a compiler that was killed": ToolError(-signal.SIGKILL),
    "a tool that was killed": subprocess.CalledProcessError(-signal.SIGTERM, ["ptxas"]),
    "a linker that was killed": RuntimeError("collect2: fatal error: ld terminated with signal 9 [Killed]"),
    "no PATH": RuntimeError(
        "cc could not link kernel.o: collect2: fatal error: cannot find 'ld'\ncompilation terminated."
    ),
    "a tool that is not there": raised_by(lambda: subprocess.run(["no-such-tool"])),
    "a folder mounted noexec": ImportError("made.so: failed to map segment from shared object"),
    "a full disk, by a tool's message": ToolError(
        5, "LLVM ERROR: IO failure on output stream: No space left on device"
    ),
    "another's": MachineFaultError("the machine"),
}
KERNEL = {
    "a compiler's refusal": ToolError(5),
    "a compiler that crashed": ToolError(-signal.SIGSEGV),
    "a missing file of the kernel's": raised_by(lambda: Path("no_such_file").read_text()),
    "a wrong value": ValueError("tile must be a power of two"),
    "the end of the process": SystemExit("enough"),
}


@pytest.mark.parametrize("error", MACHINE.values(), ids=MACHINE.keys())
def test_a_fault_of_the_machine_is_one_line(error) -> None:
    reported = machine_fault(error)
    assert reported and "\n" not in reported


@pytest.mark.parametrize("error", KERNEL.values(), ids=KERNEL.keys())
def test_a_fault_of_a_kernel_is_none_of_the_machine(error) -> None:
    assert machine_fault(error) is None


@pytest.mark.fault("Machine", "the disk of temporary files is full", "the job fails, nothing is recorded")
def test_any_failure_is_the_machines_while_the_folder_of_temporary_files_is_full(monkeypatch) -> None:
    monkeypatch.setattr(machine_faults, "SPARE_BYTES", 1 << 62)
    assert "no space left" in machine_fault(ToolError(5))


def test_a_process_that_is_killed_says_so() -> None:
    killed = raised_by(lambda: subprocess.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], check=True))
    assert "SIGKILL" in machine_fault(killed)


@pytest.mark.slow
def test_cutile_does_not_fall_back_to_older_bytecode(tmp_path) -> None:
    """Its compiler cannot be tried, as on a full disk."""
    script = (
        "from cuda.tile import _compile\n"
        "_compile._SUPPORTED_VERSIONS.clear()\n"
        "from cutesnake.runtime import kinds, machine_faults\n"
        "try:\n    kinds.cutile()\n"
        "except UserWarning as error:\n    print(machine_faults.machine_fault(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert machine_faults.OLDER_BYTECODE in done.stdout, done.stderr
