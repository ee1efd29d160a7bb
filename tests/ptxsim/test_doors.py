"""Other ways into ptxsim: CUDA C++, Primitives, Triton; each with a planted bug."""

from __future__ import annotations

import ctypes
import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ptxsim
from ptxsim.host.linking import runtime_library
from ptxsim.memory.tensor_map import decode

pytest_plugins = "pytester"
REVERSE = """extern "C" __global__ void reverse(const float *x, float *y) {
    __shared__ float row[128];
    row[threadIdx.x] = x[128 * blockIdx.x + threadIdx.x];
    BARRIER
    y[128 * blockIdx.x + threadIdx.x] = row[127 - threadIdx.x];
}
"""


def nvcc() -> Path:
    """The compiler of the wheel nvidia-cuda-nvcc."""
    spec = importlib.util.find_spec("nvidia")
    paths = [x for root in (spec.submodule_search_locations if spec else ()) for x in Path(root).glob("*/bin/nvcc")]
    if not paths:
        pytest.skip("needs the wheel nvidia-cuda-nvcc")
    return paths[0]


@pytest.mark.slow
@pytest.mark.parametrize("barrier", ["__syncthreads();", ""])
def test_cuda_cpp_by_nvcc(barrier, tmp_path) -> None:
    source = tmp_path / "reverse.cu"
    source.write_text(REVERSE.replace("BARRIER", barrier))
    command = [nvcc(), "-ptx", "-lineinfo", "-arch=sm_90a", "-o", tmp_path / "reverse.ptx", source]
    subprocess.run(command, check=True, capture_output=True)
    x, y = np.arange(512, dtype=np.float32).reshape(4, 128), np.zeros((4, 128), np.float32)
    result = ptxsim.run(ptxsim.Launch.from_ptx(tmp_path / "reverse.ptx", "reverse", (4,), (128,), (x, y)))
    if barrier:
        assert result.ok
        np.testing.assert_array_equal(y, x[:, ::-1])
    else:
        (race,) = result.findings
        assert (race.kind, race.source.split(":")[-1]) == ("race", "5")


TRITON = """
import sys
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def add(x, y, z, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(z + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n)MASK)


signature = {"x": "*fp32", "y": "*fp32", "z": "*fp32", "n": "i32", "BLOCK": "constexpr"}
source = ASTSource(fn=add, signature=signature, constexprs={"BLOCK": 256})
compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
open(sys.argv[1], "w").write(compiled.asm["ptx"])
"""


@pytest.mark.slow
@pytest.mark.by_hand  # Triton is not pinned: 200 MB
@pytest.mark.parametrize("mask", [", mask=i < n", ""])
def test_triton(mask, tmp_path) -> None:
    pytest.importorskip("triton")
    (tmp_path / "add.py").write_text(TRITON.replace("MASK", mask))
    subprocess.run([sys.executable, tmp_path / "add.py", tmp_path / "add.ptx"], check=True, cwd=tmp_path)
    x = np.arange(1000, dtype=np.float32)
    z = np.zeros_like(x)
    scratch = (None, None)  # the last two parameters of a kernel by Triton: global and profile scratch memory
    launch = ptxsim.Launch.from_ptx(tmp_path / "add.ptx", "add", (4,), (128,), (x, 2 * x, z, 1000, *scratch))
    findings = ptxsim.run(launch).findings
    assert any(f.kind == "out-of-bounds" for f in findings) != bool(mask) and bool(findings) != bool(mask)
    np.testing.assert_array_equal(z, 3 * x)


PRIMITIVES = """
import cutlass
import cutlass.cute as cute
import cutlass.experimental.cuda as cuda
import pytest
import torch
from cutlass.cute.runtime import from_dlpack
from cutlass.experimental import primitives as prims

COLUMNS = 64


@cute.kernel
def kernel(source: cutlass.GridConstant[cuda.TensorMap], y: cute.Tensor, waits: cutlass.Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    tile = cutlass.Array(cutlass.Float32, 2 * COLUMNS, space=cutlass.AddressSpace.smem, alignment=128)
    full = cutlass.Array(cutlass.Int64, 1, space=cutlass.AddressSpace.smem, alignment=8)
    if thread == 0:
        prims.mbarrier_init(full, 1)
        prims.fence_mbarrier_init()
        prims.mbarrier_arrive_expect_tx(full, source.global_tx_bytes())
        prims.cp_async_bulk_tensor_shared_cta_global(tile, source.get_ptr(), (0, 0), full)
    prims.barrier_cta_sync(0)
    if cutlass.const_expr(waits):
        while not prims.mbarrier_try_wait_parity(full, 0):
            pass
    y[0, thread], y[1, thread] = tile[thread], tile[COLUMNS + thread]


@cute.jit
def load(x: cute.Tensor, y: cute.Tensor, waits: cutlass.Constexpr):
    source = cuda.create_tensor_map_tiled(
        x.iterator.toint(), cutlass.Float32, [COLUMNS, 4], [COLUMNS * 4 // 16], [COLUMNS, 2],
        swizzle=cuda.TensorMapSwizzle.none,
    )
    kernel(source, y, waits).launch(grid=(1, 1, 1), block=(COLUMNS, 1, 1))


@pytest.mark.parametrize("waits", [True, False])
def test_load(waits):
    cutlass.cuda.initialize_cuda_context()
    x = torch.randn(4, COLUMNS, device="cuda")
    y = torch.zeros(2, COLUMNS, device="cuda")
    load(from_dlpack(x), from_dlpack(y), waits)
    torch.testing.assert_close(y, x[:2])
"""


@pytest.mark.skipif(
    importlib.util.find_spec("cutlass") is None or importlib.util.find_spec("torch") is None,
    reason="needs CuTe DSL and torch",
)
@pytest.mark.slow
def test_primitives(pytester, monkeypatch) -> None:
    """A TMA load by the Primitives API, and one that nothing waits for."""
    monkeypatch.setenv("PTXSIM", "1")
    monkeypatch.setenv("CUTE_DSL_ARCH", "sm_100a")
    pytester.makepyfile(PRIMITIVES)
    result = pytester.runpytest_subprocess("-p", "ptxsim.pytest_plugin", "-p", "no:cacheprovider", "--tb=short")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*race:*a copy signalling the mbarrier*", "FAILED *test_load?False?*"])


SIZES, STRIDES, BOX = (200, 30, 7), (1 << 39 | 416, 3 << 38), (64, 8, 2)


@pytest.mark.parametrize(
    ("type", "bits", "swizzle", "field"),
    [(6, 16, 3, (3, 0)), (9, 16, 0, (0, 0)), (14, 4, 4, (3, 1)), (0, 8, 6, (3, 3))],
)
def test_tensor_maps_of_the_driver_s_interface(type, bits, swizzle, field) -> None:
    raw, status = encoded(type, 1 << 46 | 32, swizzle)
    tm = decode(raw)
    assert status == 0
    assert (tm.address, tm.bits, tm.sizes, tm.box) == (1 << 46 | 32, bits, SIZES, BOX)
    assert (tm.strides, (tm.swizzle, tm.atom)) == ((0, *STRIDES), field)


def test_a_tensor_map_that_the_driver_refuses_is_refused() -> None:
    assert encoded(6, 8, 0)[1] and encoded(16, 0, 0)[1] and encoded(6, 0, 5)[1]


def encoded(type: int, address: int, swizzle: int) -> tuple[bytes, int]:
    """A descriptor of rank 3 by the stub's cuTensorMapEncodeTiled, and its status."""
    raw = ctypes.create_string_buffer(128)
    sizes, strides = (ctypes.c_uint64 * 3)(*SIZES), (ctypes.c_uint64 * 2)(*STRIDES)
    box, steps = (ctypes.c_uint32 * 3)(*BOX), (ctypes.c_uint32 * 3)(1, 1, 1)
    encode = ctypes.CDLL(str(runtime_library()))._cuTensorMapEncodeTiled
    status = encode(raw, type, 3, ctypes.c_void_p(address), sizes, strides, box, steps, 0, swizzle, 0, 0)
    return raw.raw, status
