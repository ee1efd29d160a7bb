"""Ahead-of-time build of cuTile kernels, with no GPU.

A build holds one or more device functions. Each leaves four files named after it, the main one named `kernel`
(others e.g. `combine`):

    kernel.cubin      machine code; the compile stage adds kernel.sass
    kernel.ptx        PTX, out of the cubin's section `.nv_debug_ptx_txt` (absent if the compiler left none)
    kernel.tileirbc   CUDA Tile IR bytecode, what cuTile hands to `tileiras`
    kernel.tileir     the same as text, by `tileirdisasm`

cuTile's architecture names have no suffix: target `sm_90a` is its `sm_90`.
"""

import importlib.metadata
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elftools.elf.elffile import ELFFile

from cutesnake.runtime.machine_faults import MachineFaultError, machine_fault
from cutesnake.stages.compile.store import reuse
from cutesnake.stages.compile.torch_import import without_torch

# Read when cuTile is imported. Its own cache would lie outside the build's folder and hide the compiler's time.
os.environ.setdefault("CUDA_TILE_CACHE_DIR", "0")

FLAGS_AT = 10  # in bytecode: behind eight bytes of magic number and two of version
COMPILERS = ("cuda-tile", "nvidia-cuda-tileiras", "nvidia-cuda-nvcc", "nvidia-nvvm")


@dataclass(frozen=True)
class DeviceFunction:
    """One entry point of a build.

    `stem` names its files; `kernel` is a `cuda.tile.kernel`; `parameters` has one constraint or constant per
    parameter, in order; `symbol` is the name that the cubin exports.
    """

    stem: str
    symbol: str
    kernel: Any
    parameters: Sequence[Any]


def dtype(name: str) -> Any:
    """Return cuTile's type for a workload's dtype."""
    import cuda.tile as ct

    types = {
        "bf16": ct.bfloat16,
        "fp16": ct.float16,
        "fp32": ct.float32,
        "fp8": ct.float8_e4m3fn,
        "int8": ct.int8,
        "int32": ct.int32,
        "uint8": ct.uint8,
    }
    return types[name]


def array(name: str, ndim: int, aligned: bool = True, major: int = -1) -> Any:
    """Return the constraint of a dense array: stride 1 in `major`, no aliasing.

    `aligned` promises a base address, strides of the other dimensions and the extent of `major` divisible by 16 bytes:
    TMA needs the first two, 16-byte accesses all three (a bounds check per element would split them).
    """
    import cuda.tile as ct
    from cuda.tile.compilation import ArrayConstraint

    element = dtype(name)
    per_16_bytes = 128 // element.bitwidth if aligned else 1
    contiguous = [dimension == major % ndim for dimension in range(ndim)]
    return ArrayConstraint(
        element,
        ndim,
        index_dtype=ct.int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
        stride_constant=[1 if local else None for local in contiguous],
        # A stride that is constant 1 must not claim to be divisible by 16 bytes as well.
        stride_divisible_by=[1 if local else per_16_bytes for local in contiguous],
        shape_divisible_by=[per_16_bytes if local else 1 for local in contiguous],
        base_addr_divisible_by=16 if aligned else 4,
    )


def array_list(element: Any) -> Any:
    """Constraint of a list of arrays, none of which overlap, whose constraint is `element`."""
    from cuda.tile.compilation import ListConstraint

    return ListConstraint(element, alias_groups=(), elements_may_alias=False)


def scalar(name: str) -> Any:
    """Constraint of a scalar argument of dtype `name`."""
    from cuda.tile.compilation import ScalarConstraint

    return ScalarConstraint(dtype(name))


def build(functions: Sequence[DeviceFunction], target: str, folder: Path) -> dict[str, Any]:
    """Compile `functions` for `target` into `folder`; returns the kernel's part of build.json.

    Raises what cuTile raises (`TileCompilerError` with the compiler's words, TypeError for a constraint that does not
    fit), and FileNotFoundError if `tileiras` is not installed.
    """
    launch, notes = {}, []
    for function in functions:
        with without_torch():
            ptx = _export(function, target, folder)
        launch[function.symbol] = {
            "block": _directive(ptx, "reqntid"),
            "cluster": _directive(ptx, "reqnctapercluster") or [1, 1, 1],
            "dynamic_shared_bytes": 0,
        }
        if not ptx:
            notes.append(f"{function.stem}: the cubin carries no PTX")
    return {
        "symbols": [function.symbol for function in functions],
        "function": None,
        "launch": launch,
        "compilers": {name: importlib.metadata.version(name) for name in COMPILERS},
        "options": f"gpu_code={gpu_code(target)}",
        "notes": notes,
    }


def gpu_code(target: str) -> str:
    """Return cuTile's name of a target: `sm_90` for `sm_90a`."""
    return target.rstrip("af")


def _export(function: DeviceFunction, target: str, folder: Path) -> str:
    """Write one device function's files; return its PTX, "" if it has none."""
    from cuda.tile.compilation import CallingConvention, KernelSignature, export_kernel

    signature = KernelSignature(function.parameters, CallingConvention.cutile_python_v1(), function.symbol)
    cubin = folder / f"{function.stem}.cubin"
    bytecode = cubin.with_suffix(".tileirbc")
    code = gpu_code(target)
    find_compiler()  # again, where a server could not
    export_kernel(function.kernel, [signature], bytecode, gpu_code=code, output_format="tileir_bytecode")
    _disassemble(bytecode)

    def assemble() -> None:
        if not _assemble(bytecode, function.kernel, code):
            export_kernel(function.kernel, [signature], cubin, gpu_code=code, output_format="cubin")

    # The bytecode holds the kernel with its constants and hints; tileiras gets nothing else but flags of cuTile's.
    tools = [f"{name}=={importlib.metadata.version(name)}" for name in COMPILERS]
    reuse(cubin, [bytecode.read_bytes(), code, *tools], assemble)
    with cubin.open("rb") as stream:
        section = ELFFile(stream).get_section_by_name(".nv_debug_ptx_txt")
        ptx = ptx_text(section.data() if section is not None else b"")
    if ptx:
        cubin.with_suffix(".ptx").write_text(ptx)
    return ptx


def _assemble(bytecode: Path, kernel: Any, code: str) -> bool:
    """Have `tileiras` write the cubin next to the bytecode, as cuTile does.

    False where this cuTile has other functions, or where the bytecode uses what is under trial and needs more flags.
    """
    from cuda.tile import _compile

    under_trial = bytecode.read_bytes()[FLAGS_AT] & 1
    if under_trial or not all(hasattr(_compile, name) for name in ("compile_cubin", "default_tile_context")):
        return False
    limit_s = _compile.default_tile_context.config.compiler_timeout_sec
    _compile.compile_cubin(str(bytecode), kernel._compiler_options, code, limit_s)
    return True


def find_compiler() -> None:
    """Find `tileiras` and its newest bytecode version, for all forked processes.

    cuTile takes any failure for that of an older compiler: MachineFaultError if the machine is at fault.
    """
    from cuda.tile import _compile

    find = getattr(_compile, "_get_max_supported_bytecode_version", None)
    if find is None:
        return
    run = _compile._CompilerBinary.run

    def try_version(*arguments: Any, **named: Any) -> None:
        try:
            run(*arguments, **named)
        except _compile.TileCompilerError as error:
            if fault := machine_fault(error):
                raise MachineFaultError(f"tileiras cannot be tried: {fault}") from error
            raise

    _compile._CompilerBinary.run = try_version
    try:
        find(_compile.default_tile_context.config.temp_dir, allow_dev=_compile.dev_features_enabled())
    finally:
        _compile._CompilerBinary.run = run


def ptx_text(section: bytes) -> str:
    """Return the PTX in a cubin's section, "" without; lines end in nulls.

    Blank lines stay, where comments and line directives stood: the cubin's line table counts them, too, and ptxsim's
    clock finds by it which machine instructions stand for which line.
    """
    text = section.replace(b"\0", b"\n").decode().rstrip()
    return f"{text}\n" if text else ""


def _disassemble(bytecode: Path) -> None:
    """Write Tile IR text next to bytecode by `tileirdisasm`, if installed."""
    from cuda.pathfinder import find_nvidia_binary_utility

    neighbour = find_nvidia_binary_utility("nvdisasm")
    tool = shutil.which("tileirdisasm", path=Path(neighbour).parent if neighbour else None)
    if tool is not None:
        text = subprocess.run([tool, str(bytecode)], capture_output=True, text=True, check=True).stdout
        bytecode.with_suffix(".tileir").write_text(text)


def _directive(ptx: str, name: str) -> list[int] | None:
    """Return three extents of a directive such as `.reqntid 384`, or None."""
    result = re.search(rf"^\.{name}\s+([\d, ]+)$", ptx, re.MULTILINE)
    if result is None:
        return None
    extents = [int(part) for part in result.group(1).split(",")]
    return extents + [1] * (3 - len(extents))
