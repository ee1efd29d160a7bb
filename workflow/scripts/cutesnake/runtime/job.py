"""Do one task of a script, in a process with prepared imports where available."""

import contextlib
import runpy
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cutesnake.runtime import pool

# What Snakemake sets for a script: how many threads libraries use, and where temporary files go.
THREADS = (
    *("OMP_NUM_THREADS", "GOTO_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"),
    *("VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS"),
)
FOLDERS = ("TMPDIR", "TMP", "TEMPDIR", "TEMP")

Files = str | Sequence[str]  # of an input that a rule names


def do(
    kind: str | None, name: str, log: str, task: str, /, made_from: Mapping[str, Any] | None = None, **arguments: Any
) -> None:
    """Call `task` (`module:function`) in a process forked from the server of `kind`.

    Without such a server, or a kind, it is called here. `name`, of the stage, and `log` are for what may go wrong, see
    `fault.one_line`. Ends this process as the other one ended, where that went wrong. `made_from` has the arguments of
    `provenance.making`: what is written says what it was made from.
    """
    job = {"name": name, "log": log, "task": task, "arguments": arguments, "made_from": made_from}
    try:
        status = pool.run(kind, "cutesnake.runtime.job:do_in_process", job)
    except pool.NotServedError:
        do_in_process(name, log, task, arguments, made_from)
        return
    if status is not None and status < 0:
        sys.exit(f"{name}: the process of this job was ended by {signal.Signals(-status).name}")
    if status:
        sys.exit(status)


def do_each(kind: str, name: str, log: str, task: str, jobs: Sequence[Mapping[str, Any]], /) -> None:
    """Do `task` with the arguments of each of `jobs`, one after the other.

    Where one fails the others are done all the same; then this process ends as the failed one did.
    """
    failed: SystemExit | None = None
    for arguments in jobs:
        try:
            do(kind, name, log, task, **arguments)
        except SystemExit as error:
            if failed is not None and isinstance(error.code, str):  # the first one's is printed as this process ends
                print(error.code, file=sys.stderr)
            failed = failed or error
    if failed is not None:
        raise failed


def do_in_process(
    name: str, log: str, task: str, arguments: Mapping[str, Any], made_from: Mapping[str, Any] | None = None
) -> None:
    """Do the task in this process; the parameters are those that `do` sends."""
    from cutesnake.model import provenance  # here only: a script whose job is forked starts sooner without
    from cutesnake.runtime.errors import one_line

    with one_line(name, log), provenance.making(**(made_from or {})):
        pool.call(task, arguments)


def listed(files: Files) -> list[str]:
    """Return the paths as a list; Snakemake passes a single one as a string."""
    return [files] if isinstance(files, str) else list(files)


def run_script(path: str) -> None:
    """Run the script that Snakemake has written for a job, as `python path` would."""
    sys.argv = [path]
    runpy.run_path(path, run_name="__main__")


@contextlib.contextmanager
def output_to(log: str | None) -> Iterator[tuple[int, int]]:
    """Yield streams for a job's output and errors, and append both to its log.

    A stage may replace its log meanwhile, so nothing is written to it before. Without a log, or if that cannot be
    written, the text goes to this process's standard error.
    """
    if log is None:
        yield 1, 2
        return
    path = Path(log)
    before = _date(path)
    with tempfile.TemporaryFile() as message:
        try:
            yield message.fileno(), message.fileno()
        finally:
            message.seek(0)
            _add(path, message.read().decode(errors="replace"), again=_date(path) == before)


def _date(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _add(path: Path, text: str, again: bool) -> None:
    """Add text to a log, or replace an earlier run's (`again`); skip known text."""
    if not text.strip():
        return
    try:
        if again:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif text.strip() not in path.read_text(errors="replace"):
            with path.open("a") as stream:
                stream.write(text)
    except OSError:  # the disk that is full may be the log's
        sys.stderr.write(text)


def forked_scripts(execute: Callable[..., Any]) -> Callable[..., Any]:
    """`PythonScript._execute_cmd` of Snakemake, which `execute` is, with scripts forked from the server `scripts`.

    What Snakemake puts at the head of a script imports for longer than most scripts take. What the job prints goes to
    its log file. A job with an environment, a container or a benchmark of its own, and one without a server, is
    executed as before.
    """

    def fork(script: Any, command: str, **options: Any) -> Any:
        alone = (script.conda_env, script.container_img, script.env_modules, script.bench_record)
        if not any(alone) and Path(options.get("fname", "")).suffix == ".py":
            report = shlex.join([sys.executable, options["fname"]])
            try:
                log = next(iter(script.log), None)
                threads = dict.fromkeys(THREADS, str(script.threads))
                folder = dict.fromkeys(FOLDERS, script.resources.get("tmpdir"))
                more = {name: str(value) for name, value in (threads | folder).items() if value is not None}
                job = {"path": options["fname"]}
                with output_to(log) as streams:
                    status = pool.run("scripts", "cutesnake.runtime.job:run_script", job, streams, more=more)
            except pool.NotServedError:
                pass
            except pool.CancelledError:
                raise subprocess.CalledProcessError(-signal.SIGINT, report) from None
            else:
                if status:
                    raise subprocess.CalledProcessError(status, report)
                return None
        return execute(script, command, **options)

    return fork
