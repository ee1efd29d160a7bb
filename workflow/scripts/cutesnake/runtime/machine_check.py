"""Whether the machine that a job runs on is the one that its plan was made for, as far as the job depends on it.

Every script passes here before it does anything. Nothing of this project is imported: what a build's digest covers must
not grow by the modules that plan.
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
PARTS = ("the card", "its architecture", "its driver", "its memory", "its number")  # of Machine.fingerprint
CURE = "let the job run where it is so, or start the run again for a new plan"


class OtherMachineError(RuntimeError):
    """The machine differs from the plan's, or the plan is gone. One line."""


def check_packages() -> None:
    """Hold the versions of distributions against those that the run was planned with, on any of its machines.

    What the plan found missing is not asked for here either. Raises OtherMachineError.
    """
    planned = _planned()
    if not planned or any(machine["pretended"] for machine in planned):
        return
    for name in planned[0]["packages"]:
        versions = [machine["packages"].get(name) for machine in planned if machine["packages"]]
        if None not in versions and (found := _version(name)) not in versions:
            _differ(f"{name} is {found or 'not installed'}", " or ".join(sorted(set(versions))))


def check_tools(names: Iterable[str]) -> None:
    """Ask for one of several programs if the plan found one of them. Raises OtherMachineError."""
    names = list(names)
    for planned in _planned()[:1]:
        wanted = [] if planned["pretended"] else [name for name in names if planned["tools"].get(name)]
        if not wanted or any(map(shutil.which, names)):
            continue
        _differ(f"none of {', '.join(names)} is on the PATH", ", ".join(wanted))


def check_card(planned: str | None, here: Machine) -> None:
    """Hold the card in use against the fingerprint that a case was planned for; None asks for no card in particular.

    Raises OtherMachineError.
    """
    if planned is None or planned == here.fingerprint:
        return
    wanted = planned.split("|")
    if here.fingerprint.split("|")[:-1] == wanted[:-1] and _is_among(here, wanted[-1]):
        return
    if here.device is None:
        _differ(f"there is no GPU ({here.problem or 'none is selected'})", wanted[0])
    parts = zip(PARTS, here.fingerprint.split("|"), wanted, strict=False)
    name, found, other = next((part for part in parts if part[1] != part[2]), ("the card", "another one", planned))
    _differ(f"{name} is {found}", other)


def _is_among(here: Machine, numbers: str) -> bool:
    """Whether the card in use is one of those that were planned for; without a number, any of its kind is."""
    return here.device is not None and (not numbers or here.device.uuid_hash in numbers.split(","))


def _differ(found: str, planned: str) -> None:
    raise OtherMachineError(f"this machine is not what the plan says: {found} here, planned was {planned}; {CURE}")


@functools.cache
def _planned() -> list[dict[str, Any]]:
    """The machines of the plan that this process works for, the one that builds first; none outside of a run."""
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
