"""The table of operators: who wins on each GPU."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cutesnake.analysis.summary import OperatorSummary
from cutesnake.analysis.verdict import sentences
from cutesnake.model.records.verdict import Flag
from cutesnake.report.formatting import plural
from cutesnake.report.verdict import brief, flag_texts, result

View = dict[str, Any]  # data of a template
# Flags that the table names.
FOLLOWS = ("few_workloads", "one_workload_decides", "other_variants", "spills", "untuned")
MOST_FLAGS = 2


def table(summaries: Iterable[OperatorSummary], links: Mapping[str, str]) -> View:
    """Return a row per operator, a column per GPU; `rest`: operators without comparison."""
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
    cells: dict[str, View] = {}
    decided = [(one, main) for one in (summary.verdicts if summary else []) if (main := brief(one))]
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
        "read": "; ".join([*slower, *flag_texts(flags, "GPU")[:MOST_FLAGS]]),
    }
