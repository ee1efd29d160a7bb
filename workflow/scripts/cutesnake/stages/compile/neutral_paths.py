"""Give compilers neutral source names, so that builds hold no machine paths.

Both DSLs put the file name of a kernel's code objects into line tables and debug information. Here modules of kernels,
of fetched packages and of cuTile itself get code objects whose file names start at the project instead:
`kernels/<operator>/<kernel>/kernel.py`. Equal sources then give equal bytes wherever the project lies.
"""

import importlib.util
import linecache
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any


class NeutralLoader(SourceFileLoader):
    """Loads a module whose code objects say that they come from `neutral`."""

    def __init__(self, fullname: str, path: str, neutral: str) -> None:
        super().__init__(fullname, path)
        self.neutral = neutral

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the module's code object with its neutral file name."""
        code = super().get_code(fullname)
        return code and _renamed(code, self.neutral)

    def exec_module(self, module: ModuleType) -> None:
        # Sources are read under the neutral name too, which need not exist: `inspect` asks linecache for them.
        """Execute the module and give it its neutral name."""
        linecache.lazycache(self.neutral, vars(module))
        super().exec_module(module)


def _renamed(code: CodeType, name: str) -> CodeType:
    """Return a code object, with its functions, under another file name."""
    constants = (_renamed(one, name) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=name, co_consts=tuple(constants))


class NeutralFinder(MetaPathFinder):
    """Find modules as usual; load those in `places` under neutral names."""

    def __init__(self, places: Mapping[Path, str]) -> None:
        self._places = {folder.resolve(): name for folder, name in places.items()}

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: Any = None) -> ModuleSpec | None:
        """Return a spec whose loader uses neutral names, for modules in `places`."""
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or type(spec.loader) is not SourceFileLoader:
            return None
        origin = Path(spec.origin).resolve()
        for folder, name in self._places.items():
            if origin.is_relative_to(folder):
                spec.loader = NeutralLoader(fullname, spec.origin, f"{name}/{origin.relative_to(folder).as_posix()}")
                return spec
        return None


def use_neutral_names(kernels: Sequence[Path], fetched: Path) -> None:
    """Use neutral names in this process from now on.

    `kernels` are folders of operators, `fetched` that of fetched packages. A second call changes nothing, as in a
    forked process.
    """
    if any(isinstance(finder, NeutralFinder) for finder in sys.meta_path):
        return
    places = {**dict.fromkeys(kernels, "kernels"), fetched: "results/fetch"}
    cuda = importlib.util.find_spec("cuda")
    for folder in cuda.submodule_search_locations or () if cuda else ():
        places[Path(folder) / "tile"] = "cuda/tile"  # whose stubs of device functions are named in debug information
    sys.meta_path.insert(0, NeutralFinder(places))


def name_installed_sources() -> None:
    """Have CuTe DSL name installed modules, such as a decorator's, from their package on.

    The DSL takes the file of an operation from a table, in which modules that it does not trace may be entered.
    """
    try:
        from cutlass._mlir_helpers import op
    except ImportError:  # DSL 4.5 has it elsewhere, without the table
        return
    table = getattr(op, "_SOURCE_FILE_CACHE", None)  # a DSL without it names such files as they lie on this machine
    if table is None:
        return
    folders = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib")}
    for file in {getattr(module, "__file__", None) for module in list(sys.modules.values())}:
        holding = [folder for folder in folders if file and Path(file).is_relative_to(folder)]
        if file and holding:
            table[file] = Path(file).relative_to(max(holding, key=lambda folder: len(folder.parts))).as_posix()
