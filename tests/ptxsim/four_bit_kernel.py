"""A one-warp kernel with a four-bit tensor, a NamedTuple and a tuple.

It copies 32 of the tensor's bytes and adds two numbers.

`python four_bit_kernel.py FOLDER` compiles it for sm_100a.
"""

import os
import sys
from pathlib import Path
from typing import NamedTuple

os.environ["CUTE_DSL_ARCH"] = "sm_100a"  # before the DSL is imported

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream
from drivers import compact, export


class To(NamedTuple):
    target: cute.Tensor
    more: cutlass.Int32


@cute.kernel
def _copy(source: cute.Tensor, target: cute.Tensor, more: cutlass.Int32):
    lane, _, _ = cute.arch.thread_idx()
    target[lane] = source[lane] + more.to(cutlass.Int8)


@cute.jit
def copy_bytes(pairs: cute.Tensor, to: To, more: tuple[cutlass.Int32, cutlass.Int32], stream):
    whole = cute.recast_tensor(pairs, cutlass.Int8)
    source = cute.make_tensor(whole.iterator, cute.make_layout(32))
    _copy(source, to.target, to.more + more[1]).launch(grid=(1, 1, 1), block=(32, 1, 1), stream=stream)


if __name__ == "__main__":
    pairs, target = compact(cutlass.Float4E2M1FN, (2, 64), (1, 0)), compact(cutlass.Int8, (32,), (0,))
    one, stream = cutlass.Int32(1), make_fake_stream(use_tvm_ffi_env_stream=True)
    export(copy_bytes, (pairs, To(target, one), (one, one), stream), "sm_100a", Path(sys.argv[1]), "copy_bytes")
