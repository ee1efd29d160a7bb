"""Formatting of numbers, counts and states for report pages."""

import re
from collections.abc import Iterable
from typing import Any

from cutesnake.analysis.compare.insight import number
from cutesnake.model.dsls import DSLS, UNKNOWN
from cutesnake.model.records.common import Origin
from cutesnake.model.records.compare import Counts

View = dict[str, Any]  # data of a template

DSL_NAMES = {**{name: dsl.label for name, dsl in DSLS.items()}, UNKNOWN: "not known"}
MOST_NAMED = 3  # items that one sentence names
DIGITS = 7  # of a commit hash
STAGE_NAMES = {"build": "built", "correctness": "checked", "timing": "timed", "nsys": "nsys", "ncu": "ncu"}


def slug(*parts: str) -> str:
    """Return an id for an HTML element."""
    return "-".join(re.sub(r"[^A-Za-z0-9]+", "-", part).strip("-").lower() for part in parts)


def plural(count: float, one: str, many: str | None = None) -> str:
    """Format a count with its noun: `1 case`, `2 cases`."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def short(device: str | None) -> str:
    """Return a GPU name without its vendor: `H200` for `NVIDIA H200`."""
    return (device or "unnamed GPU").removeprefix("NVIDIA ")


def listed(texts: list[str]) -> str:
    """Join texts: `a`, `a and b`, `a, b and c`."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} and {texts[-1]}"


def first_few(texts: list[str]) -> str:
    """Join the first texts and count the rest: `a; b; c; and 2 more`."""
    return "; ".join(texts[:MOST_NAMED]) + f"; and {len(texts) - MOST_NAMED} more" * (len(texts) > MOST_NAMED)


def signed(value: float, size: str) -> str:
    """Prefix `size`, the absolute value as text, with the sign of `value`."""
    return "±0" if value == 0 else ("+" if value > 0 else "\N{MINUS SIGN}") + size


def big(value: float, unit: str) -> str:
    """Format a value with a decimal prefix: 12.3 GFLOP."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def state(count: Counts) -> View:
    """Return mark, CSS class and text for the outcome of a stage.

    Simulated cases are shown apart from GPU cases, since the simulator may run other, smaller workloads.
    """
    expected, ok, failed, simulated = count.expected, count.ok, count.failed, count.simulated
    if failed:
        return {"mark": "✕", "class": "bad", "text": f"{failed} of {expected} failed", "value": -failed}
    if expected == 0:
        return {"mark": "\N{EN DASH}", "class": "none", "text": "not planned", "value": -1}
    if ok + count.recorded >= expected:
        return {"mark": "✓", "class": "good", "text": f"{ok} of {expected}", "value": ok}
    if simulated:
        return {
            "mark": "◐",
            "class": "part",
            "text": f"{ok} of {expected}, {simulated} in simulation",
            "value": simulated,
        }
    if ok:
        return {"mark": "◐", "class": "part", "text": f"{ok} of {expected}", "value": ok}
    return {"mark": "○", "class": "none", "text": f"0 of {expected}", "value": 0}


def where(device: Origin) -> str:
    """Describe where the measurements of a table come from; the page's provenance names commits."""
    if device.kind == "live":
        return f"measured on this machine ({device.device})"
    if device.kind == "recorded":
        return _made(f"recorded on {device.device}", device.dates, "")
    return "not measured: static values"


def sets(devices: Iterable[Origin]) -> list[str]:
    """Describe each recorded set once, with the days and commits of all its tables."""
    origins: dict[str, tuple[set[str], set[str]]] = {}
    for device in devices:
        if device.kind == "recorded":
            days, commits = origins.setdefault(device.device or "", (set(), set()))
            days.update(device.dates)
            commits.update(commit[:DIGITS] for commit in device.commits)
    return [_made(name, days, _named_commits(sorted(commits))) for name, (days, commits) in origins.items()]


def _made(place: str, days: Iterable[str], commits: str) -> str:
    when = ", ".join(filter(None, (span(days), commits)))
    return f"{place} ({when})" if when else place


def named(workload: str, reason: str) -> str:
    """Prefix a reason with its workload unless it already names the workload."""
    return reason if reason.startswith(f"{workload}, ") else f"{workload}: {reason}"


def span(days: Iterable[str]) -> str:
    """Format the first and last of some days."""
    every = sorted(days)
    return " to ".join(dict.fromkeys((*every[:1], *every[-1:])))


def _named_commits(names: list[str]) -> str:
    return f"commit{'s' * (len(names) > 1)} {listed(names)}" if names else ""


class Notes:
    """Numbered notes of a page, each text once."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> int:
        """Return a text's number, and add the text if it is new."""
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1
