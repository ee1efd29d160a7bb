"""Load CuTe builds, without DSL and compiler.

It needs apache-tvm-ffi, and the runtime library that the compile stage put next to the builds.
"""

import ctypes
import importlib.util
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutesnake.model import own_builds, record
from cutesnake.runtime.machine_faults import MachineFaultError
from cutesnake.stages.load.loaders import Opening

RUNTIME = "libcute_dsl_runtime.so"


class LoadError(RuntimeError):
    """A build that cannot be loaded, in one line that says what is lacking."""


class ForeignBuildError(LoadError, MachineFaultError):
    """Report a library that this user did not compile; nothing is recorded."""


@dataclass(frozen=True)
class Call:
    """A function of a build with everything bound but the stream."""

    function: Callable[..., None]
    arguments: tuple[Any, ...]

    def __call__(self, stream: int) -> None:
        """Enqueue the function on a stream."""
        self.function(*self.arguments, ctypes.c_void_p(stream))


Opener = Callable[[Path, str], Callable[..., None]]  # (folder of a build, name of its function) -> that function
_opening: Opening[Opener] = Opening("CuTe")
opened_by = _opening.by


def multiprocessors(device: Any) -> int:
    """Return the multiprocessors to plan for, of the GPU or the simulated one."""
    import torch

    return _opening.processors or torch.cuda.get_device_properties(device).multi_processor_count


def open_function(folder: Path) -> Callable[..., None]:
    """Return a build's exported function, for CUDA tensors, numbers, and a stream last.

    Raises LoadError if the build failed or is damaged, or this machine lacks something to load it; ForeignBuildError
    if this user did not compile it.
    """
    build = record.read("compile", folder / "build.json")
    if build.status != "ok":
        raise LoadError(f"{folder}: this build failed, there is nothing to load: {build.reason}")
    if build.function is None:
        raise LoadError(f"{folder}: build.json names no exported function")
    for name in own_builds.NATIVE:
        if name in build.files:
            if own_builds.digest_of(folder / name) != build.files[name]:
                message = f"delete {folder / 'build.json'} and compile again"
                raise LoadError(f"{folder / name} is missing or damaged: {message}")
            _refuse_foreign(folder / name, build.files[name])
    return (_opening.opener or _open_for_gpu)(folder, build.function)


def _open_for_gpu(folder: Path, function: str) -> Callable[..., None]:
    try:
        import tvm_ffi
    except ModuleNotFoundError:
        raise LoadError(f"{folder}: loading needs tvm-ffi; install it with: pip install apache-tvm-ffi") from None
    for library in (find_runtime(folder), Path(tvm_ffi.libinfo.find_libtvm_ffi())):
        try:
            ctypes.CDLL(str(library), ctypes.RTLD_GLOBAL)  # kernel.so names no library: it finds the symbols here
        except OSError as error:
            raise LoadError(f"{folder}: {error}") from error
    library = folder / "kernel.so"
    if library.exists():
        return tvm_ffi.load_module(str(library))[function]
    with tempfile.TemporaryDirectory() as name:  # once opened, the file is not needed any more
        return tvm_ffi.load_module(str(_link(folder, Path(name))))[function]


def find_runtime(folder: Path) -> Path:
    """libcute_dsl_runtime.so: the copy in results/compile/runtime/, else the one of an installed DSL."""
    copy = folder.resolve().parents[3] / "runtime" / RUNTIME
    if copy.exists():
        _refuse_foreign(copy, own_builds.digest_of(copy))
        return copy
    spec = importlib.util.find_spec("nvidia_cutlass_dsl")
    for place in (spec and spec.submodule_search_locations) or ():
        for result in sorted(Path(place).glob(f"cu*/lib/{RUNTIME}"), reverse=True):
            return result
    raise LoadError(
        f"{folder}: {RUNTIME} is neither at {copy} (the compile stage puts it there: copy the whole results folder) "
        "nor in an installed nvidia-cutlass-dsl"
    )


def _refuse_foreign(library: Path, digest: str | None) -> None:
    """Raise ForeignBuildError for a library of another user or machine."""
    if digest is None or not own_builds.is_own(digest):
        raise ForeignBuildError(
            f"{library} was not compiled by this user on this machine, and loading it runs its code: delete its folder "
            f"to compile again, or set {own_builds.TRUST}=1 if you trust who made it"
        )


def _link(folder: Path, place: Path) -> Path:
    """Link kernel.o of a build that was made on a machine without a linker."""
    from cutesnake.stages.compile.cute import LINKERS, link

    library = place / "kernel.so"
    if link(folder / "kernel.o", library) is None:
        raise LoadError(
            f"{folder}: kernel.so is missing because the machine that compiled it had no C linker, and this one has "
            f"none either ({', '.join(LINKERS)}); install one, on Debian with: apt-get install gcc"
        )
    return library
