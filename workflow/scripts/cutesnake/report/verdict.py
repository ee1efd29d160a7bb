"""First screen of an operator's page: verdict per GPU, causes, and cost."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from markupsafe import Markup, escape

from cutesnake.analysis.compare.insight import number
from cutesnake.analysis.verdict import sentences
from cutesnake.model.dsls import COMPARED
from cutesnake.model.records.compare import Coverage
from cutesnake.model.records.verdict import (
    Decision,
    Explained,
    Flag,
    KernelCost,
    Pairing,
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
MOST_EXPLAINED = {"dsls": 4, "authors": 2}  # pairs of kernels per GPU whose causes are listed, by contest
MOST_WARM = 3  # warm times above the cold one that are explained, per GPU
MOST_LISTED = 2  # workloads that a verdict lists with their times
SHARED = {  # flags of several kernels: the words on each, and on all
    "untuned": (
        "{kernel} {timed} of {offered}",
        "variants {basis}: {kernels}",
    ),
    "other_variants": ("", "do not compare with {gpu}: other variants"),
}
LONGEST = 24  # characters of a headline in large type
ABOUT = "≈ "
PERCENT = "\N{NO-BREAK SPACE}%"
BASIS = {"measured": "measured", "recorded": "measured", "predicted": "predicted, not measured"}
SIDES: tuple[Side, ...] = ("cute", "cutile")


def view(verdicts: Verdicts, coverage: Sequence[Coverage] = (), base: str = "results") -> View | None:
    """Return verdicts if a GPU timed both DSLs, with checks (`coverage`), from `base`."""
    decided = [one for one in verdicts.targets if one.warm or one.cold]
    if not decided:
        return None
    used = {getattr(pair, side) for one in decided for d in _decisions(one) for pair in d.pairs for side in SIDES}
    gpus = {one.target: one.gpu for one in reversed(decided)}
    names = short_names({pair.workload for one in decided for d in _decisions(one) for pair in d.pairs})
    front = [one for target in gpus for one in verdicts.costs if one.target == target and one.at]
    front.sort(key=lambda one: (list(reversed(gpus)).index(one.target), SIDES.index(one.dsl)))
    return {
        "boxes": [_box(one, coverage) for one in decided],
        "notes": [
            *(
                (f"{one.gpu}, predicted.", sentences.accuracy(main.accuracy, main))
                for one in decided
                if (main := brief(one)) and main.accuracy
            ),
            *(("Authors.", text) for text in [_authors(verdicts.costs, used, base)] if text),
        ],
        "why": _why(decided),
        "explained": [_explained(verdict, one, base) for verdict in decided for one in _foremost(verdict)],
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


def _insight(explained: list[Explained]) -> tuple[str | None, str | None]:
    """Return label and sentence of a workload's first cause, or why it has none."""
    if not explained:
        return None, None
    one = min(explained, key=lambda one: (not one.clear, not one.causes))
    others = [other for other in explained if other.clear and other.faster != one.faster]
    if one.clear and others:  # one DSL leads warm, the other cold
        same = [other for other in explained if other.faster == one.faster]
        (label, sentence), (other, why) = _insight(same), _insight(others)
        lead = f"{others[0].figure.capitalize()}, {others[0].faster} faster: {other and other[0].lower() + other[1:]}"
        return label, " ".join(filter(None, (sentence, lead, why)))
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


def _box(verdict: TargetVerdict, coverage: Sequence[Coverage]) -> View:
    decisions = _decisions(verdict)
    main = decisions[0]
    rival = verdict.rival(main.figure)
    small = []
    if rival and not rival.beats_both:
        small.append(_against(verdict.rivals))
    small += [_power(main, flag.values) for flag in verdict.flags if flag.id == "power_limit"]
    return {
        "id": slug("verdict", verdict.gpu),
        "gpu": verdict.gpu,
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
            *(_simulated(verdict, coverage) if verdict.predicted else ()),
        ],
    }


def _simulated(verdict: TargetVerdict, coverage: Sequence[Coverage]) -> list[str]:
    """Return how many checks of the compared kernels passed in simulation, or nothing."""
    kernels = {getattr(pair, side) for one in _decisions(verdict) for pair in one.pairs for side in SIDES}
    counts = [row.correctness for row in coverage if row.target == verdict.target and row.kernel in kernels]
    passed = sum(count.simulated + count.recorded for count in counts)
    every = passed + sum(count.failed for count in counts)
    return [f"correct in simulation: {number(passed)} of {number(every)} cases"] if every else []


def _kernels(decisions: Sequence[Decision]) -> str:
    """Return the number of workloads, and the kernels if each DSL has one."""
    sides = [{getattr(pair, side) for one in decisions for pair in one.pairs} for side in SIDES]
    names = " vs ".join(*zip(*sides, strict=True)) if max(map(len, sides)) == 1 else "best kernel of each DSL"
    mean = "" if decisions[0].winner == "depends" else "means over "
    return f"{names}; {mean}{plural(decisions[0].workloads, 'workload')}"


def _rows(decisions: Sequence[Decision]) -> list[tuple[str, list[str]]]:
    """Return the rows of a verdict's table, each with a cell per kind of time."""
    predicted = decisions[0].basis == "predicted"
    rows = [
        ("with error" if predicted else "95 % interval", [_interval(one) for one in decisions]),
        ("mean by dtype", [_dtypes(one) for one in decisions]),
        *(
            (f"{name} faster", [_wins(one, side) for one in decisions])
            for side, name in zip(SIDES, ("CuTe", "cuTile"), strict=True)
        ),
        ("cannot tell" if predicted else "equal", [_equal(one) for one in decisions]),
        ("samples", [_samples(one) for one in decisions]),
        *_foremost_pair(decisions),
    ]
    return [(name, cells) for name, cells in rows if any(cells)]


def _equal(decision: Decision) -> str:
    """Return the number of equal workloads, and the largest noise of their times together."""
    if not decision.equal:
        return "none"
    kind = "errors" if decision.basis == "predicted" else "noise"
    most = max(pair.noise_percent for pair in decision.pairs if pair.workload in decision.equal)
    return f"{len(decision.equal)}, {kind} ≤ {most:.1f}{PERCENT}"


def _samples(decision: Decision) -> str:
    counts = [count for pair in decision.pairs for count in pair.samples]
    return f"≥ {number(min(counts))} a time" if counts else ""


def _foremost_pair(decisions: Sequence[Decision]) -> list[tuple[str, list[str]]]:
    """Return the row of the largest clear difference, if no DSL wins overall."""
    clear = [pair for one in decisions if one.winner == "depends" for pair in one.pairs if pair.winner]
    if not clear or not clear[0].mhz:
        return []
    workload = max(clear, key=lambda pair: max(pair.ratio, 1 / pair.ratio)).workload
    known = short_names({pair.workload for one in decisions for pair in one.pairs})
    of = [next((pair for pair in one.pairs if pair.workload == workload), None) for one in decisions]
    return [(f"{known[workload]}, CuTe / cuTile", [_times(pair) if pair else "" for pair in of])]


def _times(pair: Pairing) -> str:
    """Return both times with their clocks, and the ratio on a rested GPU."""
    side, by = sentences.favoured(pair.rested or 1.0)
    side = "" if (pair.ratio > 1) == ((pair.rested or 1.0) > 1) else f"{side} "
    parts = [f"{number(pair.cute_us)} / {number(pair.cutile_us)} µs", f"{' / '.join(f'{x:.0f}' for x in pair.mhz)} MHz"]
    parts += [f"rested GPU {side}{by:.2f}{TIMES}"] * (pair.rested is not None)
    return ", ".join(part.replace(" ", "\N{NO-BREAK SPACE}") for part in parts)


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
        noise = {pair.workload: f" ±{pair.noise_percent:.1f}{PERCENT}" for pair in pairs}
        return ", ".join(
            f"{known[name]} {about}{ratios[name]:.2f}{TIMES}{noise[name]}"
            for name in sorted(ratios, key=lambda name: -ratios[name])
        )
    where = f": {', '.join(decision.losses)}" if decision.losses and side != decision.winner else ""
    return f"{len(pairs)}, up to {about}{max(ratios.values()):.2f}{TIMES}{where}"


def _power(main: Decision, values: Mapping[str, Any]) -> str:
    """Return how often the power limit lowered the clock, and the mean without it."""
    each = " and ".join(f"{values[side]} {DSL_NAMES[side]}" for side in SIDES)
    text = f"Power limit: lower clock in {each} of {values['timed']} warm times"
    if main.winner == "depends":
        return f"{text}; rested GPU: short bursts without it."
    if rested := values.get("rested"):
        side, by = sentences.favoured(rested)
        text += f"; in short bursts {side} {by:.2f}{TIMES}"
    return f"{text}."


def _by_clock(verdict: TargetVerdict) -> list[str]:
    """Name the workloads on which the clock explains half of the difference or more."""
    known = short_names({pair.workload for decision in _decisions(verdict) for pair in decision.pairs})
    texts = [
        f"{cause.share_percent:.0f} % at {known[one.workload]} {one.figure}"
        for one in verdict.explained
        if one.contest == "dsls" and one.clear
        for cause in one.causes
        if cause.rule == "clock" and (cause.share_percent or 0.0) >= LEAST_CLOCK
    ]
    return [f"lower clock: {', '.join(texts)}"] if texts else []


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


def _dtypes(decision: Decision) -> str:
    """Return the mean per dtype; name the DSL that is faster in that dtype alone."""
    about, lead = ABOUT * (decision.basis == "predicted"), decision.mean > 1
    texts = []
    for dtype, ratio in decision.dtypes.items():
        side, by = sentences.favoured(ratio)
        texts.append(f"{dtype} {'' if (ratio > 1) == lead else side + ' '}{about}{by:.2f}{TIMES}")
    return ", ".join(texts)


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
    return f"Better DSL vs {name}: {means}; slower on {wins} of {first.workloads}."


def _foremost(verdict: TargetVerdict) -> list[Explained]:
    """Return the first explained pair per kernels and first cause."""
    pairs: dict[tuple[str, ...], Explained] = {}
    for one in verdict.explained:
        if one.causes:
            pairs.setdefault((one.contest, one.faster, one.slower, one.causes[0].rule), one)
    return [
        one
        for contest, most in MOST_EXPLAINED.items()
        for one in [one for one in pairs.values() if one.contest == contest][:most]
    ]


def flag_texts(flags: Iterable[Flag], gpu: str) -> list[str]:
    """Return flags in a few words each; kernels with the same fact share one."""
    shared: dict[str, dict[str, None]] = {}
    texts: dict[str, None] = {}
    for flag in flags:
        if flag.id in SHARED:
            each, every = SHARED[flag.id]
            values = {"basis": "timed", "kernel": flag.kernel, "kernels": "{kernels}"} | flag.values
            shared.setdefault(every.format(**values), {})[each.format(**values)] = None
        elif flag.id not in ("different_authors", "power_limit"):  # lines of their own
            texts[_flag(flag, gpu)] = None
    return [*texts, *(text.format(kernels=", ".join(kernels)) for text, kernels in shared.items())]


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
        "uneven_variants": "best of {cute} CuTe DSL variants {basis} per workload, of {cutile} cuTile ones",
    }[flag.id].format(kernel=flag.kernel, **{"gpu": gpu} | values)


def _authors(costs: Iterable[KernelCost], used: set[str], base: str) -> Markup:
    """Say who wrote the kernels that were compared, with a link to documented versions."""
    named: dict[str, dict[Markup, None]] = {}
    for one in costs:
        if one.kernel in used:
            text = escape(one.kernel)
            if one.author.versions and one.author.evidence:
                link = os.path.relpath(one.author.evidence, base)
                text += Markup(' (<a href="{}">{} design versions</a>)').format(link, one.author.versions)
            named.setdefault(f"{one.author.name}, {one.author.work}", {})[text] = None
    texts = [Markup("{}: {}").format(Markup(", ").join(kernels), who) for who, kernels in named.items()]
    return Markup("{}.").format(Markup("; ").join(texts)) if texts else Markup("")


def _why(decided: list[TargetVerdict]) -> list[View]:
    """Return the first causes of differences per faster DSL, the most frequent first.

    A warm and a cold difference of a workload count separately. At least one entry is of a prediction; the rest is
    counted.
    """
    names = {pair.cute: "cute" for one in decided for d in _decisions(one) for pair in d.pairs}
    views: dict[str, dict[tuple[str, bool], View]] = {side: {} for side in SIDES}
    lacking: dict[str, dict[str, Counter[str]]] = {side: {} for side in SIDES}
    total: dict[str, Counter[str]] = {side: Counter() for side in SIDES}
    for verdict in decided:
        gpu = verdict.gpu.split()[0]
        known = short_names({pair.workload for d in _decisions(verdict) for pair in d.pairs})
        for one in (one for every in _by_workload(verdict, clear=True).values() for one in every):
            side = names.get(one.faster, "cutile")
            total[side][gpu] += 1
            if not (cause := next(iter((*one.causes, *one.ruled_out)), None)):
                lacking[side].setdefault(_lacking([one]), Counter())[gpu] += 1
                continue
            at = f"{gpu}, {known[one.workload]}, {ABOUT * verdict.predicted}{one.ratio:.2f}{TIMES} {one.figure}"
            view: View = {"cause": cause, "label": sentences.LABELS.get(cause.rule, NO_CAUSE), "at": at}
            view |= {"predicted": verdict.predicted, "count": Counter()}
            views[side].setdefault((cause.rule, verdict.predicted), view)["count"][gpu] += 1
    sides = []
    for side, of in views.items():
        kinds = sorted(of.values(), key=lambda one: (one["label"] == NO_CAUSE, -one["count"].total()))
        shown = [one for one in kinds if not one["predicted"]][:MOST_CAUSES]
        shown += [one for one in kinds if one["predicted"]][:1]
        for entry in shown:
            entry["of"] = _counted(entry["count"], total[side])
        rest = [f"{one['label'].lower().rstrip('.')} ({_counted(one['count'])})" for one in kinds if one not in shown]
        rest += [f"{why.lower().rstrip('.')} ({_counted(count)})" for why, count in lacking[side].items()]
        view = {"name": DSL_NAMES[side], "class": side[0] if side == "cute" else "t", "causes": shown, "rest": rest}
        sides += [view] * bool(shown or rest)
    return sides


def _counted(counts: Mapping[str, int], total: Mapping[str, int] | None = None) -> str:
    """Return a number per GPU, and of how many."""
    return ", ".join(f"{gpu}: {count}{f' of {total[gpu]}' if total else ''}" for gpu, count in counts.items())


def _by_workload(verdict: TargetVerdict, clear: bool = False) -> dict[str, list[Explained]]:
    """Return the differences between the DSLs by workload, or only the clear ones."""
    result: dict[str, list[Explained]] = {}
    for one in verdict.explained:
        if one.contest == "dsls" and one.clear >= clear:
            result.setdefault(one.workload, []).append(one)
    return result


def _explained(verdict: TargetVerdict, one: Explained, base: str) -> View:
    title = f"{verdict.gpu}, {one.workload}, {one.figure}: {one.faster} {one.ratio:.2f}{TIMES} as fast as {one.slower}"
    title += "" if one.clear else ", within the expected error"
    causes = [
        {"rule": cause.rule, "text": cause.text, "files": [_evidence(path, base) for path in cause.evidence]}
        for cause in one.causes
    ]
    return {"title": title, "causes": causes}


def _evidence(path: str, base: str) -> View:
    """Return the link to a record, named by its file, row and value."""
    file, _, place = path.partition("#")
    name = PurePath(file).stem if "-" in file else "/".join(PurePath(file).with_suffix("").parts[-2:])
    return {"href": os.path.relpath(file, base), "text": " ".join(filter(None, (name, place)))}


Figure = tuple[str, str, Callable[[KernelCost], float | str | None]]  # name, key of a missing value, value


FIGURES: tuple[Figure, ...] = (
    ("Python lines, device", "lines", lambda c: c.lines.device if c.lines else None),
    ("Python lines, host", "lines", lambda c: c.lines.host if c.lines else None),
    ("Compile, CPU s", "compile_seconds", lambda c: c.compile_seconds),
    ("Registers per thread", "registers_per_thread", lambda c: c.registers_per_thread),
    ("SMEM, KB", "shared_bytes_per_block", lambda c: None if (b := c.shared_bytes_per_block) is None else b / 1024),
    ("Occupancy, theoretical, %", "theoretical_occupancy_percent", lambda c: c.theoretical_occupancy_percent),
    ("Occupancy, achieved, %", "achieved_occupancy_percent", lambda c: c.achieved_occupancy_percent),
    ("Most spills, B/thread", "spill_bytes", lambda c: c.spill_bytes[1] if c.spill_bytes else None),
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
    """Return the table of costs, a column per kernel, by target (`gpus`) and workload (`names`)."""
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
        "unprofiled": list(
            dict.fromkeys(gpus.get(c.target, c.target) for c in costs if c.at and c.achieved_occupancy_percent is None)
        ),
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
        "title": f"build {cost.variant}, {plural(cost.functions, 'GPU function')} run; {sentences.author(cost.author)}",
    }
