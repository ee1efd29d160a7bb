"""What the host sets up: captured launches, their attributes, and the TMA descriptors among their parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutesnake.model.catalog import load_kernel, load_operator, make_workload
from cutesnake.stages.load import cute as cute_load
from cutesnake.stages.load.build import LoadedBuild
from cutesnake.stages.measure import checker
from ptxsim import Launch, Module, Pointer, PtxError, Tensor, capture, tile_launch
from ptxsim.descriptors import TensorMap, decode

SWIZZLES = ("none", "32 B", "64 B", "128 B")
ELEMENTS = {
    **dict(enumerate(("8-bit", "16-bit integers", "32-bit integers", "32-bit integers", "64-bit integers"))),
    **{5: "64-bit integers", 6: "f16", 7: "f32", 8: "f32", 9: "f64", 10: "bf16", 11: "4-bit", 12: "4-bit in 8"},
}
# cudaLaunchAttributeID of the CUDA runtime's documentation
ATTRIBUTES = {2: "cooperative", 4: "cluster", 6: "programmatic dependent launch"}
DESCRIPTOR_BYTES = 128


@dataclass(frozen=True)
class Asked:
    """A build and a workload to launch it on; `processors` is how many multiprocessors the host is told of."""

    folder: Path
    operator: str
    kernel: str
    parameters: Mapping[str, Any]
    processors: int


def launches_of(asked: Asked, modules: Mapping[str, Module]) -> list[Launch]:
    """The launches that the build's own host code makes; nothing is launched.

    modules: the PTX of the build by the stem of its file. Raises whatever `bind` raises, ValueError where the build
    does not take the workload, and CaptureError.
    """
    import torch

    torch.set_num_threads(1)  # a job is told to take one core
    operator = load_operator(asked.operator)
    workload = make_workload(asked.operator, asked.parameters)
    inputs = operator.make_inputs(workload, 0, "cpu", operator.DISTRIBUTIONS[0])
    outputs = operator.make_outputs(workload, "cpu")
    names = {tensor.data_ptr(): name for group in (inputs, outputs) for name, tensor in checker.tensors(group)}
    caught = _Caught(asked.processors, modules, names)
    with ExitStack() as stack:
        stack.enter_context(cute_load.opened_by(caught.open_object, asked.processors))
        if load_kernel(asked.operator, asked.kernel).DSL == "cutile":
            from cutesnake.stages.load import cutile as cutile_load  # which needs cuda-bindings

            stack.enter_context(cutile_load.opened_by(caught.open_cubin, asked.processors))
        runner = load_kernel(asked.operator, asked.kernel).bind(LoadedBuild(asked.folder), workload, inputs, outputs)
    runner(0)
    if not caught.launches:
        raise PtxError("the host function launched nothing")
    caught.launches[0].attributes["kept"] = (inputs, outputs, runner)  # the tensors' memory has to outlive the launches
    return caught.launches


class _Caught:
    """Stands in for a build's functions: their calls are kept as launches, with `names` of the tensors by address."""

    def __init__(self, processors: int, modules: Mapping[str, Module], names: Mapping[int, str]) -> None:
        self.processors, self.modules, self.names = processors, modules, names
        self.launches: list[Launch] = []

    def open_object(self, folder: Path, function: str) -> Callable[..., None]:
        """The exported function of a CuTe object; its last argument is the stream."""
        import torch

        def call(*arguments: Any) -> None:
            given = (*(_named(one, self.names) for one in arguments[:-1]), Pointer(torch.zeros(1), "stream"))
            place, module = folder / "kernel.o", self.modules["kernel"]
            self.launches += capture(place, function, given, module, sm_count=self.processors)

        return call

    def open_cubin(self, path: Path) -> Callable[..., None]:
        """A device function of cuTile, whose launches the project's own loader makes."""
        from cutesnake.stages.load import cutile as cutile_load

        def call(symbol: str, grid: tuple[int, int, int], values: Sequence[Any], early: bool) -> None:
            parameters = [bytes(parameter) for parameter in cutile_load.flatten(values)]
            arrays = [_named(tensor, self.names) for tensor in cutile_load.arrays(values)]
            module = self.modules[path.stem]
            self.launches.append(tile_launch(path, module, symbol, grid, parameters, pointees=arrays, early=early))

        return call


def _named(argument: Any, names: Mapping[int, str]) -> Any:
    """A tensor with the operator's name for it; anything else as it is."""
    if not hasattr(argument, "data_ptr"):
        return argument
    return Tensor(argument, name=names.get(argument.data_ptr(), "workspace"))


def attributes_of(launch: Launch) -> dict[str, Any]:
    """Launch attributes by name, as the host set them."""
    found: dict[str, Any] = {}
    for key, value in launch.attributes.items():
        if not key.startswith("attribute_"):
            continue
        number = int(key.removeprefix("attribute_"))
        name = ATTRIBUTES.get(number, f"attribute {number}")
        found[name] = list(value) if number == 4 else bool(value[0])
    return found


def descriptors_of(launch: Launch) -> dict[TensorMap, dict[str, Any]]:
    """Descriptor -> what it says, of those that are passed as parameters."""
    found = {}
    for parameter in launch.kernel.params:
        if parameter.size != DESCRIPTOR_BYTES or parameter.offset % 64:
            continue
        raw = launch.params[parameter.offset : parameter.offset + DESCRIPTOR_BYTES]
        try:
            tensor = decode(bytes(raw))
        except ValueError:
            continue
        if tensor.address and launch.memory.find(tensor.address):
            found[tensor] = describe(launch, tensor)
    return found


def describe(launch: Launch, tensor: TensorMap, touched: int | None = None) -> dict[str, Any]:
    """A descriptor in words and numbers; sizes, strides and box are innermost first. `touched`: see tensor_name."""
    return {
        "tensor": tensor_name(launch, tensor, touched),
        "element": ELEMENTS.get(tensor.dtype, f"type {tensor.dtype}"),
        "sizes": list(tensor.sizes),
        "strides_bytes": list(tensor.strides[1:]),
        "box": list(tensor.box),
        "box_bytes": tensor.box_bytes,
        "swizzle": SWIZZLES[tensor.swizzle] + ("" if tensor.atom == 0 else f", atoms of {16 << tensor.atom} B"),
        "fill": "zeros",
    }


def tensor_name(launch: Launch, tensor: TensorMap | None, touched: int | None = None) -> str | None:
    """The operator's name of the tensor that a descriptor points into, by an address that a copy `touched` if any."""
    allocation = launch.memory.find(tensor.address if touched is None else touched) if tensor else None
    return allocation.name if allocation else None
