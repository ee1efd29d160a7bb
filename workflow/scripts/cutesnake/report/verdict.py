"""First screen of an operator's page: verdict per GPU, causes, and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    "untuned": "only {timed} of {offered} variants {basis}, another may be faster",
    "other_variants": "other variants than on {gpu}: do not compare",
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
    gpus = {one.target: one.gpu for one in reversed(decided)}
    names = short_names({pair.workload for one in decided for d in _decisions(one) for pair in d.pairs})
    front = [one for target in gpus for one in verdicts.costs if one.target == target and one.at]
    front.sort(key=lambda one: (list(reversed(gpus)).index(one.target), SIDES.index(one.dsl)))
    return {
        "boxes": [_box(one) for one in decided],
        "authors": _authors(verdicts.costs, used),
        "why": _why(decided),
        "differences": _differences(decided),
        "explained": [_explained(verdict, one) for verdict in decided for one in _foremost(verdict)],
        "warm": [
            f"{verdict.gpu}: {sentences.warm_slower(one)}"
            for verdict in decided
            for one in verdict.warm_slower[:MOST_WARM]
        ],
        "rules": verdicts.rules,
        "costs": _costs(verdicts.operator, front, gpus, names),
        "more_costs": _costs(verdicts.operator, [one for one in verdicts.costs if one not in front], gpus, {}),
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
                row.limits[decision.figure] = f"{pair.noise_percent:.1f} %"
                row.label, row.sentence = _insight(of.get(pair.workload, []))
                row.within = "the expected error" if verdict.predicted else "the noise"
    for row in known.values():
        if row.label is None:
            limits = ", ".join(f"{figure} {limit}" for figure, limit in row.limits.items())
            row.sentence = f"No difference beyond {row.within}: {limits}."
    return lambda *row: known.get(row)


def _foremost_of(explained: list[Explained]) -> Explained:
    """Return a workload's first difference: clear ones, then ones with a cause, come first."""
    return min(explained, key=lambda one: (not one.clear, not one.causes))


def _insight(explained: list[Explained]) -> tuple[str | None, str | None]:
    """Return label and sentence of a workload's first cause, or why it has none."""
    if not explained:
        return None, None
    one = _foremost_of(explained)
    if not one.causes:
        out = next((cause.sentence for each in explained for cause in each.ruled_out), None)
        return (_lacking(explained), out) if one.clear else (WITHIN, out)
    cause = one.causes[0]
    label = sentences.LABELS[cause.rule]
    both = {e.figure for e in explained if (e.faster, [c.rule for c in e.causes[:1]]) == (one.faster, [cause.rule])}
    label = label if len(both) > 1 else f"{one.figure.capitalize()}: {label[0].lower()}{label[1:]}"
    return (label, cause.text) if one.clear else (WITHIN, f"{label} {cause.text}")


NOT_PROFILED, NO_RULE = "Not profiled.", "Profiled, no rule names a cause."
NO_CAUSE = "Cause not known."
WITHIN = "Within the expected error."
LEAST_CLOCK = 50.0  # percent of a difference, from which on a verdict says that the clock explains it
NOT_PREDICTED = "Predicted, no rule names a cause."


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
    small = []
    if rival and not rival.beats_both:
        small.append(_against(verdict.rivals))
    if main.accuracy:
        small.append(sentences.accuracy(main.accuracy, decisions))
    small += [_power(main, flag.values) for flag in verdict.flags if flag.id == "power_limit"]
    return {
        "id": slug("verdict", verdict.gpu),
        "gpu": verdict.gpu,
        "target": verdict.target,
        "compared": {getattr(pair, side) for one in decisions for pair in one.pairs for side in SIDES},
        "basis": BASIS[main.basis],
        "predicted": verdict.predicted,
        "headlines": _headlines(decisions),
        "slower": sentences.beaten(rival) if rival and rival.beats_both else None,
        "kernels": _kernels(decisions),
        "figures": [one.figure for one in decisions],
        "rows": _rows(decisions),
        "small": small,
        "flags": [
            *flag_texts(
                (f for f in verdict.flags if f.id != "one_workload_decides" or any(not d.split for d in decisions)),
                verdict.gpu,
            ),
            *_by_clock(verdict),
        ],
    }


def _kernels(decisions: Sequence[Decision]) -> str:
    """Return the number of workloads, and the kernels if each DSL has one."""
    sides = [{getattr(pair, side) for one in decisions for pair in one.pairs} for side in SIDES]
    names = " vs ".join(*zip(*sides, strict=True)) if max(map(len, sides)) == 1 else "best kernel of each DSL"
    return f"{names}, {plural(decisions[0].workloads, 'workload')}"


def _rows(decisions: Sequence[Decision]) -> list[tuple[str, list[str]]]:
    """Return the rows of a verdict's table, each with a cell per kind of time."""
    predicted = decisions[0].basis == "predicted"
    rows = [
        ("mean ± error" if predicted else "95 % interval", [_interval(one) for one in decisions]),
        ("mean by dtype", [_dtypes(one) for one in decisions]),
        *((f"{DSL_NAMES[side]} faster", [_wins(one, side) for one in decisions]) for side in SIDES),
        ("cannot tell" if predicted else "equal", [str(len(one.equal)) for one in decisions]),
        ("equal within", [] if predicted else [f"{one.noise_percent:.1f} % (median)" for one in decisions]),
    ]
    return [(name, cells) for name, cells in rows if any(cells)]


def _interval(decision: Decision) -> str:
    """Return the interval of a winner's mean: over workloads, or by a prediction's expected error."""
    error = 1 + decision.noise_percent / 100
    ends = (
        [decision.low, decision.high]
        if decision.basis != "predicted"
        else [decision.mean / error, decision.mean * error]
    )
    known = sorted(1 / end if decision.winner == "cutile" else end for end in ends if end is not None)
    return f"{known[0]:.2f} to {known[-1]:.2f}" if known and decision.winner != "depends" else ""


def _wins(decision: Decision, side: Side) -> str:
    """Return on how many workloads a DSL is faster, named where they are few."""
    pairs = [pair for pair in decision.pairs if pair.winner == side]
    ratios = {pair.workload: pair.ratio if side == "cute" else 1 / pair.ratio for pair in pairs}
    if not pairs:
        return "none"
    about = ABOUT * (decision.basis == "predicted")
    if len(pairs) <= MOST_LISTED:
        known = short_names(pair.workload for pair in decision.pairs)
        return ", ".join(
            f"{known[name]} {about}{ratios[name]:.2f}{TIMES}" for name in sorted(ratios, key=lambda name: -ratios[name])
        )
    where = f", all at {', '.join(decision.losses)}" if decision.losses and side != decision.winner else ""
    return f"{len(pairs)}, up to {about}{max(ratios.values()):.2f}{TIMES}{where}"


def _power(main: Decision, values: Mapping[str, Any]) -> str:
    """Return how often the power limit lowered the clock, and the mean without it."""
    each = " and ".join(f"{values[side]} {DSL_NAMES[side]}" for side in SIDES)
    text = f"Power limit: lower clock in {each} of {values['timed']} warm times each"
    if main.winner != "depends" and (rested := values.get("rested")):
        text += f"; on a rested GPU {_faster(rested)} {max(rested, 1 / rested):.2f}{TIMES}"
    return f"{text}."


def _by_clock(verdict: TargetVerdict) -> list[str]:
    """Name the workloads on which the clock explains half of the difference or more."""
    known = short_names({pair.workload for decision in _decisions(verdict) for pair in decision.pairs})
    texts = [
        f"{cause.share_percent:.0f} % at {known[one.workload]}, {one.figure}"
        for one in verdict.explained
        if one.contest == "dsls" and one.clear
        for cause in one.causes
        if cause.rule == "clock" and (cause.share_percent or 0.0) >= LEAST_CLOCK
    ]
    return [f"lower clock explains {'; '.join(texts)}"] if texts else []


def _headlines(decisions: list[Decision]) -> list[View]:
    """Return a line per kind of time, or one line if both agree."""
    texts = [(result(one), one) for one in decisions]
    (first, look), main = texts[0]
    names = [one.winner if one.winner != "depends" else text for (text, _), one in texts]
    if len(texts) == 2 and names[0] == names[1]:
        if main.winner == "depends":
            return [_headline(first, "warm and cold:", look)]
        factor = texts[1][0][0].removeprefix(f"{DSL_NAMES[main.winner]} ").removeprefix(ABOUT)
        return [_headline(f"{first} warm, {factor} cold", "", look)]
    return [_headline(text, f"{one.figure}:", look, several=len(texts) > 1) for (text, look), one in texts]


def _headline(text: str, figure: str, look: str, several: bool = False) -> View:
    return {"text": text, "figure": figure, "class": look, "long": several or len(text) > LONGEST}


def _faster(ratio: float) -> str:
    """Return the DSL that a ratio of cuTile's to CuTe DSL's time favours."""
    return DSL_NAMES["cute" if ratio > 1 else "cutile"]


def _dtypes(decision: Decision) -> str:
    """Return the mean per dtype; name the DSL that is faster in that dtype alone."""
    about, lead = ABOUT * (decision.basis == "predicted"), decision.mean > 1
    return ", ".join(
        f"{dtype} {'' if (ratio > 1) == lead else _faster(ratio) + ' '}{about}{max(ratio, 1 / ratio):.2f}{TIMES}"
        for dtype, ratio in decision.dtypes.items()
    )


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
    return f"Better DSL vs {name}: {means}; {first.kernel} clearly faster on {wins} of {first.workloads}."


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
        "not_on_this_gpu": "never run on a {gpu}",
        "uneven_variants": "best of {cute} CuTe DSL variants {basis}, of {cutile} cuTile ones",
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
    """Return the first causes of workloads per faster DSL, the most frequent first.

    The rest is counted. At least one entry is of a prediction.
    """
    names = {pair.cute: "cute" for one in decided for d in _decisions(one) for pair in d.pairs}
    views: dict[str, dict[tuple[str, bool], View]] = {side: {} for side in SIDES}
    total = Counter[bool]()
    lacking: dict[str, Counter[str]] = {side: Counter() for side in SIDES}
    for verdict in decided:
        known = short_names({pair.workload for d in _decisions(verdict) for pair in d.pairs})
        for every in _by_workload(verdict, clear=True).values():
            one = _foremost_of(every)
            total[verdict.predicted] += 1
            side = names.get(one.faster, "cutile")
            if not (cause := next(iter((*one.causes, *one.ruled_out)), None)):
                lacking[side][_lacking(every)] += 1
                continue
            at = f"{verdict.gpu}, {known[one.workload]}, {ABOUT * verdict.predicted}{one.ratio:.2f}{TIMES} {one.figure}"
            view: View = {"cause": cause, "label": sentences.LABELS.get(cause.rule, NO_CAUSE), "at": at, "count": 0}
            view["predicted"] = verdict.predicted
            views[side].setdefault((cause.rule, verdict.predicted), view)["count"] += 1
    sides = []
    for side, of in views.items():
        kinds = sorted(of.values(), key=lambda one: -one["count"])
        shown = [one for one in kinds if not one["predicted"]][:MOST_CAUSES]
        shown += [one for one in kinds if one["predicted"]][:1]
        for entry in shown:
            entry["of"] = (
                f"{entry['count']} of {total[entry['predicted']]} {'predicted' if entry['predicted'] else 'measured'}"
            )
        rest = [
            f"{one['label'].lower().rstrip('.')} ({one['count']}{' predicted' * one['predicted']})"
            for one in kinds
            if one not in shown
        ]
        rest += [f"{why.lower().rstrip('.')} ({count})" for why, count in lacking[side].items()]
        view = {"name": DSL_NAMES[side], "class": side[0] if side == "cute" else "t", "causes": shown, "rest": rest}
        sides += [view] * bool(shown or rest)
    return sides


def _differences(decided: list[TargetVerdict]) -> str:
    """Return on how many workloads a DSL is faster, warm or cold, per GPU."""
    texts = [f"{verdict.gpu} {len(every)}" for verdict in decided if (every := _by_workload(verdict, clear=True))]
    return f"first cause per workload that differs, warm or cold: {', '.join(texts)}" if texts else ""


def _by_workload(verdict: TargetVerdict, clear: bool = False) -> dict[str, list[Explained]]:
    """Return the differences between the DSLs by workload, or only the clear ones."""
    result: dict[str, list[Explained]] = {}
    for one in verdict.explained:
        if one.contest == "dsls" and one.clear >= clear:
            result.setdefault(one.workload, []).append(one)
    return result


def _explained(verdict: TargetVerdict, one: Explained) -> View:
    title = f"{verdict.gpu}, {one.workload}, {one.figure}: {one.faster} {one.ratio:.2f}{TIMES} as fast as {one.slower}"
    title += "" if one.clear else ", within the expected error"
    return {"title": title, "causes": one.causes}


Figure = tuple[str, str, Callable[[KernelCost], float | str | None]]  # name, key of a missing value, value


def _spilled(cost: KernelCost) -> float | None:
    return cost.spill_bytes[1] if cost.spill_bytes else None


FIGURES: tuple[Figure, ...] = (
    ("Python lines, device", "lines", lambda c: c.lines.device if c.lines else None),
    ("Python lines, host", "lines", lambda c: c.lines.host if c.lines else None),
    ("Compile, CPU s", "compile_seconds", lambda c: c.compile_seconds),
    ("Registers per thread", "registers_per_thread", lambda c: c.registers_per_thread),
    ("SMEM, KB", "shared_bytes_per_block", lambda c: None if (b := c.shared_bytes_per_block) is None else b / 1024),
    ("Occupancy, theoretical, %", "theoretical_occupancy_percent", lambda c: c.theoretical_occupancy_percent),
    ("Occupancy, achieved, %", "achieved_occupancy_percent", lambda c: c.achieved_occupancy_percent),
    ("Most spills, B/thread", "spill_bytes", _spilled),
    ("Tensor memory, columns", "tensor_memory_columns", lambda c: c.tensor_memory_columns or None),
    (
        "Variants timed",
        "variants_timed",
        lambda c: (
            f"{c.variants_timed} of {max(c.variants_timed, c.variants_offered or 0)}" if c.variants_timed else "none"
        ),
    ),
)


def _costs(operator: str, costs: list[KernelCost], gpus: Mapping[str, str], names: Mapping[str, str]) -> View:
    """Return the table of costs, a column per kernel, grouped by target and workload.

    `gpus` names a target's GPU, `names` shortens workloads' names.
    """
    order = list(dict.fromkeys((cost.target, cost.at) for cost in costs))
    costs = sorted(costs, key=lambda cost: order.index((cost.target, cost.at)))
    rows = [(name, [_cell(cost, key, value(cost)) for cost in costs]) for name, key, value in FIGURES]
    lacking = dict.fromkeys(cost.missing["lines"] for cost in costs if "lines" in cost.missing)
    return {
        "groups": [
            {"name": " at ".join(filter(None, (gpus.get(target, target), at and names.get(at, at)))), "count": count}
            for (target, at), count in Counter((cost.target, cost.at) for cost in costs).items()
        ],
        "kernels": [_cost(operator, cost, gpus) for cost in costs],
        "rows": [(name, cells) for name, cells in rows if any(cell["known"] for cell in cells)],
        "lacking": list(lacking),
    }


def _cell(cost: KernelCost, key: str, value: float | str | None) -> View:
    text = NONE if value is None else value if isinstance(value, str) else number(value)
    return {"text": text, "known": value is not None, "why": cost.missing.get(key) if value is None else None}


def _cost(operator: str, cost: KernelCost, gpus: Mapping[str, str]) -> View:
    return {
        "kernel": cost.kernel,
        "target": gpus.get(cost.target, cost.target),
        "id": slug("cost", cost.kernel, cost.target),
        "class": {"cute": "c", "cutile": "t"}.get(cost.dsl, "") if cost.dsl in COMPARED else "",
        "panel": slug("kernel", operator, cost.kernel),
        "title": f"build {cost.variant}, {plural(cost.functions, 'GPU function')}; {sentences.author(cost.author)}",
    }
