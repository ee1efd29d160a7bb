"""Record of the stage `predict`: time of a call on a GPU, by ptxsim's clock."""

from typing import Annotated, Literal

import msgspec

from cutesnake.model.records.common import Case, Measured, Part, Record, Status, check_outcome, doc

Bound = Literal["tensor cores", "DRAM", "L2", "waiting"]
Kind = Literal["work", "wait", "copy", "store", "product"]
Number = int | float
Span = tuple[Kind, Number, Number, str, int | None]  # kind, begin, end, what, PTX line


class Bounds(Part):
    """Bottlenecks of the longest launch; the error bands follow from them."""

    warm: Bound
    cold: Bound


class Band(Part):
    """Expected error of a prediction."""

    percent: Annotated[float | None, doc("in both directions; null: never compared with a GPU")]
    text: str = msgspec.field(name="words")


class Bands(Part):
    """Expected error, warm and cold."""

    warm: Band
    cold: Band


class PredictedLaunch(Part):
    """One predicted launch."""

    name: str
    start_us: float
    end_us: float
    cycles: float
    waves: float
    blocks_per_sm: Number
    tensor_percent: float
    dram_percent: float
    l2_percent: float


class PredictedLaunches(Part):
    """Launches of a call, warm and cold."""

    warm: list[PredictedLaunch]
    cold: list[PredictedLaunch]


class ParameterOrigins(Part):
    """Parameters of the GPU's model, by origin."""

    measured: int
    published: int
    assumed: int


class Track(Part):
    """One row of the timeline."""

    name: str
    spans: Annotated[list[Span], doc("kind, begin, end, what, PTX line")]


class Timeline(Part):
    """Middle of the longest launch, cold, on a representative cluster; cycles from the launch's start."""

    launch: str
    cycles: float
    begin: float
    end: float
    tracks: list[Track]


class PredictMetrics(Part):
    """Predicted times of one case."""

    device: Annotated[str, doc("the predicted GPU")]
    sm_clock_mhz: Annotated[float, doc("assumed")]
    warm_us: Annotated[float, doc("of a call right after another, with what L2 still holds")]
    cold_us: Annotated[float, doc("of a single call with none of its data in L2")]
    bounds: Bounds
    bands: Bands
    launches: PredictedLaunches
    tensor_percent: Annotated[float, doc("of the longest launch, cold: products over the capacity of all tensor cores")]
    dram_percent: Annotated[float, doc("bytes over the capacity of DRAM")]
    l2_percent: Annotated[float, doc("bytes over the capacity of L2")]
    parameters: ParameterOrigins
    notes: list[str]
    timeline: Timeline
    empty_launch_us: Annotated[
        float | None, doc("measured time of an empty launch on this host, part of cold_us; absent: the model's value")
    ] = msgspec.field(default=None, name="lone_us")


class Predict(Record, tag="predict"):
    """Time of a call on a GPU that need not be present, by ptxsim's clock."""

    status: Status
    reason: Annotated[str | None, doc("of a failed record, one sentence")]
    provenance: Measured
    case: Case
    device: Annotated[None, doc("no GPU took part")]
    backend: Literal["ptxsim"]
    seconds: float | None
    metrics: PredictMetrics | None

    def __post_init__(self) -> None:
        check_outcome(self.status, self.reason, self.metrics)
