"""Compute the roofline: a workload's least time from FLOPs, bytes and peaks."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from cutesnake.model import provenance, record
from cutesnake.model.catalog import load_operator
from cutesnake.model.contract import Cost, Workload
from cutesnake.planning.arch_record import write_plan
from cutesnake.planning.devices import DeviceModel, Devices, read_devices
from cutesnake.planning.gpus import Device
from cutesnake.planning.machine import Machine


def plan_and_roofline(
    plan: dict[str, Any], output: str, machine: dict[str, Any], rooflines: str, **arguments: Any
) -> None:
    """Write the plan of an operator to `output`, and its roofline to `rooflines`.

    `machine` has, as plain data, the GPU that the roofline is for besides those that `roofline` is given.
    """
    write_plan(plan, output)
    local = Machine.from_dict(machine).device
    roofline(plan["operator"], plan["workloads"].values(), output=rooflines, local=local, **arguments)


def roofline(
    operator: str,
    workloads: Iterable[Workload | Mapping[str, Any]],
    devices: Path | str,
    output: Path | str,
    local: Device | None = None,
    recorded: Iterable[str] = (),
) -> None:
    """Write a row per workload and device: listed, local and recorded GPUs.

    These are `here`, the GPU that the machine probe found, of which a MIG slice has only its share, and the listed
    ones among `recorded`, the driver's names of GPUs with a recorded set. A workload is an instance of the operator's
    `Workload` or the parameters of one. Raises ValueError or TypeError for
    parameters that the operator refuses, DeviceError for a damaged devices.yaml.
    """
    module = load_operator(operator)
    asked = [module.Workload(**item) if isinstance(item, Mapping) else item for item in workloads]
    known = _devices(read_devices(devices), local, recorded)
    rows = [
        _row(workload, module.cost(workload), device)
        for workload in {workload.id: workload for workload in asked}.values()
        for device in known
    ]
    entry = {
        "stage": "roofline",
        "status": "ok",
        "reason": None,
        "provenance": provenance.built(),
        "operator": operator,
        "rows": rows,
    }
    record.write("roofline", output, entry)


def _devices(listed: Devices, local: Device | None, recorded: Iterable[str]) -> list[DeviceModel]:
    """Return devices to compute for, once each, a MIG slice last."""
    others = [listed.at_hand(local), *(listed.find(name) for name in recorded)]
    chosen = [device for device in listed.devices if device.reference or device in others]
    return chosen + [device for device in others[:1] if device is not None and device not in chosen]


def _row(workload: Workload, cost: Cost, device: DeviceModel) -> dict[str, Any]:
    """Bound and floor after Williams, Waterman and Patterson (doi:10.1145/1498765.1498785).

    intensity and ridge in FLOP/B, times in µs; null where the device has no rate for the dtype. L2 is left out: a
    workload whose data stays there from one run to the next may be faster than `memory_us`.
    """
    row: dict[str, Any] = {
        "workload": workload.id,
        "dtype": workload.dtype,
        "device": device.name,
        "match": list(device.match),
        "compute_capability": device.compute_capability,
        "target": _target(device.compute_capability),
        "flops": cost.flops,
        "bytes": cost.bytes,
        "intensity": cost.flops / cost.bytes,
        "peak_tflops": device.peak_tflops.get(workload.dtype),
        "memory_gb_per_s": device.memory_gb_per_s,
    }
    memory_us = cost.bytes / device.memory_gb_per_s * 1e-3
    if (peak := row["peak_tflops"]) is None:
        reason = f"no {workload.dtype} tensor-core rate is listed for {device.name}"
        return {
            **row,
            **dict.fromkeys(("ridge", "bound", "compute_us", "floor_us")),
            "memory_us": memory_us,
            "reason": reason,
        }
    compute_us = cost.flops / peak * 1e-6
    return {
        **row,
        "ridge": 1e3 * peak / device.memory_gb_per_s,
        "bound": "compute" if compute_us > memory_us else "memory",
        "compute_us": compute_us,
        "memory_us": memory_us,
        "floor_us": max(compute_us, memory_us),
        "reason": None,
    }


def _target(capability: str) -> str:
    """Return a capability's target, `sm_90a` for 9.0, without `a` before Hopper."""
    number = capability.replace(".", "")
    return f"sm_{number}a" if int(number) >= 90 else f"sm_{number}"
