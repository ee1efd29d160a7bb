"""The functions under test for records as plain mappings.

Tests change keys, and read them, without building types.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable
from typing import Any

import msgspec

from cutesnake.analysis.change import change as change_stage
from cutesnake.analysis.change import verdict as verdicts
from cutesnake.analysis.compare import comparison, csv_table
from cutesnake.analysis.evidence import recorded_set
from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.model import record
from cutesnake.model.records.common import Origin, Part
from cutesnake.model.records.compare import CompareRow, Counts
from cutesnake.model.records.plot import PlotEntry
from cutesnake.model.records.roofline import RooflineRow
from cutesnake.model.records.timing import TimingMetrics
from cutesnake.report import comparison as tables_of
from cutesnake.report import coverage, findings, formatting, kernel_panels, matrix, page, plot, times
from cutesnake.report.page import Contents
from cutesnake.report.plot import data, overview, pipeline, speedup, timeline
from cutesnake.report.plot import times as drawn_times


def typed(value: Any) -> Any:
    """Records as their types, wherever they are in a value."""
    if isinstance(value, Evidence):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        rows = [one if isinstance(one, Part) else msgspec.convert(one, RooflineRow) for one in value.roofline]
        return Evidence(**{name: typed(one) for name, one in fields.items()} | {"roofline": rows})
    if isinstance(value, Contents):
        plots = [one if isinstance(one, Part) else msgspec.convert(one, PlotEntry) for one in value.plots]
        names = ("arch", "evidence", "comparison", "changes")
        parts = {name: typed(getattr(value, name)) for name in names}
        return dataclasses.replace(value, plots=plots, **parts)
    if isinstance(value, dict) and value.get("stage") in record.TYPES and "status" in value:
        return record.convert(value["stage"], plain(value), "a test's record")
    if isinstance(value, dict):
        return {key: typed(one) for key, one in value.items()}
    return [typed(one) for one in value] if isinstance(value, list) else value


def plain(value: Any) -> Any:
    """Records as mappings, wherever they are in a value."""
    if isinstance(value, Evidence):
        return Evidence(**{field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)})
    if isinstance(value, Part):
        return json.loads(msgspec.json.encode(value))
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items()}
    return type(value)(map(plain, value)) if type(value) in (list, tuple, set) else value


def _loose(function: Callable[..., Any], *kinds: Any) -> Callable[..., Any]:
    """`function` for plain records.

    `kinds` are the types of its first arguments that are no whole records.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        parts = [
            msgspec.convert(plain(one), kind) if kind else one for one, kind in zip(arguments, kinds, strict=False)
        ]
        values = [typed(one) for one in (*parts, *arguments[len(parts) :])]
        return plain(function(*values, **{key: typed(one) for key, one in named.items()}))

    return call


compare = _loose(comparison.compare)
every_row = _loose(comparison.every_row)
write_comparison = _loose(comparison.write_comparison)
to_csv = _loose(csv_table.to_csv, None, list[CompareRow])
reasons = _loose(csv_table.reasons, list[CompareRow])
change = _loose(change_stage.change)
change_to_csv = _loose(change_stage.to_csv)
unchanged = _loose(change_stage.unchanged)
verdict = _loose(verdicts.verdict, None, TimingMetrics, TimingMetrics)
standing = _loose(recorded_set.standing)
slim = _loose(recorded_set.slim)
read_set = _loose(recorded_set.read_set)
read_recorded = _loose(recorded_set.read_recorded)
front_findings = _loose(findings.findings)
unsupported_inputs = _loose(findings.unsupported_inputs)
view_matrix = _loose(matrix.matrix)
view_tables = _loose(tables_of.tables)
view_times = _loose(times.times)
summary = _loose(coverage.summary)
totals = _loose(coverage.totals)
sets = _loose(formatting.sets, list[Origin])
where = _loose(formatting.where, Origin)
state = _loose(formatting.state, Counts)
untested = _loose(kernel_panels.untested)
panels = _loose(kernel_panels.panels)
render = _loose(page.render)
write_overview = _loose(overview.write_overview)
draw_plots = _loose(plot.plot)


def thinned(result: Evidence) -> Evidence:
    """The typed evidence of a plot."""
    return plot.thinned(typed(result))


draw_times = _loose(drawn_times.draw_times)
draw_speedup = _loose(speedup.draw_speedup)
draw_timeline = _loose(timeline.draw_timeline)
draw_pipeline = _loose(pipeline.draw_pipeline)
sizes, labels, unsaid = _loose(data.sizes), _loose(data.labels), _loose(data.unsaid)
kernel_looks, functions, plotted_times = _loose(data.kernel_looks), _loose(data.functions), _loose(data.times)
