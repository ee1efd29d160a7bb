"""Predictions of what no recorded set has yet.

The history of the repository then shows that the predictions came first.

    python -m benchmarks.prediction.unmeasured RESULTS --cases cases.json --out blind_tenth.json
    python -m benchmarks.prediction.unmeasured --against SETS --predictions blind_tenth.json --out blind_tenth.jsonl

RESULTS is a results folder with builds for sm_90a, cases.json what `draw.py` has drawn: each is predicted for each GPU,
least work first. SETS is a folder of recorded sets, such as `recorded/` or `benchmarks/prediction/measured/`.

The clock that the GPU will choose is not known: each case is predicted at two, and once it is measured the time at the
clock of its samples follows from both (cycles and bytes a second: a + b / clock). How many calls will stand in a graph
is not known either: warm rows have what lies between two graphs as `graph_us`, and the calls of a graph share it. Nor
is the host: cold rows have as `lone_us` what the GPU's table takes a single launch of nothing for, in whose place comes
what the timing stage has measured of one on the host of the case.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.prediction.cases import DEVICES, KINDS, Measured, Recorded, recorded
from benchmarks.prediction.predict import NAMES, launches, predicted
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator
from ptxsim import DeviceModel

TARGET = "sm_90a"
CLOCKS_MHZ = (1980.0, 1500.0)


def listed(path: Path, results: Path) -> Iterator[tuple[Recorded, list[str]]]:
    """Return drawn cases that were built, least work first, for every GPU."""
    result = []
    for drawn in json.loads(path.read_text()):
        dsl = load_kernel(drawn["operator"], drawn["kernel"]).DSL
        case = Recorded(**drawn, target=TARGET, measured=(), dsl=dsl)
        if (case.folder(results) / "build.json").exists():
            workload = load_operator(case.operator).Workload(**case.parameters)
            result.append((load_operator(case.operator).cost(workload).flops, case))
    for _, case in sorted(result, key=lambda entry: entry[0]):
        yield case, list(DEVICES.values())


def rows(case: Recorded, devices: list[str], results: Path) -> Iterator[dict[str, Any]]:
    """Yield a row per GPU and sample kind, with predictions or a reason."""
    call, error = launches(case, results)
    surveys: dict[int, Any] = {}
    for gpu in devices:
        for kind in KINDS:
            names = (gpu, case.operator, case.kernel, case.variant["id"], case.workload, kind)
            row: dict[str, Any] = dict(zip(NAMES, names, strict=True)) | {"error": error, "predicted": {}}
            figures = DeviceModel.load(gpu).constants
            row |= {"graph_us": figures.launch_graph_us} if kind == "warm" else {"lone_us": figures.launch_single_us}
            for clock in CLOCKS_MHZ if call is not None else ():
                result = predicted(call, Measured(gpu, kind, 0.0, clock), surveys)
                if result.get("error"):
                    row["error"] = result["error"]
                    break
                row["predicted"][f"{clock:.0f}"] = result["predicted_us"]
                row["launches"] = result["launches"]
            yield row


def at_clock(predictions: dict[str, float], clock_mhz: float) -> float:
    """Microseconds at a clock, from those at two; those at one as they are."""
    if len(predictions) == 1:
        return next(iter(predictions.values()))
    (f, at_f), (g, at_g) = ((float(clock), time) for clock, time in predictions.items())
    cycles = (at_f - at_g) / (1 / f - 1 / g)
    return at_f + cycles * (1 / clock_mhz - 1 / f)


def compared(predictions: list[dict[str, Any]], sets: Path) -> Iterator[dict[str, Any]]:
    """Those that have been measured since, in the form of `predict.py`'s lines."""
    measured = {
        (figure.device, case.operator, case.kernel, case.variant["id"], case.workload, figure.kind): figure
        for case in recorded(sets)
        for figure in case.measured
    }
    for row in predictions:
        figure = measured.get(tuple(row[name] for name in NAMES))
        if figure is None:
            continue
        result = at_clock(row["predicted"], figure.clock_mhz) if row["predicted"] else None
        if result is not None and figure.calls_per_graph:
            result += row.get("graph_us", 0.0) / figure.calls_per_graph
        if result is not None and figure.empty_launch_us and "lone_us" in row:
            result += figure.empty_launch_us - row["lone_us"]
        yield {name: row[name] for name in NAMES} | {
            "sm_clock_mhz": round(figure.clock_mhz),
            "measured_us": round(figure.microseconds, 3),
            "predicted_us": None if result is None else round(result, 3),
            "error": row["error"],
            "launches": row.get("launches", []),
        }


def write(out: Path, result: list[dict[str, Any]]) -> None:
    """Write a row per line.

    With the ending .json it is a list, which nothing else reads as validation.
    """
    lines = [json.dumps(row) for row in result]
    text = "[\n" + ",\n".join(lines) + "\n]\n" if out.suffix == ".json" else "".join(f"{line}\n" for line in lines)
    record.write_text(out, text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="?")
    parser.add_argument("--against", type=Path, help="recorded sets to hold the predictions of --predictions against")
    parser.add_argument("--predictions", type=Path, help="what --against compares, made with --cases")
    parser.add_argument("--cases", type=Path, help="what draw.py has drawn")
    parser.add_argument("--resume", action="store_true", help="keep what an earlier run left in OUT, a list")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    if options.against and options.predictions:
        write(options.out, list(compared(json.loads(options.predictions.read_text()), options.against)))
        return
    if options.results is None or options.cases is None:
        parser.error("needs RESULTS and --cases FILE, or --against SETS and --predictions FILE")
    result: list[dict[str, Any]] = json.loads(options.out.read_text()) if options.resume else []
    done = {tuple(row[name] for name in NAMES[1:5]) for row in result}
    results = options.results.resolve()
    for case, gpus in listed(options.cases, results):
        if (case.operator, case.kernel, case.variant["id"], case.workload) in done:
            continue
        began = time.process_time()
        for row in rows(case, gpus, results):
            result.append(row)
            print(row["device"], case.name, row["kind"], row["error"] or row["predicted"], flush=True)
        print(f"    {time.process_time() - began:.1f} s", flush=True)
        write(options.out, result)


if __name__ == "__main__":
    main()
