"""Verify that a job runs on the machine it was planned for.

Every script calls this first. Nothing of this project is imported, so that builds do not depend on planning modules.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cutesnake.planning.machine import Machine

VARIABLE = "CUTESNAKE_PLAN"  # the path of the file of the plan's machines, see cutesnake/planning/serialized_plan.py
PARTS = ("the GPU", "its architecture", "its driver", "its memory", "its number")  # of Machine.fingerprint
CURE = "let the job run where it is so, or start the run again for a new plan"


class OtherMachineError(RuntimeError):
    """The machine differs from the plan's, or the plan is gone. One line."""


def check_packages() -> None:
    """Compare versions of distributions with those that the run was planned with.

    What the plan found missing is not needed here either. Raises OtherMachineError.
    """
    planned = _planned()
    if not planned or any(machine["pretended"] for machine in planned):
        return
    for name in planned[0]["packages"]:
        versions = [machine["packages"].get(name) for machine in planned if machine["packages"]]
        if None not in versions and (result := _version(name)) not in versions:
            _differ(f"{name} is {result or 'not installed'}", " or ".join(sorted(set(versions))))


def check_tools(names: Iterable[str]) -> None:
    """Ask for one of several programs if the plan found one of them. Raises OtherMachineError."""
    names = list(names)
    for planned in _planned()[:1]:
        wanted = [] if planned["pretended"] else [name for name in names if planned["tools"].get(name)]
        if not wanted or any(map(shutil.which, names)):
            continue
        _differ(f"none of {', '.join(names)} is on the PATH", ", ".join(wanted))


def check_gpu(planned: str | None, local: Machine) -> None:
    """Compare the GPU with the planned fingerprint, unless None; OtherMachineError if it differs."""
    if planned is None or planned == local.fingerprint:
        return
    wanted = planned.split("|")
    if local.fingerprint.split("|")[:-1] == wanted[:-1] and _is_among(local, wanted[-1]):
        return
    if local.device is None:
        _differ(f"there is no GPU ({local.problem or 'none is selected'})", wanted[0])
    parts = zip(PARTS, local.fingerprint.split("|"), wanted, strict=False)
    name, result, other = next((part for part in parts if part[1] != part[2]), ("the GPU", "another one", planned))
    _differ(f"{name} is {result}", other)


def _is_among(local: Machine, numbers: str) -> bool:
    """Return whether the GPU in use was planned for; without numbers, any is."""
    return local.device is not None and (not numbers or local.device.uuid_hash in numbers.split(","))


def _differ(result: str, planned: str) -> None:
    raise OtherMachineError(f"this machine is not what the plan says: {result} here, planned was {planned}; {CURE}")


@functools.cache
def _planned() -> list[dict[str, Any]]:
    """Return the machines of this process's plan, the building one first; or none."""
    path = os.environ.get(VARIABLE)
    try:
        return json.loads(Path(path).read_text()) if path else []
    except (OSError, ValueError):
        raise OtherMachineError(f"{path}, from the plan of the run that started this job, is gone") from None


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
