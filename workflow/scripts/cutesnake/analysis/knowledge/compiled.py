"""What a compiler makes of a program that lies beside an entry: the record of a claim of kind `compiled`."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

from cutesnake.stages.inspect.cubin import read_cubin

COUNTED = ("wgmma.mma_async", "mma.sync", "cp.async.bulk.tensor")  # opcodes of the PTX, by how they begin


def compile_program(program: Path, function: str, target: str) -> dict[str, Any]:
    """Compile the one device function of cuTile that `function` of a Python program gives, and read it.

    Returns threads of a block, bytes of a thread's stack, registers of a thread, static shared memory (bytes), and how
    often the PTX has each of COUNTED (`opcodes`). Raises whatever the program or the compiler raises.
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
