"""A build on the machine that runs it: what `bind` of a kernel is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from cutesnake.model import record
from cutesnake.model.contract import Launch


class LoadedBuild:
    """The build in `folder`; what is opened stays open. Of a kernel that compiles nothing only the record is there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._functions: dict[tuple[str, str], Any] = {}

    @cached_property
    def record(self) -> dict[str, Any]:
        return record.plain(record.read("compile", self.folder / "build.json"))

    @property
    def params(self) -> Mapping[str, Any]:
        return self.record["variant"]["params"]

    @property
    def symbols(self) -> list[str]:
        return self.record["symbols"]

    def launch(self, symbol: str, grid: tuple[int, int, int]) -> Launch:
        """A launch of a CuTe symbol; KeyError if the build has no such symbol."""
        fixed = self.record["launch"][symbol]
        cluster = tuple(fixed["cluster"] or (1, 1, 1))
        return Launch(symbol, grid, tuple(fixed["block"]), cluster, fixed["dynamic_shared_bytes"] or 0)

    def function(self) -> Callable[..., None]:
        """The exported function of a CuTe build; LoadError if it cannot be opened here."""
        return self._function

    @cached_property
    def _function(self) -> Callable[..., None]:
        from cutesnake.stages.load import cute

        return cute.open_function(self.folder)

    def cubin_function(self, stem: str, symbol: str) -> Any:
        """Handle of an entry point of `<stem>.cubin`, in the current context; DriverError if the driver refuses it."""
        from cutesnake.stages.load.cutile import open_function

        key = (stem, symbol)
        if key not in self._functions:
            self._functions[key] = open_function(self.folder / f"{stem}.cubin", symbol)
        return self._functions[key]
