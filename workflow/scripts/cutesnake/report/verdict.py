"""First screen of an operator's page: verdict per GPU, causes, and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cutesnake.analysis.compare.insight import number
from cutesnake.analysis.verdict import sentences
from cutesnake.model.dsls import COMPARED
from cutesnake.model.records.verdict import (
    Decision,
    Explained,
    Flag,
    KernelCost,
    Rival,
    Side,
    TargetVerdict,
    Verdicts,
)
from cutesnake.report.comparison import NONE, TIMES, Causes
from cutesnake.report.formatting import DSL_NAMES, plural, slug

View = dict[str, Any]  # data of a template
MOST_CAUSES = 2  # per DSL on the first screen
MOST_EXPLAINED = 8  # pairs of kernels per GPU whose causes are listed; the table names the first cause of each workload
MOST_WARM = 3  # warm times above the cold one that are explained, per GPU
MOST_LISTED = 2  # workloads that a verdict lists with their times
SHARED = {  # flags of kernels that may have the same fact
    "untuned": "not tuned, {timed} of {offered} variants timed",
    "other_variants": "other variants than on {gpu}",
}
LONGEST = 24  # characters of a headline in large type
MOST_NAMED = 3  # workloads that a verdict names per side
ABOUT = "≈ "
BASIS = {"measured": "measured", "recorded": "measured", "predicted": "predicted, not measured"}
SIDES: tuple[Side, ...] = ("cute", "cutile")


def view(verdicts: Verdicts) -> View | None:
    """Return the view of verdicts, or None if no GPU timed both DSLs."""
    decided = [one for one in verdicts.targets if one.warm or one.cold]
    if not decided:
        return None
    used = {getattr(pair, side) for one in decided for d in _decisions(one) for pair in d.pairs for side in SIDES}
    first = decided[0].target
    front = [one for one in verdicts.costs if one.target == first and one.kernel in used]
    return {
        "boxes": [_box(one) for one in decided],
        "authors": _authors(verdicts.costs, used),
        "why": _why(decided),
        "differs": any(one.contest == "dsls" for verdict in decided for one in verdict.explained),
        "explained": [_explained(verdict, one) for verdict in decided for one in _foremost(verdict)],
        "warm": [
            f"{verdict.gpu}: {sentences.warm_slower(one)}"
            for verdict in decided
            for one in verdict.warm_slower[:MOST_WARM]
        ],
        "rules": verdicts.rules,
        "costs": _costs(verdicts.operator, front),
        "more_costs": _costs(verdicts.operator, [one for one in verdicts.costs if one not in front]),
    }


def causes(verdicts: Verdicts) -> Causes:
    """Return a function from a table row to the cause of its speedup."""
    known: dict[tuple[str, str | None, str], str] = {}
    for verdict in verdicts.targets:
        for one in verdict.explained:
            if one.contest == "dsls" and one.causes:
                known.setdefault((verdict.target, verdict.device.device, one.workload), one.causes[0].sentence)
    return lambda target, device, workload: known.get((target, device, workload))


def result(decision: Decision) -> tuple[str, str]:
    """Return the winner with its speedup, and its CSS class."""
    if decision.winner == "depends":
        return _undecided(decision), ""
    about = ABOUT * (decision.basis == "predicted")
    mean = decision.mean if decision.winner == "cute" else 1 / decision.mean
    return f"{DSL_NAMES[decision.winner]} {about}{mean:.2f}{TIMES}", {"cute": "c", "cutile": "t"}[decision.winner]


def _undecided(decision: Decision) -> str:
    """Return what the winner depends on, or on how many workloads one DSL is faster."""
    wins = {side: len(won) for side, won in zip(SIDES, (decision.cute_wins, decision.cutile_wins), strict=True) if won}
    within = "cannot tell" if decision.basis == "predicted" else "tie"  # an expected error shows no equality
    if not wins:
        return within.capitalize()
    if len(wins) == 1:
        (side,) = wins
        return f"{DSL_NAMES[side]} on {wins[side]} of {decision.workloads}, else {within}"
    if split := decision.split:
        first, second = sorted(SIDES, key=lambda side: -wins[side])
        at = {side: f"{DSL_NAMES[side]} at {split.parameter} {getattr(split, side)}" for side in SIDES}
        return f"{at[first]}, {at[second]}" + f", else {within}" * bool(decision.equal)
    return "No clear winner"


def brief(verdict: TargetVerdict) -> Decision | None:
    """Return the warm decision, or the cold one without warm times."""
    return verdict.warm or verdict.cold


def _decisions(verdict: TargetVerdict) -> list[Decision]:
    return [one for one in (verdict.warm, verdict.cold) if one]


def _box(verdict: TargetVerdict) -> View:
    main, *rest = _decisions(verdict)
    headline, look = result(main)
    rival = verdict.rival(main.figure)
    small = [f"{one.figure.capitalize()}: {result(one)[0]} ({_range(one)})." for one in rest]
    if rival and not rival.beats_both:
        small.append(_against(rival))
    if main.accuracy:
        small.append(f"Expected error of both times together: {main.noise_percent:.0f} %.")
        small.append(sentences.accuracy(main.accuracy))
    if verdict.warm_slower:
        small.append(_slower_warm(verdict))
    return {
        "id": slug("verdict", verdict.gpu),
        "gpu": verdict.gpu,
        "basis": BASIS[main.basis],
        "predicted": verdict.predicted,
        "class": look,
        "headline": headline,
        "long": len(headline) > LONGEST,
        "slower": sentences.beaten(rival) if rival and rival.beats_both else None,
        "text": _text(main),
        "small": small,
        "flags": flag_texts(verdict.flags),
    }


def _text(decision: Decision) -> str:
    """Return how many workloads agree, with range; times if there are few."""
    figure, total = decision.figure.capitalize(), plural(decision.workloads, "workload")
    about = ABOUT * (decision.basis == "predicted")
    if 0 < len(decision.pairs) <= MOST_LISTED:
        times = (
            f"{about}{number(p.cute_us)} vs {about}{number(p.cutile_us)} µs at {p.workload}" for p in decision.pairs
        )
        return f"{figure}, CuTe DSL vs cuTile: {'; '.join(times)}."
    if decision.winner == "depends":
        fewest = min(filter(None, (len(decision.cute_wins), len(decision.cutile_wins))), default=0)
        sides = [text for side in SIDES if (text := _side(decision, side, fewest))]
        equal = [_equal(decision)] * bool(decision.equal)
        favours = DSL_NAMES["cute" if decision.mean > 1 else "cutile"]
        mean = f"{max(decision.mean, 1 / decision.mean):.2f}{TIMES} in favour of {favours}"
        return f"{figure}, {total}: {', '.join(sides + equal)}. Mean {mean}; {_range(decision)}."
    mine, other = decision.cute_wins, decision.cutile_wins
    if decision.winner == "cutile":
        mine, other = other, mine
    behind = f", slower on {len(other)}" * bool(other) + f", {_equal(decision)}" * bool(decision.equal)
    return f"{figure}: faster on {len(mine)} of {total}{behind}; {_range(decision)}."


def _side(decision: Decision, side: Side, fewest: int) -> str:
    """Return on how many workloads a DSL is faster; name them if they are `fewest`."""
    names = decision.cute_wins if side == "cute" else decision.cutile_wins
    ratios = [p.ratio if side == "cute" else 1 / p.ratio for p in decision.pairs if p.workload in names]
    if not ratios:
        return ""
    least, most = f"{min(ratios):.2f}", f"{max(ratios):.2f}"
    by = f"{most}{TIMES}" if least == most else f"{least} to {most}{TIMES}"
    return (
        f"{DSL_NAMES[side]} faster on {len(names)} ({by}"
        + f" at {', '.join(names)}" * (len(names) == fewest <= MOST_NAMED)
        + ")"
    )


def _equal(decision: Decision) -> str:
    """Return on how many workloads no DSL is clearly faster."""
    within = "within the expected error" if decision.basis == "predicted" else "equal"
    return f"{within} on {len(decision.equal)}"


def _range(decision: Decision) -> str:
    """Return the range and the interval of the speedup, from the winner's side.

    A prediction has no interval: one over workloads would leave out the model's error.
    """
    flip = decision.winner == "cutile" or (decision.winner == "depends" and decision.mean < 1)

    def turned(low: float, high: float) -> str:
        ends = (1 / high, 1 / low) if flip else (low, high)
        return f"{ends[0]:.2f} to {ends[1]:.2f}"

    if decision.workloads == 1:
        return f"{decision.mean:.2f}{TIMES} on one workload"
    interval = ""
    if decision.low is not None and decision.high is not None and decision.basis != "predicted":
        interval = f", 95 % interval {turned(decision.low, decision.high)}"
    return f"range {turned(decision.least, decision.most)}{interval}"


def _against(rival: Rival) -> str:
    name = f"{rival.kernel} ({DSL_NAMES.get(rival.dsl, rival.dsl)})"
    where = f": {', '.join(rival.faster)}" * (0 < len(rival.faster) <= MOST_LISTED)
    wins = f"{rival.kernel} faster beyond the noise on {len(rival.faster)} of {rival.workloads}{where}"
    return f"Better DSL vs {name}: {rival.mean:.2f}{TIMES} ({rival.figure}; {wins})."


def _slower_warm(verdict: TargetVerdict) -> str:
    most, *_ = verdict.warm_slower
    why = {"power limit": "the power limit lowers the clock", "clock": "the clock falls"}.get(
        most.cause, "no record says why"
    )
    count = plural(len(verdict.warm_slower), "warm time is", "warm times are")
    return f"{count} above the cold one, by up to {most.percent:.0f} %: {why}."


def _foremost(verdict: TargetVerdict) -> list[Explained]:
    """Return the first explained pair per kernels and causes."""
    pairs: dict[tuple[str, ...], Explained] = {}
    for one in verdict.explained:
        if one.causes:
            pairs.setdefault((one.contest, one.faster, one.slower, *(cause.rule for cause in one.causes)), one)
    return list(pairs.values())[:MOST_EXPLAINED]


def flag_texts(flags: Iterable[Flag]) -> list[str]:
    """Return flags in a few words each; kernels with the same fact share a text."""
    shared: dict[str, list[str]] = {}
    texts: dict[str, None] = {}
    for flag in flags:
        if flag.id in SHARED:
            shared.setdefault(SHARED[flag.id].format(**flag.values), []).append(str(flag.kernel))
        elif flag.id != "different_authors":  # a line of its own
            texts[_flag(flag)] = None
    return [*texts, *(f"{text}: {', '.join(dict.fromkeys(kernels))}" for text, kernels in shared.items())]


def _flag(flag: Flag) -> str:
    values = {**flag.values}
    if "workloads" in values:
        values["workloads"] = plural(int(values["workloads"]), "workload")
    return {
        "few_workloads": "{workloads} only",
        "one_workload_decides": "{workload} alone decides the mean",
        "spills": "{kernel} spills {least} to {most} B/thread",
        "different_hosts": "{workloads} timed on different hosts",
        "power_limit": "power limit in {records} of {timed} warm times",
        "not_on_this_gpu": "predictions for {target} were never checked on such a GPU",
    }[flag.id].format(kernel=flag.kernel, **values)


def _authors(costs: Iterable[KernelCost], used: set[str]) -> str:
    """Say who wrote the kernels that were compared."""
    named: dict[tuple[str, str], list[str]] = {}
    for one in costs:
        if one.kernel in used:
            versions = f" ({one.author.versions} versions)" if one.author.versions else ""
            kernels = named.setdefault((one.author.name, one.author.work), [])
            kernels += [text for text in [f"{one.kernel}{versions}"] if text not in kernels]
    texts = [f"{', '.join(kernels)}: {name}, {work}" for (name, work), kernels in named.items()]
    return f"Authors. {'; '.join(texts)}." if texts else ""


def _why(decided: list[TargetVerdict]) -> list[View]:
    """Return each DSL's causes where it is faster, one of each kind.

    At least one is of a prediction.
    """
    names = {pair.cute: "cute" for one in decided for d in _decisions(one) for pair in d.pairs}
    causes: dict[str, dict[tuple[str, bool], View]] = {side: {} for side in SIDES}
    for verdict in decided:
        for one in verdict.explained:
            if one.contest != "dsls":
                continue
            side = names.get(one.faster, "cutile")
            for cause in one.causes:
                about = ABOUT * verdict.predicted
                where = f"({verdict.gpu}, {one.workload}: {about}{one.ratio:.2f}{TIMES} {one.figure})"
                view = {"sentence": cause.sentence, "where": where, "predicted": verdict.predicted}
                causes[side].setdefault((cause.rule, verdict.predicted), view)
    return [
        {
            "name": DSL_NAMES[side],
            "class": side[0] if side == "cute" else "t",
            "causes": [one for one in kinds.values() if not one["predicted"]][:MOST_CAUSES]
            + [one for one in kinds.values() if one["predicted"]][:1],
        }
        for side, kinds in causes.items()
        if kinds
    ]


def _explained(verdict: TargetVerdict, one: Explained) -> View:
    title = f"{verdict.gpu}, {one.workload}, {one.figure}: {one.faster} {one.ratio:.2f}{TIMES} as fast as {one.slower}"
    return {"title": title, "causes": one.causes}


Column = tuple[str, str, str, Callable[[KernelCost], float | None]]  # heading, unit, key of a missing value, value


def _spilled(cost: KernelCost) -> float | None:
    return cost.spill_bytes[1] if cost.spill_bytes else None


COLUMNS: tuple[Column, ...] = (
    ("Lines, device", "", "lines", lambda c: c.lines.device if c.lines else None),
    ("Lines, host", "", "lines", lambda c: c.lines.host if c.lines else None),
    ("Compile", "CPU s", "compile_seconds", lambda c: c.compile_seconds),
    ("Registers", "per thread", "registers_per_thread", lambda c: c.registers_per_thread),
    ("SMEM", "KB", "shared_bytes_per_block", lambda c: None if (b := c.shared_bytes_per_block) is None else b / 1024),
    ("Occupancy, theoretical", "%", "theoretical_occupancy_percent", lambda c: c.theoretical_occupancy_percent),
    ("achieved", "%", "achieved_occupancy_percent", lambda c: c.achieved_occupancy_percent),
    ("Spills, most", "B", "spill_bytes", _spilled),
    ("Tensor memory", "columns", "tensor_memory_columns", lambda c: c.tensor_memory_columns),
    ("Variants", "timed", "variants_timed", lambda c: c.variants_timed),
)

LESS_IS_BETTER = ("lines", "compile_seconds", "spill_bytes")  # more registers or shared memory may be the better use


def _costs(operator: str, costs: list[KernelCost]) -> View:
    """Return the table of costs, without empty columns; mark the least values."""
    columns = [one for one in COLUMNS if any(one[3](cost) is not None for cost in costs)]
    columns = [one for one in columns if one[2] != "tensor_memory_columns" or any(map(one[3], costs))]
    rows = [_cost(operator, cost, columns) for cost in costs]
    for place, (_, _, key, value) in enumerate(columns):
        known = {dsl: [v for one in costs if one.dsl == dsl and (v := value(one)) is not None] for dsl in COMPARED}
        least = [min(values) for values in known.values() if values]
        if key in LESS_IS_BETTER and len(least) == len(COMPARED) and len(set(least)) > 1:  # equal ones get no mark
            for row in rows:
                row["cells"][place]["best"] = row["cells"][place]["value"] == min(least)
    return {"columns": [(name, unit) for name, unit, _, _ in columns], "rows": rows}


def _cost(operator: str, cost: KernelCost, columns: Iterable[Column]) -> View:
    cells = []
    for _, _, key, value in columns:
        known = value(cost)
        text = NONE if known is None else number(known)
        why = None if known is not None else cost.missing.get(key)
        cells.append({"text": text, "value": known, "why": why, "best": False})
    return {
        "kernel": cost.kernel,
        "target": cost.target,
        "class": {"cute": "c", "cutile": "t"}.get(cost.dsl, "") if cost.dsl in COMPARED else "",
        "panel": slug("kernel", operator, cost.kernel),
        "cells": cells,
        "author": cost.author.name,
        "work": sentences.author(cost.author),
    }
