"""Ask nvMatmulHeuristics which of the tiles in variants.jsonl it would choose, without a GPU.

    pip install nvidia-matmul-heuristics==0.1.0.27
    python -m benchmarks.prediction.nvmatmul

Of its candidates for CUTLASS 3 on an H200, the first with a tile that was timed counts. Their order is its own.
"""

import json
import re
from pathlib import Path

from cutesnake.model import record

FOLDER = Path(__file__).parent
PRECISIONS = {"fp8": "QST", "bf16": "TST", "fp16": "HSS"}  # A and B, sums, D
CANDIDATES = 512
PRODUCTS = ("gemm_blockwise", "tensor_products", "gemm_epilogue")  # one product a call


def main() -> None:
    from nvMatmulHeuristics import (
        NvMatmulHeuristicsFlags,
        NvMatmulHeuristicsInterfaceEx,
        NvMatmulHeuristicsMatmulLayout,
        NvMatmulHeuristicsNvidiaGpu,
        NvMatmulHeuristicsTarget,
    )

    tiles: dict[tuple[str, str], dict[tuple[int, int], str]] = {}
    for row in map(json.loads, (FOLDER / "variants.jsonl").read_text().splitlines()):
        if row["kernel"] != "cute_sm90" or row["operator"] not in PRODUCTS:
            continue
        m, n = re.findall(r"(\d+)x(\d+)_o", row["variant"])[0]
        tiles.setdefault((row["operator"], row["workload"]), {})[int(m), int(n)] = row["variant"]
    heuristics = NvMatmulHeuristicsInterfaceEx(
        backend=NvMatmulHeuristicsTarget.CUTLASS3,
        flags=NvMatmulHeuristicsFlags.PERF_MODEL_BASED_AUTO_TUNING,
        gpu=NvMatmulHeuristicsNvidiaGpu.H200_SXM,
    )
    lines = []
    for (operator, workload), timed in tiles.items():
        sizes = (int(re.findall(rf"{name}(\d+)_", workload)[0]) for name in "mnk")
        problem = heuristics.makeNvMatmulHeuristicsProblem(*sizes, NvMatmulHeuristicsMatmulLayout.TN_ROW_MAJOR)
        precision = PRECISIONS[workload.rpartition("_")[2]]
        ranked = [one["kernel"] for one in heuristics.get(problem, CANDIDATES, precision=precision)]
        chosen = next(key for one in ranked if (key := (one.cta_tile_m, one.cta_tile_n)) in timed)
        first = f"{ranked[0].cta_tile_m}x{ranked[0].cta_tile_n}"
        lines.append({"operator": operator, "workload": workload, "variant": timed[chosen], "first": first})
    record.write_text(FOLDER / "nvmatmul.jsonl", "".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
