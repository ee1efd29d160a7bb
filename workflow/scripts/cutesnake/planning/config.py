"""Read and check the configuration; errors are one line with place and remedy."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, get_args

from cutesnake.model import catalog
from cutesnake.model.catalog import ContractError, load_operator
from cutesnake.model.contract import Cost, Operator, Workload
from cutesnake.model.dsls import DSLS
from cutesnake.model.explain import Problem
from cutesnake.model.inputs import Schedule, find_problem
from cutesnake.planning import clocks, strict_yaml, toolchains
from cutesnake.planning.sweep import (
    ALL,
    EXTENTS,
    OTHERS,
    Entries,
    Sweep,
    SweepError,
    is_named,
    make_sweep,
    read_sweep,
)

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # of a workload
MOST_CHARACTERS = 150  # of an id: file names hold 255 bytes, with the node class and an ending
MOST_WORKLOADS = 1_000_000  # of a list, before equal ones are merged: see docs/decisions/many_cases.md
GATE = {"builds": "default", "spill_bytes": 0, "stack_bytes": 0, "spill_sites": 0}
GATE |= {"serialized_percent": 10.0, "slower_percent": 3.0}
MOST_BYTES = 2**40  # of a workload's tensors: several times what any GPU holds


class ConfigError(ValueError):
    """The configuration asks for something that does not exist or makes no sense."""


@dataclass(frozen=True)
class Experiment:
    """A checked configuration: what is asked for, of which operators, on which targets."""

    targets: list[str]
    stages: list[str]
    sweeps: dict[str, Sweep]  # in the order of the configuration
    seeds: list[int]
    simulation: dict[str, Any] | None  # {extent, schedules, seeds} of the list that is chosen; None for none
    timing: dict[str, float]
    not_simulated: dict[str, list[str]] = field(default_factory=dict)  # DSL -> targets left out of that list
    clocks: dict[str, str] = field(default_factory=dict)  # target -> the GPU that ptxsim's clock predicts for
    every_size: bool = False  # build for all compile-time sizes, even without a GPU of the target
    recorded: str = "use"  # use, ignore or only: whether builds are shown from records, see recorded_builds.py
    machines: str | None = None  # a file of classes of nodes, see cutesnake/planning/nodes.py
    cases_per_job: int | None = None  # None: by how many there are, see cutesnake/planning/batches.py
    timing_alone: bool = True  # builds and simulations of a run wait while one of its cases is timed on their machine
    baseline: str | None = None  # as `cutesnake.analysis.change.baseline` reads it
    baseline_fails: str = "none"  # what the target `unchanged` fails for: none, slower, worse
    toolchains: list[toolchains.Toolchain] = field(default_factory=list)
    gate: dict[str, Any] = field(default_factory=lambda: dict(GATE))  # builds, and limits of the target `gate`

    @property
    def extent(self) -> str:
        """Return which list of simulated workloads is used."""
        return self.simulation["extent"] if self.simulation else "none"


MOST_LISTED = 40  # allowed words in a message: a sweep may have thousands of workloads


def nearest(word: Any, allowed: Iterable[str]) -> str:
    """Return a hint for an unknown word: a close one, and the shortened list."""
    allowed = list(allowed)
    close = difflib.get_close_matches(str(word), allowed, n=1, cutoff=0.5)
    hint = f" did you mean {close[0]!r}?" if close else ""
    more = f" and {len(allowed) - MOST_LISTED:,} more" if len(allowed) > MOST_LISTED else ""
    return f"{hint} allowed: {', '.join(allowed[:MOST_LISTED])}{more}"


def lay_over_file(config: dict[str, Any], path: Path) -> None:
    """Lay `config`, which Snakemake read from the command line, over the YAML file at `path`.

    `config` is changed in place. Raises ConfigError.
    """
    name = catalog.label(path)
    try:
        base = strict_yaml.read(path, name)
    except strict_yaml.YamlError as error:
        raise ConfigError(str(error)) from error
    if not isinstance(base, dict):
        raise ConfigError(f"{name}: it must have keys at its top level, see config/README.md")
    _lay_over(base, config)
    config.clear()
    config.update(base)


def read_again(config: dict[str, Any], files: Iterable[Path | str], arguments: Iterable[str]) -> None:
    """Read `files` and the arguments of `--config` again, strictly.

    Snakemake keeps the last of two equal keys, ignores `{}` over a list, and takes values inside of a mapping on the
    command line for texts. `config` is changed in place to what the YAML says. Raises ConfigError.
    """
    try:
        for file in files:
            if isinstance(data_read := strict_yaml.read(file, catalog.label(Path(file).resolve())), dict):
                _lay_over(config, data_read)
        for argument in arguments:
            key, _, value = argument.partition("=")
            _lay_over(config, {key: strict_yaml.parse(value, f"--config {key}")})
    except strict_yaml.YamlError as error:
        raise ConfigError(str(error)) from error


def _lay_over(config: dict[str, Any], upper: Mapping[str, Any]) -> None:
    """Merge mappings key by key; replace lists and single values."""
    for key, value in upper.items():
        below = config.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            _lay_over(below, value)
        else:
            config[key] = value


def check(config: dict[str, Any]) -> Experiment:
    """Return the experiment that a configuration describes.

    Raises ConfigError for the first mistake: the schema, then names of operators, kernels, dtypes, workload keys. Sets
    the folders that are searched for operators. A kernel that breaks its contract is no ConfigError: the plan has a row
    for it.
    """
    _check_type(config, "config", "config")
    try:
        catalog.use_paths(config.get("kernel_paths", []))
        known = catalog.operators()
        for folder in catalog.without_operator():
            why = f"holds a kernel, and there is no operator {folder.name!r};{nearest(folder.name, known)}"
            raise ConfigError(f"kernel_paths: {folder} {why}; a new one needs an operator.py there")
        for operator in config["operators"]:
            if operator not in known:
                raise ConfigError(f"config: operators: unknown operator {operator!r};{nearest(operator, known)}")
        for operator in config.get("sweeps", {}):
            if operator not in known:
                raise ConfigError(f"config: sweeps: unknown operator {operator!r};{nearest(operator, known)}")
        sweeps = {operator: _sweep(operator, config.get("sweeps", {})) for operator in config["operators"]}
    except (ContractError, SweepError) as error:
        raise ConfigError(str(error)) from error
    chosen = config.get("simulation", {"extent": "none"})
    extent = chosen["extent"]
    listed = dict(chosen[extent]) if extent != "none" else {}
    without = listed.pop("without", {})
    return Experiment(
        targets=config["targets"],
        stages=config["stages"],
        sweeps=sweeps,
        seeds=config["correctness"]["seeds"],
        simulation=None if extent == "none" else {"extent": extent, **listed},
        not_simulated=without,
        timing=config["timing"],
        clocks=_clocks(config) if "predict" in config["stages"] else {},
        every_size=config.get("compile", {}).get("baked_sizes") == "all",
        recorded=config.get("compile", {}).get("recorded", "use"),
        machines=config.get("machines"),
        cases_per_job=None if config.get("cases_per_job", "auto") == "auto" else config["cases_per_job"],
        timing_alone=config.get("timing_alone", True),
        baseline=config.get("baseline"),
        baseline_fails=config.get("baseline_fails", "none"),
        toolchains=_toolchains(config.get("toolchains", [])),
        gate={**GATE, **config.get("gate", {})},
    )


def _toolchains(names: list[str]) -> list[toolchains.Toolchain]:
    try:
        return toolchains.read(names)
    except toolchains.ToolchainError as error:
        raise ConfigError(f"config: {error}") from error


def _clocks(config: dict[str, Any]) -> dict[str, str]:
    """Return the GPU per target that is predicted for; ConfigError if unknown."""
    result: dict[str, str] = {}
    for name in config.get("prediction", {}).get("devices", []):
        try:
            target = clocks.clock(name)["target"]
        except clocks.ClockError as error:
            raise ConfigError(f"config: prediction.devices: {error}") from error
        if target in result:
            raise ConfigError(f"config: prediction.devices: {result[target]} and {name} are both {target}; name one")
        result[target] = name
    return result


def _check_type(data: Any, name: str, local: str) -> None:
    result = find_problem(name, data)
    if result is not None:
        raise ConfigError(f"{local}: {_explain(result)}")


def _explain(result: Problem) -> str:
    where = ".".join(map(str, result.steps)) or "top level"
    if result.unknown is not None:
        return f"{where}: unknown key {result.unknown!r};{nearest(result.unknown, result.allowed)}"
    if result.missing is not None:
        return f"{where}: key {result.missing!r} is missing; config/README.md explains it"
    if result.allowed:
        return f"{where} is {result.value!r};{nearest(result.value, result.allowed)}"
    return f"{where} is {'empty' if result.value is None else repr(result.value)}; {result.asked}"


def _sweep(operator: str, overrides: dict[str, Any]) -> Sweep:
    """Return the checked sweep of an operator: schema, kernels, dtypes, workloads, profile ids."""
    mine = overrides.get(operator) or {}
    local = f"config: sweeps.{operator}" if mine else catalog.label(catalog.sweep_file(operator))
    _check_type(mine, "sweep", f"config: sweeps.{operator}") if mine else None
    data = read_sweep(operator, mine)
    _check_type(data, "sweep", local)
    missing = [key for key in ("kernels", "dtypes", "distributions", "workloads") if key not in data]
    if missing:
        raise ConfigError(f"{local}: key {missing[0]!r} is missing; config/README.md explains it")
    sweep = make_sweep(operator, data)
    known = list(catalog.kernel_files(operator))
    for kernel in sweep.kernels:
        if kernel not in known:
            why = _no_kernel(operator, kernel) or f"unknown kernel {kernel!r};{nearest(kernel, known)}"
            raise ConfigError(f"{local}.kernels: {why}")
    module = load_operator(operator)
    for dtype in sweep.all_dtypes:
        if dtype not in module.DTYPES:
            raise ConfigError(f"{local}.dtypes: unknown dtype {dtype!r};{nearest(dtype, module.DTYPES)}")
    _check_names(f"{local}.distributions", module.DISTRIBUTIONS, sweep.distributions)
    named: dict[str, Workload] = {}
    _check_workloads(f"{local}.workloads", sweep, sweep.workload_entries, named)
    for extent in EXTENTS:
        part = sweep.simulation.get(extent, {})
        place = f"{local}.simulation.{extent}"
        _check_names(f"{place}.distributions", module.DISTRIBUTIONS, part.get("distributions", []))
        entries = part.get("workloads", [])
        for index, entry in enumerate(entries):
            own = f"{place}.workloads[{index}]"
            _check_names(f"{own}.distributions", module.DISTRIBUTIONS, entry.get("distributions", []))
            _check_names(f"{own}.schedules", get_args(Schedule), entry.get("schedules", []))
        _check_workloads(f"{place}.workloads", sweep, sweep.simulated_entries.get(extent, []), named)
    predict = sweep.predict if isinstance(sweep.predict, dict) else {OTHERS: sweep.predict}
    if unknown := [name for name in predict if name not in (*sweep.kernels, OTHERS) and "kernels" not in mine]:
        kernels = [*sweep.kernels, OTHERS]
        raise ConfigError(f"{local}.predict: {unknown[0]!r} is no kernel of the sweep;{nearest(unknown[0], kernels)}")
    listed = [("profile", sweep.profile), *(("predict", names) for names in predict.values())]
    for key, entries in [*listed, ("predict_always", sweep.predict_always)]:
        if "workloads" in mine and key not in mine:
            continue  # the list in sweep.yaml is for the workloads there: what of it is not in these falls away
        for entry in entries if ALL not in entries else []:
            if not any(is_named(workload, [entry]) for workload in sweep.workloads()):
                names = sorted(workload.id for workload in sweep.workloads())
                raise ConfigError(f"{local}.{key}: {entry!r} is no workload of the sweep;{nearest(entry, names)}")
    return sweep


def _no_kernel(operator: str, name: str) -> str | None:
    """Return why a file of that name is no kernel, None without a file."""
    for folder in catalog.folders(operator):
        for path in (folder / f"{name}.py", folder / name / "__init__.py"):
            if path.exists():
                where = path.relative_to(catalog.ROOT) if path.is_relative_to(catalog.ROOT) else path
                return f"{where} sets no DSL, and so is no kernel; one of {', '.join(DSLS)}"
    return None


def _check_names(local: str, known: Collection[str], names: Any) -> None:
    if not isinstance(names, list):
        raise ConfigError(f"{local} is {names!r}; it must be a list")
    for name in names:
        if name not in known:
            raise ConfigError(f"{local}: {name!r} is unknown;{nearest(name, known)}")


def _check_workloads(local: str, sweep: Sweep, entries: Entries, named: dict[str, Workload]) -> None:
    operator = load_operator(sweep.operator)
    known = [field for field in fields(operator.Workload) if field.name != "dtype"]  # type: ignore[arg-type]
    allowed = [field.name for field in known]
    needed = [field.name for field in known if field.default is MISSING and field.default_factory is MISSING]
    count = sum(
        len(sweep.all_dtypes) * math.prod(len(value) if isinstance(value, list) else 1 for value in entry.values())
        for entry in entries
    )
    if count > MOST_WORKLOADS:
        raise ConfigError(f"{local}: its lists make {count:,} workloads; {MOST_WORKLOADS:,} at most: shorten them")
    for index, entry in enumerate(entries):
        for key in entry:
            if key == "dtype":
                raise ConfigError(f"{local}[{index}]: dtype belongs in `dtypes`, not in a workload")
            if key not in allowed:
                raise ConfigError(f"{local}[{index}]: unknown key {key!r};{nearest(key, allowed)}")
        if missing := [key for key in needed if key not in entry]:
            raise ConfigError(f"{local}[{index}]: {missing[0]} is missing; allowed: {', '.join(allowed)}")
        try:
            result = sweep.of_entry(entry)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{local}[{index}]: {error}") from error
        for name, workload in result:
            _check_id(sweep.operator, name, workload, named)
            _check_cost(f"{local}[{index}]", sweep.operator, operator, workload, "simulation" in local)


def _check_id(operator: str, name: str, workload: Workload, named: dict[str, Workload]) -> None:
    """Check that an id can name files and is unique among `named`, which it extends."""
    if isinstance(name, str) and ID.fullmatch(name) and len(name) <= MOST_CHARACTERS:
        other = named.setdefault(name, workload)
        if other is workload or other == workload:
            return
        wrong = f"must tell workloads apart; {name!r} is that of {other} and of {workload}"
    elif isinstance(name, str) and len(name) > MOST_CHARACTERS:
        wrong = f"is {name[:20]}… with {len(name)} characters; {MOST_CHARACTERS} at most, as it names files"
    else:
        wrong = f"is {name!r}; it may hold A-Z, a-z, 0-9, _, . and -, as it names files"
    raise ConfigError(f"kernels/{operator}/operator.py: the id of a Workload {wrong}")


def _check_cost(local: str, name: str, operator: Operator, workload: Workload, simulated: bool) -> None:
    """Raise ConfigError for too large tensors, before planning would take long."""
    try:
        cost = operator.cost(workload)
    except Exception as error:
        raise ConfigError(catalog.blame(name, "operator", error)) from error
    if not isinstance(cost, Cost) or cost.flops < 0 or (total := cost.bytes) < 0:
        raise ConfigError(f"kernels/{name}/operator.py: cost of {workload.id} is {cost!r}; it must be a Cost")
    if total == 0 and not simulated:
        raise ConfigError(f"{local}: {workload.id} reads and writes nothing; only simulated checks may have such")
    if total > MOST_BYTES:
        raise ConfigError(
            f"{local}: {workload.id} reads and writes {total / 2**40:,.0f} TiB; no GPU holds that: "
            f"{MOST_BYTES // 2**40} TiB at most"
        )
