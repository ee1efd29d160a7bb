"""Exercises: change one line of a kernel, and let ptxsim report what becomes of it.

python -m cutesnake.learn                  # list the exercises
python -m cutesnake.learn show NAME        # the question; copies the kernel's source to edit it
python -m cutesnake.learn check NAME       # compile and simulate that copy
python -m cutesnake.learn solve NAME       # the same for the change that the exercise asks about, with the reason

Run it in the project's folder. `snakemake --cores 1 results/learn_break.html` fetches NVIDIA's kernels first.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from cutesnake.model import record
from cutesnake.report.learn.exercises import (
    OUTCOMES,
    Exercise,
    ExerciseError,
    copy_of,
    fetched_source,
    read_exercises,
    run,
    work_folder,
)
from cutesnake.report.learn.goals import GoalError
from cutesnake.stages.fetch import FetchError

MESSAGES = 3


def question(exercise: Exercise, text: str) -> str:
    """Return the question, with the line that changes."""
    change = exercise.change(text)
    return f"{exercise.ask}\n\n{exercise.file}, line {change['line']}:\n- {change['before']}\n+ {change['after']}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0, 1 if the kernel is not right, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("action", nargs="?", default="list", choices=["list", "show", "check", "solve"])
    parser.add_argument("name", nargs="?")
    options = parser.parse_args(arguments)
    try:
        exercises = read_exercises()
        if options.action == "list":
            for exercise in exercises.values():
                print(f"path {exercise.path}  {exercise.name:28} {exercise.kernel}: {exercise.ask}")
            return 0
        if options.name not in exercises:
            print(f"unknown exercise {options.name!r}; known: {', '.join(exercises)}", file=sys.stderr)
            return 2
        return _act(options.action, exercises[options.name])
    except (ExerciseError, FetchError, GoalError, record.RecordError) as error:
        print(error, file=sys.stderr)
        return 2


def _act(action: str, exercise: Exercise) -> int:
    text = fetched_source(exercise)
    copy = copy_of(exercise)
    if action == "show":
        if not copy.exists():
            record.write_text(copy, text)
        print(question(exercise, text))
        print("What will happen: right, hangs, races, wrong, or refused by the compiler?")
        print(f"Make the change in {copy}, or another one, then: python -m cutesnake.learn check {exercise.name}")
        return 0
    if action == "check":
        if not copy.exists():
            raise ExerciseError(f"{copy}: missing; make it with: python -m cutesnake.learn show {exercise.name}")
        text = copy.read_text(encoding="utf-8")
    else:
        print(question(exercise, text))
        text = exercise.edited(text)
    result = run(exercise, text, Path("results/fetch"), work_folder(exercise))
    print(f"The kernel {OUTCOMES[result.outcome]}.")
    for message in result.messages[:MESSAGES]:
        print(f"- {message}")
    if len(result.messages) > MESSAGES:
        print(f"- and {len(result.messages) - MESSAGES} more")
    if action == "solve":
        print(f"\nWhy: {exercise.why}")
    return int(result.outcome != "right")


if __name__ == "__main__":
    sys.exit(main())
