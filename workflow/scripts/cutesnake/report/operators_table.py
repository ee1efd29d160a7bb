"""The table of speedups per operator and GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cutesnake.analysis.summary import OperatorSummary
from cutesnake.model.records.compare import Speed, Speedup
from cutesnake.report.formatting import short

NOISE = 0.02  # a mean within this distance of 1 has no winner


def others(summary: Mapping[str, OperatorSummary], operators: Sequence[str], front: str) -> list[dict[str, Any]]:
    """Return the rows of the front page's table of the other operators."""
    table = []
    for operator in operators:
        if operator == front:
            continue
        link = f"report/{operator}.html"
        known = summary[operator].speedups if operator in summary else []
        table += rows(operator, known, link) or [{"operator": operator, "link": link, "gpu": None}]
    return table


def rows(operator: str, speedups: Sequence[Speedup], link: str) -> list[dict[str, Any]]:
    """Return a row per GPU that timed both DSLs."""
    return [
        {
            "operator": operator,
            "link": link,
            "gpu": short(one.device.device),
            "warm": _speed(one.warm),
            "cold": _speed(one.cold),
            "workloads": one.warm.workloads,
        }
        for one in speedups
        if one.warm and one.cold
    ]


def _speed(speed: Speed) -> dict[str, Any]:
    """Return a mean with its range, and the winner if mean and most workloads agree."""
    ahead = "CuTe DSL" if speed.mean > 1 + NOISE and speed.faster * 2 > speed.workloads else None
    behind = "cuTile" if speed.mean < 1 / (1 + NOISE) and speed.slower * 2 > speed.workloads else None
    return {"mean": speed.mean, "least": speed.least, "most": speed.most, "winner": ahead or behind or "depends"}
