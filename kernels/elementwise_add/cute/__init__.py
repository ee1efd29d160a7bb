"""`elementwise_add` in CuTe DSL: one build per dtype serves every matrix size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from cutesnake.contract import Executable, Launch, Runner, Variant
from kernels.elementwise_add.operator import DTYPES, Inputs, Outputs, Workload

DSL = "cute"
SOURCE = "ours"
TARGETS = {
    "sm_90a": "",
    "sm_100a": "",
    "sm_103a": "",
    "sm_120a": "",
}
VECTOR_BYTES = 16
MOST_ELEMENTS = 2**31 - 2**14  # no tile has 2^14 elements
SHAPES = ((256, 4), (256, 2), (128, 8), (512, 2))  # threads per CTA, vectors per thread


def supports(workload: Workload) -> str | None:
    """All whose elements, with those of a last tile that reaches past the end, 32-bit coordinates can count."""
    if workload.rows * workload.columns > MOST_ELEMENTS:
        return f"the kernel counts elements in 32 bits and takes up to {MOST_ELEMENTS:,}"
    return None


def variants(workload: Workload, target: str) -> tuple[Variant, ...]:
    return tuple(
        Variant(
            f"{workload.dtype}_t{threads}_v{vectors}",
            {"dtype": workload.dtype, "threads": threads, "vectors": vectors},
        )
        for threads, vectors in SHAPES
    )


def compile(variant: Variant, target: str, folder: Path) -> dict[str, Any]:
    from cutesnake.build import cute as cute_build

    def program() -> tuple[Any, tuple[Any, ...]]:
        from kernels.elementwise_add.cute import kernel as cute_kernel

        return cute_kernel.program(**variant.params)

    return cute_build.build(program, "elementwise_add", target, folder)


def load(folder: Path) -> Executable:
    from cutesnake import record
    from cutesnake.load import cute as cute_load

    build = record.read("compile", folder / "build.json")
    return Loaded(cute_load.open_function(folder), build)


class Loaded:
    """The build's function, and what its launches are computed from."""

    def __init__(self, function: Callable[..., None], build: dict[str, Any]) -> None:
        self._function = function
        self._symbol = build["symbols"][0]
        self._launch = build["launch"][self._symbol]
        params = build["variant"]["params"]
        self._tile = params["threads"] * params["vectors"] * VECTOR_BYTES // DTYPES[params["dtype"]]

    def bind(self, workload: Workload, inputs: Inputs, outputs: Outputs) -> Runner:
        """Contiguous matrices are vectors: row ends do not matter to an elementwise operator."""
        from cutesnake.load.cute import Call

        tensors = tuple(matrix.view(-1) for matrix in (inputs.a, inputs.b, outputs.c))
        tiles = -(-workload.rows * workload.columns // self._tile)
        launch = Launch(self._symbol, (tiles, 1, 1), tuple(self._launch["block"]))
        return Call(self._function, tensors, (launch,))
