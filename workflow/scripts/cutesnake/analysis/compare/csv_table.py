"""The comparison as a plain table for pandas: a line per kernel, workload, target and card."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator

from cutesnake.analysis.evidence.gather import Record

IDENTITY = ("operator", "workload", "kernel", "dsl", "variant", "target", "device", "kind", "date", "commit")


def to_csv(operator: str, rows: Iterable[Record], why: list[str]) -> str:
    """A header and a line per kernel that some row of the comparison names; empty fields are not known.

    Of every metric there are up to three columns: its value (in the unit of the comparison's list of metrics), as
    `<metric>_kind` where that comes from (measured, recorded, predicted, static), and as `<metric>_why` the place in
    `why`, counted from 0, of the reason why it is missing or was not measured.
    """
    numbers = {reason: number for number, reason in enumerate(why)}
    lines = list(_lines(operator, rows, numbers))
    columns = list(dict.fromkeys(column for line in lines for column in line)) or list(IDENTITY)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def reasons(rows: Iterable[Record]) -> list[str]:
    """Every reason that a line of the table has, each once."""
    found = (cell["reason"] for row in rows for side in _sides(row) for cell in side["cells"].values())
    return [reason for reason in dict.fromkeys(found) if reason is not None]


def _lines(operator: str, rows: Iterable[Record], numbers: dict[str, int]) -> Iterator[Record]:
    seen = set()
    for row in rows:
        for side in _sides(row):
            place = (row["workload"], side["kernel"], row["target"], row["device"]["kind"], row["device"]["device"])
            if place in seen:
                continue
            seen.add(place)
            yield {
                **{"operator": operator, "workload": row["workload"]},
                **{key: side[key] for key in ("kernel", "dsl", "variant")},
                **{"target": row["target"], "device": row["device"]["device"], "kind": row["device"]["kind"]},
                **{key: side[key] for key in ("date", "commit")},
                **row["parameters"],
                "floor_us": (row["floor"] or {}).get("floor_us"),
                **_values(side["cells"], numbers),
            }


def _sides(row: Record) -> Iterator[Record]:
    """The kernels of a row, each with its cells."""
    for dsl in ("cutile", "cute"):
        if row[dsl]["kernel"] is not None:
            yield {**row[dsl], "dsl": dsl}
    for other in row["baselines"]:
        cells = {key: cell for key, cell in other.items() if isinstance(cell, dict)}
        yield {**{key: other[key] for key in ("kernel", "dsl", "date", "commit")}, "variant": None, "cells": cells}


def _values(cells: dict[str, Record], numbers: dict[str, int]) -> Record:
    found: Record = {}
    for key, cell in cells.items():
        found |= {key: cell["value"], f"{key}_kind": None if cell["value"] is None else cell["kind"]}
        if cell["reason"] is not None:
            found[f"{key}_why"] = numbers[cell["reason"]]
    return found
