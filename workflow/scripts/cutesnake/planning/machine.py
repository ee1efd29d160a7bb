"""The machine as it is: its GPUs and the one in use, tools and packages. Never raises for what is missing."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cutesnake.planning import gpus, installed
from cutesnake.planning.gpus import Device, first, hashed

PRETENDED = "CUTESNAKE_MACHINE"  # path of a JSON file in the form of `Machine.as_dict`, used instead of probing


class MachineError(ValueError):
    """A pretended machine that is not described as one. One line."""


@dataclass(frozen=True)
class Machine:
    """Devices in NVML order, the one the workflow uses, tools and packages found, and what went wrong in looking."""

    devices: tuple[Device, ...] = ()
    selected: int | None = None
    problem: str | None = None
    tools: dict[str, str | None] = field(default_factory=dict)
    packages: dict[str, str | None] = field(default_factory=dict)
    modules: dict[str, str | None] = field(default_factory=dict)  # asked for by import name -> version, None if absent
    pretended: bool = False
    cards: tuple[int, ...] = ()  # indices of the visible devices like the selected one, itself included

    @property
    def device(self) -> Device | None:
        return next((device for device in self.devices if device.index == self.selected), None)

    @property
    def fingerprint(self) -> str:
        """What the results of a GPU stage depend on: the card in use and its driver; "none" without one.

        Of several cards alike it does not count which of them measures a case.
        """
        if self.device is None:
            return "none"
        d = self.device
        numbers = ",".join(sorted(card.uuid_hash for card in self.alike()))
        return f"{d.name}|{d.sm}|{d.driver}|{d.memory_bytes}|{numbers}"

    def alike(self) -> tuple[Device, ...]:
        """The cards that a case may be measured on: the selected one, and visible ones of its name and memory."""
        return tuple(device for device in self.devices if device.index in (self.selected, *self.cards))

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Machine:
        devices = tuple(
            Device(**{**device, "compute_capability": tuple(device["compute_capability"])})
            for device in data.get("devices", ())
        )
        return cls(**{**data, "devices": devices, "cards": tuple(data.get("cards", ()))})


def probe(modules: Mapping[str, str] | None = None) -> Machine:
    """Look at this machine, or read the pretended one that CUTESNAKE_MACHINE names (for dry runs and tests).

    `modules` are Python packages to look for, import name -> name of the distribution.
    """
    if path := os.environ.get(PRETENDED):
        return _pretended(path)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices, problem = gpus.look(visible)
    selected, choice = _select(devices, visible)
    found = {name: installed.module(name, distribution) for name, distribution in (modules or {}).items()}
    cards = _alike(devices, selected, visible)
    return Machine(devices, selected, problem or choice, installed.tools(), installed.packages(), found, cards=cards)


def _pretended(path: str) -> Machine:
    try:
        machine = Machine.from_dict({**json.loads(Path(path).read_text()), "pretended": True})
    except OSError as error:
        raise MachineError(
            f"{PRETENDED} is {path!r}: {error.strerror}; name a file like tests/machines/h200.json"
        ) from None
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0]
        raise MachineError(
            f"{PRETENDED} is {path!r}, which describes no machine ({said}); see tests/machines/h200.json"
        ) from error
    for device in machine.devices:
        capability = device.compute_capability
        if len(capability) != 2 or not all(isinstance(part, int) for part in (*capability, device.index)):
            raise MachineError(f"{PRETENDED} is {path!r}: compute_capability must be two whole numbers, index one")
        if not isinstance(device.name, str) or not isinstance(device.memory_bytes, int):
            raise MachineError(f"{PRETENDED} is {path!r}: name must be a text, memory_bytes a whole number")
    for name in ("tools", "packages", "modules"):
        if not isinstance(getattr(machine, name), dict):
            raise MachineError(f"{PRETENDED} is {path!r}: {name} must be a mapping")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or machine.device is None:
        return replace(machine, cards=_alike(machine.devices, machine.selected, None))
    selected, choice = _select(machine.devices, visible)
    return replace(machine, selected=selected, problem=choice, cards=_alike(machine.devices, selected, visible))


def _names(word: str, device: Device) -> bool:
    """Whether a word of CUDA_VISIBLE_DEVICES means a device; a pretended one has its number for a UUID."""
    return word in (str(device.index), device.uuid_hash) or hashed(word) == device.uuid_hash


def _alike(devices: tuple[Device, ...], selected: int | None, visible: str | None) -> tuple[int, ...]:
    """Indices of visible devices that are like the selected one; MIG slices are not shared out."""
    chosen = next((device for device in devices if device.index == selected), None)
    if chosen is None or chosen.slice_of is not None:
        return ()
    words = None if visible is None else [word.strip() for word in visible.split(",")]
    return tuple(
        device.index
        for device in devices
        if (device.name, device.memory_bytes, device.driver) == (chosen.name, chosen.memory_bytes, chosen.driver)
        and device.slice_of is None
        and (words is None or any(_names(word, device) for word in words))
    )


def uuid_of(device: Device) -> str:
    """What CUDA_VISIBLE_DEVICES calls a whole card; of a pretended one, for which the driver has none, its number.

    Raises GpuError if the driver does not know the card any more.
    """
    return device.uuid_hash if os.environ.get(PRETENDED) else gpus.uuid_of(device)


def _select(devices: tuple[Device, ...], visible: str | None) -> tuple[int | None, str | None]:
    """The first GPU, or the one that CUDA_VISIBLE_DEVICES names first, by number (NVML order) or by its UUID."""
    if not devices:
        return None, None
    if visible is None:
        return devices[0].index, None
    for device in devices:
        if _names(first(visible), device):
            return device.index, None
    numbers = ", ".join(str(device.index) for device in devices)
    return None, f"CUDA_VISIBLE_DEVICES is {visible!r}, which names no GPU by its number ({numbers}) or whole UUID"
