"""Measure how much a prediction's error grows where a GPU's parameters are assumed.

    python -m benchmarks.prediction.assumed RESULTS --out benchmarks/prediction/assumed.jsonl

RESULTS is a results folder with builds for sm_90a. Cases of the blind sets in `measured/` are predicted twice: with the
GPU's own table, and with each parameter that the B200's table assumes set to that assumption. Rates in GB/s and
sizes of the L2 cache follow the GPU's published or measured ones in the B200's proportion.
"""

import argparse
import dataclasses
import json
import statistics
from pathlib import Path
from typing import Any

from benchmarks.prediction.cases import KINDS, recorded
from benchmarks.prediction.predict import NAMES, launches, predicted
from cutesnake.model import record
from ptxsim import DeviceModel

L2_BYTES = {"b200": 126e6, "h200": 50e6, "h100": 50e6}  # data sheets
WHICH = ("own", "assumed")
LONGEST_US = 100.0  # of the cases, as measured


def guessed(device: str) -> DeviceModel:
    """Return a Hopper GPU with the B200's assumptions in place of its own measurements."""
    own, other = DeviceModel.load(device), DeviceModel.load("b200")
    values = {}
    for name in other.assumed():
        value = other.parameters[name].value
        if own.parameters[name].value == 0 or name.startswith(("tcgen05", "tmem")):
            continue  # what only Blackwell has
        if name in ("l2_bytes", "l2_again_bytes"):
            value *= L2_BYTES[device] / L2_BYTES["b200"]
        elif own.parameters[name].unit == "GB/s":
            rate = "dram_read_gb_per_s" if name.startswith("dram") else "l2_gb_per_s"
            value *= own.parameters[rate].value / other.parameters[rate].value
        values[name] = value
    return own.changed(**values)


def growth(rows: list[dict[str, Any]]) -> tuple[float, float, float]:
    """Return the 90th percentiles of the errors in percent, own and assumed, and their ratio."""
    errors = [[abs(100 * (row[which] / row["measured_us"] - 1)) for row in rows] for which in WHICH]
    own, other = (statistics.quantiles(one, n=10, method="inclusive")[-1] for one in errors)
    return own, other, other / own


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    results, rows = options.results.resolve(), []
    cases = [
        case
        for case in recorded(Path(__file__).with_name("measured"))
        if (case.folder(results) / "build.json").exists()
    ]
    cases = [case for case in cases if max(figure.microseconds for figure in case.measured) < LONGEST_US]
    for case in sorted(cases, key=lambda case: max(figure.microseconds for figure in case.measured)):
        if reason := case.refused(results):
            print(reason, flush=True)
            continue
        call, _ = launches(case, results)
        surveys: dict[int, Any] = {}
        for figure in case.measured if call is not None else ():
            names = (figure.device, case.operator, case.kernel, case.variant["id"], case.workload, figure.kind)
            row: dict[str, Any] = dict(zip(NAMES, names, strict=True)) | {"measured_us": round(figure.microseconds, 3)}
            tables: tuple[Any, Any] = (figure.device, guessed(figure.device))
            for which, table in zip(WHICH, tables, strict=True):
                result = predicted(call, dataclasses.replace(figure, device=table), surveys)
                row[which] = result.get("predicted_us")
            if all(row[which] for which in WHICH):
                rows.append(row)
        record.write_text(options.out, "".join(json.dumps(row) + "\n" for row in rows))
        print(case.name, len(rows), flush=True)
    for kind in KINDS:
        own, other, ratio = growth([row for row in rows if row["kind"] == kind])
        print(f"{kind}: 90th percentile {own:.1f} %, with assumptions {other:.1f} %, ratio {ratio:.2f}")


if __name__ == "__main__":
    main()
