"""Probing: whatever NVML does, the answer is a Machine."""

import json
import sys
from types import SimpleNamespace

import pytest

from cutesnake.plan import machine


class NVMLError(Exception):
    pass


class NVMLError_LibraryNotFound(NVMLError):  # pynvml's own name
    pass


def fake_nvml(**overrides):
    answers = {
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
    }
    return SimpleNamespace(**{**answers, **overrides})


def raising(error):
    def call(*_):
        raise error

    return call


def test_gpus_are_read_and_serial_numbers_are_not_kept(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = machine.probe()
    assert [d.multiprocessors for d in found.devices] == [108, 132]
    assert found.device.name == "NVIDIA A100" and found.problem is None
    assert "GPU-0" not in json.dumps(found.as_dict())


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
    found = machine.probe()
    assert found.device is None and found.fingerprint == "none"
    assert problem in found.problem


def test_cuda_visible_devices_chooses(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert machine.probe().device.name == "NVIDIA H200"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert "names no GPU by number (0 to 1)" in machine.probe().problem


def test_a_simulated_machine_says_so(monkeypatch, tmp_path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps({"devices": [], "problem": "none"}))
    monkeypatch.setenv(machine.SIMULATED, str(path))
    assert machine.probe().simulated


def test_throttle_reasons_have_names() -> None:
    assert machine.throttle_reasons(0x4 | 0x40) == ["software power cap", "hardware thermal slowdown"]
