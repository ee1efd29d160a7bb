"""CUTLASS's C++ tutorials from a pinned wheel, compiled by nvcc, with and without a fault.

The text of a tutorial is changed after unpacking: `main` is left out, and host code keeps the arguments of its launch.
"""

import ctypes
import struct
import subprocess
from pathlib import Path

import numpy as np
import pytest
from test_doors import nvcc

import ptxsim
from ptxsim.host.linking import runtime_library

pytestmark = pytest.mark.slow
TUTORIALS = "cutlass_library/source/examples/cute/tutorial"
INCLUDES = [f"nvidia-cutlass/cutlass_library/source/{x}" for x in ("include", "tools/util/include")]
INCLUDES += ["nvidia-cuda-cccl/nvidia/cu13/include", "nvidia-cuda-cccl/nvidia/cu13/include/cccl"]
# The wheels of nvcc and of CUDA's headers differ in their minor versions.
OPTIONS = ("-std=c++17", "-lineinfo", "-DNDEBUG", "-DCCCL_DISABLE_CTK_COMPATIBILITY_CHECK", "--expt-relaxed-constexpr")
OPTIONS += ("-DCUTLASS_ENABLE_DIRECT_CUDA_DRIVER_CALL=1",)

SGEMM = """template void gemm_nt<float, float, float>(
    int, int, int, float, float const *, int, float const *, int, float, float *, int, cudaStream_t);
"""

CAPTURE = """
#include <cuda.h>
#include <cstring>
#undef CUTE_CHECK_LAST
#define CUTE_CHECK_LAST()
#define cudaFuncSetAttribute(...) cudaSuccess
static char *kept;
static int shared;
extern "C" { decltype(&cuTensorMapEncodeTiled) encode; }
extern "C" CUresult cuTensorMapEncodeTiled(
    CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address, const cuuint64_t *sizes,
    const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps, CUtensorMapInterleave interleave,
    CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    return encode(map, type, rank, address, sizes, strides, box, steps, interleave, swizzle, promotion, fill);
}
namespace cutlass {
template <class... T> Status keep(ClusterLaunchParams const &launch, void const *, T &&...arguments) {
    shared = launch.smem_size_in_bytes;
    ((memcpy(kept, &arguments, sizeof arguments), kept += sizeof arguments), ...);
    return Status::kSuccess;
}
}
#define launch_kernel_on_cluster keep
"""

ARGUMENTS = """
extern "C" int arguments(void *a, void *b, float *c, float *d, int m, int n, int k, char *out) {
    kept = out;
    auto rows = [](int x, int y) { return make_layout(make_shape(x, y), make_stride(y, Int<1>{})); };
    auto *x = (cutlass::half_t *)a, *y = (cutlass::half_t *)b;
    gemm_host_f16xf16_f32_f32_tnt(x, rows(m, k), y, rows(n, k), c, rows(m, n), d, rows(m, n), 1.0f, 0.0f);
    return shared;
}
"""


@pytest.fixture(scope="module")
def wheels() -> Path:
    """The folder of the unpacked wheels."""
    fetching = pytest.importorskip("cutesnake.stages.fetch", reason="needs the workflow, which fetches wheels")
    folder = Path("results/ptxsim/wheels")
    for package in ("nvidia-cutlass", "nvidia-cuda-cccl"):
        fetching.fetch(package, folder / package, Path(__file__).with_name("cutlass.yaml"))
    return folder.resolve()


def compiled(wheels: Path, name: str, edits: dict[str, str], before: str, after: str, *options: str) -> None:
    """Compile an edited tutorial here, with text before its code and instead of `main`."""
    source = wheels / "nvidia-cutlass" / TUTORIALS / name
    text = source.read_text().partition("int main(")[0]
    for old, new in {**edits, "thread0()": "false"}.items():  # which only prints
        assert old in text
        text = text.replace(old, new)
    includes, _, code = text.rpartition("#include")
    last, _, code = code.partition("\n")
    kept = [line if "<thrust/" not in line else "" for line in f"{includes}#include{last}".split("\n")]
    line = f'#line {len(kept) + 1} "{source.name}"'
    Path("tutorial.cu").write_text("\n".join([*kept, before, line, code, after]))
    folders = [f"-I{wheels / x}" for x in INCLUDES] + [f"-I{source.parent}"]
    subprocess.run([nvcc(), *OPTIONS, *folders, *options, "tutorial.cu"], check=True, capture_output=True)


@pytest.mark.parametrize("wait", ["__syncthreads();", ""])
def test_a_tutorial_without_the_barrier_after_its_loads(wait, wheels, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    barrier = "__syncthreads();         // Wait for all threads to write to smem"
    compiled(wheels, "sgemm_1.cu", {barrier: wait}, "", SGEMM, "-arch=sm_90a", "-ptx", "-o", "sgemm.ptx")
    a, b = (np.random.default_rng(n).standard_normal((32, 128)).astype(np.float32) for n in (0, 1))
    c, empty, size = np.zeros((128, 128), np.float32), bytes(1), struct.pack("i", 128)
    tensors = [x for matrix in (a, b, c) for x in (matrix, size, empty, empty)]  # stride; layouts have no bytes
    arguments = (struct.pack("3i", 128, 128, 32), empty, *tensors, 1.0, 0.0)
    result = ptxsim.run(ptxsim.Launch.from_ptx("sgemm.ptx", None, (1,), (256,), arguments))
    if wait:
        assert result.ok
        np.testing.assert_allclose(c.T, a.T @ b, atol=1e-5)
    else:
        assert {finding.kind for finding in result.findings} == {"race"}


@pytest.mark.parametrize("cured", [False, True])
def test_a_pair_of_a_tutorial_allocates_tensor_memory_before_its_peer_runs(
    cured, wheels, tmp_path, monkeypatch
) -> None:
    """https://github.com/NVIDIA/cutlass/pull/3316, in unchanged device code."""
    monkeypatch.chdir(tmp_path)
    allocate = "  if (elect_one_warp) {\n    tmem_allocator.allocate("
    initialize = "initialize_barrier(shared_storage.tma_barrier, /* num_threads */ 1);"
    cure = {
        allocate: "cute::cluster_sync(); " + allocate,
        initialize: initialize + "cutlass::arch::fence_barrier_init();",
    }
    name, intermediate = "blackwell/04_mma_tma_2sm_sm100.cu", ("-keep", "-gencode=arch=compute_100a,code=compute_100a")
    library = ("-shared", "-Xcompiler", "-fPIC", "-cudart=none", "-o", "tutorial.so")
    compiled(wheels, name, cure if cured else {}, CAPTURE, ARGUMENTS, *intermediate, *library)
    (runtime,) = nvcc().parent.parent.glob("lib/libcudart.so.*")
    ctypes.CDLL(str(runtime), mode=ctypes.RTLD_GLOBAL)
    host, stub = ctypes.CDLL("./tutorial.so"), ctypes.CDLL(str(runtime_library()))
    address = ctypes.cast(stub._cuTensorMapEncodeTiled, ctypes.c_void_p)
    ctypes.c_void_p.in_dll(host, "encode").value = address.value
    m, n, k = 512, 1024, 128
    a, b = (np.random.default_rng(x).integers(-3, 4, (x, k)).astype(np.float16) for x in (m, n))
    c, d = np.zeros((m, n), np.float32), np.zeros((m, n), np.float32)
    kept = ctypes.create_string_buffer(4096)
    shared = host.arguments(*[ctypes.c_void_p(x.ctypes.data) for x in (a, b, c, d)], m, n, k, kept)
    module = ptxsim.Module.from_file("tutorial.ptx")
    (kernel,) = module.kernels.values()
    ends = np.cumsum([p.size for p in kernel.params])
    arguments = [kept.raw[end - p.size : end] for p, end in zip(kernel.params, ends, strict=True)]
    options = {"dynamic_shared": shared, "cluster": (4, 4), "pointees": (a, b, c, d)}
    result = ptxsim.run(ptxsim.Launch.from_ptx(module, kernel.name, (4, 4), (128,), arguments, **options))
    assert {x.kind for x in result.findings} == (set() if cured else {"race", "barrier"})
    assert cured or "nothing orders that after the start of CTA" in str(result.findings)
    assert cured or "without fence.mbarrier_init" in str(result.findings)
    np.testing.assert_array_equal(d, a.astype(np.float32) @ b.T.astype(np.float32))
