"""Evidence for claims of kind `compiled`: compile an entry's program and read the result."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

from cutesnake.stages.inspect.cubin import read_cubin

COUNTED = ("wgmma.mma_async", "mma.sync", "cp.async.bulk.tensor")  # prefixes of PTX opcodes


def compile_program(program: Path, function: str, target: str) -> dict[str, Any]:
    """Compile the cuTile device function that `function` of a program returns.

    Returns threads per block, stack bytes per thread, registers per thread, static shared memory (bytes), and the PTX
    count of each opcode in COUNTED (`opcodes`). Raises whatever the program or the compiler raises.
    """
    from cutesnake.stages.compile.cutile import build

    spec = importlib.util.spec_from_file_location(program.stem, program)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with tempfile.TemporaryDirectory() as folder:
        made = getattr(module, function)()
        build([made], target, Path(folder))
        cubin = read_cubin(Path(folder, f"{made.stem}.cubin"))
    (kernel,), lines = cubin.kernels, (cubin.ptx or "").split("\n")
    return {
        "threads": kernel.required_threads,
        "stack_bytes": kernel.stack_bytes,
        "registers_per_thread": kernel.registers_per_thread,
        "static_shared_bytes": kernel.static_shared_bytes,
        "opcodes": {name: sum(line.lstrip().startswith(name) for line in lines) for name in COUNTED},
    }
