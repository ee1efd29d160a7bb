"""Let code that asks torch for a GPU run on the CPU.

The device `cuda` means host memory while this is in effect.

A tensor made on `cuda` is a CPU tensor, aligned to 512 bytes. Its `device` says `cuda:0` and its `is_cuda` is True, as
for every CPU tensor in this process. torch's own operators compute on the CPU. `torch.cuda` describes one GPU, whose
streams do nothing. `torch.compile` compiles nothing.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from .jit import SHARED_PER_SM

_CUDA = torch.device("cuda", 0)
_CPU = torch.device("cpu")
_ABSENT = object()
_ALIGNMENT = 512  # bytes, of CUDA allocations in torch; of those on a CPU it is 64
_UNSHARED = 2  # users of a tensor's memory: the tensor, and who asks
_RUNTIME = ("synchronize", "empty_cache", "set_device", "_lazy_init", "reset_peak_memory_stats", "ipc_collect")


class Stream:
    """The one stream: work is done when the call that asks for it returns."""

    cuda_stream = 0
    device = _CUDA

    def __init__(self, *_: Any, **__: Any) -> None: ...
    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None: ...
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 0

    def query(self) -> bool:
        return True

    def record_event(self, event: Event | None = None) -> Event:
        return event or Event()

    def synchronize(self) -> None: ...

    wait_event = wait_stream = lambda self, _: None


class Event:
    """An event that has always happened. Times do not exist."""

    def __init__(self, *_: Any, **__: Any) -> None: ...
    def record(self, stream: object = None) -> None: ...
    def synchronize(self) -> None: ...
    def wait(self, stream: object = None) -> None: ...
    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Event) -> float:
        raise RuntimeError("ptxsim runs kernels on the CPU: there is no elapsed time on a GPU")


class _Generator(torch.Generator):  # type: ignore[misc]  # torch is not followed
    """A generator for `cuda` is one for the CPU."""

    def __new__(cls, device: Any = "cpu") -> _Generator:
        made: _Generator = super().__new__(cls, device=_on_cpu(device))
        return made


class _Nvtx:
    """The library that marks ranges of a profile: nothing profiles."""

    def __getattr__(self, name: str) -> Callable[..., int]:
        return lambda *_: 0


class _Device(contextlib.nullcontext[None]):
    """`torch.cuda.device(…)`: there is only one."""

    def __init__(self, *_: Any) -> None:
        super().__init__()


# What a tensor says of its place, and methods that would move it: of attributes, torch passes on the getter.
_ANSWERS: dict[Any, Callable[[torch.Tensor], Any]] = {
    torch.Tensor.device.__get__: lambda x: _CUDA if x.device.type == "cpu" else x.device,
    torch.Tensor.is_cuda.__get__: lambda x: x.is_cuda or x.is_cpu,
    torch.Tensor.is_cpu.__get__: lambda x: False,
    torch.Tensor.get_device: lambda x: 0,
    torch.Tensor.cuda: lambda x: x,
    torch.Tensor.pin_memory: lambda x: x,
}


def _names_cuda(device: Any) -> bool:
    """Whether torch would take this for a CUDA device."""
    if isinstance(device, str):
        return device.split(":")[0] == "cuda"
    return isinstance(device, torch.device) and device.type == "cuda"


def _on_cpu(device: Any) -> Any:
    return _CPU if _names_cuda(device) else device


class CudaOnCpu(TorchFunctionMode):  # type: ignore[misc]  # torch is not followed
    """Send what torch is asked to do on `cuda` to the CPU."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        answer = _ANSWERS.get(func)
        if answer is not None:
            return answer(args[0])
        if func is torch.device:  # a device is only a name; what is asked for on it comes here, too
            return func(*args, **kwargs)
        if "device" in kwargs:
            kwargs["device"] = _on_cpu(kwargs["device"])
        kwargs.pop("pin_memory", None)
        if func in (torch.Tensor.resize_, torch.Tensor.resize_as_):
            args[0].data = args[0].detach().clone()  # the memory of an aligned tensor cannot grow
        out = func(*map(_on_cpu, args), **kwargs)
        if func is torch.Tensor.__deepcopy__:
            return out  # copies may come to share memory
        if type(out) in (torch.Tensor, torch.nn.Parameter) and not any(out is x for x in (*args, *kwargs.values())):
            _align(out, copy="empty" not in func.__name__)
        return out


def _align(out: torch.Tensor, copy: bool) -> None:
    """Align a new tensor's memory, unless something else uses it."""
    with torch._C.DisableTorchFunction():
        if out.layout != torch.strided or torch._C._functorch.is_functorch_wrapped_tensor(out):
            return
        old = out.untyped_storage()
        size, address = old.nbytes(), old.data_ptr()
        if address % _ALIGNMENT == 0 or not old.resizable() or torch._C._storage_Use_Count(old._cdata) != _UNSHARED:
            return
        room = np.empty(size + _ALIGNMENT, np.uint8)
        first = -room.ctypes.data % _ALIGNMENT
        new = torch.from_numpy(room[first : first + size]).untyped_storage()  # ends where the tensor ends
        if copy:
            new.copy_(old)
        out.data = torch.empty(0, dtype=out.dtype).set_(new, out.storage_offset(), out.shape, out.stride())


@contextlib.contextmanager
def cuda_on_cpu(capability: tuple[int, int], sm_count: int) -> Iterator[None]:
    """Answer for one GPU with this compute capability, and send its work to the CPU."""
    before: list[tuple[Any, str, Any]] = []

    def put(owner: Any, name: str, value: Any) -> None:
        before.append((owner, name, getattr(owner, name, _ABSENT)))
        setattr(owner, name, value)

    properties = types.SimpleNamespace(
        name=f"ptxsim (sm_{capability[0]}{capability[1]})",
        major=capability[0],
        minor=capability[1],
        multi_processor_count=sm_count,
        total_memory=80 << 30,
        L2_cache_size=50 << 20,
        warp_size=32,
        max_threads_per_multi_processor=2048,
        shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=232448,
        shared_memory_per_multiprocessor=SHARED_PER_SM,
        regs_per_multiprocessor=65536,
    )
    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_capability": lambda device=None: capability,
        "get_device_name": lambda device=None: properties.name,
        "get_device_properties": lambda device=None: properties,
        "current_stream": lambda device=None: Stream(),
        "default_stream": lambda device=None: Stream(),
        "is_current_stream_capturing": lambda: False,
        "is_bf16_supported": lambda *_, **__: True,
    }
    answers |= {name: (lambda *_, **__: None) for name in _RUNTIME}
    for name, answer in answers.items():
        put(torch.cuda, name, answer)
    put(torch, "Generator", _Generator)
    put(torch, "compile", _eager)
    put(torch, "set_default_device", lambda device, set_it=torch.set_default_device: set_it(_on_cpu(device)))
    put(torch.cuda, "Stream", Stream)
    put(torch.cuda, "Event", Event)
    put(torch.cuda, "device", _Device)
    put(torch.cuda, "stream", lambda stream: contextlib.nullcontext(stream))
    put(torch.cuda.nvtx, "_nvtx", _Nvtx())
    put(torch.version, "cuda", torch.version.cuda or "13.0")
    put(torch._C, "_cuda_getCurrentRawStream", lambda device=None: 0)
    put(torch.library, "custom_op", _for_cpu(torch.library.custom_op))
    backward = torch.autograd.function.BackwardCFunction
    put(backward, "apply", _in_mode(backward.apply))
    try:
        with CudaOnCpu():
            yield
    finally:
        for owner, name, value in reversed(before):
            delattr(owner, name) if value is _ABSENT else setattr(owner, name, value)


def _eager(model: Any = None, **_: Any) -> Any:
    """Leave a function as it is: Dynamo cannot trace tensors that claim a GPU."""
    return model if model is not None else lambda function: function


def _in_mode(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap calls by the autograd engine, which leaves modes of torch functions."""

    def wrapped(*args: Any) -> Any:
        with CudaOnCpu():
            return apply(*args)

    return wrapped


def _for_cpu(custom_op: Callable[..., Any]) -> Callable[..., Any]:
    """`torch.library.custom_op` that registers for the CPU what is meant for CUDA."""

    @functools.wraps(custom_op)
    def wrapped(name: str, fn: Any = None, /, *, device_types: Any = None, **kwargs: Any) -> Any:
        kinds = [device_types] if isinstance(device_types, str) else device_types
        if kinds is not None:
            kinds = sorted({"cpu" if kind == "cuda" else kind for kind in kinds})
        return custom_op(name, fn, device_types=kinds, **kwargs)

    return wrapped
