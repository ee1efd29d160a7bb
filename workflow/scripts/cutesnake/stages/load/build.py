"""A build on the machine that runs it: what `bind` of a kernel is given."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from cutesnake.model import record
from cutesnake.model.contract import Launch, Runner, nothing
from cutesnake.model.records.compile import Compile


class LoadedBuild:
    """The build in `folder`, kept open; without compilation only a record."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._functions: dict[tuple[str, str], Any] = {}

    @cached_property
    def record(self) -> Compile:
        """Return build.json's content."""
        return record.read("compile", self.folder / "build.json")

    @property
    def params(self) -> Mapping[str, Any]:
        """Return the values of the variant."""
        return self.record.variant.params

    @property
    def symbols(self) -> list[str]:
        """Return the entry points, the main one first."""
        return self.record.symbols

    def launch(self, symbol: str, grid: tuple[int, int, int]) -> Launch:
        """Return a launch of a CuTe symbol; KeyError for an unknown symbol."""
        fixed = self.record.launch[symbol]
        assert fixed.block is not None, f"{symbol}: its block is known only at launch"
        return Launch(symbol, grid, fixed.block, fixed.cluster or (1, 1, 1), fixed.dynamic_shared_bytes or 0)

    def function(self) -> Callable[..., None]:
        """Return the exported function of a CuTe build; LoadError if unavailable here."""
        return self._function

    @cached_property
    def _function(self) -> Callable[..., None]:
        from cutesnake.stages.load import cute

        return cute.open_function(self.folder)

    def runner(self, values: Sequence[Any], grid: tuple[int, int, int], finish: Callable[[], Any] = nothing) -> Runner:
        """Return one launch of the main symbol of a CuTe build; LoadError if unavailable here."""
        from cutesnake.stages.load.cute import Call

        return Runner(Call(self.function(), tuple(values)), (self.launch(self.symbols[0], grid),), finish)

    def cubin_function(self, stem: str, symbol: str) -> Any:
        """Return an entry point of `<stem>.cubin`; DriverError if the driver refuses."""
        from cutesnake.stages.load.cutile import open_function

        key = (stem, symbol)
        if key not in self._functions:
            self._functions[key] = open_function(self.folder / f"{stem}.cubin", symbol)
        return self._functions[key]

    def tile_runner(
        self, symbol: str, values: Sequence[Any], grid: tuple[int, int, int], finish: Callable[[], Any] = nothing
    ) -> Runner:
        """Return one launch of `kernel.cubin`; DriverError if the driver refuses."""
        from cutesnake.stages.load.cutile import TileLaunch, sequence

        return sequence(TileLaunch(self.cubin_function("kernel", symbol), symbol, grid, values), finish=finish)
