"""Record of the stage `compare`: cuTile vs CuTe per workload, target and device."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from cutesnake.model.records.common import Count, Dsl, Origin, Part, Positive, Provenance, Record, doc, need
from cutesnake.model.records.verdict import TargetVerdict

Basis = Literal["static", "measured"]


class CompareProvenance(Provenance):
    """Number of records that the comparison was made from."""

    builds: int
    inspected: int
    measured: int
    recorded: int
    predicted: int


class MetricColumn(Part):
    """A column of the comparison."""

    key: str
    name: str
    unit: str
    meaning: str


class RuleText(Part):
    """A rule that writes sentences."""

    id: str
    basis: Basis
    condition: str


class Counts(Part):
    """Outcome of a stage for a kernel and target."""

    expected: Count
    ok: Annotated[Count, doc("on a GPU; for builds, built")]
    failed: Count
    simulated: Annotated[Count, doc("checked by ptxsim, not on a GPU")]
    reason: str | None
    recorded: Annotated[Count, doc("shown from recorded/builds/: built, or checked by ptxsim, on another machine")] = 0


class DeviceCounts(Part):
    """Outcome of a stage on one GPU."""

    kind: Literal["live", "recorded", "none"]
    device: str | None
    ok: Count
    failed: Count


class LeftOut(Part):
    """Number of workloads that a kernel cannot compute for one reason."""

    reason: str
    workloads: int


class Coverage(Part):
    """What was asked of a kernel on a target, and the outcome."""

    kernel: str
    dsl: str
    source: str
    target: str
    build: Counts
    correctness: Counts
    timing: Counts
    nsys: Counts
    ncu: Counts
    gpus: Annotated[
        dict[str, list[DeviceCounts]],
        doc("stage -> per GPU that ran it, on this machine or recorded: cases by outcome"),
    ] = msgspec.field(name="cards")
    not_simulated: Annotated[str | None, doc("why ptxsim cannot replace the missing GPU")]
    unsupported: list[LeftOut]
    stood_for: Annotated[
        Count | None, doc("builds that are not made, since others that are made differ in compile-time sizes only")
    ] = None

    def counts(self, stage: str) -> Counts:
        """Return the outcome of `build` or of a GPU stage."""
        counts: Counts = getattr(self, stage)
        return counts


class KernelTime(Part):
    """Times of a kernel on a workload, of its fastest variants."""

    cold_us: Annotated[float, doc("median of single calls, L2 flushed before each")]
    cold_variant: str
    spread_percent: Annotated[float, doc("of the cold samples")]
    empty_launch_us: Annotated[float | None, doc("cold, of an empty kernel on the same host")]
    hot_us: Annotated[float, doc("mean over back-to-back calls")]
    hot_variant: str
    hot_noise_percent: Annotated[float, doc("difference between two methods, or range of three bursts")]
    variants: Annotated[dict[str, float], doc("warm µs of each")]
    flags: list[str]


class TimesRow(Part):
    """Times of all kernels on a workload."""

    workload: str
    floor_us: float | None
    kernels: dict[str, KernelTime]


class TimesTable(Part):
    """Times of a target on a device."""

    target: str
    device: Origin
    kernels: dict[str, Dsl]
    rows: list[TimesRow]


class Speed(Part):
    """Other kernel's time ÷ this one's: geometric mean, extremes, and workloads by outcome."""

    mean: float
    least: float
    least_at: str
    most: float
    most_at: str
    faster: int
    equal: Annotated[int, doc("within the noise")]
    slower: int

    @property
    def workloads(self) -> int:
        """Return the number of workloads that both sides timed."""
        return self.faster + self.equal + self.slower


class OtherSpeed(Part):
    """Speed of the best kernel of both DSLs over another kernel."""

    kernel: str
    dsl: Dsl
    cold: Speed | None
    warm: Speed | None


class Speedup(Part):
    """Speed of CuTe over cuTile, best kernels, and of both over the others."""

    target: str
    device: Origin
    cold: Speed | None
    warm: Speed | None
    others: list[OtherSpeed]


class Differing(Part):
    """A workload with different winners on two GPUs."""

    workload: str
    winners: tuple[str, str]
    kernel: Annotated[str | None, doc("whose variants the winners are")] = None


class Agreement(Part):
    """Where two GPUs disagree, beyond the noise, about the fastest kernel or variant."""

    target: str
    gpus: tuple[str, str] = msgspec.field(name="cards")
    workloads: Annotated[int, doc("of which both timed two kernels or more")]
    cold: list[Differing]
    warm: list[Differing]
    variants: list[Differing]


class UnsupportedInput(Part):
    """Outcome of checks with inputs that a kernel does not promise to take."""

    kernel: str
    dsl: Dsl
    source: str
    target: str
    distribution: str
    why: str
    checks: int
    failed: int
    reason: str | None
    places: list[str]


class CountedSentence(Part):
    """A sentence and the number of rows that have it."""

    rule: str
    sentence: str
    rows: Annotated[int, Meta(ge=2)]


class SharedSentences(Part):
    """Sentences that several rows of a pair of kernels have."""

    cutile: str | None
    cute: str | None
    rows: Positive
    sentences: list[CountedSentence]


class CompareTable(Part):
    """Summary of all rows of a target and device, including those left out of `rows`."""

    target: str
    device: Origin
    workloads: Count
    shared_sentences: Annotated[list[SharedSentences], doc("per pair of kernels")] = msgspec.field(name="said")


class Cell(Part):
    """A value with its unit and origin, or the reason why it is missing."""

    value: int | float | None
    unit: str
    kind: Literal["measured", "recorded", "predicted", "static", "missing"]
    source: Annotated[str | None, doc("file that the value was read from")]
    reason: Annotated[str | None, doc("why it is missing, or why it was not measured")]

    def __post_init__(self) -> None:
        if self.kind == "missing":
            need(self.value is None, "value", "it must be empty where it is missing")
            need(bool(self.reason), "reason", "it is empty; it must be a text where the value is missing")
        else:
            need(self.value is not None, "value", f"it is empty; it must be a finite number where it is {self.kind}")


Cells = dict[str, Cell]  # key of a metric -> its cell


class Floor(Part):
    """Lower bound of a workload on a device."""

    device: str
    bound: Literal["compute", "memory"] | None
    floor_us: float | None


class CompareSide(Part):
    """A kernel of a row."""

    kernel: str | None
    variant: str | None
    reason: Annotated[str | None, doc("why there is no kernel or no build")]
    date: Annotated[str | None, doc("day of its time; null without one")]
    commit: str | None
    cells: Cells


class Baseline(Part):
    """Times of a kernel in neither DSL."""

    kernel: str
    dsl: Dsl
    date: str | None
    commit: str | None
    duration_us: Cell
    hot_duration_us: Cell
    plan_cold_us: Cell
    plan_us: Cell

    @property
    def cells(self) -> Cells:
        """Return the cells by the keys of their metrics."""
        return {
            "duration_us": self.duration_us,
            "hot_duration_us": self.hot_duration_us,
            "plan_cold_us": self.plan_cold_us,
            "plan_us": self.plan_us,
        }


class Insight(Part):
    """A sentence about a row, and the rule that it follows from."""

    rule: str
    basis: Basis
    sentence: str


class CompareRow(Part):
    """A cuTile and a CuTe kernel on a workload, target and device."""

    workload: str
    parameters: dict[str, Any]
    target: str
    device: Origin
    floor: Floor | None
    cutile: CompareSide
    cute: CompareSide
    baselines: list[Baseline]
    delta: Cells
    insights: list[Insight]


class Compare(Record, tag="compare"):
    """results/compare/<operator>.json: cuTile vs CuTe per workload, target and device."""

    status: Literal["ok"]
    reason: None
    provenance: CompareProvenance
    operator: str
    metrics: list[MetricColumn]
    rules: list[RuleText]
    coverage: list[Coverage]
    times: Annotated[list[TimesTable], doc("per target and device that timed something")]
    speedups: Annotated[list[Speedup], doc("per target and device")]
    agreement: Annotated[list[Agreement], doc("per target and pair of GPUs")]
    unsupported_inputs: Annotated[list[UnsupportedInput], doc("per kernel and target")] = msgspec.field(name="beyond")
    workloads: Annotated[Count, doc("number with rows")]
    tables: Annotated[list[CompareTable], doc("per target and device")]
    reasons: Annotated[
        list[str],
        doc(
            "why figures are missing or were not measured; columns `…_why` of the CSV file are indices into it, from 0"
        ),
    ]
    rows: Annotated[list[CompareRow], doc("of the workloads that pages show in full; the CSV file has all")]
    verdicts: Annotated[list[TargetVerdict], doc("who wins on each GPU, without pairs and causes")]
