"""What a call of MLA decode takes at least, by the clock: a kernel that only moves what none can leave out.

    python benchmarks/mla_cute_sm100/floor.py OUT.jsonl

It looks up where a piece of the cache lies (as every paged kernel has to, before its first load), brings queries and
cache into shared memory, each byte once and to one SM, evenly over all of them, and stores as many bytes as the output
has when the last piece is there. It computes nothing, merges nothing, and has eight warps that keep 144 KB of loads
under way. So whatever computes too takes longer, by the same clock: at least the last keys' products and softmax, and,
where a request's keys are on several SMs, handing over what they have. OUT gets a line of JSON for each of the small
rows of beside_nvidia.py: the least time of several grids, cold and warm, and what the products alone would keep all
tensor cores busy. `beside_nvidia.py --floor` makes a table of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "workflow/scripts"), str(ROOT / "benchmarks/mla_cute_sm100")]

import beside_nvidia  # noqa: E402

import ptxsim  # noqa: E402
from benchmarks.microbenchmarks.kernel import find_ptxas  # noqa: E402
from cutesnake.model.catalog import load_operator  # noqa: E402
from kernels.mla_decode.operator import DTYPES, PAGE, Workload  # noqa: E402
from ptxsim.timing.device import DeviceModel  # noqa: E402

WARPS, PIECE = 8, 18432  # bytes that a warp has under way: 16 or 32 rows of the cache
GRIDS = (16, 32, 64, 96, 128, 148)
TEXT = f"""
.version 8.7
.target {beside_nvidia.TARGET}
.address_size 64
.extern .shared .align 1024 .b8 dynamic[];
.visible .entry moves(.param .u64 p_places, .param .u64 p_cache, .param .u64 p_out, .param .u32 p_pieces,
    .param .u32 p_stored)
{{
  .reg .pred %p;
  .reg .b32 %thread, %warp, %cta, %ctas, %pieces, %stored, %base, %bar, %slot, %index, %step, %piece, %phase;
  .reg .b64 %places, %cache, %out, %address;
  mov.u32 %thread, %tid.x;  mov.u32 %cta, %ctaid.x;  mov.u32 %ctas, %nctaid.x;  mov.u32 %base, dynamic;
  ld.param.u64 %places, [p_places];  ld.param.u64 %cache, [p_cache];  ld.param.u64 %out, [p_out];
  ld.param.u32 %pieces, [p_pieces];  ld.param.u32 %stored, [p_stored];
  shr.u32 %warp, %thread, 5;  and.b32 %index, %thread, 31;
  setp.ne.u32 %p, %index, 0;  @%p bra MEET;
  mad.lo.u32 %index, %cta, {WARPS}, %warp;  mul.lo.u32 %step, %ctas, {WARPS};
  setp.ge.u32 %p, %index, %pieces;  @%p bra MEET;
  mad.wide.u32 %address, %index, 4, %places;  ld.global.u32 %piece, [%address];
  mad.lo.u32 %bar, %warp, 8, %base;  mad.lo.u32 %slot, %warp, {PIECE}, %base;  add.u32 %slot, %slot, 1024;
  mbarrier.init.shared::cta.b64 [%bar], 1;  fence.proxy.async.shared::cta;  mov.u32 %phase, 0;
LOAD:
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bar], {PIECE};
  mad.wide.u32 %address, %piece, {PIECE}, %cache;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%slot], [%address], {PIECE}, [%bar];
  add.u32 %index, %index, %step;
  setp.lt.u32 %p, %index, %pieces;
  mad.wide.u32 %address, %index, 4, %places;  @%p ld.global.u32 %piece, [%address];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p, [%bar], %phase;  @!%p bra WAIT;
  xor.b32 %phase, %phase, 1;
  setp.lt.u32 %p, %index, %pieces;  @%p bra LOAD;
MEET:
  barrier.cta.sync 0;
  setp.ne.u32 %p, %thread, 0;  @%p bra END;
  mad.wide.u32 %address, %cta, %stored, %out;  add.u32 %slot, %base, 1024;
  cp.async.bulk.global.shared::cta.bulk_group [%address], [%slot], %stored;
  cp.async.bulk.commit_group;  cp.async.bulk.wait_group 0;
END:
  ret;
}}
"""


def places(workload: Workload) -> torch.Tensor:
    """The numbers of the pieces that a call needs: queries, and of a request's last page what lies before its end."""
    row = (workload.latent + workload.rope) * DTYPES[workload.dtype]
    of_page, pages = PAGE * row // PIECE, -(-workload.kv_length // PAGE)
    needed = -(-workload.kv_length * row // PIECE)
    queries = torch.arange(workload.batch * workload.heads * row // PIECE)
    order = torch.randperm(workload.batch * pages, generator=torch.Generator().manual_seed(0)) * of_page
    pieces = (order.view(workload.batch, pages, 1) + torch.arange(of_page)).view(workload.batch, -1)[:, :needed]
    return torch.cat([queries, len(queries) + pieces.flatten()]).to(torch.int32)


def launch(workload: Workload, ctas: int) -> ptxsim.Launch:
    pieces = places(workload)
    cache = torch.zeros((int(pieces.max()) + 1) * PIECE, dtype=torch.uint8)
    stored = -(-workload.batch * workload.heads * workload.latent * DTYPES[workload.dtype] // ctas)
    stored = 16 * -(-stored // 16)
    out = torch.zeros(stored * ctas, dtype=torch.uint8)
    arguments, shared = (pieces, cache, out, len(pieces), stored), 1024 + max(WARPS * PIECE, stored)
    module = ptxsim.Module.from_text(TEXT)
    return ptxsim.launch(module, "moves", (ctas,), (32 * WARPS,), arguments, dynamic_shared=shared)


def row(workload: Workload, cubin: Path) -> dict[str, Any]:
    found: dict[str, list[float]] = {kind: [] for kind in beside_nvidia.KINDS}
    for ctas in GRIDS:
        made, surveys = launch(workload, ctas), dict[int, Any]()
        for kind, times in found.items():
            cache = kind.removesuffix("_us")
            told = ptxsim.predict(made, beside_nvidia.DEVICE, cache=cache, code=cubin, surveys=surveys)
            times.append(round(told.microseconds, 3))
    least = {kind: min(times) for kind, times in found.items()}
    ctas = {kind.replace("us", "ctas"): GRIDS[times.index(least[kind])] for kind, times in found.items()}
    return {
        "workload": workload.id,
        "model": beside_nvidia.model_commit(),
        **least,
        **ctas,
        "products_us": products_us(workload),
    }


def products_us(workload: Workload) -> float:
    f = DeviceModel.load(beside_nvidia.DEVICE).figures
    per_cycle = f.sm_count * f.tcgen05_flops_per_cycle * 2 / DTYPES[workload.dtype]
    return round(load_operator("mla_decode").cost(workload).flops / per_cycle / f.sm_clock_mhz, 3)


def main(out: Path) -> None:
    ptxas = find_ptxas()
    assert ptxas is not None, "there is no ptxas"
    with tempfile.TemporaryDirectory() as folder:
        source, cubin = Path(folder) / "moves.ptx", Path(folder) / "moves.cubin"
        source.write_text(TEXT)
        subprocess.run([ptxas, "-arch", beside_nvidia.TARGET, str(source), "-o", str(cubin)], check=True)
        lines = []
        for workload in beside_nvidia.workloads():
            if workload.batch <= beside_nvidia.SMALL:
                lines.append(json.dumps(row(workload, cubin)))
                print(lines[-1], flush=True)
    out.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
