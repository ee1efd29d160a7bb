"""Whether the variant that a prediction would choose is as good as the best one measured.

    python benchmarks/prediction/rank.py RESULTS --out ranking.jsonl

What was measured of all three variants of `cute_sm90`, warm, lies in `benchmarks/mla_cute_sm90/groups_h200.json`. That
file has no clock per variant: all three are predicted at the same one, by default 1,750 MHz. A line per workload.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "workflow" / "scripts")]

from benchmarks.prediction.cases import Measured, Recorded  # noqa: E402  (the project's folders have to be found first)
from benchmarks.prediction.predict import rows  # noqa: E402

VARIANTS = ("cluster1", "cluster2", "halves")
CLOSE = 1.03  # a choice counts if it is at most 3 % slower than the best
LARGEST = 600_000  # tokens of a batch, beyond which a prediction takes minutes


def workloads(groups: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[dict[str, Any], dict[str, float]]]:
    """Parameters of each workload with all variants measured, and their warm microseconds."""
    for entry in (entry for group in groups.values() for entry in group):
        measured = {name: entry[f"bf16_{name}"]["warm_us"] for name in VARIANTS if f"bf16_{name}" in entry}
        parameters = parse(entry["workload"])
        if len(measured) == len(VARIANTS) and parameters["batch"] * parameters["kv_length"] <= LARGEST:
            yield parameters, measured


def parse(identifier: str) -> dict[str, Any]:
    """The parameters that an id of MLA decode stands for; ValueError for a part that is not known."""
    found: dict[str, Any] = {}
    for part in identifier.split("_"):
        if part in ("bf16", "fp16", "fp8"):
            found["dtype"] = part
        elif part == "ragged":
            found["lengths"] = part
        elif part[0] in (known := {"b": "batch", "q": "query_tokens", "s": "kv_length", "h": "heads"}):
            found[known[part[0]]] = int(part[1:])
        else:
            raise ValueError(f"{identifier}: {part!r} is not known here")
    return found


def ranked(parameters: dict[str, Any], measured: dict[str, float], clock: float, results: Path) -> dict[str, Any]:
    """The row of a workload: what each variant took, was predicted, and what the choice by prediction costs."""
    predicted = {}
    for name, microseconds in measured.items():
        variant = {"id": f"bf16_{name}", "params": {"dtype": "bf16"}}
        figure = Measured("h200", "warm", microseconds, clock)
        case = Recorded("mla_decode", "cute_sm90", variant, "", parameters, "sm_90a", (figure,))
        build = json.loads((case.folder(results) / "build.json").read_text())
        row = next(rows(replace(case, variant=build["variant"]), results, ["h200"]))
        if row["error"]:
            return {"parameters": parameters, "error": row["error"]}
        predicted[name] = row["predicted_us"]
    chosen = min(predicted, key=lambda name: predicted[name])
    loss = measured[chosen] / min(measured.values())
    return {
        "parameters": parameters,
        "measured_us": measured,
        "predicted_us": predicted,
        "chosen": chosen,
        "slower_percent": round(100 * (loss - 1), 1),
        "close": loss <= CLOSE,
        "error": None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--clock", type=float, default=1750.0)
    options = parser.parse_args()
    groups = json.loads((ROOT / "benchmarks" / "mla_cute_sm90" / "groups_h200.json").read_text())["groups"]
    found = []
    for parameters, measured in sorted(workloads(groups), key=lambda entry: max(entry[1].values())):
        found.append(ranked(parameters, measured, options.clock, options.results.resolve()))
        print(json.dumps(found[-1]), flush=True)
        scratch = options.out.with_name(options.out.name + ".tmp")
        scratch.write_text("".join(json.dumps(row) + "\n" for row in found))
        scratch.replace(options.out)
    good = [row for row in found if row["error"] is None]
    print(f"{sum(row['close'] for row in good)} of {len(good)} choices within 3 % of the best")


if __name__ == "__main__":
    main()
