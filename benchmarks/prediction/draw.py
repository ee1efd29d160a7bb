"""Random kernels and sizes, to be predicted before a GPU times them.

They are drawn from the catalogue's sweeps by a seed.

    python -m benchmarks.prediction.draw --seed 10 --count 50 --out cases.json --sweeps cases.yaml

The rule, written down before anything was predicted by it: operators come in an order drawn by the seed, again and
again, until there are enough cases. Each time one entry of the operator's sweep is drawn, one of each of its lists, and
a dtype; sizes are multiplied by a factor drawn for each from FACTORS, down to whole multiples of 64 from 64 on; of the
kernels in CuTe DSL and cuTile that take the workload on sm_90a one is drawn, and one of its variants there. What
is refused, was measured already, has been drawn before, or has more than MOST_FLOPS or MOST_BYTES is drawn again.
"""

import argparse
import dataclasses
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from benchmarks.prediction.cases import DSLS, NamedCase, recorded
from cutesnake.model.catalog import load_kernel, load_operator, make_workload
from cutesnake.planning.sweep import Sweep, make_sweep, read_sweep

ROOT = Path(__file__).resolve().parent.parent.parent

TARGET = "sm_90a"
SIZES = ("m", "n", "k", "rows", "columns", "length", "kv_length", "batch")
FACTORS = (1, 3 / 4, 1 / 2, 3 / 8, 1 / 4, 3 / 16, 1 / 8)
GRAIN = 64
MOST_FLOPS, MOST_BYTES = 8e10, 2e8
TRIES = 200  # of an operator, in a round
ALSO = {"gemm_epilogue": {"activation": ["identity", "relu", "silu"]}}  # what a sweep leaves at its default


def operators() -> list[str]:
    """Those with a kernel in CuTe DSL or cuTile for the target."""
    result = []
    for path in sorted((ROOT / "kernels").glob("*/sweep.yaml")):
        sweep = make_sweep(path.parent.name, read_sweep(path.parent.name, {}))
        if any(_drawable(sweep.operator, kernel) for kernel in sweep.kernels):
            result.append(sweep.operator)
    return result


def _drawable(operator: str, kernel: str) -> bool:
    module = load_kernel(operator, kernel)
    return module.DSL in DSLS and TARGET in module.TARGETS


def draw(sweep: Sweep, chance: random.Random) -> NamedCase | None:
    """Draw a case of an operator; None where it is refused, or too large."""
    entry = {**ALSO.get(sweep.operator, {}), **chance.choice(sweep.workload_entries)}
    one = {key: chance.choice(value) if isinstance(value, list) else value for key, value in entry.items()}
    for key in SIZES:
        if isinstance(one.get(key), int):
            size = int(one[key] * chance.choice(FACTORS))
            one[key] = max(size // GRAIN * GRAIN if size >= GRAIN else size, 1)
    one["dtype"] = chance.choice(sweep.dtypes_for(TARGET))
    kernels = [kernel for kernel in sweep.kernels if _drawable(sweep.operator, kernel)]
    try:
        workload = make_workload(sweep.operator, one)
    except (TypeError, ValueError):
        return None
    cost = load_operator(sweep.operator).cost(workload)
    taking = [kernel for kernel in kernels if load_kernel(sweep.operator, kernel).supports(workload) is None]
    if not taking or cost.flops > MOST_FLOPS or cost.bytes > MOST_BYTES:
        return None
    kernel = chance.choice(taking)
    variants = load_kernel(sweep.operator, kernel).variants(workload, TARGET)
    if not variants:
        return None
    variant = chance.choice(variants)
    named = {"id": variant.id, "params": dict(variant.params)}
    return NamedCase(sweep.operator, kernel, named, workload.id, dataclasses.asdict(workload))


def cases(seed: int, count: int, known: set[str]) -> Iterator[NamedCase]:
    chance, seen = random.Random(seed), set(known)
    names = operators()
    sweeps = {name: make_sweep(name, read_sweep(name, {})) for name in names}
    chance.shuffle(names)
    while count:
        before = count
        for name in names:
            for _ in range(TRIES if count else 0):
                result = draw(sweeps[name], chance)
                if result is not None and result.name not in seen:
                    seen.add(result.name)
                    count -= 1
                    yield result
                    break
        if count == before:
            raise SystemExit("draw.py: no operator has another case; ask for fewer with --count")


def configuration(drawn: list[NamedCase]) -> dict[str, Any]:
    """Return a configuration that builds the cases, and others."""
    sweeps: dict[str, Any] = {}
    for case in drawn:
        sweep = sweeps.setdefault(case.operator, {"kernels": [], "dtypes": [], "variants": "all", "workloads": []})
        for key, value in (("kernels", case.kernel), ("dtypes", case.parameters["dtype"])):
            if value not in sweep[key]:
                sweep[key].append(value)
        entry = {key: value for key, value in case.parameters.items() if key != "dtype"}
        if entry not in sweep["workloads"]:
            sweep["workloads"].append(entry)
    names = list(sweeps)
    return {"targets": [TARGET], "stages": [], "simulation": {"extent": "none"}, "operators": names, "sweeps": sweeps}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument(
        "--sets", type=Path, nargs="+", default=[ROOT / "recorded", Path(__file__).with_name("measured")]
    )
    parser.add_argument("--out", type=Path, required=True, help="the cases, in the order in which they were drawn")
    parser.add_argument("--sweeps", type=Path, required=True, help="a configuration that builds them")
    options = parser.parse_args()
    known = {case.name for path in options.sets for case in recorded(path)}
    drawn = list(cases(options.seed, options.count, known))
    lines = ",\n".join(json.dumps(dataclasses.asdict(case)) for case in drawn)
    options.out.write_text(f"[\n{lines}\n]\n")
    message = f"# Builds the cases of {options.out.name} (draw.py, seed {options.seed}), and more.\n"
    options.sweeps.write_text(message + yaml.safe_dump(configuration(drawn), sort_keys=False, default_flow_style=None))
    for case in drawn:
        print(case.name)


if __name__ == "__main__":
    main()
