"""Verdicts of a kernel on an entry by its rule: confirms, refines or contradicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cutesnake.analysis.knowledge.entries import Entry
from cutesnake.analysis.knowledge.evidence import at_path, meets

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


def verdicts(record: Mapping[str, Any], entries: Sequence[Entry]) -> list[Verdict]:
    """Return an anatomy record's verdicts on the entries whose rule applies.

    A rule has `when` (the kernels it applies to), `then` (the expected values) and optionally a `figure` with its
    `range` so far. A kernel that satisfies `then` with a value out of the range refines the entry. An unknown value
    (null) gives no verdict.
    """
    results = []
    for entry in entries:
        verdict = _verdict(record, entry) if entry.rule and record["functions"] else None
        if verdict is not None:
            results.append(verdict)
    return results


def _verdict(record: Mapping[str, Any], entry: Entry) -> Verdict | None:
    rule = entry.rule or {}
    main = {**record["functions"][0], "dsl": record["dsl"], "target": record["target"]}
    seen = [(c["path"], at_path(main, c["path"])) for c in (*rule["when"], *rule["then"])]
    if any(value is None for _, value in seen):
        return None
    if not all(meets(c, at_path(main, c["path"])) for c in rule["when"]):
        return None
    why = "; ".join(_compared(bounds, at_path(main, bounds["path"])) for bounds in rule["then"])
    if not all(meets(c, at_path(main, c["path"])) for c in rule["then"]):
        return Verdict(entry, "contradicts", why)
    excess = _out_of_range(main, rule.get("figure"))
    return Verdict(entry, "refines", f"{why}; {excess}") if excess else Verdict(entry, "confirms", why)


def _out_of_range(main: Mapping[str, Any], figure: Mapping[str, Any] | None) -> str | None:
    if figure is None:
        return None
    value = at_path(main, figure["path"])
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
