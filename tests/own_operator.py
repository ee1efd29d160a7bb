"""A whole operator in a folder outside the repository, as a user would write it."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

OPERATOR = """
from dataclasses import dataclass
from cutesnake.model.contract import Cost

DTYPES = {"fp32": 4}
DISTRIBUTIONS = ("randn",)
AXIS, AXIS_LABEL = "size", "elements"

@dataclass(frozen=True)
class Workload:
    size: int
    dtype: str = "fp32"

    @property
    def id(self):
        return f"n{self.size}_{self.dtype}"

@dataclass
class Inputs:
    x: object

@dataclass
class Outputs:
    y: object
    total: object

def relatives(workload):
    return ()

def make_inputs(workload, seed, device="cpu", distribution="randn"):
    import torch
    generator = torch.Generator().manual_seed(seed)
    return Inputs(torch.randn(workload.size, generator=generator).to(device))

def make_outputs(workload, device="cpu"):
    import torch
    y, total = (torch.full((size,), float("nan"), device=device) for size in (workload.size, 1))
    return Outputs(y, total)

def reference(inputs, workload):
    return Outputs(2 * inputs.x, inputs.x[:1] * 2)

same_precision = reference

def cost(workload):
    return Cost(workload.size, 4 * workload.size, 4 * workload.size)

def tolerance(dtype):
    return 1e-6
"""
DEVICE = """
import cutlass
import cutlass.cute as cute
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import make_fake_compact_tensor, make_fake_stream

@cute.kernel
def double_kernel(mX: cute.Tensor, mY: cute.Tensor, mTotal: cute.Tensor):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * 128 + thread
    if i < mX.shape[0]:
        mY[i] = mX[i] * 2.0
    if i == 0:
        mTotal[0] = mX[0] * 2.0

@cute.jit
def double(mX: cute.Tensor, mY: cute.Tensor, mTotal: cute.Tensor, stream: CUstream):
    double_kernel(mX, mY, mTotal).launch(grid=[cute.ceil_div(mX.shape[0], 128), 1, 1], block=[128, 1, 1], stream=stream)

def program():
    length = cute.sym_int32()
    x, y = (make_fake_compact_tensor(cutlass.Float32, (length,), assumed_align=16) for _ in "xy")
    total = make_fake_compact_tensor(cutlass.Float32, (1,), assumed_align=16)
    return double, (x, y, total, make_fake_stream())
"""
CUTE = """
from cutesnake.model.contract import Runner, Variant

DSL: str = "cute"
SOURCE = "ours"
TARGETS = {"sm_90a": (), "sm_100a": ()}

def supports(workload):
    return None

def variants(workload, target):
    return (Variant("plain", {}),)

def compile(variant, target, folder):
    from cutesnake.stages.compile import cute
    def program():
        from kernels.double.mine import device
        return device.program()
    return cute.build(program, "double", target, folder)

def bind(build, workload, inputs, outputs):
    from cutesnake.stages.load.cute import Call
    launch = build.launch(build.symbols[0], (-(-workload.size // 128), 1, 1))
    return Runner(Call(build.function(), (inputs.x, outputs.y, outputs.total)), (launch,))
"""
PYTORCH = """
from cutesnake.model.contract import Runner, Variant

DSL = "torch"
SOURCE = "ours"
TARGETS = {"sm_90a": (), "sm_100a": ()}

def supports(workload):
    return None

def variants(workload, target):
    return (Variant("eager", {}),)

def compile(variant, target, folder):
    return {"symbols": [], "launch": {}, "function": None, "compilers": {}, "notes": ["PyTorch's own kernels"]}

def bind(build, workload, inputs, outputs):
    import torch

    def enqueue(stream):
        with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
            torch.mul(inputs.x, 2, out=outputs.y)
            torch.mul(inputs.x[:1], 2, out=outputs.total)

    return Runner(enqueue)
"""
SWEEP = """
kernels: [mine, torch_mul]
dtypes: [fp32]
distributions: [randn]
workloads:
  - size: [1000, 5000]
simulation:
  short:
    distributions: [randn]
    workloads:
      - size: 300
"""
FILES = {
    "double/operator.py": OPERATOR,
    "double/sweep.yaml": SWEEP,
    "double/mine/__init__.py": CUTE,
    "double/mine/device.py": DEVICE,
    "double/torch_mul.py": PYTORCH,
}


@pytest.fixture
def own(tmp_path) -> Iterator[Path]:
    """A folder of the user's own, outside the project."""
    folder = tmp_path / "my kernels"
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    yield folder
    for name in [name for name in sys.modules if name.startswith(("kernels.double", "kernels.elementwise_add.mine"))]:
        del sys.modules[name]


def arguments(own: Path) -> tuple[str, ...]:
    return ("--config", "operators=[double]", "targets=[sm_90a, sm_100a]", f'kernel_paths=["{own}"]')
