"""Compile PTX again with its functions renamed, and compare spills: ptxas looks at the names.

python -m benchmarks.toolchains.symbol_names results/compile/mla_decode/*/sm_100a/*/kernel.ptx
"""

from __future__ import annotations

import argparse
import re
import subprocess
import tempfile
from pathlib import Path

from cuda.pathfinder import find_nvidia_binary_utility

USED = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")
# What ptxas looks for, and a control: another part of the same names.
RENAMED = {"as it is": ("", ""), "without «cutlass»": ("cutlass", "cutlazz"), "control": ("kernel_c", "kernex_c")}


def main() -> None:
    """Print a line per file and name."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ptxas", default=find_nvidia_binary_utility("nvcc"), help="or an nvcc next to one")
    parser.add_argument("ptx", nargs="+", type=Path)
    chosen = parser.parse_args()
    ptxas = Path(chosen.ptxas).with_name("ptxas")
    for path in chosen.ptx:
        for name, (old, new) in RENAMED.items():
            print(f"{path}, {name}: {compiled(ptxas, path.read_text().replace(old, new) if old else path.read_text())}")


def compiled(ptxas: Path, ptx: str) -> str:
    """Return registers, stack and spilled bytes per function, or the first line of a complaint."""
    target = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)
    with tempfile.TemporaryDirectory() as name:
        source = Path(name, "kernel.ptx")
        source.write_text(ptx)
        command = [str(ptxas), "-O3", "-v", "-arch", target[1] if target else "sm_100a", str(source)]
        done = subprocess.run([*command, "-o", f"{name}/kernel.cubin"], capture_output=True, text=True)
    if done.returncode:
        return done.stderr.splitlines()[0]
    functions = zip(REGISTERS.findall(done.stderr), USED.findall(done.stderr), strict=True)
    return "; ".join(
        f"{registers} registers, stack {stack}, stores {stores}, loads {loads}"
        for registers, (stack, stores, loads) in functions
    )


if __name__ == "__main__":
    main()
