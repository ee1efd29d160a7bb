"""NVIDIA's RMSNorm example, called unmodified from CuTe DSL with our operator's tensors."""

from typing import Any

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

from kernels.rmsnorm.cutlass_rmsnorm.shape import Shape
from kernels.upstream.examples import module

ELEMENTS = {"fp32": cutlass.Float32, "fp16": cutlass.Float16, "bf16": cutlass.BFloat16}
SM_VERSION = 90  # from here on the example uses clusters; it would ask the device


def program(dtype: str, columns: int) -> tuple[Any, tuple]:
    """Return the operator on the example and fake arguments.

    mX and mY are (rows, columns), row-major, mW (columns,), all 16-byte aligned; rows are dynamic. Raises ValueError if
    the example shapes its CTAs in another way than `bind` counts on.
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
    kernel = example.RMSNormKernel(element, columns, True, config)

    @cute.jit
    def norm(mX, mW, mY, eps, stream):
        kernel(mX.iterator, mW.iterator, mY.iterator, mX.shape[0], eps, stream)

    return norm, (x, weight, y, cutlass.Float32(1.0e-6), make_fake_stream())
