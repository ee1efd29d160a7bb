"""The configuration: read, check, and say in one line what is wrong, where, and what would be right."""

from __future__ import annotations

import difflib
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

import jsonschema

from cutesnake.contract import Workload, load_operator
from cutesnake.places import ROOT, SCHEMAS

EXTENTS = ("short", "full")  # lists of simulated checks
SCHEMA = SCHEMAS / "config.schema.json"


class ConfigError(ValueError):
    """The configuration asks for something that does not exist or makes no sense."""


def nearest(word: Any, allowed: Iterable[str]) -> str:
    """`, did you mean 'x'?` when an allowed word is close, then the whole list."""
    allowed = list(allowed)
    close = difflib.get_close_matches(str(word), allowed, n=1, cutoff=0.5)
    hint = f" did you mean {close[0]!r}?" if close else ""
    return f"{hint} allowed: {', '.join(allowed)}"


def check(config: dict[str, Any]) -> None:
    """Raise ConfigError for the first thing wrong: schema, then names of operators, kernels, dtypes, workload keys."""
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    errors = sorted(validator.iter_errors(config), key=lambda error: list(map(str, error.absolute_path)))
    if errors:
        raise ConfigError(_explain(errors[0]))
    known = sorted(path.parent.name for path in (ROOT / "kernels").glob("*/operator.py"))
    for operator in config["operators"]:
        if operator not in known:
            raise ConfigError(f"config: operators: unknown operator {operator!r};{nearest(operator, known)}")
    for operator, section in config["operators"].items():
        _check_operator(operator, section)
    known = {name for operator in config["operators"] for name in load_operator(operator).DISTRIBUTIONS}
    for name in config["correctness"]["distributions"]:
        if name not in known:
            raise ConfigError(f"config: correctness.distributions: {name!r} is unknown;{nearest(name, sorted(known))}")
    _check_simulation(config)
    for entry in config["profile"]["workloads"]:
        if not any(is_named(w, [entry]) for operator in config["operators"] for w in workloads(config, operator)):
            names = sorted({w.id for operator in config["operators"] for w in workloads(config, operator)})
            raise ConfigError(
                f"config: profile.workloads: {entry!r} is no workload of the sweep;{nearest(entry, names)}"
            )


def _explain(error: jsonschema.ValidationError) -> str:
    where = ".".join(str(part) for part in error.absolute_path) or "top level"
    if error.validator == "additionalProperties":
        allowed = list(error.schema.get("properties", {}))
        wrong = next(key for key in error.instance if key not in allowed)
        return f"config: {where}: unknown key {wrong!r};{nearest(wrong, allowed)}"
    if error.validator == "enum":
        return f"config: {where} is {error.instance!r};{nearest(error.instance, map(str, error.validator_value))}"
    if error.validator == "required":
        missing = next(key for key in error.validator_value if key not in error.instance)
        return f"config: {where}: key {missing!r} is missing; config/README.md explains it"
    return f"config: {where}: {error.message}"


def _check_operator(operator: str, section: dict[str, Any]) -> None:
    here = f"config: operators.{operator}"
    for kernel in section["kernels"]:
        if kernel not in kernel_names(operator):
            raise ConfigError(f"{here}.kernels: unknown kernel {kernel!r};{nearest(kernel, kernel_names(operator))}")
    module = load_operator(operator)
    for dtype in all_dtypes(section):
        if dtype not in module.DTYPES:
            raise ConfigError(f"{here}.dtypes: unknown dtype {dtype!r};{nearest(dtype, module.DTYPES)}")
    _check_workloads(f"{here}.workloads", operator, section["workloads"], all_dtypes(section))


def _check_workloads(here: str, operator: str, entries: list[dict[str, Any]], dtypes: list[str]) -> None:
    module = load_operator(operator)
    allowed = [field.name for field in fields(module.Workload) if field.name != "dtype"]
    for index, entry in enumerate(entries):
        for key in entry:
            if key == "dtype":
                raise ConfigError(f"{here}[{index}]: dtype belongs in {operator}.dtypes, not in a workload")
            if key not in allowed:
                raise ConfigError(f"{here}[{index}]: unknown key {key!r};{nearest(key, allowed)}")
        try:
            list(_expand(module, entry, dtypes))
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{here}[{index}]: {error}") from error


def _check_simulation(config: dict[str, Any]) -> None:
    """Both lists, whichever is chosen: names of operators of the experiment, workload keys, distributions."""
    for extent in EXTENTS:
        section = config.get("simulation", {}).get(extent)
        if section is None:
            continue
        here = f"config: simulation.{extent}"
        for operator, entries in section["workloads"].items():
            if operator not in config["operators"]:
                raise ConfigError(
                    f"{here}.workloads: {operator!r} is no operator of the experiment;"
                    f"{nearest(operator, config['operators'])}"
                )
            _check_workloads(
                f"{here}.workloads.{operator}", operator, entries, all_dtypes(config["operators"][operator])
            )
        known = {name for operator in section["workloads"] for name in load_operator(operator).DISTRIBUTIONS}
        for name in section["distributions"]:
            if name not in known:
                raise ConfigError(f"{here}.distributions: {name!r} is unknown;{nearest(name, sorted(known))}")


def kernel_names(operator: str) -> list[str]:
    """Kernels of an operator: the modules and packages in its folder that declare a DSL."""
    folder = ROOT / "kernels" / operator
    modules = {path.stem: path for path in folder.glob("*.py")}
    modules |= {path.parent.name: path for path in folder.glob("*/__init__.py")}
    return sorted(name for name, path in modules.items() if "\nDSL = " in path.read_text())


def _expand(module: Any, entry: dict[str, Any], dtypes: list[str]) -> Iterator[Workload]:
    lists = [value if isinstance(value, list) else [value] for value in entry.values()]
    for values in itertools.product(*lists):
        for dtype in dtypes:
            yield module.Workload(**dict(zip(entry, values, strict=True)), dtype=dtype)


def dtypes_for(section: dict[str, Any], target: str) -> list[str]:
    """Element types that an operator's section asks for on a target."""
    dtypes = section["dtypes"]
    return dtypes.get(target, []) if isinstance(dtypes, dict) else dtypes


def all_dtypes(section: dict[str, Any]) -> list[str]:
    """Element types that an operator's section asks for on any target, in its order."""
    dtypes = section["dtypes"]
    lists = dtypes.values() if isinstance(dtypes, dict) else [dtypes]
    return list(dict.fromkeys(itertools.chain.from_iterable(lists)))


def workloads(config: dict[str, Any], operator: str) -> list[Workload]:
    """The sweep of an operator in the order of the configuration, each workload once."""
    section = config["operators"][operator]
    module = load_operator(operator)
    found = (w for entry in section["workloads"] for w in _expand(module, entry, all_dtypes(section)))
    return list({w.id: w for w in found}.values())


def simulation(config: dict[str, Any]) -> dict[str, Any] | None:
    """The list of simulated checks that the configuration chooses; None for none."""
    section = config.get("simulation", {"extent": "none"})
    return None if section["extent"] == "none" else section[section["extent"]]


def simulated_workloads(config: dict[str, Any], operator: str) -> list[Workload]:
    """What is checked by simulation where a kernel's card is missing, in the order of the configuration."""
    chosen = simulation(config)
    entries = chosen["workloads"].get(operator, []) if chosen else []
    module, dtypes = load_operator(operator), all_dtypes(config["operators"][operator])
    return list({w.id: w for entry in entries for w in _expand(module, entry, dtypes)}.values())


def is_named(workload: Workload, names: list[str]) -> bool:
    """Whether a workload is in a list of ids with or without dtype; an empty list names every workload."""
    bare = "_".join(part for part in workload.id.split("_") if part != workload.dtype)
    return not names or workload.id in names or bare in names
