"""Launches of a `cute_sm100` build in the simulator, and checks of their results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

import ptxsim
from builds import build
from kernels.mla_decode import cute_sm100, operator
from kernels.mla_decode.cute_sm100 import sizes as layout
from kernels.mla_decode.cute_sm100.schedule import make_schedule
from ptxsim.timing import code_of

KEYS = 1024  # of the request whose launch is counted
SENT, STORES = "st.async.shared::cluster.mbarrier::complete_tx::bytes", ("cp.async.bulk.tensor.3d.global",)
CHECKS = (*ptxsim.DEFAULT_CHECKS, "unwaited-ld")


def hide_what_no_request_owns(inputs: operator.Inputs) -> None:
    """NaN behind every request's end, and page-table entries there that lie outside the cache."""
    owned = torch.zeros(inputs.kv_cache.shape[:2], dtype=torch.bool)
    for request, length in enumerate(inputs.kv_lengths.tolist()):
        pages = -(-length // operator.PAGE)
        for page in range(pages):
            owned[inputs.page_table[request, page], : length - operator.PAGE * page] = True
        inputs.page_table[request, pages:] = 0x7FFFFFF0
    inputs.kv_cache.view(torch.uint8)[~owned] = 0xFF


def faults(
    folder: Path,
    workload: operator.Workload,
    schedules: Iterable[tuple[str, int]],
    lengths: Sequence[int] | None = None,
    processors: int = 148,
    distribution: str = "ragged",
) -> Iterator[str]:
    """Run kernel.o in `folder` under each schedule.

    Yields in words every finding and every wrong output.
    """
    inputs = operator.make_inputs(workload, 0, "cpu", distribution)
    if lengths is not None:
        inputs.kv_lengths.copy_(torch.tensor(lengths))
    hide_what_no_request_owns(inputs)
    expected, yardstick = operator.reference(inputs, workload), operator.same_precision(inputs, workload)
    for order, seed in schedules:
        outputs = operator.make_outputs(workload)
        launches = captured(folder, workload, inputs, outputs, processors)
        result = ptxsim.run(launches, order, seed, checks=CHECKS)
        yield from (f"{order} {seed}: {result}" for result in (*result.findings, *wrong(outputs, expected, yardstick)))


def params_of(folder: Path) -> dict[str, Any]:
    """Of the variant that was built there.

    A build of an edited copy says it, too.
    """
    return json.loads((folder / "build.json").read_text())["variant"]["params"]


def captured(
    folder: Path,
    workload: operator.Workload,
    inputs: operator.Inputs,
    outputs: operator.Outputs,
    processors: int,
) -> list[ptxsim.Launch]:
    """What one call launches on a GPU of so many multiprocessors."""
    module = ptxsim.Module.from_file(folder / "kernel.ptx")
    rows = workload.query_tokens * workload.heads
    pairs = params_of(folder).get("pairs", 1)
    schedule = make_schedule(inputs.kv_lengths.tolist(), rows, processors, inputs.q.element_size(), pairs)
    arguments = cute_sm100.arguments(workload, inputs, outputs, schedule)
    stream = ptxsim.Pointer(torch.zeros(1), "stream")
    return ptxsim.capture(folder / "kernel.o", cute_sm100.FUNCTION, (*arguments, stream), module, sm_count=processors)


def unawaited_releases(folder: Path, workload: operator.Workload) -> Iterator[str]:
    """Commits that release memory and that nobody waits for before the CTA ends, in words.

    No schedule shows them: the cluster's last barrier comes after the last commit, and the simulator's commits arrive
    in order, which PTX does not promise. So waits are counted, in a call that has work for one pair: each CTA waits for
    a place before every load to it, and once more in the end.
    """
    inputs, outputs = operator.make_inputs(workload, 0, "cpu"), operator.make_outputs(workload)
    launches = captured(folder, workload, inputs, outputs, processors=layout.PAIR_CTAS)
    coverage = ptxsim.run(launches, "eager", checks=()).coverage[0]
    for barrier in coverage.barriers.values():
        if barrier.room and barrier.waits < layout.PAIR_CTAS * (barrier.phases + 1):
            yield (
                f"the mbarrier at {barrier.offset} has {barrier.phases} phases in each CTA, of which {barrier.waits} "
                f"waits in both see not all"
            )


def wrong(outputs: operator.Outputs, expected: operator.Outputs, yardstick: operator.Outputs) -> Iterator[str]:
    """List rows without keys that are not 0 and +inf, and rows too inaccurate."""
    seen = expected.lse.isfinite()
    if not ((outputs.out[~seen] == 0).all() and (outputs.lse[~seen] == float("inf")).all()):
        yield "rows without keys have another output than 0 and +inf"
    if not seen.any():
        return
    error, allowed = (
        (got.out[seen].float() - expected.out[seen]).norm() / expected.out[seen].norm() for got in (outputs, yardstick)
    )
    if not error <= 2 * allowed + 1e-6:
        yield f"the output is off by {error:.2e}, PyTorch's by {allowed:.2e}"
    distance = (outputs.lse[seen] - expected.lse[seen]).abs().max()
    if not distance < 1e-4:
        yield f"the log-sum-exp is off by {distance:.2e}"


def counted(variant: str) -> dict[str, Any]:
    """What a launch for one request does, by one cluster."""
    workload = operator.Workload(1, KEYS, variant.partition("_")[0])
    chosen = next(v for v in cute_sm100.variants(workload, "sm_100a") if v.id == variant)
    inputs, outputs = operator.make_inputs(workload, 0, "cpu"), operator.make_outputs(workload)
    processors = layout.PAIR_CTAS * chosen.params.get("pairs", 1)
    folder = build("mla_decode", "cute_sm100", "sm_100a", chosen)
    launch = captured(folder, workload, inputs, outputs, processors)[0]
    result = ptxsim.run(launch, "eager", checks=(), track=True).counts[0]
    need, code = operator.cost(workload), code_of(launch.name, folder / "kernel.cubin")
    assert code is not None

    def ops(*beginnings: str) -> int:
        return sum(n for op, n in result.opcodes.items() if op.startswith(beginnings))

    sent = 32 * (16 * ops(f"{SENT}.v4") + 4 * ops(f"{SENT}.b32"))
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
