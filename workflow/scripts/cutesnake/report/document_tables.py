"""Markdown tables for README.md and docs/, made from `recorded/` and the records in benchmarks/.

Every public function of `TABLES` returns one table. The speedup of A vs B is the time of B ÷ the time of A. Values are
rounded to the nearest digit shown.
"""

import functools
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean, mean, median
from typing import Any, NamedTuple

from cutesnake.analysis.compare.recorded import folders, operators, recorded_speedups, recorded_times
from cutesnake.analysis.compare.speedup import speedups
from cutesnake.analysis.evidence.recorded_set import SUMMARY, read_set
from cutesnake.analysis.knowledge.entries import read_entries, source
from cutesnake.analysis.knowledge.evidence import BUILT, evidence_value
from cutesnake.model.catalog import load_kernel, make_workload
from cutesnake.model.paths import ROOT
from cutesnake.model.records.compare import Speed
from cutesnake.model.stages import MEASUREMENTS
from cutesnake.report.bug_tables import bugs, bugs_summary, findings_on_right_kernels, planted_bugs
from cutesnake.report.formatting import short
from cutesnake.stages.predict.band import band
from cutesnake.stages.predict.validated import FOLDER, ValidatedRow, files, read_validated

MLA, CUTE, CUTILE, RIVAL = "mla_decode", "cute_sm90", "cutile", "flash_mla"
BENCHMARKS = ROOT / "benchmarks"
NO_VALUE = "-"
GROUPS = {
    "uniform": "twelve uniform batches",
    "ragged": "ragged batches",
    "odd": "odd batches and lengths",
    "heads": "16 to 64 heads, 2 or 4 query tokens",
    "sweep": "uniform batches of `sweep.yaml`",
}
DRAWN = {  # of unseen_h200.json
    "weak": "random: lowest speedups of an earlier draw",
    "drawn": "random, used for fitting",
    "unseen": "random, not used for fitting",
    "later": "random, drawn after fitting",
    "weakest": "random: the weakest of the four rows above, on another day",
    "drawn_300": "random, 2026-11-29",
    "drawn_300_weakest": "random: the weakest of the row above, again",
    "drawn_100": "random, 2026-11-29, drawn later",
    "blind_1": "random, timed after fitting to the drawn rows above",
    "blind_2": "random, timed after another fit",
    "blind_3": "random, timed after a third fit",
    "blind_4": "random, timed after a fourth fit: today's defaults",
}
ATTENTION = "fmha/"
KINDS = ("warm", "cold")
OUTCOMES = tuple(f"{kind}: ahead/equal/behind" for kind in KINDS)
OVER_PYTORCH = tuple(f"{kind}: better vs PyTorch, mean (least)" for kind in KINDS)

Row = Mapping[str, Any]  # of a benchmark's JSON file


class TableError(ValueError):
    """A table that cannot be made. One line."""


def main_first(names: Sequence[str]) -> list[str]:
    """Return operators with MLA decode first, then as they are."""
    return sorted(names, key=lambda operator: operator != MLA)


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table, its first column left-aligned and the others right-aligned."""
    first, *others = ("| " + " | ".join(cells) + " |" for cells in (header, *rows))
    return "\n".join([first, "|---" + "|--:" * (len(header) - 1) + "|", *others])


def results_per_gpu() -> str:
    """Return three speedups of MLA decode on each recorded GPU."""
    header = ("GPU", "L2", "CuTe DSL vs FlashMLA", "cuTile vs FlashMLA", "CuTe DSL vs cuTile", "workloads")
    speedups_of = {kernel: {device: speeds for device, *speeds in _over_rival(kernel)} for kernel in (CUTE, CUTILE)}
    rows = []
    for entry in recorded_speedups(MLA).speedups:
        device = entry.device.device or ""
        pairs = (*(speedups_of[kernel][device] for kernel in speedups_of), (entry.warm, entry.cold))
        for kind, speeds in zip(KINDS, zip(*pairs, strict=True), strict=True):
            counts = {speed.workloads for speed in speeds if speed}
            if len(counts) != 1:
                raise TableError(f"{device}, {kind}: the columns are of different workloads")
            rows.append([_gpu(device), kind, *map(_speed, speeds), str(counts.pop())])
    return markdown(header, rows)


def mla_speedups() -> str:
    """Return recorded comparisons of MLA decode kernels."""
    both = speedups(recorded_times(MLA, (CUTE, CUTILE)))
    compared = [
        *((f"`{name}` vs FlashMLA", _over_rival(name)) for name in (CUTE, CUTILE)),
        (f"`{CUTE}` vs `{CUTILE}`", ((e.device.device or "", e.warm, e.cold) for e in both)),
    ]
    rows = [[what, _gpu(device), *_both(warm, cold)] for what, speeds in compared for device, warm, cold in speeds]
    return markdown(("compared", "GPU", "workloads", *(f"{kind}: mean (least)" for kind in KINDS), *OUTCOMES), rows)


def _both(warm: Speed | None, cold: Speed | None) -> list[str]:
    counts = [f"{s.faster}/{s.equal}/{s.slower}" if s else NO_VALUE for s in (warm, cold)]
    return [str(warm.workloads if warm else 0), _speed(warm), _speed(cold), *counts]


def _over_rival(kernel: str) -> Iterator[tuple[str, Speed | None, Speed | None]]:
    """GPU, warm and cold speed of one kernel over FlashMLA."""
    for entry in speedups(recorded_times(MLA, (kernel, RIVAL))):
        (rival,) = entry.others
        yield entry.device.device or "", rival.warm, rival.cold


def _speed(speed: Speed | None) -> str:
    return f"{speed.mean:.2f} ({speed.least:.2f})" if speed else NO_VALUE


def speedup_per_operator() -> str:
    """Return CuTe DSL vs cuTile, and the better of both vs PyTorch."""
    header = ("operator", "GPU", "workloads", *(f"{kind}: mean (range)" for kind in KINDS), *OVER_PYTORCH)
    rows = []
    for operator in main_first(operators()):
        for entry in recorded_speedups(operator).speedups:
            if entry.warm and entry.cold:
                ranges = [f"{s.mean:.2f} ({s.least:.2f}-{s.most:.2f})" for s in (entry.warm, entry.cold)]
                pytorch = next(((o.warm, o.cold) for o in entry.others if o.dsl == "torch"), (None, None))
                cells = (str(entry.warm.workloads), *ranges, *map(_speed, pytorch))
                rows.append([f"`{operator}`", _gpu(entry.device.device), *cells])
    return markdown(header, rows)


def in_one_run() -> str:
    """Return `cute_sm90` vs FlashMLA per workload group and GPU, timed in one process."""
    records = [_json(BENCHMARKS / "mla_cute_sm90" / name) for name in ("h200.json", "h100.json")]
    header = ("workloads", "count", *(f"{_gpu(one['device'])} {kind}" for one in records for kind in KINDS))
    rows = []
    for group, label in GROUPS.items():
        counts = {len(one["groups"][group]) for one in records}
        cells = [
            _mean_least(row[RIVAL][kind] / row[row["default"]][kind] for row in one["groups"][group])
            for one in records
            for kind in ("warm_us", "cold_us")
        ]
        rows.append([label, " and ".join(map(str, sorted(counts))), *cells])
    drawn = _json(BENCHMARKS / "mla_cute_sm90" / "unseen_h200.json")["groups"]
    for group, label in DRAWN.items():
        pairs = [(row[RIVAL], row[row["default"]]) for row in drawn[group]]
        cells = [
            _mean_least(rival[kind] / default[kind] for rival, default in pairs) for kind in ("warm_us", "cold_us")
        ]
        rows.append([label, str(len(pairs)), *cells, *(NO_VALUE for _ in cells)])
    return markdown(header, rows)


def cutile_in_one_run() -> str:
    """Return `cutile` vs FlashMLA, timed in turn in one process, warm."""
    one = _json(BENCHMARKS / "mla_cutile" / "h200.json")
    rows = []
    for group in ("uniform", "ragged"):
        ratios = {row["workload"]: row["flash_mla_us"] / row["cutile_us"] for row in one[group]}
        least = min(ratios, key=ratios.__getitem__)
        rows.append([group, str(len(ratios)), _mean_least(ratios.values()), f"`{least}`"])
    return markdown(("batches", "count", f"{_gpu(one['device'])} warm", "least at"), rows)


def _mean_least(ratios: Iterable[float]) -> str:
    values = list(ratios)
    return f"{geometric_mean(values):.3f} ({min(values):.3f})"


def _gpu(device: str | None) -> str:
    """`H100` for `NVIDIA H100 80GB HBM3`."""
    return short(device).removesuffix(" 80GB HBM3")


def correctness_counts() -> str:
    """Return how many recorded checks passed on each GPU."""
    rows = []
    for folder in folders():
        entries = [entry for entry in read_set(folder) if entry.stage == "correctness"]
        passed = sum(entry.status == "ok" for entry in entries)
        inputs: Counter[str] = Counter()
        for entry in entries:
            if metrics := getattr(entry, "metrics", None):
                inputs.update(passed=metrics.passed, all=metrics.passed + metrics.failed)
        counts = f"{passed} of {len(entries)}", f"{inputs['passed']:,} of {inputs['all']:,}"
        rows.append([_gpu(_json(folder / SUMMARY)["device"]), *counts])
    return markdown(("GPU", "cases passed", "inputs checked"), rows)


def recorded_sets() -> str:
    """Return what each recorded set holds: days and records by stage."""
    rows = []
    for folder in folders():
        entries = list(read_set(folder))
        days = sorted({entry.provenance.created[:10] for entry in entries})
        counts = Counter(entry.stage for entry in entries)
        measured = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        rows.append([f"`{folder.name}`", measured, *(str(counts[stage]) for stage in MEASUREMENTS)])
    return markdown(("set", "measured", *MEASUREMENTS), rows)


def prediction_accuracy() -> str:
    """Return prediction errors in percent, per set; of blind sets, also per GPU.

    Inside: at the highest clock, within the band by rows of other operators.
    """
    errors_header = ("median", "90th percentile", "worst", "signed median")
    header = ("set", "GPU", "times", *errors_header, "inside band", "not predicted")
    known, rows = read_validated(files()), []
    newest = BENCHMARKS.glob("prediction/blind_*.jsonl")  # sets that no error band rests on yet
    for path in sorted([*FOLDER.glob("*.jsonl"), *newest], key=lambda path: path.name):
        lines, predictions = _lines(path), read_validated([path])
        gpus = sorted({one.device for one in predictions})
        each = gpus if path.stem.startswith("blind") and len(gpus) > 1 else []
        for some in [gpus, *([gpu] for gpu in each)]:
            chosen = [one for one in predictions if one.device in some]
            errors = [one.error_percent for one in chosen]
            inside = mean(_inside(one, [row for row in known if row.operator != one.operator]) for one in chosen)
            failed = sum(line["device"] in some and line["predicted_us"] is None for line in lines)
            where = ", ".join(gpu.upper() for gpu in some)
            rows.append([path.stem, where, str(len(errors)), *_errors(errors), f"{inside:.0%}", str(failed)])
    return markdown(header, rows)


def _inside(row: ValidatedRow, others: Sequence[ValidatedRow]) -> bool:
    """Return whether a row's error at the highest clock is inside the band from `others`."""
    width = row.bound and band(row.bound, row.kind, 0, others).percent
    return width is not None and abs(row.error_at_highest_percent) <= width


def _errors(errors: Sequence[float]) -> list[str]:
    """Sizes: median, 90th percentile (nearest rank), largest; then the median with its sign."""
    sizes = sorted(map(abs, errors))
    values = (median(sizes), sizes[math.ceil(0.9 * len(sizes)) - 1], sizes[-1])
    return [*(f"{value:.1f}" for value in values), f"{median(errors):+.1f}"]


def regret() -> str:
    """Return time of the variant predicted fastest ÷ time of the fastest, by kernel.

    Next to it, for the same choices: the variants that nvMatmulHeuristics chose. A variant without a prediction is not
    chosen, but may be the fastest.
    """
    folder = BENCHMARKS / "prediction"
    heuristics = {(row["operator"], row["workload"]): row["variant"] for row in _lines(folder / "nvmatmul.jsonl")}
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in _lines(folder / "variants.jsonl"):
        groups.setdefault((row["operator"], row["kernel"], row["workload"], row["kind"]), []).append(row)
    ratios: dict[str, list[tuple[float, float | None]]] = {}
    for (operator, kernel, workload, _), variants in groups.items():
        times = {row["variant"]: float(row["measured_us"]) for row in variants}
        least = min(times.values())
        chosen = min(variants, key=lambda row: float(row["predicted_us"] or math.inf))["variant"]
        other = heuristics.get((operator, workload)) if kernel == CUTE else None
        dsl = "CuTe DSL" if load_kernel(operator, kernel).DSL == "cute" else "cuTile"
        for name in (f"`{operator}/{kernel}`", f"all {dsl}", "all"):
            ratios.setdefault(name, []).append((times[chosen] / least, times[other] / least if other else None))
    rows = []
    for name, each in sorted(ratios.items(), key=lambda one: (one[0].startswith("all"), -max(one[1])[0])):
        known = [second for _, second in each if second]
        cells = _regret(known)[::2] if len(known) == len(each) else (NO_VALUE, NO_VALUE)
        rows.append([name, str(len(each)), *_regret(first for first, _ in each), *cells])
    other = "nvMatmulHeuristics"
    header = ("kernel", "choices", "within 3 %", "mean", "worst", f"{other}: within 3 %", f"{other}: worst")
    return markdown(header, rows)


def _regret(ratios: Iterable[float]) -> tuple[str, str, str]:
    each = list(ratios)
    return f"{mean(ratio <= 1.03 for ratio in each):.0%}", f"{mean(each):.2f}", f"{max(each):.2f}"


def b200() -> str:
    """Return predictions for a B200, first and current, next to published values."""
    header = ("predicted", "workload", "published", "first prediction", "its error", "prediction today", "its error")
    today = _b200("b200.jsonl")
    rows = []
    for case, first in _b200("b200_first.jsonl").items():
        operator, kernel, _, workload = case.split("/")
        cells = [cell for one in (first, today[case]) for cell in (_predicted(one), f"{_error(one):+.0f}%")]
        rows.append([f"`{operator}/{kernel}`", f"`{workload}`", _published(first), *cells])
    return markdown(header, rows)


def b200_summary() -> str:
    """Return the B200 prediction errors: each MLA kernel, and attention by mask."""
    both = first, _ = _b200("b200_first.jsonl"), _b200("b200.jsonl")
    rows = [
        [f"MLA decode, {case.rpartition('_')[2]}", "NVIDIA's example", *(f"{_error(one[case]):+.0f} %" for one in both)]
        for case in first
        if not case.startswith(ATTENTION)
    ]
    mla = [one for one in _newer() if "mla_decode" in one.case]
    cells = [_range(e for one in mla if not math.isnan(e := one.errors[n])) for n in (0, 2)]
    rows.append([f"MLA decode, {len(mla)} other times", "NVIDIA's kernel in FlashInfer", *cells])
    for mask, causal in (("causal mask", True), ("no mask", False)):
        cases = [case for case in first if case.startswith(ATTENTION) and case.endswith("causal") == causal]
        cells = [_range(_error(one[case]) for case in cases) for one in both]
        rows.append([f"attention, {mask} assumed, {len(cases)} sizes", "FlashInfer's kernel", *cells])
    return markdown(("problem", "published time is of", "error of first prediction", "error today"), rows)


def _range(errors: Iterable[float]) -> str:
    least, *_, most = sorted(errors)
    return f"{least:+.0f} to {most:+.0f} %"


def _b200(name: str) -> dict[str, Row]:
    """Rows of a file of benchmarks/prediction by case, those with a published figure."""
    rows = _lines(BENCHMARKS / "prediction" / name)
    return {row["case"]: row for row in rows if row.get("published_us") or row.get("published_tflops")}


def _error(row: Row) -> float:
    """Percent by which the predicted time exceeds the published one."""
    if row.get("published_us"):
        return 100.0 * (float(row["predicted_us"]) / float(row["published_us"]) - 1)
    return 100.0 * (float(row["published_tflops"]) / float(row["predicted_tflops"]) - 1)


def _predicted(row: Row) -> str:
    return f"{row['predicted_us']:,.0f} µs" if row.get("published_us") else f"{row['predicted_tflops']:,.0f} TFLOP/s"


def _published(row: Row) -> str:
    return f"{row['published_us']:,} µs" if row.get("published_us") else f"{row['published_tflops']:,} TFLOP/s"


class _Newer(NamedTuple):
    """A published time in µs of `case`; errors and band of its predictions in percent.

    `errors`: first prediction at the highest clock and under power; today's there, by the rule, under power. NaN: none.
    """

    case: str
    us: float
    errors: tuple[float, ...]
    band: float


@functools.cache  # two tables read it, and the validation files with it
def _newer() -> list[_Newer]:
    """Return newer B200 times with their predictions, largest error of today's under power first."""
    folder = BENCHMARKS / "prediction"
    first, today = ({row["case"]: row for row in _lines(folder / f"b200_rows{name}.jsonl")} for name in ("_first", ""))
    known, rows = read_validated(files()), []
    for group in _json(folder / "b200_published.json"):
        for published in group["rows"] if "clock_mhz" not in group else ():  # times at a locked clock: `b200`
            us, workload = published["us"], make_workload(group["operator"], published["parameters"]).id
            case = f"{group['operator']}/{published['kernel']}/{workload}"
            if row := today.get(case):
                before = first.get(f"{group['operator']}/{group.get('first', published['kernel'])}/{workload}", {})
                times = [before.get(key, math.nan) for key in ("predicted_us", "limited_us")]
                times += [row.get(key, math.nan) for key in ("predicted_us", "rule_us", "limited_us")]
                width = band(row["bound"], group["cache"], row["assumed"], known).percent
                errors = tuple(100.0 * (time / us - 1) for time in times)
                # An unknown band holds nothing.
                rows.append(_Newer(case, us, errors, math.nan if width is None else width))
    return sorted(rows, key=lambda row: -abs(row.errors[-1]))


def b200_rows() -> str:
    """Return predictions of times that others published for a B200, largest error first."""
    rows = _newer()
    cells = [[f"`{one.case}`", f"{one.us:,}", *map(_signed, one.errors), f"±{one.band:.0f}%"] for one in rows]
    columns = [[(abs(e), one.band) for one in rows if not math.isnan(e := one.errors[n])] for n in range(5)]
    middle = [f"{median(error for error, _ in column):.0f}%" for column in columns]
    inside = [f"{sum(error <= most for error, most in column)} of {len(column)}" for column in columns]
    cells += [["median of absolute errors", "", *middle, ""], ["inside what is expected", "", *inside, ""]]
    first, today = "first error", "today's error"
    errors = (first, f"{first} under power", today, f"{today}, rule of power", f"{today} under power")
    return markdown(("predicted kernel and workload", "published, µs", *errors, "expected"), cells)


def _signed(error: float) -> str:
    return NO_VALUE if math.isnan(error) else f"{error:+.0f}%"


def predicted_speedups() -> str:
    """Return predicted speedups of `cute_sm100` over NVIDIA's example on a B200."""
    entries = _lines(BENCHMARKS / "mla_cute_sm100" / "against_nvidia.jsonl")
    rows = []
    for what, largest in (("batch 1 to 16", 16), ("all that NVIDIA's example computes", math.inf)):
        some = [entry for entry in entries if entry["batch"] <= largest]
        ratios = (
            [one["nvidias"][f"{kind}_us"] / one["ours"][f"{kind}_us"] for one in some] for kind in ("cold", "warm")
        )
        rows.append([what, str(len(some)), *map(_mean_least, ratios)])
    return markdown(("workloads", "number", "cold: mean (least)", "warm: mean (least)"), rows)


def wall_time() -> str:
    """Return how long the workflow took, by what was run and on which machine."""
    rows = _json(BENCHMARKS / "workflow" / "wall_time.json")
    header = ("what ran", "machine", "wall time", "measured", "commit")
    cells = ("what", "machine", "seconds", "date", "commit")
    return markdown(header, ([f"{row[name]} s" if name == "seconds" else row[name] for name in cells] for row in rows))


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def knowledge_evidence(name: str) -> str:
    """Return the claims of an entry of docs/knowledge: value with bound, and source.

    Values of claims about builds are not computed: their bound is shown.
    """
    entry = next((one for one in read_entries() if one.name == name), None)
    if entry is None:
        raise TableError(f"docs/knowledge has no entry {name}")
    rows = [[c["text"], _claimed(c), source(c)] for c in entry.evidence]
    terms = f"{'../' * name.count('/')}README.md#terms"
    claim = f"[claim]({terms})"
    if len({where for _, _, where in rows}) > 1:
        return markdown((claim, "value", "source"), rows)
    if all(isinstance(c.get("equals"), bool) for c in entry.evidence):  # the texts state them
        return "\n".join([*(f"- {text}" for text, _, _ in rows), "", f"From {rows[0][2]} ([terms]({terms}))"])
    return markdown((f"{claim}, from {rows[0][2]}", "value"), (row[:2] for row in rows))


def _claimed(claim: Mapping[str, Any]) -> str:
    if claim["kind"] == "simulated":
        return "yes"
    names = {"equals": "", "at_least": "≥ ", "at_most": "≤ ", "contains": ""}
    bound = ", ".join(f"{sign}{_plain(claim[key])}" for key, sign in names.items() if key in claim)
    if claim["kind"] in BUILT:
        return bound
    value = _plain(evidence_value(claim))
    return value if claim["kind"] == "cited" or value == bound else f"{value} (test: {bound})"


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: NO_VALUE}[value]
    return f"{value:.{3 if abs(value) < 1000 else 6}g}" if isinstance(value, float) else str(value)


TABLES: dict[str, Callable[..., str]] = {
    table.__name__: table
    for table in (
        results_per_gpu,
        mla_speedups,
        speedup_per_operator,
        in_one_run,
        cutile_in_one_run,
        correctness_counts,
        recorded_sets,
        prediction_accuracy,
        b200,
        b200_rows,
        regret,
        b200_summary,
        predicted_speedups,
        wall_time,
        bugs,
        bugs_summary,
        findings_on_right_kernels,
        planted_bugs,
        knowledge_evidence,
    )
}
