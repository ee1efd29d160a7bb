"""The timing model's device parameters, each with unit and source."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast, get_args

Source = Literal["measured", "published", "assumed"]
DEVICES = Path(__file__).parents[1] / "devices"
_KEYS = {"value", "unit", "source", "from"}


class DeviceError(ValueError):
    """An unusable device file; the message names the parameter and the error."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A value with its unit, its kind of source, and a sentence about its origin."""

    value: float
    unit: str
    source: Source
    origin: str


@dataclass(frozen=True, slots=True)
class DeviceConstants:
    """Device parameters by name, with the units of the device files."""

    sm_count: float
    large_cluster_sms: float
    sm_clock_mhz: float
    schedulers_per_sm: float
    threads_per_sm: float
    ctas_per_sm: float
    registers_per_sm: float
    shared_bytes_per_sm: float
    shared_reserved_bytes: float
    l1_and_shared_bytes: float
    fma_pipe_cycles: float
    packed_fma_pipe_cycles: float
    half_pipe_cycles: float
    alu_pipe_cycles: float
    conversion_pipe_cycles: float
    sfu_pipe_cycles: float
    double_pipe_cycles: float
    uniform_pipe_cycles: float
    memory_pipe_cycles: float
    fma_latency: float
    alu_latency: float
    sfu_latency: float
    conversion_latency: float
    double_latency: float
    slow_division_latency: float
    slow_division_issue_cycles: float
    shuffle_latency: float
    special_register_latency: float
    constant_latency: float
    branch_cycles: float
    jump_cycles: float
    fetch_small_bytes: float
    fetch_large_bytes: float
    fetch_small_cycles: float
    fetch_large_cycles: float
    fetch_far_cycles: float
    fetch_ahead_bytes: float
    fetch_dram_cycles: float
    flush_code_bytes: float
    shared_bytes_per_cycle: float
    shared_load_latency: float
    shared_atomic_latency: float
    dsm_latency: float
    dsm_bytes_per_cycle: float
    mbarrier_test_latency: float
    mbarrier_wake_latency: float
    mbarrier_arrive_latency: float
    mbarrier_remote_latency: float
    named_barrier_latency: float
    cluster_barrier_latency: float
    cluster_release_latency: float
    fence_latency: float
    l2_bytes: float
    l2_again_bytes: float
    l2_overrun: float
    flush_dirty_share: float
    l1_latency: float
    l2_latency: float
    dram_latency: float
    dram_first_cycles: float
    dram_flushed_cycles: float
    l1_bytes_per_cycle: float
    local_latency: float
    local_bytes_per_cycle: float
    local_l2_latency: float
    local_miss_bytes_per_cycle: float
    local_store_gb_per_s: float
    load_bytes_per_cycle: float
    store_bytes_per_cycle: float
    l2_gb_per_s: float
    l2_bytes_per_cycle_of_8: float
    l2_bytes_per_cycle_of_32: float
    l2_bytes_per_cycle_of_64: float
    l2_shared_gain: float
    l2_fill_cost: float
    l2_queueing_cycles: float
    dram_queueing_cycles: float
    l2_write_gb_per_s: float
    l2_copy_gb_per_s: float
    dram_read_gb_per_s: float
    dram_write_gb_per_s: float
    dram_copy_gb_per_s: float
    load_outstanding_bytes: float
    atomic_cycles: float
    tma_latency: float
    tma_dram_latency: float
    tma_bytes_per_cycle: float
    tma_bytes_per_cycle_tpc: float
    tma_shared_gain_two: float
    tma_shared_gain_four: float
    tma_shared_gain: float
    tma_shared_kept_two: float
    tma_shared_kept: float
    tma_descriptor_latency: float
    tma_ahead_bytes: float
    l2_ahead_bytes: float
    tma_box_cycles: float
    tma_row_cycles: float
    tma_store_latency: float
    tma_store_read_latency: float
    tma_store_bytes_per_cycle: float
    wgmma_flops_per_cycle: float
    wgmma_latency: float
    wgmma_register_cycles: float
    tcgen05_flops_per_cycle: float
    tcgen05_latency: float
    tcgen05_pair_latency: float
    tcgen05_cp_bytes_per_cycle: float
    tmem_load_latency: float
    tmem_load_bytes_per_cycle: float
    tmem_store_bytes_per_cycle: float
    launch_gap_us: float
    launch_graph_us: float
    launch_map_us: float
    launch_single_us: float
    launch_single_full_us: float
    launch_single_gap_us: float
    launch_early_us: float
    launch_full_us: float
    cta_start_cycles: float
    cta_interval_cycles: float
    cta_fill_cycles: float


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """A device: name, architecture, constants, and the origin of each."""

    name: str
    architecture: str
    constants: DeviceConstants
    parameters: Mapping[str, Parameter]

    def assumed(self) -> list[str]:
        """Return the names of unmeasured parameters."""
        return [name for name, parameter in self.parameters.items() if parameter.source == "assumed"]

    def changed(self, **values: float) -> DeviceModel:
        """Return this device with other values, for tests and sensitivity studies."""
        constants = dataclasses.replace(self.constants, **values)
        parameters = {
            name: dataclasses.replace(p, value=values.get(name, p.value)) for name, p in self.parameters.items()
        }
        return dataclasses.replace(self, constants=constants, parameters=parameters)

    @classmethod
    def load(cls, device: str | Path) -> DeviceModel:
        """Load a device by name in ptxsim/devices ("h200") or path; DeviceError if unknown."""
        path = Path(device) if str(device).endswith((".yaml", ".yml")) else DEVICES / f"{device}.yaml"
        if not path.is_file():
            known = ", ".join(sorted(x.stem for x in DEVICES.glob("*.yaml")))
            raise DeviceError(f"no device {device!r}: one of {known}, or the path of a device file")
        return _loaded(path, path.stat().st_mtime_ns)


@cache
def _loaded(path: Path, _changed: int) -> DeviceModel:
    import yaml  # only the clock needs it

    try:
        content = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise DeviceError(f"{path.name} is not valid YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict) or not isinstance(content.get("parameters"), dict):
        raise DeviceError(f"{path.name}: a device file has a name, an architecture and parameters")
    names = [field.name for field in dataclasses.fields(DeviceConstants)]
    parameters = {name: _parameter(path.name, name, entry) for name, entry in content["parameters"].items()}
    unknown = [name for name in parameters if name not in names]
    missing = [name for name in names if name not in parameters]
    if unknown:
        raise DeviceError(f"{path.name}: unknown parameter {unknown[0]!r}{_nearest(unknown[0], missing)}")
    if missing:
        raise DeviceError(f"{path.name}: the parameter {missing[0]!r} is missing")
    constants = DeviceConstants(**{name: parameters[name].value for name in names})
    return DeviceModel(str(content.get("name")), str(content.get("architecture")), constants, parameters)


def _parameter(file: str, name: str, entry: Any) -> Parameter:
    if not isinstance(entry, dict) or set(entry) != _KEYS:
        raise DeviceError(f"{file}: the parameter {name!r} needs exactly {', '.join(sorted(_KEYS))}")
    value, source = entry["value"], entry["source"]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise DeviceError(f"{file}: the value of {name!r} is not a number: {value!r}")
    if source not in get_args(Source):
        raise DeviceError(f"{file}: the source of {name!r} is {source!r}: one of {', '.join(get_args(Source))}")
    return Parameter(float(value), str(entry["unit"]), cast(Source, source), str(entry["from"]))


def _nearest(name: str, missing: list[str]) -> str:
    """Return a hint for a misspelt name, or ""."""
    import difflib

    near = difflib.get_close_matches(name, missing, 1)
    return f" (did you mean {near[0]!r}?)" if near else ""
