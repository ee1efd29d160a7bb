"""Records as tables for the plots."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pandas

from cutesnake.analysis.evidence.gather import Evidence, Source
from cutesnake.model import record
from cutesnake.report.palette import Look, looks
from cutesnake.report.plot.style import NothingToShow

NEARLY_ALL = 0.8  # share of the workloads
NUMBERS = ("registers_per_thread", "spill_bytes", "static_shared_bytes", "dynamic_shared_bytes")


def sizes(evidence: Evidence) -> list[str]:
    """Return the varying integer parameters: the operator's axis first, then by number of values."""
    values: dict[str, set[Any]] = {}
    for parameters in evidence.workloads.values():
        for key, value in parameters.items():
            if isinstance(value, int) and not isinstance(value, bool):
                values.setdefault(key, set()).add(value)
    varying = {key: len(seen) for key, seen in values.items() if len(seen) > 1}
    return sorted(varying, key=lambda key: (key != evidence.plan.axis.field, -varying[key]))


def differing(evidence: Evidence) -> list[str]:
    """Return the parameters of any type that vary over the workloads."""
    rows = [list(parameters.items()) for parameters in evidence.workloads.values()]
    return [key for key, value in rows[0] if any((key, value) not in other for other in rows)] if rows else []


def name_of(evidence: Evidence, field: str) -> str:
    """Return a field's display name, the axis with its unit: `KV length (tokens)`."""
    axis = evidence.plan.axis
    return axis.label if field == axis.field else field.replace("_", " ")


def short_name_of(evidence: Evidence, field: str) -> str:
    """Return a field's display name without its unit: `KV length`."""
    return re.sub(r"\s*\([^)]*\)", "", name_of(evidence, field))


def kernel_looks(evidence: Evidence) -> dict[str, Look]:
    """Return colour and marker of every kernel, in plan order."""
    return looks({kernel: decision.dsl for (kernel, _), decision in evidence.decisions.items()})


def labels(evidence: Evidence, brief: bool = False) -> dict[str, str]:
    """Label each workload by what varies besides its dtype, uniquely per dtype.

    Example: `batch 32, kv length 4096, causal`. Booleans appear if true, other non-numeric values if they differ from
    most workloads. `brief` also drops numbers that nearly all workloads share; `unsaid` lists them.
    """
    varying = [key for key in differing(evidence) if key != "dtype"]
    usual, left_out = _usual(evidence, varying), _left_out(evidence) if brief else {}

    def describe(key: str, value: Any) -> list[str]:
        name = short_name_of(evidence, key)
        if isinstance(value, bool):
            return [name] if value else []
        named = value != usual[key] or (isinstance(value, int) and key not in left_out)
        return [f"{name} {value}"] if named else []

    return {
        workload: ", ".join(word for key in parameters if key in varying for word in describe(key, parameters[key]))
        or workload
        for workload, parameters in evidence.workloads.items()
    }


def unsaid(evidence: Evidence) -> str:
    """Return a sentence on the values that brief labels leave out, or an empty string."""
    left_out = [f"{short_name_of(evidence, key)} {value}" for key, value in _left_out(evidence).items()]
    return f" Unless a label says otherwise: {', '.join(left_out)}." if left_out else ""


def _left_out(evidence: Evidence) -> dict[str, int]:
    """Return parameter -> value that nearly all workloads share, except the axis."""
    keys = [key for key in differing(evidence) if key not in ("dtype", evidence.plan.axis.field)]
    workloads = evidence.workloads.values()
    return {
        key: value
        for key, value in _usual(evidence, keys).items()
        if isinstance(value, int) and not isinstance(value, bool)
        if sum(w[key] == value for w in workloads) / len(workloads) >= NEARLY_ALL
    }


def _usual(evidence: Evidence, keys: Iterable[str]) -> dict[str, Any]:
    """Return parameter -> its most frequent value."""
    return {key: Counter(w[key] for w in evidence.workloads.values()).most_common(1)[0][0] for key in keys}


def times(evidence: Evidence, source: Source, target: str) -> pandas.DataFrame:
    """Return a row per kernel and workload, with the fastest variant's cold time.

    Columns: time (µs), spread (%), floor (µs), FLOPs and intensity. Raises NothingToShow without times.
    """
    rows = []
    for entry in evidence.records(source, "timing"):
        case, metrics = entry.case, entry.metrics
        if case.target != target or case.workload not in evidence.workloads or metrics is None:
            continue
        floor = evidence.floor(case.workload, target, source.device)
        rows.append(
            {
                **{"kernel": case.kernel, "dsl": case.dsl, "workload": case.workload},
                **evidence.workloads[case.workload],
                **{"cold_us": metrics.cold_us, "spread_percent": metrics.spread_percent},
                **{"floor_us": floor and floor.floor_us, "flops": floor and floor.flops},
                "intensity": floor and floor.intensity,
            }
        )
    if not rows:
        raise NothingToShow(f"no kernel for {target} was timed on {source.device}")
    table = pandas.DataFrame(rows).sort_values("cold_us", kind="stable")
    return table.drop_duplicates(["kernel", "workload"]).sort_values(["kernel", "workload"], ignore_index=True)


def functions(evidence: Evidence) -> pandas.DataFrame:
    """Return the main device function of each inspected build; raise NothingToShow without any."""
    rows = []
    for path in sorted(evidence.inspected):
        entry = evidence.inspected[path]
        if entry.status != "ok" or not entry.functions:
            continue
        rows.append(
            {
                **{"kernel": entry.kernel, "dsl": entry.dsl, "target": entry.target, "variant": entry.variant.id},
                **record.plain(entry.functions[0]),
            }
        )
    if not rows:
        raise NothingToShow("no build of this operator has static values")
    table = pandas.DataFrame(rows)
    for column in NUMBERS:
        table[column] = pandas.to_numeric(table[column])  # unknown values become NaN
    return table.sort_values(["target", "dsl", "kernel", "variant"], ignore_index=True)


def merged(table: pandas.DataFrame, columns: list[str]) -> pandas.DataFrame:
    """Merge builds of a kernel and target that agree in `columns`; `build` names them."""
    rows = []
    for (kernel, target), group in table.groupby(["kernel", "target"], sort=False):
        keys = group[columns].map(str).agg("|".join, axis=1)
        for _, same in group.groupby(keys, sort=False):
            variants = same["variant"].tolist()
            name = variants[0] if len(variants) == 1 else f"{len(variants)} equal builds"
            rows.append({**same.iloc[0].to_dict(), "build": f"{kernel} · {target} · {name}"})
    lines = pandas.DataFrame(rows)
    again = lines.duplicated("build", keep=False)  # groups of equal size: add their first variant
    lines.loc[again, "build"] += ", " + lines.loc[again, "variant"] + " …"
    return lines
