"""The comparison as a plain table for pandas: a line per kernel, workload, target and card."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from cutesnake.evidence.gather import Record

IDENTITY = ("operator", "workload", "kernel", "dsl", "variant", "target", "device", "kind", "date", "commit")


def to_csv(comparison: Record) -> str:
    """A header and a line per kernel that some row of the comparison names; empty fields are not known.

    Of every metric there are two columns: its value (in the unit of the comparison's list of metrics) and, as
    `<metric>_kind`, where that comes from: measured, recorded, predicted, static.
    """
    lines = list(_lines(comparison))
    columns = list(dict.fromkeys(column for line in lines for column in line)) or list(IDENTITY)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(lines)
    return text.getvalue()


def _lines(comparison: Record) -> Iterator[Record]:
    seen = set()
    for row in comparison["rows"]:
        others = [
            {"kernel": other["kernel"], "dsl": other["dsl"], "variant": None, "cells": _cells(other)}
            for other in row["baselines"]
        ]
        for side in (*({**row[dsl], "dsl": dsl} for dsl in ("cutile", "cute")), *others):
            place = (row["workload"], side["kernel"], row["target"], row["device"]["kind"], row["device"]["device"])
            if side["kernel"] is None or place in seen:
                continue
            seen.add(place)
            yield {
                **{"operator": comparison["operator"], "workload": row["workload"]},
                **{key: side[key] for key in ("kernel", "dsl", "variant")},
                **{"target": row["target"], **row["device"]},
                **row["parameters"],
                "floor_us": (row["floor"] or {}).get("floor_us"),
                **_values(side["cells"]),
            }


def _cells(other: Record) -> dict[str, Record]:
    return {key: cell for key, cell in other.items() if isinstance(cell, dict)}


def _values(cells: dict[str, Record]) -> Record:
    found: Record = {}
    for key, cell in cells.items():
        found |= {key: cell["value"], f"{key}_kind": None if cell["value"] is None else cell["kind"]}
    return found
