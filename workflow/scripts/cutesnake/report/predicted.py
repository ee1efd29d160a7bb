"""Times that nobody measured: what ptxsim's clock says of cards that are not here, each with its band."""

from __future__ import annotations

from typing import Any

from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.report.formatting import Notes, plural
from cutesnake.report.plot.timeline import short_name

Record = dict[str, Any]
KINDS = ("cold", "warm")


def predicted(evidence: Evidence, notes: Notes) -> list[Record]:
    """A table per card: a row per case, its times with their bands, and what its main launch keeps busy.

    What bands rest on, and why a prediction failed, is numbered by `notes`, those of the page.
    """
    entries = list(evidence.predicted.values())
    devices = evidence.plan["predicted"]["devices"]
    found = []
    for target in devices:
        mine = [entry for entry in entries if entry["case"]["target"] == target]
        fine = [entry for entry in mine if entry["status"] == "ok"]
        if mine:
            found.append(
                {
                    "target": target,
                    "card": fine[0]["metrics"]["device"] if fine else devices[target],
                    "clock_mhz": fine[0]["metrics"]["sm_clock_mhz"] if fine else None,
                    "parameters": fine[0]["metrics"]["parameters"] if fine else None,
                    "rows": [_row(entry, evidence, notes) for entry in sorted(mine, key=_order(evidence))],
                }
            )
    return found


def _order(evidence: Evidence) -> Any:
    """Key for sorting: by the workload, then the kernel, as the plan has them; what it does not have comes last."""
    workloads = {name: place for place, name in enumerate(evidence.workloads)}
    kernels = {name: place for place, name in enumerate(dict.fromkeys(kernel for kernel, _ in evidence.decisions))}
    return lambda entry: (
        workloads.get(entry["case"]["workload"], len(workloads)),
        kernels.get(entry["case"]["kernel"], len(kernels)),
    )


def _row(entry: Record, evidence: Evidence, notes: Notes) -> Record:
    case, metrics = entry["case"], entry["metrics"]
    times = evidence.foreseen(case["kernel"], case["target"], case["workload"])
    row = {key: case[key] for key in ("workload", "kernel")} | {"variant": case["variant"]["id"]}
    if entry["status"] != "ok":
        return {**row, "failed": notes.mark(entry["reason"]), "chosen": False}
    return {
        **row,
        "failed": None,
        "chosen": len(times) > 1 and next(iter(times)) == case["variant"]["id"],
        "times": [_time(metrics, kind, notes) for kind in KINDS],
        "bound": _bound(metrics["bounds"]),
        "busy": [metrics[f"{key}_percent"] for key in ("tensor", "dram", "l2")],
        "launches": ", ".join(_launch(launch) for launch in metrics["launches"]["cold"]),
    }


def _bound(bounds: dict[str, str]) -> str:
    """What binds a call, said once where it is the same for both kinds."""
    if len(set(bounds.values())) == 1:
        return bounds["cold"]
    return ", ".join(f"{bounds[kind]} ({kind})" for kind in KINDS)


def _time(metrics: Record, kind: str, notes: Notes) -> Record:
    band = metrics["bands"][kind]
    return {"us": metrics[f"{kind}_us"], "percent": band["percent"], "note": notes.mark(f"The band: {band['words']}.")}


def _launch(launch: Record) -> str:
    share = launch["waves"]
    waves = f"{100 * share:.0f} % of a wave" if share < 1 else plural(round(share, 1), "wave")
    return f"{short_name(launch['name'])} {launch['end_us'] - launch['start_us']:.1f} µs, {waves}"
