"""Estimate a prediction's error from earlier errors of the same clock."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from cutesnake.stages.predict.bottleneck import Bound
from cutesnake.stages.predict.validated import ValidatedRow

LEAST_ROWS = 5  # of calls with the same bottleneck, to use only these
# How many times as wide the band of a prediction is that rests on assumed parameters: by so much errors of Hopper's
# GPUs grow with the B200's assumptions (benchmarks/prediction/assumed.py).
ASSUMED = {"warm": 1.0, "cold": 1.5}


@dataclass(frozen=True)
class Band:
    """Expected error in percent either way, and its basis as text; None if never compared."""

    percent: float | None
    text: str


def band(bound_by: Bound, kind: str, assumed: int, kept: Sequence[ValidatedRow]) -> Band:
    """Return the 90th percentile of errors of such calls, else of all calls.

    Families that were looked at while the model was made say nothing about others: they do not count. `assumed` is how
    many parameters that nobody measured or published the prediction uses. Errors are taken at the highest clock.
    """
    same = [row for row in kept if row.kind == kind and row.part != "development"]
    equivalent = [row for row in same if row.bound == bound_by]
    chosen = equivalent if len(equivalent) >= LEAST_ROWS else same
    if len(chosen) < LEAST_ROWS:
        return Band(None, "no prediction of this kind was ever compared with a GPU: how far it is off is not known")
    errors = [row.error_at_highest_percent for row in chosen]
    percent = statistics.quantiles(map(abs, errors), n=10, method="inclusive")[-1]
    whose = "all calls"
    if chosen is equivalent:
        whose = "calls that keep nothing busy" if bound_by == "waiting" else f"calls bound by {bound_by}"
    message = f"nine in ten of {len(chosen)} {kind} predictions of {whose} on Hopper GPUs, at the highest clock"
    text = f"{message}, by kernels that the clock was not made with, were off by less than {percent:.0f} %"
    factor = ASSUMED[kind] if assumed else 1.0
    if factor == 1.0:
        return Band(percent, text)
    why = f"{assumed} of this GPU's parameters that count are assumed"
    return Band(factor * percent, f"{text}; {factor:.1f} times that, since {why}")
