"""More sm_90a forms of NVIDIA's examples than the tests run, for the differential against a GPU.

`python hopper_forms.py EXAMPLES FOLDER` compiles them, each into its own folder below FOLDER.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

# name: element type, accumulator, output, tile, cluster, A and B with M and N contiguous
GEMMS = {
    "f16": ("Float16", "Float32", "Float16", (128, 128), (1, 1), False),
    "f16_wide": ("Float16", "Float32", "Float32", (128, 256), (1, 1), False),
    "f16_mn_cluster": ("Float16", "Float32", "Float16", (128, 128), (2, 1), True),
    "f16_half": ("Float16", "Float16", "Float16", (64, 64), (1, 2), False),
    "e4m3": ("Float8E4M3FN", "Float32", "Float16", (128, 64), (1, 1), False),
    "e5m2_cluster": ("Float8E5M2", "Float32", "Float32", (64, 128), (2, 2), False),
    "s8": ("Int8", "Int32", "Int32", (128, 128), (1, 1), False),
}


def gemms(examples: Path, folder: Path) -> None:
    import cutlass
    from cutlass.cute.runtime import make_fake_stream
    from drivers import compact, export, load

    m = load(examples, "hopper/dense_gemm.py")
    for name, (element, accumulator, output, tile, cluster, mn) in GEMMS.items():
        io, out = getattr(cutlass, element), getattr(cutlass, output)
        kernel = m.HopperWgmmaGemmKernel(getattr(cutlass, accumulator), tile, cluster)
        a, b = (compact(io, (None, None, None), (0, 1, 2) if mn else (1, 0, 2), 16) for _ in range(2))
        c = compact(out, (None, None, None), (1, 0, 2), 16)
        stream = make_fake_stream(use_tvm_ffi_env_stream=True)
        export(kernel, (a, b, c, stream), "sm_90a", folder / f"gemm_{name}", "gemm")


if __name__ == "__main__":
    os.environ["CUTE_DSL_ARCH"] = "sm_90a"
    from cutlass import cute

    for library in cute.runtime.find_runtime_libraries(enable_tvm_ffi=True):
        ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
    gemms(Path(sys.argv[1]), Path(sys.argv[2]))
