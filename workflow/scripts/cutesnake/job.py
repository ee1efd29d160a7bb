"""What a script of the workflow does: one task, in a process that has imported what it needs where the run has one."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from typing import Any

from cutesnake import forks


def do(kind: str | None, name: str, log: str, task: str, /, **arguments: Any) -> None:
    """Call `task`, as `module:function`, with plain data by name, in a process forked from the server of `kind`.

    Without such a server, or a kind, it is called here. `name`, of the stage, and `log` are for what may go wrong, see
    `fault.one_line`. Ends this process as the other one ended, where that went wrong.
    """
    job = {"name": name, "log": log, "task": task, "arguments": arguments}
    try:
        status = forks.run(kind, "cutesnake.job:do_here", job)
    except forks.NotServedError:
        do_here(name, log, task, arguments)
        return
    if status is not None and status < 0:
        sys.exit(f"{name}: the process of this job was ended by {signal.Signals(-status).name}")
    if status:
        sys.exit(status)


def do_here(name: str, log: str, task: str, arguments: Mapping[str, Any]) -> None:
    """The same in this process."""
    from cutesnake.fault import one_line  # here only: a script whose job is forked starts sooner without

    with one_line(name, log):
        forks.call(task, arguments)
