"""Exercises: one changed line of a real kernel each, and what ptxsim reports of it."""

import contextlib
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cutesnake.model import record
from cutesnake.model.catalog import load_kernel, make_workload
from cutesnake.model.inputs import LearningExercise
from cutesnake.model.paths import ROOT
from cutesnake.report import html
from cutesnake.report.learn.goals import read_goals
from cutesnake.report.learn.timelines import drawn
from cutesnake.stages.compile.compile import compile_build
from cutesnake.stages.fetch import fetched as fetched_package
from cutesnake.stages.measure.case import Case
from kernels.upstream.examples import FOLDER, SOURCE

FILE = "config/learning.yaml"
EXERCISES = Path("results/learn/exercises")
INDEX = "learn_break.html"
OUTCOMES = {
    "right": "is right: its result passes, and no check of ptxsim reports anything",
    "hangs": "hangs",
    "races": "races: it relies on an order that nothing enforces",
    "bounds": "accesses memory that does not belong to its tensors",
    "wrong": "ends with wrong numbers, and no order is violated",
    "refused": "does not compile",
}
SCHEDULES = ("random", "tma_late", "mma_late")
DEVICE = "b200"  # of ptxsim, for which kernels that are right are predicted
# A waiting warp in the message of a deadlock: CTA, first and last warp, what it waits for, and file and line.
WAITING = re.compile(
    r"CTA \(([\d, ]+)\) warps (\d+)\.\.(\d+) (?:for )?(.*?),? (?:at|near) PTX line \d+ "
    r"\((?:[^()\s]*/)?([^()/\s]+:\d+)\)"
)


class ExerciseError(ValueError):
    """One-line error: an exercise that does not fit its kernel."""


class Exercise(LearningExercise, kw_only=True):
    """A change of one line: `line`, at its `nth` match, becomes `to`.

    path: the reading path it belongs to. kernel: operator/kernel, built for sm_100a. workload: fields of the
    operator's Workload. file: below the folder of NVIDIA's examples. outcome: a key of OUTCOMES. known: a source line
    at which the unchanged kernel has a finding. why: the reason of the outcome.
    """

    name: str

    def number(self, text: str) -> int:
        """Return the index of the changed line; raise ExerciseError if none matches."""
        numbers = [n for n, line in enumerate(text.split("\n")) if re.search(self.line, line)]
        if len(numbers) <= (nth := self.nth or 0):
            raise ExerciseError(f"{FILE}: {self.name}: {self.file} has {len(numbers)} lines that match {self.line!r}")
        return numbers[nth]

    def edited(self, text: str) -> str:
        """Return the source with the changed line."""
        lines = text.split("\n")
        n = self.number(text)
        lines[n] = re.sub(self.line, self.to, lines[n])
        return "\n".join(lines)

    def change(self, text: str) -> dict[str, Any]:
        """Return number, text and new text of the changed line."""
        n = self.number(text)
        sources = {"before": text, "after": self.edited(text)}
        return {"line": n + 1} | {name: source.split("\n")[n].strip() for name, source in sources.items()}


@dataclass(frozen=True)
class Result:
    """Outcome of an edited kernel, a key of OUTCOMES, with the messages.

    timeline: of a kernel that is right, as predicted: `svg` and `caption`, or `missing`, the reason.
    """

    outcome: str
    messages: list[str]
    timeline: Mapping[str, Any] = field(default_factory=dict)

    @property
    def waits(self) -> list[tuple[str, str, str]]:
        """Return who waits, for what, and at which line, of a kernel that hangs."""
        text = next((m for m in self.messages if "; waiting: " in m), "").partition("; waiting: ")[2]
        rows = [
            (f"CTA ({m[1]}), warps {m[2]}-{m[3]}" if m[2] != m[3] else f"CTA ({m[1]}), warp {m[2]}", m[4], m[5])
            for m in WAITING.finditer(text)
        ]
        return [(who, what.partition(" (")[0].partition(",")[0], line) for who, what, line in rows]


def read_exercises(path: Path | str = ROOT / FILE) -> dict[str, Exercise]:
    """Return the exercises by name, in the order of the file; raise GoalError."""
    return {name: Exercise(name=name, **record.plain(one)) for name, one in read_goals(path).exercises.items()}


def fetched_source(exercise: Exercise, fetched: Path = ROOT / "results/fetch") -> str:
    """Return the unchanged source from the fetched wheel; raise FetchError without one."""
    return (fetched_package(SOURCE, fetched) / FOLDER / exercise.file).read_text(encoding="utf-8")


def copy_of(exercise: Exercise) -> Path:
    """Return the place of a reader's copy of the source."""
    return EXERCISES / exercise.name / Path(exercise.file).name


def work_folder(exercise: Exercise) -> Path:
    """Return the folder that an exercise is built in."""
    return EXERCISES / exercise.name / "work"


def run(exercise: Exercise, text: str, fetched: Path, folder: Path, timeline: bool = False) -> Result:
    """Compile and simulate the kernel with `text` as its source, below `folder`.

    fetched: the folder of fetched wheels, which stays as it is. timeline: predict that of a kernel that is right.
    """
    operator, kernel = exercise.kernel.split("/")
    variant = load_kernel(operator, kernel).variants(make_workload(operator, exercise.workload), "sm_100a")[0]
    shutil.rmtree(folder, ignore_errors=True)
    _mirror(fetched.absolute(), folder / "results/fetch", f"{SOURCE}/{FOLDER}/{exercise.file}", text)
    build = Path("results/compile", operator, kernel, "sm_100a", variant.id)
    with contextlib.chdir(folder):
        compile_build(operator, kernel, "sm_100a", variant, build)
        built = record.read("compile", build / "build.json")
        if built.status != "ok":
            return Result("refused", [str(built.reason)])
        identity = {"id": variant.id, "params": dict(variant.params)}
        result = _simulate(exercise, operator, kernel, identity, build)
        if result.outcome != "right" or not timeline:
            return result
        parameters = asdict(make_workload(operator, exercise.workload))
        case = Case("predict", operator, kernel, "sm_100a", identity, parameters, str(build), {"device": DEVICE})
        return replace(result, timeline=predicted_timeline(case, exercise.name))


def predicted_timeline(case: Case, name: str) -> dict[str, Any]:
    """Return a case's predicted timeline, as `Result` has it."""
    from cutesnake.stages.predict.prediction import predict_case

    return drawn(record.convert("predict", predict_case(case), name), case.kernel, name)


def write(name: str, values: Mapping[str, Any], fetched: str, output: str) -> None:
    """Try the change of an exercise, as learning.yaml has it, and write its page."""
    exercise = Exercise(name=name, **values)
    text = fetched_source(exercise, Path(fetched))
    with tempfile.TemporaryDirectory(prefix="cutesnake-exercise-") as folder:
        result = run(exercise, exercise.edited(text), Path(fetched), Path(folder) / "work", timeline=True)
    html.write(render([(exercise, text, result)], exercise.name, f"../../{INDEX}"), output)


def write_index(goals: str, fetched: str, output: str) -> None:
    """Write the page of all exercises, with a link to each."""
    listed = [(exercise, fetched_source(exercise, Path(fetched)), None) for exercise in read_exercises(goals).values()]
    html.write(render(listed, "Learn by breaking", "learn.html"), output)


def render(listed: Sequence[tuple[Exercise, str, Result | None]], title: str, back: str) -> str:
    """Return a page of exercises: each with its source and, if any, its result."""
    shown = [{"of": exercise, "result": result, **exercise.change(text)} for exercise, text, result in listed]
    return html.template("learn_break.html.j2").render(
        **html.look(), title=title, back=back, exercises=shown, outcomes=OUTCOMES
    )


def _simulate(exercise: Exercise, operator: str, kernel: str, variant: dict[str, Any], build: Path) -> Result:
    from cutesnake.stages.simulate.simulation import simulate

    settings = {"seeds": [0], "distributions": ["randn"], "schedules": SCHEDULES, "processors": 4}
    parameters = asdict(make_workload(operator, exercise.workload))
    case = Case("correctness", operator, kernel, "sm_100a", variant, parameters, str(build), settings)
    checked = simulate(case)
    checks = (checked["metrics"] or {}).get("checks", [])
    reported = (message for check in checks for message in check.get("findings", ()))
    findings = list(
        {m.partition(": ")[2]: m.replace(f"results/fetch/{SOURCE}/{FOLDER}/", "") for m in reported}.values()
    )
    messages = [message for message in findings if not exercise.known or exercise.known not in message]
    if checked["status"] == "ok" or (findings and not messages and _right(checks)):
        return Result("right", [])
    if not messages:
        return Result("wrong", [str(checked["reason"])])
    for outcome, kind in {"hangs": ": deadlock: ", "bounds": ": out-of-bounds: "}.items():
        if any(kind in message for message in messages):
            return Result(outcome, messages)
    return Result("races", messages)


def _mirror(source: Path, target: Path, edited: str, text: str) -> None:
    """Copy `source` by links, except for the file `edited`, which holds `text`."""
    head, _, rest = edited.partition("/")
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.name != head:
            (target / path.name).symlink_to(path)
    if rest:
        _mirror(source / head, target / head, rest, text)
    else:
        (target / head).write_text(text, encoding="utf-8")


def _right(checks: list[dict[str, Any]]) -> bool:
    outputs = [output for check in checks for output in check["outputs"].values()]
    return bool(outputs) and all(output["passed"] for output in outputs)
