"""Define the contracts of operators and kernels, which are plain modules.

`cutesnake.model.catalog` finds and checks them. An *operator* is a folder `kernels/<operator>/`. Its `operator.py`
holds workload, inputs, reference, cost and tolerance; its `sweep.yaml` says what is run by default. A *kernel* is a
module `kernels/<operator>/<kernel>.py`, or a folder of that name with the contract in its `__init__.py`. Both are
imported while the workflow graph is built, on machines that have neither DSL nor torch. At import they may touch only
the standard library and this project's host modules. Device code lies in its own modules, which only `compile` imports.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

OWN = "ours"
INSTALLED = "installed"  # SOURCE of a kernel that a Python package of the machine brings along: see Kernel.NEEDS

Marked = TypeVar("Marked", bound=Callable[..., Any] | type)


def not_baked(thing: Marked) -> Marked:
    """Mark a function or class of a kernel as no part of builds.

    A build is made again when the source of its contract module changes, or of anything that this imports. What is
    marked is left out of that, with everything that only it imports. Forgetting the mark costs builds that were not
    necessary, never a stale one. `bind`, `supports` and `variants` of a contract module count as marked: `compile` must
    not call them. So does an import from an operator of what only these, marked code and annotations use.
    """
    return thing


def nothing() -> None:
    """Do nothing: the default `finish` of a runner."""


@dataclass(frozen=True)
class Variant:
    """Compile-time constants of one build.

    `id` names the folder of the build (A-Z, a-z, 0-9, `_`, `.` and `-` only) and is unique within a kernel and target;
    `params` are the values passed to the compiler.
    """

    id: str
    params: Mapping[str, Any] = field(hash=False)  # numbers, texts and truth values


@dataclass(frozen=True)
class Cost:
    """Work that a workload cannot avoid: floating-point operations, and bytes each read or written once."""

    flops: int
    bytes_read: int
    bytes_written: int

    @property
    def bytes(self) -> int:
        """Return bytes read plus bytes written."""
        return self.bytes_read + self.bytes_written


class Workload(Protocol):
    """One problem size. A frozen dataclass that raises ValueError for values that make no sense."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def dtype(self) -> str:
        """Return the element type, a key of the operator's DTYPES."""

    @property
    def id(self) -> str:
        """Return the name of the workload, unique within the operator."""


_Workload = Workload  # the protocol below has a member of that name


class Operator(Protocol):
    """The contract of `kernels/<operator>/operator.py`, a module with these names.

    `RELATED` may be left out: it is then the first of `DISTRIBUTIONS`. So may `PLANNED`, where no binding looks at
    values.
    """

    DTYPES: Mapping[str, int]  # element type -> bytes
    DISTRIBUTIONS: tuple[str, ...]  # kinds of inputs that `make_inputs` draws, the plainest first
    RELATED: tuple[str, ...]  # the DISTRIBUTIONS that the sizes of `relatives` are checked with
    PLANNED: tuple[str, ...]  # fields of Inputs that `bind` may look at, to make a schedule: others need a new binding
    AXIS: str  # the field of Workload on the x axis of plots
    AXIS_LABEL: str  # what it is called there, with its unit
    Workload: Callable[..., _Workload]  # a frozen dataclass; every field but `dtype` may be swept
    Inputs: Callable[..., Any]  # dataclasses of tensors and numbers
    Outputs: Callable[..., Any]  # its first field is the main output, by which launches are ranked

    def relatives(self, workload: _Workload) -> tuple[_Workload, ...]:
        """Return further sizes that the same build serves and that are checked too."""

    def make_inputs(self, workload: _Workload, seed: int, device: str = "cpu", distribution: str = "randn") -> Any:
        """Return inputs drawn on the torch device; ValueError for an unknown distribution."""

    def make_outputs(self, workload: _Workload, device: str = "cpu") -> Any:
        """Return outputs poisoned with NaN: an element that is never written cannot pass."""

    def reference(self, inputs: Any, workload: _Workload) -> Any:
        """Return the outputs in float32, computed plainly."""

    def same_precision(self, inputs: Any, workload: _Workload) -> Any:
        """Return PyTorch's outputs in the workload's dtype: the yardstick for the allowed error."""

    def cost(self, workload: _Workload) -> Cost:
        """Work that no kernel can avoid."""

    def tolerance(self, dtype: str) -> float:
        """Largest relative error norm accepted when `same_precision` happens to be nearer than a rounding allows."""


@dataclass(frozen=True)
class Launch:
    """One kernel launch of a bound runner, as given to the driver (threads and bytes)."""

    symbol: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int] = (1, 1, 1)
    dynamic_shared_bytes: int = 0


@dataclass(frozen=True)
class Runner:
    """Inputs and outputs bound to a loaded build; a call enqueues the operator.

    `stream` is a CUDA handle. Work that depends only on shapes (workspace, schedule, grid) is done before the first
    call. A call therefore only launches, and may be captured in a CUDA graph. `launches` is empty where they are
    unknown (PyTorch, installed packages). `with_torch` says that PyTorch launches further kernels, to prepare or
    convert. `finish` converts outputs to the operator's terms (a base-2 LSE to base e, say). It is called after the
    launches and is not timed. If it copies outputs from elsewhere, it spoils the source, so that a call that writes
    nothing is noticed.

    A runner whose schedule depends on the values of PLANNED inputs (lengths of requests, say) may have a `plan`. It
    remakes the schedule, on `stream`, for the values that are on the GPU now. It writes the schedule where the launches
    read it, without moving or resizing anything, so that later calls, and CUDA graphs captured before, use it. The
    timing stage times it separately. A plan that only enqueues work is replayed as a CUDA graph. A plan that reads the
    lengths on the host waits for the stream itself, and its wall time counts. The correctness stage on a GPU changes
    lengths in place and plans for them.
    """

    enqueue: Callable[[int], Any]
    launches: tuple[Launch, ...] = ()
    finish: Callable[[], Any] = nothing
    plan: Callable[[int], Any] | None = None
    with_torch: bool = False

    def __call__(self, stream: int) -> None:
        """Enqueue the operator on a stream."""
        self.enqueue(stream)


class Build(Protocol):
    """A build as `bind` sees it, on a machine with neither DSL nor compiler: `cutesnake.stages.load.build.LoadedBuild`.

    What is opened stays open, so that binding again costs nothing.
    """

    @property
    def params(self) -> Mapping[str, Any]:
        """The values of the variant."""

    @property
    def symbols(self) -> list[str]:
        """Entry points, the main one first."""

    def launch(self, symbol: str, grid: tuple[int, int, int]) -> Launch:
        """Return a launch of a symbol, with its compile-time values filled in."""

    def function(self) -> Callable[..., None]:
        """CuTe: the exported function. It takes tensors (DLPack), numbers, and a stream last."""

    def runner(self, values: Sequence[Any], grid: tuple[int, int, int], finish: Callable[[], Any] = nothing) -> Runner:
        """CuTe: the exported function with these arguments, as one launch of the main symbol."""

    def cubin_function(self, stem: str, symbol: str) -> Any:
        """cuTile: the handle of an entry point of `<stem>.cubin`."""

    def tile_runner(
        self, symbol: str, values: Sequence[Any], grid: tuple[int, int, int], finish: Callable[[], Any] = nothing
    ) -> Runner:
        """cuTile: one launch of an entry point of `kernel.cubin` with these arguments."""


class Kernel(Protocol):
    """The contract of `kernels/<operator>/<kernel>`, a module or package with these names.

    Names that a kernel may leave out: NEEDS (no packages), UNSUPPORTED (it promises all distributions) and
    `group_key` (no build is equivalent to another).
    """

    __file__: str | None  # a module has it by itself
    DSL: str  # a key of cutesnake.model.dsls.DSLS
    TARGETS: Mapping[
        str, tuple[str, ...]
    ]  # target -> hardware features it needs there, names of cutesnake.model.targets
    SOURCE: str  # OWN, INSTALLED, or the key of kernels/upstream.yaml that it comes from
    # Where SOURCE is INSTALLED: Python packages that cases import, import name -> name of the distribution.
    NEEDS: Mapping[str, str]
    # Optional: distributions of inputs beyond what the kernel promises, and in one sentence each why. They are checked
    # and their outcome is recorded, but it fails no record.
    UNSUPPORTED: Mapping[str, str]

    def supports(self, workload: Workload) -> str | None:
        """None, or in one sentence why this kernel cannot compute the workload."""

    def variants(self, workload: Workload, target: str) -> tuple[Variant, ...]:
        """Candidate builds for a workload that `supports` takes, the default first."""

    def compile(self, variant: Variant, target: str, folder: Path) -> dict[str, Any]:
        """Build ahead of time, with no GPU, into an existing empty folder.

        Returns what goes into build.json beyond what the compile stage adds itself: `symbols`, `launch`, `function`,
        `compilers` (name -> version). Raises whatever the compiler raises.
        """

    def bind(self, build: Build, workload: Workload, inputs: Any, outputs: Any) -> Runner:
        """Bind inputs and outputs to a build on a machine without DSL and compiler.

        Raises ValueError where the kernel does not take such inputs (requests of unequal length, say).
        """

    def group_key(self, variant: Variant) -> str | None:
        """Return what builds share that differ only in compile-time sizes, else None.

        Without a GPU of the target, only a few builds of a group are compiled, and stand for the others.
        """
