"""Where two cards disagree about which kernel, or which variant of a kernel, is the fastest."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from cutesnake.analysis.compare.speedup import FIGURES, fastest, noise
from cutesnake.analysis.evidence.gather import Record


def agreement(tables: Iterable[Record]) -> list[Record]:
    """An entry per target and pair of cards that timed several kernels, or variants, of the same workloads.

    Only kernels that both cards timed count, and only what each card tells apart beyond the noise: on each, its own
    winner must lead the other card's winner by more than that.
    """
    pairs = itertools.combinations(tables, 2)
    found = [
        _entry(left, right)
        for left, right in pairs
        if left["target"] == right["target"] and left["device"]["device"] != right["device"]["device"]
    ]
    return [entry for entry in found if entry["workloads"] or entry["variants"]]


def _entry(left: Record, right: Record) -> Record:
    there = {row["workload"]: row["kernels"] for row in right["rows"]}
    rows = {
        row["workload"]: (row["kernels"], there[row["workload"]]) for row in left["rows"] if row["workload"] in there
    }
    both = {workload: tuple(_shared(a, b)) for workload, (a, b) in rows.items()}
    return {
        "target": left["target"],
        "cards": [left["device"]["device"], right["device"]["device"]],
        "workloads": sum(len(a) > 1 for a, _ in both.values()),
        **{name: _kernels(both, key) for name, key in FIGURES.items()},
        "variants": _variants(both),
    }


def _shared(a: Record, b: Record) -> Iterable[Record]:
    return ({kernel: row[kernel] for kernel in row if kernel in a and kernel in b} for row in (a, b))


def _kernels(both: dict[str, tuple[Record, ...]], key: str) -> list[Record]:
    """Workloads whose fastest kernel is another on the other card."""
    found = []
    for workload, (a, b) in both.items():
        if not a:
            continue
        first, second = fastest(a, key), fastest(b, key)
        if first != second and _leads(a, first, second, key) and _leads(b, second, first, key):
            found.append({"workload": workload, "winners": [first, second]})
    return found


def _leads(row: Record, winner: str, other: str, key: str) -> bool:
    return 100 * (row[other][key] / row[winner][key] - 1) > noise(row[winner], row[other])


def _variants(both: dict[str, tuple[Record, ...]]) -> list[Record]:
    """Workloads and kernels whose fastest variant, of those timed warm on both cards, is another on the other card."""
    found = []
    for workload, (a, b) in both.items():
        for kernel in a:
            rows = [row[kernel]["variants"] for row in (a, b)]
            common = [variant for variant in rows[0] if variant in rows[1]]
            if len(common) < 2:
                continue
            winners = [min(common, key=row.__getitem__) for row in rows]
            limit = 1 + noise(a[kernel], b[kernel]) / 100
            if winners[0] != winners[1] and all(
                row[other] / row[winner] > limit
                for row, winner, other in zip(rows, winners, winners[::-1], strict=True)
            ):
                found.append({"workload": workload, "kernel": kernel, "winners": winners})
    return found
