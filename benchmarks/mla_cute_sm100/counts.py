"""What `cute_sm100` and NVIDIA's MLA decode do in one launch, counted by ptxsim.

    python -m benchmarks.mla_cute_sm100.counts > counts.json
    python -m benchmarks.mla_cute_sm100.counts --table counts.json

Batch 1, 128 heads, 1,024 keys, random numbers; this project's kernel by one pair of CTAs, or by the pairs of one
cluster; NVIDIA's kernel without a split. `a_tile` is what a tile of 128 keys adds, by a second launch of 2,048 keys.
Builds are taken from results/, or made. Some 20 s of a processor.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import ptxsim
from benchmarks.mla_cute_sm100.against_nvidia import NVIDIAS
from cutesnake.model.contract import Variant
from cutesnake.stages.measure.case import Case
from cutesnake.stages.predict.prediction import caught
from kernels.mla_decode import cute_sm100, operator
from kernels.mla_decode.cute_sm100 import sizes as layout
from ptxsim.timing import code_of
from tests.builds import build
from tests.sm100_runs import captured

TARGET, KEYS = "sm_100a", 1024
OWN = {
    "fp16": "fp16_softmax8",
    "fp16, four pairs": "fp16_pairs4",
    "fp8": "fp8_softmax8",
    "fp8, in place": "fp8_in_place",
    "fp8, four pairs": "fp8_pairs4",
}
FULL = 296  # requests that NVIDIA's kernel does not split
WARP_LANES = 32
SENT, STORES = "st.async.shared::cluster.mbarrier::complete_tx::bytes", ("cp.async.bulk.tensor.3d.global",)


def own_launch(variant: str, keys: int) -> tuple[ptxsim.Launch, operator.Workload, Path]:
    workload = operator.Workload(1, keys, variant.partition("_")[0])
    result = next(v for v in cute_sm100.variants(workload, TARGET) if v.id == variant)
    inputs, outputs = operator.make_inputs(workload, 0, "cpu"), operator.make_outputs(workload)
    processors = layout.PAIR_CTAS * result.params.get("pairs", 1)
    folder = build("mla_decode", "cute_sm100", TARGET, result)
    return captured(folder, workload, inputs, outputs, processors)[0], workload, folder


def nvidias(dtype: str, keys: int) -> tuple[ptxsim.Launch, operator.Workload, Path]:
    workload, name = operator.Workload(1, keys, dtype), f"cutlass_{dtype}"
    result: Variant = NVIDIAS[dtype].variants(operator.Workload(FULL, keys, dtype), TARGET)[0]
    folder = build("mla_decode", name, TARGET, result)
    chosen = {"id": result.id, "params": result.params}
    launches, _ = caught(Case("predict", "mla_decode", name, TARGET, chosen, asdict(workload), str(folder)))
    return launches[0], workload, folder


def counted(launch: ptxsim.Launch, workload: operator.Workload, folder: Path) -> dict[str, Any]:
    result = ptxsim.run(launch, "eager", checks=(), track=True).counts[0]
    need = operator.cost(workload)

    def ops(*beginnings: str) -> int:
        return sum(n for op, n in result.opcodes.items() if op.startswith(beginnings))

    code = code_of(launch.name, folder / "kernel.cubin")
    assert code is not None
    sent = WARP_LANES * (16 * ops(f"{SENT}.v4") + 4 * ops(f"{SENT}.b32"))
    return {
        "products": result.products,
        "flops": result.mma_flops / need.flops,
        "bytes_once": (result.global_read_unique_bytes or 0) / need.bytes_read,
        "bytes_read": result.global_read_bytes,
        "loads": ops("cp.async.bulk.tensor") - ops(*STORES),
        "warp_instructions": result.warp_instructions,
        "tmem_loads": ops("tcgen05.ld"),
        "tmem_stores": ops("tcgen05.st"),
        "commits": ops("tcgen05.commit"),
        "polls": ops("mbarrier.try_wait"),
        "waits": result.barrier_waits,
        "stores": ops("st.global"),
        "sent_kb": round(sent / 1024 / launch.grid[0], 1),
        "registers": code.registers,
        "shared_bytes": launch.dynamic_shared,
    }


def row(make: Any, name: str) -> dict[str, Any]:
    """Return the counts of a launch, and what a further tile adds."""
    one, two = make(name, KEYS), make(name, 2 * KEYS)
    first, second, tiles = counted(*one), counted(*two), KEYS // layout.TILE_KEYS
    cache = operator.DTYPES[one[1].dtype] * layout.WIDTH * KEYS
    more = {key: (second[key] - first[key]) / tiles for key in ("loads", "commits", "waits")}
    return {**first, "a_tile": {**more, "cache": round((second["bytes_read"] - first["bytes_read"]) / cache, 3)}}


def table(result: dict[str, dict[str, Any]]) -> str:
    """Return the main counts in Markdown, a column for each kernel in its default variant."""
    shown = {name: counts for name, counts in result.items() if "," not in name}
    lines = {
        "loads by TMA": lambda x: f"{x['loads']}",
        "commits": lambda x: f"{x['commits']}",
        "waits at barriers": lambda x: f"{x['waits']:,}",
        "warp instructions": lambda x: f"{x['warp_instructions']:,}",
        "tensor-memory loads, stores": lambda x: f"{x['tmem_loads']}, {x['tmem_stores']}",
        "global stores by threads": lambda x: f"{x['stores']}",
        "registers a thread": lambda x: f"{x['registers']}",
        "shared bytes of a CTA": lambda x: f"{x['shared_bytes']:,}",
    }
    head = "| whole launch | " + " | ".join(shown) + " |\n|" + "---|" * (1 + len(shown))
    rows = [f"| {name} | " + " | ".join(cell(x) for x in shown.values()) + " |" for name, cell in lines.items()]
    return "\n".join([head, *rows])


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        print(table(json.loads(Path(sys.argv[2]).read_text())))
    else:
        made = {name: row(own_launch, variant) for name, variant in OWN.items()}
        made |= {f"NVIDIA's {dtype}": row(nvidias, dtype) for dtype in NVIDIAS}
        print(json.dumps(made, indent=1))
