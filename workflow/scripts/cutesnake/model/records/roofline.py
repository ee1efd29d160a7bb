"""Record of the roofline: lower bounds of an operator's workloads on all devices."""

from typing import Annotated, Literal

from msgspec import Meta

from cutesnake.model.records.common import Built, Count, Part, Positive, Record, doc, need


class RooflineRow(Part):
    """Lower bound of a workload on a device."""

    workload: Annotated[str, doc("id")]
    dtype: str
    device: Annotated[str, doc("as devices.yaml names it")]
    match: Annotated[list[str], doc("regular expressions; one matches the driver's name of the device")]
    compute_capability: str
    target: Annotated[str, doc("target of builds for the device")]
    flops: Count
    bytes: Annotated[Positive, doc("each read or written once")]
    intensity: Annotated[float, Meta(ge=0, description="FLOP/B")]
    peak_tflops: Annotated[float | None, doc("dense, in the workload's dtype")]
    memory_gb_per_s: float
    ridge: Annotated[float | None, doc("FLOP/B at which the bound changes")]
    bound: Literal["compute", "memory"] | None
    compute_us: float | None
    memory_us: float
    floor_us: Annotated[float | None, doc("the larger of both times")]
    reason: Annotated[str | None, doc("why there is no floor")]

    def __post_init__(self) -> None:
        need(
            self.floor_us is not None or self.reason is not None,
            "reason",
            "it is empty; it must be a text where there is no floor",
        )


class Roofline(Record, tag="roofline"):
    """Every workload of an operator on every device of devices.yaml, computed; nothing is run."""

    status: Literal["ok"]
    reason: None
    provenance: Built
    operator: str
    rows: list[RooflineRow]
