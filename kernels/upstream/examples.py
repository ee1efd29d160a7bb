"""NVIDIA's CuTe DSL examples (CUTLASS 4.5, BSD-3): adapters compile them unmodified."""

import importlib
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

from kernels.programs import Compile, compile_program

SOURCE = "flashinfer-python"  # the wheel, a key of kernels/upstream.yaml
FOLDER = "flashinfer/data/cutlass/examples/python/CuTeDSL"
OWN = "flashinfer/cute_dsl"  # FlashInfer's own kernels


@dataclass(frozen=True)
class Example:
    """A class of NVIDIA's examples, as a kernel.

    PROGRAM, `module:function`, makes what is compiled from path, name, `chosen` and a variant's values. FUNCTION is its
    name in the build.
    """

    path: str  # below the folder of examples
    name: str
    PROGRAM: ClassVar[str]
    FUNCTION: ClassVar[str] = "gemm"

    @property
    def chosen(self) -> tuple[Any, ...]:
        return ()

    @property
    def compile(self) -> Compile:
        return compile_program(self.PROGRAM, self.FUNCTION, self.path, self.name, *self.chosen)


def module(name: str) -> Any:
    """Import a kernel by its path below a folder of the wheel, such as `blackwell.mla.mla_decode_fp16`.

    To be called where the DSL is set up already, inside the `program` of a build. The torch that most examples import
    for their own drivers is a stand-in. An example may import others of its own folder by their bare names. Raises
    FetchError if the wheel is missing, and whatever the example raises.
    """
    from cutesnake.stages.compile.torch_import import StandIn, without_torch
    from cutesnake.stages.fetch import fetched

    root = (fetched(SOURCE) / (OWN if name.startswith("attention.") else FOLDER)).resolve()
    for folder in map(str, (root.joinpath(*name.split(".")[:-1]), root)):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    torch = StandIn("torch")
    for part in ("nn", "nn.functional", "nn.attention"):
        setattr(torch, part, StandIn(f"torch.{part}"))
    with without_torch(torch):
        return importlib.import_module(name)
