"""Predicted pipeline of one kernel: work and waits of warps, copies and products in flight."""

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from cutesnake.analysis.evidence.gather import Evidence
from cutesnake.model.records.predict import PredictMetrics, Span, Timeline, Track
from cutesnake.report.plot.data import labels
from cutesnake.report.plot.style import INK, LINE, SERIES, SOFT, WIDTH, Drawing, NothingToShow, styled
from cutesnake.report.plot.timeline import short_name

MOST_TRACKS = 40
MOST_SPANS = 500  # more are indistinguishable and slow on phones
HEIGHT = 0.72
# Height and hatch distinguish kinds in print, colour also on screen.
LOOKS = {
    "work": ("work", HEIGHT, INK, ""),
    "wait": ("wait at a barrier", HEIGHT / 6, SOFT, ""),
    "copy": ("loads", HEIGHT, SERIES[0], "////"),
    "store": ("stores", HEIGHT, SERIES[2], "\\\\\\\\"),
    "product": ("products", HEIGHT, SERIES[1], "xxxx"),
}


def kernels_with_pipelines(evidence: Evidence) -> list[str]:
    """Return the kernels with a prediction, in plan order."""
    predicted = {entry.case.kernel for entry in evidence.predicted.values() if entry.status == "ok"}
    return list(dict.fromkeys(kernel for kernel, _ in evidence.decisions if kernel in predicted))


def draw_pipeline(evidence: Evidence, kernel: str) -> Drawing:
    """Draw the largest workload's predicted pipeline, a row per warp and engine."""
    every = [
        (entry.case, entry.metrics)
        for entry in evidence.predicted.values()
        if entry.case.kernel == kernel and entry.status == "ok" and entry.metrics
    ]
    entries = [(case, metrics) for case, metrics in every if metrics.timeline.tracks]
    if not entries:
        raise NothingToShow("recorded predictions have no timeline" if every else "nothing was predicted")
    case, metrics = max(entries, key=lambda one: one[1].cold_us)
    return draw_timeline(kernel, metrics, labels(evidence).get(case.workload, case.workload))


def draw_timeline(kernel: str, metrics: PredictMetrics, size: str) -> Drawing:
    """Draw the timeline of a prediction; `size` names the workload. Raises NothingToShow without one."""
    timeline = metrics.timeline
    tracks = [track for track in timeline.tracks if track.spans and "CTA 0" in track.name][:MOST_TRACKS]
    if not tracks:
        raise NothingToShow(f"the prediction of {kernel} has no timeline")
    tracks, begin, end = _readable([Track(track.name, _joined(track.spans)) for track in tracks], timeline)
    with styled():
        figure, axis = pyplot.subplots(figsize=(WIDTH, 1.0 + 0.24 * len(tracks)), layout="constrained")
        for row, track in enumerate(tracks):
            _track(axis, row, track.spans)
        axis.set_yticks(range(len(tracks)), [track.name.removeprefix("CTA 0 ") for track in tracks])
        axis.set(xlim=(begin, end), ylim=(len(tracks) - 0.4, -0.6))
        axis.set_xlabel("SM cycles since the start of the launch")
        axis.tick_params(axis="y", length=0, labelcolor=INK)
        axis.tick_params(axis="x", labelcolor=SOFT)
        kinds = {span[0] for track in tracks for span in track.spans}
        handles = [
            Patch(facecolor=colour, hatch=hatch, edgecolor=LINE, linewidth=0, label=name)
            for kind, (name, _, colour, hatch) in LOOKS.items()
            if kind in kinds
        ]
        figure.legend(handles=handles, loc="outside lower left", ncols=5)
    part = "all" if end - begin >= 0.99 * timeline.cycles else "the middle"
    return Drawing(
        figure,
        f"Predicted pipeline of {kernel} ({short_name(timeline.launch)}) at {size}: {_shares(tracks, end - begin)}.",
        f"Predicted, not measured: ptxsim's clock for an {metrics.device}. The plot shows {part} of the "
        f"{timeline.cycles:,.0f} cycles of a representative cluster's first CTA. Thin lines are waits.",
    )


def _track(axis: Axes, row: int, spans: list[Span]) -> None:
    for kind, (_, height, colour, hatch) in LOOKS.items():
        mine = [(span[1], span[2] - span[1]) for span in spans if span[0] == kind]
        band = (row - height / 2, height)
        axis.broken_barh(mine, band, facecolors=colour, hatch=hatch, edgecolor=LINE, linewidth=0)


def _joined(spans: list[Span]) -> list[Span]:
    """Merge spans of one kind that touch or overlap."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda span: (span[0], span[1])):
        kind, begin, end, what, line = joined[-1] if joined else span
        if joined and kind == span[0] and span[1] <= end:
            joined[-1] = (kind, begin, max(end, span[2]), what, line)
        else:
            joined.append(span)
    return joined


def _readable(tracks: list[Track], timeline: Timeline) -> tuple[list[Track], float, float]:
    """Cut the tracks to the middle MOST_SPANS spans; return them with begin and end."""
    begin, end = timeline.begin, timeline.end
    every = [span for track in tracks for span in track.spans]
    if len(every) > MOST_SPANS:
        middle = (begin + end) / 2
        reach = sorted(max(span[1] - middle, middle - span[2], 0.0) for span in every)[MOST_SPANS]
        begin, end = middle - reach, middle + reach
    cut = [
        Track(
            track.name,
            [
                (kind, max(start, begin), min(until, end), what, line)
                for kind, start, until, what, line in track.spans
                if until > begin and start < end
            ],
        )
        for track in tracks
    ]
    return cut, begin, end


def _shares(tracks: list[Track], length: float) -> str:
    """Format the busy share of each track."""
    parts = []
    for track in tracks:
        busy = _covered([(span[1], span[2]) for span in track.spans if span[0] != "wait"])
        parts.append(f"{track.name.removeprefix('CTA 0 ')} busy {100 * busy / length:.0f} %")
    return ", ".join(parts)


def _covered(spans: list[tuple[float, float]]) -> float:
    """Return the length of the union of spans."""
    total, until = 0.0, float("-inf")
    for begin, end in sorted(spans):
        total += max(0.0, end - max(begin, until))
        until = max(until, end)
    return total
