"""Use Snakemake's private interfaces: attributes of `workflow`, replaced methods.

Snakemake has no public switch for any of it. Each function names what it needs and the upstream issue it waits for;
where there is none yet, `docs/decisions/snakemake_*.md` holds the report. All were tried with the versions OLDEST to
TRIED: a run over `tests/configs/tiny.yaml` (`tests/workflow/test_snakemake_versions.py`), with TRIED also under Slurm.
A name that a version lacks ends the run in one line. No other module imports Snakemake or uses a name that is private.
"""

import functools
import importlib
import importlib.metadata
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

OLDEST = "9.0"
TRIED = "9.27.1"
NEXT = 10  # the first major version that is refused
FACTORY = "snakemake.spawn_jobs:SpawnedJobArgsFactory.general_args"
GROUP = "snakemake.jobs:GroupJob.postprocess"
SCRIPT = "snakemake.script:PythonScript._execute_cmd"
SLURM = "slurm", "slurm-jobstep"  # executor plugins: one starts a job of Slurm, the other starts Snakemake's jobs in it


class OtherSnakemakeError(RuntimeError):
    """This Snakemake is not supported, or lacks a name that is used here. One line."""


def check_version() -> None:
    """Raise OtherSnakemakeError for a Snakemake that is too new; `min_version` refuses what is too old."""
    version = importlib.metadata.version("snakemake")
    if int(version.split(".")[0]) >= NEXT:
        raise OtherSnakemakeError(
            f"Snakemake {version} is too new: supported is {OLDEST} to {NEXT}: pip install snakemake=={TRIED}"
        )


def untried_version() -> str | None:
    """Return one line if this Snakemake is newer than the newest that was tried."""
    version = importlib.metadata.version("snakemake")
    if _parts(version) <= _parts(TRIED):
        return None
    return f"Snakemake {version} was not tried, {TRIED} was: if jobs fail without a reason, install that version"


def _parts(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())


def _lacks(name: str) -> OtherSnakemakeError:
    version = importlib.metadata.version("snakemake")
    return OtherSnakemakeError(f"Snakemake {version} has no {name}: pip install snakemake=={TRIED}")


def _uses_private(function: Callable[..., Any]) -> Callable[..., Any]:
    """Turn the AttributeError of a name that is gone into one line."""

    @functools.wraps(function)
    def used(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except AttributeError as error:
            raise _lacks(f"{type(error.obj).__name__}.{error.name}") from error

    return used


def replace(places: str | tuple[str, ...], wrapped: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replace the first existing method (`module:Class.method`) by what `wrapped` returns."""
    places = (places,) if isinstance(places, str) else places
    for place in places:
        module, _, method = place.partition(":")
        owner_name, _, name = method.partition(".")
        try:
            owner = getattr(importlib.import_module(module), owner_name)
            setattr(owner, name, wrapped(getattr(owner, name)))
            return
        except (ImportError, AttributeError):
            continue
    raise _lacks(f"{places[0].partition(':')[2]} in {places[0].partition(':')[0]}")


# Which process of a run this is, and its command line.
# Upstream: docs/decisions/snakemake.md.


@_uses_private
def is_main(workflow: Any) -> bool:
    """Return whether this process plans and schedules the run.

    An executor starts other processes, which read all rules again.
    """
    return workflow.is_main_process


@_uses_private
def is_local(workflow: Any) -> bool:
    """Whether this process runs jobs on its own machine and sends none to other nodes."""
    return workflow.resource_settings.nodes is None


@_uses_private
def cores(workflow: Any) -> int | None:
    """Return the number of `--cores`."""
    return workflow.resource_settings.cores


@_uses_private
def config_arguments(workflow: Any) -> list[str]:
    """Return the arguments of `--config`."""
    return list(workflow.config_settings.config_args or ())


@_uses_private
def replaces_config(workflow: Any) -> bool:
    """Return whether the command line says `--replace-workflow-config`."""
    return bool(workflow.config_settings.replace_workflow_config)


@_uses_private
def add_config_argument(workflow: Any, word: str) -> None:
    """Add a word to the `--config` of every job that an executor starts."""
    workflow.config_settings.config_args = [*config_arguments(workflow), word]


def targets() -> list[str] | None:
    """Return the command line's targets, empty for the default; None if unknown.

    Rules are read before Snakemake passes targets on. Upstream: docs/decisions/snakemake.md.
    """
    frame: FrameType | None = sys._getframe()
    while frame := frame.f_back if frame else None:
        if frame.f_code.co_name == "args_to_api" and "args" in frame.f_locals:
            result = getattr(frame.f_locals["args"], "targets", None)
            return None if result is None else [str(target) for target in result]
    return None


def asked_for(*names: str) -> bool:
    """Return whether the command line names one of these targets."""
    return not set(names).isdisjoint(targets() or ())


# Resources. Upstream: docs/decisions/snakemake.md.


@_uses_private
def resource(workflow: Any, name: str) -> int | None:
    """Return the run's limit of a resource, by `--resources` or a profile."""
    result = workflow.global_resources.get(name)
    return getattr(result, "value", result)  # from 9.16 on an object


@_uses_private
def set_resource(workflow: Any, name: str, value: int) -> None:
    """Set the limit of a resource; `_cores` are the processors."""
    workflow.register_resource(name, value)


# The graph.


@_uses_private
def files_of_jobs(workflow: Any) -> Iterator[str]:
    """Yield the graph's inputs and outputs. Upstream: docs/decisions/snakemake.md."""
    return (path for job in workflow.dag.jobs for path in (*job.input, *job.output))


@_uses_private
def files_of_started_jobs(workflow: Any) -> Iterator[str]:
    """Return the outputs of the jobs that this run had to do. Upstream: docs/decisions/snakemake.md."""
    return (path for job in workflow.dag.jobs if workflow.dag.needrun(job) for path in job.output)


# Scheduling and groups.


@_uses_private
def look_when_jobs_end(workflow: Any) -> None:
    """Have Snakemake look for new jobs only when one has ended.

    Its limit of jobs a second has it look once more a second after every look: after hundreds of jobs hundreds of times
    a second, which took as much processor time as many jobs. Jobs on this machine need no such limit, and
    `--max-jobs-per-timespan` cannot be turned off. Upstream: snakemake/snakemake#3744 (open), and
    docs/decisions/snakemake.md.
    """
    workflow.scheduler.job_rate_limiter = None


@_uses_private
def pass_groups() -> None:
    """Pass the group arguments to jobs of Slurm's plugins.

    Each process must make the same group of a job. `CommonSettings.pass_group_args` is the public switch, to be set by
    the plugin. Upstream: docs/decisions/snakemake.md. It goes when the plugins set it.
    """
    from snakemake_interface_executor_plugins.registry import ExecutorPluginRegistry

    registry = ExecutorPluginRegistry()
    for name in SLURM:
        if registry.is_installed(name):
            registry.get_plugin(name).common_settings.pass_group_args = True


def keep_going_in_groups() -> None:
    """Pass `--keep-going` to the process that does a group.

    `--keep-going` reaches only the main process. Upstream: snakemake/snakemake#2508 (open).
    """

    def with_arguments(message: Callable[..., str]) -> Callable[..., str]:
        return lambda *arguments, **named: f"{message(*arguments, **named)} --keep-going"

    replace(FACTORY, with_arguments)


@_uses_private
def keep_what_is_finished(workflow: Any) -> None:
    """Keep finished outputs of a failed group, which Snakemake would remove.

    Files of jobs that were not reached are marked as incomplete, the marks of finished ones were taken away. Upstream:
    snakemake/snakemake#2508 (open), snakemake/snakemake-executor-plugin-slurm#110 (closed, as intended).
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


def fork_scripts(wrapped: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Have scripts started by what `wrapped` makes of the method that starts them (`job.forked_scripts`).

    Upstream: snakemake/snakemake#3143 (open) asks for scripts that share a process.
    """
    replace(SCRIPT, wrapped)
