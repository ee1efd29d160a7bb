"""A prediction: microseconds per launch, utilisation, and the timeline of one cluster."""

from dataclasses import dataclass, field
from typing import Literal

SpanKind = Literal["work", "wait", "copy", "store", "product"]


@dataclass(frozen=True, slots=True)
class Span:
    """An interval on a track, in cycles from the start of the launch.

    `kind`: a warp works or waits; a copy, a store or a product is in flight. `what` names the barrier or instruction.
    `ptx_line` and `source` (file:line if the PTX has it) are its location.
    """

    kind: SpanKind
    begin: float
    end: float
    what: str
    ptx_line: int | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Track:
    """A row of the timeline: a warp ("CTA 0 warp 3") or an engine."""

    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The tracks of the representative cluster, for a plot; `cycles` is the time they span."""

    cycles: float
    sm_clock_mhz: float
    tracks: tuple[Track, ...]


@dataclass(frozen=True, slots=True)
class LaunchTime:
    """One launch: start and end (µs from the first start), SM cycles, utilisation.

    `waves` is CTAs over concurrent CTAs of the device. `tensor_percent` is the share of the peak of all SMs' tensor
    cores; `dram_percent` and `l2_percent` are shares of peak bandwidth.
    """

    name: str
    start_us: float
    end_us: float
    cycles: float
    waves: float
    blocks_per_sm: int
    tensor_percent: float
    dram_percent: float
    l2_percent: float
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class Prediction:
    """Microseconds of one call including launch latency, its launches, and assumptions.

    `assumed` names unmeasured parameters that the simulated code depends on; `notes` are
    sentences about simplifications.
    """

    microseconds: float
    device: str
    sm_clock_mhz: float
    launches: tuple[LaunchTime, ...]
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
