"""Program of NVIDIA's unmodified tutorial GEMMs for SM100, on the requested stream.

All but the last step launch on the default stream: their host functions take none. A stand-in for their kernel adds
the stream to the launch, which would be missed by a measurement, or by a CUDA graph, otherwise.
"""

from typing import Any

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

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


class TutorialGemm:
    """A step of the tutorial with all its cluster limits set to `most_clusters`.

    Its host function takes any number of such limits.
    """

    def __init__(self, example: Any, limits: tuple[int, ...]) -> None:
        self.host_function = example.host_function
        self.limits = limits
        self.kernel = OnStream(example.kernel)
        example.kernel = self.kernel

    @cute.jit
    def __call__(self, mA: cute.Tensor, mB: cute.Tensor, mC: cute.Tensor, stream: CUstream) -> None:
        """Launch on mA (M, K), mB (N, K) and mC (M, N), fp16, row-major.

        M and N are whole tiles.
        """
        self.kernel.stream = stream
        self.host_function(mA, mB, mC, *self.limits)


class DequantizingGemm:
    """The last step, which makes B out of integers first.

    It has two kernels; the second is launched early.
    """

    def __init__(self, example: Any, most_clusters: int) -> None:
        self.host_function = example.host_function
        self.most_clusters = most_clusters

    @cute.jit
    def __call__(
        self,
        mA: cute.Tensor,
        mQuantized: cute.Tensor,
        mB: cute.Tensor,
        mC: cute.Tensor,
        scale: cutlass.Float32,
        stream: CUstream,
    ) -> None:
        """Launch on mQuantized (N, K), int8, and write mB (N, K), fp16.

        mB is mQuantized times `scale`.
        """
        self.host_function(mA, mQuantized, mB, mC, scale, self.most_clusters, stream)


def row_major(element: type[cutlass.Numeric], divisibility: int = 1) -> Any:
    """Return a fake row-major matrix of any size.

    Its rows are multiples of `divisibility` elements.
    """
    shape = (cute.sym_int32(), cute.sym_int32(divisibility=divisibility))
    return make_fake_compact_tensor(element, shape, stride_order=(1, 0), assumed_align=ALIGNMENT)


def program(step: str, limits: int, ab_stages: int | None, most_clusters: int) -> tuple[Any, tuple]:
    """Return the host function and fake arguments of a step; sizes are dynamic.

    `limits` is how many limits of clusters its host function takes; `ab_stages` replaces its number of stages.
    """
    align_responses()
    example = module(f"blackwell.tutorial_gemm.fp16_gemm_{step}")
    if ab_stages is not None:
        example.ab_stages = ab_stages
    half = cutlass.Float16
    if hasattr(example, "dequantize"):
        wide = DEQUANTIZED_AT_ONCE
        tensors = (row_major(half), row_major(cutlass.Int8, wide), row_major(half, wide), row_major(half))
        return DequantizingGemm(example, most_clusters), (*tensors, cutlass.Float32(1.0), make_fake_stream())
    tensors = tuple(row_major(half) for _ in range(3))
    return TutorialGemm(example, (most_clusters,) * limits), (*tensors, make_fake_stream())
