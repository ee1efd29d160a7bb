"""Pages for learners: goals or a path, kernels in order, questions with folded answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from markupsafe import Markup

from cutesnake.model import record
from cutesnake.model.case_id import CaseId
from cutesnake.model.records.predict import Predict
from cutesnake.model.targets import TARGETS
from cutesnake.report import html
from cutesnake.report.formatting import named
from cutesnake.report.learn.goals import WHOLE
from cutesnake.report.learn.questions import answers
from cutesnake.stages.anatomy.page import render as render_kernel
from cutesnake.stages.anatomy.record import anatomy_of
from cutesnake.stages.measure.case import Case

Record = dict[str, Any]
DEVICES = {"sm_90a": "h200", "sm_100a": "b200"}  # GPUs that ptxsim predicts times for


@dataclass(frozen=True)
class Asked:
    """Inputs of a page: name, goals, and per kernel its build, problems and checks."""

    page: str
    goals: Record
    builds: Mapping[str, tuple[str, list[Record]]]  # operator/kernel -> (build key, problems)
    checks: Mapping[str, list[str]]  # build key -> its correctness records
    own: Sequence[str]  # the user's own kernels in the plan


def write(asked: Asked, results: Path, output: Path, folder: Path) -> None:
    """Write the page, and a page of anatomy per kernel in `folder`.

    Raises RecordError for a damaged record, and ShareError for a page that names this machine.
    """
    anatomies: dict[str, Record] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for kernel, (key, problems) in asked.builds.items():
        target = CaseId.parse(key).target
        anatomies[kernel] = anatomy_of(results / "compile" / key, problems, TARGETS[target].simulated_processors)
        page = render_kernel([anatomies[kernel]], results, [("learn", f"../../{output.name}")])
        html.write(page, folder / f"{kernel.replace('/', '-')}.html")
    timelines = {} if asked.page == WHOLE else {kernel: _timeline(asked, kernel, results) for kernel in anatomies}
    page = render(asked, anatomies, folder.relative_to(output.parent).as_posix(), timelines)
    html.write(page, output, sorted(folder.glob("*.html")))


def render(
    asked: Asked, anatomies: Mapping[str, Record], folder: str, timelines: Mapping[str, Record | None] | None = None
) -> str:
    """Return the page.

    folder: relative folder of the kernels' pages. timelines: what `_timeline` returns, by kernel.
    """
    whole = asked.page == WHOLE
    path = None if whole else asked.goals["paths"][asked.page.removeprefix(f"{WHOLE}_path_")]
    sections = _goals(asked, anatomies, folder) if path is None else [_path(asked, path, anatomies, folder)]
    return html.template("learn.html.j2").render(
        **html.look(),
        title="Reading guide for kernels" if path is None else path["name"],
        whole=whole,
        paths=[(name, one) for name, one in asked.goals["paths"].items()],
        here=asked.page,
        sections=sections,
        timelines=timelines or {},
        pairs=_pairs(asked, anatomies) if whole else [],
    )


def _goals(asked: Asked, anatomies: Mapping[str, Record], folder: str) -> list[Record]:
    goals = [(goal["name"], goal["kernels"], goal["questions"]) for goal in asked.goals["goals"]]
    if asked.own:
        goals.append(("Your kernels", list(asked.own), ["roles", "pipelines", "shared", "boundary"]))
    return [
        {"name": name, "kernels": [_kernel(asked, kernel, "", questions, anatomies, folder) for kernel in kernels]}
        for name, kernels, questions in goals
    ]


def _path(asked: Asked, path: Record, anatomies: Mapping[str, Record], folder: str) -> Record:
    steps = [_kernel(asked, s["kernel"], s["why"], path["questions"], anatomies, folder) for s in path["steps"]]
    return {"name": path["name"], "kernels": steps}


def _kernel(
    asked: Asked, kernel: str, why: str, questions: list[str], anatomies: Mapping[str, Record], folder: str
) -> Record:
    """Return a step: kernel, link, questions with answers, and simulated checks."""
    if kernel not in anatomies:
        return {"name": kernel, "why": why, "link": None, "answers": [], "build": None, "checks": [], "patterns": []}
    key, _ = asked.builds[kernel]
    build = CaseId.parse(key)
    functions = anatomies[kernel]["functions"]
    patterns = [name for name, p in functions[0]["patterns"].items() if p["found"]] if functions else []
    return {
        "name": kernel,
        "why": why,
        "link": f"{folder}/{kernel.replace('/', '-')}.html",
        "answers": answers(anatomies[kernel], questions),
        "build": f"{build.target}/{build.variant}",
        "checks": [_check(record.plain(record.read("correctness", path))) for path in asked.checks.get(key, [])],
        "patterns": patterns,
    }


def _pairs(asked: Asked, anatomies: Mapping[str, Record]) -> list[Record]:
    """Return the pairs of learning.yaml in this run: names, and rows of two answers."""
    pairs = []
    for pair in asked.goals.get("pairs", []):
        if all(kernel in anatomies for kernel in pair["kernels"]):
            columns = [answers(anatomies[kernel], pair["questions"]) for kernel in pair["kernels"]]
            rows = [(left[0], left[1], right[1]) for left, right in zip(*columns, strict=True)]
            pairs.append({"kernels": pair["kernels"], "why": pair["why"], "rows": rows})
    return pairs


def _timeline(asked: Asked, kernel: str, results: Path) -> Record | None:
    """Return the predicted timeline of a kernel's small problem (svg, caption), or None without one."""
    from cutesnake.report.plot.pipeline import draw_timeline
    from cutesnake.report.plot.style import NothingToShow, to_svg
    from cutesnake.stages.predict.prediction import predict_case

    key, problems = asked.builds[kernel]
    build = CaseId.parse(key)
    if not problems or build.target not in DEVICES:
        return None
    variant = record.plain(record.read("compile", results / "compile" / key / "build.json"))["variant"]
    identity = (build.operator, build.kernel, build.target, variant, problems[0])
    settings = {"device": DEVICES[build.target]}
    case = Case("predict", *identity, str((results / "compile" / key).resolve()), settings)
    predicted = msgspec.convert(predict_case(case), Predict)
    if predicted.status != "ok" or predicted.metrics is None:
        return None
    try:
        drawing = draw_timeline(build.kernel, predicted.metrics, case.workload.id)
    except NothingToShow:
        return None
    svg = to_svg(drawing, f"timeline-{kernel.replace('/', '-')}", "Predicted timeline")
    return {"svg": Markup(svg), "caption": drawing.caption}


def _check(entry: Record) -> Record:
    workload = entry["case"]["workload"]
    reason = None if entry["status"] == "ok" else named(workload, entry["reason"])
    return {"workload": workload, "backend": entry["backend"], "reason": reason}
