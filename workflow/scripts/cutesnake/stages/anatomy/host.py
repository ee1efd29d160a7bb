"""Capture launches of a build: attributes, TMA descriptors and names of tensors."""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from cutesnake.model.catalog import load_kernel, load_operator, make_workload
from cutesnake.stages.load import cute as cute_load
from cutesnake.stages.load.build import LoadedBuild
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
    """A build and its workload; `processors` is the number of multiprocessors that the host sees."""

    folder: Path
    operator: str
    kernel: str
    parameters: Mapping[str, Any]
    processors: int


def launches_of(asked: Asked, modules: Mapping[str, Module]) -> list[Launch]:
    """Return the launches of the build's own host code; nothing is launched.

    modules: the PTX of the build by the stem of its file. Raises whatever `bind` raises, ValueError where the build
    does not take the workload, and CaptureError.
    """
    import torch

    torch.set_num_threads(1)  # a job takes one core
    operator = load_operator(asked.operator)
    workload = make_workload(asked.operator, asked.parameters)
    inputs = operator.make_inputs(workload, 0, "cpu", operator.DISTRIBUTIONS[0])
    outputs = operator.make_outputs(workload, "cpu")
    names = Names([*_tensors("", inputs), *_tensors("", outputs)])
    caught = _Caught(asked.processors, modules, names)
    with ExitStack() as stack:
        stack.enter_context(cute_load.opened_by(caught.open_object, asked.processors))
        if load_kernel(asked.operator, asked.kernel).DSL == "cutile":
            from cutesnake.stages.load import cutile as cutile_load  # which needs cuda-bindings

            stack.enter_context(cutile_load.opened_by(caught.open_cubin, asked.processors))
        bind = load_kernel(asked.operator, asked.kernel).bind
        with names.watched():
            runner = bind(LoadedBuild(asked.folder), workload, inputs, outputs)
    runner(0)
    if not caught.launches:
        raise PtxError("the host function launched nothing")
    caught.launches[0].attributes["kept"] = (inputs, outputs, runner)  # the tensors' memory has to outlive the launches
    for launch in caught.launches:
        launch.attributes["outputs"] = {name for name, _ in _tensors("", outputs)}
    return caught.launches


class Names:
    """Names of tensors by address: the operator's first, then variables of `bind`."""

    def __init__(self, tensors: Iterable[tuple[str, Any]]) -> None:
        self._ranges = [_range(name, tensor) for name, tensor in tensors]

    def of(self, tensor: Any) -> str:
        """Return the name of a tensor by its address, else "workspace"."""
        at = tensor.data_ptr()
        exact = next((name for start, _, name, _ in self._ranges if start == at), None)
        return exact or next((name for start, end, name, _ in self._ranges if start <= at < end), "workspace")

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Add the local variables of the kernel's functions that return meanwhile, `bind` first."""
        result: list[tuple[bool, bool, str, Any]] = []

        def note(frame: FrameType, event: str, _: Any) -> None:
            function = frame.f_code.co_name
            if event == "return" and function[0] != "<" and frame.f_globals.get("__name__", "").startswith("kernels."):
                nested = function != "bind"
                for name, value in frame.f_locals.items():
                    inside = not hasattr(value, "data_ptr")
                    result.extend((nested, inside, *one) for one in _tensors(name, value))

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            yield
        finally:
            sys.setprofile(before)
            ordered = sorted(result, key=lambda one: one[:2])
            self._ranges += [_range(name, tensor) for _, _, name, tensor in ordered]


def _tensors(name: str, value: Any, depth: int = 2) -> Iterator[tuple[str, Any]]:
    """Yield (name, tensor) for a tensor, list, dict or dataclass."""
    if hasattr(value, "data_ptr"):
        yield name, value
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(name, item, depth - 1)
    elif depth and isinstance(value, dict):
        for key, item in value.items():
            yield from _tensors(str(key), item, depth - 1)
    elif depth and is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from _tensors(field.name, getattr(value, field.name), depth - 1)


def _range(name: str, tensor: Any) -> tuple[int, int, str, Any]:
    """Return a tensor's address range, and the tensor, which keeps its memory alive."""
    start = tensor.data_ptr()
    span = 1 + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + span * tensor.element_size(), name, tensor


class _Caught:
    """Replace a build's functions: keep their calls as launches, with the `names` of tensors."""

    def __init__(self, processors: int, modules: Mapping[str, Module], names: Names) -> None:
        self.processors, self.modules, self.names = processors, modules, names
        self.launches: list[Launch] = []

    def open_object(self, folder: Path, function: str) -> Callable[..., None]:
        """Return a stand-in for a CuTe object's function; its last argument is the stream."""
        import torch

        def call(*arguments: Any) -> None:
            passed = (*(_named(one, self.names) for one in arguments[:-1]), Pointer(torch.zeros(1), "stream"))
            place, module = folder / "kernel.o", self.modules["kernel"]
            self.launches += capture(place, function, passed, module, sm_count=self.processors)

        return call

    def open_cubin(self, path: Path) -> Callable[..., None]:
        """Return a stand-in for a cuTile device function, whose launches this project's loader makes."""
        from cutesnake.stages.load import cutile as cutile_load

        def call(symbol: str, grid: tuple[int, int, int], values: Sequence[Any], early: bool) -> None:
            parameters = [bytes(parameter) for parameter in cutile_load.flatten(values)]
            arrays = [_named(tensor, self.names) for tensor in cutile_load.arrays(values)]
            module = self.modules[path.stem]
            self.launches.append(tile_launch(path, module, symbol, grid, parameters, pointees=arrays, early=early))

        return call


def _named(argument: Any, names: Names) -> Any:
    """Return a tensor with its name; anything else unchanged."""
    if not hasattr(argument, "data_ptr"):
        return argument
    return Tensor(argument, name=names.of(argument))


def attributes_of(launch: Launch) -> dict[str, Any]:
    """Return launch attributes by name."""
    result: dict[str, Any] = {}
    for key, value in launch.attributes.items():
        if not key.startswith("attribute_"):
            continue
        number = int(key.removeprefix("attribute_"))
        name = ATTRIBUTES.get(number, f"attribute {number}")
        result[name] = list(value) if number == 4 else bool(value[0])
    return result


def descriptors_of(launch: Launch) -> dict[TensorMap, dict[str, Any]]:
    """Return descriptor -> fields, for descriptors passed as parameters."""
    result = {}
    for parameter in launch.kernel.params:
        if parameter.size != DESCRIPTOR_BYTES or parameter.offset % 64:
            continue
        raw = launch.params[parameter.offset : parameter.offset + DESCRIPTOR_BYTES]
        try:
            tensor = decode(bytes(raw))
        except ValueError:
            continue
        if tensor.address and launch.memory.find(tensor.address):
            result[tensor] = describe(launch, tensor)
    return result


def describe(launch: Launch, tensor: TensorMap, touched: int | None = None) -> dict[str, Any]:
    """Describe a descriptor, innermost dimension first; `touched`: see tensor_name."""
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
    """Return the name of the tensor at address `touched`, else at the descriptor's address."""
    address = touched if touched is not None else tensor.address if tensor else None
    allocation = None if address is None else launch.memory.find(address)
    return allocation.name if allocation else None
