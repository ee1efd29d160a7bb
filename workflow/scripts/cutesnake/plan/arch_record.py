"""Records of what can be done here: the machine and its state now, and every decision about an operator."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cutesnake import record
from cutesnake.plan import machine
from cutesnake.plan.config import check
from cutesnake.plan.matrix import make_plan, modules_needed


def write_arch(config: dict[str, Any], output: Path | str) -> None:
    """Write results/arch.json: the machine, found out again as when the graph was built, and readings of the card.

    `output` is `<results>/arch.json`; what lies in `<results>/compile` counts as built.
    """
    experiment = check(config)
    here = machine.probe(modules_needed(experiment))
    plan = make_plan(experiment, here, Path(output).parent)
    live = None if here.pretended else here.device
    entry = {
        "stage": "arch",
        "status": "ok",
        "reason": here.problem,
        "provenance": {"created": datetime.now(UTC).isoformat(timespec="seconds")},
        "pretended": here.pretended,
        "devices": [
            {**asdict(device), "compute_capability": list(device.compute_capability)} for device in here.devices
        ],
        "selected": here.selected,
        "fingerprint": here.fingerprint,
        "limits": machine.limits(live) if live else {},
        "readings": machine.readings(live) if live else {},
        "tools": {name: path is not None for name, path in here.tools.items()},
        "packages": here.packages,
        "modules": here.modules,
        **plan.as_dict(),
    }
    record.write("arch", output, entry)


def write_plan(plan: dict[str, Any], output: Path | str) -> None:
    """Write results/plan/<operator>.json: `plan` is Plan.of(operator), made when the graph was built."""
    record.write("plan", output, {"stage": "plan", "status": "ok", "reason": None, "provenance": {}, **plan})
