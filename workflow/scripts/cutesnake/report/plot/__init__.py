"""Plot stage: one function per picture, one SVG file each, and a record that says what was drawn and what was not."""

from __future__ import annotations

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
from cutesnake.model.records.plot import Picture, Plot
from cutesnake.report.plot.instructions import draw_instructions
from cutesnake.report.plot.pipeline import draw_pipeline, kernels_with_pipelines
from cutesnake.report.plot.resources import draw_resources
from cutesnake.report.plot.roofline import draw_roofline
from cutesnake.report.plot.share import draw_share
from cutesnake.report.plot.speedup import draw_speedup
from cutesnake.report.plot.style import Drawing, NothingToShow, to_svg
from cutesnake.report.plot.timeline import draw_timeline
from cutesnake.report.plot.times import draw_times
from cutesnake.report.plot.validation import draw_validation
from cutesnake.runtime.job import listed
from cutesnake.stages.predict.validated import VALIDATION, Held, read_held

RECORD = "pictures.json"
MOST_DRAWN = 120  # workloads: more make a picture of metres
STATIC: dict[str, Callable[[Evidence], Drawing]] = {
    "roofline": draw_roofline,
    "resources": draw_resources,
    "instructions": draw_instructions,
}
MEASURED: dict[str, Callable[[Evidence, Source, str], Drawing]] = {
    "times": draw_times,
    "speedup": draw_speedup,
    "share": draw_share,
    "timeline": draw_timeline,
}
TITLES = {
    "roofline": "Roofline",
    "resources": "Resources per kernel",
    "instructions": "Instruction mix",
    "times": "Duration",
    "share": "Share of the roofline",
    "speedup": "CuTe against cuTile",
    "timeline": "Timeline of one call",
    "pipeline": "Predicted pipeline",
    VALIDATION: "Predicted against measured, on cards that measured",
}


def compare_and_plot(
    plan: str, records: Sequence[str], roofline: str, recorded: Sequence[str],
    held: str | Sequence[str], kept: str | Sequence[str], output: str, table: str, folder: str,
) -> None:  # fmt: skip
    """Write the comparison of an operator to `output` and `table`, and its pictures into `folder`.

    The other arguments are paths of what is known of the operator.
    """
    evidence = load_evidence(plan, records, roofline, recorded, listed(kept))
    write_comparison(evidence, output, table)
    plot(evidence, folder, read_held(listed(held)))


def plot(evidence: Evidence, folder: Path | str, held: Sequence[Held] = ()) -> Plot:
    """Draw every picture of an operator into `folder` and write the record of them there, last.

    `held` are the predictions that were held against cards: a picture of them goes with predictions. Raises RecordError
    or OSError; a picture with nothing to show is an entry with `file` null and its reason.
    """
    drawn = thinned(evidence)
    pictures = list(_pictures(drawn, Path(folder)))
    if len(drawn.workloads) < len(evidence.workloads):
        said = (
            f"{len(drawn.workloads)} of {len(evidence.workloads):,} workloads are drawn, evenly picked from the sweep."
        )
        pictures = [
            structs.replace(picture, caption=picture.caption and f"{picture.caption} {said}") for picture in pictures
        ]
    if evidence.predicted:
        draw = functools.partial(draw_validation, held)
        pictures.append(_picture(evidence, Path(folder), VALIDATION, None, draw))
    entry = Plot("ok", None, Provenance(), evidence.operator, pictures)
    files = [Path(folder, picture.file) for picture in pictures if picture.file]
    record.write("plot", Path(folder) / RECORD, entry, files=provenance.digests(files, folder))
    return entry


def thinned(evidence: Evidence) -> Evidence:
    """The same with as many workloads as pictures can show: the first, the last, and evenly picked ones between."""
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


def _pictures(evidence: Evidence, folder: Path) -> Iterator[Picture]:
    targets = dict.fromkeys(target for _, target in evidence.decisions)
    places = [(source, target) for target in targets for source in evidence.sources(target)]
    measured = [(source, target) for source, target in places if source.kind != "none"]
    for name, draw_measured in MEASURED.items():
        for source, target in measured:
            draw_here = functools.partial(draw_measured, evidence, source, target)
            yield _picture(evidence, folder, name, (source, target), draw_here)
        if not measured:
            yield _picture(evidence, folder, name, None, _no_measurements)
    for kernel in kernels_with_pipelines(evidence):
        yield _picture(evidence, folder, f"pipeline-{kernel}", None, functools.partial(draw_pipeline, evidence, kernel))
    for name, draw in STATIC.items():
        yield _picture(evidence, folder, name, None, functools.partial(draw, evidence))


def _no_measurements() -> Drawing:
    raise NothingToShow("nothing was measured on this machine, and no recorded device has this operator")


def _picture(
    evidence: Evidence, folder: Path, name: str, place: tuple[Source, str] | None, draw: Callable[[], Drawing]
) -> Picture:
    title = TITLES.get(name) or TITLES[name.partition("-")[0]]
    if name != VALIDATION:  # which is of all operators
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
        return Picture(file, title, device, None, None, None, str(why))
    record.write_text(folder / f"{file}.svg", to_svg(drawing, file, title))
    return Picture(file, title, device, f"{file}.svg", drawing.alt, drawing.caption, None)
