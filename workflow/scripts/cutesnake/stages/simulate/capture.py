"""Capture the launches of a build's call without a GPU."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cutesnake.model.catalog import load_kernel
from cutesnake.stages.load import cute as cute_load
from cutesnake.stages.measure.case import Case
from cutesnake.stages.simulate.translation_cache import shared_translations


class Catcher:
    """Catches what a case's build launches: `sink` gets ptxsim's launches of each call, in order.

    `processors` are the multiprocessors of the GPU that bindings and host functions plan for. `names` has the
    operator's name of a tensor by its address, so that findings can say it.
    """

    def __init__(
        self,
        case: Case,
        sink: Callable[[list[Any]], None],
        processors: int,
        names: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        self._processors, self._sink, self._names = processors, sink, names
        self._folder = Path(case.build)
        self._tiles = load_kernel(case.operator, case.kernel).DSL == "cutile"
        self._translations = shared_translations()
        self._modules: dict[str, Any] = {}  # the PTX of the build by its file's stem, as it is wanted
        self.cubins: dict[str, Path] = {}  # name of a caught device function -> what ptxas made of its PTX

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Open builds inside this context for capture, whenever they are called.

        A call raises ptxsim.CaptureError or ptxsim.PtxError for what cannot be captured.
        """
        with ExitStack() as stack:
            stack.enter_context(cute_load.opened_by(self._open_object, self._processors))
            if self._tiles:
                from cutesnake.stages.load import cutile as cutile_load  # which needs cuda-bindings

                stack.enter_context(cutile_load.opened_by(self._open_cubin, self._processors))
            yield

    def _open_object(self, folder: Path, function: str) -> Callable[..., None]:
        return lambda *arguments: self._caught(self._of_object(function, arguments), self._folder / "kernel.cubin")

    def _open_cubin(self, path: Path) -> Callable[..., None]:
        return lambda *launch: self._caught([self._of_cubin(path, *launch)], path)

    def _caught(self, launches: list[Any], cubin: Path) -> None:
        self.cubins |= {launch.name: cubin for launch in launches if cubin.exists()}
        self._sink(launches)

    def module(self, stem: str) -> Any:
        """Return the PTX that is simulated for a file of the build."""
        if stem not in self._modules:
            path = self._folder / f"{stem}.ptx"
            self._modules[stem] = self._translations.module(path.read_text(), str(path))
        return self._modules[stem]

    def keep_translations(self) -> None:
        """Leave what was made of the build's PTX to other jobs of the run."""
        for module in self._modules.values():
            self._translations.keep(module)

    def _of_object(self, function: str, arguments: tuple[Any, ...]) -> list[Any]:
        """Return the launches of a CuTe build's function."""
        import torch

        import ptxsim

        tensors = [self._named(argument) for argument in arguments[:-1]]
        stream = ptxsim.Pointer(torch.zeros(1), "stream")  # the object asks for one and hands it back to us
        place, module = self._folder / "kernel.o", self.module("kernel")
        return ptxsim.capture(place, function, (*tensors, stream), module, sm_count=self._processors)

    def _of_cubin(
        self, path: Path, symbol: str, grid: tuple[int, int, int], values: Sequence[Any], overlap: bool
    ) -> Any:
        """Return a launch of a cuTile build."""
        import ptxsim
        from cutesnake.stages.load import cutile as cutile_load

        parameters = [bytes(parameter) for parameter in cutile_load.flatten(values)]
        arrays = [self._named(tensor) for tensor in cutile_load.arrays(values)]
        module = self.module(path.stem)
        return ptxsim.tile_launch(path, module, symbol, grid, parameters, pointees=arrays, early=overlap)

    def _named(self, argument: Any) -> Any:
        """Return a tensor with its name in the operator; anything else unchanged."""
        import torch

        import ptxsim

        if not isinstance(argument, torch.Tensor):
            return argument
        return ptxsim.Tensor(argument, name=self._names.get(argument.data_ptr(), "workspace"))
