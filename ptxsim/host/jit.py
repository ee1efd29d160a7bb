"""Run CuTe-compiled functions in ptxsim: `cute.compile` results and `cute.jit` calls, on tensors in host memory.

CuTe DSL loads a small library (stub.c) in place of the CUDA runtime, so its own host code hands every launch to
Python. The DSL still packs arguments, computes grids and encodes TMA descriptors. No object is exported.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import inspect
import os
import sys
import tempfile
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..core.launch import Launch
from ..frontend.parser import Module
from ..memory.global_memory import Memory
from .arguments import CUDA, buffer_of
from .capture import LAUNCH_CALLBACK, launch_of
from .linking import CaptureError, runtime_library

LIBRARIES, TARGET = "CUTE_DSL_LIBS", "CUTE_DSL_ARCH"  # environment variables that CuTe DSL reads when it is imported
_OWN = "_ptxsim"  # attribute of the DSL's objects that holds what this module keeps with them
SHARED_PER_SM = 233472  # bytes of shared memory of an SM, of sm_90 and sm_100
_TABLE_BYTES = 1 << 16  # an integer tensor up to this size may hold addresses of other tensors


@dataclass
class _Call:
    """A call of a compiled function: arguments by name, and launches so far."""

    arguments: Mapping[str, Any]
    function: Any = None
    launches: list[Launch] = field(default_factory=list)
    memory: Memory = field(default_factory=Memory)
    trouble: Exception | None = None


class OnDevice:
    """A host tensor that claims, through DLPack, to be on CUDA device 0."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **_: Any) -> Any:
        capsule = self.tensor.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        ctypes.c_int32.from_address(pointer(capsule, b"dltensor") + 8).value = CUDA  # DLTensor: data, then device type
        return capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0


class Interception:
    """CuTe DSL's calls of this process, passed to `run` as launches.

    Make one before the DSL is imported.

    target: what the DSL compiles for, such as sm_90a. run: called with the launches of each call, in order, once the
    host code has returned; the outputs have to be in place when it returns.
    Raises CaptureError without a C compiler, and if the DSL was imported for another target or with other libraries.
    """

    def __init__(self, target: str, run: Callable[[list[Launch]], None], *, sm_count: int) -> None:
        self.target, self.run, self.sm_count = target, run, sm_count
        self.dumps = tempfile.TemporaryDirectory(prefix="ptxsim-")
        self._calls: list[_Call] = []
        library = runtime_library()
        if "cutlass" in sys.modules:
            raise CaptureError("CuTe DSL (cutlass) was imported before ptxsim could take the place of its CUDA runtime")
        os.environ[TARGET] = target
        os.environ[LIBRARIES] = os.pathsep.join(map(str, [library, *_runtimes()]))
        os.environ["CUTE_DSL_DISABLE_FILE_CACHING"] = "1"  # a function out of the cache on disk has no PTX
        # First in the global scope: FlashAttention loads the real runtime there, too.
        self._lib = ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
        self._callback = LAUNCH_CALLBACK(self._launched)
        digits = "".join(c for c in target if c.isdigit())
        self._lib.ptxsim_setup(self._callback, sm_count, int(digits[:-1]), int(digits[-1]))
        self._patch()

    def _patch(self) -> None:
        """Replace the few methods of the DSL by which calls, tensors and compile options pass."""
        from cutlass._mlir_helpers import op
        from cutlass.base_dsl import compiler, dsl, jit_executor
        from cutlass.base_dsl.runtime import cuda as driver
        from cutlass.cute import runtime
        from cutlass.cutlass_dsl import cuda_jit_executor as cuda
        from cutlass.utils import HardwareInfo

        _wrap(compiler.CompileOptions, "apply_envar_settings", self._options)
        _wrap(runtime._Tensor, "__init__", self._tensor)
        _wrap(dsl.BaseDSL, "_func", self._jit_call)
        _wrap(cuda.CudaDialectJitCompiledFunction, "to", self._to)
        _wrap(cuda.CudaDialectJitCompiledFunction, "__call__", self._compiled_call)
        _wrap(jit_executor.JitCompiledFunction, "run_compiled_program", self._program)
        _wrap(jit_executor.JitExecutor, "__call__", self._executor_call)
        cuda.CudaDialectJitCompiledFunction.num_devices = 1
        cuda.CudaDialectJitModule.unload = lambda module: setattr(module, "_unloaded", True)
        if hasattr(op, "_is_framework_stack_frame"):
            _wrap(op, "_is_framework_stack_frame", _has_no_kernel)
        runtime.load_module = _no_module
        _no_context()
        driver.get_device_attribute = lambda *_: SHARED_PER_SM  # for min_blocks_per_mp
        HardwareInfo.__init__ = lambda info, device_id=0: None
        HardwareInfo.get_device_multiprocessor_count = lambda info: self.sm_count
        HardwareInfo.get_max_active_clusters = lambda info, cluster_size, stream=None: self.sm_count // cluster_size
        try:
            from cutlass.cutlass_dsl import tvm_ffi_provider as ffi
        except ImportError:
            return  # without tvm-ffi there are no such functions
        for kind in (ffi.TVMFFIJitCompiledFunction, ffi.TVMFFIJitCompiledFunctionWithKwargs):
            _wrap(kind, "__call__", self._ffi_call)

    def _options(self, original: Callable[..., Any], options: Any, environment: Any, name: str) -> Any:
        """Keep the PTX of every compilation, with line information."""
        from cutlass.base_dsl.compiler import DumpDir, GenerateLineInfo, KeepPTX

        options.options[KeepPTX].value = True
        options.options[GenerateLineInfo].value = True
        if not options.options[DumpDir].value:
            options.options[DumpDir].value = self.dumps.name
        return original(options, environment, name)

    def _tensor(self, original: Callable[..., Any], tensor: Any, source: Any, *args: Any, **kwargs: Any) -> None:
        """Let `from_dlpack` take host tensors as device tensors, and remember which they were."""
        claimed = _on_host(source)
        original(tensor, OnDevice(source) if claimed else source, *args, **kwargs)
        if claimed:
            setattr(tensor, _OWN, source)

    def _jit_call(self, original: Callable[..., Any], dsl: Any, body: Any, *args: Any, **kwargs: Any) -> Any:
        """Run or trace a call of a `@cute.jit` function."""
        from cutlass._mlir import ir

        if kwargs.get("compile_only") or (ir.Context.current is not None and ir.InsertionPoint.current is not None):
            return original(dsl, body, *args, **kwargs)
        self._calls.append(_Call(_named(inspect.signature(body), args, kwargs)))
        try:
            return original(dsl, body, *args, **kwargs)
        finally:
            self._calls.pop()

    def _to(self, original: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> Any:
        executor = original(function, *args, **kwargs)
        setattr(executor, _OWN, function)
        return executor

    def _compiled_call(self, original: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> Any:
        return self._calling(function, _arguments(function, args, kwargs), lambda: original(function, *args, **kwargs))

    def _executor_call(self, original: Callable[..., Any], executor: Any, *args: Any, **kwargs: Any) -> Any:
        function = getattr(executor, _OWN)
        return self._calling(function, _arguments(function, args, kwargs), lambda: original(executor, *args, **kwargs))

    def _ffi_call(self, original: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> Any:
        known = _arguments(function, args, kwargs)
        moved = tuple(map(_claimed, args)), {name: _claimed(value) for name, value in kwargs.items()}
        return self._calling(function, known, lambda: original(function, *moved[0], **moved[1]))

    def _program(self, original: Callable[..., Any], function: Any, packed: Any) -> Any:
        """A call with packed arguments; a `@cute.jit` call noted the arguments themselves."""
        known = self._calls[-1].arguments if self._calls else {}
        return self._calling(function, known, lambda: original(function, packed))

    def _calling(self, function: Any, arguments: Mapping[str, Any], host: Callable[[], Any]) -> Any:
        """Call a function's host code, then run the launches that it made."""
        if self._calls and self._calls[-1].function is function:
            return host()  # the call within a call: __call__ ends in run_compiled_program
        call = _Call(arguments, function)
        with _as_they_are():
            for name, value in arguments.items():
                _register(name, value, call.memory)
        self._calls.append(call)
        try:
            result = host()
        finally:
            self._calls.pop()
        if call.trouble is not None:
            raise call.trouble
        with _as_they_are():
            for launch in call.launches:
                _register_pointees(launch)
            if call.launches:
                self.run(call.launches)
        return result

    def _launched(self, name: bytes, config: int, params: int) -> None:
        """Note a launch; keep its exception, which cannot pass through host code."""
        call = self._calls[-1] if self._calls else _Call({})
        if call.function is None:
            print(f"ptxsim: {name.decode()[:60]} was launched outside any known call and did not run", file=sys.stderr)
            return
        try:
            module = self._module(call.function)
            call.launches.append(launch_of(name.decode(), config, params, module, call.memory))
        except Exception as error:
            call.trouble = call.trouble or error

    def _module(self, function: Any) -> Module:
        """The PTX of a compiled function, parsed once."""
        known: Module | None = getattr(function, _OWN, None)
        if known is None:
            if not function.__ptx__:
                raise CaptureError(f"{function.function_name[:80]} has no PTX: was it loaded from an object file?")
            known = Module.from_text(function.__ptx__)
            setattr(function, _OWN, known)
        return known


def _no_module(file_path: str, *_: Any, **__: Any) -> Any:
    raise CaptureError(f"{file_path} is an exported object, which has no PTX to simulate: turn caches of objects off")


def _runtimes() -> list[Path]:
    """Find the DSL's own runtime without importing the DSL."""
    paths = os.environ.get(LIBRARIES)
    if paths:
        return [Path(x) for x in paths.split(os.pathsep)]
    from importlib.util import find_spec

    package = find_spec("nvidia_cutlass_dsl")
    for place in (package.submodule_search_locations or []) if package else []:
        for path in sorted(Path(place).rglob("libcute_dsl_runtime.so")):
            return [path]
    return []


def _has_no_kernel(original: Callable[..., bool], frame: types.FrameType) -> bool:
    """Return whether a frame's line is not a kernel's; those below cutlass.operators are kernels' lines."""
    module = frame.f_globals.get("__name__", "")
    return module.startswith("ptxsim.") or (not module.startswith("cutlass.operators.") and original(frame))


def _wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace a method by `around`, which takes the original first."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(self: Any, *args: Any, **kwargs: Any) -> Any:
        return around(original, self, *args, **kwargs)

    setattr(owner, name, wrapped)


def _named(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by parameter name, as far as they fit."""
    try:
        return dict(signature.bind_partial(*args, **kwargs).arguments)
    except TypeError:
        return {f"argument {n}": value for n, value in enumerate(args)} | dict(kwargs)


def _no_context() -> None:
    """Let code that asks the driver for a context go on without one."""
    import cutlass

    modules: list[Any] = [getattr(cutlass, "cuda", None), sys.modules.get("cutlass.base_dsl.runtime.cuda")]
    for module in modules:
        if hasattr(module, "initialize_cuda_context"):
            module.initialize_cuda_context = lambda *_, **__: None


def _arguments(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    return _named(function.execution_args.signature, args, kwargs)


def _as_they_are() -> contextlib.AbstractContextManager[Any]:
    """Within this, torch tensors say where they are, whatever torch_cuda.py lets them say."""
    torch = sys.modules.get("torch")
    return contextlib.nullcontext() if torch is None else torch._C.DisableTorchFunction()


def _on_host(value: Any) -> bool:
    """Whether a value is a numpy array or a torch tensor in host memory."""
    if isinstance(value, np.ndarray):
        return True
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return False
    with _as_they_are():
        return bool(value.device.type == "cpu")


def _claimed(value: Any) -> Any:
    """Return a value in which host tensors claim to be on a device."""
    if _on_host(value):
        import tvm_ffi

        plain = value.detach() if hasattr(value, "detach") else value  # as tvm-ffi takes tensors that require gradients
        return tvm_ffi.from_dlpack(OnDevice(plain))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_claimed, value))
    if isinstance(value, (tuple, list)):
        return type(value)(map(_claimed, value))
    return value


def _leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors within an argument, with their names."""
    source = value.__dict__.get(_OWN) if hasattr(value, "__dict__") else None
    if source is not None or _on_host(value):
        yield name, value if source is None else source
    elif isinstance(value, Mapping):
        for key, x in value.items():
            yield from _leaves(f"{name}[{key!r}]", x)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for key, x in zip(value._fields, value, strict=True):
            yield from _leaves(f"{name}.{key}", x)
    elif isinstance(value, (tuple, list)):
        for n, x in enumerate(value):
            yield from _leaves(f"{name}[{n}]", x)
    elif is_dataclass(value) and not isinstance(value, type):
        for f in fields(value):
            yield from _leaves(f"{name}.{f.name}", getattr(value, f.name, None))


def _register(name: str, value: Any, memory: Memory) -> None:
    """Let launches reach the tensors of an argument, and all storage behind torch views."""
    for label, tensor in _leaves(name, value):
        buffer = buffer_of(tensor)
        address, size = buffer.address, buffer.size
        if size and not isinstance(tensor, np.ndarray):
            storage = tensor.untyped_storage()
            label = label if storage.nbytes() == size else f"the storage of {label}"
            address, size = storage.data_ptr(), storage.nbytes()
        if size:
            memory.add(label, address, size, tensor)


def _register_pointees(launch: Launch) -> None:
    """Let a launch reach what raw pointers lead to: storages of live tensors, whole.

    Addresses are looked for in the parameters, and in small integer tensors among the arguments (tables of pointers).
    """
    memory = launch.memory
    tables = [a for a in memory.allocations if _is_table(a.keep)]
    words = [np.frombuffer(launch.params[: len(launch.params) // 8 * 8], np.uint64), *map(_words, tables)]
    wanted = {int(x) for x in np.concatenate(words)}
    wanted = {x for x in wanted if 1 << 20 < x < 1 << 47 and memory.find(x) is None}
    if not wanted:
        return
    for name, address, size, keep in _live_storages():
        if any(address <= x < address + size for x in wanted):
            memory.add(name, address, size, keep)


def _is_table(keep: Any) -> bool:
    kind = str(getattr(keep, "dtype", "")).removeprefix("torch.")
    return kind in ("int64", "uint64") and getattr(keep, "nbytes", _TABLE_BYTES + 1) <= _TABLE_BYTES


def _words(allocation: Any) -> np.ndarray:
    content = allocation.bytes
    return np.frombuffer(content[: len(content) // 8 * 8].tobytes(), np.uint64)


def _live_storages() -> Iterable[tuple[str, int, int, Any]]:
    """Name, address, size and owner of every live host tensor and array."""
    torch = sys.modules.get("torch")
    for x in gc.get_objects():
        if torch is not None and type(x) in (torch.Tensor, torch.nn.Parameter):
            storage = torch.Tensor.untyped_storage(x)
            if storage.device.type == "cpu" and storage.nbytes():
                yield f"a tensor of {storage.nbytes()} bytes", storage.data_ptr(), storage.nbytes(), x
