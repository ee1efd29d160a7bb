"""The machine as it is: GPUs through NVML, tools on the PATH, packages installed. Never raises for what is missing."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

PRETENDED = "CUTESNAKE_MACHINE"  # path of a JSON file in the form of `Machine.as_dict`, used instead of probing
NSIGHT_COMPUTE_NSYS = "host/target-linux-x64/nsys"  # Nsight Compute carries an nsys of its own


class MachineError(ValueError):
    """A pretended machine that is not described as one. One line."""


@dataclass(frozen=True)
class Device:
    """One GPU, or the MIG slice of one that CUDA uses: what identifies it and does not change while it runs.

    The shares are those of the whole card's SMs and of its memory, which stand for memory bandwidth and L2 cache too.
    """

    index: int
    name: str
    compute_capability: tuple[int, int]
    driver: str
    memory_bytes: int
    multiprocessors: int | None
    uuid_hash: str  # tells two cards of one name apart without publishing a serial number
    slice_of: str | None = None  # of a MIG slice the name of its card
    multiprocessor_share: float | None = 1.0  # None where NVML does not tell
    memory_share: float = 1.0

    @property
    def sm(self) -> str:
        return "sm_{}{}".format(*self.compute_capability)


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
    devices, problem = _devices(visible)
    selected, choice = _select(devices, visible)
    found = {name: _module(name, distribution) for name, distribution in (modules or {}).items()}
    cards = _alike(devices, selected, visible)
    return Machine(devices, selected, problem or choice, _tools(), _packages(), found, cards=cards)


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


def _devices(visible: str | None) -> tuple[tuple[Device, ...], str | None]:
    """Every GPU, and why there is none; `visible` is CUDA_VISIBLE_DEVICES, which may choose a slice of one."""
    try:
        import pynvml
    except ImportError:
        return (), "the package nvidia-ml-py is not installed, so GPUs cannot be looked for"
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError_LibraryNotFound:
        return (), "no NVIDIA driver is installed"
    except pynvml.NVMLError as error:
        return (), f"the NVIDIA driver does not answer (NVML says: {error})"
    try:
        driver = pynvml.nvmlSystemGetDriverVersion()
        count = pynvml.nvmlDeviceGetCount()
        found = [device for index in range(count) if (device := _device(pynvml, index, driver, visible))]
        if count and not found:
            return (), "MIG is switched on but no GPU has a MIG device: make one, or switch MIG off (nvidia-smi mig)"
        return tuple(found), None if found else "an NVIDIA driver is installed but it sees no GPU"
    except pynvml.NVMLError as error:
        return (), f"the NVIDIA driver does not answer (NVML says: {error})"
    finally:
        pynvml.nvmlShutdown()


def _device(nvml: Any, index: int, driver: str, visible: str | None) -> Device | None:
    """A GPU by its index; where MIG is switched on the slice that CUDA uses, None if there is none."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    card = _whole(nvml, handle, index, driver)
    if not _mig_is_on(nvml, handle):
        return card
    slices = list(_slices(nvml, handle))
    if not slices:
        return None
    # CUDA uses one slice: the one that CUDA_VISIBLE_DEVICES names first by its UUID, else the first.
    chosen = next((s for s in slices if visible and nvml.nvmlDeviceGetUUID(s) == _first(visible)), slices[0])
    return _part(nvml, chosen, card)


def _mig_is_on(nvml: Any, handle: Any) -> bool:
    try:
        return nvml.nvmlDeviceGetMigMode(handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE
    except nvml.NVMLError:  # a card without MIG
        return False


def _slices(nvml: Any, handle: Any) -> Iterator[Any]:
    """Handles of the MIG devices of a card; their numbers have gaps."""
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with contextlib.suppress(nvml.NVMLError):
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)


def _part(nvml: Any, handle: Any, card: Device) -> Device:
    """A MIG slice of a card. Memory, with its controllers and L2 cache, is dealt out in eighths (MIG User Guide,
    Concepts), so the share is the next eighth to the share of bytes."""
    memory = nvml.nvmlDeviceGetMemoryInfo(handle).total
    multiprocessors = nvml.nvmlDeviceGetAttributes(handle).multiprocessorCount
    return replace(
        card,
        name=nvml.nvmlDeviceGetName(handle),
        memory_bytes=memory,
        multiprocessors=multiprocessors,
        uuid_hash=_hash(nvml.nvmlDeviceGetUUID(handle)),
        slice_of=card.name,
        multiprocessor_share=multiprocessors / card.multiprocessors if card.multiprocessors else None,
        memory_share=max(1, round(8 * memory / card.memory_bytes)) / 8,
    )


def _hash(uuid: str) -> str:
    return hashlib.sha256(uuid.encode()).hexdigest()[:12]


def _whole(nvml: Any, handle: Any, index: int, driver: str) -> Device:
    capability = tuple(nvml.nvmlDeviceGetCudaComputeCapability(handle))
    try:  # NVML counts CUDA cores; every architecture since 8.6 has 128 in a multiprocessor, 8.0 and 7.x have 64
        cores = nvml.nvmlDeviceGetNumGpuCores(handle)
        multiprocessors = cores // (128 if capability >= (8, 6) else 64)
    except nvml.NVMLError:
        multiprocessors = None
    return Device(
        index=index,
        name=nvml.nvmlDeviceGetName(handle),
        compute_capability=capability,
        driver=driver,
        memory_bytes=nvml.nvmlDeviceGetMemoryInfo(handle).total,
        multiprocessors=multiprocessors,
        uuid_hash=_hash(nvml.nvmlDeviceGetUUID(handle)),
    )


def _names(word: str, device: Device) -> bool:
    """Whether a word of CUDA_VISIBLE_DEVICES means a device; a pretended one has its number for a UUID."""
    return word in (str(device.index), device.uuid_hash) or _hash(word) == device.uuid_hash


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
    """What CUDA_VISIBLE_DEVICES calls a whole card; of a pretended one, for which NVML has none, its number.

    Raises MachineError if the driver does not know the card any more.
    """
    if os.environ.get(PRETENDED):
        return device.uuid_hash
    import pynvml

    try:
        pynvml.nvmlInit()
        found = [pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(device.index))]
    except pynvml.NVMLError as error:
        raise MachineError(f"the driver does not answer for {device.name}, card {device.index} ({error})") from error
    if _hash(found[0]) != device.uuid_hash:
        raise MachineError(f"card {device.index} is another one than before: the cards of this machine have changed")
    return found[0]


def _first(visible: str) -> str:
    return visible.split(",")[0].strip()


def _select(devices: tuple[Device, ...], visible: str | None) -> tuple[int | None, str | None]:
    """The first GPU, or the one that CUDA_VISIBLE_DEVICES names first, by number (NVML order) or by its UUID."""
    if not devices:
        return None, None
    if visible is None:
        return devices[0].index, None
    for device in devices:
        if _names(_first(visible), device):
            return device.index, None
    numbers = ", ".join(str(device.index) for device in devices)
    return None, f"CUDA_VISIBLE_DEVICES is {visible!r}, which names no GPU by its number ({numbers}) or whole UUID"


def _tools() -> dict[str, str | None]:
    found = {tool: shutil.which(tool) for tool in ("ncu", "nsys", "compute-sanitizer", "gcc", "cc", "clang")}
    if found["nsys"] is None and found["ncu"]:
        inside = Path(found["ncu"]).resolve().parent
        for folder in (inside, *inside.parents[:4]):
            if (folder / NSIGHT_COMPUTE_NSYS).exists():
                found["nsys"] = str(folder / NSIGHT_COMPUTE_NSYS)
                break
        else:  # CUDA's own ncu is a script on the PATH; what it starts is installed apart
            apart = sorted(Path("/opt/nvidia/nsight-compute").glob(f"*/{NSIGHT_COMPUTE_NSYS}"))
            found["nsys"] = str(apart[-1]) if apart else None
    return found


PACKAGES = (
    "nvidia-cutlass-dsl",
    "cuda-tile",
    "nvidia-cuda-tileiras",
    "apache-tvm-ffi",
    "cuda-bindings",
    "cuda-bench",
    "ncu-report",
    "torch",
    "snakemake",
)


def _packages() -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def _module(name: str, distribution: str) -> str | None:
    """Version of a package that this interpreter would import, without importing it; None if it would not.

    The interpreter is the one that runs the cases: the GPU worker is started with it and with its PYTHONPATH.
    """
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:  # a mere folder of that name has no origin
        return None
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def readings(device: Device) -> dict[str, Any]:
    """What changes while the card runs: clocks (MHz), power (W), temperature (deg C), throttle reasons."""
    import pynvml

    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(device.index)
        ask = {
            "sm_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "sm_clock_max_mhz": lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "memory_clock_mhz": lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_MEM),
            "power_w": lambda: pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
            "power_limit_w": lambda: pynvml.nvmlDeviceGetPowerManagementLimit(handle) / 1000,
            "temperature_c": lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            "throttle_reasons": lambda: throttle_reasons(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
        }
        return {name: _ask(pynvml, question) for name, question in ask.items()}
    finally:
        pynvml.nvmlShutdown()


def _ask(nvml: Any, question: Any) -> Any:
    try:
        return question()
    except nvml.NVMLError:
        return None


def throttle_reasons(mask: int) -> list[str]:
    """Names of the bits of NVML's clocks-throttle mask (nvml.h, nvmlClocksEventReasons)."""
    names = {
        0x1: "idle",
        0x2: "applications clocks setting",
        0x4: "software power cap",
        0x8: "hardware slowdown",
        0x10: "sync boost",
        0x20: "software thermal slowdown",
        0x40: "hardware thermal slowdown",
        0x80: "hardware power brake",
        0x100: "display clocks setting",
    }
    return [name for bit, name in names.items() if mask & bit]


def limits(device: Device) -> dict[str, int | None]:
    """Limits the CUDA driver states for the device, in bytes or counts; null where it does not answer."""
    try:
        from cuda.bindings import driver
    except ImportError:
        return {}
    attribute = driver.CUdevice_attribute
    wanted = {
        "multiprocessors": attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
        "shared_bytes_per_multiprocessor": attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
        "shared_bytes_per_block": attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
        "registers_per_multiprocessor": attribute.CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
        "l2_bytes": attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE,
    }
    # CUDA numbers the visible devices; the selected one is the first of them. Of slices it sees one.
    ordinal = 0 if os.environ.get("CUDA_VISIBLE_DEVICES") or device.slice_of else device.index
    if driver.cuInit(0)[0] != driver.CUresult.CUDA_SUCCESS:
        return {}
    return {name: _attribute(driver, key, ordinal) for name, key in wanted.items()}


def _attribute(driver: Any, key: Any, ordinal: int) -> int | None:
    status, value = driver.cuDeviceGetAttribute(key, ordinal)
    return value if status == driver.CUresult.CUDA_SUCCESS else None
