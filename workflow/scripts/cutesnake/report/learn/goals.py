"""config/learning.yaml: goals, paths, and which builds of the plan they need."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cutesnake.model.case_id import CaseId
from cutesnake.model.inputs import InputError, check_input
from cutesnake.model.targets import TARGETS
from cutesnake.planning import strict_yaml
from cutesnake.report.learn.questions import QUESTIONS

WHOLE = "learn"  # the page of all goals; those of paths are named learn_path_<path>


class GoalError(ValueError):
    """A learning.yaml that cannot be read, or names a question that there is not. One line."""


def read_goals(path: Path | str) -> dict[str, Any]:
    """Goals and paths. Raises GoalError."""
    try:
        found = strict_yaml.read(Path(path), "config/learning.yaml")
        check_input("learning", found, "config/learning.yaml")
    except (strict_yaml.YamlError, InputError) as error:
        raise GoalError(str(error)) from error
    for place in (*found["goals"], *found["paths"].values()):
        unknown = [name for name in place["questions"] if name not in QUESTIONS]
        if unknown:
            raise GoalError(f"config/learning.yaml: no question {unknown[0]!r}; there are {', '.join(QUESTIONS)}")
    return found


def kernels_of(goals: dict[str, Any], page: str) -> list[str]:
    """Kernels that a page needs, as operator/kernel, in reading order, each once."""
    if page == WHOLE:
        return list(dict.fromkeys(kernel for goal in goals["goals"] for kernel in goal["kernels"]))
    path = goals["paths"][page.removeprefix(f"{WHOLE}_path_")]
    return list(dict.fromkeys(step["kernel"] for step in path["steps"]))


def pages(goals: dict[str, Any]) -> list[str]:
    """Names of all pages: the whole, and one per path."""
    return [WHOLE, *(f"{WHOLE}_path_{name}" for name in goals["paths"])]


def chosen_build(keys: Iterable[str], kernel: str) -> str | None:
    """The build of a kernel that is shown: of the newest target that the simulator stands for; None without any."""
    builds = [CaseId.parse(key) for key in keys]
    mine = [build for build in builds if f"{build.operator}/{build.kernel}" == kernel]
    order = [target for target, facts in reversed(TARGETS.items()) if facts.simulated_processors]
    chosen = min(mine, key=lambda build: order.index(build.target) if build.target in order else 99, default=None)
    return chosen.key if chosen else None
