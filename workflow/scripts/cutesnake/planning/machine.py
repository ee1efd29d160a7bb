"""Probe the machine: GPUs and the one in use, tools, packages; nothing raises."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cutesnake.planning import gpus, installed
from cutesnake.planning.gpus import Device, first, hashed

MOCK_FILE = "CUTESNAKE_MACHINE"  # path of a JSON file in the form of `Machine.as_dict`, used instead of probing


RECORD_KEYS = {"mocked": "pretended", "candidates": "cards"}  # fields of Machine -> keys of records
RECORD_FIELDS = {key: name for name, key in RECORD_KEYS.items()}


class MachineError(ValueError):
    """Report an invalid description of a mocked machine, in one line."""


@dataclass(frozen=True)
class Machine:
    """Devices in NVML order, the selected one, tools, packages, and a probing problem."""

    devices: tuple[Device, ...] = ()
    selected: int | None = None
    problem: str | None = None
    tools: dict[str, str | None] = field(default_factory=dict)
    packages: dict[str, str | None] = field(default_factory=dict)
    modules: dict[str, str | None] = field(default_factory=dict)  # asked for by import name -> version, None if absent
    mocked: bool = False
    candidates: tuple[int, ...] = ()  # indices of the visible devices like the selected one, itself included

    @property
    def device(self) -> Device | None:
        """Return the selected device."""
        return next((device for device in self.devices if device.index == self.selected), None)

    @property
    def fingerprint(self) -> str:
        """Return what GPU results depend on: the GPU and its driver; "none" without.

        Which of several equal GPUs measures a case does not count.
        """
        if self.device is None:
            return "none"
        d = self.device
        numbers = ",".join(sorted(gpu.uuid_hash for gpu in self.candidate_devices()))
        return f"{d.name}|{d.sm}|{d.driver}|{d.memory_bytes}|{numbers}"

    def candidate_devices(self) -> tuple[Device, ...]:
        """Return the GPUs that may measure a case: the selected one and its equals."""
        return tuple(device for device in self.devices if device.index in (self.selected, *self.candidates))

    def as_dict(self) -> dict[str, Any]:
        """Return JSON-like data, with the keys that records have."""
        return {RECORD_KEYS.get(name, name): value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Machine:
        """Return the machine that `as_dict` described."""
        devices = tuple(
            Device(**{**device, "compute_capability": tuple(device["compute_capability"])})
            for device in data.get("devices", ())
        )
        rest = {RECORD_FIELDS.get(key, key): value for key, value in data.items()}
        return cls(**{**rest, "devices": devices, "candidates": tuple(rest.get("candidates", ()))})


def probe(modules: Mapping[str, str] | None = None) -> Machine:
    """Return this machine, or the mocked one of CUTESNAKE_MACHINE (dry runs, tests).

    `modules` are Python packages to look for, import name -> name of the distribution.
    """
    if path := os.environ.get(MOCK_FILE):
        return _mocked(path)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    devices, problem = gpus.look(visible)
    selected, choice = _select(devices, visible)
    result = {name: installed.module(name, distribution) for name, distribution in (modules or {}).items()}
    candidates = _candidates(devices, selected, visible)
    return Machine(
        devices, selected, problem or choice, installed.tools(), installed.packages(), result, candidates=candidates
    )


def _mocked(path: str) -> Machine:
    try:
        machine = Machine.from_dict({**json.loads(Path(path).read_text()), "pretended": True})
    except OSError as error:
        raise MachineError(
            f"{MOCK_FILE} is {path!r}: {error.strerror}; name a file like tests/machines/h200.json"
        ) from None
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
        message = f"{type(error).__name__}: {error}".splitlines()[0]
        raise MachineError(
            f"{MOCK_FILE} is {path!r}, which describes no machine ({message}); see tests/machines/h200.json"
        ) from error
    for device in machine.devices:
        capability = device.compute_capability
        if len(capability) != 2 or not all(isinstance(part, int) for part in (*capability, device.index)):
            raise MachineError(f"{MOCK_FILE} is {path!r}: compute_capability must be two whole numbers, index one")
        if not isinstance(device.name, str) or not isinstance(device.memory_bytes, int):
            raise MachineError(f"{MOCK_FILE} is {path!r}: name must be a text, memory_bytes a whole number")
    for name in ("tools", "packages", "modules"):
        if not isinstance(getattr(machine, name), dict):
            raise MachineError(f"{MOCK_FILE} is {path!r}: {name} must be a mapping")
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None or machine.device is None:
        return replace(machine, candidates=_candidates(machine.devices, machine.selected, None))
    selected, choice = _select(machine.devices, visible)
    return replace(
        machine, selected=selected, problem=choice, candidates=_candidates(machine.devices, selected, visible)
    )


def _names(word: str, device: Device) -> bool:
    """Return whether a part of CUDA_VISIBLE_DEVICES means a device, mocked ones by number."""
    return word in (str(device.index), device.uuid_hash) or hashed(word) == device.uuid_hash


def _candidates(devices: tuple[Device, ...], selected: int | None, visible: str | None) -> tuple[int, ...]:
    """Return indices of visible devices equal to the selected one; none for MIG slices."""
    chosen = next((device for device in devices if device.index == selected), None)
    if chosen is None or chosen.slice_of is not None:
        return ()
    text = None if visible is None else [word.strip() for word in visible.split(",")]
    return tuple(
        device.index
        for device in devices
        if (device.name, device.memory_bytes, device.driver) == (chosen.name, chosen.memory_bytes, chosen.driver)
        and device.slice_of is None
        and (text is None or any(_names(word, device) for word in text))
    )


def uuid_of(device: Device) -> str:
    """Return a whole GPU's name for CUDA_VISIBLE_DEVICES; GpuError if it is gone."""
    return device.uuid_hash if os.environ.get(MOCK_FILE) else gpus.uuid_of(device)


def _select(devices: tuple[Device, ...], visible: str | None) -> tuple[int | None, str | None]:
    """Return the GPU that CUDA_VISIBLE_DEVICES names first by number or UUID, else the first."""
    if not devices:
        return None, None
    if visible is None:
        return devices[0].index, None
    for device in devices:
        if _names(first(visible), device):
            return device.index, None
    numbers = ", ".join(str(device.index) for device in devices)
    return None, f"CUDA_VISIBLE_DEVICES is {visible!r}, which names no GPU by its number ({numbers}) or whole UUID"
