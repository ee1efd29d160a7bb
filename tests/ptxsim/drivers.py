"""Compile NVIDIA's CuTe DSL examples ahead of time, one process per example.

`python drivers.py NAME EXAMPLES FOLDER` writes FOLDER/{kernel.o, *.ptx, build.json}. The examples stay where they
were unpacked; only what the compiler makes of them is written. No GPU is needed.
"""

import importlib.util
import json
import os
import shutil
import sys
from pathlib import Path
from types import ModuleType


def load(examples: Path, relative: str) -> ModuleType:
    """The example module at `relative` below `examples`, imported from its path (the DSL reads its source)."""
    path = examples / relative
    for folder in (path.parent, path.parent.parent, examples):
        sys.path.insert(0, str(folder))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def compact(dtype, shape: tuple, order: tuple, align: int = 16):
    """A fake compact tensor; None in `shape` is a dynamic int32 size."""
    import cutlass.cute as cute
    from cutlass.cute.runtime import make_fake_compact_tensor

    sizes = tuple(cute.sym_int32() if s is None else s for s in shape)
    return make_fake_compact_tensor(dtype, sizes, stride_order=order, assumed_align=align)


def export(fn, args: tuple, target: str, folder: Path, name: str, extra: str = "") -> None:
    """Compile `fn` for `target` and leave object, PTX and build.json in `folder`."""
    import cutlass.cute as cute

    dump = folder / "dump"
    dump.mkdir(parents=True, exist_ok=True)
    options = f"--gpu-arch {target} --enable-tvm-ffi --keep-ptx --keep-cubin --dump-dir {dump} {extra}"
    compiled = cute.compile(fn, *args, options=options)
    compiled.export_to_c(str(folder / "kernel.o"), function_name=name)
    ptx = sorted(dump.glob("*.ptx"))
    assert len(ptx) == 1, ptx
    shutil.copy(ptx[0], folder / "kernel.ptx")
    shutil.rmtree(dump)
    build = {"files": {"kernel.o": "", "kernel.ptx": ""}, "dsl": "cute", "function": name, "target": target}
    (folder / "build.json").write_text(json.dumps(build, indent=1))


def _nvfp4_gemm(examples: Path, folder: Path, target: str) -> None:
    import cutlass.cute as cute
    from cutlass import Int32
    from cutlass.cute.runtime import make_fake_stream, make_ptr

    m = load(examples, "blackwell/tutorial_gemm/nvfp4_gemm_0.py")
    kernel = m.Sm100BlockScaledDenseGemmKernel()

    @cute.jit
    def host(
        a: cute.Pointer,
        b: cute.Pointer,
        sfa: cute.Pointer,
        sfb: cute.Pointer,
        c: cute.Pointer,
        rows: Int32,
        columns: Int32,
        depth: Int32,
        batch: Int32,
        stream,
    ):
        kernel(a, b, sfa, sfb, c, (rows, columns, depth, batch), stream)

    def ptr(dtype, align):
        return make_ptr(dtype, align, cute.AddressSpace.gmem, assumed_align=align)

    args = (
        ptr(m.ab_dtype, 16),
        ptr(m.ab_dtype, 16),
        ptr(m.sf_dtype, 32),
        ptr(m.sf_dtype, 32),
        ptr(m.c_dtype, 32),
        *(Int32(x) for x in (128, 128, 256, 1)),
        make_fake_stream(),
    )
    export(host, args, target, folder, "gemm")


# name: elements, scales, values per scale, tile, cluster
BLOCK_SCALED = {
    "mxf8": ("Float8E4M3FN", "Float8E8M0FNU", 32, (128, 128), (1, 1)),
    "mxf8_pair": ("Float8E5M2", "Float8E8M0FNU", 32, (256, 128), (2, 1)),
    "mxf4": ("Float4E2M1FN", "Float8E8M0FNU", 32, (128, 128), (1, 1)),
    "nvf4_pair": ("Float4E2M1FN", "Float8E4M3FN", 16, (256, 256), (2, 1)),
}


def _block_scaled_gemm(examples: Path, folder: Path, target: str) -> None:
    import cutlass
    import cutlass.cute as cute
    import cutlass.utils as utils
    from cutlass import Int32
    from cutlass.cute.nvgpu import tcgen05
    from cutlass.cute.runtime import make_fake_stream, make_ptr

    m = load(examples, "blackwell/dense_blockscaled_gemm_persistent.py")
    layouts = (tcgen05.OperandMajorMode.K, tcgen05.OperandMajorMode.K, utils.LayoutEnum.ROW_MAJOR)
    ptr_t = cute.Pointer

    def host_of(kernel):
        @cute.jit
        def host(
            a: ptr_t,
            b: ptr_t,
            sa: ptr_t,
            sb: ptr_t,
            c: ptr_t,
            rows: Int32,
            columns: Int32,
            depth: Int32,
            stream,
        ):
            kernel(a, b, sa, sb, c, layouts, (rows, columns, depth, Int32(1)), 4, stream)

        return host

    def ptr(dtype, align):
        return make_ptr(dtype, align, cute.AddressSpace.gmem, assumed_align=align)

    for name, (element, scales, per, tiler, cluster) in BLOCK_SCALED.items():
        kernel = m.Sm100BlockScaledPersistentDenseGemmKernel(per, tiler, cluster)
        io, sf = getattr(cutlass, element), getattr(cutlass, scales)
        pointers = (ptr(io, 16), ptr(io, 16), ptr(sf, 32), ptr(sf, 32), ptr(cutlass.Float16, 16))
        sizes = (Int32(256), Int32(256), Int32(256))
        export(host_of(kernel), (*pointers, *sizes, make_fake_stream()), target, folder / name, "gemm")


def _mla(stem: str, cls: str, dtype: str):
    def compile_it(examples: Path, folder: Path, target: str) -> None:
        import cutlass
        from cutlass import Float32, Int32
        from cutlass.cute.runtime import make_fake_stream

        m = load(examples, f"blackwell/mla/{stem}.py")
        io = getattr(cutlass, dtype)
        kernel = getattr(m, cls)(Float32, Float32, (128, 128), (128, 256), 148, 128, 0.0, True, False, False)
        q = [compact(io, (128, d, None, None), (1, 0, 2, 3)) for d in (512, 64)]
        c = [compact(io, (128, d, None), (1, 0, 2)) for d in (512, 64)]
        table = compact(Int32, (None, None), (0, 1))
        o = compact(io, (128, 512, None, None), (1, 0, 2, 3))
        lse = compact(Float32, (128, None, None), (0, 1, 2))
        space, seqs = compact(cutlass.Int8, (None,), (0,), 32), compact(Int32, (None,), (0,))
        args = (
            *q,
            *c,
            table,
            o,
            lse,
            space,
            Int32(1),
            seqs,
            None,
            Float32(1.0),
            Float32(1.0),
            make_fake_stream(use_tvm_ffi_env_stream=True),
        )
        export(kernel, args, target, folder, "mla", "--opt-level 2")

    return compile_it


EXAMPLES = {
    "mla_fp16": (_mla("mla_decode_fp16", "BlackwellMultiHeadLatentAttentionForwardFP16", "Float16"), "sm_100a"),
    "mla_fp8": (_mla("mla_decode_fp8", "BlackwellMultiHeadLatentAttentionForwardFP8", "Float8E4M3FN"), "sm_100a"),
}
EXAMPLES |= {
    "nvfp4_gemm_0": (_nvfp4_gemm, "sm_100a"),
    "block_scaled_gemm": (_block_scaled_gemm, "sm_100a"),
}

# example → the file of NVIDIA's it is made of
SOURCES = {
    "mla_fp16": "blackwell/mla/mla_decode_fp16.py",
    "mla_fp8": "blackwell/mla/mla_decode_fp8.py",
    "nvfp4_gemm_0": "blackwell/tutorial_gemm/nvfp4_gemm_0.py",
    "block_scaled_gemm": "blackwell/dense_blockscaled_gemm_persistent.py",
}


if __name__ == "__main__":
    name, examples, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    function, arch = EXAMPLES[name]
    os.environ["CUTE_DSL_ARCH"] = arch
    function(examples, folder, arch)
