"""Timeline: the kernels of one call of an operator in the order in which the card ran them (nsys)."""

from __future__ import annotations

from matplotlib import pyplot

from cutesnake.evidence import Evidence, Source
from cutesnake.plot.data import label
from cutesnake.plot.style import HATCHES, INK, SERIES, Drawing, NothingToShow, styled

LONGEST_NAME = 34


def draw_timeline(evidence: Evidence, source: Source, target: str) -> Drawing:
    """One row per profiled case; a block per launch, named by its symbol."""
    cases = [
        entry
        for entry in evidence.records(source, "nsys")
        if entry["case"]["target"] == target and entry["metrics"].get("kernels")
    ]
    if not cases:
        raise NothingToShow(f"nsys has no record for {target} on {source.device}")
    cases.sort(key=lambda e: (e["case"]["workload"], e["case"]["kernel"]))
    said = []
    with styled():
        figure, axis = pyplot.subplots(figsize=(9.2, 1.2 + 0.5 * len(cases)), layout="constrained")
        for row, entry in enumerate(cases):
            launches = _one_call(entry["metrics"]["kernels"])
            start = launches[0]["start_us"]
            for place, launch in enumerate(launches):
                i = place % len(SERIES)
                axis.barh(
                    row,
                    launch["duration_us"],
                    left=launch["start_us"] - start,
                    height=0.5,
                    color=SERIES[i],
                    hatch=HATCHES[i],
                    linewidth=0,
                )
            names = " → ".join(f"{_short(k['name'])} {k['duration_us']:.1f} µs" for k in launches)
            axis.annotate(names, (0, row - 0.32), (1, 1), textcoords="offset points", fontsize=8)
            said.append(f"{_name(evidence, entry)}: {names}")
        axis.set_yticks(range(len(cases)), [_name(evidence, entry) for entry in cases])
        axis.set(xlabel="µs since the start of the first kernel", xlim=(0, None), ylim=(len(cases) - 0.5, -0.7))
        axis.tick_params(axis="y", length=0, labelcolor=INK)
        axis.spines["left"].set_visible(False)
    return Drawing(
        figure,
        "Kernels of one call. " + ". ".join(said) + ".",
        "Blocks in the order of their launches; a gap is time in which the card ran nothing of this call.",
    )


def _name(evidence: Evidence, entry: dict) -> str:
    case = entry["case"]
    size = label(evidence, case["workload"]) if case["workload"] in evidence.workloads else case["workload"]
    return f"{case['kernel']}\n{size}, {case['parameters'].get('dtype', '')}".rstrip(", ")


def _one_call(kernels: list[dict]) -> list[dict]:
    """Launches of the last recorded call, which is the warmest, in the order in which they started."""
    last = max(kernel.get("call") or 0 for kernel in kernels)
    return sorted((k for k in kernels if (k.get("call") or 0) == last), key=lambda kernel: kernel["start_us"])


def _short(symbol: str) -> str:
    return symbol if len(symbol) <= LONGEST_NAME else f"{symbol[: LONGEST_NAME - 1]}…"
