"""Rank a kernel's variants by their predicted cold time on a B200.

    python -m benchmarks.prediction.spaces RESULTS --out benchmarks/prediction/spaces.jsonl

RESULTS is a results folder with builds of all variants for sm_100a (`variants: all`). Kernels of other operators have
one variant, or are ranked on Hopper by `variants.jsonl`.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import ptxsim
from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, make_workload
from cutesnake.stages.measure.case import Case
from cutesnake.stages.predict.prediction import captured

SPACES: dict[str, tuple[list[str], dict[str, Any]]] = {  # operator -> kernels with a choice, workload
    "async_copies": (["cutile"], {"rows": 1024, "columns": 4096}),
    "rmsnorm": (["tilegym"], {"rows": 4096, "columns": 4096}),
    "reduce": (["cutlass_reduce", "cutile"], {"operation": "sum", "rows": 4096, "columns": 4096}),
    "tutorial_gemm": (["tilegym"], {"m": 2048, "n": 2048, "k": 2048}),
    "gemm_blockscaled": (["cutlass_persistent", "cutile"], {"m": 256, "n": 4096, "k": 7168, "dtype": "nvfp4"}),
    "mla_decode": (["cute_sm100", "cutile"], {"batch": 4, "kv_length": 4096, "dtype": "fp16"}),
    "fmha_mixed_decode": (["cutile"], {"batch": 1, "kv_length": 1024, "dtype": "int8"}),
    "fmha_mixed_prefill": (["cutile"], {"batch": 16, "length": 512, "head_dim": 256, "dtype": "int8"}),
}


def ranked(operator: str, kernel: str, parameters: dict[str, Any], results: Path) -> dict[str, Any]:
    """Return µs of every variant, the default, and what the search took in processor seconds."""
    workload, began = make_workload(operator, parameters), time.process_time()
    variants, times = load_kernel(operator, kernel).variants(workload, "sm_100a"), {}
    for variant in variants:
        folder = results / "compile" / operator / kernel / "sm_100a" / variant.id
        known = {"id": variant.id, "params": dict(variant.params)}
        launches, code = captured(Case("predict", operator, kernel, "sm_100a", known, parameters, str(folder)))
        result = ptxsim.predict(launches, "b200", cache="cold", code=code)
        times[variant.id] = round(result.microseconds, 2)
    row = {"operator": operator, "kernel": kernel, "workload": workload.id, "default": variants[0].id}
    return row | {"cold_us": times, "seconds": round(time.process_time() - began, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = [ranked(op, kernel, p, options.results) for op, (kernels, p) in SPACES.items() for kernel in kernels]
    record.write_text(options.out, "".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
