"""Pages for learners: goals or a path, kernels in order, questions with folded answers."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cutesnake.model import record
from cutesnake.model.case_id import CaseId
from cutesnake.model.inputs import Learning, LearningPair, LearningPath
from cutesnake.model.records.anatomy import Anatomy
from cutesnake.model.records.correctness import Correctness
from cutesnake.model.targets import TARGETS
from cutesnake.report import html
from cutesnake.report.formatting import named
from cutesnake.report.learn import concepts, handover
from cutesnake.report.learn.exercises import OUTCOMES
from cutesnake.report.learn.goals import WHOLE, read_goals
from cutesnake.report.learn.questions import CONCEPTS, answers, by_warps
from cutesnake.report.learn.timelines import drawn
from cutesnake.stages.anatomy.page import render as render_kernel
from cutesnake.stages.anatomy.record import anatomy_of

RESULTS = Path("results")
TEMPLATE = "learn_concepts_{}.html.j2"  # of a path


@dataclass(frozen=True)
class Asked:
    """Inputs of a page: name, goals, and per kernel its build, problems and checks."""

    page: str
    goals: Learning
    builds: Mapping[str, tuple[str, list[dict[str, Any]]]]  # operator/kernel -> (build key, problems)
    checks: Mapping[str, list[str]]  # build key -> its correctness records
    own: Sequence[str]  # the user's own kernels in the plan
    # operator/kernel -> record of its predicted small problem; target -> GPU of ptxsim that is predicted for.
    timelines: Mapping[str, str] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Answer:
    """A question about a kernel; concept: the section of path A that explains it."""

    question: str
    reply: str
    why: str
    concept: str | None


@dataclass
class Step:
    """A kernel on a page; repeated: an earlier kernel -> questions that have its answers."""

    name: str
    why: str
    link: str | None = None
    build: str | None = None
    patterns: Sequence[str] = ()
    answers: list[Answer] = field(default_factory=list)
    repeated: dict[str, list[str]] = field(default_factory=dict)
    checks: Sequence[Correctness] = ()


def write(goals: str, output: str, folder: str, **fields: Any) -> None:
    """Write the page that `fields` of Asked describe, and its anatomy pages in `folder`.

    Raises RecordError for a damaged record, and ShareError for a page that names this machine.
    """
    asked, path, pages = Asked(goals=read_goals(goals), **fields), Path(output), Path(folder)
    anatomies: dict[str, Anatomy] = {}
    pages.mkdir(parents=True, exist_ok=True)
    for kernel, (key, problems) in asked.builds.items():
        target = CaseId.parse(key).target
        made = anatomy_of(RESULTS / "compile" / key, problems, TARGETS[target].simulated_processors)
        anatomies[kernel] = record.convert("anatomy", made, key)
        page = render_kernel([anatomies[kernel]], RESULTS, [("learn", f"../../{path.name}")])
        html.write(page, pages / f"{kernel.replace('/', '-')}.html")
    timelines = {
        kernel: drawn(record.read("predict", timeline), kernel.rpartition("/")[2], kernel.replace("/", "-"))
        for kernel, timeline in asked.timelines.items()
        if kernel in anatomies
    }
    page = render(asked, anatomies, pages.relative_to(path.parent).as_posix(), timelines)
    html.write(page, path, sorted(pages.glob("*.html")))


def render(
    asked: Asked, anatomies: Mapping[str, Anatomy], folder: str, timelines: Mapping[str, Any] | None = None
) -> str:
    """Return the page.

    folder: relative folder of the kernels' pages. timelines: what `drawn` returns, by kernel.
    """
    whole = asked.page == WHOLE
    anatomies = {kernel: by_warps(one) for kernel, one in anatomies.items()}
    path = None if whole else asked.goals.paths[asked.page.removeprefix(f"{WHOLE}_path_")]
    sections = _goals(asked, anatomies, folder) if path is None else [_path(asked, path, anatomies, folder)]
    _explain_once(step for _, steps in sections for step in steps)
    name = asked.page.removeprefix(f"{WHOLE}_path_")
    return html.template("learn.html.j2").render(
        **html.look(),
        title="Reading guide for kernels" if path is None else path.name,
        whole=whole,
        paths=list(asked.goals.paths.items()),
        here=asked.page,
        sections=sections,
        why_failed=_why_failed,
        timelines=timelines or {},
        pairs=_pairs(asked, anatomies) if whole else [],
        concepts=_concepts(asked, name, anatomies) if name in concepts.EXAMPLES else None,
    )


def _concepts(asked: Asked, path: str, anatomies: Mapping[str, Anatomy]) -> dict[str, Any] | None:
    """Return a path's concepts as their template shows them; None without a fitting kernel."""
    facts = concepts.EXAMPLES[path](anatomies)
    if facts is None:
        return None
    shown = {
        "template": TEMPLATE.format(path),
        "facts": facts,
        "outcome_texts": OUTCOMES,
        "exercises": [one for one in asked.goals.exercises.values() if one.path == path],
    }
    if path != "a":
        return shown
    target = CaseId.parse(asked.builds[facts["deep"].kernel][0]).target
    return shown | {
        "ends": [(name, *(r for _, r, _ in answers(one, ["roles", "drain"]))) for name, one in anatomies.items()],
        "named": {name: _named_barriers(one) for name, one in anatomies.items()},
        "clock": concepts.clock(facts["deep"], asked.devices[target]) if target in asked.devices else None,
        "handover": handover.listing(),
        "outcomes": handover.outcomes(),
    }


def _named_barriers(anatomy: Anatomy) -> list[str]:
    """Return the named barriers of the main function: number, threads, roles."""
    used = [b for function in anatomy.functions[:1] for b in function.named_barriers or []]
    return [f"{b.number}: {', '.join(map(str, b.threads))} ({', '.join(b.roles)})" for b in used]


def _explain_once(steps: Iterable[Step]) -> None:
    """Keep each sentence of the reasons only where the page has it first."""
    known: set[str] = set()
    for one in (answer for step in steps for answer in step.answers):
        fresh = [sentence for sentence in one.why.split(". ") if sentence.removesuffix(".") not in known]
        one.why = ". ".join(fresh)
        known.update(sentence.removesuffix(".") for sentence in fresh)


def _goals(asked: Asked, anatomies: Mapping[str, Anatomy], folder: str) -> list[tuple[str, list[Step]]]:
    goals = [(goal.name, goal.kernels, goal.questions) for goal in asked.goals.goals]
    if asked.own:
        goals.append(("Your kernels", list(asked.own), ["roles", "pipelines", "shared", "boundary"]))
    return [
        (name, [_kernel(asked, kernel, "", questions, anatomies, folder) for kernel in kernels])
        for name, kernels, questions in goals
    ]


def _path(asked: Asked, path: LearningPath, anatomies: Mapping[str, Anatomy], folder: str) -> tuple[str, list[Step]]:
    steps = [_kernel(asked, s.kernel, s.why, path.questions, anatomies, folder) for s in path.steps]
    known: dict[str, tuple[str, str]] = {}  # question -> the last kernel with an answer that is shown, and that
    for step in steps:
        fresh = []
        for one in step.answers:
            kernel, reply = known.get(one.question, ("", None))
            if reply == (plain := _LINES.sub("", one.reply)):
                step.repeated.setdefault(kernel, []).append(one.question)
            else:
                fresh.append(one)
                known[one.question] = step.name, plain
        step.answers = fresh
    return path.name, steps


_LINES = re.compile(r" \([^()]*\.py:\d+[^()]*\)")  # of the source, behind an answer


def _kernel(
    asked: Asked, kernel: str, why: str, questions: list[str], anatomies: Mapping[str, Anatomy], folder: str
) -> Step:
    """Return a step: kernel, link, questions with answers, and simulated checks."""
    if kernel not in anatomies:
        return Step(kernel, why)
    key, _ = asked.builds[kernel]
    build = CaseId.parse(key)
    replies = zip(questions, answers(anatomies[kernel], questions), strict=True)
    return Step(
        name=kernel,
        why=why,
        link=f"{folder}/{kernel.replace('/', '-')}.html",
        build=f"{build.target}/{build.variant}",
        patterns=[name for f in anatomies[kernel].functions[:1] for name, p in f.patterns.items() if p.present],
        answers=[Answer(*reply, CONCEPTS.get(name)) for name, reply in replies],
        checks=[record.read("correctness", path) for path in asked.checks.get(key, [])],
    )


def _pairs(asked: Asked, anatomies: Mapping[str, Anatomy]) -> list[tuple[LearningPair, list[tuple[str, str, str]]]]:
    """Return the pairs of learning.yaml in this run, with rows of two answers."""
    pairs = []
    for pair in asked.goals.pairs:
        if all(kernel in anatomies for kernel in pair.kernels):
            columns = [answers(anatomies[kernel], pair.questions) for kernel in pair.kernels]
            pairs.append((pair, [(left[0], left[1], right[1]) for left, right in zip(*columns, strict=True)]))
    return pairs


_FETCHED = re.compile(r"results/fetch/(?:[^/\s]+/)+")  # folders of a fetched file


def _why_failed(check: Correctness) -> str:
    return _FETCHED.sub("", named(check.case.workload, check.reason or ""))
