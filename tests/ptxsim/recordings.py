"""Whole sm_90a kernels run in ptxsim, kept for a GPU to repeat.

`recordings.py FILE [written] [nvidia] [this project's]`.

NVIDIA's examples as the catalogue builds them, our cute_sm90 MLA decode with its combine kernel, and the PTX of
handwritten.py. `hardware.py kernels FILE` is the other half.
"""

from __future__ import annotations

import gzip
import pickle
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import gemm_forms
import numpy as np
import torch
from handwritten import all_kernels

import ptxsim
from cutesnake.model.catalog import load_kernel, load_operator
from tests.builds import build

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results/ptxsim/hopper"
KINDS = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32"}
# Of the largest magnitude in a buffer. Where exponentials (ex2.approx, within 2 units in the last place), lg2, rsqrt or
# an approximate division feed a rounding to 16 bits, one unit in its last place (2^-8 of bf16, 2^-11 of f16) may turn.
EXACT, TO_F16, TO_BF16 = 0.0, 2.0**-10, 2.0**-7


def case(
    name: str, text: str, launches: list, kinds: dict[int, str], tolerance: float, schedule: str = "random"
) -> dict:
    """Run launches and keep images, parameters and buffers; `kinds` by address, bytes where unknown."""
    memory = launches[0].memory
    for launch in launches[1:]:
        known = {x.address for x in memory.allocations}
        for x in launch.memory.allocations:
            if x.address not in known:
                memory.add(x.name, x.address, x.size, x.keep)
    before = [(x.name, x.address, x.bytes.copy(), kinds.get(x.address, "u8")) for x in memory.allocations]
    result = ptxsim.run(launches, schedule=schedule, checks=("uninitialised", "race"))
    outcome = sorted({f"{f.kind}: {f.message[:90]}" for f in result.findings})
    print(f"recorded {name}: {result.seconds:.1f} s{''.join(f'; {f}' for f in outcome[:2])}", flush=True)
    return {
        "name": name,
        "image": text.encode(),
        "tolerance": tolerance,
        "before": before,
        "after": [x.bytes.copy() for x in memory.allocations],
        "launches": [
            (
                x.name,
                x.grid,
                x.block,
                x.cluster,
                x.dynamic_shared,
                x.params,
                [(p.offset, p.size) for p in x.kernel.params],
            )
            for x in launches
        ],
    }


def exported(name: str, folder: Path, function: str, args: tuple, tolerance: float) -> dict:
    """A case of an exported CuTe DSL object."""
    module = ptxsim.Module.from_file(folder / "kernel.ptx")
    launches = ptxsim.capture(folder / "kernel.o", function, args, module, sm_count=132)
    tensors = [x.array if isinstance(x, ptxsim.Pointer) else x for x in args]
    kinds = {x.data_ptr(): KINDS.get(x.dtype, "u8") for x in tensors if isinstance(x, torch.Tensor)}
    return case(name, (folder / "kernel.ptx").read_text(), launches, kinds, tolerance)


def catalogue(operator: str, kernel: str, **workload: Any) -> Path:
    """A kernel of the catalogue in its default variant for a workload, built for sm_90a."""
    problem = load_operator(operator).Workload(**workload)
    return build(operator, kernel, "sm_90a", load_kernel(operator, kernel).variants(problem, "sm_90a")[0])


def nvidia() -> Iterator[dict]:
    """elementwise_add, rmsnorm, GEMM and FMHA for Hopper."""
    a, b = torch.randn(37, 100), torch.randn(37, 100)
    args = (a, b, torch.full((37, 100), float("nan")), 0)
    folder = catalogue("elementwise_add", "cutlass_ampere", rows=37, columns=100)
    yield exported("elementwise_add", folder, "elementwise_add", args, EXACT)
    for n in (1024, 16384, 65536):
        x, w, o = torch.randn(6, n).bfloat16(), torch.randn(n).bfloat16(), torch.full((6, n), float("nan")).bfloat16()
        folder = catalogue("rmsnorm", "cutlass_rmsnorm", rows=6, columns=n)
        yield exported(f"rmsnorm of {n}", folder, "rmsnorm", (x, w, o, 1e-6, 0), TO_BF16)
    names = {"fp8": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2, "int8": torch.int8}
    names |= {"fp16": torch.float16, "fp32": torch.float32, "int32": torch.int32}
    for name, form in gemm_forms.HOPPER.items():
        element, mn = form["dtype"], form["a_major"] == "m"
        m, n, k = 200 if mn or element == "fp16" else 192, 320, 224

        def operand(rows: int, k: int = k, element: str = element, mn: bool = mn) -> torch.Tensor:
            x = torch.randint(-128, 128, (2, rows, k)) if element == "int8" else torch.randn(2, rows, k)
            x = x.to(names[element])
            return x.transpose(1, 2).contiguous().permute(2, 1, 0) if mn else x.permute(1, 2, 0)

        c = torch.full((2, m, n), 77).to(names[form["output"]]).permute(1, 2, 0)
        folder = gemm_forms.built("hopper_gemm", name)
        yield exported(f"Hopper GEMM {name}", folder, "gemm", (operand(m), operand(n), c, 0), EXACT)
    for causal in (False, True):
        q, k, v = (torch.randn(1, 256, 2, 128).half() for _ in range(3))
        o, lse, scale = torch.full((1, 256, 2, 128), float("nan")).half(), torch.zeros(1, 2, 256), 128**-0.5
        folder = catalogue("fmha", "cutlass_sm90", batch=1, length=256, dtype="fp16", causal=causal)
        args = (q, k, v, o, lse, scale * 1.4426950408889634, scale, 0)
        yield exported(f"Hopper fmha{'_causal' * causal}", folder, "fmha", args, TO_F16)


def _opener(module: ptxsim.Module, captured: list, folder: Path, function: str) -> Callable[..., None]:
    """What stands for the loaded function.

    It leaves the captured launches and the arguments in `captured`.
    """

    def launch(*arguments) -> None:
        args = (*arguments[:-1], ptxsim.Pointer(torch.zeros(1), "stream"))
        captured[:] = [ptxsim.capture(folder / "kernel.o", function, args, module, sm_count=132), arguments]

    return launch


def own_builds() -> Iterator[dict]:
    """cute_sm90: both dtypes, single CTAs and clusters of two.

    The long request is split, so that it is combined.
    """
    from cutesnake.stages.compile.compile import compile_build
    from cutesnake.stages.load import cute as cute_load
    from cutesnake.stages.load.build import LoadedBuild
    from kernels.mla_decode import cute_sm90, operator

    for dtype in ("bf16", "fp16"):
        for cluster in (1, 2):
            workload = operator.Workload(2, 449, dtype, paged=True)
            variant = next(v for v in cute_sm90.variants(workload, "sm_90a") if v.params["cluster"] == cluster)
            folder = FOLDER / "compile/mla_decode/cute_sm90/sm_90a" / variant.id
            if not (folder / "build.json").exists():
                compile_build("mla_decode", "cute_sm90", "sm_90a", variant, folder)
            module = ptxsim.Module.from_file(folder / "kernel.ptx")
            kept: list = []

            inputs = operator.make_inputs(workload, 0, "cpu", "ragged")
            outputs = operator.make_outputs(workload)
            with cute_load.opened_by(partial(_opener, module, kept), 132):
                cute_sm90.bind(LoadedBuild(folder), workload, inputs, outputs)(0)
            launches, arguments = kept
            kinds = {x.data_ptr(): KINDS.get(x.dtype, "u8") for x in arguments if isinstance(x, torch.Tensor)}
            name = f"cute_sm90 {variant.id}, {len(launches)} kernels"
            yield case(
                name, (folder / "kernel.ptx").read_text(), launches, kinds, TO_BF16 if dtype == "bf16" else TO_F16
            )


def written() -> Iterator[dict]:
    """The kernels of handwritten.py."""
    for kernel in all_kernels():
        module = ptxsim.Module.from_text(kernel.text)
        launch = ptxsim.launch(
            module,
            "k",
            kernel.grid,
            (kernel.threads,),
            kernel.args,
            dynamic_shared=kernel.shared,
            cluster=kernel.cluster,
        )
        arrays = [x for x in kernel.args if isinstance(x, np.ndarray)]
        kinds = {x.ctypes.data: kind for x, kind in zip(arrays, kernel.kinds, strict=True)}
        for x, kind in kernel.hold:
            launch.memory.add(kind, x.ctypes.data, x.nbytes, x)
            kinds[x.ctypes.data] = kind
        yield case(kernel.name, kernel.text, [launch], kinds, EXACT)


if __name__ == "__main__":
    torch.manual_seed(7)
    parts = {"written": written, "nvidia": nvidia, "own_builds": own_builds}
    cases = [case for part in sys.argv[2:] or parts for case in parts[part]()]
    with gzip.open(sys.argv[1], "wb") as stream:
        pickle.dump(cases, stream)
