"""Times of `cutile` and FlashMLA, warm, over uniform and ragged lengths.

Ragged ones are compared with the uniform ratio.

    python -m benchmarks.mla_cutile.next to BUILDS RECORD.json

BUILDS is a folder with compile/, as the workflow makes it. Needs an H100 or H200 and the package `flash_mla`. Both
kernels alternate as in `benchmarks/mla_cute_sm90/groups.py`, replay by replay. RECORD.json gets microseconds and the
error against float32; standard output the ratios, FlashMLA's time over `cutile`'s, and ragged rows below FLOOR of
the uniform rows' geometric mean.
"""

import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.mla_cute_sm90 import groups
from cutesnake.stages.load.build import LoadedBuild
from kernels.mla_decode import cutile, flash_mla
from kernels.mla_decode.operator import Workload, make_inputs, make_outputs

FLOOR = 0.85  # of its own uniform ratio, which every ragged row is to reach
GROUPS = {
    "uniform": groups.GROUPS["sweep"],
    "ragged": [
        Workload(batch, length, lengths="ragged")
        for length in (4096, 8192, 16384)
        for batch in (3, 7, 24, 48, 133, 256)
    ],
}


def measure(build: LoadedBuild, work: Workload) -> dict[str, Any]:
    """Microseconds of both kernels, and the relative error of this project's."""
    import torch

    inputs, outputs, stream = make_inputs(work, 1, "cuda"), make_outputs(work, "cuda"), torch.cuda.Stream()
    torch.cuda.synchronize()
    bound = {
        groups.PEER: groups.timed(flash_mla.bind(None, work, inputs, outputs), stream),
        "cutile": groups.timed(cutile.bind(build, work, inputs, outputs), stream),
    }
    groups.warm_in_turn(bound, stream)
    return {
        "workload": work.id,
        **{f"{name}_us": round(statistics.median(one.warm), 2) for name, one in bound.items()},
        "launches": len(bound["cutile"].runner.launches),
        "error": groups.error(bound["cutile"].runner, work, inputs, outputs, stream),
    }


def ratio(row: dict[str, Any]) -> float:
    return row[f"{groups.PEER}_us"] / row["cutile_us"]


def main(builds: Path, record: Path) -> None:
    import torch

    name = cutile.variants(Workload(1, 64), "sm_90a")[0].id
    build = LoadedBuild(builds / "compile" / "mla_decode" / "cutile" / "sm_90a" / name)
    result: dict[str, Any] = {"device": torch.cuda.get_device_name(), "variant": name}
    for title, works in GROUPS.items():
        result[title] = [measure(build, work) for work in works]
        for row in result[title]:
            times = row[f"{groups.PEER}_us"], row["cutile_us"]
            print(row["workload"], *times, f"{ratio(row):.3f} error {row['error']:.1e}")
        ratios = [ratio(row) for row in result[title]]
        print(f"{title}: geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}", flush=True)
        record.write_text(groups.text_of(result) + "\n")
    least = FLOOR * statistics.geometric_mean(map(ratio, result["uniform"]))
    below = [f"{row['workload']} {ratio(row):.3f}" for row in result["ragged"] if ratio(row) < least]
    print(f"{len(below)} of {len(result['ragged'])} ragged rows below {least:.3f}:", *below)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(Path(sys.argv[1]), Path(sys.argv[2]))
