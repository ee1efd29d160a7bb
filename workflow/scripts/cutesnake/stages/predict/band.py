"""How far a prediction may be off: the error that the same clock made where a card had measured."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from cutesnake.stages.predict.bottleneck import Bound
from cutesnake.stages.predict.validated import Held

LEAST_ROWS = 5  # of calls bound alike, to speak for them alone
ASSUMED = 2.0  # a prediction that rests on assumed parameters gets a band this many times as wide


@dataclass(frozen=True)
class Band:
    """`percent` either way, and in words what it rests on; None where nothing was ever held against a card."""

    percent: float | None
    words: str


def band(bound_by: Bound, kind: str, assumed: int, held: Sequence[Held]) -> Band:
    """The 90th percentile of the errors of `kind` (warm or cold) of calls bound alike, else of all calls.

    Families that were looked at while the model was made say nothing about others: they do not count. `assumed` is how
    many parameters that nobody measured or published the prediction makes use of.
    """
    same = [row for row in held if row.kind == kind and row.part != "development"]
    alike = [row for row in same if row.bound == bound_by]
    chosen = alike if len(alike) >= LEAST_ROWS else same
    if len(chosen) < LEAST_ROWS:
        return Band(None, "no prediction of this kind was ever held against a card: how far it is off is not known")
    percent = statistics.quantiles([abs(row.error_percent) for row in chosen], n=10, method="inclusive")[-1]
    whose = "all calls"
    if chosen is alike:
        whose = "calls that keep nothing busy" if bound_by == "waiting" else f"calls bound by {bound_by}"
    said = f"nine in ten of {len(chosen)} {kind} predictions of {whose} on Hopper cards"
    words = f"{said}, by kernels that the clock was not made with, were off by less than {percent:.0f} %"
    if not assumed:
        return Band(percent, words)
    return Band(
        ASSUMED * percent, f"{words}; twice that, since {assumed} of this card's parameters that count are assumed"
    )
