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
    """Import the example at `relative` from its path, since the DSL reads its source."""
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

# example → the file of NVIDIA's it is made of
SOURCES = {
    "mla_fp16": "blackwell/mla/mla_decode_fp16.py",
    "mla_fp8": "blackwell/mla/mla_decode_fp8.py",
}


if __name__ == "__main__":
    name, examples, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    function, arch = EXAMPLES[name]
    os.environ["CUTE_DSL_ARCH"] = arch
    function(examples, folder, arch)
