"""Whether two GPUs that timed the same workloads agree about the fastest kernel."""

from collections.abc import Sequence

from cutesnake.model.records.compare import Agreement, Compare
from cutesnake.report.formatting import first_few, listed, plural, short


def gpu_agreement(comparisons: list[Compare]) -> str:
    """Return a sentence per pair of GPUs that names the workloads they disagree on."""
    pairs: dict[tuple[str, ...], list[tuple[str, Agreement]]] = {}
    for comparison in comparisons:
        for entry in comparison.agreement:
            gpus = tuple(sorted(short(gpu) for gpu in entry.gpus))
            pairs.setdefault(gpus, []).append((comparison.operator, entry))
    if pairs:
        return " ".join(f"{_agreeing(gpus, entries)}{_variants(entries)}" for gpus, entries in pairs.items())
    timed = {short(t.device.device) for c in comparisons for t in c.times}
    one = (
        f"only {next(iter(timed))} has times"
        if len(timed) == 1
        else "no two GPUs timed several kernels of one workload"
    )
    return f"Not known: {one}." if timed else "No GPU has times."


def _agreeing(gpus: tuple[str, ...], entries: list[tuple[str, Agreement]]) -> str:
    several = [(operator, entry) for operator, entry in entries if entry.workloads]
    if not several:
        return f"{listed(list(gpus))} have no workload on which both timed several kernels."
    count = sum(entry.workloads for _, entry in several)
    other = sum(len({row.workload for row in (*entry.warm, *entry.cold)}) for _, entry in several)
    of = several[0][0] if len(several) == 1 else f"{len(several)} operators"
    named = [sentence for operator, entry in several for sentence in _differing(operator, entry)]
    return (
        f"{listed(list(gpus))} have different fastest kernels, beyond the noise of both, on {other or 'none'} of "
        f"{plural(count, 'workload')} of {of}" + f": {first_few(named)}" * bool(other) + "."
    )


def _differing(operator: str, entry: Agreement) -> list[str]:
    """Return the workloads on which two GPUs have different winners, with the winners."""
    kinds: dict[tuple[str, ...], list[str]] = {}
    for kind in ("warm", "cold"):
        for row in entry.warm if kind == "warm" else entry.cold:
            kinds.setdefault((row.workload, *row.winners), []).append(kind)
    return [
        f"{workload} of {operator}, {listed(states)} ({_winners(winners, entry)})"
        for (workload, *winners), states in kinds.items()
    ]


def _winners(winners: Sequence[str], entry: Agreement) -> str:
    return ", ".join(f"{winner} on {short(gpu)}" for winner, gpu in zip(winners, entry.gpus, strict=True))


def _variants(entries: list[tuple[str, Agreement]]) -> str:
    rows = [(operator, entry, row) for operator, entry in entries for row in entry.variants]
    if not rows:
        return ""
    operator, entry, row = rows[0]
    example = f"{row.kernel} on {row.workload} of {operator} ({_winners(row.winners, entry)})"
    return f" They disagree about the fastest variant in {plural(len(rows), 'case')}, such as {example}."
