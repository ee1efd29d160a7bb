"""Read what is run of an operator: `sweep.yaml` with overrides of the configuration."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from cutesnake.model.catalog import label, make_workload, sweep_file
from cutesnake.model.contract import Workload
from cutesnake.planning import strict_yaml

EXTENTS = ("short", "full")  # lists of simulated checks
ALL = "all"  # every workload of the sweep
OWN_DISTRIBUTIONS = "distributions"  # key of an entry of a simulated list
OTHERS = "others"  # kernels that `predict` does not name
Entries = list[dict[str, Any]]  # workloads of a sweep: each stands for the cross product of its lists


class SweepError(ValueError):
    """A sweep.yaml that is not there or is no YAML. One line."""


@dataclass(frozen=True)
class Sweep:
    """What is run of one operator; config/README.md explains the keys."""

    operator: str
    kernels: list[str]
    dtypes: list[str] | dict[str, list[str]]  # for all targets, or per target
    workload_entries: Entries
    distributions: list[str]
    variants: str
    simulation: dict[str, dict[str, Any]]
    profile: list[str]
    predict: list[str] | dict[str, list[str]] = field(default_factory=list)  # ids, or `all` alone; or those per kernel
    predict_always: list[str] = field(default_factory=list)  # of these, ids that every run predicts again

    def dtypes_for(self, target: str) -> list[str]:
        """Element types that are asked for on a target."""
        return self.dtypes.get(target, []) if isinstance(self.dtypes, dict) else self.dtypes

    @property
    def all_dtypes(self) -> list[str]:
        """Element types that are asked for on any target, in their order."""
        lists = self.dtypes.values() if isinstance(self.dtypes, dict) else [self.dtypes]
        return list(dict.fromkeys(itertools.chain.from_iterable(lists)))

    def workloads(self) -> list[Workload]:
        """Return the sweep in its order, each workload once."""
        return self._workloads

    def simulated(self, extent: str) -> list[Workload]:
        """Return workloads checked by simulation without a GPU; empty without a list."""
        return self._once([workloads_alone(entry) for entry in self._simulated_entries(extent)])

    def simulated_distributions(self, extent: str, workload: Workload) -> list[str]:
        """Return the distributions of a simulated workload: its entries' own, else the list's."""
        part, names = self.simulation[extent], dict[str, None]()
        for entry in self._simulated_entries(extent):
            if any(w.id == workload.id for w in expand(self.operator, workloads_alone(entry), [workload.dtype])):
                names |= dict.fromkeys(entry.get(OWN_DISTRIBUTIONS, part["distributions"]))
        return list(names)

    def _simulated_entries(self, extent: str) -> Entries:
        return self.simulation.get(extent, {}).get("workloads", [])

    def small(self) -> list[list[Workload]]:
        """Everything that is small enough to be simulated, the shortest list first."""
        return [self.simulated(extent) for extent in EXTENTS]

    def profiled(self) -> list[Workload]:
        """Return the workloads that nsys and ncu profile."""
        return [workload for workload in self.workloads() if is_named(workload, self.profile)]

    def predicted(self, kernel: str) -> list[Workload]:
        """Return a kernel's workloads predicted for absent GPUs; empty without a list."""
        lists = self.predict if isinstance(self.predict, dict) else {OTHERS: self.predict}
        names = lists.get(kernel, lists.get(OTHERS, []))
        return [w for w in self.workloads() if names and is_named(w, [] if names == [ALL] else names)]

    def predicted_always(self) -> list[Workload]:
        """Return what every run predicts again, with a current record or without."""
        names = [] if ALL in self.predict_always else self.predict_always
        return [w for w in self.workloads() if self.predict_always and is_named(w, names)]

    @functools.cached_property
    def _workloads(self) -> list[Workload]:
        return self._once(self.workload_entries)

    def _once(self, entries: Entries) -> list[Workload]:
        result = (workload for entry in entries for workload in expand(self.operator, entry, self.all_dtypes))
        return list({workload.id: workload for workload in result}.values())


def read_sweep(operator: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return sweep.yaml of an operator with `overrides`, list by list for `simulation`.

    Raises SweepError for a file that is missing or cannot be read.
    """
    path = sweep_file(operator)
    if not path.exists():
        raise SweepError(f"{label(path)} is missing: it says what of {operator} is run, see config/README.md")
    try:
        result = strict_yaml.read(path, label(path))
    except strict_yaml.YamlError as error:
        raise SweepError(str(error)) from error
    if not isinstance(result, dict):
        raise SweepError(f"{label(path)}: it must be a mapping of keys to values, see config/README.md")
    simulation = {**result.get("simulation", {}), **overrides.get("simulation", {})}
    if "predict" in overrides:  # what the configuration asks for is made, whatever is recorded
        lists = overrides["predict"].values() if isinstance(overrides["predict"], dict) else [overrides["predict"]]
        overrides = {"predict_always": list(dict.fromkeys(itertools.chain.from_iterable(lists))), **overrides}
    return {**result, **overrides, **({"simulation": simulation} if simulation else {})}


def make_sweep(operator: str, data: Mapping[str, Any]) -> Sweep:
    """Return a sweep from data that fits its schema."""
    return Sweep(
        operator,
        list(data["kernels"]),
        data["dtypes"],
        list(data["workloads"]),
        list(data["distributions"]),
        data.get("variants", "default"),
        dict(data.get("simulation", {})),
        list(data.get("profile", [])),
        data.get("predict", []),
        list(data.get("predict_always", [])),
    )


def workloads_alone(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry of a simulated list without its distributions."""
    return {key: value for key, value in entry.items() if key != OWN_DISTRIBUTIONS}


def expand(operator: str, entry: Mapping[str, Any], dtypes: list[str]) -> Iterator[Workload]:
    """Yield workloads of an entry; TypeError or ValueError from the operator if refused."""
    lists = [value if isinstance(value, list) else [value] for value in entry.values()]
    for values in itertools.product(*lists):
        for dtype in dtypes:
            yield make_workload(operator, {**dict(zip(entry, values, strict=True)), "dtype": dtype})


def is_named(workload: Workload, names: list[str]) -> bool:
    """Return whether ids, with or without dtype, name a workload; empty names all."""
    bare = "_".join(part for part in workload.id.split("_") if part != workload.dtype)
    return not names or workload.id in names or bare in names
