"""Compare stage: cuTile vs CuTe per workload, target and device, with cell origins.

A cell is {value, unit, kind, source, reason}. `kind` is `measured` (on this machine), `recorded` (on a device with
measurements in `recorded/`), `predicted` (by ptxsim's clock, for a target without measurements), `static` (read from a
build, or computed from the workload) or `missing`, with the `reason`. A static duration is a lower bound, not an
estimate.
"""

import itertools
import os
from collections.abc import Callable, Iterable
from typing import Literal

from cutesnake.analysis.compare.agreement import agreement
from cutesnake.analysis.compare.coverage import coverage
from cutesnake.analysis.compare.csv_table import reasons, to_csv
from cutesnake.analysis.compare.insight import RULES, Pair, Side, insights
from cutesnake.analysis.compare.metrics import METRICS, Metric
from cutesnake.analysis.compare.selected_workloads import picked, tables
from cutesnake.analysis.compare.speedup import speedups
from cutesnake.analysis.compare.times import times
from cutesnake.analysis.compare.unsupported_inputs import unsupported_inputs
from cutesnake.analysis.evidence.gather import Evidence, Source, first_line
from cutesnake.analysis.verdict.verdicts import winners
from cutesnake.model import provenance, record
from cutesnake.model.records.compare import (
    Baseline,
    Cell,
    Compare,
    CompareProvenance,
    CompareRow,
    CompareSide,
    Floor,
    MetricColumn,
    RuleText,
)
from cutesnake.model.records.inspect import Function, Inspect
from cutesnake.model.records.measurement import variant_id
from cutesnake.model.records.ncu import Ncu
from cutesnake.model.records.predict import Predict
from cutesnake.model.records.roofline import RooflineRow
from cutesnake.model.records.timing import Timing

PathAndRecord = tuple[str, Timing] | tuple[str, Ncu]  # path and record of a measurement

DSLS = ("cutile", "cute")
NOT_PLANNED = "variant {} was timed by an earlier sweep and is not built now"
STOOD_FOR = (
    "read from the build {}: without a GPU of the target, this row's build, which differs in compile-time sizes only, "
    "is not compiled"
)


def compare(evidence: Evidence, pairs: Iterable[tuple[str, str]] | None = None) -> Compare:
    """Return the compare record of one operator.

    `pairs` names (cuTile kernel, CuTe kernel); by default every cuTile kernel is paired with every CuTe kernel of the
    target that supports the workload. A workload without a kernel on one side keeps a row with the reason. `rows` are
    those that pages show in full (selected_workloads.py); all other fields count every row.
    """
    return _summed_up(evidence, every_row(evidence, pairs))


def write_comparison(evidence: Evidence, output: str, table: str) -> None:
    """Write the record to `output`, and the values of all rows as CSV to `table`."""
    rows = every_row(evidence)
    compared = _summed_up(evidence, rows)
    record.write_text(table, to_csv(evidence.operator, rows, compared.reasons))
    files = provenance.digests([table], os.path.dirname(output))
    record.write("compare", output, compared, indent=None, files=files)


def every_row(evidence: Evidence, pairs: Iterable[tuple[str, str]] | None = None) -> list[CompareRow]:
    """Return a row per target, source of measurements, workload and pair of kernels."""
    chosen = list(pairs) if pairs is not None else None
    targets = list(dict.fromkeys(target for _, target in evidence.decisions))
    return [
        _row(evidence, source, target, workload, left, right)
        for target in targets
        for source in evidence.sources(target)
        for workload in evidence.asked(target)
        for left, right in _pairs(evidence, target, workload, chosen)
    ]


def _summed_up(evidence: Evidence, rows: list[CompareRow]) -> Compare:
    timed = times(evidence)
    speeds = speedups(timed)
    shown = picked(rows, speeds)
    return Compare(
        status="ok",
        reason=None,
        provenance=CompareProvenance(
            builds=len(evidence.builds),
            inspected=len(evidence.inspected),
            measured=len(evidence.measured),
            recorded=len(evidence.recorded),
            predicted=len(evidence.predicted),
        ),
        operator=evidence.operator,
        metrics=[MetricColumn(m.key, m.name, m.unit, m.meaning) for m in METRICS],
        rules=[RuleText(rule.id, rule.basis, rule.condition) for rule in RULES],
        coverage=[coverage(evidence, kernel, target) for kernel, target in evidence.decisions],
        times=timed,
        speedups=speeds,
        agreement=agreement(timed),
        unsupported_inputs=unsupported_inputs(evidence),
        workloads=len({row.workload for row in rows}),
        tables=tables(rows, shown),
        reasons=reasons(rows),
        rows=[row for row in rows if row.workload in shown],
        verdicts=winners(evidence, timed),
    )


def _pairs(
    evidence: Evidence, target: str, workload: str, chosen: list[tuple[str, str]] | None
) -> list[tuple[str | None, str | None]]:
    able: dict[str, list[str | None]] = {}
    for dsl in DSLS:
        able[dsl] = [
            kernel
            for (kernel, where), decision in evidence.decisions.items()
            if where == target and decision.dsl == dsl and (kernel, target, workload) in evidence.variants
        ]
    left, right = (able[dsl] or [None] for dsl in DSLS)
    every = list(itertools.product(left, right))
    if chosen is None:
        return every
    return [pair for pair in every if pair in chosen]


def _row(
    evidence: Evidence, source: Source, target: str, workload: str, left: str | None, right: str | None
) -> CompareRow:
    floor = evidence.floor(workload, target, source.device)
    cutile = _side(evidence, source, target, workload, left, "cutile", floor)
    cute = _side(evidence, source, target, workload, right, "cute", floor)
    return CompareRow(
        workload=workload,
        parameters=evidence.workloads[workload],
        target=target,
        device=evidence.label(source, "timing", "ncu"),
        floor=Floor(floor.device, floor.bound, floor.floor_us) if floor else None,
        cutile=_recorded_side(evidence, source, target, workload, cutile),
        cute=_recorded_side(evidence, source, target, workload, cute),
        baselines=_baselines(evidence, source, target, workload),
        delta={m.key: _delta(cutile.cells[m.key], cute.cells[m.key]) for m in METRICS},
        insights=insights(Pair(cutile, cute, floor, evidence.workloads[workload])),
    )


def _recorded_side(evidence: Evidence, source: Source, target: str, workload: str, side: Side) -> CompareSide:
    made = _made(evidence, source, target, workload, side.kernel, side.variant)
    return CompareSide(side.kernel, side.variant, side.reason, *made, dict(side.cells))


def _made(
    evidence: Evidence, source: Source, target: str, workload: str, kernel: str | None, variant: str | None
) -> tuple[str | None, str | None]:
    """Return day and commit of a kernel's time, since a set may span several."""
    if kernel is None or variant is None:
        return None, None
    timed = evidence.case(source, "timing", kernel, target, variant, workload)
    return (timed[1].provenance.created[:10], timed[1].provenance.commit) if timed else (None, None)


def _side(
    evidence: Evidence,
    source: Source,
    target: str,
    workload: str,
    kernel: str | None,
    dsl: str,
    floor: RooflineRow | None,
) -> Side:
    if kernel is None:
        reason = _why_no_kernel(evidence, dsl, target, workload)
        cells = {m.key: _missing(m.unit, reason) for m in METRICS}
        return Side(None, dsl, None, reason, cells)
    variant = _fastest(evidence, source, kernel, target, workload)
    planned = variant in evidence.variants[kernel, target, workload]
    built = evidence.standing_for(kernel, target, variant)
    stood_for = None if built == variant else STOOD_FOR.format(built)
    inspected = evidence.inspect(kernel, target, built)
    timed = evidence.case(source, "timing", kernel, target, variant, workload)
    profiled = evidence.case(source, "ncu", kernel, target, variant, workload)
    foreseen = evidence.prediction(kernel, target, variant, workload)
    among = len(evidence.foreseen(kernel, target, workload))
    cells = {}
    for metric in METRICS:
        measured = timed if metric.stage == "timing" else profiled
        cells[metric.key] = (
            _measured(metric, source, measured)
            or _predicted(metric, source, foreseen, among)
            or _static(metric, inspected, floor, evidence, (source, kernel, target, workload), stood_for)
            or _missing(
                metric.unit,
                _why_missing(evidence, metric, source, kernel, target, workload, measured)
                if planned
                else NOT_PLANNED.format(variant),
            )
        )
    served = evidence.served[kernel, target, variant]
    build = evidence.build(kernel, target, built)
    return Side(
        kernel,
        dsl,
        variant,
        evidence.why_no_build(kernel, target, variant) if planned else NOT_PLANNED.format(variant),
        cells,
        function=inspected[1].functions[0] if inspected else None,
        params=build[1].variant.params if build else {},
        served=served,
        timing=timed[1].metrics if timed and timed[1].status == "ok" else None,
        ncu=profiled[1].metrics if profiled and profiled[1].status == "ok" else None,
    )


def _why_no_kernel(evidence: Evidence, dsl: str, target: str, workload: str) -> str:
    name = {"cutile": "cuTile", "cute": "CuTe"}[dsl]
    mine = {kernel: d for (kernel, t), d in evidence.decisions.items() if t == target and d.dsl == dsl}
    if not mine:
        return f"the experiment has no {name} kernel"
    buildable = [kernel for kernel, decision in mine.items() if decision.build.ok]
    if not buildable:
        return f"no {name} kernel for {target}: " + "; ".join(
            f"{kernel} is {d.build.reason}" for kernel, d in mine.items()
        )
    reasons = (f"{k}: {evidence.unsupported.get((k, workload), 'not planned')}" for k in buildable)
    return f"no {name} kernel supports this workload on {target}. " + "; ".join(reasons)


def _fastest(evidence: Evidence, source: Source, kernel: str, target: str, workload: str) -> str:
    """Return the variant with the shortest cold time, measured (even unplanned) or predicted, or default."""
    times = evidence.foreseen(kernel, target, workload) if source.kind == "none" else {}
    for _, timed in evidence.timings(source, target, workload):
        if timed.metrics and timed.case.kernel == kernel:
            times[variant_id(timed.case)] = timed.metrics.cold_us
    return min(times, key=times.__getitem__) if times else evidence.variants[kernel, target, workload][0]


def _missing(unit: str, reason: str) -> Cell:
    return Cell(None, unit, "missing", None, reason)


def _measured(metric: Metric, source: Source, entry: PathAndRecord | None) -> Cell | None:
    if entry is None or entry[1].status != "ok":
        return None
    value = getattr(entry[1].metrics, metric.measured)
    if value is None:
        return None
    kind: Literal["measured", "recorded"] = "measured" if source.kind == "live" else "recorded"
    return Cell(value / 1024 if metric.unit == "KB" else value, metric.unit, kind, entry[0], None)


def _predicted(metric: Metric, source: Source, entry: tuple[str, Predict] | None, among: int) -> Cell | None:
    """Return a predicted cell if no GPU of the target measured; `among` counts variants."""
    if entry is None or metric.predicted is None or source.kind != "none":
        return None
    metrics = entry[1].metrics
    if metrics is None:
        return None
    band = metrics.bands.warm if metric.predicted == "warm_us" else metrics.bands.cold
    width = "error unknown" if band.percent is None else f"± {band.percent:.0f} %"
    clock = f"{metrics.device} at {metrics.sm_clock_mhz:,.0f} MHz"
    reason = f"not measured; predicted by ptxsim's clock for an {clock}, {width}: {band.text}"
    if among > 1:
        variant = entry[1].case.variant.id
        reason += f"; {variant} has the shortest predicted time of {among} variants"
    return Cell(getattr(metrics, metric.predicted), metric.unit, "predicted", entry[0], reason)


def _static(
    metric: Metric,
    inspected: tuple[str, Inspect] | None,
    floor: RooflineRow | None,
    evidence: Evidence,
    case: tuple[Source, str, str, str],  # source, kernel, target, workload
    stood_for: str | None,  # set if `inspected` belongs to a stand-in build
) -> Cell | None:
    if metric.key == "duration_us":
        source, *where = case
        variant = evidence.variants[case[1:]][0]
        if floor is None or floor.floor_us is None or evidence.why_no_build(case[1], case[2], variant):
            return None  # a kernel without a build has no time and no bound
        why = f"not measured ({evidence.why_no_case(source, 'timing', *where)})"
        if failed := evidence.why_not_predicted(case[1], case[2], variant, case[3]):
            why += f", not predicted ({failed})"
        reason = f"{why}; lower bound of any kernel on {floor.device} at nominal boost clock"
        return Cell(floor.floor_us, metric.unit, "static", None, reason)
    read = _STATIC.get(metric.key)
    value = read(inspected[1].functions[0]) if read and inspected else None
    if value is None or inspected is None:
        return None
    return Cell(value, metric.unit, "static", inspected[0], stood_for)


def shared_kb(function: Function) -> float | None:
    """Return static plus dynamic shared memory in KB, or None if unknown."""
    dynamic = function.dynamic_shared_bytes
    return None if dynamic is None else (function.static_shared_bytes + dynamic) / 1024


_STATIC: dict[str, Callable[[Function], float | None]] = {
    "occupancy_percent": lambda function: function.occupancy.percent if function.occupancy else None,
    "registers_per_thread": lambda function: function.registers_per_thread,
    "shared_kb_per_block": shared_kb,
}


def _why_missing(
    evidence: Evidence,
    metric: Metric,
    source: Source,
    kernel: str,
    target: str,
    workload: str,
    entry: PathAndRecord | None,
) -> str:
    if entry and entry[1].status != "ok":
        return f"{metric.stage} failed: {first_line(entry[1].reason)}"
    if entry:
        return entry[1].reason or metric.absent or f"the {metric.stage} record has no {metric.measured}"
    if metric.key in _STATIC and (variants := evidence.variants.get((kernel, target, workload))):
        if reason := evidence.why_no_build(kernel, target, variants[0]):
            return reason
        inspected = evidence.inspect(kernel, target, evidence.standing_for(kernel, target, variants[0]))
        notes = inspected[1].notes if inspected else []
        what = " ".join(notes) or "the build does not report it"
        return f"not measured, and unknown from the build: {what}"
    return evidence.why_no_case(source, metric.stage, kernel, target, workload)


def _delta(left: Cell, right: Cell) -> Cell:
    """Return CuTe minus cuTile; missing unless both sides have the same kind of value."""
    unit = left.unit
    for cell in (left, right):
        if cell.kind == "missing":
            return _missing(unit, cell.reason or "")
    kinds = {left.kind, right.kind}
    if unit == "µs" and ("static" in kinds or len(kinds) > 1):
        return _missing(unit, "both times must be measured or both predicted")
    if unit == "%" and len(kinds) > 1:
        return _missing(unit, f"one side is {left.kind}, the other {right.kind}")
    assert left.value is not None and right.value is not None
    return Cell(right.value - left.value, unit, left.kind if len(kinds) == 1 else "static", None, None)


def _baselines(evidence: Evidence, source: Source, target: str, workload: str) -> list[Baseline]:
    """Return times of kernels in neither DSL, such as PyTorch's attention."""
    baselines = []
    for (kernel, where), decision in evidence.decisions.items():
        if where != target or decision.dsl in DSLS:
            continue
        if (kernel, target, workload) not in evidence.variants:
            continue
        variant = _fastest(evidence, source, kernel, target, workload)
        case = evidence.case(source, "timing", kernel, target, variant, workload)
        if _measured(METRICS[0], source, case):
            where_from = (source, kernel, target, workload, case)
            cells = {
                m.key: _measured(m, source, case) or _missing(m.unit, _why_missing(evidence, m, *where_from))
                for m in METRICS
                if m.stage == "timing"
            }
            day, commit = _made(evidence, source, target, workload, kernel, variant)
            baselines.append(Baseline(kernel, decision.dsl, day, commit, **cells))
    return baselines
