"""PTX text of timed kernels, and how it becomes machine code.

Every kernel has the same frame: it reads its parameters, prepares (`setup`), meets at a barrier, reads %clock64 and
%globaltimer, runs `body` n times, drains, reads both again, and lane 0 of each warp writes the four stamps and %smid.
The host runs it with two values of n and takes the slope, so that everything outside the loop cancels.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from pathlib import Path

from cuda.pathfinder import find_nvidia_binary_utility

HEADER = ".version 8.6\n.target sm_90a\n.address_size 64\n"
SHARED = ".extern .shared .align 1024 .b8 dynamic[];\n"
ARCHITECTURE = "sm_90a"
STAMPS = 5  # 64-bit words per warp: clock before and after, global timer before and after, number of the SM

FRAME = """
.visible .entry {name}({parameters}.param .u64 p_out, .param .u64 p_sink, .param .u32 p_n, .param .u64 p_a,
    .param .u64 p_b, .param .u32 p_c, .param .u32 p_d, .param .u32 p_e)
{{
  .reg .pred %done, %first, %p, %q;
  .reg .b32 %thread, %lane, %warp, %cta, %threads, %n, %c, %d, %e, %base, %sm, %sink, %i, %j;
  .reg .b64 %out, %address, %a, %b, %t0, %t1, %g0, %g1, %wide;
  ld.param.u64 %out, [p_out];  ld.param.u32 %n, [p_n];  ld.param.u64 %a, [p_a];  ld.param.u64 %b, [p_b];
  ld.param.u32 %c, [p_c];  ld.param.u32 %d, [p_d];  ld.param.u32 %e, [p_e];
  mov.u32 %thread, %tid.x;  mov.u32 %threads, %ntid.x;  mov.u32 %cta, %ctaid.x;  mov.u32 %sm, %smid;
  and.b32 %lane, %thread, 31;  shr.u32 %warp, %thread, 5;  mov.u32 %sink, 0;
  setp.eq.u32 %first, %thread, 0;
  {base}
  {setup}
  {meet}
  {select}
  mov.u64 %g0, %globaltimer;  mov.u64 %t0, %clock64;
LOOP:
  {body}
  sub.u32 %n, %n, 1;  setp.ne.u32 %done, %n, 0;  @%done bra LOOP;
  {drain}
  mov.u64 %t1, %clock64;  mov.u64 %g1, %globaltimer;
  {after}
  {keep}
  setp.ne.u32 %p, %lane, 0;  @%p bra END;
  shr.u32 %i, %threads, 5;  mad.lo.u32 %i, %i, %cta, %warp;  mul.wide.u32 %wide, %i, {stride};
  add.u64 %address, %out, %wide;  cvt.u64.u32 %wide, %sm;
  st.global.u64 [%address], %t0;  st.global.u64 [%address+8], %t1;
  st.global.u64 [%address+16], %g0;  st.global.u64 [%address+24], %g1;  st.global.u64 [%address+32], %wide;
END:
  {leave}
  ret;
}}
"""
KEEP = """ld.param.u64 %address, [p_sink];  mul.wide.u32 %wide, %thread, 4;  add.u64 %address, %address, %wide;
  st.global.u32 [%address], %sink;"""
CLUSTER_BARRIER = "barrier.cluster.arrive.release.aligned;  barrier.cluster.wait.acquire.aligned;"


def timed(
    name: str,
    body: str,
    *,
    setup: str = "",
    select: str = "",
    drain: str = "",
    after: str = "",
    tensor_map: bool = False,
    cluster: bool = False,
    keep: bool = True,
) -> str:
    """Return a kernel in the frame above.

    `select` runs after the barrier and may send threads to END; `after` runs behind the second reading of the clock.
    `keep` stores %sink, so that what went into it is not optimised away; all CTAs store to the same few lines, which
    costs time where there are many. A kernel for clusters meets, and leaves, at the cluster's barrier.
    """
    return FRAME.format(
        name=name,
        parameters=".param .align 64 .b8 p_map[128], " if tensor_map else "",
        base="mov.u32 %base, dynamic;",
        setup=setup,
        meet=CLUSTER_BARRIER if cluster else "bar.sync 0;",
        select=select,
        body=body,
        drain=drain,
        after=after,
        keep=KEEP if keep else "",
        leave="barrier.cluster.arrive.release;  barrier.cluster.wait.acquire;" if cluster else "",
        stride=8 * STAMPS,
    )


def module(kernels: list[str]) -> str:
    """Return the text of a module with these kernels."""
    return HEADER + SHARED + "".join(kernels)


def registers(kind: str, prefix: str, count: int) -> str:
    """Return the declaration of `count` registers prefix0, prefix1 and so on."""
    return f".reg .{kind} {prefix}<{count}>;"


def lines(template: str, count: int, **lists: list[str]) -> str:
    """Repeat `template` `count` times with {i} and the i-th entry of each list, cyclically."""
    return "\n  ".join(
        template.format(i=i, **{key: values[i % len(values)] for key, values in lists.items()}) for i in range(count)
    )


def find_ptxas() -> str | None:
    """Return the environment's or the PATH's ptxas, or None: the driver compiles."""
    return find_nvidia_binary_utility("ptxas") or shutil.which("ptxas")


def assemble(text: str, folder: Path, ptxas: str | None = None) -> Path | None:
    """Return the cubin of a module, made once per text in `folder`.

    It is None where there is no ptxas and no cubin yet. RuntimeError with ptxas's words if it refuses the text, or says
    that it serialises a wgmma.
    """
    target = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.cubin"
    if target.exists():
        return target
    ptxas = ptxas or find_ptxas()
    if ptxas is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        source, made = Path(scratch) / "module.ptx", Path(scratch) / "module.cubin"
        source.write_text(text)
        command = [ptxas, "-arch", ARCHITECTURE, str(source), "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        message = (done.stdout + done.stderr).replace(str(source), "module.ptx")
        if done.returncode or "serializ" in message:
            raise RuntimeError(f"ptxas: {message.strip()[:2000]}")
        made.replace(target)
    return target
