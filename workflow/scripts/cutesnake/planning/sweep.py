"""Read what is run of an operator: `sweep.yaml` with overrides of the configuration."""

import functools
import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cutesnake.model.catalog import label, make_workloads, sweep_file
from cutesnake.model.contract import Workload
from cutesnake.planning import strict_yaml

EXTENTS = ("short", "full")  # lists of simulated checks
ALL = "all"  # every workload of the sweep
OWN_KEYS = ("distributions", "schedules")  # that an entry of a simulated list may have besides its workloads
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
        return list(self.by_id.values())

    def simulated(self, extent: str) -> list[Workload]:
        """Return workloads checked by simulation without a GPU; empty without a list."""
        return list(self._by_id(self.simulated_entries.get(extent, [])).values())

    def simulated_distributions(self, extent: str, workload: Workload) -> list[str]:
        """Return the distributions of a simulated workload: its entries' own, else the list's."""
        return self._own("distributions", extent, workload, self.simulation[extent]["distributions"])

    def simulated_schedules(self, extent: str, workload: Workload, others: list[str]) -> list[str]:
        """Return the schedules of a simulated workload: its entries' own, else `others`."""
        return self._own("schedules", extent, workload, others)

    def _own(self, key: str, extent: str, workload: Workload, others: list[str]) -> list[str]:
        names = dict[str, None]()
        for entry, alone in zip(self.simulation[extent]["workloads"], self.simulated_entries[extent], strict=True):
            if any(name == workload.id for name, _ in self.of_entry(alone)):
                names |= dict.fromkeys(entry.get(key, others))
        return list(names)

    @functools.cached_property
    def simulated_entries(self) -> dict[str, Entries]:
        """Extent -> entries of its simulated list, without OWN_KEYS."""
        return {
            extent: [
                {key: value for key, value in entry.items() if key not in OWN_KEYS}
                for entry in part.get("workloads", [])
            ]
            for extent, part in self.simulation.items()
        }

    def small(self) -> list[list[Workload]]:
        """Everything that is small enough to be simulated, the shortest list first."""
        return [self.simulated(extent) for extent in EXTENTS]

    def profiled(self) -> Iterable[str]:
        """Return ids of the workloads that nsys and ncu profile."""
        return self._named(self.profile)

    def predicted(self, kernel: str) -> Iterable[str]:
        """Return ids of a kernel's workloads predicted for absent GPUs; empty without a list."""
        lists = self.predict if isinstance(self.predict, dict) else {OTHERS: self.predict}
        names = lists.get(kernel, lists.get(OTHERS, []))
        return self._named([] if names == [ALL] else names) if names else []

    def predicted_always(self) -> Iterable[str]:
        """Return ids of what every run predicts again, with a current record or without."""
        return self._named([] if ALL in self.predict_always else self.predict_always) if self.predict_always else []

    def _named(self, names: list[str]) -> Iterable[str]:
        return [name for name, workload in self.by_id.items() if is_named(workload, names)] if names else self.by_id

    @functools.cached_property
    def by_id(self) -> dict[str, Workload]:
        """Id -> workload, in the sweep's order."""
        return self._by_id(self.workload_entries)

    def _by_id(self, entries: Entries) -> dict[str, Workload]:
        return dict(itertools.chain.from_iterable(map(self.of_entry, entries)))

    def of_entry(self, entry: dict[str, Any]) -> list[tuple[str, Workload]]:
        """Return an entry's workloads and their ids, made once; or what the operator raises."""
        if id(entry) not in self._made:
            lists = {name: value if isinstance(value, list) else [value] for name, value in entry.items()}
            made = make_workloads(self.operator, {**lists, "dtype": self.all_dtypes})
            self._made[id(entry)] = [(workload.id, workload) for workload in made]
        return self._made[id(entry)]

    @functools.cached_property
    def _made(self) -> dict[int, list[tuple[str, Workload]]]:
        return {}


def read_sweep(operator: str, overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return sweep.yaml with `overrides`, `simulation` list by list; SweepError if unreadable."""
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


def is_named(workload: Workload, names: Collection[str]) -> bool:
    """Return whether ids, with or without dtype, name a workload; empty names all."""
    name = workload.id
    return not names or name in names or f"_{name}_".replace(f"_{workload.dtype}_", "_")[1:-1] in names
