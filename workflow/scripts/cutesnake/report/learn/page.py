"""Pages for learners: goals or a path, kernels in order, questions with folded answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutesnake.model import record
from cutesnake.model.case_id import CaseId
from cutesnake.model.targets import TARGETS
from cutesnake.report import html
from cutesnake.report.formatting import named
from cutesnake.report.learn.goals import WHOLE
from cutesnake.report.learn.questions import answers
from cutesnake.stages.anatomy.page import render as render_kernel
from cutesnake.stages.anatomy.record import anatomy_of

Record = dict[str, Any]


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
    page = render(asked, anatomies, folder.relative_to(output.parent).as_posix())
    html.write(page, output, sorted(folder.glob("*.html")))


def render(asked: Asked, anatomies: Mapping[str, Record], folder: str) -> str:
    """Return the page; `folder` is the relative folder of the kernels' pages."""
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


def _check(entry: Record) -> Record:
    workload = entry["case"]["workload"]
    reason = None if entry["status"] == "ok" else named(workload, entry["reason"])
    return {"workload": workload, "backend": entry["backend"], "reason": reason}
