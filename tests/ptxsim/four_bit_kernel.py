"""A kernel of one warp with a four-bit tensor for an argument.

It copies 32 of the tensor's bytes.

`python four_bit_kernel.py FOLDER` compiles it for sm_100a.
"""

import os
import sys
from pathlib import Path

os.environ["CUTE_DSL_ARCH"] = "sm_100a"  # before the DSL is imported

import cutlass
import cutlass.cute as cute
from cutlass.cute.runtime import make_fake_stream
from drivers import compact, export


@cute.kernel
def _copy(source: cute.Tensor, target: cute.Tensor):
    lane, _, _ = cute.arch.thread_idx()
    target[lane] = source[lane]


@cute.jit
def copy_bytes(pairs: cute.Tensor, target: cute.Tensor, stream):
    whole = cute.recast_tensor(pairs, cutlass.Int8)
    source = cute.make_tensor(whole.iterator, cute.make_layout(32))
    _copy(source, target).launch(grid=(1, 1, 1), block=(32, 1, 1), stream=stream)


if __name__ == "__main__":
    tensors = compact(cutlass.Float4E2M1FN, (2, 64), (1, 0)), compact(cutlass.Int8, (32,), (0,))
    stream = make_fake_stream(use_tvm_ffi_env_stream=True)
    export(copy_bytes, (*tensors, stream), "sm_100a", Path(sys.argv[1]), "copy_bytes")
