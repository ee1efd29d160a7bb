"""Methods of Snakemake that are replaced for the length of a run: groups of jobs, and how it looks for jobs.

Snakemake has no switch for what they change. They were read and tried in the version TRIED. Another version is told
of, and one that has no such method ends the run with one line. No other module of the library imports Snakemake.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from typing import Any

TRIED = "9.27.1"
FACTORY = "snakemake.spawn_jobs:SpawnedJobArgsFactory.general_args"
GROUP = "snakemake.jobs:GroupJob.postprocess"
SCRIPT = "snakemake.script:PythonScript._execute_cmd"


class OtherSnakemakeError(RuntimeError):
    """This Snakemake lacks a method that is to be replaced. One line."""


def other_version() -> str | None:
    """One line where Snakemake's version is not the one that the replaced methods were tried with."""
    here = importlib.metadata.version("snakemake")
    if here == TRIED:
        return None
    return (
        f"this is Snakemake {here}; three of its methods are replaced as they are in {TRIED} "
        f"(cutesnake/runtime/snakemake_patches.py). If jobs fail without a reason, try pip install snakemake=={TRIED}"
    )


def replace(where: str, wrapped: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace a method, named as `module:Class.method`, by what `wrapped` makes of it. Raises OtherSnakemakeError."""
    module, _, method = where.partition(":")
    owner_name, _, name = method.partition(".")
    try:
        owner = getattr(importlib.import_module(module), owner_name)
        setattr(owner, name, wrapped(getattr(owner, name)))
    except (ImportError, AttributeError):
        here = f"Snakemake {importlib.metadata.version('snakemake')}"
        raise OtherSnakemakeError(
            f"{here} has no {method} in {module}, which this workflow replaces: pip install snakemake=={TRIED}"
        ) from None


def look_when_jobs_end(workflow: Any) -> None:
    """Have Snakemake look for jobs to start when one has ended, and at no other time.

    Its limit of jobs a second has it look once more a second after every look: after hundreds of jobs hundreds of times
    a second, for which it took as much processor time as many jobs. Jobs on this machine need no such limit.
    """
    workflow.scheduler.job_rate_limiter = None


def tell_jobs_of_groups() -> None:
    """Have Snakemake tell a job what it leaves out: how groups are made, and to go on where a job of a group fails.

    Slurm's plugin has one process start another in a job; both must make the same group of it.
    """

    def told_more(told: Callable[..., str]) -> Callable[..., str]:
        def general_args(factory: Any, *arguments: Any, **named: Any) -> str:
            return f"{told(factory, *arguments, **named)} --keep-going {factory.get_group_args()}"

        return general_args

    replace(FACTORY, told_more)


def keep_what_is_finished(workflow: Any) -> None:
    """Have Snakemake keep what was finished of a group that failed; it would remove all that the group makes.

    Files of jobs that were not reached are marked as incomplete, the marks of finished ones were taken away.
    """

    def each_alone(end_as_one: Callable[..., Any]) -> Callable[..., Any]:
        async def postprocess(group: Any, error: bool = False, **options: Any) -> None:
            if not error:
                await end_as_one(group, **options)
                return
            for job in group:
                there = all([await file.exists() for file in job.output])
                failed = not there or await workflow.persistence.incomplete(job)
                await job.postprocess(error=bool(failed), check_output_mtime=False)

        return postprocess

    replace(GROUP, each_alone)
