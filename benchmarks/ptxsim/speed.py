"""Speed of ptxsim on one core: ALU code, and NVIDIA's MLA decode FP16.

The latter has batch 1, kv 1024, split 4. `PYTHONPATH=tests:tests/ptxsim python -m benchmarks.ptxsim.speed [FOLDER]`
prints one line per measurement. FOLDER is a compiled mla_fp16 (a folder with kernel.o and kernel.ptx, such as the tests
leave in results/ptxsim/mla_fp16); without it only ALU code is timed.
"""

import resource
import sys
import time
from pathlib import Path
from typing import Any

import ptxsim

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"
STEP = """add.s32 %r1, %r1, %r2; xor.b32 %r2, %r2, %r3; shl.b32 %r4, %r1, 3; mad.lo.s32 %r3, %r4, %r2, %r1;
and.b32 %r5, %r3, 1023;
mul.f32 %f1, %f1, %f2; add.f32 %f2, %f2, %f3; sub.s32 %r2, %r3, %r5; """


def alu(threads: int, loops: int = 300) -> float:
    """Return warp instructions per second of a loop of 64 arithmetic instructions."""
    body = (
        f"{HEAD}.visible .entry k()\n{{.reg .pred %p<2>; .reg .b32 %r<9>; .reg .f32 %f<4>;\n"
        "mov.u32 %r1, %tid.x; mov.u32 %r2, 7;"
        "mov.u32 %r3, 9; mov.b32 %f1, 0f3F800001; mov.b32 %f2, 0f3F800000; mov.b32 %f3, 0f00800000; mov.u32 %r8, 0;\n"
        f"L: {STEP * 8} add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, {loops}; @%p1 bra L; ret; }}"
    )
    return _rate(body, threads, "warp_instructions")


def mma(threads: int, loops: int = 200) -> float:
    """Return floating-point operations per second of a loop of dependent mma.sync m16n8k16."""
    d = "{%f1, %f2, %f3, %f4}"
    body = (
        f"{HEAD}.visible .entry k() {{.reg .pred %p<2>; .reg .b32 %r<9>; .reg .f32 %f<5>; mov.u32 %r1, %tid.x;\n"
        "mad.lo.u32 %r1, %r1, 0x00230023, 0x38003811; mov.u32 %r8, 0;"
        + "".join(f"mov.b32 %f{n}, 0f00000000;" for n in range(1, 5))
        + f"L: mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d}, {{%r1, %r1, %r1, %r1}}, {{%r1, %r1}}, {d};"
        f" add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, {loops}; @%p1 bra L; ret; }}"
    )
    return _rate(body, threads, "mma_flops", checks=())


def _rate(text: str, threads: int, count: str, **options: Any) -> float:
    """Return a count per processor second of kernel `k`, in the best of four runs."""
    launch = ptxsim.launch(ptxsim.Module.from_text(text), "k", (1,), (threads,), ())
    rates = []
    for _ in range(4):  # the first run also compiles; CPU time, so that other programs on the core do not count
        start = time.process_time()
        result = ptxsim.run(launch, schedule="eager", **options)
        rates.append(getattr(result.counts[0], count) / (time.process_time() - start))
    return max(rates)


def main() -> None:
    for threads in (32, 128, 512):
        print(f"ALU code, {threads:3d} threads in step: {alu(threads) / 1e6:6.2f} million warp instructions/s")
        print(f"mma.sync, {threads:3d} threads in step: {mma(threads) / 1e6:6.1f} Mflop/s")
    if len(sys.argv) > 1:
        import torch
        from test_examples import mla_capture, mla_inputs, mla_reference

        torch.set_num_threads(1)
        x = mla_inputs(1, 1024, 4)
        start = time.perf_counter()
        launches = mla_capture(Path(sys.argv[1]), x)
        ready = time.perf_counter() - start
        for checks in ((), ptxsim.DEFAULT_CHECKS):
            start = time.process_time()
            result = ptxsim.run(launches, schedule="random", checks=checks)
            cpu = time.process_time() - start
            error = float((x["o"][:, :, 0].float() - mla_reference(x)[0]).abs().max())
            n = sum(c.warp_instructions for c in result.counts)
            print(
                f"MLA decode FP16 b1 kv1024 split4, checks {'on ' if checks else 'off'}: {cpu:5.1f} s of CPU, "
                f"{result.seconds:5.1f} s of wall time, {n} warp "
                f"instructions, largest error {error:.1e}"
            )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"parse and capture: {ready:.1f} s; peak memory {peak:.2f} GiB")


if __name__ == "__main__":
    main()
