"""Predict the rows of b200_published.json without reading their own published times.

    python -m benchmarks.prediction.b200_rows RESULTS --out benchmarks/prediction/b200_rows.jsonl

RESULTS is a results folder with builds for sm_100a. Of a kernel's variants there, the fastest predicted one counts. A
predicted time lasts from the start of the first launch to the end of the last. Where no clock was published, there are
two: at the GPU's highest clock, and at the clock that power is expected to leave. That is by a rule (`power.py`), or
for MLA decode by other rows of the publication (`published_clock`).
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import ptxsim
from benchmarks.prediction import power
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, load_operator, make_workload
from cutesnake.stages.measure.case import Case
from cutesnake.stages.predict.bottleneck import bound
from cutesnake.stages.predict.prediction import BUSY, captured

PUBLISHED = Path(__file__).with_name("b200_published.json")
CLUSTERS = 74  # pairs of CTAs that a B200's SMs hold
LONGEST_US = 500.0  # as the longest row to predict: longer ones run at lower clocks


def cases(results: Path) -> Iterator[tuple[str, list[Case], Mapping[str, Any]]]:
    """Yield each row's name, its cases (variants with a build) and its group."""
    for group in json.loads(PUBLISHED.read_text()):
        for row in group["rows"]:
            operator, kernel = group["operator"], row["kernel"]
            workload = make_workload(operator, row["parameters"])
            result = []
            for variant in load_kernel(operator, kernel).variants(workload, "sm_100a"):
                folder = results / "compile" / operator / kernel / "sm_100a" / variant.id
                if (folder / "build.json").exists():
                    known = {"id": variant.id, "params": dict(variant.params)}
                    result.append(Case("predict", operator, kernel, "sm_100a", known, row["parameters"], str(folder)))
            yield f"{operator}/{kernel}/{workload.id}", result, group


def published_clock(groups: Sequence[Mapping[str, Any]]) -> float:
    """Return the clock in MHz of published times of four query tokens.

    It is the median up to `LONGEST_US`. Tensor cores bound these rows. A round of requests takes as many cycles as in
    the rows at a locked clock.
    """
    locked = next(group for group in groups if "clock_mhz" in group)
    flushed = next(group for group in groups if "four_query_tokens_us" in group)
    clocks = []
    for row in locked["rows"]:
        cycles = row["us"] * locked["clock_mhz"] / math.ceil(row["parameters"]["batch"] / CLUSTERS)
        for batch, us in flushed["four_query_tokens_us"][row["kernel"]].items():
            if us <= LONGEST_US:
                clocks.append(cycles * math.ceil(4 * int(batch) / CLUSTERS) / us)
    return round(statistics.median(clocks))


def lasted(result: ptxsim.Prediction) -> float:
    """Return µs from the start of the first launch to the end of the last."""
    return result.launches[-1].end_us - result.launches[0].start_us


def predict(case: Case, cache: Any, clock_mhz: float | None, limited_mhz: float | None) -> dict[str, Any]:
    """Predict a case on a B200: µs, clock, bottleneck, number of assumed parameters.

    Without `clock_mhz` also the µs and clock under a power limit: by the rule, and at `limited_mhz`, if given and the
    call is not short.
    """
    launches, code = captured(case)
    surveys: dict[int, Any] = {}

    def timed(mhz: float | None) -> ptxsim.Prediction:
        return ptxsim.predict(launches, "b200", cache=cache, clock_mhz=mhz, code=code, surveys=surveys)

    result = timed(clock_mhz)
    busy = [(one.end_us - one.start_us, {key: getattr(one, key) for key in BUSY}) for one in result.launches]
    limited = {"limited_us": round(lasted(result), 2), "limited_mhz": clock_mhz} if clock_mhz else {}
    flops = load_operator(case.operator).cost(case.workload).flops
    most = power.peak("b200", case.parameters["dtype"])
    if clock_mhz is None and most:
        highest = result.sm_clock_mhz
        share, microseconds = power.settle(
            cache, flops / most * 1e6, lasted(result), lambda share: lasted(timed(share * highest))
        )
        limited = {"limited_us": round(microseconds, 2), "limited_mhz": round(share * highest)}
        limited |= {"rule_us": limited["limited_us"], "rule_mhz": limited["limited_mhz"]}
        if limited_mhz and lasted(result) >= power.SHORTEST_US:
            limited |= {"limited_us": round(lasted(timed(limited_mhz)), 2), "limited_mhz": limited_mhz}
    return {
        "variant": case.variant["id"],
        "predicted_us": round(lasted(result), 2),
        **limited,
        "sm_clock_mhz": result.sm_clock_mhz,
        "bound": bound(busy),
        "assumed": len(result.assumed),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    kept = (
        {row["case"]: row for row in map(json.loads, options.out.read_text().splitlines())}
        if options.out.exists()
        else {}
    )
    implied = published_clock(json.loads(PUBLISHED.read_text()))
    for name, choices, group in cases(options.results.resolve()):
        key = {"case": name, "source": group["source"]}
        clock = implied if "four_query_tokens_us" in group else None
        began, predicted, reasons = time.process_time(), [], ["no build"]
        for case in choices:
            try:
                predicted.append(predict(case, group["cache"], group.get("clock_mhz"), clock))
            except Exception as error:  # one variant less; the row says why
                reasons.append(str(error).splitlines()[0])
        row = min(predicted, key=lambda one: float(one["predicted_us"])) if predicted else {"error": reasons[-1]}
        kept[name] = key | row | {"seconds": round(time.process_time() - began, 1)}
        print(json.dumps(kept[name]), flush=True)
        record.write_text(options.out, "".join(json.dumps(line) + "\n" for line in kept.values()))


if __name__ == "__main__":
    main()
