"""Classes of nodes that a run may use, and what a job found on one node of each.

`config/machines.yaml` names the classes; `snakemake … machines` sends a job to each, which writes what it finds there
to results/machine/<class>.json. Plans are made from these files, so that it does not matter which machine plans.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from cutesnake.model import record
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
    device: str | None = None  # the driver's name of its cards; None for nodes that compile and simulate
    gpu_model: str | None = None  # Slurm's name of their cards
    constraint: str | None = None
    alone: str = "card"  # what a timing job has to itself: its card, or its node

    @property
    def exclusive(self) -> str | None:
        """Slurm's option for jobs that time."""
        return "--exclusive" if self.alone == "node" else None


def read_classes(path: Path | str) -> dict[str, NodeClass]:
    """The classes by name, in the order of the file. Raises NodesError."""
    try:
        data = strict_yaml.read(path, str(path))
        check_input("machines", data, path)
    except (strict_yaml.YamlError, InputError) as error:
        raise NodesError(str(error)) from error
    found = {name: NodeClass(name, **entry) for name, entry in data["classes"].items()}
    if sum(one.device is None for one in found.values()) > 1:
        raise NodesError(f"{path}: classes: more than one has no `device`: one class compiles and simulates")
    return found


def write_probe(name: str, found: Machine, output: Path | str) -> None:
    """Write what a job found on a node of a class."""
    provenance = {"created": datetime.now(UTC).isoformat(timespec="seconds")}
    entry = {"stage": "machine", "status": "ok", "reason": found.problem, "provenance": provenance, "class": name}
    record.write("machine", output, {**entry, "machine": asdict(found)})


def probed(classes: Mapping[str, NodeClass], results: Path) -> dict[str, Machine]:
    """Per class what the job on it found. A class that was not asked yet, or that has another card than the file says,
    is a machine without a card, whose `problem` says so."""
    return {name: _probed(one, results / "machine" / f"{name}.json") for name, one in classes.items()}


def _probed(one: NodeClass, path: Path) -> Machine:
    try:
        found = Machine.from_dict(record.plain(record.read("machine", path).machine))
    except FileNotFoundError:
        return Machine(problem=f"no job has looked at a node of class {one.name} yet: {PROBE}")
    except record.RecordError as error:
        return Machine(problem=f"{error}: {PROBE}")
    if one.device is None or found.device is None or found.device.name == one.device:
        return found
    said = f"a node of class {one.name} has an {found.device.name}, where the file of classes says {one.device}"
    return replace(found, selected=None, problem=said)


def sort_out(
    classes: Mapping[str, NodeClass], head: Machine, results: Path
) -> tuple[Machine, dict[str, Machine] | None]:
    """The machine that builds, and the places that run cases; None for the machine itself."""
    if not classes:
        return head, None
    found = probed(classes, results)
    cards = {name: found[name] for name, one in classes.items() if one.device is not None}
    return compiling(classes, found, head), cards or None


def of_a_kind(machine: Machine) -> str:
    """The fingerprint of a class's card: any card of that kind and driver measures its cases."""
    return machine.fingerprint if machine.device is None else machine.fingerprint.rpartition("|")[0] + "|"


def compiling(classes: Mapping[str, NodeClass], found: Mapping[str, Machine], head: Machine) -> Machine:
    """The machine that builds and simulates: the class without cards, else the one that plans.

    It counts as having the Python packages that kernels need where a class with cards has them.
    """
    name = next((name for name, one in classes.items() if one.device is None), None)
    base = found[name] if name is not None and found[name].packages else replace(head, selected=None)
    modules = {**base.modules}
    for machine in found.values():
        modules |= {package: version for package, version in machine.modules.items() if version}
    return replace(base, modules=modules, problem=None if name is None else base.problem)
