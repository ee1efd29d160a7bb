"""What a prediction says: microseconds per launch, what bounded it, and the timeline of a representative SM."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Literal

SpanKind = Literal["work", "wait", "copy", "store", "product"]


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time on one track of the timeline, in cycles from the start of the launch.

    `kind` says what it is: a warp that works or waits, a copy, a store or a product under way. `what` names the
    barrier or instruction, `ptx_line` and `source` (file:line where the PTX has it) its place.
    """

    kind: SpanKind
    begin: float
    end: float
    what: str
    ptx_line: int | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class Track:
    """One row of the timeline: a warp ("CTA 0 warp 3") or an engine ("CTA 0 tensor cores", "CTA 0 TMA loads")."""

    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The tracks of the representative cluster's CTAs, for a picture; `cycles` is the time they span."""

    cycles: float
    sm_clock_mhz: float
    tracks: tuple[Track, ...]


@dataclass(frozen=True, slots=True)
class LaunchTime:
    """One launch: start and end in microseconds from the start of the first, SM cycles, and what was busy.

    `waves` is CTAs over what the card holds at once. `tensor_percent` is products over what the tensor cores of all
    SMs could do in that time, `dram_percent` and `l2_percent` bytes over what the memories could move.
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
    """Microseconds of one call with what a launch costs, its launches, and what the figure rests on.

    `assumed` names the parameters that the simulated code made use of and that nobody has measured; `notes` are
    sentences about what was simplified.
    """

    microseconds: float
    device: str
    sm_clock_mhz: float
    launches: tuple[LaunchTime, ...]
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> str:
        """Everything, as JSON."""
        return json.dumps(asdict(self))
