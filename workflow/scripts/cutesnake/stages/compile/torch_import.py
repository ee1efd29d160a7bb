"""Import torch only for kernels that ask: it takes longer than most builds."""

import sys
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import Any

# They import torch, where it is installed, to recognise its types. Builds use none of them.
RECOGNISERS = ("cuda.tile", "tvm_ffi")
IMPORT_SYSTEM = "importlib"


class StandIn(types.ModuleType):
    """Replace torch for modules that name it at import but never use it.

    Whatever is looked up in it is an empty class: good for an annotation, a base class or a key of a table.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        setattr(self, name, type(name, (), {}))
        return getattr(self, name)


class _HiddenTorch(MetaPathFinder):
    """Hide torch from modules of RECOGNISERS; all others import it as usual."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> None:
        if fullname == "torch" and _within(_importer(), RECOGNISERS):
            raise ModuleNotFoundError("No module named 'torch'", name="torch")


def _importer() -> str:
    """Return the name of the module that imports."""
    frame = sys._getframe(1)
    while frame.f_back and _within(frame.f_globals.get("__name__", ""), (__name__, IMPORT_SYSTEM)):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def _within(module: str, packages: Sequence[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in packages)


@contextmanager
def without_torch(stand_in: types.ModuleType | None = None) -> Iterator[None]:
    """Hide torch from the DSLs' packages; with `stand_in`, all imports of torch get it instead.

    A block within another may bring a stand-in of its own; modules among its attributes can be imported by their names.
    A torch that was imported before, or that a kernel imports within the block, stays.
    """
    if sys.modules.get("torch") is not None:
        yield
        return
    parts = [part for part in vars(stand_in).values() if isinstance(part, types.ModuleType)] if stand_in else []
    modules: dict[str, Any] = {part.__name__: part for part in (stand_in, *parts) if part}
    before = {name: sys.modules[name] for name in modules if name in sys.modules}
    hidden = _HiddenTorch()
    sys.meta_path.insert(0, hidden)
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]
        sys.modules.update(before)
        sys.meta_path.remove(hidden)
