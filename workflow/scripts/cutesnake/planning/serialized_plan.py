"""Serialize the plan for jobs that an executor starts on other nodes.

A job parses the Snakefile again, where it may see another machine, other builds on disk, or a folder that a later run
has planned again. So the main process writes its plan before its first job, in a file named by its content. It passes
the name to jobs with the configuration (`--config plan=<name>`) and in an environment variable. The files of earlier
runs are removed then: a job left over from a killed run ends with one line.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from cutesnake.model import record
from cutesnake.model.catalog import load_operator
from cutesnake.model.contract import Workload
from cutesnake.planning.config import Experiment
from cutesnake.planning.matrix import Build, Plan, PlannedCase
from cutesnake.planning.staleness import digest_data
from cutesnake.runtime.machine_check import VARIABLE

FOLDER = Path(".snakemake/cutesnake-plans")
KEY = "plan"  # of the configuration that jobs are started with
TYPES = get_type_hints(Plan)
# Fields of Plan that are packed in another form: workloads are of an operator's own class, keys are no texts.
PACKED = {"workloads", "builds", "cases", "simulated", "sources", "broken"}


class SerializedPlanError(RuntimeError):
    """Report a job's plan that is missing or of another folder state; one line."""


def save(plan: Plan, experiment: Experiment) -> str:
    """Write the plan for this run's jobs and return its name; or SerializedPlanError."""
    text = json.dumps({"experiment": _digest(experiment), "plan": pack(plan)})
    name = f"plan-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    kept = {_path(name), _machines_path(name)}
    for other in FOLDER.glob("*-*.json"):
        if other not in kept:
            with contextlib.suppress(OSError):
                other.unlink()
    machines = [machine.as_dict() for machine in (plan.machine, *plan.places.values())]
    try:
        record.write_text(_path(name), text)
        record.write_text(_machines_path(name), json.dumps(machines))
    except OSError as error:
        raise SerializedPlanError(
            f"{FOLDER}: cannot be written ({error.strerror}); make room, or make it writable"
        ) from None
    os.environ[VARIABLE] = str(_machines_path(name).resolve())
    return name


def take_name(config: dict[str, Any]) -> str | None:
    """Remove and return the plan's name from a job's configuration."""
    return config.pop(KEY, None)


def others(arguments: Iterable[str]) -> list[str]:
    """Arguments of `--config` without the plan's name, in a job."""
    return [argument for argument in arguments if not argument.startswith(f"{KEY}=plan-")]


def load(name: str | None, experiment: Experiment) -> Plan:
    """Return the plan of the run that started this job.

    Raises SerializedPlanError where it is gone, damaged, or made for another configuration than the one that is read
    here.
    """
    if not name:
        raise SerializedPlanError(
            "this job was started without a plan: jobs are for Snakemake's main process to start, which hands it on"
        )
    try:
        text = _path(name).read_text(encoding="utf-8")
    except OSError:
        raise SerializedPlanError(
            f"{_path(name)}, the plan of the run that started this job, is gone: another run began in this folder; if "
            "none did, this node does not see the folder of the run"
        ) from None
    if name != f"plan-{hashlib.sha256(text.encode()).hexdigest()[:16]}":
        raise SerializedPlanError(f"{_path(name)}: not the plan that it is named after: it is cut short or was changed")
    result = json.loads(text)
    if result["experiment"] != _digest(experiment):
        raise SerializedPlanError(
            "the configuration, or a sweep.yaml, was changed since this run was planned: end it and start it again"
        )
    os.environ[VARIABLE] = str(_machines_path(name).resolve())
    return unpack(result["plan"])


def pack(plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON-like data, every build and workload once."""
    cases = (*plan.cases.values(), *plan.simulated.values())
    builds = {build.key: build for build in (*(case.build for case in cases), *plan.builds.values())}
    numbers = {key: number for number, key in enumerate(builds)}
    workloads = {operator: {w.id: asdict(w) for w in planned} for operator, planned in plan.workloads.items()}
    for case in plan.simulated.values():
        workloads[case.build.operator].setdefault(case.workload.id, asdict(case.workload))
    plain = {name: getattr(plan, name) for name in TYPES if name not in PACKED}
    plain |= {name: sorted(value) for name, value in plain.items() if isinstance(value, set)}
    return {
        "plain": msgspec.to_builtins(plain),
        "parameters": workloads,
        "workloads": {operator: [workload.id for workload in planned] for operator, planned in plan.workloads.items()},
        "all_builds": msgspec.to_builtins(list(builds.values())),
        "builds": [numbers[key] for key in plan.builds],
        **{
            name: [[numbers[case.build.key], case.workload.id] for case in getattr(plan, name).values()]
            for name in ("cases", "simulated")
        },
        "sources": [[*key, source] for key, source in plan.sources.items()],
        "broken": [[*key, how] for key, how in plan.broken.items()],
    }


def unpack(data: Mapping[str, Any]) -> Plan:
    """Return the plan that `pack` serialized."""
    made = {operator: _workloads(operator, named) for operator, named in data["parameters"].items()}
    builds = msgspec.convert(data["all_builds"], list[Build])

    def cases(pairs: Iterable[tuple[int, str]]) -> dict[str, PlannedCase]:
        result = (PlannedCase(builds[number], made[builds[number].operator][workload]) for number, workload in pairs)
        return {case.key: case for case in result}

    return Plan(
        **{name: msgspec.convert(value, TYPES[name]) for name, value in data["plain"].items()},
        workloads={operator: [made[operator][name] for name in names] for operator, names in data["workloads"].items()},
        builds={builds[number].key: builds[number] for number in data["builds"]},
        cases=cases(data["cases"]),
        simulated=cases(data["simulated"]),
        sources={(operator, kernel): source for operator, kernel, source in data["sources"]},
        broken={(operator, kernel): how for operator, kernel, how in data["broken"]},
    )


def _workloads(operator: str, named: Mapping[str, Mapping[str, Any]]) -> dict[str, Workload]:
    make = load_operator(operator).Workload
    return {name: make(**parameters) for name, parameters in named.items()}


def _digest(experiment: Experiment) -> str:
    return digest_data(asdict(experiment))


def _path(name: str) -> Path:
    return FOLDER / f"{Path(name).name}.json"


def _machines_path(name: str) -> Path:
    """Return the file of the plan's machines, which every job reads."""
    return FOLDER / f"machines-{Path(name).name.removeprefix('plan-')}.json"
