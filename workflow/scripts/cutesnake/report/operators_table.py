"""The table of operators: verdicts, or speedups where no verdict is recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cutesnake.analysis.summary import OperatorSummary
from cutesnake.analysis.verdict import sentences
from cutesnake.model.records.compare import OtherSpeed, Speed, Speedup
from cutesnake.model.records.verdict import Flag, TargetVerdict
from cutesnake.report.comparison import TIMES
from cutesnake.report.formatting import plural, short
from cutesnake.report.verdict import brief, flag_texts, result

View = dict[str, Any]  # data of a template
NOISE = 0.02  # a mean within this distance of 1 has no winner
FOLLOWS = (
    "few_workloads",
    "one_workload_decides",
    "spills",
    "untuned",
    "not_on_this_gpu",
)  # flags that the table names
MOST_FLAGS = 2


def table(summaries: Iterable[OperatorSummary], links: Mapping[str, str]) -> View:
    """Return the table of operators: a row per operator, a column per GPU.

    `rest` has the operators without a comparison.
    """
    known = {one.operator: one for one in summaries}
    lines = {operator: _line(known.get(operator)) for operator in links}
    gpus = dict.fromkeys(gpu for line in lines.values() for gpu in line["cells"])
    rows = [
        {**line, "operator": operator, "link": links[operator], "cells": [line["cells"].get(gpu) for gpu in gpus]}
        for operator, line in lines.items()
        if line["cells"]
    ]
    rest = [{"operator": operator, "link": links[operator]} for operator, line in lines.items() if not line["cells"]]
    return {"gpus": list(gpus), "rows": rows, "rest": rest}


def others(summary: Mapping[str, OperatorSummary], operators: Sequence[str], front: str) -> View:
    """Return the front page's table of the other operators."""
    return table(summary.values(), {name: f"report/{name}.html" for name in operators if name != front})


def _line(summary: OperatorSummary | None) -> View:
    if summary and summary.verdicts:
        return _of_verdicts(summary.verdicts)
    return _of_speedups(summary.speedups if summary else [])


def _of_verdicts(verdicts: Sequence[TargetVerdict]) -> View:
    cells: dict[str, View] = {}
    decided = [(one, main) for one in verdicts if (main := brief(one))]
    for one, main in decided:
        text, look = result(main)
        count = plural(main.workloads, "workload")
        cells[f"{one.gpu}, predicted" if one.predicted else one.gpu] = {
            "text": text,
            "class": look,
            "value": main.mean,
            "title": f"{sentences.decided(main, one.gpu)} {count}",
        }
    measured = [one for one, _ in decided if not one.predicted] or [one for one, _ in decided]
    flags: list[Flag] = [flag for one in measured for flag in one.flags if flag.id in FOLLOWS]
    rivals = [rival for one, main in decided if (rival := one.rival(main.figure))]
    other = rivals[0] if rivals else None
    slower = [f"both DSLs slower than {other.kernel}"] if other and other.beats_both else []
    return {
        "cells": cells,
        "workloads": max((main.workloads for _, main in decided), default=None),
        "other": {"kernel": other.kernel, "mean": other.mean} if other else None,
        "read": "; ".join([*slower, *flag_texts(flags)[:MOST_FLAGS]]),
    }


def _of_speedups(speedups: Sequence[Speedup]) -> View:
    timed = [(one, one.warm) for one in speedups if one.warm]
    cells = {short(one.device.device): _cell(warm) for one, warm in timed}
    best = min((other for one, _ in timed[:1] for other in one.others if other.warm), key=_mean, default=None)
    workloads = max((warm.workloads for _, warm in timed), default=None)
    split = [f"CuTe faster on {warm.faster}, cuTile on {warm.slower} of {warm.workloads}" for _, warm in timed[:1]]
    depends = any(cell["text"] == "Depends" for cell in cells.values())
    return {
        "cells": cells,
        "workloads": workloads,
        "other": {"kernel": best.kernel, "mean": _mean(best)} if best else None,
        "read": split[0] if depends else "few workloads" if workloads is not None and workloads < 3 else "",
    }


def _mean(other: OtherSpeed) -> float:
    return other.warm.mean if other.warm else 0.0


def _cell(speed: Speed) -> View:
    """Return a mean with its winner, if mean and most workloads agree."""
    title = f"{speed.least:.2f} to {speed.most:.2f}{TIMES}"
    if speed.mean > 1 + NOISE and speed.faster * 2 > speed.workloads:
        return {"text": f"CuTe DSL {speed.mean:.2f}{TIMES}", "class": "c", "value": speed.mean, "title": title}
    if speed.mean < 1 / (1 + NOISE) and speed.slower * 2 > speed.workloads:
        return {"text": f"cuTile {1 / speed.mean:.2f}{TIMES}", "class": "t", "value": speed.mean, "title": title}
    return {"text": "Depends", "class": "", "value": speed.mean, "title": title}
