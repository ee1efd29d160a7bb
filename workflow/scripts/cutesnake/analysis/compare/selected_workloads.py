"""Which workloads the comparison's record, and so a page, has in full where they are too many for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

Record = dict[str, Any]
Key = tuple[str, str | None, str | None]  # target, and a table's kind and name of device

MOST_SHOWN = 120  # workloads: at some 7 KB each the page stays within what a browser opens at once


def picked(rows: Iterable[Record], speedups: Iterable[Record]) -> set[str]:
    """The first, the last and evenly picked workloads, and those where one DSL leads the other by most.

    All of them where they are no more than MOST_SHOWN.
    """
    every = list(dict.fromkeys(row["workload"] for row in rows))
    if len(every) <= MOST_SHOWN:
        return set(every)
    even = {every[place * (len(every) - 1) // (MOST_SHOWN - 1)] for place in range(MOST_SHOWN)}
    speeds = [entry[key] for entry in speedups for key in ("cold", "warm") if entry[key]]
    return even | {speed[end] for speed in speeds for end in ("least_at", "most_at")}


def table_of(row: Record) -> Key:
    """The table that a row belongs to: one per target and source of measurements."""
    return row["target"], row["device"]["kind"], row["device"]["device"]


def pair_of(row: Record) -> tuple[str | None, str | None]:
    """The kernels of a row, cuTile's first."""
    return row["cutile"]["kernel"], row["cute"]["kernel"]


def tables(rows: Iterable[Record], shown: set[str]) -> list[Record]:
    """Per table what all of its rows say: how many workloads it has, and in how many rows of two kernels a sentence
    about their code stands, of the sentences that stand in several and in a row of `shown`."""
    found: dict[Key, list[Record]] = {}
    for row in rows:
        found.setdefault(table_of(row), []).append(row)
    return [
        {
            **{"target": table[0]["target"], "device": table[0]["device"]},
            "workloads": len({row["workload"] for row in table}),
            "said": _said(table, shown),
        }
        for table in found.values()
    ]


def _said(rows: list[Record], shown: set[str]) -> list[Record]:
    every = Counter(pair_of(row) for row in rows)
    counts = Counter(sentence for row in rows for sentence in _static(row))
    seen = {sentence for row in rows if row["workload"] in shown for sentence in _static(row)}
    return [
        {
            **{"cutile": pair[0], "cute": pair[1], "rows": every[pair]},
            "sentences": [
                {"rule": rule, "sentence": sentence, "rows": count}
                for (who, rule, sentence), count in counts.items()
                if who == pair and count > 1 and (who, rule, sentence) in seen
            ],
        }
        for pair in every
    ]


def _static(row: Record) -> Iterable[tuple[tuple[str | None, str | None], str, str]]:
    return ((pair_of(row), i["rule"], i["sentence"]) for i in row["insights"] if i["basis"] == "static")
