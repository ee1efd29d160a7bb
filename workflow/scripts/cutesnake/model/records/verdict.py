"""Verdicts of an operator: winning DSL per GPU, certainty, causes and costs."""

from typing import Annotated, Literal

import msgspec

from cutesnake.model.records.common import Count, Dsl, Origin, Part, Positive, doc

Figure = Literal["warm", "cold"]
Side = Literal["cute", "cutile"]
Winner = Literal["cute", "cutile", "depends"]
Basis = Literal["measured", "recorded", "predicted"]


class Pairing(Part):
    """The fastest kernel of each DSL on one workload."""

    workload: str
    cute: Annotated[str, doc("kernel")]
    cute_variant: str
    cute_us: float
    cutile: Annotated[str, doc("kernel")]
    cutile_variant: str
    cutile_us: float
    ratio: Annotated[float, doc("cuTile time over CuTe time: above 1, CuTe is faster")]
    noise_percent: Annotated[float, doc("times that differ by less count as equal")]
    winner: Side | None
    samples: Annotated[list[int], doc("of the CuTe and the cuTile time")] = msgspec.field(default_factory=list)
    mhz: Annotated[list[float], doc("SM clocks of both")] = msgspec.field(default_factory=list)
    rested: Annotated[float | None, doc("warm ratio in short bursts on a rested GPU")] = None


class Accuracy(Part):
    """How often predictions of this kind agreed with a GPU: see workflow/validation/."""

    devices: Annotated[list[str], doc("GPUs that were compared with")]
    cases: Count
    median_error_percent: float | None
    nine_in_ten_percent: Annotated[float | None, doc("nine in ten cases had a smaller error")]
    pairs: Annotated[Count, doc("pairs of kernels that were predicted and timed on the same workload")]
    right: Annotated[Count, doc("pairs of which the predicted faster one was the faster one")]
    clear_percent: Annotated[float, doc("a prediction is clear if its times differ by more")]
    clear: Count
    clear_right: Count
    sources: Annotated[list[str], doc("files")]
    leaning: Annotated[
        float | None, doc("median of predicted over measured ratios of this operator: above 1, CuTe DSL is favoured")
    ] = None
    leaning_cases: Count = 0


class Split(Part):
    """The only workload parameter whose values separate each DSL's wins from other workloads."""

    parameter: str
    cute: Annotated[
        str | None, doc("condition that all wins of CuTe DSL and no other workload meet, such as ≥ 1024; null: no wins")
    ]
    cutile: str | None


class Decision(Part):
    """Which DSL wins, by one kind of time."""

    figure: Figure
    basis: Basis
    winner: Winner
    reason: Annotated[
        Literal["agree", "noise", "majority", "one_workload", "interval"],
        doc("agree: mean and most workloads agree, beyond the noise; otherwise why there is no winner"),
    ]
    mean: Annotated[float, doc("geometric mean of the ratios: above 1, CuTe is faster")]
    low: Annotated[float | None, doc("95 % interval of the mean, by bootstrap over workloads; null for fewer than 4")]
    high: float | None
    least: float
    least_at: Annotated[str, doc("workload")]
    most: float
    most_at: Annotated[str, doc("workload")]
    noise_percent: Annotated[float, doc("median over the workloads, at least 3")]
    cute_wins: Annotated[list[str], doc("workloads")]
    cutile_wins: list[str]
    equal: Annotated[list[str], doc("workloads within their noise")]
    decided_by: Annotated[
        str | None, doc("workload without which the mean no longer favours that DSL beyond the noise")
    ]
    pairs: list[Pairing]
    split: Annotated[Split | None, doc("without a winner only")] = None
    losses: Annotated[list[str], doc("conditions on parameters that all workloads of the loser's wins meet")] = (
        msgspec.field(default_factory=list)
    )
    accuracy: Annotated[Accuracy | None, doc("of predictions only")] = msgspec.field(default=None, name="held")
    dtypes: Annotated[dict[str, float], doc("mean per dtype, if there are several")] = msgspec.field(
        default_factory=dict
    )

    @property
    def workloads(self) -> int:
        """Return the number of workloads that both DSLs have a time of."""
        return len(self.cute_wins) + len(self.cutile_wins) + len(self.equal)


class Rival(Part):
    """The best kernel in neither DSL, compared with the faster DSL on each workload."""

    against: Annotated[list[Side], doc("DSLs that have a time on one of the workloads")]
    figure: Figure
    kernel: str
    dsl: Dsl
    mean: Annotated[float, doc("its time over that of the faster DSL: below 1, both DSLs are slower")]
    low: float | None
    high: float | None
    workloads: Positive
    faster: Annotated[list[str], doc("workloads on which it is faster than both DSLs, beyond the noise")]
    slower: list[str]
    noise_percent: float
    beats_both: Annotated[bool, doc("it beats all kernels of the DSLs in `against`, by the rule of the verdicts")]


class Flag(Part):
    """A fact that limits a verdict."""

    id: Literal[
        "few_workloads",
        "one_workload_decides",
        "spills",
        "untuned",
        "uneven_variants",
        "other_variants",
        "different_authors",
        "different_hosts",
        "power_limit",
        "not_on_this_gpu",
    ]
    kernel: str | None
    values: Annotated[dict[str, int | float | str], doc("by name")]
    evidence: Annotated[list[str], doc("files")]


class WarmSlower(Part):
    """A workload whose warm time is longer than its cold one."""

    workload: str
    kernel: str
    variant: str
    warm_us: float
    cold_us: float
    percent: float
    warm_mhz: Annotated[float | None, doc("SM clock")]
    cold_mhz: float
    rested_us: Annotated[float | None, doc("warm, by short bursts on a rested GPU")]
    cause: Annotated[
        Literal["power limit", "clock", "unknown"],
        doc("power limit: the GPU reported it and the clock fell; clock: it fell, unreported"),
    ]
    evidence: str


class Cause(Part):
    """A rule that fired: a fact that explains why one kernel is slower than another."""

    rule: str
    sentence: str
    evidence: Annotated[list[str], doc("files, with a JSON path behind «#»")]
    numbers: Annotated[dict[str, int | float | str], doc("by name")]
    share_percent: Annotated[float | None, doc("of the difference that it accounts for, where known")] = None
    doubt: Annotated[str | None, doc("a fact that weakens it without refuting it")] = None

    @property
    def text(self) -> str:
        """Return the sentence, and the doubt if there is one."""
        return f"{self.sentence} {self.doubt}" if self.doubt else self.sentence


class Explained(Part):
    """A pair of kernels on one workload and the causes of their difference."""

    figure: Figure
    basis: Basis
    contest: Annotated[Literal["dsls", "authors"], doc("authors: both kernels are of one DSL")]
    workload: str
    faster: str
    slower: str
    ratio: Annotated[float, doc("time of the slower kernel over that of the faster one")]
    profiled: Annotated[bool, doc("hardware counters of both kernels on this workload exist")]
    causes: list[Cause]
    ruled_out: Annotated[list[Cause], doc("facts that refute a rule which fired, or that are no cause")] = (
        msgspec.field(default_factory=list)
    )
    clear: Annotated[bool, doc("beyond the noise, or beyond the expected error of a prediction")] = True


class CauseRule(Part):
    """A rule about causes."""

    id: str
    condition: str


class TargetVerdict(Part):
    """Verdicts of a target on one GPU."""

    target: str
    device: Origin
    gpu: Annotated[str, doc("the GPU that measured, or the predicted one")]
    predicted: bool
    warm: Decision | None
    cold: Decision | None
    rivals: Annotated[list[Rival], doc("the best one, per figure")]
    flags: list[Flag]
    warm_slower: Annotated[list[WarmSlower], doc("largest first")]
    highest_clock_mhz: Annotated[float | None, doc("SM clock, of all cold times; floors are at nominal boost clock")]
    explained: Annotated[list[Explained], doc("profiled workloads first, then by size of the difference")]
    times: Annotated[Count, doc("records with a cold and a warm time")] = 0

    def decision(self, figure: Figure) -> Decision | None:
        """Return the verdict by one kind of time."""
        return self.warm if figure == "warm" else self.cold

    def rival(self, figure: Figure) -> Rival | None:
        """Return the best kernel in neither DSL by one kind of time."""
        return next((rival for rival in self.rivals if rival.figure == figure), None)


class Author(Part):
    """Who wrote and tuned a kernel."""

    name: str
    work: Annotated[str, doc("how far it was tuned, in a few words")]
    versions: Annotated[Positive | None, doc("documented design versions of this project's kernels")] = None
    evidence: str | None = None


class Lines(Part):
    """Lines of Python, without blank lines, comments and docstrings."""

    host: Count
    device: Count
    files: list[str]


class KernelCost(Part):
    """Costs of a kernel on a target, for one of its builds."""

    kernel: str
    dsl: Dsl
    target: str
    author: Author
    variant: str | None
    functions: Annotated[
        Count, doc("kernels of the build that run, if known; of resources, the one that uses most counts")
    ]
    lines: Lines | None
    compile_seconds: float | None  # processor time, without the import of the DSL
    registers_per_thread: int | None
    shared_bytes_per_block: int | None
    theoretical_occupancy_percent: float | None
    achieved_occupancy_percent: Annotated[float | None, doc("by ncu")]
    at: Annotated[str | None, doc("workload that the build and the achieved occupancy are of, for compared kernels")]
    spill_bytes: Annotated[list[int], doc("per thread, least and most over the builds; empty: not known")]
    tensor_memory_columns: int | None
    variants_offered: Annotated[Count | None, doc("candidates by its contract, for `at` or the most of any workload")]
    variants_timed: Annotated[Count, doc("on `at`, or the most on one workload")]
    missing: Annotated[dict[str, str], doc("figure -> why it is missing")]
    evidence: Annotated[list[str], doc("files")]


class Verdicts(Part):
    """Verdicts, causes and costs of an operator."""

    operator: str
    targets: Annotated[list[TargetVerdict], doc("measured ones first")]
    costs: list[KernelCost]
    rules: Annotated[list[CauseRule], doc("all rules about causes, whether they fired or not")]
