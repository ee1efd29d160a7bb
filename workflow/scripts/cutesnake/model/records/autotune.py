"""Record of the stage `autotune`: the variants of a kernel on one workload."""

from typing import Annotated, Literal

from cutesnake.model.records.common import (
    Backend,
    Choice,
    Device,
    Measured,
    Parameter,
    Part,
    Record,
    Status,
    check_outcome,
    doc,
)


class TimedVariant(Part):
    """One variant with its times; one that failed has none."""

    variant: str
    params: dict[str, Parameter]
    status: Status
    reason: str | None
    cold_us: float | None
    hot_us: float | None
    spread_percent: float | None


class AutotuneMetrics(Part):
    """The variants, and the one chosen."""

    criterion: Literal["cold_us"]
    variants: Annotated[list[TimedVariant], doc("fastest first, failed last")]
    chosen: str | None
    margin_percent: Annotated[float | None, doc("how much longer the second-best takes")]
    decided: Annotated[bool, doc("the margin is larger than the spread of the two")]


class Autotune(Record, tag="autotune"):
    """The variants of a kernel on one workload, and the fastest."""

    status: Status
    reason: Annotated[str | None, doc("of a failed record, one sentence")]
    provenance: Measured
    case: Choice
    device: Device | None
    backend: Backend
    metrics: AutotuneMetrics

    def __post_init__(self) -> None:
        check_outcome(self.status, self.reason, self.metrics)
