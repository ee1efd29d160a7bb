"""Read classes of nodes for a run, and what a job found on each.

`config/machines.yaml` names the classes. `snakemake … machines` sends a job to each, which writes
results/machine/<class>.json. Plans are made from these files, so it does not matter which machine plans.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cutesnake.model import provenance, record
from cutesnake.model.inputs import InputError, check_input
from cutesnake.planning import strict_yaml
from cutesnake.planning.machine import Machine

PROBE = "snakemake --workflow-profile profiles/slurm machines"


class NodesError(ValueError):
    """A file of classes that is missing, or wrong. One line."""


@dataclass(frozen=True)
class NodeClass:
    """One class of nodes; field names as in machines.yaml."""

    name: str
    partition: str | None = None
    device: str | None = None  # the driver's name of its GPUs; None for nodes that compile and simulate
    gpu_model: str | None = None  # Slurm's name of their GPUs
    constraint: str | None = None
    alone: str = "card"  # what a timing job has to itself: its GPU or its node

    @property
    def exclusive(self) -> str | None:
        """Slurm's option for jobs that time."""
        return "--exclusive" if self.alone == "node" else None


def read_classes(path: Path | str) -> dict[str, NodeClass]:
    """Return the classes by name, in the order of the file. Raises NodesError."""
    try:
        data = strict_yaml.read(path, str(path))
        check_input("machines", data, path)
    except (strict_yaml.YamlError, InputError) as error:
        raise NodesError(str(error)) from error
    result = {name: NodeClass(name, **entry) for name, entry in data["classes"].items()}
    if sum(one.device is None for one in result.values()) > 1:
        raise NodesError(f"{path}: classes: more than one has no `device`: one class compiles and simulates")
    return result


def write_probe(name: str, result: Machine, output: Path | str) -> None:
    """Write what a job found on a node of a class."""
    created = {"created": provenance.now()}
    entry = {"stage": "machine", "status": "ok", "reason": result.problem, "provenance": created, "class": name}
    record.write("machine", output, {**entry, "machine": result.as_dict()})


def probed(classes: Mapping[str, NodeClass], results: Path) -> dict[str, Machine]:
    """Return per class the machine that a job found on it.

    A class without a probe, or with another GPU than the file names, is a machine without a GPU and a `problem`.
    """
    return {name: _probed(one, results / "machine" / f"{name}.json") for name, one in classes.items()}


def _probed(one: NodeClass, path: Path) -> Machine:
    try:
        result = Machine.from_dict(record.plain(record.read("machine", path).machine))
    except FileNotFoundError:
        return Machine(problem=f"no job has looked at a node of class {one.name} yet: {PROBE}")
    except record.RecordError as error:
        return Machine(problem=f"{error}: {PROBE}")
    if one.device is None or result.device is None or result.device.name == one.device:
        return result
    message = f"a node of class {one.name} has an {result.device.name}, where the file of classes says {one.device}"
    return replace(result, selected=None, problem=message)


def sort_out(
    classes: Mapping[str, NodeClass], head: Machine, results: Path
) -> tuple[Machine, dict[str, Machine] | None]:
    """Return the machine that builds, and the places of cases, None for itself."""
    if not classes:
        return head, None
    result = probed(classes, results)
    gpus = {name: result[name] for name, one in classes.items() if one.device is not None}
    return compiling(classes, result, head), gpus or None


def of_a_kind(machine: Machine) -> str:
    """Return a class's fingerprint, equal for all GPUs of that kind and driver."""
    return machine.fingerprint if machine.device is None else machine.fingerprint.rpartition("|")[0] + "|"


def compiling(classes: Mapping[str, NodeClass], result: Mapping[str, Machine], head: Machine) -> Machine:
    """Return the machine that builds and simulates: the class without GPUs, else `head`.

    It counts as having the Python packages that kernels need where a class with GPUs has them.
    """
    name = next((name for name, one in classes.items() if one.device is None), None)
    base = result[name] if name is not None and result[name].packages else replace(head, selected=None)
    modules = {**base.modules}
    for machine in result.values():
        modules |= {package: version for package, version in machine.modules.items() if version}
    return replace(base, modules=modules, problem=None if name is None else base.problem)
