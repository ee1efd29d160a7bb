"""Run a kernel's `compile` in its own process, under a time limit.

A DSL fixes its target when it initialises, and a compiler that crashes, hangs or ends the process must not end the
stage. Within a run the process is forked from a server that has imported the DSL (`runtime/pool.py`), else it is
started. Faults of the kernel are results; faults of the machine are raised.
"""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from cutesnake.model.catalog import blame, label, load_kernel, roots
from cutesnake.model.contract import Variant
from cutesnake.model.paths import SCRIPTS
from cutesnake.runtime import pool
from cutesnake.runtime.machine_faults import MachineFaultError, machine_fault
from cutesnake.stages.compile.neutral_paths import use_neutral_names
from cutesnake.stages.compile.opened_files import Opened
from cutesnake.stages.compile.store import processor_seconds
from cutesnake.stages.fetch import FetchError

REQUEST, REPLY, OUTPUT = "request.json", "reply.json", "output.log"
OUTPUT_BYTES = 1 << 20  # of what was printed last
INSTALL = "install it with: pip install -r envs/requirements.txt"
# Packages that compiling takes for granted: one that is not there is a fault of the machine.
PACKAGES = frozenset({"cutlass", "cuda", "tvm_ffi", "numpy", "torch"})


class CompileError(MachineFaultError):
    """Report that the machine, not the kernel, prevented a build; one line with remedy."""


@dataclass
class Outcome:
    """How a kernel's `compile` ended."""

    error: str | None  # in the compiler's own words
    build: Any = field(default_factory=dict)  # what it returned
    output: str = ""  # what was printed
    limit_s: float | None = None  # the time limit that ended it
    opened: list[str] = field(default_factory=list)  # files that it read, of the project and of kernels
    loaded: list[str] = field(default_factory=list)  # files of modules that were imported before `compile` ran
    seconds: float | None = None  # processor time; None without a reply


def compile_apart(operator: str, kernel: str, target: str, variant: Variant, partial: Path, limit_s: float) -> Outcome:
    """Compile in a separate process into `partial/build`; CompileError for machine faults."""
    request = {"operator": operator, "kernel": kernel, "target": target, "folder": str(partial)}
    request |= {"variant": {"id": variant.id, "params": dict(variant.params)}}  # type: ignore[dict-item]
    (partial / REQUEST).write_text(json.dumps(request))
    status = _run(kind_of(load_kernel(operator, kernel).DSL, target), partial, limit_s)
    outcome = Outcome(None, output=_printed(partial / OUTPUT))
    last = "\n".join(outcome.output.splitlines()[-5:])
    place = label(Path(str(load_kernel(operator, kernel).__file__)))
    name = f"{operator}/{kernel} for {target}"
    if status is None:
        outcome.error = (
            f"{place}: compile() was ended by the time limit of {limit_s:g} s; to give it more, set "
            f"`compile: {{max_seconds: …}}`; its output: {last or 'none'}"
        )
        outcome.limit_s = limit_s
    elif status == 0 and (partial / REPLY).exists():
        reply = json.loads((partial / REPLY).read_text())
        outcome.opened, outcome.loaded, outcome.seconds = reply["opened"], reply["loaded"], reply["seconds"]
        if reply["machine"]:
            raise CompileError(f"{name}: {reply['machine']}")
        outcome.error, outcome.build = reply["error"], reply["build"]
    elif status in (-signal.SIGTERM, -signal.SIGINT):
        raise CompileError(f"{name}: the compiler was asked to end; run again")
    elif status == -signal.SIGKILL:
        raise CompileError(f"{name}: the compiler was killed (out of memory?); run again, with fewer --cores")
    else:
        how = signal.Signals(-status).name if status < 0 else f"exit code {status} and no result"
        outcome.error = f"{place}: compile() ended with {how}: {last or 'no output'}"
    return outcome


def kind_of(dsl: str, target: str) -> str:
    """Return the kind of server that builds fork from, in CuTe DSL per target."""
    return {"cute": f"cute:{target}", "cutile": "cutile"}.get(dsl, "host")


def _run(kind: str, partial: Path, limit_s: float) -> int | None:
    """Run to the end, or to the limit (None), and end whatever it left running.

    Output goes to a file: a pipe would be waited for as long as anything that was started holds it open.
    """
    task = "cutesnake.stages.compile.limited_process:reply_in"
    with (partial / OUTPUT).open("wb") as stream:
        try:
            return pool.run(kind, task, {"partial": str(partial)}, (stream.fileno(), stream.fileno()), limit_s)
        except pool.NotServedError:
            pass
    shutil.rmtree(partial / "build")  # where a server went away it may hold half a build
    (partial / "build").mkdir()
    return _start(
        [sys.executable, "-P", "-m", "cutesnake.stages.compile.limited_process", str(partial), kind],
        partial / OUTPUT,
        limit_s,
    )


def _start(command: list[str], output: Path, limit_s: float) -> int | None:
    """Run the command in a new process; return its exit status."""
    paths = [str(SCRIPTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with output.open("wb") as stream:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=environment, start_new_session=True
        )
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _printed(path: Path) -> str:
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - OUTPUT_BYTES))
        return stream.read().decode(errors="replace")


def _run_request(request: dict[str, Any], folder: Path, opened: Opened) -> dict[str, Any]:
    """Compile in this process. `machine` is set where the fault is not the kernel's."""
    variant = Variant(**request["variant"])
    reply: dict[str, Any] = {"error": None, "machine": None, "build": {}, "loaded": []}
    try:
        module = load_kernel(request["operator"], request["kernel"])
        reply["loaded"] = opened.modules()
        reply["build"] = module.compile(variant, request["target"], folder)
        json.dumps(reply)
    except (Exception, SystemExit) as error:
        reply["build"] = {}
        reply["machine"] = _machines_fault(error)
        reply["error"] = blame(request["operator"], request["kernel"], error, whole=True)
    return reply


def _machines_fault(error: BaseException) -> str | None:
    """Return what is wrong with the machine, None if the kernel is at fault."""
    if isinstance(error, FetchError):
        return f"{type(error).__name__}: {error}"
    if fault := machine_fault(error):
        return fault
    if isinstance(error, ModuleNotFoundError) and error.name:
        first = error.name.split(".")[0]
        if first in PACKAGES and importlib.util.find_spec(first) is None:
            return f"{error}; {INSTALL}"
    return None


def reply_in(partial: str) -> NoReturn:
    """Do the request in a folder, leave the reply, and end this process."""
    folder = Path(partial)
    request = json.loads((folder / REQUEST).read_text())
    use_neutral_names(roots(), Path("results/fetch"))
    opened = Opened(roots())
    began = processor_seconds()
    reply = {**_run_request(request, folder / "build", opened), "opened": opened.files()}
    reply["seconds"] = processor_seconds() - began
    unfinished = folder / f".{REPLY}"
    unfinished.write_text(json.dumps(reply))
    unfinished.rename(folder / REPLY)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # threads that the kernel left behind are not waited for


if __name__ == "__main__":
    pool.die_with(os.getppid())  # where the stage is killed, its compiler must not go on alone
    with contextlib.suppress(Exception):  # `compile` meets what is missing again, and names it
        pool.prepare(sys.argv[2])
    reply_in(sys.argv[1])
