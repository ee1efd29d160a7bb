"""Predictions for a B200, which nobody here has, compared with published times.

    python -m benchmarks.prediction.blackwell RESULTS --out b200.jsonl

RESULTS is a results folder with builds for sm_100a. No parameter of the B200's table was chosen by these figures.
"""

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ptxsim
from cutesnake.model import record
from cutesnake.model.catalog import load_operator
from cutesnake.stages.measure.case import Case
from cutesnake.stages.predict.prediction import captured

MLA = "cutlass PR #3357, examples of 4.6, SM clock locked at 802 MHz"
FMHA = "flashinfer PR #1549; heads, mask and clock not stated"


@dataclass(frozen=True)
class Published:
    """A published value: microseconds, or TFLOP/s; None where nothing was published."""

    operator: str
    kernel: str
    variant: str
    parameters: dict[str, Any]
    clock_mhz: float | None = None
    microseconds: float | None = None
    tflops: float | None = None
    source: str | None = None


def _fmha(batch: int, length: int, tflops: float) -> list[Published]:
    """Return both masks: the publication does not state which was used."""
    return [
        Published(
            "fmha",
            "cutlass_sm100",
            f"bf16_d128_128x128_{'causal' if causal else 'none'}",
            {"batch": batch, "length": length, "heads": 16, "kv_heads": 16, "dtype": "bf16", "causal": causal},
            tflops=tflops,
            source=FMHA,
        )
        for causal in (True, False)
    ]


FIGURES = [
    Published(
        "mla_decode",
        "cutlass_fp16",
        "fp16_direct",
        {"batch": 296, "kv_length": 8192, "dtype": "fp16"},
        802,
        microseconds=751.56,
        source=MLA,
    ),
    Published(
        "mla_decode",
        "cutlass_fp8",
        "fp8_direct",
        {"batch": 296, "kv_length": 8192, "dtype": "fp8"},
        802,
        microseconds=438.68,
        source=MLA,
    ),
    Published("gemm", "cutlass_persistent", "bf16_256x256_c2x1", {"m": 8192, "n": 8192, "k": 8192, "dtype": "bf16"}),
    *_fmha(128, 512, 171.8),
    *_fmha(16, 4096, 691.5),
    *_fmha(4, 16384, 1099.5),
]


def predicted(figure: Published, results: Path) -> dict[str, Any]:
    """Return the row of a value: published, predicted, and the difference."""
    folder = results / "compile" / figure.operator / figure.kernel / "sm_100a" / figure.variant
    variant = json.loads((folder / "build.json").read_text())["variant"]
    case = Case("predict", figure.operator, figure.kernel, "sm_100a", variant, figure.parameters, str(folder))
    began = time.monotonic()
    launches, code = captured(case)
    result = ptxsim.predict(launches, "b200", clock_mhz=figure.clock_mhz, code=code)
    flops = load_operator(figure.operator).cost(case.workload).flops
    row = {
        "case": f"{figure.operator}/{figure.kernel}/{figure.variant}/{case.workload.id}",
        "sm_clock_mhz": result.sm_clock_mhz,
        "predicted_us": round(result.microseconds, 2),
        "predicted_tflops": round(flops / result.microseconds / 1e6, 1),
        "published_us": figure.microseconds,
        "published_tflops": figure.tflops,
        "source": figure.source,
        "assumed": list(result.assumed),
        "seconds": round(time.monotonic() - began, 1),
    }
    if figure.microseconds:
        row["error_percent"] = round(100 * (result.microseconds / figure.microseconds - 1), 1)
    elif figure.tflops:
        row["error_percent"] = round(100 * (figure.tflops / (flops / result.microseconds / 1e6) - 1), 1)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows = []
    for figure in FIGURES:
        try:
            row = predicted(figure, options.results.resolve())
        except Exception as error:  # one figure less; the row says why
            row = {
                "case": f"{figure.operator}/{figure.kernel}/{figure.variant}/{figure.parameters}",
                "error": str(error),
            }
        print(json.dumps(row), flush=True)
        rows.append(row)
    record.write_text(options.out, "".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    main()
