"""Plot stage: one function and one SVG file per plot, and a record of all."""

import functools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from msgspec import structs

from cutesnake.analysis.compare.comparison import write_comparison
from cutesnake.analysis.evidence.gather import Evidence, Source, load_evidence
from cutesnake.model import provenance, record
from cutesnake.model.records.common import Provenance
from cutesnake.model.records.plot import Plot, PlotEntry
from cutesnake.report.plot.instructions import draw_instructions
from cutesnake.report.plot.pipeline import draw_pipeline, kernels_with_pipelines
from cutesnake.report.plot.resources import draw_resources
from cutesnake.report.plot.roofline import draw_roofline
from cutesnake.report.plot.speedup import draw_speedup
from cutesnake.report.plot.style import Drawing, NothingToShow, to_svg
from cutesnake.report.plot.timeline import draw_timeline
from cutesnake.report.plot.times import draw_times
from cutesnake.report.plot.validation import draw_validation
from cutesnake.runtime.job import listed
from cutesnake.stages.predict.validated import VALIDATION, ValidatedRow, read_validated

RECORD = "pictures.json"
MOST_DRAWN = 120  # workloads; more would make a plot unreadably long
STATIC: dict[str, Callable[[Evidence], Drawing]] = {
    "roofline": draw_roofline,
    "resources": draw_resources,
    "instructions": draw_instructions,
}
MEASURED: dict[str, Callable[[Evidence, Source, str], Drawing]] = {
    "times": draw_times,
    "speedup": draw_speedup,
    "timeline": draw_timeline,
}
TITLES = {
    "roofline": "Roofline",
    "resources": "Resources per kernel",
    "instructions": "Instruction mix",
    "times": "Duration",
    "speedup": "CuTe vs cuTile",
    "timeline": "Timeline of one call",
    "pipeline": "Predicted pipeline",
    VALIDATION: "Predicted vs measured times, on GPUs with measurements",
}


def compare_and_plot(
    plan: str, records: Sequence[str], roofline: str, recorded: Sequence[str],
    validation: str | Sequence[str], kept: str | Sequence[str], output: str, table: str, folder: str,
) -> None:  # fmt: skip
    """Write a comparison to `output`, `table`, plots into `folder`, from paths of records."""
    evidence = load_evidence(plan, records, roofline, recorded, listed(kept))
    write_comparison(evidence, output, table)
    plot(evidence, folder, read_validated(listed(validation)))


def plot(evidence: Evidence, folder: Path | str, validation: Sequence[ValidatedRow] = ()) -> Plot:
    """Draw all plots of an operator into `folder`, then write their record.

    `validation` holds predictions with measured times; they add a validation plot if the operator has predictions. A
    plot without data becomes an entry with `file` null and a reason. Raises RecordError or OSError.
    """
    drawn = thinned(evidence)
    entries = list(_entries(drawn, Path(folder)))
    if len(drawn.workloads) < len(evidence.workloads):
        note = (
            f"{len(drawn.workloads)} of {len(evidence.workloads):,} workloads are shown, picked evenly from the sweep."
        )
        entries = [structs.replace(entry, caption=entry.caption and f"{entry.caption} {note}") for entry in entries]
    if evidence.predicted:
        draw = functools.partial(draw_validation, validation)
        entries.append(_entry(evidence, Path(folder), VALIDATION, None, draw))
    plots_record = Plot("ok", None, Provenance(), evidence.operator, entries)
    files = [Path(folder, entry.file) for entry in entries if entry.file]
    record.write("plot", Path(folder) / RECORD, plots_record, files=provenance.digests(files, folder))
    return plots_record


def thinned(evidence: Evidence) -> Evidence:
    """Return the evidence with at most MOST_DRAWN workloads, picked evenly."""
    every = list(evidence.workloads)
    if len(every) <= MOST_DRAWN:
        return evidence
    picked = {every[place * (len(every) - 1) // (MOST_DRAWN - 1)] for place in range(MOST_DRAWN)}
    workloads = {workload: evidence.workloads[workload] for workload in every if workload in picked}
    return replace(
        evidence,
        plan=structs.replace(evidence.plan, workloads=workloads),
        roofline=[row for row in evidence.roofline if row.workload in picked],
    )


def _entries(evidence: Evidence, folder: Path) -> Iterator[PlotEntry]:
    targets = dict.fromkeys(target for _, target in evidence.decisions)
    places = [(source, target) for target in targets for source in evidence.sources(target)]
    measured = [(source, target) for source, target in places if source.kind != "none"]
    for name, draw_measured in MEASURED.items():
        for source, target in measured:
            draw_one = functools.partial(draw_measured, evidence, source, target)
            yield _entry(evidence, folder, name, (source, target), draw_one)
        if not measured:
            yield _entry(evidence, folder, name, None, _no_measurements)
    for kernel in kernels_with_pipelines(evidence):
        yield _entry(evidence, folder, f"pipeline-{kernel}", None, functools.partial(draw_pipeline, evidence, kernel))
    for name, draw in STATIC.items():
        yield _entry(evidence, folder, name, None, functools.partial(draw, evidence))


def _no_measurements() -> Drawing:
    raise NothingToShow("nothing was measured on this machine, and no recorded set has this operator")


def _entry(
    evidence: Evidence, folder: Path, name: str, place: tuple[Source, str] | None, draw: Callable[[], Drawing]
) -> PlotEntry:
    title = TITLES.get(name) or TITLES[name.partition("-")[0]]
    if name != VALIDATION:  # its plot covers all operators
        title += f": {evidence.operator}{name.partition('-')[2] and ', ' + name.partition('-')[2]}"
    slug = [name]
    device = None
    if place:
        device = evidence.label(place[0], "nsys" if name == "timeline" else "timing")
        title += f" on {device.device} ({place[1]})"
        slug += [device.kind, re.sub(r"\W+", "_", f"{device.device} {place[1]}".lower())]
    file = "-".join(slug)
    try:
        drawing = draw()
    except NothingToShow as why:
        return PlotEntry(file, title, device, None, None, None, str(why))
    record.write_text(folder / f"{file}.svg", to_svg(drawing, file, title))
    return PlotEntry(file, title, device, f"{file}.svg", drawing.alt, drawing.caption, None)
