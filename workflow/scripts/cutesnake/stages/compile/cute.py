"""Ahead-of-time builds with CuTe DSL, with no GPU: what `compile` of a CuTe kernel calls.

The DSL reads its target from the environment when it initialises, so one process builds for one target; the compile
stage gives every build a process of its own.
"""

import contextlib
import ctypes
import importlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cutesnake.stages.compile.neutral_paths import name_installed_sources
from cutesnake.stages.compile.torch_import import without_torch

DUMP = "dump"
LINKERS = ("cc", "gcc", "clang")
NO_LINKER = f"no C linker here ({', '.join(LINKERS)}): kernel.o is whole, but kernel.so has to be linked when loaded"


def build(
    program: Callable[[], tuple[Callable[..., Any], tuple[Any, ...]]],
    function: str,
    target: str,
    folder: Path,
    options: str = "",
) -> dict[str, Any]:
    """Compile for `target` into kernel.ptx, .cubin, .mlir, .o and perhaps .so.

    `program` imports the device code and returns the host function (`@cute.jit`) with its fake arguments; it is called
    once the DSL knows its target. `function` is the name that the object exports through tvm-ffi. `options` are more
    options of `cute.compile`. Returns the kernel's part of build.json.

    Raises RuntimeError where the DSL of this process was set up for another target, and whatever the DSL raises.
    """
    folder = folder.resolve()
    dump = folder / DUMP
    dump.mkdir()
    options = " ".join(
        f"--gpu-arch {target} --enable-tvm-ffi --generate-line-info --keep-ptx --keep-cubin {options}".split()
    )
    set_up(target)
    with without_torch():
        host, arguments = program()
        import cutlass.cute as cute

        name_installed_sources()
        # Where the sources are not found under their neutral names: ptxas would note their dates in the line table.
        with contextlib.chdir(folder):
            # and the folder is named from there: its whole path may hold spaces, at which options are cut apart
            compiled = cute.compile(host, *arguments, options=f"{options} --dump-dir {DUMP}")
    for suffix, name in (("ptx", "kernel.ptx"), ("cubin", "kernel.cubin"), ("mlir", "kernel.mlir")):
        _only(dump, suffix).rename(folder / name)
    shutil.rmtree(dump)

    runtime = _runtime_library()
    ctypes.CDLL(str(runtime), ctypes.RTLD_GLOBAL)  # exporting looks its symbols up in the process
    compiled.export_to_c(str(folder / "kernel.o"), function_name=function)
    linked = link(folder / "kernel.o", folder / "kernel.so")
    ptx = (folder / "kernel.ptx").read_text()
    shared = _dynamic_shared_bytes(str(compiled.ir_module))
    launch = launch_of_ptx(ptx, shared) | _launch_facts((folder / "kernel.mlir").read_text(), shared)
    return {
        "symbols": re.findall(r"^\.visible \.entry (\w+)", ptx, re.MULTILINE),
        "function": function,
        "launch": launch,
        "compilers": _versions(ptx) | ({"linker": linked} if linked else {}),
        "options": options,
        "notes": [] if linked else [NO_LINKER],
        "runtime": [str(runtime)],
    }


def build_program(
    program: str, function: str, target: str, folder: Path, *arguments: Any, options: str = "", **constants: Any
) -> dict[str, Any]:
    """Do as `build` with what a function, `module:function`, returns for the arguments."""
    module, _, name = program.partition(":")
    return build(
        lambda: getattr(importlib.import_module(module), name)(*arguments, **constants),
        function,
        target,
        folder,
        options,
    )


def link(object_file: Path, library: Path) -> str | None:
    """Link an exported object; return the linker's version line, None without linker.

    The library names no other: the runtime's symbols are found at load among the libraries opened for everyone, so no
    path of this machine gets in. `-Bsymbolic` keeps two kernels in one process from taking each other's functions.
    """
    linker = next(filter(None, map(shutil.which, LINKERS)), None)
    if linker is None:
        return None
    command = [linker, "-shared", "-Wl,-Bsymbolic", "-o", str(library), str(object_file)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{Path(linker).name} could not link {object_file.name}: {done.stderr.strip()}")
    return subprocess.run([linker, "--version"], capture_output=True, text=True).stdout.splitlines()[0]


def set_up(target: str) -> None:
    """Set the DSL's environment before its import; RuntimeError for another target.

    Its dumps go to `dump` in the folder where `cute.compile` is called.
    """
    if "cutlass" in sys.modules and os.environ.get("CUTE_DSL_ARCH") != target:
        was = os.environ.get("CUTE_DSL_ARCH", "no target")
        raise RuntimeError(f"CuTe DSL was set up for {was} in this process; build for {target} in a process of its own")
    os.environ |= {"CUTE_DSL_ARCH": target, "CUTE_DSL_KEEP": "ir", "CUTE_DSL_DUMP_DIR": DUMP}
    os.environ["CUTE_DSL_DISABLE_FILE_CACHING"] = "1"  # Snakemake decides what is built again


def _only(folder: Path, suffix: str) -> Path:
    result = sorted(folder.glob(f"*.{suffix}"))
    if len(result) != 1:
        raise RuntimeError(f"expected one .{suffix} file from the compiler, got {[path.name for path in result]}")
    return result[0]


def _runtime_library() -> Path:
    """libcute_dsl_runtime.so of the installed DSL (the 12 or 13 flavour, whichever it uses itself)."""
    import cutlass.cute as cute

    libraries = map(Path, cute.runtime.find_runtime_libraries(enable_tvm_ffi=False))
    return next(path for path in libraries if path.name == "libcute_dsl_runtime.so")


def _launch_facts(ir: str, shared: dict[str, int]) -> dict[str, dict[str, Any]]:
    """Return block and cluster per symbol from the IR; null where not constant."""
    facts: dict[str, dict[str, Any]] = {}
    for symbol, noted in re.findall(r"cuda\.kernel @(\w+)\(.*?cutlass_launch_facts = \{(.*?)\}", ir):

        def extent(key: str, noted: str = noted) -> list[int] | None:
            result = re.search(rf"{key} = array<i64: ([\d, ]+)>", noted)
            return _extent(result[1]) if result else None

        cluster = extent("exact_cluster_dim") if "cluster_launch = true" in noted else [1, 1, 1]
        facts[symbol] = {
            "block": extent("exact_block_dim"),
            "cluster": cluster,
            "dynamic_shared_bytes": shared.get(symbol),
        }
    return facts


def launch_of_ptx(ptx: str, shared: dict[str, int]) -> dict[str, dict[str, Any]]:
    """Return block and cluster per symbol from directives: DSLs before 4.8 lack facts."""
    facts: dict[str, dict[str, Any]] = {}
    entries = re.findall(r"^\.visible \.entry (\w+)\(.*?\)\n(.*?)^\{", ptx, re.MULTILINE | re.DOTALL)
    for symbol, directives in entries:
        extents = dict(re.findall(r"^\.(reqntid|reqnctapercluster) ([\d, ]+)$", directives, re.MULTILINE))
        block, cluster = (extents.get(name) for name in ("reqntid", "reqnctapercluster"))
        alone = None if "explicitcluster" in directives else "1, 1, 1"
        facts[symbol] = {
            "block": _extent(block),
            "cluster": _extent(cluster or alone),
            "dynamic_shared_bytes": shared.get(symbol),
        }
    return facts


def _extent(text: str | None) -> list[int] | None:
    """Return three numbers of a directive or an attribute."""
    return (([int(number) for number in text.split(",")] + [1, 1])[:3]) if text else None


def _dynamic_shared_bytes(lowered: str) -> dict[str, int]:
    """Dynamic shared memory per symbol, where the lowered host code stores a constant into cudaLaunchConfig_t.

    The struct is {grid, block, dynamicSmemBytes, stream, attributes, count}; each is made just before its launch.
    """
    config = "!llvm.struct<(array<3 x i32>, array<3 x i32>, i64, ptr, ptr, i32)>"
    constants: dict[str, int] = {}
    sizes: dict[str, int] = {}
    pointer = field = symbol = size = None
    for line in lowered.splitlines():
        if result := re.match(r"\s*(%\d+) = llvm\.mlir\.constant\((-?\d+) : i64\)", line):
            constants[result[1]] = int(result[2])
        elif result := re.match(rf"\s*(%\d+) = llvm\.alloca %\d+ x {re.escape(config)}", line):
            pointer, size = result[1], None
        elif pointer and (result := re.match(rf"\s*(%\d+) = llvm\.getelementptr {pointer}\[0, 2\]", line)):
            field = result[1]
        elif field and (result := re.match(rf"\s*llvm\.store (%\d+), {field} : i64", line)):
            size, field = constants.get(result[1]), None
        elif result := re.match(r"\s*%\d+ = llvm\.mlir\.addressof @kernels_(\w+) ", line):
            symbol = result[1]
        elif "llvm.call @_cudaLaunchKernelEx" in line and symbol and size is not None:
            sizes[symbol] = size
        elif re.match(r"\s*llvm\.func ", line):
            constants.clear()
    return sizes


def _versions(ptx: str) -> dict[str, str]:
    names = ("nvidia-cutlass-dsl", "apache-tvm-ffi")
    versions = {name: importlib.metadata.version(name) for name in names}
    cuda = re.search(r"Cuda compilation tools, release [\d.]+, V([\d.]+)", ptx)
    return versions | ({"cuda": cuda[1]} if cuda else {})
