"""Probing: whatever NVML does, the answer is a Machine."""

import json
import sys
from types import SimpleNamespace

import pytest

from cutesnake.planning import gpus, machine


class NVMLError(Exception):
    pass


class NVMLError_LibraryNotFound(NVMLError):  # pynvml's own name
    pass


def fake_nvml(**overrides):
    replies = {
        "NVMLError": NVMLError,
        "NVMLError_LibraryNotFound": NVMLError_LibraryNotFound,
        "nvmlInit": lambda: None,
        "nvmlShutdown": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "580.1",
        "nvmlDeviceGetCount": lambda: 2,
        "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlDeviceGetName": lambda handle: ["NVIDIA A100", "NVIDIA H200"][handle],
        "nvmlDeviceGetCudaComputeCapability": lambda handle: [(8, 0), (9, 0)][handle],
        "nvmlDeviceGetNumGpuCores": lambda handle: [6912, 16896][handle],
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(total=80 << 30),
        "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
        "nvmlDeviceGetMigMode": raising(NVMLError("not supported")),
        "NVML_DEVICE_MIG_ENABLE": 1,
    }
    return SimpleNamespace(**{**replies, **overrides})


def raising(error):
    def call(*_):
        raise error

    return call


def test_gpus_are_read_and_serial_numbers_are_not_kept(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    result = machine.probe()
    assert [d.multiprocessors for d in result.devices] == [108, 132]
    assert result.device.name == "NVIDIA A100" and result.problem is None
    assert "GPU-0" not in json.dumps(result.as_dict())


@pytest.mark.parametrize(
    ("nvml", "problem"),
    [
        (fake_nvml(nvmlInit=raising(NVMLError_LibraryNotFound())), "no NVIDIA driver is installed"),
        (fake_nvml(nvmlInit=raising(NVMLError("version mismatch"))), "does not answer (NVML says: version mismatch)"),
        (fake_nvml(nvmlDeviceGetCount=lambda: 0), "it sees no GPU"),
        (fake_nvml(nvmlDeviceGetName=raising(NVMLError("GPU is lost"))), "GPU is lost"),
    ],
)
def test_no_gpu_and_a_broken_driver_are_ordinary_answers(monkeypatch, nvml, problem) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    result = machine.probe()
    assert result.device is None and result.fingerprint == "none"
    assert problem in result.problem


def test_cuda_visible_devices_chooses(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert machine.probe().device.name == "NVIDIA H200"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert "names no GPU by its number (0, 1) or whole UUID" in machine.probe().problem
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1,GPU-0")
    assert machine.probe().device.name == "NVIDIA H200"


def mig_nvml(slices):
    """NVML of one H100 with MIG switched on.

    `slices` are (number, name, SMs, bytes), handles their UUIDs.
    """
    made = {f"MIG-{number}": (name, sms, size) for number, name, sms, size in slices}

    def handle(module, number):
        if f"MIG-{number}" not in made:
            raise NVMLError("not found")
        return f"MIG-{number}"

    gpu = "NVIDIA H100 80GB HBM3"
    return fake_nvml(
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetCudaComputeCapability=lambda handle: (9, 0),
        nvmlDeviceGetNumGpuCores=lambda handle: 16896,
        nvmlDeviceGetMigMode=lambda handle: [1, 1],
        nvmlDeviceGetMaxMigDeviceCount=lambda handle: 7,
        nvmlDeviceGetMigDeviceHandleByIndex=handle,
        nvmlDeviceGetName=lambda handle: f"{gpu} {made[handle][0]}" if handle in made else gpu,
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=made[handle][2] if handle in made else 80 << 30),
        nvmlDeviceGetAttributes=lambda handle: SimpleNamespace(multiprocessorCount=made[handle][1]),
        nvmlDeviceGetUUID=lambda handle: handle if handle in made else "GPU-0",
    )


SLICES = [(0, "MIG 3g.40gb", 60, int(39.5 * 2**30)), (4, "MIG 1g.10gb", 16, int(9.75 * 2**30))]


@pytest.mark.parametrize(
    ("visible", "name", "sms", "memory_share"), [(None, "3g.40gb", 60, 0.5), ("MIG-4", "1g.10gb", 16, 0.125)]
)
def test_a_mig_slice_is_the_device_with_its_share(monkeypatch, visible, name, sms, memory_share) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", mig_nvml(SLICES))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    result = machine.probe().device
    assert result.name == f"NVIDIA H100 80GB HBM3 MIG {name}" and result.slice_of == "NVIDIA H100 80GB HBM3"
    assert result.multiprocessors == sms and result.multiprocessor_share == pytest.approx(sms / 132)
    assert result.memory_share == memory_share


def test_mig_without_a_slice_is_a_reason(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", mig_nvml([]))
    result = machine.probe()
    assert result.device is None and "MIG is switched on but no GPU has a MIG device" in result.problem


def test_a_pretended_machine_says_so(monkeypatch, tmp_path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"devices": [], "problem": "none"}))
    monkeypatch.setenv(machine.MOCK_FILE, str(path))
    assert machine.probe().mocked


def test_throttle_reasons_have_names() -> None:
    assert gpus.throttle_reasons(0x4 | 0x40) == ["software power cap", "hardware thermal slowdown"]
