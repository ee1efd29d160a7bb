"""Checks of claims: compare a claim with the record that it names."""

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cutesnake.analysis.evidence.recorded_set import files_of, read_recorded, standing
from cutesnake.model.paths import ROOT
from cutesnake.model.records.anatomy import Anatomy
from cutesnake.model.records.common import Part, field
from cutesnake.model.records.measurement import Measurement, variant_id

Claim = Mapping[str, Any]
BUILT = ("anatomy", "simulated", "compiled")  # kinds of claims about builds, which are made for them
STATISTICS: dict[str, Callable[[list[float]], float]] = {
    "geomean": lambda values: math.exp(sum(map(math.log, values)) / len(values)),
    "least": min,
    "most": max,
    "count": len,
}


class NoEvidenceError(ValueError):
    """One-line error: a claim whose record or rows are missing."""


def evidence_value(
    claim: Claim,
    anatomy: Callable[[str], Anatomy] | None = None,
    root: Path = ROOT,
    findings: Callable[[Claim], Sequence[str]] | None = None,
    compiled: Callable[[Claim], Mapping[str, Any]] | None = None,
) -> Any:
    """Return the value that a claim's record holds now.

    anatomy: returns the anatomy record of a build. findings: returns the findings of a simulated check of the claim's
    `build` on the workload `where`. compiled: returns the compiled properties of `function` in the program `file`. Each
    is called for claims of its kind only. Raises NoEvidenceError.
    """
    kind = claim["kind"]
    if kind == "anatomy":
        if anatomy is None:
            raise NoEvidenceError(f"no anatomy of {claim['build']} available")
        return at_path(anatomy(claim["build"]).functions[0], claim["path"])
    if kind == "simulated":
        if findings is None:
            raise NoEvidenceError(f"no simulated check of {claim['build']} available")
        return any(claim["says"] in finding for finding in findings(claim))
    if kind == "compiled":
        if compiled is None:
            raise NoEvidenceError(f"{claim['function']} of {claim['file']} was not compiled")
        return at_path(compiled(claim), claim["path"])
    if kind == "row":
        return at_path(_rows(claim, root)[0], claim["path"])
    if kind == "columns":
        return _columns(claim, root)
    if kind == "cited":
        return _cited(claim, root)
    if kind == "count":
        return _count(claim, root)
    values = list(_ratios(claim, root) if kind == "ratio" else _values(claim, root))
    if not values:
        raise NoEvidenceError(f"recorded/{claim['set']}: no {claim['stage']} record of {claim['operator']} matches")
    return STATISTICS[claim["statistic"]](values)


def holds(claim: Claim, value: Any) -> bool:
    """Return whether a value satisfies the claim."""
    if claim["kind"] == "simulated":
        return value is True
    return meets(claim, value)


def meets(bounds: Mapping[str, Any], value: Any) -> bool:
    """Return whether a value satisfies `equals`, `at_least`, `at_most` and `contains`, where set."""
    if "equals" in bounds and value != bounds["equals"]:
        return False
    if "contains" in bounds and bounds["contains"] not in (value or ()):
        return False
    if "at_least" in bounds and not (value is not None and value >= bounds["at_least"]):
        return False
    return not ("at_most" in bounds and not (value is not None and value <= bounds["at_most"]))


def at_path(data: Any, path: str) -> Any:
    """Return the value at slash-separated keys and indices, or None; `*` maps, `#` counts."""
    for place, key in enumerate(parts := path.split("/")):
        if key == "*":
            rest = "/".join(parts[place + 1 :])
            return [at_path(one, rest) if rest else one for one in data or []]
        if key == "#":
            return len(data or [])
        if isinstance(data, list):
            data = data[int(key)] if int(key) < len(data) else None
        elif isinstance(data, Part):
            data = field(data, key)
        else:
            data = data.get(key) if isinstance(data, dict) else None
    return data


def _records(claim: Claim, root: Path) -> list[Measurement]:
    """Return all records of the claim's set, stage and operator."""
    folder, stage, operator = root / "recorded" / claim["set"], claim["stage"], claim["operator"]
    names = files_of((path.name for path in folder.glob("*")), operator, stage)
    if not names:
        raise NoEvidenceError(f"{folder.relative_to(root)} has no {stage} record of {operator}")
    return list(read_recorded(folder / name for name in names).values())


def _of(records: Iterable[Measurement], claim: Claim, who: Mapping[str, str] | None = None) -> Iterator[Measurement]:
    """Yield the claim's current records, of one kernel or of all."""
    for entry in standing(entry for entry in records if who is None or _is(entry, who)):
        if entry.status == "ok" and _fits(entry.case.parameters, claim.get("where", {})):
            yield entry


def _fits(parameters: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    return all(
        meets(wanted, parameters.get(key)) if isinstance(wanted, dict) else parameters.get(key) == wanted
        for key, wanted in where.items()
    )


def _is(entry: Measurement, who: Mapping[str, str]) -> bool:
    return entry.case.kernel == who["kernel"] and who.get("variant", "") in variant_id(entry.case)


def _values(claim: Claim, root: Path) -> Iterator[float]:
    for entry in _of(_records(claim, root), claim, claim["of"]):
        value = at_path(entry, claim["path"])
        below = at_path(entry, claim["per"]) if "per" in claim else 1
        if value is not None and below:
            yield value / below


def _count(claim: Claim, root: Path) -> int:
    """Count records, or their parts below `each`, with the values of `has`."""
    parts: list[Any] = []
    for entry in _of(_records(claim, root), claim, claim.get("of")):
        parts += at_path(entry, claim["each"]) or [] if "each" in claim else [entry]
    if not parts:
        raise NoEvidenceError(f"recorded/{claim['set']}: no {claim['stage']} record of {claim['operator']} matches")
    return sum(all(at_path(one, path) == value for path, value in claim["has"].items()) for one in parts)


def _ratios(claim: Claim, root: Path) -> Iterator[float]:
    """Yield slow ÷ fast per workload that both kernels have."""
    records = _records(claim, root)
    slow, fast = (
        {
            entry.case.workload: value
            for entry in _of(records, claim, claim[side])
            if (value := at_path(entry.metrics, claim["metric"])) is not None
        }
        for side in ("slow", "fast")
    )
    for workload, value in fast.items():
        if workload in slow:
            yield slow[workload] / value


def _columns(claim: Claim, root: Path) -> float:
    """Return the statistic (default: least) of one column ÷ another over a benchmark's rows."""
    ratios = [_first(at_path(row, claim["slow"])) / _first(at_path(row, claim["fast"])) for row in _rows(claim, root)]
    return STATISTICS[claim.get("statistic", "least")](ratios)


def _rows(claim: Claim, root: Path) -> list[Mapping[str, Any]]:
    """Return the rows of a benchmark's file that match `row`."""
    rows = at_path(json.loads((root / claim["file"]).read_text()), claim.get("rows", "rows"))
    rows = [rows] if isinstance(rows, dict) else rows
    wanted = claim.get("row", {})
    matching = [row for row in rows or [] if all(row.get(key) == value for key, value in wanted.items())]
    if not matching:
        raise NoEvidenceError(f"{claim['file']} has no row {wanted}")
    return matching


def table_cells(line: str) -> list[str]:
    """Return the cells of a Markdown table's row; none of any other line."""
    return [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []


def _cited(claim: Claim, root: Path) -> str:
    """Return the last cell of a Markdown table's row, given its first cell."""
    for line in (root / claim["file"]).read_text(encoding="utf-8").splitlines():
        cells = table_cells(line)
        if cells[:1] == [claim["first"]]:
            return cells[-1]
    raise NoEvidenceError(f"{claim['file']} has no table row {claim['first']!r}")


def _first(value: Any) -> float:
    return float(value[0] if isinstance(value, list) else value)
