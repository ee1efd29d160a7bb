"""Goals and reading paths of config/learning.yaml, and the builds that they need."""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from cutesnake.model.case_id import CaseId
from cutesnake.model.inputs import Goal, InputError, Learning, LearningPair, LearningPath, check_input
from cutesnake.model.targets import TARGETS
from cutesnake.planning import strict_yaml
from cutesnake.report.learn.questions import QUESTIONS

WHOLE = "learn"  # the page of all goals; pages of paths are named learn_path_<path>


class GoalError(ValueError):
    """One-line error: learning.yaml is unreadable or names an unknown question."""


def read_goals(path: Path | str) -> Learning:
    """Return goals and paths; raise GoalError."""
    try:
        goals = strict_yaml.read(Path(path), "config/learning.yaml")
        check_input("learning", goals, "config/learning.yaml")
        learning = msgspec.convert(goals, Learning)
    except (strict_yaml.YamlError, InputError) as error:
        raise GoalError(str(error)) from error
    places: list[Goal | LearningPath | LearningPair] = [*learning.goals, *learning.paths.values(), *learning.pairs]
    for place in places:
        unknown = [name for name in place.questions if name not in QUESTIONS]
        if unknown:
            raise GoalError(f"config/learning.yaml: unknown question {unknown[0]!r}; known: {', '.join(QUESTIONS)}")
    return learning


def kernels_of(goals: Learning, page: str) -> list[str]:
    """Return the kernels of a page as operator/kernel, in reading order, each once."""
    if page == WHOLE:
        places: list[Goal | LearningPair] = [*goals.goals, *goals.pairs]
        return list(dict.fromkeys(kernel for place in places for kernel in place.kernels))
    path = goals.paths[page.removeprefix(f"{WHOLE}_path_")]
    return list(dict.fromkeys(step.kernel for step in path.steps))


def pages(goals: Learning) -> list[str]:
    """Return the names of all pages: the page of all goals, and one per path."""
    return [WHOLE, *(f"{WHOLE}_path_{name}" for name in goals.paths)]


def chosen_build(keys: Iterable[str], kernel: str) -> str | None:
    """Return a kernel's build for the newest simulated target, or None."""
    builds = [CaseId.parse(key) for key in keys]
    mine = [build for build in builds if f"{build.operator}/{build.kernel}" == kernel]
    order = [target for target, facts in reversed(TARGETS.items()) if facts.simulated_processors]
    chosen = min(mine, key=lambda build: order.index(build.target) if build.target in order else 99, default=None)
    return chosen.key if chosen else None
