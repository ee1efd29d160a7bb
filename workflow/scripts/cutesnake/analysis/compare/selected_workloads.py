"""Selection of the workloads that a record and its page show in full."""

from collections import Counter
from collections.abc import Iterable

from cutesnake.model.records.compare import CompareRow, CompareTable, CountedSentence, SharedSentences, Speedup

Key = tuple[str, str | None, str | None]  # target, kind of source, device

MOST_SHOWN = 120  # workloads of about 7 KB each, which keeps a page within a few megabytes


def picked(rows: Iterable[CompareRow], speedups: Iterable[Speedup]) -> set[str]:
    """Return up to MOST_SHOWN workloads: first, last, evenly picked, and extreme speedups."""
    every = list(dict.fromkeys(row.workload for row in rows))
    if len(every) <= MOST_SHOWN:
        return set(every)
    even = {every[place * (len(every) - 1) // (MOST_SHOWN - 1)] for place in range(MOST_SHOWN)}
    speeds = [speed for entry in speedups for speed in (entry.cold, entry.warm) if speed]
    return even | {workload for speed in speeds for workload in (speed.least_at, speed.most_at)}


def table_of(row: CompareRow | CompareTable) -> Key:
    """Return the table of a row: one per target and source of measurements."""
    return row.target, row.device.kind, row.device.device


def pair_of(row: CompareRow) -> tuple[str | None, str | None]:
    """Return the kernels of a row, cuTile's first."""
    return row.cutile.kernel, row.cute.kernel


def tables(rows: Iterable[CompareRow], shown: set[str]) -> list[CompareTable]:
    """Summarize each table over all of its rows: workloads and repeated sentences.

    A sentence about code is kept with its number of rows if several rows of a pair have it, one of them `shown`.
    """
    by_table: dict[Key, list[CompareRow]] = {}
    for row in rows:
        by_table.setdefault(table_of(row), []).append(row)
    return [
        CompareTable(table[0].target, table[0].device, len({row.workload for row in table}), _repeated(table, shown))
        for table in by_table.values()
    ]


def _repeated(rows: list[CompareRow], shown: set[str]) -> list[SharedSentences]:
    every = Counter(pair_of(row) for row in rows)
    counts = Counter(sentence for row in rows for sentence in _static(row))
    seen = {sentence for row in rows if row.workload in shown for sentence in _static(row)}
    return [
        SharedSentences(
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
