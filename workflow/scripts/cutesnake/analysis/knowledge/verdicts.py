"""Verdicts of a kernel on an entry by its rule: confirms, refines or contradicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutesnake.analysis.knowledge.entries import Entry
from cutesnake.analysis.knowledge.evidence import at_path, meets
from cutesnake.model.records.anatomy import Anatomy

NAMES = {  # path of a value in a rule -> what it is
    "counts/grid_dependency": "grid-dependency instructions",
    "counts/tma_store": "TMA stores",
    "patterns/warp specialisation/found": "warp specialisation",
    "pipelines/*/stages": "stages of a pipeline",
    "pipelines/0/stages": "stages of the first pipeline",
    "registers/setmaxnreg": "registers set by setmaxnreg",
    "registers/setmaxnreg/0": "registers set by the first setmaxnreg",
}
EXPECTED = {"equals": "", "at_least": "at least ", "at_most": "at most ", "contains": "with "}


@dataclass(frozen=True)
class Verdict:
    """Verdict (`word`: confirms, refines, contradicts) and the values behind it (`why`)."""

    entry: Entry
    word: str
    why: str


def verdicts(record: Anatomy, entries: Sequence[Entry]) -> list[Verdict]:
    """Return an anatomy record's verdicts on the entries whose rule applies.

    A rule has `when` (the kernels it applies to), `then` (the expected values) and optionally a `figure` with its
    `range` so far. A kernel that satisfies `then` with a value out of the range refines the entry. An unknown value
    (null) gives no verdict.
    """
    results = []
    for entry in entries:
        verdict = _verdict(record, entry) if entry.rule and record.functions else None
        if verdict is not None:
            results.append(verdict)
    return results


def _verdict(record: Anatomy, entry: Entry) -> Verdict | None:
    rule = entry.rule or {}
    when, then = ([(c, _value(record, c["path"])) for c in rule[part]] for part in ("when", "then"))
    if any(value is None for _, value in (*when, *then)) or not all(meets(c, value) for c, value in when):
        return None
    why = "; ".join(_compared(c, value) for c, value in then)
    if not all(meets(c, value) for c, value in then):
        return Verdict(entry, "contradicts", why)
    excess = _out_of_range(record, rule.get("figure"))
    return Verdict(entry, "refines", f"{why}; {excess}") if excess else Verdict(entry, "confirms", why)


def _value(record: Anatomy, path: str) -> Any:
    """Return a value of the main function, or the record's DSL or target."""
    return at_path(record if path in ("dsl", "target") else record.functions[0], path)


def _out_of_range(record: Anatomy, figure: Mapping[str, Any] | None) -> str | None:
    if figure is None:
        return None
    value = _value(record, figure["path"])
    values = [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, int | float)]
    low, high = figure["range"]
    excess = [v for v in values if not low <= v <= high]
    return f"{NAMES[figure['path']]}: {excess[0]}, out of the range so far, {low} to {high}" if excess else None


def _compared(bounds: Mapping[str, Any], value: Any) -> str:
    """Return a value and what the rule expects of it, in words."""
    expected = ", ".join(f"{EXPECTED[key]}{_short(bounds[key])}" for key in EXPECTED if key in bounds)
    return f"{NAMES[bounds['path']]}: {_short(value)}; expected: {expected}"


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) < 90 else f"{text[:90]}…"
