"""Sample the GPU's state by NVML in a thread while something is measured."""

from __future__ import annotations

import statistics
import threading
from types import TracebackType
from typing import Any

PERIOD_SECONDS = 0.01
POWER_CAP = "software power cap"  # as `plan.gpus.throttle_reasons` names it


class Telemetry:
    """Samples power, temperature and throttle reasons until the end of the `with` block."""

    def __init__(self) -> None:
        self._samples: list[tuple[float, float, int]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Telemetry:
        self._thread.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        import pynvml

        from cutesnake.planning.machine import probe

        device = probe().device
        if device is None:
            return
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(device.index)
        while not self._stop.wait(PERIOD_SECONDS):
            self._samples.append(
                (
                    pynvml.nvmlDeviceGetPowerUsage(handle) / 1000,
                    float(pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU)),
                    pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle),
                )
            )

    def is_limited(self) -> bool:
        """Return whether the power limit has slowed the GPU until now."""
        return POWER_CAP in self.summary()["throttle_reasons"]

    def summary(self) -> dict[str, Any]:
        """Return highest power (W) and temperature (°C), and throttle reasons."""
        from cutesnake.planning.gpus import throttle_reasons

        mask = 0
        for _, _, bits in self._samples:
            mask |= bits
        reasons = [r for r in throttle_reasons(mask) if r not in ("idle", "applications clocks setting")]
        return {
            "power_w": max((s[0] for s in self._samples), default=None),
            "median_power_w": statistics.median([s[0] for s in self._samples]) if self._samples else None,
            "temperature_c": max((s[1] for s in self._samples), default=None),
            "throttle_reasons": reasons,
        }
