"""Read GPUs from the driver: NVML for devices and state, CUDA for kernel limits."""

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any


class GpuError(RuntimeError):
    """Report a GPU that has disappeared, in one line."""


@dataclass(frozen=True)
class Device:
    """Constant identity of a GPU, or of the MIG slice that CUDA uses.

    The shares are fractions of the whole GPU's SMs and memory. The memory share also stands for bandwidth and L2 cache.
    """

    index: int
    name: str
    compute_capability: tuple[int, int]
    driver: str
    memory_bytes: int
    multiprocessors: int | None
    uuid_hash: str  # distinguishes two GPUs of one name without publishing a serial number
    slice_of: str | None = None  # of a MIG slice the name of its GPU
    multiprocessor_share: float | None = 1.0  # None where NVML does not tell
    memory_share: float = 1.0

    @property
    def sm(self) -> str:
        """Return the compute capability as in `sm_90`."""
        return "sm_{}{}".format(*self.compute_capability)


def look(visible: str | None) -> tuple[tuple[Device, ...], str | None]:
    """Return all GPUs, or why none; `visible` (CUDA_VISIBLE_DEVICES) may choose a MIG slice."""
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
        result = [device for index in range(count) if (device := _device(pynvml, index, driver, visible))]
        if count and not result:
            return (), "MIG is switched on but no GPU has a MIG device: make one, or switch MIG off (nvidia-smi mig)"
        return tuple(result), None if result else "an NVIDIA driver is installed but it sees no GPU"
    except pynvml.NVMLError as error:
        return (), f"the NVIDIA driver does not answer (NVML says: {error})"
    finally:
        pynvml.nvmlShutdown()


def _device(nvml: Any, index: int, driver: str, visible: str | None) -> Device | None:
    """Return a GPU by index; with MIG, the slice in use or None."""
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    gpu = _whole(nvml, handle, index, driver)
    if not _mig_is_on(nvml, handle):
        return gpu
    slices = list(_slices(nvml, handle))
    if not slices:
        return None
    # CUDA uses one slice: the one that CUDA_VISIBLE_DEVICES names first by its UUID, else the first.
    chosen = next((s for s in slices if visible and nvml.nvmlDeviceGetUUID(s) == first(visible)), slices[0])
    return _part(nvml, chosen, gpu)


def _mig_is_on(nvml: Any, handle: Any) -> bool:
    try:
        return nvml.nvmlDeviceGetMigMode(handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE
    except nvml.NVMLError:  # a GPU without MIG
        return False


def _slices(nvml: Any, handle: Any) -> Iterator[Any]:
    """Yield handles of the MIG devices of a GPU; their numbers have gaps."""
    for number in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        with contextlib.suppress(nvml.NVMLError):
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, number)


def _part(nvml: Any, handle: Any, gpu: Device) -> Device:
    """Return a MIG slice of a GPU.

    Memory, with its controllers and L2 cache, is divided into eighths (MIG User Guide, Concepts), so the share is the
    next eighth to the share of bytes.
    """
    memory = nvml.nvmlDeviceGetMemoryInfo(handle).total
    multiprocessors = nvml.nvmlDeviceGetAttributes(handle).multiprocessorCount
    return replace(
        gpu,
        name=nvml.nvmlDeviceGetName(handle),
        memory_bytes=memory,
        multiprocessors=multiprocessors,
        uuid_hash=hashed(nvml.nvmlDeviceGetUUID(handle)),
        slice_of=gpu.name,
        multiprocessor_share=multiprocessors / gpu.multiprocessors if gpu.multiprocessors else None,
        memory_share=max(1, round(8 * memory / gpu.memory_bytes)) / 8,
    )


def hashed(uuid: str) -> str:
    """Return a digest that distinguishes two GPUs without their serial numbers."""
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
        uuid_hash=hashed(nvml.nvmlDeviceGetUUID(handle)),
    )


def first(visible: str) -> str:
    """Return the first entry of CUDA_VISIBLE_DEVICES."""
    return visible.split(",")[0].strip()


def uuid_of(device: Device) -> str:
    """Return a whole GPU's name for CUDA_VISIBLE_DEVICES; GpuError if it is gone."""
    import pynvml

    try:
        pynvml.nvmlInit()
        result = str(pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(device.index)))
    except pynvml.NVMLError as error:
        raise GpuError(f"the driver does not answer for {device.name}, GPU {device.index} ({error})") from error
    if hashed(result) != device.uuid_hash:
        raise GpuError(f"GPU {device.index} differs from before: the GPUs of this machine changed; run again")
    return result


def readings(device: Device) -> dict[str, Any]:
    """Return changing values: clocks (MHz), power (W), temperature (deg C), throttle reasons."""
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
    """Return limits by the CUDA driver, in bytes or counts; null if unknown."""
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
