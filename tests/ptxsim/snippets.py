"""PTX kernels made of snippets, their runs, and TMA descriptors packed field by field."""

from __future__ import annotations

import numpy as np

import ptxsim

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n"


def kernel_text(body: str, params: int = 2, shared: int = 0, registers: str = "") -> str:
    """A module with one kernel `k` of `params` 64-bit parameters p0, p1, ... around `body`."""
    args = ", ".join(f".param .u64 p{n}" for n in range(params))
    extern = ".extern .shared .align 1024 .b8 dyn[];\n"
    return (
        f"{HEAD}{extern}.visible .entry k({args})\n{{\n.reg .pred %p<40>;\n.reg .b16 %h<40>;\n.reg .b32 %r<80>;\n"
        f".reg .b64 %d<80>;\n.reg .b128 %q<4>;\n{registers}\n{body}\nret;\n}}\n"
    )


def run_kernel(
    body: str,
    *args,
    threads: int = 32,
    grid: tuple = (1,),
    shared: int = 0,
    cluster: tuple = (1,),
    schedule: str = "random",
    seed: int = 0,
    checks: tuple = (),
    registers: str = "",
    **options: int,
) -> ptxsim.Result:
    """Run a kernel made of `body` over the given arguments; `options` as in ptxsim.run."""
    module = ptxsim.Module.from_text(kernel_text(body, len(args), shared, registers))
    launch = ptxsim.launch(module, "k", grid, (threads,), args, dynamic_shared=shared, cluster=cluster)
    return ptxsim.run(launch, schedule=schedule, seed=seed, checks=checks, **options)


TYPES = {np.uint8: 0, np.uint16: 1, np.uint32: 2, np.float16: 6, np.float32: 7}


def tensor_map(
    x: np.ndarray, box: tuple[int, ...], swizzle: int = 0, code: int | None = None, before: int = 0
) -> np.ndarray:
    """A 128-byte descriptor of an array; box and sizes innermost first, `code` the type's number.

    It begins so many bytes `before` the array.
    """
    code = TYPES[x.dtype.type] if code is None else code
    v = x.ctypes.data - before | (x.ndim - 1) << 68 | code << 71 | swizzle << 77 | 2 << 64 | 2 << 81
    for k, stride in enumerate(x.strides[-2::-1]):
        v |= (stride >> 4 & 0xFFFFFFFF) << (96 + 32 * k)
    for k, n in enumerate(x.shape[::-1]):
        v |= (n - 1) << (256 + 32 * k)
    for k, n in enumerate(box):
        v |= (n - 1) << (440 + 8 * k)
    raw = np.zeros(256, np.uint8)
    start = -raw.ctypes.data % 64
    raw[start : start + 128] = np.frombuffer(v.to_bytes(128, "little"), np.uint8)
    return raw[start : start + 128]
