"""Which workloads the comparison's record, and so a page, has in full where they are too many for that."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from cutesnake.model.records.compare import CompareRow, CompareTable, CountedSentence, Said, Speedup

Key = tuple[str, str | None, str | None]  # target, and a table's kind and name of device

MOST_SHOWN = 120  # workloads: at some 7 KB each the page stays within what a browser opens at once


def picked(rows: Iterable[CompareRow], speedups: Iterable[Speedup]) -> set[str]:
    """The first, the last and evenly picked workloads, and those where one DSL leads the other by most.

    All of them where they are no more than MOST_SHOWN.
    """
    every = list(dict.fromkeys(row.workload for row in rows))
    if len(every) <= MOST_SHOWN:
        return set(every)
    even = {every[place * (len(every) - 1) // (MOST_SHOWN - 1)] for place in range(MOST_SHOWN)}
    speeds = [speed for entry in speedups for speed in (entry.cold, entry.warm) if speed]
    return even | {workload for speed in speeds for workload in (speed.least_at, speed.most_at)}


def table_of(row: CompareRow | CompareTable) -> Key:
    """The table that a row belongs to: one per target and source of measurements."""
    return row.target, row.device.kind, row.device.device


def pair_of(row: CompareRow) -> tuple[str | None, str | None]:
    """The kernels of a row, cuTile's first."""
    return row.cutile.kernel, row.cute.kernel


def tables(rows: Iterable[CompareRow], shown: set[str]) -> list[CompareTable]:
    """Per table what all of its rows say: how many workloads it has, and in how many rows of two kernels a sentence
    about their code stands, of the sentences that stand in several and in a row of `shown`."""
    found: dict[Key, list[CompareRow]] = {}
    for row in rows:
        found.setdefault(table_of(row), []).append(row)
    return [
        CompareTable(table[0].target, table[0].device, len({row.workload for row in table}), _said(table, shown))
        for table in found.values()
    ]


def _said(rows: list[CompareRow], shown: set[str]) -> list[Said]:
    every = Counter(pair_of(row) for row in rows)
    counts = Counter(sentence for row in rows for sentence in _static(row))
    seen = {sentence for row in rows if row.workload in shown for sentence in _static(row)}
    return [
        Said(
            *pair,
            every[pair],
            [
                CountedSentence(rule, sentence, count)
                for (who, rule, sentence), count in counts.items()
                if who == pair and count > 1 and (who, rule, sentence) in seen
            ],
        )
        for pair in every
    ]


def _static(row: CompareRow) -> Iterable[tuple[tuple[str | None, str | None], str, str]]:
    return ((pair_of(row), i.rule, i.sentence) for i in row.insights if i.basis == "static")
