"""Record of the stage `change`: what changed compared with a baseline."""

from typing import Annotated, Literal

from msgspec import Meta

from cutesnake.model.records.common import Count, Dsl, Part, Positive, Provenance, Record, doc, need

Time = Annotated[float, Meta(gt=0)]
Verdict = Literal["slower", "faster", "equal", "cannot tell"]


class ChangeProvenance(Provenance):
    """Number of timing records of both sides."""

    timed_before: Count
    timed_now: Count


class Baseline(Part):
    """What the run is compared with."""

    kind: Literal["recorded", "results", "commit"]
    label: Annotated[str, doc("without the machine's part of a path")]
    first: Annotated[str | None, doc("day of the oldest record of the operator")]
    last: str | None
    commits: list[str]
    devices: list[str]


class Versions(Part):
    """A version that differs between the two sides."""

    name: str
    before: list[str]
    now: list[str]


class Judged(Part):
    """A time before and now, with the verdict."""

    before_us: Time
    now_us: Time
    ratio: Annotated[float, Meta(gt=0, description="now over before: above 1, it got slower")]
    before_noise_percent: float | None
    now_noise_percent: float | None
    limit_percent: Annotated[float | None, doc("times further apart than this differ")]
    verdict: Verdict
    why: Annotated[str | None, doc("why one cannot tell")]

    def __post_init__(self) -> None:
        if self.verdict == "cannot tell":
            need(self.why is not None, "why", "it is empty; it must be a text where one cannot tell")
        else:
            need(self.why is None, "why", "it must be empty where there is a verdict")


class ChangedCase(Part):
    """A case that both sides timed."""

    device: str
    kernel: str
    dsl: Dsl
    target: str
    workload: str
    variant: str
    variant_before: Annotated[str, doc("another one where no variant is in both")]
    same: Annotated[bool, doc("both sides are one measurement")]
    cold: Annotated[Judged | None, doc("null where both sides are one measurement")]
    warm: Annotated[Judged | None, doc("null where both sides are one measurement")]


class Unpaired(Part):
    """Cases that only one side timed."""

    only_before: Count
    only_now: Count


class Totals(Part):
    """Cases by verdict; `same` counts cases of which both sides are one measurement."""

    slower: Count
    faster: Count
    equal: Count
    cannot_tell: Count
    same: Count


class BothTotals(Part):
    """Cases by verdict, cold and warm."""

    cold: Totals
    warm: Totals


class ChangedFigure(Part):
    """A static figure that differs; null where it is not known."""

    figure: str
    before: int | None
    now: int | None


class ChangedFunction(Part):
    """A device function with a figure that differs."""

    kernel: str
    target: str
    variant: str
    function: Annotated[Positive, doc("place in the build, the main one first")]
    symbol: str
    changes: Annotated[list[ChangedFigure], Meta(min_length=1)]


class ChangedBuilds(Part):
    """Comparison of the static figures of builds."""

    compared: Count
    only_before: Count
    only_now: Count
    compilers: list[Versions]
    reason: Annotated[str | None, doc("why no build is compared")]
    changed: list[ChangedFunction]


class Change(Record, tag="change"):
    """results/change/<operator>.json: what changed compared with a baseline."""

    status: Literal["ok"]
    reason: None
    provenance: ChangeProvenance
    operator: str
    baseline: Baseline
    rule: Annotated[list[str], doc("what the verdicts follow from")]
    conditions: Annotated[list[Versions], doc("drivers and packages of the measurements that are paired")]
    cases: list[ChangedCase]
    unpaired: Unpaired
    no_cases: Annotated[str | None, doc("why no case is in both")]
    totals: BothTotals
    builds: ChangedBuilds
