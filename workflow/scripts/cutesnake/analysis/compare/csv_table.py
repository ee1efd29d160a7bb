"""Comparison as CSV for pandas: a line per kernel, workload, target and GPU."""

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from cutesnake.model.records.compare import Cells, CompareRow

IDENTITY = ("operator", "workload", "kernel", "dsl", "variant", "target", "device", "kind", "date", "commit")

Line = dict[str, Any]  # column -> value


class _Side(NamedTuple):
    kernel: str
    dsl: str
    variant: str | None
    date: str | None
    commit: str | None
    cells: Cells


def to_csv(operator: str, rows: Iterable[CompareRow], why: list[str]) -> str:
    """Return a header and a line per kernel of the comparison; unknown fields are empty.

    Each metric has up to three columns: its value, in the unit of the comparison's list of metrics; `<metric>_kind`,
    its origin (measured, recorded, predicted, static); `<metric>_why`, the index in `why` of the reason why it is
    missing or was not measured.
    """
    numbers = {reason: number for number, reason in enumerate(why)}
    lines = list(_lines(operator, rows, numbers))
    columns = list(dict.fromkeys(column for line in lines for column in line)) or list(IDENTITY)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def reasons(rows: Iterable[CompareRow]) -> list[str]:
    """Return every reason in the table, each once."""
    every = (cell.reason for row in rows for side in _sides(row) for cell in side.cells.values())
    return [reason for reason in dict.fromkeys(every) if reason is not None]


def _lines(operator: str, rows: Iterable[CompareRow], numbers: dict[str, int]) -> Iterator[Line]:
    seen = set()
    for row in rows:
        for side in _sides(row):
            place = (row.workload, side.kernel, row.target, row.device.kind, row.device.device)
            if place in seen:
                continue
            seen.add(place)
            yield {
                **{"operator": operator, "workload": row.workload},
                **{"kernel": side.kernel, "dsl": side.dsl, "variant": side.variant},
                **{"target": row.target, "device": row.device.device, "kind": row.device.kind},
                **{"date": side.date, "commit": side.commit},
                **row.parameters,
                "floor_us": row.floor.floor_us if row.floor else None,
                **_values(side.cells, numbers),
            }


def _sides(row: CompareRow) -> Iterator[_Side]:
    """Yield the kernels of a row with their cells."""
    for dsl, side in (("cutile", row.cutile), ("cute", row.cute)):
        if side.kernel is not None:
            yield _Side(side.kernel, dsl, side.variant, side.date, side.commit, side.cells)
    for other in row.baselines:
        yield _Side(other.kernel, other.dsl, None, other.date, other.commit, other.cells)


def _values(cells: Cells, numbers: dict[str, int]) -> Line:
    line: Line = {}
    for key, cell in cells.items():
        line |= {key: cell.value, f"{key}_kind": None if cell.value is None else cell.kind}
        if cell.reason is not None:
            line[f"{key}_why"] = numbers[cell.reason]
    return line
