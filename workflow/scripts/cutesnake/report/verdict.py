"""First screen of an operator's page: verdict per GPU, causes, and cost."""

from __future__ import annotations

from collections import Counter
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
from cutesnake.report.comparison import NONE, TIMES, Rows, RowVerdict
from cutesnake.report.formatting import DSL_NAMES, plural, slug

View = dict[str, Any]  # data of a template
Row = tuple[str, str | None, str]  # target, device, workload
MOST_CAUSES = 2  # per DSL on the first screen
MOST_EXPLAINED = 8  # pairs of kernels per GPU whose causes are listed; the table names the first cause of each workload
MOST_WARM = 3  # warm times above the cold one that are explained, per GPU
MOST_LISTED = 2  # workloads that a verdict lists with their times
SHARED = {  # flags of kernels that may have the same fact
    "untuned": "{timed} of {offered} variants {basis}, may be slow",
    "other_variants": "other variants than on {gpu}; do not compare the GPUs",
}
LONGEST = 24  # characters of a headline in large type
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
        "known": _known(decided),
        "explained": [_explained(verdict, one) for verdict in decided for one in _foremost(verdict)],
        "warm": [
            f"{verdict.gpu}: {sentences.warm_slower(one)}"
            for verdict in decided
            for one in verdict.warm_slower[:MOST_WARM]
        ],
        "rules": verdicts.rules,
        "costs": _costs(verdicts.operator, front),
        "other_targets": list(dict.fromkeys(one.target for one in verdicts.costs if one.target != first)),
        "more_costs": _costs(verdicts.operator, [one for one in verdicts.costs if one not in front]),
    }


def rows(verdicts: Verdicts) -> Rows:
    """Return a function from a table row to its verdict."""
    known: dict[Row, RowVerdict] = {}
    for verdict in verdicts.targets:
        of = _by_workload(verdict)
        for decision in _decisions(verdict):
            for pair in decision.pairs:
                row = known.setdefault((verdict.target, verdict.device.device, pair.workload), RowVerdict())
                row.winners[decision.figure] = pair.winner
                row.label, row.sentence = _insight(of.get(pair.workload, []))
    return lambda *row: known.get(row)


def _insight(explained: list[Explained]) -> tuple[str | None, str | None]:
    """Return label and sentence of a workload's first cause, or why it has none."""
    for known in sorted((one for one in explained if one.causes), key=lambda one: not one.clear):
        cause = known.causes[0]
        label = sentences.LABELS[cause.rule]
        return (label, cause.text) if known.clear else (WITHIN, f"{label} {cause.text}")
    if not explained:
        return None, None
    out = next((cause.sentence for one in explained for cause in one.ruled_out), None)
    return _lacking(explained), out


NOT_PROFILED, NO_RULE = "Not profiled.", "Profiled; no rule names a cause."
WITHIN = "Within the expected error."
NOT_PREDICTED = "Predicted; no rule names a cause."
LACKING = {NOT_PROFILED: "not profiled", NO_RULE: "profiled without a cause", NOT_PREDICTED: "without a cause"}


def _lacking(explained: list[Explained]) -> str:
    """Return why differences on a workload have no cause."""
    if any(one.basis == "predicted" for one in explained):
        return NOT_PREDICTED
    return NO_RULE if any(one.profiled for one in explained) else NOT_PROFILED


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
    if split := decision.split:
        sides = sorted(wins, key=lambda side: -wins[side])
        at = [f"{DSL_NAMES[side]} at {split.parameter} {getattr(split, side)}" for side in sides]
        return ", ".join(at) + f", else {within}" * bool(decision.equal)
    if len(wins) == 1:
        (side,) = wins
        return f"{DSL_NAMES[side]} on {wins[side]} of {decision.workloads}, else {within}"
    return "No clear winner"


def brief(verdict: TargetVerdict) -> Decision | None:
    """Return the warm decision, or the cold one without warm times."""
    return verdict.warm or verdict.cold


def _decisions(verdict: TargetVerdict) -> list[Decision]:
    return [one for one in (verdict.warm, verdict.cold) if one]


def _box(verdict: TargetVerdict) -> View:
    decisions = _decisions(verdict)
    main = decisions[0]
    rival = verdict.rival(main.figure)
    text = [_text(one) for one in decisions]
    if opposite := _opposite(verdict):
        text[-1] += f" Warm and cold disagree on {opposite}."
    small = []
    if rival and not rival.beats_both:
        small.append(_against(verdict.rivals))
    if main.accuracy:
        small.append(sentences.expected_error(decisions))
        small.append(sentences.accuracy(main.accuracy))
    if slower := _slower_warm(verdict):
        small.append(slower)
    return {
        "id": slug("verdict", verdict.gpu),
        "gpu": verdict.gpu,
        "basis": BASIS[main.basis],
        "predicted": verdict.predicted,
        "headlines": _headlines(decisions),
        "slower": sentences.beaten(rival) if rival and rival.beats_both else None,
        "text": text,
        "small": small,
        "flags": flag_texts(
            (f for f in verdict.flags if f.id != "one_workload_decides" or any(not d.split for d in decisions)),
            verdict.gpu,
        ),
    }


def _headlines(decisions: list[Decision]) -> list[View]:
    """Return a line per kind of time, or one line if both agree."""
    texts = [(result(one), one) for one in decisions]
    (first, look), main = texts[0]
    names = [one.winner if one.winner != "depends" else text for (text, _), one in texts]
    if len(texts) == 2 and names[0] == names[1]:
        if main.winner == "depends":
            return [_headline(first, "warm and cold", look)]
        factor = texts[1][0][0].removeprefix(f"{DSL_NAMES[main.winner]} ").removeprefix(ABOUT)
        return [_headline(f"{first} warm, {factor} cold", "", look)]
    return [_headline(text, one.figure, look) for (text, look), one in texts]


def _headline(text: str, figure: str, look: str) -> View:
    return {"text": text, "figure": figure, "class": look, "long": len(text) > LONGEST}


def _opposite(verdict: TargetVerdict) -> int:
    """Return on how many workloads warm and cold times have different winners."""
    if not (verdict.warm and verdict.cold):
        return 0
    both = [(verdict.warm.cute_wins, verdict.cold.cutile_wins), (verdict.warm.cutile_wins, verdict.cold.cute_wins)]
    return sum(len(set(warm) & set(cold)) for warm, cold in both)


def _text(decision: Decision) -> str:
    """Return how many workloads agree, with range; times if there are few."""
    figure, total = decision.figure.capitalize(), plural(decision.workloads, "workload")
    about = ABOUT * (decision.basis == "predicted")
    if 0 < len(decision.pairs) <= MOST_LISTED:
        times = (
            f"{about}{number(p.cute_us)} vs {about}{number(p.cutile_us)} µs at {p.workload}" for p in decision.pairs
        )
        return f"{figure}, CuTe DSL vs cuTile: {'; '.join(times)}."
    equal = [_equal(decision)] * bool(decision.equal)
    if decision.winner == "depends":
        sides: list[str] = []
        for side in SIDES:
            sides += filter(None, [_side(decision, side, short=bool(sides))])
        return f"{figure}, {total}: {', '.join(sides + equal)}{_dtypes(decision)}."
    loser: Side = "cutile" if decision.winner == "cute" else "cute"
    mine = decision.cute_wins if decision.winner == "cute" else decision.cutile_wins
    behind = filter(None, [_side(decision, loser, short=True)])
    texts = [f"{DSL_NAMES[decision.winner]} faster on {len(mine)} of {decision.workloads}", *behind, *equal]
    return f"{figure}: {', '.join(texts)}; {_range(decision)}{_dtypes(decision)}."


def _dtypes(decision: Decision) -> str:
    """Return the mean per dtype; name the DSL that is faster in that dtype alone."""
    about, lead = ABOUT * (decision.basis == "predicted"), decision.mean > 1
    texts = [
        f"{'' if (ratio > 1) == lead else DSL_NAMES['cute' if ratio > 1 else 'cutile'] + ' '}"
        f"{about}{max(ratio, 1 / ratio):.2f}{TIMES} in {dtype}"
        for dtype, ratio in decision.dtypes.items()
    ]
    return f"; mean {', '.join(texts)}" if texts else ""


def _side(decision: Decision, side: Side, short: bool) -> str:
    """Return on how many workloads a DSL is faster, named where they are few."""
    who = DSL_NAMES[side] if short else f"{DSL_NAMES[side]} faster"
    names = decision.cute_wins if side == "cute" else decision.cutile_wins
    ratios = {p.workload: p.ratio if side == "cute" else 1 / p.ratio for p in decision.pairs if p.workload in names}
    if not ratios:
        return ""
    if len(names) <= MOST_LISTED:
        known = short_names(pair.workload for pair in decision.pairs)
        each = ", ".join(
            f"{ratios[name]:.2f}{TIMES} at {known[name]}" for name in sorted(names, key=lambda n: -ratios[n])
        )
        return f"{who} on {len(names)} ({each})"
    least, most = f"{min(ratios.values()):.2f}", f"{max(ratios.values()):.2f}"
    by = f"{most}{TIMES}" if least == most else f"{least} to {most}{TIMES}"
    where = f", all at {', '.join(decision.losses)}" if decision.losses and side != decision.winner else ""
    return f"{who} on {len(names)} ({by}{where})"


def _equal(decision: Decision) -> str:
    """Return on how many workloads no DSL is clearly faster."""
    within = "within the expected error" if decision.basis == "predicted" else "equal"
    return f"{within} on {len(decision.equal)}"


def _range(decision: Decision) -> str:
    """Return range and interval of the speedup, with the faster DSL of each end.

    A prediction has no interval: one over workloads would leave out the model's error.
    """
    ends = sorted((decision.least, decision.most), reverse=decision.winner == "cutile")
    names = [DSL_NAMES["cute" if ratio > 1 else "cutile"] for ratio in ends]
    low, high = (f"{max(ratio, 1 / ratio):.2f}{TIMES}" for ratio in ends)
    text = f"{low} to {high}" if names[0] == names[1] else f"{names[0]} {low} to {names[1]} {high}"
    if decision.low is not None and decision.high is not None and decision.basis != "predicted":
        mean = [decision.low, decision.high]
        if decision.winner == "cutile":
            mean = [1 / decision.high, 1 / decision.low]
        text += f"; mean {mean[0]:.2f} to {mean[1]:.2f} (95 % over workloads)"
    return text


def short_names(workloads: Iterable[str]) -> dict[str, str]:
    """Return each workload's shortest beginning that no other one has, in whole parts."""
    every = [name.split("_") for name in workloads]
    return {
        "_".join(parts): next(
            "_".join(parts[:length])
            for length in range(1, len(parts) + 1)
            if sum(other[:length] == parts[:length] for other in every) == 1 or length == len(parts)
        )
        for parts in every
    }


def _against(rivals: list[Rival]) -> str:
    """Return how the better DSL compares with the best other kernel, warm and cold."""
    first = rivals[0]
    same = [one for one in rivals if one.kernel == first.kernel]
    means = ", ".join(f"{one.mean:.2f}{TIMES} {one.figure}" for one in same)
    wins = ", ".join(f"{len(one.faster)} {one.figure}" for one in same) if any(one.faster for one in same) else "none"
    name = f"{first.kernel} ({DSL_NAMES.get(first.dsl, first.dsl)})"
    return f"Better DSL vs {name}: {means}. {first.kernel} wins {wins} of {plural(first.workloads, 'workload')}."


def _slower_warm(verdict: TargetVerdict) -> str | None:
    """Return what the power limit did, and how many warm times are longer."""
    texts = []
    for flag in verdict.flags:
        if flag.id == "power_limit":
            texts.append("power limit: lower clock in {records} of {timed} warm times".format(**flag.values))
    if verdict.warm_slower:
        most, *_ = verdict.warm_slower
        texts.append(
            f"{len(verdict.warm_slower)} of all {verdict.times} longer warm than cold, by up to {most.percent:.0f} %"
        )
        texts[-1] += {"clock": " (the clock fell)", "unknown": " (no record says why)"}.get(most.cause, "")
    text = "; ".join(texts)
    return f"{text[0].upper()}{text[1:]}." if text else None


def _foremost(verdict: TargetVerdict) -> list[Explained]:
    """Return the first explained pair per kernels and causes."""
    pairs: dict[tuple[str, ...], Explained] = {}
    for one in verdict.explained:
        if one.causes:
            pairs.setdefault((one.contest, one.faster, one.slower, *(cause.rule for cause in one.causes)), one)
    return list(pairs.values())[:MOST_EXPLAINED]


def flag_texts(flags: Iterable[Flag], gpu: str) -> list[str]:
    """Return flags in a few words each; kernels with the same fact share one."""
    shared: dict[str, list[str]] = {}
    texts: dict[str, None] = {}
    for flag in flags:
        if flag.id in SHARED:
            shared.setdefault(SHARED[flag.id].format(**{"basis": "timed"} | flag.values), []).append(str(flag.kernel))
        elif flag.id not in ("different_authors", "power_limit"):  # lines of their own
            texts[_flag(flag, gpu)] = None
    return [*texts, *(f"{', '.join(dict.fromkeys(kernels))}: {text}" for text, kernels in shared.items())]


def _flag(flag: Flag, gpu: str) -> str:
    values = {**flag.values}
    if "workloads" in values:
        values["workloads"] = plural(int(values["workloads"]), "workload")
    return {
        "few_workloads": "{workloads} only",
        "one_workload_decides": "{workload} alone decides the mean",
        "spills": "{kernel} spills {least} to {most} B/thread",
        "different_hosts": "{workloads} timed on different hosts",
        "not_on_this_gpu": "never checked on a {gpu}",
        "uneven_variants": "variants {basis}: CuTe DSL {cute}, cuTile {cutile}",
    }[flag.id].format(kernel=flag.kernel, **{"gpu": gpu} | values)


def _authors(costs: Iterable[KernelCost], used: set[str]) -> str:
    """Say who wrote the kernels that were compared."""
    named: dict[tuple[str, str], list[str]] = {}
    for one in costs:
        if one.kernel in used:
            versions = f" ({one.author.versions} design versions)" if one.author.versions else ""
            kernels = named.setdefault((one.author.name, one.author.work), [])
            kernels += [text for text in [f"{one.kernel}{versions}"] if text not in kernels]
    texts = [f"{', '.join(kernels)}: {name}, {work}" for (name, work), kernels in named.items()]
    return f"Authors. {'; '.join(texts)}." if texts else ""


def _why(decided: list[TargetVerdict]) -> list[View]:
    """Return each DSL's causes where it is faster, the most frequent first.

    What is no cause comes last. At least one entry is of a prediction.
    """
    names = {pair.cute: "cute" for one in decided for d in _decisions(one) for pair in d.pairs}
    clear = {verdict.gpu: _by_workload(verdict, clear=True) for verdict in decided}
    views: dict[str, dict[tuple[str, bool], View]] = {side: {} for side in SIDES}
    total = Counter(verdict.predicted for verdict in decided for _ in clear[verdict.gpu])
    for verdict in decided:
        known = short_names({pair.workload for d in _decisions(verdict) for pair in d.pairs})
        for one in (one for every in clear[verdict.gpu].values() for one in every):
            of = views[names.get(one.faster, "cutile")]
            for cause in (*one.causes, *one.ruled_out):
                at = f"{verdict.gpu}{', predicted' * verdict.predicted}, {known[one.workload]}, "
                at += f"{ABOUT * verdict.predicted}{one.ratio:.2f}{TIMES} {one.figure}"
                view: View = {"cause": cause, "label": sentences.LABELS.get(cause.rule), "at": at, "rows": set()}
                view |= {"predicted": verdict.predicted, "total": total[verdict.predicted]}
                of.setdefault((cause.rule, verdict.predicted), view)["rows"].add((verdict.gpu, one.workload))
    sides = []
    for side, of in views.items():
        kinds = sorted(of.values(), key=lambda one: (not one["label"], -len(one["rows"])))
        measured = [one for one in kinds if not one["predicted"]]
        shown = [one for one in measured if one["label"]][:MOST_CAUSES]
        shown += [one for one in measured if not one["label"]][:1]  # what is no cause
        shown += [one for one in kinds if one["predicted"]][:1]
        for place, entry in enumerate(shown):  # a doubt that several share is named once
            cause, earlier = entry["cause"], {other["cause"].doubt for other in shown[:place]}
            entry["text"] = cause.sentence if cause.doubt in earlier else cause.text
        sides += [{"name": DSL_NAMES[side], "class": side[0] if side == "cute" else "t", "causes": shown}] * bool(shown)
    return sides


def _by_workload(verdict: TargetVerdict, clear: bool = False) -> dict[str, list[Explained]]:
    """Return the differences between the DSLs by workload, or only the clear ones."""
    result: dict[str, list[Explained]] = {}
    for one in verdict.explained:
        if one.contest == "dsls" and one.clear >= clear:
            result.setdefault(one.workload, []).append(one)
    return result


def _known(decided: list[TargetVerdict]) -> str | None:
    """Return per GPU how many differences have a cause, and why the others have none."""
    texts = []
    for verdict in decided:
        every = _by_workload(verdict, clear=True)
        lacking = Counter(_lacking(some) for some in every.values() if not any(one.causes for one in some))
        rest = "".join(f", {count} {LACKING[why]}" for why, count in lacking.items())
        texts += [f"{verdict.gpu} {len(every) - lacking.total()} of {len(every)}{rest}"] * bool(every)
    return (
        f"workloads with a difference that have a cause, often from another workload's profile: {'; '.join(texts)}"
        if texts
        else None
    )


def _explained(verdict: TargetVerdict, one: Explained) -> View:
    title = f"{verdict.gpu}, {one.workload}, {one.figure}: {one.faster} {one.ratio:.2f}{TIMES} as fast as {one.slower}"
    title += "" if one.clear else ", within the expected error"
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
    ("Occupancy, achieved", "%", "achieved_occupancy_percent", lambda c: c.achieved_occupancy_percent),
    ("Most spills", "B/thread", "spill_bytes", _spilled),
    ("Tensor memory", "columns", "tensor_memory_columns", lambda c: c.tensor_memory_columns),
    ("Variants timed", "", "variants_timed", lambda c: c.variants_timed),
)

LESS_IS_BETTER = ("lines", "compile_seconds", "spill_bytes")  # more registers or shared memory may be the better use
CLEARLY_LESS = 0.9  # of the other DSL's value


def _costs(operator: str, costs: list[KernelCost]) -> View:
    """Return the table of costs, without empty columns; mark the least values."""
    columns = [one for one in COLUMNS if any(one[3](cost) is not None for cost in costs)]
    columns = [one for one in columns if one[2] != "tensor_memory_columns" or any(map(one[3], costs))]
    rows = [_cost(operator, cost, columns) for cost in costs]
    for place, (_, _, key, value) in enumerate(columns):
        known = {dsl: [v for one in costs if one.dsl == dsl and (v := value(one)) is not None] for dsl in COMPARED}
        least = [min(values) for values in known.values() if values]
        if key in LESS_IS_BETTER and len(least) == len(COMPARED) and min(least) < CLEARLY_LESS * max(least):
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
        "build": cost.variant,
        "functions": cost.functions,
        "id": slug("cost", cost.kernel, cost.target),
        "class": {"cute": "c", "cutile": "t"}.get(cost.dsl, "") if cost.dsl in COMPARED else "",
        "panel": slug("kernel", operator, cost.kernel),
        "cells": cells,
        "author": cost.author.name,
        "work": sentences.author(cost.author),
    }
