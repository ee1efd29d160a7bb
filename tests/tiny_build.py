"""Builds small enough for a fast test.

Hand-written PTX, assembled by ptxas, described by a build.json.
"""

from __future__ import annotations

import functools
import hashlib
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from cuda.pathfinder import find_nvidia_binary_utility

from cutesnake.model import record

# One of nearly everything that the instruction classes distinguish; never meant to run. Two mbarriers make a
# pipeline of depth 1, 4 + 4 of depth 4; 128 columns of tensor memory; a cluster of 2; 256 threads; 4224 B of shared.
BLACKWELL = """
.version 8.8
.target sm_100a
.address_size 64
.visible .entry everything(.param .u64 pointer)
.reqntid 128, 2, 1
.explicitcluster
.reqnctapercluster 2, 1, 1
{
 .reg .b64 %rd<4>; .reg .b32 %r<16>; .reg .b16 %h<4>; .reg .f32 %f<4>; .reg .pred %p<4>;
 .shared .align 8 .b64 barriers[8]; .shared .align 4 .b32 column; .shared .align 128 .b8 buffer[4096];
 ld.param.u64 %rd1, [pointer];
 mov.u32 %r1, barriers;
 mov.b32 %r8, 1;
 mbarrier.init.shared.b64 [%r1], %r8;
 mbarrier.init.shared.b64 [%r1+8], %r8;
 mbarrier.init.shared.b64 [%r1+16], %r8;
 mbarrier.init.shared.b64 [%r1+24], %r8;
$second:
 add.s32 %r9, %r1, 32;
 mov.b32 %r10, 96;
 mbarrier.init.shared.b64 [%r9], %r10;
 mbarrier.init.shared.b64 [%r9+8], %r10;
 mbarrier.init.shared.b64 [%r1+48], %r10;
 mbarrier.init.shared.b64 [%r1+56], %r10;
$third:
 mov.u32 %r2, column;
 mov.b32 %r3, 128;
 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r2], %r3;
 mov.u32 %r4, buffer;
 mov.u16 %h1, 3;
 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1], 4096, [%r1];
 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r4], 4096;
 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%rd1], [%r4], 4096;
 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r4], [%rd1], 4096, [%r1], %h1;
 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
  [%r4], [%rd1, {%r1, %r1}], [%r1], %h1;
 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r4], [%rd1, {%r1, %r1}], [%r1];
 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, %r1}], [%r4];
 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd1, {%r1, %r1}], [%r4];
 cp.async.bulk.commit_group;
 cp.async.bulk.wait_group 0;
 ld.global.f32 %f1, [%rd1+64];
 ex2.approx.f32 %f2, %f1;
 st.global.f32 [%rd1+64], %f2;
 barrier.cluster.arrive;
 barrier.cluster.wait;
 bar.sync 1, 128;
 ret;
}
"""

# Keeps 64 loaded values alive across a barrier: with few registers it has to spill. `bound` is a directive, or empty.
SPILLING = """
.version 8.8
.target {target}
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry spilling(.param .u64 pointer)
{bound}
{{
 .reg .b64 %rd<4>; .reg .b32 %r<80>;
 .shared .align 4 .b8 static[4096];
 ld.param.u64 %rd1, [pointer];
 {loads}
 mov.u32 %r70, dynamic;
 st.shared.b32 [%r70], %r0;
 bar.sync 0;
 {stores}
 ret;
}}
""".replace("{loads}", "\n ".join(f"ld.volatile.global.b32 %r{i}, [%rd1+{4 * i}];" for i in range(64))).replace(
    "{stores}", "\n ".join(f"st.volatile.global.b32 [%rd1+{4 * i}], %r{i};" for i in range(64))
)


def tool(name: str) -> str:
    path = find_nvidia_binary_utility(name)
    assert path, f"{name} is not installed: pip install -r envs/requirements.txt"
    return path


def assemble(ptx: str, target: str, folder: Path, *options: str) -> str:
    """Write kernel.ptx, kernel.cubin and kernel.sass into `folder`; returns what `ptxas -v` says."""
    cubin, sass, message = _assemble(ptx, target, options)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kernel.ptx").write_text(ptx)
    (folder / "kernel.cubin").write_bytes(cubin)
    (folder / "kernel.sass").write_text(sass)
    return message


@functools.cache  # the tools take a third of a second each: once per kernel, not once per test
def _assemble(ptx: str, target: str, options: tuple[str, ...]) -> tuple[bytes, str, str]:
    with tempfile.TemporaryDirectory() as name:
        source, cubin = Path(name) / "kernel.ptx", Path(name) / "kernel.cubin"
        source.write_text(ptx)
        command = [tool("ptxas"), "-v", f"-arch={target}", *options, "-o", str(cubin), str(source)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        command = [tool("nvdisasm"), "--print-code", str(cubin)]
        sass = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return cubin.read_bytes(), sass, done.stderr


def describe(folder: Path, target: str, **changes: Any) -> Path:
    """Write build.json for what lies in `folder`."""
    files = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name != "build.json"
    }
    build = {
        "stage": "compile",
        "status": "ok",
        "reason": None,
        "provenance": {"created": "2026-11-20T00:00:00+00:00", "python": "3.11", "platform": "Linux x86_64"},
        "operator": "elementwise_add",
        "kernel": "tiny",
        "dsl": "cute",
        "source": "ours",
        "target": target,
        "variant": {"id": "default", "params": {}},
        "symbols": [],
        "function": None,
        "launch": {},
        "compilers": {},
        "options": None,
        "notes": [],
        "files": files,
        "seconds": 0.0,
        "log_tail": "",
        **changes,
    }
    record.write("compile", folder / "build.json", build)
    return folder / "build.json"
