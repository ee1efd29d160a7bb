"""Record of the stage `correctness`: a build compared with the float32 reference."""

from typing import Annotated

import msgspec
from msgspec import Meta

from cutesnake.model.records.common import CaseRecord, Part, Positive, doc

Schedules = Annotated[list[str], Meta(min_length=1)]


class Output(Part):
    """Errors of one output; recorded sets keep the required entries alone where the check passed."""

    relative_error: Annotated[
        float | None, doc("norm of the difference over the norm of the reference; null: not a number")
    ]
    worst_absolute_error: float | None
    passed: bool
    same_precision_error: float | None = None
    limit: float | None = None
    worst_index: list[int] | None = None
    worst_row_error: Annotated[float | None, doc("largest ratio over rows, the last dimension")] = None
    row_limit: float | None = None
    unwritten: Annotated[int | None, doc("elements that are NaN")] = None


class Check(Part):
    """One run of the kernel on one set of inputs."""

    workload: Annotated[str, doc("the case's own, or a related size of the same build")]
    distribution: str
    seed: int
    relative_error: Annotated[float | None, doc("of the first output; null: not a number, or not reached")]
    same_precision_error: Annotated[
        float | None, doc("of PyTorch in the workload's dtype; the limit is twice this or the dtype's tolerance")
    ]
    worst_absolute_error: float | None
    deterministic: Annotated[bool | None, doc("all launches gave the same bits; null: there was one only")]
    passed: bool
    reason: str | None
    outputs: dict[str, Output]
    schedules: Annotated[
        Schedules | None, doc("of the simulator, a launch under each, with the check's seed; absent on a GPU")
    ] = None
    findings: Annotated[
        list[str] | None, doc("of the simulator, each with its schedule; any fails the check; absent on a GPU")
    ] = None
    unknown_opcode: Annotated[str | None, doc("that the simulator lacks, if the check failed for it")] = None
    unsupported: Annotated[
        str | None,
        doc("why the kernel does not promise this input; such a check fails no record and is in no sum below"),
    ] = msgspec.field(default=None, name="outside")


class Skipped(Part):
    """Inputs that the kernel or build does not take."""

    workload: str
    distribution: Annotated[str | None, doc("null: all of the size")]
    reason: str


class SimulatedLaunch(Part):
    """Counts of one launch of the first simulated run; they contain no times."""

    kernel: str
    instructions: Annotated[dict[str, int], doc("per warp, by class")]
    warp_instructions: int | None
    mma_flops: int | None
    mma_instructions: int | None
    tma_bytes: int | None
    tma_instructions: int | None
    global_read_bytes: int | None
    global_write_bytes: int | None
    global_read_unique_bytes: int | None
    global_write_unique_bytes: int | None
    barrier_waits: int | None
    opcodes: Annotated[
        dict[str, int] | None, doc("per warp, by opcode as written; absent in records from before 2026-11-22")
    ] = None
    products: Annotated[dict[str, int] | None, doc("of tensor memory, by kind, CTAs and M x N x K")] = None
    shared_wavefronts: int | None = None
    bank_conflicts: int | None = None
    barrier_sleeps: int | None = None


class SimulatedCost(Part):
    """Minimum work and traffic of the operator."""

    flops: int
    bytes_read: int
    bytes_written: int


class Blocks(Part):
    """Basic blocks that ran, and all."""

    run: int
    all: int


class Lines(Part):
    """Source lines that ran."""

    run: int
    all: int
    missed: Annotated[list[str], doc("the first 40, as file:line")]


class Ring(Part):
    """Adjacent mbarriers with the same waits: one circular buffer."""

    offset: int
    stages: int
    phases: Annotated[int, doc("phases completed in one CTA, most of a stage")] = msgspec.field(name="turns")
    least: Annotated[int, doc("least of a stage")]
    waits: int
    slept: Annotated[int, doc("waits that had to sleep")]
    room: Annotated[bool, doc("whether a producer waits there for room")]


class Loop(Part):
    """An outer loop and its most iterations in one CTA."""

    source: str | None = None
    iterations: int | None = msgspec.field(default=None, name="turns")


class KernelCoverage(Part):
    """What all runs of the case exercised of one kernel."""

    kernel: str
    blocks: Blocks
    lines: Lines
    rings: list[Ring]
    loops: list[Loop]
    items: Annotated[int, doc("most iterations of an outer loop in one CTA: of a persistent kernel, its work tiles")]
    notes: Annotated[list[str], doc("what no run exercised, in sentences")]


class Simulated(Part):
    """What the simulator counted."""

    launches_run: Annotated[int, doc("kernel launches, over all schedules, seeds and distributions")]
    peak_memory_bytes: Annotated[int, doc("of the process of the case, Python and PyTorch included")]
    launches: list[SimulatedLaunch]
    cost: SimulatedCost
    processors: Annotated[Positive | None, doc("multiprocessors of the simulated GPU")] = None
    coverage: list[KernelCoverage] | None = None
    warnings: Annotated[
        list[str] | None,
        doc(
            "what no run of the case exercised: a pipeline that was never full, a ring that never wrapped, a parity "
            "that never flipped, each with its kernel; absent in records from before 2026-11-22"
        ),
    ] = None
    notes: Annotated[list[str] | None, doc("not used; in records from before 2026-11-29")] = None


class CorrectnessMetrics(Part):
    """All checks of one case."""

    checks: list[Check]
    skipped: list[Skipped]
    passed: int
    failed: int
    worst_relative_error: float | None
    deterministic: bool
    simulated: Simulated | None = None
    measuring_seconds: Annotated[float | None, doc("wall time of the checks, without the start of their process")] = (
        None
    )


class Correctness(CaseRecord[CorrectnessMetrics], tag="correctness"):
    """A build compared with the float32 reference, on a GPU or simulated."""
