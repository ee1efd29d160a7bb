"""Racecheck's reports of a buffer passed between warps, by kind of barrier.

The tool is compute-sanitizer's. Four warps pass the buffer to four others.

    python -m benchmarks.racecheck.barriers FILE

Three kernels do the same 64 times: 128 threads write a word each to shared memory, 128 others read a word that another
warp wrote, and only then is the buffer written again. They differ in how one side waits for the other: named barriers
on which one side only arrives (`bar.arrive` and `bar.sync`), named barriers on which both sides wait, and mbarriers.
All are right, by the order that the PTX ISA gives each, and their results are compared with the sums that must come
out. FILE gets the hazards that racecheck reports for each, as JSON. It needs an NVIDIA GPU (sm_80 or newer),
cuda-bindings, numpy, and compute-sanitizer on the PATH or in CUDA_HOME.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

TIMES = 64
HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
.reg .pred %p<8>; .reg .b32 %r<32>; .reg .b64 %d<8>;
.shared .align 8 .b8 buffer[512];
.shared .align 8 .b64 full;
.shared .align 8 .b64 empty;
ld.param.u64 %d0, [out];
mov.u32 %r0, %tid.x;
mov.u32 %r1, buffer; mov.u32 %r12, full; mov.u32 %r13, empty;
setp.ne.u32 %p0, %r0, 0;
@%p0 bra READY;
mbarrier.init.shared.b64 [%r12], 128;
mbarrier.init.shared.b64 [%r13], 128;
READY:
bar.sync 0;
mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0;
setp.ge.u32 %p1, %r0, 128;
@%p1 bra CONSUMER;
shl.b32 %r5, %r0, 2; add.u32 %r5, %r5, %r1;
"""
# A producer writes the buffer and hands it over; before the next write it takes it back. %r3 is the phase of a barrier.
BODY = """PRODUCER:
add.u32 %r6, %r0, %r2;
st.shared.u32 [%r5], %r6;
{hand_over}
{take_back}
add.u32 %r2, %r2, 1; xor.b32 %r3, %r3, 1;
setp.lt.u32 %p2, %r2, {times};
@%p2 bra PRODUCER;
ret;
CONSUMER:
sub.u32 %r7, 255, %r0; shl.b32 %r5, %r7, 2; add.u32 %r5, %r5, %r1;
AGAIN:
{take}
ld.shared.u32 %r6, [%r5];
add.u32 %r4, %r4, %r6;
{give_back}
add.u32 %r2, %r2, 1; xor.b32 %r3, %r3, 1;
setp.lt.u32 %p2, %r2, {times};
@%p2 bra AGAIN;
sub.u32 %r8, %r0, 128; mul.wide.u32 %d1, %r8, 4; add.u64 %d1, %d0, %d1;
st.global.u32 [%d1], %r4;
ret;
}}
"""
ARRIVE = "mbarrier.arrive.shared.b64 _, [{}];"
WAIT = "{0}: mbarrier.test_wait.parity.shared.b64 %p3, [{1}], %r3; @!%p3 bra {0};"
FORMS = {
    "bar.arrive and bar.sync": {
        **{"hand_over": "bar.arrive 1, 256;", "take_back": "bar.sync 2, 256;"},
        **{"take": "bar.sync 1, 256;", "give_back": "bar.arrive 2, 256;"},
    },
    "bar.sync on both sides": {
        **{"hand_over": "bar.sync 1, 256;", "take_back": "bar.sync 2, 256;"},
        **{"take": "bar.sync 1, 256;", "give_back": "bar.sync 2, 256;"},
    },
    "mbarrier": {
        **{"hand_over": ARRIVE.format("%r12"), "take_back": WAIT.format("BACK", "%r13")},
        **{"take": WAIT.format("TAKE", "%r12"), "give_back": ARRIVE.format("%r13")},
    },
}


def ptx(form: str) -> str:
    return HEAD + BODY.format(times=TIMES, **FORMS[form])


def run(form: str) -> None:
    """Launch one kernel and compare its sums; RuntimeError if they are wrong."""
    import numpy as np
    from cuda.bindings import driver

    def ok(reply: tuple) -> object:
        if reply[0] != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"{form}: the driver says {reply[0]}")
        return reply[1] if len(reply) > 1 else None

    ok(driver.cuInit(0))
    device = ok(driver.cuDeviceGet(0))
    ok(driver.cuCtxSetCurrent(ok(driver.cuDevicePrimaryCtxRetain(device))))
    module = ok(driver.cuModuleLoadData(ptx(form).encode() + b"\0"))
    out, memory = np.zeros(128, np.uint32), ok(driver.cuMemAlloc(512))
    pointer = np.array([int(memory)], np.uint64)
    arguments = np.array([pointer.ctypes.data], np.uint64)
    ok(
        driver.cuLaunchKernel(
            ok(driver.cuModuleGetFunction(module, b"k")), 1, 1, 1, 256, 1, 1, 0, 0, arguments.ctypes.data, 0
        )
    )
    ok(driver.cuCtxSynchronize())
    ok(driver.cuMemcpyDtoH(out.ctypes.data, memory, 512))
    want = TIMES * np.arange(127, -1, -1) + TIMES * (TIMES - 1) // 2
    if (out != want).any():
        raise RuntimeError(f"{form}: the sums are wrong")
    print("right", flush=True)


def racecheck(tool: str, form: str) -> dict[str, object]:
    command = [tool, "--tool", "racecheck", "--print-limit", "2", sys.executable, __file__, "--one", form]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    message = done.stdout + done.stderr
    summary = re.search(r"RACECHECK SUMMARY: (\d+) hazards? displayed \((\d+) errors?, (\d+) warnings?\)", message)
    numbers = dict(zip(("hazards", "errors", "warnings"), map(int, summary.groups()), strict=True)) if summary else {}
    seen = sum(int(count) for count in re.findall(r"\[(\d+) hazards\]", message))
    first = [line.strip("= ") for line in message.splitlines() if "hazard" in line][:2]
    reported = {"times_seen": seen, "first": first} if numbers else {"end": message[-400:]}
    return {"form": form, "right": "right" in message, **numbers, **reported}


def main(file: str) -> None:
    tool = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    version = (
        subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.strip().splitlines()
    )
    rows = [racecheck(tool, form) for form in FORMS]
    Path(file).write_text(json.dumps({"tool": version[-1], "times": TIMES, "rows": rows}, indent=1))
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        run(sys.argv[2])
    else:
        main(sys.argv[1])
