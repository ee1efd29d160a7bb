"""Compile the pattern of NVIDIA/cutlass issue 3210: indexing a vector that was loaded from registers.

    ENVIRONMENT/bin/python -P benchmarks/toolchains/indexed_vector.py

It prints the version, and bytes of the local array that the PTX of each function declares. ENVIRONMENT holds one CuTe
DSL, installed with `pip install --no-deps nvidia-cutlass-dsl==V nvidia-cutlass-dsl-libs-base==V` and, last,
`nvidia-cutlass-dsl-libs-cu13==V`, besides numpy and cuda-python.
"""

from __future__ import annotations

import re
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cutlass
from cutlass import BFloat16, Float32, cute
from cutlass.base_dsl import compiler
from cutlass.cute.runtime import make_fake_compact_tensor

TARGET = "sm_100a"


@cute.kernel
def vector_kernel(a: cute.Tensor, out: cute.Tensor):
    """Add three numbers of a vector."""
    r = cute.make_rmem_tensor(((1, 3),), BFloat16)
    r[0], r[1], r[2] = a[0], a[1], a[2]
    v = r[None].load().to(Float32)
    s = Float32(0.0)
    for i in cutlass.range(cute.size(r[None]), unroll_full=True):
        s += v[i]
    out[0] = s


@cute.kernel
def registers_kernel(a: cute.Tensor, out: cute.Tensor):
    """Add three numbers of registers."""
    r = cute.make_rmem_tensor(((1, 3),), BFloat16)
    r[0], r[1], r[2] = a[0], a[1], a[2]
    s = Float32(0.0)
    for i in cutlass.range(cute.size(r[None]), unroll_full=True):
        s += r[None][i].to(Float32)
    out[0] = s


@cute.jit
def vector(a: cute.Tensor, out: cute.Tensor):
    """Launch the first kernel."""
    vector_kernel(a, out).launch(grid=[1, 1, 1], block=[1, 1, 1])


@cute.jit
def registers(a: cute.Tensor, out: cute.Tensor):
    """Launch the second kernel."""
    registers_kernel(a, out).launch(grid=[1, 1, 1], block=[1, 1, 1])


def local_bytes(function: Any) -> int:
    """Return bytes of local arrays in the PTX of a function."""
    a = make_fake_compact_tensor(BFloat16, (3,), stride_order=(0,), assumed_align=16)
    out = make_fake_compact_tensor(Float32, (1,), stride_order=(0,), assumed_align=16)
    with tempfile.TemporaryDirectory() as folder:
        cute.compile(function, a, out, options=f"--gpu-arch {TARGET} --keep-ptx --dump-dir {folder}")
        texts = [path.read_text() for path in Path(folder).rglob("*.ptx")]
    assert texts, "the compiler wrote no PTX"
    return sum(int(size) for text in texts for size in re.findall(r"__local_depot\d+\[(\d+)\]", text))


if __name__ == "__main__":
    # DSL 4.4 asks for a driver, which compiling does not need.
    compiler.Compiler._check_cuda_dependencies_once = lambda *_: None
    for name, function in (("vector", vector), ("registers", registers)):
        print(version("nvidia-cutlass-dsl"), name, local_bytes(function))
