"""Write records of what is possible here: the machine, and decisions per operator."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cutesnake.model import provenance, record
from cutesnake.planning import gpus, machine


def write_arch(data: dict[str, Any], plan: Mapping[str, Any], output: Path | str) -> None:
    """Write the planned machine, with readings of the GPU if it is this one."""
    planned = machine.Machine.from_dict(data)
    live = None if planned.mocked else planned.device
    if live is not None and machine.probe().device != live:
        live = None
    entry = {
        "stage": "arch",
        "status": "ok",
        "reason": planned.problem,
        "provenance": {"created": provenance.now()},
        "pretended": planned.mocked,
        "devices": [
            {**asdict(device), "compute_capability": list(device.compute_capability)} for device in planned.devices
        ],
        "selected": planned.selected,
        "fingerprint": planned.fingerprint,
        "limits": gpus.limits(live) if live else {},
        "readings": gpus.readings(live) if live else {},
        "tools": {name: path is not None for name, path in planned.tools.items()},
        "packages": planned.packages,
        "modules": planned.modules,
        **plan,
    }
    record.write("arch", output, entry)


def write_plan(plan: dict[str, Any], output: Path | str) -> None:
    """Write results/plan/<operator>.json: `plan` is Plan.of(operator), made when the graph was built."""
    record.write("plan", output, {"stage": "plan", "status": "ok", "reason": None, "provenance": {}, **plan})
