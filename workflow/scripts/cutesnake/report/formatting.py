"""Numbers and states in the words of the report."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from cutesnake.analysis.compare.insight import number
from cutesnake.model.dsls import DSLS, UNKNOWN
from cutesnake.model.records.compare import Counts, Origin

View = dict[str, Any]  # what a template shows

DSL_NAMES = {**{name: dsl.label for name, dsl in DSLS.items()}, UNKNOWN: "not known"}
MOST_NAMED = 3  # of a kind, in one sentence
DIGITS = 7  # of a commit's name
MOST_COMMITS = 3  # that a heading names
STAGE_NAMES = {"build": "built", "correctness": "checked", "timing": "timed", "nsys": "nsys", "ncu": "ncu"}


def slug(*words: str) -> str:
    """An id for an HTML element."""
    return "-".join(re.sub(r"[^A-Za-z0-9]+", "-", word).strip("-").lower() for word in words)


def plural(count: float, one: str, many: str | None = None) -> str:
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def short(device: str | None) -> str:
    """A card without its maker: `H200` for `NVIDIA H200`."""
    return (device or "card of unknown name").removeprefix("NVIDIA ")


def listed(words: list[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def first_few(said: list[str]) -> str:
    """`a; b; c; and 2 more`."""
    return "; ".join(said[:MOST_NAMED]) + f"; and {len(said) - MOST_NAMED} more" * (len(said) > MOST_NAMED)


def signed(value: float, size: str) -> str:
    """`size` is the absolute value as text; gets the sign of `value`, a true minus included."""
    return "±0" if value == 0 else ("+" if value > 0 else "\N{MINUS SIGN}") + size


def big(value: float, unit: str) -> str:
    """With a decimal prefix: 12.3 GFLOP."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def state(count: Counts) -> View:
    """A mark, a class and words for how a stage went: never the mark or the colour alone.

    Simulated cases are told apart, not added: the simulator may run other, smaller workloads than the sweep's.
    """
    expected, ok, failed, simulated = count.expected, count.ok, count.failed, count.simulated
    if failed:
        return {"mark": "✕", "class": "bad", "text": f"{failed} of {expected} failed", "value": -failed}
    if expected == 0:
        return {"mark": "\N{EN DASH}", "class": "none", "text": "not asked", "value": -1}
    if ok + count.recorded >= expected:
        return {"mark": "✓", "class": "good", "text": f"{ok} of {expected}", "value": ok}
    if simulated:
        return {
            "mark": "◐",
            "class": "part",
            "text": f"{ok} of {expected}, {simulated} by simulation",
            "value": simulated,
        }
    if ok:
        return {"mark": "◐", "class": "part", "text": f"{ok} of {expected}", "value": ok}
    return {"mark": "○", "class": "none", "text": f"0 of {expected}", "value": 0}


def where(device: Origin) -> str:
    """Where the measurements of a table come from, in words."""
    if device.kind == "live":
        return f"measured here on {device.device}"
    if device.kind == "recorded":
        return _made(f"recorded on {device.device}", device.dates, _commits(device.commits))
    return "not measured: static figures"


def sets(devices: Iterable[Origin]) -> list[str]:
    """The recorded sets among where tables come from, each once, with the days and commits of all these tables."""
    found: dict[str, tuple[set[str], set[str]]] = {}
    for device in devices:
        if device.kind == "recorded":
            days, commits = found.setdefault(device.device or "", (set(), set()))
            days.update(device.dates)
            commits.update(commit[:DIGITS] for commit in device.commits)
    return [_made(name, days, _named_commits(sorted(commits))) for name, (days, commits) in found.items()]


def _made(place: str, days: Iterable[str], commits: str) -> str:
    when = ", ".join(filter(None, (span(days), commits)))
    return f"{place} ({when})" if when else place


def named(workload: str, reason: str) -> str:
    """The reason of a failed check with the workload that it is about, which most name themselves."""
    return reason if reason.startswith(f"{workload}, ") else f"{workload}: {reason}"


def span(days: Iterable[str]) -> str:
    """The first and the last of some days."""
    every = sorted(days)
    return " to ".join(dict.fromkeys((*every[:1], *every[-1:])))


def _commits(commits: list[str]) -> str:
    """Commits of a table, the oldest first; of many the newest."""
    names = [commit[:DIGITS] for commit in commits]
    if len(names) > MOST_COMMITS:
        return f"{len(names)} commits, the newest {names[-1]}"
    return _named_commits(names)


def _named_commits(names: list[str]) -> str:
    return f"commit{'s' * (len(names) > 1)} {listed(names)}" if names else ""


class Notes:
    """Numbered footnotes of one table, each reason once."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def mark(self, text: str) -> int:
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1
