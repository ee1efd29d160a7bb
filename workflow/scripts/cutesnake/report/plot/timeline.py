"""Timeline of one call: its kernels in the GPU's execution order (nsys)."""

import re
from typing import NamedTuple

from matplotlib import pyplot
from matplotlib.axes import Axes

from cutesnake.analysis.evidence.gather import Evidence, Source
from cutesnake.model.records.common import Case
from cutesnake.model.records.nsys import Launched, NsysMetrics
from cutesnake.report.palette import Look
from cutesnake.report.plot.data import kernel_looks, labels
from cutesnake.report.plot.style import HATCHES, INK, SOFT, WIDTH, Drawing, NothingToShow, styled, tip
from cutesnake.stages.profile.timeline_check import busy_us

LONGEST_NAME = 34
HEIGHT = 0.42  # block height; row spacing is 1
SINGLE, BACK_TO_BACK = "lone", "back_to_back"  # values of a record; BACK_TO_BACK if an older record has none
OVERLAP_US = 0.5  # minimum overlap to show; CUPTI timestamps have about 0.1 us resolution
LONGEST_ROW = 130  # characters that fit a panel


class Timed(NamedTuple):
    """A case and its timeline."""

    case: Case
    metrics: NsysMetrics


def draw_timeline(evidence: Evidence, source: Source, target: str) -> Drawing:
    """Draw a panel per workload with a row per kernel and a block per launch.

    PyTorch's baseline, a dozen launches, is left out where another kernel exists: its gaps would dominate the scale.
    """
    cases = _cases(evidence, source, target)
    if not cases:
        raise NothingToShow(f"nsys has no record for {target} on {source.device}")
    left_out = _without_torch(cases)
    heights = [len(entries) for entries in cases.values()]
    size = (WIDTH, 0.4 + sum(0.42 * height + 0.62 for height in heights))
    with styled():
        ratios = [height + 0.6 for height in heights]
        figure, axes = pyplot.subplots(
            len(cases), figsize=size, squeeze=False, layout="constrained", height_ratios=ratios
        )
        for axis, entries in zip(axes.flat, cases.values(), strict=True):
            _panel(axis, entries, kernel_looks(evidence))
            axis.set_title(_size(evidence, entries[0].case))
        axes.flat[-1].set_xlabel("µs since the start of the first kernel of the call")
    row_texts = (
        f"{_size(evidence, entry.case)}, {entry.case.kernel}: {_names(_one_call(entry.metrics))}"
        for entries in cases.values()
        for entry in entries
    )
    return Drawing(
        figure,
        "Kernels of one call. " + ". ".join(row_texts) + ".",
        "Blocks in launch order; hatches separate neighbours. Gaps: the GPU ran nothing of this call. Half-height "
        "blocks: kernels that started early and overlap their predecessor (programmatic dependent launch). "
        f"Each panel has its own scale. The profiled variant may not be the fastest.{_which_call(cases)}{left_out}",
    )


def _cases(evidence: Evidence, source: Source, target: str) -> dict[str, list[Timed]]:
    """Return records with launches by workload, in sweep and plan order."""
    cases: dict[str, list[Timed]] = {}
    for entry in evidence.records(source, "nsys"):
        if entry.case.target == target and entry.metrics and entry.metrics.kernels:
            cases.setdefault(entry.case.workload, []).append(Timed(entry.case, entry.metrics))
    order, kernels = list(evidence.workloads), list(kernel_looks(evidence))
    return {
        workload: sorted(cases[workload], key=lambda entry: kernels.index(entry.case.kernel))
        for workload in sorted(cases, key=lambda name: (order.index(name) if name in order else len(order), name))
    }


def _which_call(cases: dict[str, list[Timed]]) -> str:
    """Say which of the profiled calls is drawn."""
    spacings = {_spacing(entry.metrics) for entries in cases.values() for entry in entries}
    text = ""
    if SINGLE in spacings:
        text = " The plot shows a single call on an otherwise idle GPU."
    if BACK_TO_BACK in spacings:
        older = " (older records)" if SINGLE in spacings else ""
        text += (
            f" Of back-to-back calls{older}, the plot shows the first, which started on an idle GPU. Later calls "
            "include the wait for their predecessor."
        )
    return text


def _spacing(metrics: NsysMetrics) -> str:
    return metrics.spacing or BACK_TO_BACK


def _without_torch(cases: dict[str, list[Timed]]) -> str:
    """Remove PyTorch's cases where others exist; return a sentence that says so."""
    counts = set()
    for workload, entries in cases.items():
        others = [entry for entry in entries if entry.case.dsl != "torch"]
        if others and len(others) < len(entries):
            torch = [entry for entry in entries if entry.case.dsl == "torch"]
            counts |= {len(_one_call(entry.metrics)) for entry in torch}
            cases[workload] = others
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    return f" PyTorch's baseline, {low if low == high else f'{low} to {high}'} launches per call, is not shown."


def _panel(axis: Axes, entries: list[Timed], looks: dict[str, Look]) -> None:
    calls = [_one_call(entry.metrics) for entry in entries]
    end = max(launch.end_us - call[0].start_us for call in calls for launch in call)
    for row, (entry, launches) in enumerate(zip(entries, calls, strict=True)):
        colour = looks[entry.case.kernel].colour
        start = launches[0].start_us
        for number, (launch, overlap) in enumerate(zip(launches, _overlaps(launches), strict=True)):
            (block,) = axis.barh(
                row + (HEIGHT / 4 if overlap else 0),
                launch.duration_us,
                left=launch.start_us - start,
                height=HEIGHT / 2 if overlap else HEIGHT,
                color=colour,
                hatch=HATCHES[number % 2],  # neighbours differ
                linewidth=0,
            )
            tip(block, f"{short_name(launch.name)}: {launch.duration_us:.1f} µs from {launch.start_us - start:.1f} µs")
        axis.annotate(
            _names(launches), (0, row - HEIGHT / 2), (1, 2.5), textcoords="offset points", fontsize=8.5, color=INK
        )
    axis.set_yticks(range(len(entries)), [entry.case.kernel for entry in entries])
    axis.set(xlim=(0, 1.02 * end), ylim=(len(entries) - 0.6, -0.75))
    axis.tick_params(axis="y", length=0, labelcolor=INK)
    axis.tick_params(axis="x", labelcolor=SOFT)
    axis.spines.left.set_visible(False)


def _names(launches: list[Launched]) -> str:
    """Format the launches with durations, or only their number and sum if too long."""
    overlaps = [f" ({overlap:.1f} overlap)" if overlap else "" for overlap in _overlaps(launches)]
    names = " → ".join(
        f"{short_name(launch.name)} {launch.duration_us:.1f} µs{more}"
        for launch, more in zip(launches, overlaps, strict=True)
    )
    return names if len(names) <= LONGEST_ROW else f"{len(launches)} launches, {busy_us(launches):.1f} µs in all"


def _size(evidence: Evidence, case: Case) -> str:
    size = labels(evidence).get(case.workload, case.workload)
    return f"{size}, {case.parameters.get('dtype', '')}".rstrip(", ")


def _one_call(metrics: NsysMetrics) -> list[Launched]:
    """Return the launches of one call in start order.

    Of single calls the last is used, since it is the warmest. Of back-to-back calls the first is used, the only one
    that did not wait for another call.
    """
    numbers = {kernel.call for kernel in metrics.kernels}
    chosen = max(numbers) if _spacing(metrics) == SINGLE else min(numbers)
    return sorted((k for k in metrics.kernels if k.call == chosen), key=lambda kernel: kernel.start_us)


def _overlaps(launches: list[Launched]) -> list[float]:
    """Return per launch its overlap with earlier launches in µs; 0 below OVERLAP_US."""
    overlaps, until = [], float("-inf")
    for launch in launches:
        overlap = min(until, launch.end_us) - launch.start_us
        overlaps.append(overlap if overlap >= OVERLAP_US else 0.0)
        until = max(until, launch.end_us)
    return overlaps


def short_name(symbol: str) -> str:
    """Return a device function's name without compiler decoration, shortened in the middle.

    C++: return type, namespaces, template arguments and parameters are removed. CuTe DSL mangles a prefix, the
    function's name, the package's path (`kernels…`, without separators) and all argument types: path and types are
    removed.
    """
    name = re.sub(r"<unnamed>|\(anonymous namespace\)", "", symbol)
    name = re.split(r"[<(]", name.removeprefix("void "))[0].split("::")[-1].strip() or symbol
    name = re.split(r"_object_at_|_tensorptr|_kernels(?=[a-z])", name.replace("kernel_cutlass_", ""))[0]
    if len(name) <= LONGEST_NAME:
        return name
    half = (LONGEST_NAME - 1) // 2
    return f"{name[: LONGEST_NAME - 1 - half]}…{name[-half:]}"
