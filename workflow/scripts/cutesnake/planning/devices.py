"""Peaks and limits of GPUs, read from config/devices.yaml, where every figure names its source."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cutesnake.model.inputs import InputError, check_input
from cutesnake.planning import strict_yaml
from cutesnake.planning.gpus import Device


class DeviceError(ValueError):
    """Report a devices.yaml that is unreadable or contradictory; one line with the key."""


@dataclass(frozen=True)
class Limits:
    """Limits of one SM of a compute capability, as named in devices.yaml."""

    compute_capability: str
    threads: int
    warps: int
    blocks: int
    registers: int
    registers_per_block: int
    shared_bytes: int
    shared_bytes_per_block: int
    shared_bytes_reserved: int
    tensor_memory_columns: int
    named_barriers: int | None  # None: they do not limit residency


@dataclass(frozen=True)
class DeviceModel:
    """One device; `peak_tflops` is dense TFLOP/s by dtype, None where the device lacks it."""

    name: str
    match: tuple[str, ...]
    compute_capability: str
    sms: int | None
    l2_mb: float | None
    memory_gb_per_s: float
    peak_tflops: Mapping[str, float | None]
    limits: Limits
    reference: bool = False  # in every roofline, not only where it is at hand or recorded

    def is_named(self, nvml_name: str) -> bool:
        """Return whether the driver's name of a GPU means this device."""
        return any(re.fullmatch(pattern, nvml_name) for pattern in self.match)

    def slice(self, nvml_name: str, multiprocessor_share: float | None, memory_share: float) -> DeviceModel:
        """Return a MIG slice of this device, with its shares of the figures."""

        def part(figure: float | None, share: float | None) -> float | None:
            return None if figure is None or share is None else figure * share

        sms = part(self.sms, multiprocessor_share)
        return replace(
            self,
            name=f"{self.name} {nvml_name[nvml_name.find('MIG') :]}",
            match=(re.escape(nvml_name),),
            sms=None if sms is None else round(sms),
            l2_mb=part(self.l2_mb, memory_share),
            memory_gb_per_s=self.memory_gb_per_s * memory_share,
            peak_tflops={dtype: part(peak, multiprocessor_share) for dtype, peak in self.peak_tflops.items()},
            reference=False,
        )


@dataclass(frozen=True)
class Devices:
    """All of devices.yaml, in its order."""

    devices: tuple[DeviceModel, ...]
    limits: Mapping[str, Limits]  # compute capability -> limits

    def find(self, nvml_name: str) -> DeviceModel | None:
        """Return the device that the driver's name means, None for an unlisted one."""
        return next((device for device in self.devices if device.is_named(nvml_name)), None)

    def at_hand(self, device: Device | None) -> DeviceModel | None:
        """Return the entry of a probed GPU; a MIG slice has its shares of it."""
        gpu = self.find(device.slice_of or device.name) if device else None
        if gpu is None or device is None or device.slice_of is None:
            return gpu
        return gpu.slice(device.name, device.multiprocessor_share, device.memory_share)

    def of_capability(self, capability: str) -> tuple[DeviceModel, ...]:
        """Return the devices of a compute capability such as `9.0`."""
        return tuple(device for device in self.devices if device.compute_capability == capability)


def capability_of(target: str) -> str:
    """Return the compute capability of a target: 9.0 of sm_90a."""
    return re.sub(r"^sm_(\d+)(\d)[af]?$", r"\1.\2", target)


@functools.cache
def limits_of(path: Path | str, target: str) -> dict[str, Any]:
    """Return what a target's static figures depend on in devices.yaml."""
    devices, capability = read_devices(path), capability_of(target)
    limits = devices.limits.get(capability)
    names = [device.name for device in devices.of_capability(capability)]
    return {"limits": asdict(limits) if limits else None, "devices": names}


def read_devices(path: Path | str) -> Devices:
    """Read and check devices.yaml; DeviceError if it is invalid."""
    try:
        data = strict_yaml.read(path)
        check_input("devices", data, path)
    except (strict_yaml.YamlError, InputError) as error:
        raise DeviceError(str(error)) from error
    limits = {key: Limits(compute_capability=key, **entry) for key, entry in data["compute_capabilities"].items()}
    for name, entry in data["devices"].items():
        _check_device(f"{path}: devices/{name}", entry, limits, data["sources"])
    for figures, source in data["compute_capability_sources"].items():
        _check_source(f"{path}: compute_capability_sources/{figures}", source, data["sources"])
    return Devices(tuple(_device(name, entry, limits) for name, entry in data["devices"].items()), limits)


def _device(name: str, entry: dict[str, Any], limits: Mapping[str, Limits]) -> DeviceModel:
    rest = {key: value for key, value in entry.items() if key not in ("match", "sources")}
    return DeviceModel(name=name, match=tuple(entry["match"]), limits=limits[entry["compute_capability"]], **rest)


def _check_device(where: str, entry: dict[str, Any], limits: Mapping[str, Limits], sources: Mapping[str, str]) -> None:
    """Check what a schema cannot: references, patterns, and peaks that are not sparse."""
    if entry["compute_capability"] not in limits:
        raise DeviceError(
            f"{where}/compute_capability: {entry['compute_capability']!r} is not under compute_capabilities "
            f"({', '.join(limits)})"
        )
    for pattern in entry["match"]:
        try:
            re.compile(pattern)
        except re.error as error:
            raise DeviceError(f"{where}/match: {pattern!r} is no regular expression: {error}") from error
    for figure, source in entry["sources"].items():
        _check_source(f"{where}/sources/{figure}", source, sources)
    peaks = entry["peak_tflops"]
    # On every chip listed, dense fp8 is twice dense bf16: one of them being sparse shows as a ratio of 1 or 4.
    if peaks["fp8"] is not None and peaks["bf16"] is not None:
        ratio = peaks["fp8"] / peaks["bf16"]
        if not 1.9 < ratio < 2.1:
            raise DeviceError(
                f"{where}/peak_tflops: fp8 is {ratio:.1f} times bf16, where dense rates stand 2 to 1: "
                "is one of them a figure with sparsity?"
            )


def _check_source(where: str, source: str, sources: Mapping[str, str]) -> None:
    if source not in sources:
        raise DeviceError(f"{where}: {source!r} is not under sources ({', '.join(sources)})")
