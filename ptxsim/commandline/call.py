"""From command-line arguments to a call: tensors in the order of the function's parameters."""

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.launch import Launch
from ..host.capture import Parameter, capture, signature
from ..host.linking import CaptureError, nearest
from .build import Build
from .elements import Misuse
from .specs import Spec, Stream, TensorSpec, parse
from .tensors import HostTensor, make


@dataclass(frozen=True)
class Call:
    """The arguments of a call, its tensors by name, and their content before the call."""

    arguments: tuple[Any, ...]
    tensors: dict[str, HostTensor]
    last: str | None  # the last tensor among the arguments
    before: dict[str, np.ndarray]
    texts: tuple[str, ...]  # per argument its text and name

    def restore(self) -> None:
        """Restore every tensor's content from before the call."""
        for name, tensor in self.tensors.items():
            tensor.raw[...] = self.before[name]

    def changed(self) -> list[str]:
        """Return the names of the tensors that the call changed."""
        return [name for name, tensor in self.tensors.items() if not np.array_equal(tensor.raw, self.before[name])]

    def nans(self) -> list[str]:
        """Return a sentence for each tensor into which NaN was written."""
        lines = []
        for name, tensor in self.tensors.items():
            if tensor.element.kind == "float" and (at := tensor.nan_since(self.before[name])).size:
                where = f"the first at {at[0].tolist()}"
                lines.append(f"{name}: NaN was written to {len(at)} of {int(np.prod(tensor.shape))} elements, {where}")
        return lines

    def tensor(self, name: str, what: str) -> HostTensor:
        if name not in self.tensors:
            raise Misuse(
                f"{what}: no tensor {name}{nearest(name, self.tensors)}; choose from {', '.join(self.tensors)}"
            )
        return self.tensors[name]

    def launches(self, build: Build, sm_count: int) -> list[Launch]:
        """Return the launches of the function. Raises CaptureError if it rejects its arguments."""
        if sm_count < 1:
            raise Misuse(f"--sm-count {sm_count}: expected one or more")
        extra_memory = [x.argument() for x in self.tensors.values()]
        module = build.module()
        try:
            return capture(
                build.object, build.function, self.arguments, module, sm_count=sm_count, pointees=extra_memory
            )
        except CaptureError as error:
            match = re.search(r"argument #(\d+)", str(error))
            if match is None or int(match[1]) >= len(self.texts):
                raise
            raise Misuse(f"argument {self.texts[int(match[1])]}: {error}") from None


def described(build: Build, parameters: Sequence[Parameter]) -> str:
    """Return a function's signature on one line."""
    return f"{build.function}({', '.join(f'{p.name}: {p.type}' for p in parameters)})"


def prepare(build: Build, options: argparse.Namespace) -> Call:
    """Make the tensors and scalars that the command line names. Raises Misuse."""
    if options.input_seed < 0:
        raise Misuse(f"--input-seed {options.input_seed}: expected zero or more")
    parameters = signature(build.object, build.function)
    specs = _with_streams([parse(text) for text in options.arg], parameters)
    if parameters and len(specs) != len(parameters):
        counted = f"{len(specs)} argument{'s' * (len(specs) != 1)} (--arg) for the {len(parameters)}"
        stream = "; a stream may be left out" if any(p.type == "Stream" for p in parameters) else ""
        raise Misuse(f"{counted} of {described(build, parameters)}{stream}")
    names = [p.name for p in parameters] or [f"argument {n}" for n in range(len(specs))]
    values: list[Any] = []
    tensors: dict[str, HostTensor] = {}
    pending: list[tuple[HostTensor, tuple[str, ...]]] = []
    extra = [parse(text) for text in options.also if "=" in text]
    if len(extra) < len(options.also) or any(x.name is None or not isinstance(x.value, TensorSpec) for x in extra):
        raise Misuse(f"--also {', '.join(options.also)}: each needs a name and a tensor, such as x=f16[64]")
    for n, spec in enumerate([*specs, *extra]):
        name = spec.name or names[n]
        if name in tensors:
            raise Misuse(f"argument «{spec.text}»: the name {name} is taken")
        value: Any = spec.value
        if isinstance(value, TensorSpec):
            tensor = tensors[name] = make(value, name, np.random.default_rng([options.input_seed, n]))
            if isinstance(value.contents, tuple):
                pending.append((tensor, value.contents))
            value = tensor.argument()
        elif isinstance(value, Stream):
            value = None
        values.append(value)
    for tensor, names_ in pending:
        _put_addresses(tensor, names_, tensors)
    arguments = tuple(values[: len(specs)])
    last = next((name for name in reversed(tensors) if name not in {x.name for x in extra}), None)
    texts = tuple(f"«{x.text}» ({x.name or names[n]})" for n, x in enumerate(specs))
    return Call(arguments, tensors, last, {name: tensor.raw.copy() for name, tensor in tensors.items()}, texts)


def _with_streams(specs: list[Spec], parameters: Sequence[Parameter]) -> list[Spec]:
    """Return the arguments with a stream inserted for each stream parameter without one."""
    streams = [n for n, p in enumerate(parameters) if p.type == "Stream"]
    if len(specs) == len(parameters) - len(streams):
        for n in streams:
            specs.insert(n, Spec(None, "stream", Stream()))
    return specs


def _put_addresses(tensor: HostTensor, names: tuple[str, ...], tensors: dict[str, HostTensor]) -> None:
    missing = [name for name in names if name not in tensors]
    if missing:
        raise Misuse(f"{tensor.name}: no tensor {missing[0]}{nearest(missing[0], tensors)}; --also may define it")
    if tensor.element.bits != 64 or int(np.prod(tensor.shape)) != len(names):
        right = f"i64[{len(names)}]"
        raise Misuse(f"{tensor.name}: {tensor} cannot hold {len(names)} addresses; expected {right}")
    tensor.put(np.array([tensors[name].address for name in names], np.int64).reshape(tensor.shape))
