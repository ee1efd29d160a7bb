"""NVIDIA's RMSNorm example, called unmodified from CuTe DSL with our operator's tensors."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from kernels.rmsnorm.cutlass_rmsnorm.shape import Shape
from kernels.upstream.examples import module

ELEMENTS = {"fp32": cutlass.Float32, "fp16": cutlass.Float16, "bf16": cutlass.BFloat16}
SM_VERSION = 90  # from here on the example uses clusters; it would ask the device


class RMSNorm:
    """The operator on NVIDIA's example."""

    def __init__(self, example: Any) -> None:
        self.example = example

    @cute.jit
    def __call__(
        self, mX: cute.Tensor, mW: cute.Tensor, mY: cute.Tensor, eps: cutlass.Float32, stream: CUstream
    ) -> None:
        """Launch on row-major mX and mY (rows, columns) and mW (columns,).

        All are 16-byte aligned; rows are dynamic.
        """
        self.example(mX.iterator, mW.iterator, mY.iterator, mX.shape[0], eps, stream)


def program(dtype: str, columns: int) -> tuple[RMSNorm, tuple]:
    """Return the host function and fake arguments.

    Raises ValueError if the example shapes its CTAs in another way than `bind` counts on.
    """
    example, element = module("blackwell.rmsnorm"), ELEMENTS[dtype]
    config = example.RMSNormConfig(element, columns, True, SM_VERSION)
    shape = Shape.of(columns, element.width // 8)
    chosen = (config.cluster_n, config.threads_per_row, config.num_threads, config.cols_per_tile)
    if chosen != (shape.cluster, shape.threads_per_row, shape.threads, shape.columns):
        raise ValueError(f"NVIDIA's example takes {chosen} for {columns} columns of {dtype}, not {shape}")
    rows = cute.sym_int32()
    x, y = (make_fake_compact_tensor(element, (rows, columns), stride_order=(1, 0), assumed_align=16) for _ in "xy")
    weight = make_fake_compact_tensor(element, (columns,), assumed_align=16)
    kernel = RMSNorm(example.RMSNormKernel(element, columns, True, config))
    return kernel, (x, weight, y, cutlass.Float32(1.0e-6), make_fake_stream())
