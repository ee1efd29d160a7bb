"""Define a case: build, workload, its request to a worker, and its record."""

import functools
import importlib.metadata
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cutesnake.model.catalog import load_kernel, make_workload
from cutesnake.model.contract import Runner, Workload
from cutesnake.model.paths import ROOT
from cutesnake.model.provenance import now
from cutesnake.planning.gpus import Device
from cutesnake.stages.load.build import LoadedBuild

COMMIT = "CUTESNAKE_COMMIT"  # the commit to record where the project was copied without its .git, or with an older one


@dataclass(frozen=True)
class Case:
    """A build run on a workload by one stage, as plain data for JSON.

    `parameters` are the fields of the operator's Workload; `build` is the folder of the build; `settings` the stage's
    own section of the configuration.
    """

    stage: str
    operator: str
    kernel: str
    target: str
    variant: Mapping[str, Any]  # {id, params}
    parameters: Mapping[str, Any]
    build: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def workload(self) -> Workload:
        """Return the operator's Workload."""
        return make_workload(self.operator, self.parameters)

    @property
    def name(self) -> str:
        """Return the key of the case, for messages."""
        return f"{self.operator}/{self.kernel}/{self.target}/{self.variant['id']}/{self.workload.id}"

    def as_dict(self) -> dict[str, Any]:
        """Return the case as plain data."""
        return asdict(self)

    def bind(self, workload: Workload, inputs: Any, outputs: Any, build: LoadedBuild | None = None) -> Runner:
        """Return a call of this case's build; raises whatever the kernel's `bind` raises."""
        build = build or LoadedBuild(Path(self.build))
        return load_kernel(self.operator, self.kernel).bind(build, workload, inputs, outputs)

    def identity(self) -> dict[str, Any]:
        """Return the `case` section of a record."""
        return {
            "operator": self.operator,
            "kernel": self.kernel,
            "dsl": load_kernel(self.operator, self.kernel).DSL,
            "target": self.target,
            "variant": {"id": self.variant["id"], "params": dict(self.variant["params"])},
            "workload": self.workload.id,
            "parameters": dict(self.parameters),
        }


def make_record(
    case: Case,
    metrics: Mapping[str, Any] | None,
    reason: str | None = None,
    device: Mapping[str, Any] | None = None,
    backend: str = "cuda",
    seconds: float | None = None,
) -> dict[str, Any]:
    """Return the record of a case: ok without a reason, else failed."""
    return {
        "stage": case.stage,
        "status": "failed" if reason else "ok",
        "reason": reason,
        "provenance": provenance(load_kernel(case.operator, case.kernel).NEEDS),
        "case": case.identity(),
        "device": dict(device) if device else None,
        "backend": backend,
        "seconds": None if seconds is None else round(seconds, 3),
        "metrics": dict(metrics) if metrics else None,
    }


def provenance(needed: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """When, from which commit, and with which packages. No paths, no host names.

    `needed` are packages that the kernel comes with: import name -> name of the distribution.
    """
    names = {name: name for name in ("torch", "cuda-bindings", "cuda-bench", "apache-tvm-ffi")} | dict(needed)
    return {
        "created": now(),
        "commit": commit(),
        "python": platform.python_version(),
        "packages": {name: _version(distribution) for name, distribution in names.items()},
    }


@functools.cache
def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def commit() -> str | None:
    """Return CUTESNAKE_COMMIT, else the checked-out commit's short hash, else None."""
    return os.environ.get(COMMIT) or _checked_out()


@functools.cache
def _checked_out() -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def device_section(device: Device | None) -> dict[str, Any] | None:
    """Return the `device` section of a record, as far as results depend on it."""
    return (
        None
        if device is None
        else {
            "name": device.name,
            "compute_capability": list(device.compute_capability),
            "driver": device.driver,
            "uuid_hash": device.uuid_hash,
        }
    )
