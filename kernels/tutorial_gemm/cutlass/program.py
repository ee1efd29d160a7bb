"""Program of NVIDIA's unmodified tutorial GEMMs for SM100, on the requested stream.

All but the last step launch on the default stream: their host functions take none. A stand-in for their kernel adds
the stream to the launch, which would be missed by a measurement, or by a CUDA graph, otherwise.
"""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream

from kernels.programs import row_major
from kernels.upstream.cluster_launch import align_responses
from kernels.upstream.examples import module

ALIGNMENT = 32  # bytes, as the tutorial promises of its tensors
DEQUANTIZED_AT_ONCE = 128  # elements along K that a thread of the last step turns into fp16


class OnStream:
    """An example's kernel whose launches go to `stream`."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.stream: Any = None

    def __call__(self, *arguments: Any) -> "Launcher":
        return Launcher(self.kernel(*arguments), self.stream)


class Launcher:
    """What calling a kernel answers, with the stream for its launch."""

    def __init__(self, launcher: Any, stream: Any) -> None:
        self.launcher = launcher
        self.stream = stream

    def launch(self, **config: Any) -> Any:
        return self.launcher.launch(**config, stream=self.stream)


def program(step: str, limits: int, ab_stages: int | None, most_clusters: int) -> tuple[Any, tuple]:
    """Return the operator on a step and fake arguments, row-major matrices.

    mA is (M, K), mB (N, K) and mC (M, N), fp16; M and N are whole tiles. The last step has two kernels, of which the
    first makes mB out of mQuantized (N, K), int8, times `scale`, and the second is launched early. `limits` is how many
    limits of clusters a step's host function takes, all `most_clusters`; `ab_stages` replaces its number of stages.
    """
    align_responses()
    example = module(f"blackwell.tutorial_gemm.fp16_gemm_{step}")
    if ab_stages is not None:
        example.ab_stages = ab_stages
    host_function, half = example.host_function, cutlass.Float16

    def fake(element: type[cutlass.Numeric], divisibility: int = 1) -> Any:
        return row_major(element, cute.sym_int32(), cute.sym_int32(divisibility=divisibility), align=ALIGNMENT)

    if hasattr(example, "dequantize"):

        @cute.jit
        def dequantizing_gemm(mA, mQuantized, mB, mC, scale, stream):
            host_function(mA, mQuantized, mB, mC, scale, most_clusters, stream)

        wide = DEQUANTIZED_AT_ONCE
        tensors = (fake(half), fake(cutlass.Int8, wide), fake(half, wide), fake(half))
        return dequantizing_gemm, (*tensors, cutlass.Float32(1.0), make_fake_stream())
    kernel = example.kernel = OnStream(example.kernel)

    @cute.jit
    def gemm(mA, mB, mC, stream):
        kernel.stream = stream
        host_function(mA, mB, mC, *(most_clusters,) * limits)

    return gemm, (*(fake(half) for _ in "ABC"), make_fake_stream())
