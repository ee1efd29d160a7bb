"""Ask a Hopper card whether the TMA descriptors that ptxsim passes to a cuTile kernel do what the driver's do.

`python tile_card.py prepare BUILD FOLDER` takes a build of TileGym's matrix product for sm_90a (gemm/tilegym) and puts
its cubin, its PTX, and a cubin that ptxas makes of that PTX into FOLDER. The second cubin has no host code, so that
whoever launches it passes the descriptors. `python tile_card.py run FOLDER`, on the card, launches the first with the
visible parameters alone, as any program does, and the second with all of them, made by ptxsim; their outputs have to
have the same bits. It needs numpy, torch, cuda-bindings and a C compiler there.
"""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

SIZES = ((512, 512, 256), (200, 264, 136), (1024, 640, 2048))


def prepare(build: Path, folder: Path) -> None:
    import nvidia

    folder.mkdir(parents=True, exist_ok=True)
    for name in ("kernel.cubin", "kernel.ptx", "build.json"):
        shutil.copy(build / name, folder / name)
    text = (folder / "kernel.ptx").read_text().split("\n.section")[0]
    plain = folder / "plain.ptx"
    plain.write_text(re.sub(r"^\s*\.(loc|file|pragma)\b.*\n", "", text, flags=re.M))
    ptxas = next(x for root in nvidia.__path__ for x in Path(root).glob("*/bin/ptxas"))
    subprocess.run([ptxas, "-arch=sm_90a", plain, "-o", folder / "plain.cubin"], check=True)


def checked(answer: tuple[Any, ...]) -> Any:
    status, *values = answer
    if int(status):
        raise RuntimeError(f"the driver says {status}")
    return values[0] if values else None


def launch(cubin: Path, symbol: str, grid: int, threads: int, parameters: list[bytes]) -> None:
    """One launch of a kernel with these parameters, waited for."""
    from cuda.bindings import driver

    module = checked(driver.cuModuleLoad(str(cubin).encode()))
    function = checked(driver.cuModuleGetFunction(module, symbol.encode()))
    checked(driver.cuFuncLoad(function))
    attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    if threads > 1:
        driver.cuFuncSetAttribute(function, attribute, 0)
    kept = [ctypes.create_string_buffer(x, len(x)) for x in parameters]
    pointers = (ctypes.c_void_p * len(kept))(*[ctypes.addressof(x) for x in kept])
    checked(driver.cuLaunchKernel(function, grid, 1, 1, threads, 1, 1, 0, 0, ctypes.addressof(pointers), 0))
    checked(driver.cuCtxSynchronize())


def run(folder: Path) -> None:
    import torch

    import ptxsim
    from ptxsim.tile import parameter_block

    module = ptxsim.Module.from_file(folder / "kernel.ptx")
    ((symbol, kernel),) = module.kernels.items()
    tile = json.loads((folder / "build.json").read_text())["variant"]["params"]
    for m, n, k in SIZES:
        a, b = (torch.randn(rows, k, device="cuda").bfloat16() for rows in (m, n))
        outputs = [torch.full((m, n), float("nan"), device="cuda").bfloat16() for _ in range(2)]
        grid = -(-m // tile["tile_size_m"]) * -(-n // tile["tile_size_n"])
        for number, (c, name) in enumerate(zip(outputs, ("kernel.cubin", "plain.cubin"), strict=True)):
            visible: list[bytes] = []
            for x in (a, b.T, c):
                visible.append(x.data_ptr().to_bytes(8, "little"))
                visible += [size.to_bytes(4, "little") for size in (*x.shape, *x.stride())]
            block = parameter_block(folder / "kernel.cubin", module, symbol, visible)
            every = [block[p.offset : p.offset + p.size].tobytes() for p in kernel.params]
            threads = kernel.directives["reqntid"][0] if number else 1
            launch(folder / name, symbol, grid, threads, every if number else visible)
        same = torch.equal(*(x.view(torch.int16) for x in outputs))
        error = (outputs[0].float() - a.float() @ b.float().T).abs().max().item()
        print(json.dumps({"m": m, "n": n, "k": k, "same_bits": same, "largest_error": error}), flush=True)


if __name__ == "__main__":
    {"prepare": prepare, "run": run}[sys.argv[1]](*map(Path, sys.argv[2:]))
