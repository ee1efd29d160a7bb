"""The result of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .counts import Counts
from .coverage import Coverage
from .finding import Finding

if TYPE_CHECKING:
    from ..timing.prediction import Prediction


class FindingsError(AssertionError):
    """Raised for a run with findings; `findings` holds them, the message has one a line."""

    def __init__(self, findings: list[Finding]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = findings


@dataclass
class Result:
    """Result of a run: findings of all launches, Counts per launch, schedule, seed, wall seconds."""

    findings: list[Finding]
    counts: list[Counts]
    schedule: str
    seed: int
    seconds: float
    kernels: list[str] = field(default_factory=list)
    prediction: Prediction | None = None  # of a run with the schedule "timed"
    coverage: list[Coverage] = field(default_factory=list)  # one per launch
    tried: list[tuple[str, int]] = field(default_factory=list)  # a search's (schedule, seed) pairs
    waived: list[tuple[Finding, str]] = field(default_factory=list)  # findings waived by `run(waive=…)`, with reasons

    @property
    def ok(self) -> bool:
        """Whether there are no findings; output values are not compared."""
        return not self.findings

    def raise_for_findings(self) -> None:
        """Raise FindingsError if there are findings."""
        if self.findings:
            raise FindingsError(self.findings)
