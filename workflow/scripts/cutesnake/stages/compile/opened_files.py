"""Note files that a kernel's `compile` opens, as part of its inputs."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cutesnake.model.paths import ROOT

WRITING = os.O_WRONLY | os.O_RDWR
RESULTS = f"results{os.sep}"
COMPILED = (".pyc", ".so")


class Opened:
    """Note opened files and imported modules of this process from now on.

    Files count below the project and the folders of `kernels`, without results and hidden ones; modules below `kernels`
    only: a digest of the workflow's own code is there anyway.
    """

    def __init__(self, kernels: Iterable[Path]) -> None:
        self._kernels = [_folder(folder) for folder in kernels]
        self._project, self._python = _folder(ROOT), _folder(sys.prefix)
        self._results = _folder(RESULTS)
        self._before = set(sys.modules)
        self._opened: dict[str, None] = {}
        sys.addaudithook(self._note)

    def _note(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes | os.PathLike):
            return
        if not (isinstance(arguments[2], int) and arguments[2] & WRITING):
            self._opened[os.path.abspath(os.fsdecode(arguments[0]))] = None

    def files(self) -> list[str]:
        """Their paths, those that were asked for and are not there as well."""
        return sorted(
            {path for name in (*self._opened, *self.modules()) if self._counts(path := os.path.realpath(name))}
        )

    def modules(self) -> list[str]:
        """Return files of the modules that were imported."""
        new = [module for name, module in list(sys.modules.items()) if name not in self._before]
        return [file for module in new if isinstance(file := getattr(module, "__file__", None), str)]

    def _counts(self, path: str) -> bool:
        folder = next((folder for folder in (*self._kernels, self._project) if path.startswith(folder)), None)
        if folder is None or path.startswith((self._python, self._results)) or path.endswith(COMPILED):
            return False
        inside = path.removeprefix(folder)
        if any(part.startswith(".") or part == "__pycache__" for part in inside.split(os.sep)):
            return False
        if folder == self._project and (inside.startswith(RESULTS) or inside.endswith(".py")):
            return False
        return not os.path.isdir(path)


def _folder(path: Path | str) -> str:
    return os.path.join(os.path.realpath(path), "")
